"""Expressions over rows of many queries of one shape, each of which has its own constants.

What is made of constants alone is evaluated once for each query, and is a column beside the rows. So one evaluation
serves all queries, but for constants that decide how a row is looked at (`_deciding`). Whole numbers compare with a
constant double exactly, and with a column of doubles they do not: so such a constant is rounded to a bound of bigints
(`whole_bounds`), and for decimals and within functions rows are evaluated once for each different value of it.

Cost: a pass over the rows for each part made of constants, beside that of the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import NOW, Call, ColumnRef, Comparison, Expression, Param, children, walk, with_children
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import BIGINT, TIMESTAMP, Kind
from weir.answer.row_codes import codes
from weir.answer.slot_marks import differs, is_own
from weir.plan.finishes import OWN
from weir.plan.registration import constant_value
from weir.store.maintained import SLOT as SLOT
from weir.store.row_files import arrow_type
from weir.values.comparisons import MIRRORED
from weir.values.evaluate import evaluate, evaluate_constants, truth

Places = npt.NDArray[np.int64]
Constants = Mapping[str, object]
_LEAST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_COMPARING = frozenset({"case_of", "nullif", "equal_null", "array_contains"})
_WHOLE = frozenset({Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL, Kind.PAYLOAD})


@dataclass(frozen=True)
class Asked:
    """Which queries of a shape are asked for, and their constants."""

    slots: Places  # ascending, distinct
    constants: pa.Table  # row i: c0, c1, … of slots[i], as the registry has them

    def __post_init__(self) -> None:
        assert self.constants.num_rows == len(self.slots), "each query has its constants"
        assert bool((self.slots[1:] > self.slots[:-1]).all()), "queries ascend"

    def part(self, begin: int, end: int) -> Asked:
        """The queries at some places."""
        return Asked(self.slots[begin:end], self.constants.slice(begin, end - begin))


class Groups(NamedTuple):
    """Queries, by what they have in common."""

    number: Places  # of the group of each query
    first: Places  # the place of a query of each group
    constants: Callable[[int], Constants]  # of a group: those that its queries agree in


def split(number: Places, count: int) -> tuple[Places, Places]:
    """The rows of each group side by side, and where those of each of so many groups begin, and the last ones end."""
    order = np.argsort(number, kind="stable")
    return order, np.searchsorted(number[order], np.arange(count + 1))


class SlotValues:
    """Evaluates expressions; a row's query is said by its place among those that are asked for."""

    def __init__(self, constants: pa.Table, now_us: int) -> None:
        self.count = constants.num_rows
        self.shared: dict[str, object] = {NOW.name: now_us}  # the same for all queries
        now = pa.array([now_us], pa.int64()).cast(arrow_type(TIMESTAMP)).take(pa.array(np.zeros(self.count, np.int64)))
        self._constants = constants.combine_chunks().append_column(NOW.name, now)
        self._made: dict[Expression, pa.Array] = {}
        self._bounds: dict[tuple[str, Expression], Param] = {}

    def by_query(self, e: Expression) -> pa.Array:
        """The value of an expression without columns, for each query."""
        if e not in self._made:
            self._made[e] = evaluate_constants(e, self._constants)
        return self._made[e]

    def exact(self, e: Expression) -> Expression:
        """The expression with whole numbers compared with whole numbers, where a query's constant is a double."""
        return rebuild(e, self._rounded) if differs(e) else e

    def _rounded(self, part: Expression) -> Expression:
        if not isinstance(part, Comparison):
            return part
        sides = ((part.op, part.left, part.right), (MIRRORED[part.op], part.right, part.left))
        for op, column, constant in sides:
            is_double = constant.type.kind is Kind.DOUBLE and not _has_columns(constant) and differs(constant)
            if is_double and column.type.kind in (Kind.INT, Kind.BIGINT) and _has_columns(column):
                bound = self._bounds.setdefault((op, constant), Param(f"bound {len(self._bounds)}", BIGINT))
                op, self._made[bound] = whole_bounds(op, self.by_query(constant))
                return Comparison(op, column, bound)
        return part

    def evaluated(self, e: Expression, rows: pa.Table, of: Places | None) -> pa.Array:
        """The value for every row; `of` says the place of its query, None: the row is all queries'."""
        return self._by_row(evaluate, e, rows, of)

    def true(self, e: Expression, rows: pa.Table, of: Places | None) -> np.ndarray:
        """Where a condition is true."""
        found = self._by_row(lambda *args: pa.array(truth(*args)), e, rows, of)
        return np.asarray(found.to_numpy(zero_copy_only=False))

    def _by_row(self, one: Callable[..., pa.Array], e: Expression, rows: pa.Table, of: Places | None) -> pa.Array:
        if of is None or not differs(e):
            return one(e, rows, self.shared)
        e = self.exact(e)
        groups = self.groups(e)
        if groups is None:
            return self._in_group(one, e, rows, of, self.shared)
        order, ends = split(groups.number[of], len(groups.first))
        parts = [self._in_group(one, e, rows.slice(0, 0), of[:0], groups.constants(0))]
        for number in np.flatnonzero(ends[1:] > ends[:-1]).tolist():
            at = order[ends[number] : ends[number + 1]]
            parts.append(self._in_group(one, e, rows.take(pa.array(at)), of[at], groups.constants(number)))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))

    def _in_group(
        self, one: Callable[..., pa.Array], e: Expression, rows: pa.Table, of: Places, constants: Constants
    ) -> pa.Array:
        bound, beside = self.bound(e, constants, of)
        for name, column in beside.items():
            rows = rows.append_column(name, column)
        return one(bound, rows, constants)

    def groups(self, e: Expression) -> Groups | None:
        """Queries that agree in the constants that decide; None if no constant does."""
        deciding = {p.name: p for p in _deciding(e)}
        if not deciding or not self.count:
            return None
        columns = self._constants.select(list(deciding))
        _, first, number = np.unique(codes(columns), return_index=True, return_inverse=True)

        def constants(of: int) -> Constants:
            row = int(first[of])
            return self.shared | {n: constant_value(columns.column(n)[row], p.type) for n, p in deciding.items()}

        return Groups(number, first, constants)

    def bound(
        self, e: Expression, constants: Constants, of: Places, word: str = "constant"
    ) -> tuple[Expression, dict[str, pa.Array]]:
        """The expression over columns in place of constants that are not given, and these columns."""
        beside: dict[str, pa.Array] = {}
        named: dict[Expression, ColumnRef] = {}

        def put(part: Expression) -> Expression:
            params = [p for p in walk(part) if is_own(p)]
            if all(p.name in constants for p in params if isinstance(p, Param)):
                return part
            if any(isinstance(p, ColumnRef) for p in walk(part)):
                return with_children(part, tuple(put(c) for c in children(part)))
            if part not in named:
                named[part] = ColumnRef(OWN, f"{word} {len(named)}", part.type)
                beside[named[part].name] = self.by_query(part).take(pa.array(of))
            return named[part]

        return put(e), beside


def whole_bounds(op: str, doubles: pa.Array) -> tuple[str, pa.Array]:
    """An operator and whole numbers: a bigint compares so with them as, by `op`, with the doubles.

    What no bigint reaches is the least number, which is reserved, or the largest; NaN is above all.
    """
    numbers = doubles.fill_null(0).to_numpy(zero_copy_only=False)
    above, below = ~(numbers < 2.0**63), numbers < -(2.0**63)
    inside = np.where(above | below, 0.0, numbers)
    if op in ("=", "<>"):
        whole = (inside == np.floor(inside)) & ~above & ~below
        found = np.where(whole, inside.astype(np.int64), _LEAST)
    else:
        before = (np.ceil(inside) if op in ("<", ">=") else np.floor(inside)).astype(np.int64)
        if op in ("<", ">="):
            before -= before > _LEAST
        found = np.where(above, _LARGEST, np.where(below, _LEAST, before))
        op = "<=" if op in ("<", "<=") else ">"
    return op, pa.array(found, mask=doubles.is_null().to_numpy(zero_copy_only=False))


def _deciding(e: Expression) -> Iterator[Param]:
    """The constants that decide how a row is looked at."""
    for part in walk(e):
        if isinstance(part, Comparison):
            yield from _of_doubles((part.left, part.right))
        elif isinstance(part, Call):
            if part.function in _COMPARING:
                yield from _of_doubles(part.args)
            takes = SIGNATURES[part.function].takes.of(len(part.args)) or ()
            for taken, arg in zip(takes, part.args, strict=False):
                if taken.fixed:
                    yield from _params(arg)


def _of_doubles(operands: Sequence[Expression]) -> Iterator[Param]:
    """The constants of doubles that are compared with columns of whole numbers."""
    if any(_has_columns(e) and e.type.kind in _WHOLE for e in operands):
        for e in operands:
            if e.type.kind is Kind.DOUBLE and not _has_columns(e):
                yield from _params(e)


def _has_columns(e: Expression) -> bool:
    return any(isinstance(part, ColumnRef) for part in walk(e))


def _params(e: Expression) -> Iterator[Param]:
    return (part for part in walk(e) if isinstance(part, Param) and part != NOW)
