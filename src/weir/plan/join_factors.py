"""What kind of condition connects the sources of a join: the factors that a join family is built around.

    equality    t.area = w.area                     a hash or sorted key
    band        s.b - r.b BETWEEN x AND y           the difference of two sources bounded on both sides
    window      abs(r.ts - s.ts) <= INTERVAL …      such a bound, one-sided or not, on the times of two streams
    inequality  r.a < s.b + c                       the difference bounded on one side
    residual    everything else: <>, OR over several sources, three sources in one condition, …

A condition is taken apart into signed terms, `r.a - s.b < c` being r.a + (−s.b) < c; it relates two sources when
each has exactly one term and they stand against each other. Nothing is rewritten here, so rounding and overflow of
the original expression stay what they are. Cost: linear in the conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir.algebra.nodes import (
    Absolute,
    And,
    Arithmetic,
    ColumnRef,
    Comparison,
    Expression,
    Join,
    Negate,
    Query,
    Scan,
    walk,
)
from weir.algebra.rebuild import inputs, scans
from weir.algebra.schema import Catalog, Stream

_LOWER, _UPPER = (">", ">="), ("<", "<=")
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Factor:
    """One connection between sources, and the conditions that make it."""

    kind: str  # equality, band, window, inequality or residual
    sources: tuple[int, ...]  # source occurrences, ascending
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class _Difference:
    """first − second, bounded below, above or both; `first` is of the lesser source."""

    first: Expression
    second: Expression
    bounds: frozenset[str]  # of "lower", "upper", "equal"


def join_factors(join: Join, catalog: Catalog) -> tuple[Factor, ...]:
    """The conditions of one join, as factors in the order of the text; the two sides of a band are one factor."""
    if join.predicate is None:
        return ()
    times = _time_columns(join, catalog)
    factors: list[Factor] = []
    half: dict[tuple[Expression, Expression], int] = {}  # one-sided bounds: their place in `factors`
    bounds: dict[int, frozenset[str]] = {}
    for condition in join.predicate.args if isinstance(join.predicate, And) else (join.predicate,):
        sources = tuple(sorted({p.source for p in walk(condition) if isinstance(p, ColumnRef)}))
        found = _difference(condition) if len(sources) == 2 else None
        if found is None:
            factors.append(Factor("residual", sources, (condition,)))
            continue
        pair = (found.first, found.second)
        if "equal" in found.bounds:
            factors.append(Factor("equality", sources, (condition,)))
            continue
        if pair in half:
            place = half[pair]
            bounds[place] |= found.bounds
            conditions = (*factors[place].conditions, condition)
        else:
            place = half[pair] = len(factors)
            bounds[place] = found.bounds
            conditions = (condition,)
            factors.append(Factor("", sources, ()))
        factors[place] = Factor(_kind(found, bounds[place], times), sources, conditions)
    return tuple(factors)


def joins_of(query: Query) -> tuple[Join, ...]:
    """Every join of a query, outermost first."""
    found: list[Join] = []
    stack = [query.root]
    while stack:
        node = stack.pop()
        if isinstance(node, Join):
            found.append(node)
        stack.extend(reversed(inputs(node)))
    return tuple(found)


def _kind(difference: _Difference, bounds: frozenset[str], times: frozenset[tuple[int, str]]) -> str:
    sides = (difference.first, difference.second)
    if all(isinstance(s, ColumnRef) and (s.source, s.name) in times for s in sides):
        return "window"
    return "band" if bounds == {"lower", "upper"} else "inequality"


def _time_columns(join: Join, catalog: Catalog) -> frozenset[tuple[int, str]]:
    def of(scan: Scan) -> tuple[int, str] | None:
        relation = catalog.relation(scan.relation)
        return (scan.source, relation.time) if isinstance(relation, Stream) else None

    return frozenset(found for scan in scans(join) if (found := of(scan)) is not None)


def _difference(condition: Expression) -> _Difference | None:
    """`first − second` and how it is bounded, if that is what the condition says."""
    if not isinstance(condition, Comparison) or condition.op == "<>":
        return None
    left, op, right = condition.left, condition.op, condition.right
    if isinstance(right, Absolute) and op in _FLIPPED:
        left, op, right = right, _FLIPPED[op], left
    around = isinstance(left, Absolute) and op in _UPPER and not _sources(right)
    if around:
        assert isinstance(left, Absolute)
        left = left.arg
    terms = [*_terms(left, 1), *_terms(right, -1)]
    by_source: dict[int, tuple[int, Expression]] = {}
    for sign, term in terms:
        sources = _sources(term)
        if not sources:
            continue
        if len(sources) > 1 or (source := next(iter(sources))) in by_source:
            return None
        by_source[source] = (sign, term)
    if len(by_source) != 2:
        return None
    (first_sign, first), (second_sign, second) = (by_source[s] for s in sorted(by_source))
    if first_sign == second_sign:
        return None
    if around:
        return _Difference(first, second, frozenset({"lower", "upper"}))
    if op == "=":
        return _Difference(first, second, frozenset({"equal"}))
    upper = (op in _UPPER) == (first_sign > 0)
    return _Difference(first, second, frozenset({"upper" if upper else "lower"}))


def _terms(e: Expression, sign: int) -> list[tuple[int, Expression]]:
    """The signed terms of a sum."""
    if isinstance(e, Arithmetic) and e.op in "+-":
        return [*_terms(e.left, sign), *_terms(e.right, sign if e.op == "+" else -sign)]
    if isinstance(e, Negate):
        return _terms(e.arg, -sign)
    return [(sign, e)]


def _sources(e: Expression) -> set[int]:
    return {p.source for p in walk(e) if isinstance(p, ColumnRef)}
