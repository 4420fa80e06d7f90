"""The finish of a query, over the projected results of its cores (`weir.plan.cores`).

Rows are compared as SQL's DISTINCT does: NULL is like NULL, NaN like NaN, 0 like −0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import Column
from weir.plan.cores import CoreRows, Finish, Together
from weir.store.row_files import arrow_type


def finished(finish: Finish, tables: Sequence[pa.Table], output: Sequence[Column]) -> pa.Table:
    """The answer; its columns are called and typed as `output` says."""
    if isinstance(finish, CoreRows):
        return _called(tables[finish.core], output)
    if isinstance(finish, Together):
        return pa.concat_tables([finished(part, tables, output) for part in finish.inputs])
    return different(finished(finish.input, tables, output))


def different(table: pa.Table) -> pa.Table:
    """Every distinct row once, in the order in which they first occur."""
    _, first = np.unique(_codes(table), return_index=True)
    return table.take(pa.array(np.sort(first)))


def less(table: pa.Table, other: pa.Table) -> pa.Table:
    """EXCEPT ALL: of equal rows as many stay as `table` has more of them than `other`."""
    codes = _codes(pa.concat_tables([table, other]))
    mine, others = codes[: table.num_rows], codes[table.num_rows :]
    count = np.bincount(others, minlength=int(codes.max(initial=0)) + 1)
    order = np.argsort(mine, kind="stable")
    ordered = mine[order]
    starts = np.searchsorted(ordered, ordered)  # where the rows that are equal begin
    nth = np.empty(len(mine), np.int64)
    nth[order] = np.arange(len(mine)) - starts
    return table.filter(pa.array(nth >= count[mine]))


def _called(table: pa.Table, output: Sequence[Column]) -> pa.Table:
    fields = [pa.field(c.name, arrow_type(c.type)) for c in output]
    arrays = [column.cast(field.type) for column, field in zip(table.columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _codes(table: pa.Table) -> np.ndarray:
    """A small number for each row; equal rows have the same one."""
    codes = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        values = column.combine_chunks()
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # −0 becomes 0, and every NaN the same one
            values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
        places = values.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (int(places.max(initial=-1)) + 2) + places + 1, return_inverse=True)
    return codes.astype(np.int64)
