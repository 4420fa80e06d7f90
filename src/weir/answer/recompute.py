"""Recompute: a query evaluated over kept rows from scratch.

This is the second implementation of every family: it evaluates the condition itself and never sees boxes, keys or
indexes. It answers demoted queries, rows older than a query's registration, and it checks the matches.

A selection is one pass over the row files that its window meets. A join first cuts each source down to the rows
that its window shows and that satisfy the conditions about this source alone. Then the equations between the two
sources are used to find candidates: the values on both sides are mapped to codes such that equal values have equal
codes (not always the other way round: numbers of different types meet as doubles), the second source is sorted by
code, and each row of the first looks up its run. The conditions themselves decide about every candidate, so that
what equality means (NULL, NaN, −0.0, mixed types) is said in one place, `weir.families.comparisons`.

More than two sources are joined one by one, each time the smallest of those that an equation connects with what is
there; a condition is applied as soon as all its sources are.

Cost: a few nanoseconds a row and predicate. A join sorts its rows and takes about 100 ns a candidate, in blocks,
so that memory follows the rows and the results, not the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import And, ColumnRef, Comparison, Expression, Not, Or, conjunction, walk
from weir.algebra.schema import DataType, Kind
from weir.answer.views import Ids, View, columns_of, joined_table, qualified
from weir.answer.window import ANY, Apart
from weir.errors import FetchError
from weir.families.columns import DAY_US, column_operand, to_double
from weir.families.evaluate import evaluate, truth

CANDIDATES_BLOCK = 1 << 20
COMBINATIONS_MAX = 20_000_000  # of a join of many sources, at any step


def recompute(
    condition: Expression | None,
    constants: Mapping[str, object],
    views: Sequence[View],
    *,
    batches_below: int | None = None,
    apart: Apart = ANY,
    results_max: int | None = None,
) -> Ids | None:
    """The results among the rows that the views show (and that came before a batch); a selection's ascend.

    `apart` leaves out pairs that lie too far apart in time for any moment to show them. None when a join has more
    results than `results_max`.
    """
    own: list[list[Expression]] = [[] for _ in views]
    across: list[Expression] = []
    for term in () if condition is None else _terms(condition, True):
        sources = _sources(term)
        (across if len(sources) > 1 else own[next(iter(sources), 0)]).append(term)
    rows = [_rows(view, terms, constants, batches_below) for view, terms in zip(views, own, strict=True)]
    if len(views) == 1:
        return (rows[0],)
    if not all(map(len, rows)):
        return (np.empty(0, np.int64),) * len(views)
    if len(views) > 2:
        return _many(across, constants, views, rows)
    sides = [columns_of(source, view, ids, across) for source, (view, ids) in enumerate(zip(views, rows, strict=True))]
    condition = qualified(conjunction(across)) if across else None
    codes = _codes(across, sides, constants)
    times = None if apart == ANY else [view.kept.times(ids) for view, ids in zip(views, rows, strict=True)]
    found: list[Ids] = [(np.empty(0, np.int64),) * 2]
    count = 0
    for places in _candidates(codes, times, apart):
        if condition is not None:
            true = truth(condition, joined_table(sides, places), constants)
            places = tuple(at[true] for at in places)
        found.append(tuple(ids[at] for ids, at in zip(rows, places, strict=True)))
        count += len(places[0])
        if results_max is not None and count > results_max:
            return None
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))


def _many(
    across: Sequence[Expression], constants: Mapping[str, object], views: Sequence[View], rows: Sequence[np.ndarray]
) -> Ids:
    """The results of a join of many sources: row ids of each."""
    sides = [columns_of(source, view, ids, across) for source, (view, ids) in enumerate(zip(views, rows, strict=True))]
    equations = [(pair, sources) for term in across for pair, sources in _equations(term)]
    start = min(range(len(views)), key=lambda k: len(rows[k]))
    places: dict[int, np.ndarray] = {start: np.arange(len(rows[start]))}
    waiting = list(across)
    while len(places) < len(views):
        near = {next(iter(s - places.keys())) for _, s in equations if len(s - places.keys()) == 1}
        assert near, "equalities connect all sources"
        added = min(near, key=lambda k: len(rows[k]))
        usable = [pair for pair, s in equations if s - places.keys() == {added}]
        known = [w for w in waiting if _sources(w) <= places.keys() | {added}]
        waiting = [w for w in waiting if w not in known]
        places = _with_source(places, added, usable, known, sides, constants)
    return tuple(rows[k][places[k]] for k in range(len(views)))


def _equations(term: Expression) -> Iterator[tuple[tuple[Expression, Expression], set[int]]]:
    """The two sides of an equation between two sources, and which these are."""
    op = "="
    if isinstance(term, Not):
        term, op = term.arg, "<>"
    if isinstance(term, Comparison) and term.op == op:
        left, right = _sources(term.left), _sources(term.right)
        if len(left) == len(right) == 1 and left != right:
            yield (term.left, term.right), left | right


def _with_source(
    places: Mapping[int, np.ndarray],
    added: int,
    equations: Sequence[tuple[Expression, Expression]],
    conditions: Sequence[Expression],
    sides: Sequence[pa.Table],
    constants: Mapping[str, object],
) -> dict[int, np.ndarray]:
    """The combinations so far with rows of one more source, in which the equations and conditions hold."""
    there = list(places)
    codes = _Codes(np.zeros(len(places[there[0]]), np.int64), np.zeros(sides[added].num_rows, np.int64))
    for left, right in equations:
        old, new = (right, left) if _sources(left) == {added} else (left, right)
        source = next(iter(_sources(old)))
        values = evaluate(qualified(old), sides[source], constants).take(pa.array(places[source]))
        more = _equal_codes([values, evaluate(qualified(new), sides[added], constants)], [old.type, new.type])
        codes = _both(codes, more)
    condition = qualified(conjunction(conditions)) if conditions else None
    found: list[tuple[np.ndarray, ...]] = [(np.empty(0, np.int64),) * (len(there) + 1)]
    count = 0
    for at, of_added in _candidates(codes, None, ANY):
        combined = [*(places[k][at] for k in there), of_added]
        if condition is not None:
            true = truth(condition, joined_table([sides[k] for k in (*there, added)], combined), constants)
            combined = [one[true] for one in combined]
        found.append(tuple(combined))
        count += len(combined[0])
        if count > COMBINATIONS_MAX:
            raise FetchError(
                f"joining {len(there) + 1} of {len(sides)} sources gives more than {COMBINATIONS_MAX:,} combinations",
                hint="add conditions or shorten the windows",
            )
    return dict(zip((*there, added), (np.concatenate(c) for c in zip(*found, strict=True)), strict=True))


def _terms(e: Expression, wanted: bool) -> Iterator[Expression]:
    """Conditions that are all true exactly where `e` is true (or false, if that is wanted)."""
    if isinstance(e, Not):
        yield from _terms(e.arg, not wanted)
    elif (isinstance(e, And) and wanted) or (isinstance(e, Or) and not wanted):
        for arg in e.args:
            yield from _terms(arg, wanted)
    else:
        yield e if wanted else Not(e)


def _sources(e: Expression) -> set[int]:
    return {part.source for part in walk(e) if isinstance(part, ColumnRef)}


def _rows(
    view: View, terms: Sequence[Expression], constants: Mapping[str, object], batches_below: int | None
) -> np.ndarray:
    """Ascending ids of the rows of one source that the view shows and for which all terms are true."""
    predicate = conjunction(terms) if terms else None
    found = [np.empty(0, np.int64)]
    for first_row, table, times in view.kept.scan(view.cut, batches_below=batches_below):
        mask = view.kept.inside(view.cut, times)
        if predicate is not None and mask.any():
            mask &= truth(predicate, table, constants)
        found.append(np.flatnonzero(mask) + first_row)
    return view.counted(np.concatenate(found))


class _Codes(NamedTuple):
    """By row of each source a number; rows that are equal by all equations have the same one."""

    first: np.ndarray  # int64[rows of the first source]; −1: equal to nothing
    second: np.ndarray


def _codes(across: Sequence[Expression], sides: Sequence[pa.Table], constants: Mapping[str, object]) -> _Codes:
    codes = _Codes(*(np.zeros(side.num_rows, np.int64) for side in sides))
    for term in across:
        equation = _equation(term)
        if equation is None:
            continue
        values = [evaluate(qualified(e), side, constants) for e, side in zip(equation, sides, strict=True)]
        codes = _both(codes, _equal_codes(values, [e.type for e in equation]))
    return codes


def _both(codes: _Codes, more: _Codes) -> _Codes:
    """Codes of rows that are equal by both; small again, so that no number of equations overflows."""
    count = max(0, *(int(c.max(initial=-1)) for c in more)) + 1
    return _dense(*(np.where((a < 0) | (b < 0), -1, a * count + b) for a, b in zip(codes, more, strict=True)))


def _equation(term: Expression) -> tuple[Expression, Expression] | None:
    """The two sides of an equation between the sources, that of the first source first."""
    op = "="
    if isinstance(term, Not):
        term, op = term.arg, "<>"
    if not isinstance(term, Comparison) or term.op != op:
        return None
    sources = _sources(term.left), _sources(term.right)
    if sources == ({0}, {1}):
        return term.left, term.right
    return (term.right, term.left) if sources == ({1}, {0}) else None


def _equal_codes(values: Sequence[pa.Array], types: Sequence[DataType]) -> _Codes:
    if any(t.kind is Kind.NULL for t in types):
        return _Codes(*(np.full(len(v), -1, np.int64) for v in values))
    if types[0].kind is Kind.STRING:
        together = pa.concat_arrays([v.cast(pa.large_string()) for v in values])  # of any length
        code = together.dictionary_encode().indices.cast(pa.int64()).fill_null(-1).to_numpy()
        return _Codes(code[: len(values[0])], code[len(values[0]) :])
    return _dense(*(_doubles(v, t) for v, t in zip(values, types, strict=True)))


def _doubles(values: pa.Array, type_: DataType) -> np.ndarray:
    """The nearest doubles, in units that are the same for all types that can be equal, as bits; −1 for NULL.

    The bits −1 are a NaN that no value has: all NaN are made one, and −0.0 becomes 0.0.
    """
    operand = column_operand(values, type_)
    with np.errstate(all="ignore"):  # what stands where a value is NULL means nothing
        doubles = to_double(operand) + 0.0
    if type_.kind is Kind.DATE:
        doubles *= DAY_US
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    return bits if operand.valid is None else np.where(operand.valid, bits, -1)


def _dense(first: np.ndarray, second: np.ndarray) -> _Codes:
    """Codes 0, 1, … for equal numbers; −1 stays −1."""
    distinct, code = np.unique(np.concatenate([first, second]), return_inverse=True)
    code = np.where(distinct == -1, -1, np.arange(len(distinct)))[code]
    return _Codes(code[: len(first)], code[len(first) :])


def _candidates(codes: _Codes, times: Sequence[np.ndarray] | None, apart: Apart) -> Iterator[Ids]:
    """Places of pairs with equal codes that are not too far apart, block by block.

    The second source is sorted by (code, time), so that the candidates of a row of the first are one run.
    """
    known = [np.flatnonzero(c >= 0) for c in codes]
    first, second = (c[at] for c, at in zip(codes, known, strict=True))
    clock = np.zeros(1, np.int64)  # distinct times of the second source, ascending; without times all are one
    rank = np.zeros(len(second), np.int64)
    low = np.zeros(len(first), np.int64)  # of each row of the first, the ranks of its candidates: low <= rank < high
    high = np.ones(len(first), np.int64)
    if times is not None:
        clock, rank = np.unique(times[1][known[1]], return_inverse=True)
        high *= len(clock)
        since = times[0][known[0]]
        if apart.least_us is not None:
            low = np.searchsorted(clock, _shifted(since, apart.least_us), side="left")
        if apart.most_us is not None:
            high = np.searchsorted(clock, _shifted(since, apart.most_us), side="right")
    width = len(clock) + 1
    key = second * width + rank
    order = np.argsort(key, kind="stable")
    key = key[order]
    begin = np.searchsorted(key, first * width + low)
    end = np.searchsorted(key, first * width + np.maximum(low, high))
    offsets = np.concatenate([[0], np.cumsum(end - begin)])
    for start in range(0, int(offsets[-1]), CANDIDATES_BLOCK):
        pair = np.arange(start, min(start + CANDIDATES_BLOCK, int(offsets[-1])))
        at = np.searchsorted(offsets, pair, side="right") - 1
        yield known[0][at], known[1][order[begin[at] + pair - offsets[at]]]


def _shifted(times: np.ndarray, by_us: int) -> np.ndarray:
    """Sums that stay within int64."""
    low, high = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
    by = max(low, min(by_us, high))
    return np.asarray(np.clip(times, low - min(by, 0), high - max(by, 0)) + by)
