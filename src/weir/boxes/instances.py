"""Boxes of a million queries at once: a template with its constants put in.

Two passes, because a string's key is its place in a dictionary that must first know all strings of a segment:
`resolve` turns atoms and a table of constants into constraints and computes their intervals, except those of strings;
`texts` says which strings they mention; `write_boxes`, given the dictionaries, writes the boxes that are not empty.
`instantiate` does all of it for one template.

A constraint covers all rows of constants or some of them, and its attribute is the same for all its rows or one
for each (a derived attribute with params). When every constraint of a disjunct covers all rows of one attribute,
as is usual, boxes are columns side by side; otherwise constraints are sorted by (row, attribute) and merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weir.algebra.decimals import is_wide
from weir.algebra.nodes import Expression, Like, Literal, Param
from weir.algebra.schema import DataType, Kind
from weir.boxes.attributes import Attributes, constants_column
from weir.boxes.bounds import (
    BELOW_ALL,
    Bools,
    Doubles,
    Intervals,
    Ints,
    Places,
    doubles_of,
    interval,
    place,
    place_strings,
    texts_of_constants,
    undone,
    whole,
)
from weir.boxes.patterns import classify, successors
from weir.boxes.sets import Constraint, check_together, one_by_one
from weir.boxes.templates import Atom, BoxTemplate, Disjunct
from weir.boxes.value_keys import has_dictionary
from weir.errors import RegisterError
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.strings import StringDictionary, build
from weir.store.row_files import arrow_type
from weir.values.evaluate import evaluate_constants, truth_of_constants

MOVED_MAX = 1 << 60
_WRITE_IT = "compare the difference of the two columns with it: a.x - b.y < …"
_LARGE = 2.0**900  # sums of numbers and constants up to this are far from infinite
_NO_REACH = -1.0
_WHOLE_REACH = 2.0**61  # with constants up to MOVED_MAX no sum or difference leaves int64
# A bound on a difference of doubles is moved outwards by a slack. A single bound has _SLACK of its own size. Of two
# bounds each has _SLACK_MAX of their distance, or _SLACK_MIN of its own size if that is more. For rows up to
# _ROUNDED_REACH times as large as the slack, sums round by less than the slack.
_SLACK = 2.0**-16
_SLACK_MAX, _SLACK_MIN = 2.0**-6, 2.0**-26
_ROUNDED_REACH = 2.0**52


@dataclass(frozen=True, slots=True)
class Resolved:
    """A disjunct over n rows of constants: the rows for which it can hold at all, and its constraints."""

    alive: Bools
    constraints: tuple[Constraint, ...]


class RowBoxes(NamedTuple):
    """Boxes in CSR form, as `weir.index.box_tables.BoxTable` has them, but with rows of constants for slots."""

    row_of_box: Ints
    constraint_offsets: Ints
    constraint_attribute: Ints
    constraint_lo: Ints
    constraint_hi: Ints


def instantiate(
    template: BoxTemplate, constants: pa.Table, attributes: Attributes
) -> tuple[RowBoxes, dict[int, StringDictionary]]:
    """The boxes of every row of constants, rows ascending, and the dictionaries of their string attributes."""
    resolved = resolve(template, constants, attributes)
    dictionaries = dictionaries_of([texts(resolved)])
    return in_row_order(write_boxes(resolved, dictionaries)), dictionaries


def resolve(template: BoxTemplate, constants: pa.Table, attributes: Attributes) -> list[Resolved]:
    """Every disjunct with the constants put in; attributes get their numbers."""
    return [_resolve_disjunct(d, constants, attributes) for d in template.disjuncts]


def _resolve_disjunct(disjunct: Disjunct, constants: pa.Table, attributes: Attributes) -> Resolved:
    alive = np.ones(constants.num_rows, bool)
    for guard in disjunct.guards:
        alive &= truth_of_constants(guard, constants)
    constraints: list[Constraint] = []
    widths = _widths(disjunct.atoms, constants)
    for atom in disjunct.atoms:
        constraints += _resolve_atom(atom, constants, attributes, alive, widths.get(atom.attribute))
    check_together([c.counts for c in constraints if c.counts is not None])
    return Resolved(alive, tuple(constraints))


def _widths(atoms: Sequence[Atom], constants: pa.Table) -> dict[Expression, Doubles]:
    """For each guarded difference of doubles that has two bounds, how far apart they are."""
    ends: dict[Expression, dict[str, Doubles]] = {}
    for atom in atoms:
        if atom.is_guarded and atom.compared.kind is Kind.DOUBLE:
            assert atom.bound is not None
            of = ends.setdefault(atom.attribute, {})
            narrower = np.fmin if atom.op == "<=" else np.fmax
            values = doubles_of(_values(atom.bound, constants))
            of[atom.op] = narrower(of.get(atom.op, values), values)
    with np.errstate(all="ignore"):  # an infinite constant is refused when its atom is resolved
        return {e: np.maximum(of["<="] - of[">="], 0.0) for e, of in ends.items() if len(of) == 2}


def _resolve_atom(
    atom: Atom, constants: pa.Table, attributes: Attributes, alive: Bools, width: Doubles | None
) -> Iterator[Constraint]:
    """The constraints of an atom; rows whose constants are NULL leave `alive`."""
    if atom.op == "like":
        yield from _resolve_like(atom, constants, attributes, alive)
        return
    if atom.op in ("in", "not in"):
        yield from _resolve_set(atom, constants, attributes, alive)
        return
    number = attributes.numbers(atom.attribute, constants)
    everything = Intervals(np.array([KEY_MIN]), np.array([KEY_MAX]))
    if atom.op in ("known", "<>"):  # x <> c also says that x is not NULL, which only a constraint can
        yield Constraint(None, number, "known", _undo(atom, everything, constants, alive))
    if atom.bound is None:
        return
    values = _values(atom.bound, constants)
    moved = [_values(constant, constants) for constant in atom.moved]
    reach = None
    if atom.is_guarded:
        values, reach = _guarded(atom, values, moved, width)
    else:
        _check_moved(moved, MOVED_MAX)
    if values.null_count:
        alive &= values.is_valid().to_numpy(zero_copy_only=False)
    if not atom.steps and has_dictionary(atom.attribute):
        texts = texts_of_constants(values, atom.bound.type, atom.compared)
        yield Constraint(None, number, atom.op, None, texts)
        return
    places = place(values, atom.bound.type, atom.compared)
    found = interval("=" if atom.op == "<>" else atom.op, places)
    yield Constraint(None, number, atom.op, _undo(atom, found, constants, alive), reach=reach)


def _guarded(
    atom: Atom, bounds: pa.Array, moved: Sequence[pa.Array], width: Doubles | None
) -> tuple[pa.Array, Doubles]:
    """The bounds of a difference, moved outwards where sums round, and how large rows may be for them to be right."""
    if atom.compared.kind is not Kind.DOUBLE:
        _check_moved(moved, 4 * MOVED_MAX)
        sizes = (np.abs(constants.fill_null(0).to_numpy()) for constants in moved)
        return bounds, np.where(reduce(np.maximum, sizes, np.zeros(1)) <= MOVED_MAX, _WHOLE_REACH, _NO_REACH)
    values = doubles_of(bounds)
    size = np.abs(values)
    reach = np.where(size <= _LARGE, _LARGE, _NO_REACH)
    if not atom.has_slack:
        return bounds, reach
    with np.errstate(all="ignore"):
        slack = size * _SLACK if width is None else np.maximum(size * _SLACK_MIN, width * _SLACK_MAX)
        slack = np.where(size > 0, slack, 0.0)  # nothing rounds when 0 is added
        outwards = values + slack if atom.op == "<=" else values - slack
    reach = np.where(size > 0, np.minimum(np.minimum(slack, _LARGE) * _ROUNDED_REACH, reach), reach)
    return pa.array(outwards, mask=~bounds.is_valid().to_numpy(zero_copy_only=False)), reach


def _check_moved(moved: Sequence[pa.Array], most: int) -> None:
    """Refuse constants so large that sums with them overflow: on the other side they would mean something else."""
    for values in moved:
        if pa.types.is_floating(values.type):
            if not np.isfinite(values.drop_null().to_numpy()).all():
                raise RegisterError("a constant beside a column of another source is infinite or NaN", hint=_WRITE_IT)
            continue
        numbers = values.cast(pa.int64()) if not pa.types.is_duration(values.type) else values.view(pa.int64())
        known = numbers.drop_null().to_numpy(zero_copy_only=False)
        if len(known) and max(abs(int(known.min())), abs(int(known.max()))) > most:
            raise RegisterError(f"a constant beside a column of another source is beyond ±{most:,}", hint=_WRITE_IT)


def _values(bound: Expression, constants: pa.Table) -> pa.Array:
    """A bound's values: one for each row, or a single one if it is a literal."""
    if isinstance(bound, Param):
        return constants_column(constants, bound)
    if isinstance(bound, Literal):
        return evaluate_constants(bound, constants.slice(0, 1)) if constants.num_rows else _empty(bound.type)
    return evaluate_constants(bound, constants)


def _empty(type_: DataType) -> pa.Array:
    return pa.array([], arrow_type(type_))


def _undo(atom: Atom, found: Intervals, constants: pa.Table, alive: Bools) -> Intervals:
    """An interval of what is compared, solved for the attribute."""
    if atom.compared.kind is Kind.BOOLEAN:
        found = _within(found, 0, 1)
    for step in atom.steps:
        found = _within(found, *_range(step.result))
        values = _values(step.constant, constants)
        amount: Places = whole(values, step.constant.type, step.factor, step.divisor)
        if values.null_count or not amount.exact.all():
            alive &= amount.exact & values.is_valid().to_numpy(zero_copy_only=False)
        found = undone(step.kind, found, np.where(amount.exact, amount.floor, 1))
    return found


def _range(type_: DataType) -> tuple[int, int]:
    """The keys of a type's values."""
    if type_.kind is Kind.DECIMAL:
        if is_wide(type_):  # as a step it has not left 64 bits
            return KEY_MIN, KEY_MAX
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if type_.bits < 64:
        return -(1 << type_.bits - 1), (1 << type_.bits - 1) - 1
    return KEY_MIN, KEY_MAX


def _within(found: Intervals, lo: int, hi: int) -> Intervals:
    return Intervals(np.maximum(found.lo, lo), np.minimum(found.hi, hi))


def _resolve_like(atom: Atom, constants: pa.Table, attributes: Attributes, alive: Bools) -> Iterator[Constraint]:
    """Texts and prefixes constrain the column itself, all other patterns an attribute of their own."""
    assert isinstance(atom.bound, (Literal, Param))
    patterns = _values(atom.bound, constants)
    if patterns.null_count:
        alive &= patterns.is_valid().to_numpy(zero_copy_only=False)
        patterns = patterns.fill_null("")
    single = len(patterns) == 1 and len(alive) != 1
    classes = classify(patterns)
    number = attributes.number(atom.attribute)

    def some(mask: Bools) -> Ints | None:
        return None if single or mask.all() else np.flatnonzero(mask)

    if classes.exact.any():
        yield Constraint(some(classes.exact), number, "=", None, classes.text.filter(pa.array(classes.exact)))
    if classes.prefix.any():
        prefixes = classes.text.filter(pa.array(classes.prefix))
        ends = successors(prefixes)
        yield Constraint(some(classes.prefix), number, ">=", None, prefixes)
        ended = classes.prefix.copy()
        ended[ended] = ends.is_valid().to_numpy(zero_copy_only=False)
        if ended.any():
            yield Constraint(some(ended), number, "<", None, ends.drop_null())
    rest = ~(classes.exact | classes.prefix)
    if rest.any():
        rows = some(rest)
        at = constants if rows is None else constants.take(pa.array(rows))
        numbers = attributes.numbers(Like(atom.attribute, atom.bound), at)
        yield Constraint(rows, numbers, "=", Intervals(np.array([1]), np.array([1])))


def _resolve_set(atom: Atom, constants: pa.Table, attributes: Attributes, alive: Bools) -> Iterator[Constraint]:
    """Every item is a key; a NULL among them is equal to nothing, and leaves nothing that is known to be outside."""
    assert isinstance(atom.bound, (Literal, Param))
    number = attributes.number(atom.attribute)
    lists = _values(atom.bound, constants)
    if len(lists) == 1 and len(alive) != 1:
        lists = lists.take(pa.array(np.zeros(len(alive), np.int64)))
    items = lists.flatten()
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    known = items.is_valid().to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(alive)), sizes)
    counts = np.bincount(owner[known], minlength=len(alive))
    if atom.op == "not in":
        alive &= counts == sizes
        yield Constraint(None, number, "known", Intervals(np.array([KEY_MIN]), np.array([KEY_MAX])))
    items = items.drop_null()
    if has_dictionary(atom.attribute):
        items = texts_of_constants(items, atom.bound.type.item, atom.compared)
        yield Constraint(None, number, atom.op, None, items, counts)
    else:
        found = interval("=", place(items, atom.bound.type.item, atom.compared))
        yield Constraint(None, number, atom.op, found, None, counts)


def texts(resolved: Iterable[Resolved]) -> Iterator[tuple[int, pa.Array]]:
    """The strings that each attribute is compared with."""
    for disjunct in resolved:
        for constraint in disjunct.constraints:
            if constraint.strings is not None:
                assert isinstance(constraint.attribute, int), "strings are compared with one attribute"
                yield constraint.attribute, constraint.strings


def dictionaries_of(mentioned: Iterable[Iterable[tuple[int, pa.Array]]]) -> dict[int, StringDictionary]:
    """One sorted dictionary for each attribute that is compared with strings."""
    by_attribute: dict[int, list[pa.Array]] = {}
    for pairs in mentioned:
        for number, strings in pairs:
            by_attribute.setdefault(number, []).append(strings.unique().drop_null())
    return {number: build(pa.concat_arrays(parts)) for number, parts in by_attribute.items()}


def write_boxes(resolved: Sequence[Resolved], dictionaries: Mapping[int, StringDictionary]) -> list[RowBoxes]:
    """The boxes that are not empty; rows ascend within each element of the list."""
    found = []
    for disjunct in resolved:
        count = len(disjunct.alive)
        keyed = [_keyed(c, dictionaries) for c in disjunct.constraints]
        kept = [c for c in keyed if c.op != "<>"]
        excluded: dict[int, list[Intervals]] = {}
        for c in keyed:
            if c.op == "<>":
                assert isinstance(c.attribute, int)
                assert c.intervals is not None
                excluded.setdefault(c.attribute, []).append(c.intervals)
        choices = [[(number, gap) for gap in _gaps(cuts, count)] for number, cuts in excluded.items()]
        for choice in product(*choices):
            gaps = [Constraint(None, number, "gap", gap) for number, gap in choice]
            found.append(_box_of_each_row(disjunct.alive, [*kept, *gaps]))
    return found


def _keyed(c: Constraint, dictionaries: Mapping[int, StringDictionary]) -> Constraint:
    if c.strings is None:
        return c
    assert isinstance(c.attribute, int)
    op = "=" if c.op in ("<>", "in", "not in") else c.op
    return replace(c, intervals=interval(op, place_strings(c.strings, dictionaries[c.attribute])), strings=None)


def _gaps(cuts: Sequence[Intervals], count: int) -> list[Intervals]:
    """What k excluded intervals leave of the keys, for every row: k + 1 intervals, some of them empty."""
    shape = (count, len(cuts))
    lo, hi = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for k, cut in enumerate(cuts):
        nothing = cut.lo > cut.hi
        lo[:, k] = np.where(nothing, BELOW_ALL, cut.lo)
        hi[:, k] = np.where(nothing, BELOW_ALL, cut.hi)
    order = np.argsort(lo, axis=1, kind="stable")
    lo = np.take_along_axis(lo, order, axis=1)
    reached = np.maximum.accumulate(np.take_along_axis(hi, order, axis=1), axis=1)
    gaps = []
    for k in range(len(cuts) + 1):
        begin = np.full(count, KEY_MIN) if k == 0 else np.minimum(reached[:, k - 1], KEY_MAX - 1) + 1
        end = np.full(count, KEY_MAX) if k == len(cuts) else np.maximum(lo[:, k], KEY_MIN) - 1
        if k:
            end = np.where(reached[:, k - 1] == KEY_MAX, BELOW_ALL, end)
        gaps.append(Intervals(begin, end))
    return gaps


def _box_of_each_row(alive: Bools, constraints: Sequence[Constraint]) -> RowBoxes:
    lists = [c for c in constraints if c.counts is not None]
    if lists:
        others = [c for c in constraints if c is not lists[0]]
        owner, single, others = one_by_one(len(alive), lists[0], others)
        boxes = _box_of_each_row(alive[owner], [*others, single])
        return boxes._replace(row_of_box=owner[boxes.row_of_box])
    if all(c.rows is None and isinstance(c.attribute, int) for c in constraints):
        return _side_by_side(alive, constraints)
    return _merged(alive, constraints)


def _side_by_side(alive: Bools, constraints: Sequence[Constraint]) -> RowBoxes:
    """Every constraint covers all rows: intersect by attribute, then lay the columns out box by box."""
    by_attribute: dict[int, Intervals] = {}
    for c in constraints:
        assert isinstance(c.attribute, int)
        assert c.intervals is not None
        lo, hi = c.intervals
        if c.attribute in by_attribute:
            earlier = by_attribute[c.attribute]
            lo, hi = np.maximum(lo, earlier.lo), np.minimum(hi, earlier.hi)
        by_attribute[c.attribute] = Intervals(lo, hi)
    fits = alive
    for lo, hi in by_attribute.values():
        fits = fits & (lo <= hi)
    rows = np.flatnonzero(fits)
    numbers = sorted(by_attribute)
    size = (len(rows), len(numbers))
    lows, highs = np.empty(size, np.int64), np.empty(size, np.int64)
    for k, number in enumerate(numbers):
        lo, hi = by_attribute[number]
        lows[:, k] = lo[rows] if len(lo) == len(alive) else lo
        highs[:, k] = hi[rows] if len(hi) == len(alive) else hi
    offsets = np.arange(len(rows) + 1) * len(numbers)
    return RowBoxes(rows, offsets, np.tile(np.array(numbers, np.int64), len(rows)), lows.ravel(), highs.ravel())


def _merged(alive: Bools, constraints: Sequence[Constraint]) -> RowBoxes:
    """Constraints of some rows or of varying attributes: sort by (row, attribute) and intersect neighbours."""
    count = len(alive)
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    for c in constraints:
        assert c.intervals is not None
        rows = np.arange(count) if c.rows is None else c.rows
        parts.append((rows, *(np.broadcast_to(x, rows.shape) for x in (c.attribute, *c.intervals))))  # type: ignore[arg-type]  # four arrays
    row, attribute, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((attribute, row))
    row, attribute, lo, hi = row[order], attribute[order], lo[order], hi[order]
    first = np.flatnonzero(np.r_[True, (row[1:] != row[:-1]) | (attribute[1:] != attribute[:-1])])
    lo, hi = np.maximum.reduceat(lo, first), np.minimum.reduceat(hi, first)
    row, attribute = row[first], attribute[first]
    fits = alive.copy()
    fits[row[lo > hi]] = False
    kept = fits[row]
    rows = np.flatnonzero(fits)
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(row[kept], minlength=count)[rows], out=offsets[1:])
    return RowBoxes(rows, offsets, attribute[kept], lo[kept], hi[kept])


def in_row_order(parts: Sequence[RowBoxes]) -> RowBoxes:
    """All boxes with rows ascending; those of one row keep their order."""
    if len(parts) == 1 and bool(np.all(parts[0].row_of_box[1:] >= parts[0].row_of_box[:-1])):
        return parts[0]
    if not parts:
        nothing = np.empty(0, np.int64)
        return RowBoxes(nothing, np.zeros(1, np.int64), nothing, nothing, nothing)
    row = np.concatenate([p.row_of_box for p in parts])
    counts = np.concatenate([np.diff(p.constraint_offsets) for p in parts])
    starts = np.cumsum(counts) - counts
    order = np.argsort(row, kind="stable")
    offsets = np.zeros(len(row) + 1, np.int64)
    np.cumsum(counts[order], out=offsets[1:])
    at = np.repeat(starts[order] - offsets[:-1], counts[order]) + np.arange(offsets[-1])
    attribute, lo, hi = (np.concatenate([p[k] for p in parts])[at] for k in (2, 3, 4))
    return RowBoxes(row[order], offsets, attribute, lo, hi)
