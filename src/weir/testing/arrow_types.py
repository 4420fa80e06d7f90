"""The Arrow types of columns, as the oracle has them."""

from __future__ import annotations

import pyarrow as pa

from weir.algebra.schema import DataType, Kind, Stream, Table

_ARROW = {
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.kind]


def arrow_schema(relation: Stream | Table) -> pa.Schema:
    """The Arrow schema of a stream's or table's rows."""
    return pa.schema([(c.name, arrow_type(c.type)) for c in relation.columns])
