"""The Arrow types of columns, as the oracle has them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from weir.algebra.schema import NULL, DataType, Kind, Stream, Table

_ARROW = {
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.NULL: pa.null(),
}


@dataclass(frozen=True, slots=True)
class Listed(DataType):
    """A list of values of one type: what collect_list gives. It has no kind of its own, and equals no other type."""

    item: DataType = NULL


@dataclass(frozen=True, slots=True)
class Spanned(DataType):
    """What window(ts, …) gives: a struct of two timestamps, `start` and `end`."""


SPANNED = Spanned(Kind.NULL)


def listed(item: DataType) -> Listed:
    return Listed(Kind.NULL, item=item)


_ARROW_VARIANTS = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "float": pa.float32(),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column."""
    if isinstance(type_, Listed):
        return pa.list_(arrow_type(type_.item))
    if isinstance(type_, Spanned):
        return pa.struct([("start", _ARROW[Kind.TIMESTAMP]), ("end", _ARROW[Kind.TIMESTAMP])])
    if type_.variant in _ARROW_VARIANTS:
        return _ARROW_VARIANTS[type_.variant]
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    parts = [arrow_type(part) for _, part in type_.parts]
    if type_.variant == "struct":
        return pa.struct([pa.field(name, part) for (name, _), part in zip(type_.parts, parts, strict=True)])
    if type_.variant in ("array", "map"):
        return pa.list_(*parts) if type_.variant == "array" else pa.map_(*parts)
    return _ARROW[type_.kind]


def arrow_schema(relation: Stream | Table) -> pa.Schema:
    """The Arrow schema of a stream's or table's rows."""
    return pa.schema([(c.name, arrow_type(c.type)) for c in relation.columns])
