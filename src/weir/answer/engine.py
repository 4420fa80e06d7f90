"""DataFusion, which groups, sorts and slides windows for finishes (docs/decisions/0016).

A statement is made of names and of constants that this package writes itself; a user's text never reaches it. Rows are
handed over and come back as Arrow. Doubles are made alike first (`alike`): one NaN, no −0, so that grouping and
sorting are those of the language. One context a thread, one partition: answers are small, and an order that is asked
for stays.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

PLACE = "place"  # a column that counts rows from 0; names that a finish makes have a blank, so it is free
_local = threading.local()


def run(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a statement over named tables."""
    context = _context()
    for name, table in tables.items():
        batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        context.register_record_batches(name, [batches])
    try:
        return context.sql(sql).to_arrow_table()
    finally:
        for name in tables:
            context.deregister_table(name)


def _context() -> Any:  # DataFusion has no types of its own
    found = getattr(_local, "context", None)
    if found is None:
        import datafusion

        config = datafusion.SessionConfig().with_target_partitions(1)
        found = _local.context = datafusion.SessionContext(config)
    return found


def quoted(name: str) -> str:
    """A name in a statement."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text in a statement."""
    return "'" + value.replace("'", "''") + "'"


def alike(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column with one NaN and without −0, so that what is equal is equal everywhere; floats become doubles."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_floating(values.type):
        return values
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    return pa.array(numbers, pa.float64(), mask=values.is_null().to_numpy(zero_copy_only=False))


def with_place(table: pa.Table) -> pa.Table:
    """The table with its rows counted."""
    return table.append_column(PLACE, pa.array(np.arange(table.num_rows)))
