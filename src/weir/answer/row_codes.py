"""Rows compared as wholes, as SQL's DISTINCT does: NULL is like NULL, NaN like NaN, 0 like −0.

UNION, EXCEPT, INTERSECT and the difference of two answers are made of this. Cost: one pass of dictionary encoding for
each column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.store.ascending import by_bytes


def different(table: pa.Table) -> pa.Table:
    """Every distinct row once, in the order in which they first occur."""
    _, first = np.unique(codes(table), return_index=True)
    return table.take(pa.array(np.sort(first)))


def less(table: pa.Table, other: pa.Table) -> pa.Table:
    """EXCEPT ALL: of equal rows as many stay as `table` has more of them than `other`."""
    return table.filter(pa.array(_nth(table) >= _count(table, other)))


def differences(table: pa.Table, other: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What each has more than the other, as `less` says of both."""
    both = codes(pa.concat_tables([table, other]))
    mine, others = both[: table.num_rows], both[table.num_rows :]
    count = int(both.max(initial=-1)) + 1
    found = []
    for rows, these, those in ((table, mine, others), (other, others, mine)):
        more = _nth_of(these) >= np.bincount(those, minlength=count)[these]
        found.append(rows.filter(pa.array(more)))
    return found[0], found[1]


def _nth(table: pa.Table) -> np.ndarray:
    """For each row how many equal ones come before it."""
    return _nth_of(codes(table))


def _nth_of(mine: np.ndarray) -> np.ndarray:
    order = by_bytes(mine)
    ordered = mine[order]
    fresh = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(mine)]
    if fresh.all():
        return np.zeros(len(mine), np.int64)
    starts = np.flatnonzero(fresh)  # where the rows that are equal begin
    nth = np.empty(len(mine), np.int64)
    nth[order] = np.arange(len(mine)) - np.repeat(starts, np.diff(starts, append=len(mine)))
    return nth


def _count(table: pa.Table, other: pa.Table) -> np.ndarray:
    """For each row how many equal ones the other table has."""
    both = codes(pa.concat_tables([table, other]))
    mine, others = both[: table.num_rows], both[table.num_rows :]
    counts: np.ndarray = np.bincount(others, minlength=int(both.max(initial=-1)) + 1)[mine]
    return counts


def common(table: pa.Table, other: pa.Table) -> pa.Table:
    """INTERSECT ALL: of equal rows as many as both have."""
    return table.filter(pa.array(_nth(table) < _count(table, other)))


def without(table: pa.Table, other: pa.Table, *, inside: bool = False) -> pa.Table:
    """The rows that the other table does not have at all; with `inside` those that it has."""
    has = _count(table, other) > 0
    return table.filter(pa.array(has if inside else ~has))


def reordered(table: pa.Table, other: pa.Table, key: str) -> np.ndarray:
    """For tables with equal rows the values of a whole number, a key, whose rows stand in another order."""
    both = []
    for one in (table, other):
        places = np.argsort(one.column(key).to_numpy(), kind="stable")
        both.append(one.take(pa.array(places)))
    mine, others = codes(pa.concat_tables(both)).reshape(2, -1)
    return np.unique(both[0].column(key).to_numpy()[mine != others])


def codes(table: pa.Table) -> np.ndarray:
    """A small number for each row; equal rows have the same one."""
    found, n_before = np.zeros(table.num_rows, np.int64), 1
    for column in table.columns:
        values = column.combine_chunks()
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # −0 becomes 0, and every NaN the same one
            values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
        if pa.types.is_nested(values.type):  # payloads, of which only whole rows are compared
            values = pa.array([None if v is None else repr(v) for v in values.to_pylist()], pa.string())
        places = _numbered(values) + 1
        count = int(places.max(initial=0)) + 1
        if n_before == 1:
            found, n_before = places, count
            continue
        assert n_before * count < 2**63, "small numbers of a table's rows"
        found = _numbered(pa.array(found * count + places))
        n_before = int(found.max(initial=-1)) + 1
    return found


def _numbered(values: pa.Array) -> np.ndarray:
    """Distinct values counted from 0 as they occur, −1 for NULL."""
    places = values.dictionary_encode().indices.fill_null(-1)
    found: np.ndarray = places.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
