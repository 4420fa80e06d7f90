"""Results that others outlive, so that an answer never depends on them and nobody has to keep them.

DISTINCT shows a row while any of its equals is there, so the one that is over last stands for all (δ*, UPA 5.3.1). The
same holds for groups. A result that is larger than one which is over later is never the minimum: what is left of a
group is a staircase, of which min and max read the next step when one is over. No row is looked at again.

That needs results whose ends are known when they come, so it does not hold for tables and for windows of the last rows,
and a finish in which nothing counts how many equal results there are, or in which order they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Aggregate, ColumnRef
from weir.algebra.schema import Column, Kind
from weir.answer.row_codes import codes
from weir.plan.finishes import Computed, CoreRows, Extended, Finish, Grouped, Kept, Once, Sorted
from weir.store.ascending import by_bytes
from weir.store.maintained import FROM, SLOT, TO

_ORDERED = frozenset({Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DATE, Kind.TIMESTAMP})
_KEYS = frozenset(Kind) - {Kind.PAYLOAD, Kind.NULL, Kind.LIST}


@dataclass(frozen=True)
class Outliving:
    """What a finish asks of the results of a core: which different ones there are, and their extremes."""

    keys: tuple[str, ...]
    extremes: tuple[tuple[str, bool], ...] = ()  # columns, and whether the largest is asked for
    sets: tuple[str, ...] = ()  # columns whose different values are asked for


def outliving(finish: Finish, columns: Sequence[Column]) -> Outliving | None:
    """How results of a core with these columns outlive each other below a finish; None: each of them counts."""
    while isinstance(finish, (Computed, Extended, Kept, Sorted)):
        if isinstance(finish, Sorted) and (finish.count is not None or finish.start is not None):
            return None  # equal rows are cut in the order in which they came
        finish = finish.input
    if not isinstance(finish, (Grouped, Once)) or not isinstance(finish.input, CoreRows):
        return None
    kinds = {c.name: c.type.kind for c in columns}
    if isinstance(finish, Once):
        return Outliving(tuple(kinds)) if _KEYS.issuperset(kinds.values()) else None
    if not _KEYS.issuperset(kinds[key] for key in finish.keys):
        return None
    extremes, sets = [], []
    for _, aggregate in finish.aggregates:
        operand = _operand(aggregate)
        if operand is None:
            return None
        if aggregate.function in ("min", "max") and kinds[operand] in _ORDERED:
            extremes.append((operand, aggregate.function == "max"))
        elif aggregate.function == "count" and aggregate.distinct and kinds[operand] in _KEYS:
            sets.append(operand)
        else:
            return None
    return Outliving(finish.keys, tuple(dict.fromkeys(extremes)), tuple(dict.fromkeys(sets)))


def _operand(aggregate: Aggregate) -> str | None:
    """The column that an aggregate is over, if it is over one and over all rows of a group."""
    if aggregate.filter is not None or len(aggregate.args) != 1:
        return None
    operand = aggregate.args[0]
    return operand.name if isinstance(operand, ColumnRef) else None


def without_outlived(of: Outliving, results: pa.Table, now_us: int) -> pa.Table:
    """The results of queries without those that others outlive which are shown by now."""
    begin, end = results.column(FROM).to_numpy(), results.column(TO).to_numpy()
    shown = np.flatnonzero(begin <= now_us)
    if len(shown) < 2:
        return results
    needed = np.zeros(len(shown), bool)
    for mask in _needed(of, results.take(pa.array(shown)), end[shown]):
        needed |= mask
    if needed.all():
        return results
    there = np.ones(len(begin), bool)
    there[shown[~needed]] = False
    return results.filter(pa.array(there))


def _needed(of: Outliving, results: pa.Table, end: np.ndarray) -> Iterator[np.ndarray]:
    """What each part of a finish needs: the longest of each group, or of each value, or a staircase."""
    group = codes(results.select([SLOT, *of.keys]))
    latest = np.argsort(-end, kind="stable")
    for names in [(), *((name,) for name in of.sets)]:
        of_each = codes(results.select([SLOT, *of.keys, *names])) if names else group
        yield _longest(of_each, latest)
    for name, is_max in of.extremes:
        yield _staircase(group, latest, *_rank(results.column(name), is_max))


def _longest(group: np.ndarray, latest: np.ndarray) -> np.ndarray:
    """The one of each group that is over last."""
    needed = np.zeros(len(group), bool)
    _, first = np.unique(group[latest], return_index=True)
    needed[latest[first]] = True
    return needed


def _staircase(group: np.ndarray, latest: np.ndarray, rank: np.ndarray, null: int) -> np.ndarray:
    """Those that are better than all that are over later; NULLs never are."""
    order = latest[by_bytes(group[latest])]  # by group, what is over last first
    ranks, groups = rank[order], group[order]
    # Every group begins below the one before, so that one running minimum serves all of them.
    lifted = ranks + (groups.max(initial=0) - groups) * (null + 1)
    least = np.minimum.accumulate(lifted)
    better = np.concatenate(([True], lifted[1:] < least[:-1]))[: len(order)]
    needed = np.zeros(len(group), bool)
    needed[order[better & (ranks < null)]] = True
    return needed


def _rank(column: pa.ChunkedArray, is_max: bool) -> tuple[np.ndarray, int]:
    """Numbers from 0 in the order of values, the best first; and the number after all of them, which NULLs have."""
    values = column.combine_chunks()
    null = values.is_null().to_numpy(zero_copy_only=False)
    whole = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    plain = whole if pa.types.is_floating(whole.type) else whole.cast(pa.int64())
    numbers = plain.fill_null(0).to_numpy(zero_copy_only=False)
    different, rank = np.unique(numbers, return_inverse=True)  # NaN is one value, after all others
    rank = rank.reshape(-1).astype(np.int64)
    return np.where(null, len(different), len(different) - 1 - rank if is_max else rank), len(different)
