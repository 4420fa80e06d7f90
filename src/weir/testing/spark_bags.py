"""Spark's answer beside Weir's: the same rows, in the types that docs/language.md gives them.

An int and a bigint are one kind here, as are float and double, and decimals of any digits. Any other difference is a
difference.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from weir.testing.bags import differ


def differ_from_spark(
    spark: pa.Table,
    got: pa.Table,
    *,
    ordered: bool = False,
    lists_are_bags: bool = False,
    room: Mapping[int, float] | None = None,
) -> str | None:
    """None when `got` says what Spark says, otherwise a readable account. Doubles may be off by a relative 1e-9."""
    for i in range(min(spark.num_columns, got.num_columns)):
        theirs, ours = spark.schema.field(i).type, got.schema.field(i).type
        if not _fits(theirs, ours):
            return f"column {i} ({got.column_names[i]}) is {ours}, in Spark {theirs}"
    return differ(spark, got, approximate=True, ordered=ordered, lists_are_bags=lists_are_bags, room=room)


def _fits(theirs: pa.DataType, ours: pa.DataType) -> bool:
    kinds = (_kind(theirs), _kind(ours))
    return kinds[0] == kinds[1] or "null" in kinds


def _kind(type_: pa.DataType) -> str:
    t = pa.types
    if t.is_integer(type_):
        return "whole"
    if t.is_floating(type_):
        return "double"
    if t.is_decimal(type_):
        return "decimal"
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        return "string"
    if t.is_list(type_) or t.is_large_list(type_):
        return f"list of {_kind(type_.value_type)}"
    if t.is_struct(type_):
        return f"struct of {', '.join(_kind(type_.field(i).type) for i in range(type_.num_fields))}"
    if t.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp without zone"
    return str(type_)
