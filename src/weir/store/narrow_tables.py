"""Tables with whole numbers that lie near each other, in as few bytes as their differences from the smallest need.

Ids of queries and times of one batch do. What a column's values are counted from stands in the metadata of its field,
so a table says itself what it is. Columns with NULLs, and those that need all 64 bits, stay.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_FROM = b"counted from"
_KINDS = (np.uint8, np.uint16, np.uint32)


def narrowed(table: pa.Table) -> pa.Table:
    """The table with narrow columns."""
    for at, field in enumerate(table.schema):
        if field.type != pa.int64() or not table.num_rows or table.column(at).null_count:
            continue
        values = table.column(at).to_numpy()
        first, last = int(values.min()), int(values.max())
        kind = next((kind for kind in _KINDS if last - first <= np.iinfo(kind).max), None)
        if kind is not None:
            column = pa.array((values - first).astype(kind))
            table = table.set_column(at, field.with_type(column.type).with_metadata({_FROM: str(first)}), column)
    return table


def widened(table: pa.Table) -> pa.Table:
    """The table as it was."""
    for at, field in enumerate(table.schema):
        first = (field.metadata or {}).get(_FROM)
        if first is not None:
            values = table.column(at).to_numpy().astype(np.int64) + int(first)
            table = table.set_column(at, pa.field(field.name, pa.int64()), pa.array(values))
    return table
