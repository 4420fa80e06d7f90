"""Which rows of two sides may satisfy the conditions over both: found by sorting, decided by the conditions themselves.

Two kinds of conditions narrow what has to be looked at. *Equations*: the values on both sides are mapped to codes such
that equal values have equal codes (not always the other way round: numbers of different types meet as doubles).
*Bounds* (`s.b - r.b <= 3`, `r.t < s.t + c`, `abs(…) <= w`): a sum of terms, each over one source, is compared with
constants. It is added up in doubles, with room for their rounding, so that every pair that satisfies the condition is a
candidate. The second side is sorted by (code, what it adds to the bound), so the candidates of a row of the first side
are one run. This file never decides whether a pair is a result, and shares nothing with boxes, keys or indexes.

Cost: a sort of the second side, two binary searches for each row of the first, some nanoseconds for each candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Arithmetic, ColumnRef, Comparison, Expression, Negate, Not, absolute_of, walk
from weir.algebra.schema import DataType, Kind
from weir.values.columns import DAY_US, column_operand, to_double

_NUMBERS = (Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE)
_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL)
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ROUNDING = 1e-14  # relative to the largest values: more than the sum of a few doubles loses

Values = Callable[[Expression], pa.Array]
Pairs = tuple[np.ndarray, np.ndarray]


class KeyCodes(NamedTuple):
    """A number for each row of either side; rows that are equal by all equations have the same one."""

    first: np.ndarray  # int64[rows of the first side]; −1: equal to nothing
    second: np.ndarray


class Axis(NamedTuple):
    """A number for each row of the second side, and for each row of the first the range of its candidates' numbers."""

    values: np.ndarray
    low: np.ndarray | None  # both ends are inside; None: no bound
    high: np.ndarray | None


def sources(e: Expression) -> set[int]:
    """The sources whose columns occur in it."""
    return {part.source for part in walk(e) if isinstance(part, ColumnRef)}


def equation_of(term: Expression) -> tuple[Expression, Expression] | None:
    """The two sides of an equation between two sources that a condition demands."""
    op = "="
    if isinstance(term, Not):
        term, op = term.arg, "<>"
    if isinstance(term, Comparison) and term.op == op:
        left, right = sources(term.left), sources(term.right)
        if len(left) == len(right) == 1 and left != right:
            return term.left, term.right
    return None


def same(first_rows: int, second_rows: int) -> KeyCodes:
    """Codes of sides that no equation connects."""
    return KeyCodes(np.zeros(first_rows, np.int64), np.zeros(second_rows, np.int64))


def both(codes: KeyCodes, more: KeyCodes) -> KeyCodes:
    """Codes of rows that are equal by both; they are numbered from 0 again, so that many equations do not overflow."""
    count = max(0, *(int(c.max(initial=-1)) for c in more)) + 1
    return _dense(*(np.where((a < 0) | (b < 0), -1, a * count + b) for a, b in zip(codes, more, strict=True)))


def equal_codes(values: Sequence[pa.Array], types: Sequence[DataType]) -> KeyCodes:
    """Codes by one equation."""
    if any(t.kind is Kind.NULL for t in types):
        return KeyCodes(*(np.full(len(v), -1, np.int64) for v in values))
    if types[0].kind is Kind.STRING:
        together = pa.concat_arrays([v.cast(pa.large_string()) for v in values])  # of any length
        code = together.dictionary_encode().indices.cast(pa.int64()).fill_null(-1).to_numpy()
        return KeyCodes(code[: len(values[0])], code[len(values[0]) :])
    return _dense(*(_bits(v, t) for v, t in zip(values, types, strict=True)))


def _bits(values: pa.Array, type_: DataType) -> np.ndarray:
    """The nearest doubles as bits; −1 for NULL.

    No value has the bits −1, which are those of a NaN: all NaN are made one, and −0.0 becomes 0.0.
    """
    doubles, valid = _doubles(values, type_)
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    return bits if valid is None else np.where(valid, bits, -1)


def _doubles(values: pa.Array, type_: DataType) -> tuple[np.ndarray, np.ndarray | None]:
    """The nearest doubles, in one unit for all types that compare with one another; and where there is a value."""
    operand = column_operand(values, type_)
    with np.errstate(all="ignore"):  # what stands where a value is NULL means nothing
        doubles = to_double(operand) + 0.0
    if type_.kind is Kind.DATE:
        doubles *= DAY_US
    return doubles, operand.valid


def _dense(first: np.ndarray, second: np.ndarray) -> KeyCodes:
    """Codes 0, 1, … for equal numbers; −1 stays −1."""
    distinct, code = np.unique(np.concatenate([first, second]), return_inverse=True)
    code = np.where(distinct == -1, -1, np.arange(len(distinct)))[code]
    return KeyCodes(code[: len(first)], code[len(first) :])


class _Sum(NamedTuple):
    """The condition `first + second op 0`: signed terms over each side; constants are among those of the first."""

    first: list[tuple[int, Expression]]
    second: list[tuple[int, Expression]]
    op: str


def bounded(conditions: Sequence[Expression], second: int, first_values: Values, second_values: Values) -> Axis | None:
    """An axis on which conditions bound the candidates, preferably at both ends; None if no condition does.

    `second` is the source of the second side. `first_values` and `second_values` evaluate an expression for every row
    of a side; a constant is an expression of the first.
    """
    ends: dict[tuple[tuple[int, Expression], ...], dict[str, np.ndarray]] = {}
    made: dict[tuple[tuple[int, Expression], ...], np.ndarray | None] = {}
    of_second: dict[tuple[tuple[int, Expression], ...], float] = {}
    for summed in (s for condition in conditions for s in _sums(condition, second)):
        key = tuple(summed.second)
        if key not in made:
            made[key], of_second[key] = _axis_values(key, second_values)
        axis = made[key]
        own = None if axis is None else _added(summed.first, first_values)
        if axis is None or own is None:
            continue
        total, known, of_first = own
        # How much a sum rounds depends on its terms, not on its total: large terms may cancel.
        scale = of_first + of_second[key]
        if not np.isfinite(scale):
            continue
        room = _ROUNDING * scale + any(e.type.kind is Kind.DECIMAL for _, e in (*summed.first, *summed.second))
        is_upper = summed.op in ("<", "<=")
        with np.errstate(all="ignore"):  # an end beyond all doubles bounds nothing
            near = -total + (room if is_upper else -room)
        end = np.where(np.isfinite(total), near, np.inf if is_upper else -np.inf)
        end = np.where(known, end, -np.inf if is_upper else np.inf)  # a comparison with NULL is not true
        side = ends.setdefault(key, {})
        name, narrower = ("high", np.minimum) if is_upper else ("low", np.maximum)
        side[name] = narrower(side[name], end) if name in side else end
    if not ends:
        return None
    best = max(ends, key=lambda key: len(ends[key]))
    values = made[best]
    assert values is not None, "there are bounds"
    return Axis(values, ends[best].get("low"), ends[best].get("high"))


def _axis_values(terms: Sequence[tuple[int, Expression]], values: Values) -> tuple[np.ndarray | None, float]:
    """What each row adds to the bound, and how large its terms are; None if it is infinite or NaN for some row.

    Where it is NULL no bound holds, so any number will do.
    """
    found = _added(terms, values)
    if found is None:
        return None, 0.0
    total, known, scale = found
    return (np.where(known, total, 0.0) if np.isfinite(total[known]).all() else None), scale


def _added(terms: Sequence[tuple[int, Expression]], values: Values) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The sum of signed terms by row; where none of them is NULL; and the sum of the terms' largest values.

    None if some term is neither a number nor a time.
    """
    total: np.ndarray | None = None
    known: np.ndarray | None = None
    scale = 0.0
    for sign, e in terms:
        if e.type.kind not in _NUMBERS + _TIMES:
            return None
        doubles, valid = _doubles(values(e), e.type)
        with np.errstate(all="ignore"):
            total = sign * doubles if total is None else total + sign * doubles
        here = np.ones(len(doubles), bool) if valid is None else valid
        known = here if known is None else known & here
        scale += float(np.abs(doubles[here & np.isfinite(doubles)]).max(initial=0.0))
    return None if total is None or known is None else (total, known, scale)


def _sums(condition: Expression, second: int) -> Iterator[_Sum]:
    """A condition as sums that are at most, or at least, zero."""
    flips = False
    while isinstance(condition, Not):
        condition, flips = condition.arg, not flips
    if not isinstance(condition, Comparison) or condition.op not in _OPPOSITE:
        return
    left, right, op = condition.left, condition.right, condition.op
    op = _OPPOSITE[op] if flips else op
    if absolute_of(right) is not None:
        left, right, op = right, left, _MIRRORED[op]
    if (inner := absolute_of(left)) is not None:
        if op in ("<", "<="):
            yield from _sum([*_terms(inner, 1), *_terms(right, -1)], op, second)
            yield from _sum([*_terms(inner, 1), *_terms(right, 1)], _MIRRORED[op], second)
        return
    yield from _sum([*_terms(left, 1), *_terms(right, -1)], op, second)


def _sum(terms: Sequence[tuple[int, Expression]], op: str, second: int) -> Iterator[_Sum]:
    kinds = {e.type.kind for _, e in terms}
    if not (kinds <= set(_NUMBERS) or kinds <= set(_TIMES)):
        return
    mine = [(sign, e) for sign, e in terms if sources(e) == {second}]
    rest = [(sign, e) for sign, e in terms if second not in sources(e) and len(sources(e)) <= 1]
    if not mine or not rest or len(mine) + len(rest) < len(terms):
        return
    if mine[0][0] < 0:
        mine, rest, op = [(-s, e) for s, e in mine], [(-s, e) for s, e in rest], _MIRRORED[op]
    yield _Sum(rest, mine, op)


def _terms(e: Expression, sign: int) -> list[tuple[int, Expression]]:
    """The signed terms of a sum."""
    if isinstance(e, Arithmetic) and e.op in "+-" and not e.type.variant:  # a sum of floats is rounded to 32 bits
        return [*_terms(e.left, sign), *_terms(e.right, sign if e.op == "+" else -sign)]
    if isinstance(e, Negate):
        return _terms(e.arg, -sign)
    return [(sign, e)]


def candidates(codes: KeyCodes, axis: Axis | None, block: int) -> tuple[int, Iterator[Pairs]]:
    """How many there are, and their places on both sides, block by block."""
    known = [np.flatnonzero(c >= 0) for c in codes]
    first, second = (c[at] for c, at in zip(codes, known, strict=True))
    marks = np.zeros(1, np.int64)  # distinct values of the second side, ascending; without an axis all are one
    rank = np.zeros(len(second), np.int64)
    low = np.zeros(len(first), np.int64)  # of each row of the first, the ranks of its candidates: low <= rank < high
    high = np.ones(len(first), np.int64)
    if axis is not None:
        marks, rank = np.unique(axis.values[known[1]], return_inverse=True)
        high *= len(marks)
        if axis.low is not None:
            low = np.searchsorted(marks, axis.low[known[0]], side="left")
        if axis.high is not None:
            high = np.searchsorted(marks, axis.high[known[0]], side="right")
    width = len(marks) + 1
    key = second * width + rank
    order = np.argsort(key, kind="stable")
    key = key[order]
    begin = np.searchsorted(key, first * width + low)
    end = np.searchsorted(key, first * width + np.maximum(low, high))
    offsets = np.concatenate([[0], np.cumsum(end - begin)])

    def blocks() -> Iterator[Pairs]:
        for start in range(0, int(offsets[-1]), block):
            pair = np.arange(start, min(start + block, int(offsets[-1])))
            at = np.searchsorted(offsets, pair, side="right") - 1
            yield known[0][at], known[1][order[begin[at] + pair - offsets[at]]]

    return int(offsets[-1]), blocks()


def times_axis(first: np.ndarray, second: np.ndarray, least_us: int | None, most_us: int | None) -> Axis:
    """The axis of the second side's times: second − first lies between `least_us` and `most_us`."""
    low = None if least_us is None else _shifted(first, least_us)
    high = None if most_us is None else _shifted(first, most_us)
    return Axis(second, low, high)


def _shifted(times: np.ndarray, by_us: int) -> np.ndarray:
    """times + by_us, held within int64."""
    low, high = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
    by = max(low, min(by_us, high))
    return np.asarray(np.clip(times, low - min(by, 0), high - max(by, 0)) + by)
