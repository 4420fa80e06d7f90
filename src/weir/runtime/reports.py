"""What tasks report to the driver: one schema, as Spark's DDL, from which Arrow's follows."""

from __future__ import annotations

import pyarrow as pa

_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "array<bigint>": pa.list_(pa.int64()),
    "array<string>": pa.list_(pa.string()),
}


def schema_of(ddl: str) -> pa.Schema:
    """The Arrow schema of a DDL text: `slice int, path string, …`."""
    fields = [field.split() for field in ddl.split(", ")]
    return pa.schema([(name, _TYPES[type_]) for name, type_ in fields])
