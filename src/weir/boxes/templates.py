"""Predicates as boxes: from a WHERE with params to a template, from a template and constants to boxes.

NOT is pushed down in three-valued logic: what is asked of each part is that it *is true* or *is false*, and a
comparison is false exactly when its opposite is true (NULL is neither). AND over OR is distributed, under a cap.
The result is a disjunction of conjunctions of atoms, each one a constraint on one attribute:

    price < :c0             the column price, an interval whose end comes from the constants
    i * 2 + :c0 < 9         the column i: whole numbers, decimals and times are solved for the column, exactly
    d * :c0 < 5             the derived attribute d * c0, one for each distinct constant
    s LIKE :c0              the column s for texts and prefixes, else a boolean derived attribute
    a < b, x IS NULL, …     a boolean derived attribute that must be 1 (or 0)
    abs(r.a - s.a) <= :c0   the attribute r.a − s.a of pairs of rows, from −c0 to c0
    r.t < s.t + :c0         the attribute r.t − s.t of pairs of rows (`weir.boxes.two_sources`)
    r.d < s.d + :c0         of doubles: the least c0 that makes it true, an attribute of pairs; and r.d − s.d as a hint
    x IS NOT NULL           the column, any value
    x IN (:c0)              the column, a box for each item of the list; NOT IN one for each gap between them
    x <> :c0 AND x <> :c1   the column, k + 1 gaps between the k excluded intervals; not 2^k boxes

Atoms on one attribute intersect. A part without columns is a guard: a row of constants for which it is not true has no
box. A NULL constant satisfies no atom; an always-true predicate is one box without constraints, an always-false one
none. Boxes of one query may overlap: kernels remove duplicates.

Cost: one pass over the predicate, then a few NumPy passes over the constants for each atom; no Python for each
query. ARCHITECTURE.md, "From predicate to index"; PSoup 4.2.2 has the predicates, CSJQ section 3 the boxes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain, product

import pyarrow as pa

from weir.algebra import nodes
from weir.algebra.decimals import is_wide
from weir.algebra.nodes import Comparison, Expression, Literal, Negate, Not
from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, DataType, Kind
from weir.boxes.attributes import is_constant, params_of, sources_of
from weir.boxes.bounds import DAY_US, comparable
from weir.boxes.two_sources import MIRRORED, Rounded, difference, rounded
from weir.boxes.value_keys import fits_key, has_dictionary
from weir.errors import RegisterError
from weir.values.evaluate import truth

OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
NAN = Literal(float("nan"), DOUBLE)
TRUE, FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
_WHOLE = (Kind.INT, Kind.BIGINT, Kind.DECIMAL)
_TIMES = (Kind.TIMESTAMP, Kind.INTERVAL)
_NO_ROW = pa.table({"none": [0]})


@dataclass(frozen=True, slots=True)
class Step:
    """One operation between an attribute x and what is compared, with a constant c = constant·factor/divisor."""

    kind: str  # x + c, x - c, c - x, x * c, x // c
    constant: Expression
    result: DataType  # a result outside this type is NULL
    factor: int = 1
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class Atom:
    """A constraint on one attribute: `attribute`, taken through `steps`, op `bound`."""

    # Atoms are looked up to find equal ones; op and bound nearly always tell them apart, so only these are hashed.
    attribute: Expression = field(hash=False)
    op: str  # = <> < <= > >= like, in, not in, or known (not NULL)
    meaning: Expression = field(hash=False)  # the part of the predicate that it stands for
    bound: Expression | None = None
    compared: DataType = field(default=BOOLEAN, hash=False)  # the type of what is compared with the bound
    steps: tuple[Step, ...] = field(default=(), hash=False)  # the outermost first
    moved: tuple[Expression, ...] = field(default=(), hash=False)  # to the other side of op: must not be too large
    is_guarded: bool = False  # it says what it means only while the rows' numbers are not too large
    has_slack: bool = False  # the bound is moved outwards, because sums of doubles round


@dataclass(frozen=True, slots=True)
class Disjunct:
    """A conjunction: every guard must be true of the constants, and every atom hold."""

    guards: tuple[Expression, ...]
    atoms: tuple[Atom, ...]

    def boxes_count(self) -> int:
        """1, or with <> the number of ways to pick a gap for each attribute that has excluded values."""
        excluded: dict[Expression, int] = {}
        for atom in self.atoms:
            if atom.op == "<>":
                excluded[atom.attribute] = excluded.get(atom.attribute, 0) + 1
        count = 1
        for k in excluded.values():
            count *= k + 1
        return count


@dataclass(frozen=True, slots=True)
class BoxTemplate:
    """The boxes of all queries of one shape, with the constants left open."""

    disjuncts: tuple[Disjunct, ...]

    @property
    def boxes_count(self) -> int:
        """How many boxes a query of this shape has at most."""
        return sum(d.boxes_count() for d in self.disjuncts)


_Term = Atom | Expression  # an expression is a guard
_Terms = tuple[_Term, ...]


def template(predicate: Expression | None, boxes_max: int, *, hints: bool = False) -> BoxTemplate:
    """The template of a predicate (None: every row); RegisterError when it needs more than `boxes_max` boxes.

    With `hints`, boxes also constrain differences that follow from comparisons of doubles or bigints of two sources,
    for joins that nothing else can reach. Such constraints are guarded.
    """
    found = [()] if predicate is None else _Writer(boxes_max, hints).terms(predicate, True)
    disjuncts = []
    for terms in dict.fromkeys(found):
        atoms = tuple(t for t in terms if isinstance(t, Atom))
        disjuncts.append(Disjunct(tuple(t for t in terms if not isinstance(t, Atom)), atoms))
    made = BoxTemplate(tuple(disjuncts))
    if made.boxes_count > boxes_max:
        raise _too_many(made.boxes_count, boxes_max)
    return made


def _too_many(count: int, boxes_max: int) -> RegisterError:
    return RegisterError(
        f"the WHERE clause needs {count:,} or more boxes once OR, IN and <> are written out, "
        f"at most {boxes_max} are allowed",
        hint="register it as several queries, or raise the setting boxes_per_query_max",
    )


class _Writer:
    """Writes a predicate out as a disjunction of conjunctions, never longer than the cap."""

    def __init__(self, boxes_max: int, hints: bool) -> None:
        self.boxes_max = boxes_max
        self.hints = hints

    def terms(self, e: Expression, wanted: bool) -> list[_Terms]:
        """The ways in which `e` is true (wanted), or false."""
        if isinstance(e, Not):
            return self.terms(e.arg, not wanted)
        if isinstance(e, (nodes.And, nodes.Or)) and not is_constant(e):
            parts = (self.terms(arg, wanted) for arg in e.args)
            return self._all(parts) if isinstance(e, nodes.And) == wanted else self._any(parts)
        if is_constant(e):
            return _guard(e if wanted else Not(e))
        if isinstance(e, Comparison):
            return _comparison(e, wanted, self.hints)
        if isinstance(e, nodes.IsNull) and not wanted and e.arg.type.kind is not Kind.PAYLOAD:  # payloads have no keys
            attribute, steps = _solved(e.arg)
            return [(Atom(attribute, "known", Not(e), None, e.arg.type, steps),)]
        if isinstance(e, nodes.InSet) and not params_of(e.arg):
            op, meaning = ("in", e) if wanted else ("not in", Not(e))
            return [(Atom(e.arg, op, meaning, e.items, e.arg.type),)]
        if isinstance(e, nodes.Like) and wanted and not params_of(e.arg):
            return [(Atom(e.arg, "like", e, e.pattern),)]
        return _boolean(e, wanted)

    def _any(self, parts: Iterable[list[_Terms]]) -> list[_Terms]:
        found = list(dict.fromkeys(chain.from_iterable(parts)))
        if () in found:
            return [()]  # one part is always true
        return self._capped(found, len(found))

    def _all(self, parts: Iterable[list[_Terms]]) -> list[_Terms]:
        by_length = sorted(parts, key=len)  # a part that is never true comes first: nothing is multiplied in vain
        if by_length and not by_length[0]:
            return []
        single = [ways[0] for ways in by_length if len(ways) == 1]
        found: list[_Terms] = [tuple(dict.fromkeys(chain.from_iterable(single)))]
        for ways in by_length[len(single) :]:
            self._capped(found, len(found) * len(ways))
            found = list(dict.fromkeys(tuple(dict.fromkeys(a + b)) for a, b in product(found, ways)))
        return found

    def _capped(self, found: list[_Terms], count: int) -> list[_Terms]:
        if count > self.boxes_max:
            raise _too_many(count, self.boxes_max)
        return found


def _guard(e: Expression) -> list[_Terms]:
    if params_of(e):
        return [(e,)]
    return [()] if truth(e, _NO_ROW)[0] else []


def _boolean(e: Expression, wanted: bool) -> list[_Terms]:
    return [(Atom(e, "=", e if wanted else Not(e), TRUE if wanted else FALSE),)]


def _comparison(e: Comparison, wanted: bool, hints: bool) -> list[_Terms]:
    op, left, right = e.op if wanted else OPPOSITE[e.op], e.left, e.right
    if is_constant(left):
        op, left, right = MIRRORED[op], right, left
    if right.type.kind is Kind.NULL and is_constant(right):
        return []
    if not is_constant(right) and (double := rounded(op, left, right)) is not None:
        return _doubles(double, e if wanted else Not(e), hints) if hints or double.c else _boolean(e, wanted)
    moved: tuple[Expression, ...] = ()
    is_guarded = False
    found = None if is_constant(right) else difference(op, left, right)
    # A guarded comparison without constants needs no difference: as it stands it is one boolean attribute.
    if found is not None and (hints or found.constants or not found.is_guarded):
        op, left, right, moved, is_guarded = found
    if not is_constant(right) or not comparable(left.type, right.type):
        return _boolean(e, wanted)
    if (inner := nodes.absolute_of(left)) is not None and op in ("<", "<=") and len(sources_of(left)) > 1:
        below = _interval(inner, op, inner, right, ())
        above = _interval(inner, MIRRORED[op], inner, Negate(right, right.type), ())
        if right.type.kind is not Kind.DOUBLE:
            return [(below, above)]
        # NaN is above all numbers, but −NaN is not below them.
        ordinary, odd = (_guard(Comparison(c, right, NAN)) for c in ("<", "="))
        return [(*guards, below, above) for guards in ordinary] + [(*guards, below) for guards in odd]
    attribute, steps = _solved(left)
    open_attribute = bool(params_of(attribute))
    if open_attribute and not steps and has_dictionary(left):
        return _boolean(e, wanted)  # one dictionary belongs to one attribute
    if op == "<>" and open_attribute:
        return [(_interval(attribute, half, left, right, steps),) for half in "<>"]
    return [(replace(_interval(attribute, op, left, right, steps), moved=moved, is_guarded=is_guarded),)]


def _doubles(of: Rounded, meaning: Expression, hints: bool) -> list[_Terms]:
    """A comparison of doubles of two sources, as a bound on its constant: the `Threshold` where its truth changes."""
    ops = {"=": ("<=", ">=")}.get(of.op, (of.op,))
    found: list[Atom] = [_hint(of, op) for op in ops if hints and op != "<>"]
    if of.c is None:
        return [(*found, Atom(Comparison(of.op, of.a, of.b), "=", meaning, TRUE))]
    if of.op == "<>":
        return [terms for op in "<>" for terms in _doubles(of._replace(op=op), meaning, False)]
    for op in ops:
        # a < b + c is true from some c on; a >= b + c below that.
        attribute = nodes.Threshold("<" if op in ("<", ">=") else "<=", of.a, of.b)
        found.append(Atom(attribute, "<=" if op in ("<", "<=") else ">", meaning, of.c, DOUBLE, moved=(of.c,)))
    return [tuple(found)]


def _hint(of: Rounded, op: str) -> Atom:
    op_of_hint, attribute, bound = of.hint(op)
    made = _interval(attribute, op_of_hint, attribute, bound, ())
    return replace(made, is_guarded=True, has_slack=op in ("<=", ">=") and of.c is not None)


def _interval(attribute: Expression, op: str, left: Expression, right: Expression, steps: tuple[Step, ...]) -> Atom:
    return Atom(attribute, op, Comparison(op, left, right), right, left.type, steps)


def _solved(e: Expression) -> tuple[Expression, tuple[Step, ...]]:
    """The attribute inside `e`, and the exact steps that lead from it to `e`.

    A step must have an inverse that takes intervals of keys to intervals of keys: + − * with a constant, and casts,
    among whole numbers, decimals and times. Double arithmetic rounds, and decimals of many digits leave 64 bits, so
    these stay inside the attribute.
    """
    steps: list[Step] = []
    while True:
        more = _last_steps(e)
        if more is None:
            return e, tuple(steps)
        e, outer = more
        steps += outer


def _last_steps(e: Expression) -> tuple[Expression, list[Step]] | None:
    kind = e.type.kind
    if not fits_key(e):
        return None
    zero = Literal(0, BIGINT)
    if isinstance(e, Negate) and kind in (*_WHOLE, Kind.INTERVAL):
        return e.arg, [Step("c - x", zero, e.type)]
    if isinstance(e, nodes.Cast):
        return _cast_steps(e)
    if not isinstance(e, nodes.Arithmetic) or is_constant(e.left) == is_constant(e.right):
        return None
    x, c = (e.right, e.left) if is_constant(e.left) else (e.left, e.right)
    if e.op == "*" and kind in (Kind.BIGINT, Kind.DECIMAL):
        if _scale(x.type) + _scale(c.type) != _scale(e.type):
            return None
        return x, [Step("x * c", c, e.type)]
    if e.op not in "+-":
        return None
    step = "x + c" if e.op == "+" else "x - c" if x is e.left else "c - x"
    if kind is Kind.DATE and x.type.kind is Kind.DATE and c.type.kind is Kind.INTERVAL:
        return x, [Step(step, c, e.type, divisor=DAY_US)]
    if kind in _TIMES and x.type.kind in _TIMES and c.type.kind in _TIMES:
        return x, [Step(step, c, e.type)]
    if kind not in (Kind.BIGINT, Kind.DECIMAL) or x.type.kind not in _WHOLE or c.type.kind not in _WHOLE:
        return None
    moved = Step(step, c, e.type, factor=10 ** (_scale(e.type) - _scale(c.type)))
    widened = 10 ** (_scale(e.type) - _scale(x.type))
    return x, [moved] if widened == 1 else [moved, Step("x * c", Literal(widened, BIGINT), BIGINT)]


def _cast_steps(e: nodes.Cast) -> tuple[Expression, list[Step]] | None:
    source, target = e.arg.type.kind, e.type.kind
    day = Literal(DAY_US, BIGINT)
    if source in (Kind.INT, Kind.BIGINT) and target in _WHOLE and not is_wide(e.type):
        return e.arg, [Step("x * c", Literal(10 ** _scale(e.type), BIGINT), e.type)]
    if (source, target) == (Kind.DATE, Kind.TIMESTAMP):
        return e.arg, [Step("x * c", day, e.type)]
    if (source, target) == (Kind.TIMESTAMP, Kind.DATE):
        return e.arg, [Step("x // c", day, e.type)]
    return None


def _scale(type_: DataType) -> int:
    return type_.scale if type_.kind is Kind.DECIMAL else 0
