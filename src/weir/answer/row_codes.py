"""Rows compared as wholes, as SQL's DISTINCT does: NULL is like NULL, NaN like NaN, 0 like −0.

UNION, EXCEPT, INTERSECT and the difference of two answers are made of this. Cost: one pass of dictionary encoding for
each column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def different(table: pa.Table) -> pa.Table:
    """Every distinct row once, in the order in which they first occur."""
    _, first = np.unique(codes(table), return_index=True)
    return table.take(pa.array(np.sort(first)))


def less(table: pa.Table, other: pa.Table) -> pa.Table:
    """EXCEPT ALL: of equal rows as many stay as `table` has more of them than `other`."""
    return table.filter(pa.array(_nth(table) >= _count(table, other)))


def _nth(table: pa.Table) -> np.ndarray:
    """For each row how many equal ones come before it."""
    mine = codes(table)
    order = np.argsort(mine, kind="stable")
    ordered = mine[order]
    starts = np.searchsorted(ordered, ordered)  # where the rows that are equal begin
    nth = np.empty(len(mine), np.int64)
    nth[order] = np.arange(len(mine)) - starts
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


def codes(table: pa.Table) -> np.ndarray:
    """A small number for each row; equal rows have the same one."""
    found = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        values = column.combine_chunks()
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # −0 becomes 0, and every NaN the same one
            values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
        if pa.types.is_nested(values.type):  # payloads, of which only whole rows are compared
            values = pa.array([None if v is None else repr(v) for v in values.to_pylist()], pa.string())
        places = values.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        _, found = np.unique(found * (int(places.max(initial=-1)) + 2) + places + 1, return_inverse=True)
    return found.astype(np.int64)
