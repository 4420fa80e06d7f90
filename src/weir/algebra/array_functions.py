"""Scalar functions that take or make arrays, maps and structs: their rows in the table of functions.

They have no constants of their own: a call of constants stays as it is, and is evaluated with the rows
(`weir.values.array_calls`). What is compared inside of arrays is a scalar; the elements of two arrays that meet are of
one type, or whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weir.algebra import schema
from weir.algebra.java_regex import regex_fault, translated
from weir.algebra.schema import DataType, Kind
from weir.algebra.signatures import (
    ANY,
    CONDITION,
    FIXED_TEXT,
    FIXED_WHOLE,
    LIKE_ELEMENTS,
    PAYLOAD,
    TEXT,
    VALUE,
    WHOLE,
    Signature,
    Takes,
    always,
    first,
)

if TYPE_CHECKING:
    from weir.algebra.nodes import Expression

_BOOLEAN, _BIGINT, _INT = always(schema.BOOLEAN), always(schema.BIGINT), always(schema.INT)
_STRINGS = always(schema.array(schema.STRING))
COMPARING = frozenset(
    {"sort_array", "array_sort", "array_distinct", "array_union", "array_intersect", "array_except", "arrays_overlap"}
) | {"array_min", "array_max", "array_position", "array_remove"}  # functions that compare elements
MEETING = frozenset({"array_union", "array_intersect", "array_except", "arrays_overlap", "array_concat"})
OF_MAPS = frozenset({"map_keys", "map_values", "map_contains_key"})
BOTH = {"reverse": "array_reverse", "concat": "array_concat"}  # names that texts have too


def element(type_: DataType) -> DataType:
    """The type of an array's elements."""
    return type_.parts[0][1]


def common_element(types: Sequence[DataType]) -> DataType | None:
    """The type of the elements of arrays that meet: one for all, or the widest whole number."""
    elements = [element(t).usual if element(t).kind is not Kind.PAYLOAD else element(t) for t in types]
    if all(e == elements[0] for e in elements):
        return elements[0]
    if all(e.kind in (Kind.INT, Kind.BIGINT) for e in elements):
        return schema.BIGINT
    return None


def _array_of(types: Sequence[DataType]) -> DataType:
    return schema.array(types[0])


def _element_of(types: Sequence[DataType]) -> DataType:
    found = element(types[0])
    return found.usual if found.kind is Kind.STRING else found


def _together(types: Sequence[DataType]) -> DataType:
    found = common_element(types)
    assert found is not None, "it was looked for when the call was made"
    return schema.array(found)


def _flattened(types: Sequence[DataType]) -> DataType:
    return element(types[0])


def _keys(types: Sequence[DataType]) -> DataType:
    return schema.array(types[0].parts[0][1])


def _values(types: Sequence[DataType]) -> DataType:
    return schema.array(types[0].parts[1][1])


def _whole_numbers(types: Sequence[DataType]) -> DataType:
    return schema.array(schema.INT if all(t.kind is Kind.INT for t in types) else schema.BIGINT)


def _struct(args: Sequence[Expression]) -> DataType:
    names = [str(getattr(name, "value", "")) for name in args[::2]]
    return schema.struct(*zip(names, (value.type for value in args[1::2]), strict=True))


def _split_checked(args: Sequence[Any]) -> str:
    if not args or not args[0]:
        return ""
    fault = regex_fault(str(args[0]), replacing=True)
    return fault or ("'$' is not supported in split()" if translated(str(args[0])).is_ended else "")


ARRAYS = (
    Signature("array", Takes((VALUE,), repeated=(VALUE,)), _array_of, sees_nulls=True),
    Signature(
        "named_struct",
        Takes((FIXED_TEXT, ANY), repeated=(FIXED_TEXT, ANY)),
        always(schema.STRING),
        sees_nulls=True,
        sized=_struct,
    ),
    Signature("split", Takes((TEXT, FIXED_TEXT), (FIXED_WHOLE,)), _STRINGS, checked=_split_checked),
    Signature("array_join", Takes((PAYLOAD, TEXT), (TEXT,)), always(schema.STRING)),
    Signature("array_size", Takes((PAYLOAD,)), _INT),
    Signature("sort_array", Takes((PAYLOAD,), (CONDITION,)), first),
    Signature("array_sort", Takes((PAYLOAD,)), first),
    Signature("array_distinct", Takes((PAYLOAD,)), first),
    Signature("array_min", Takes((PAYLOAD,)), _element_of),
    Signature("array_max", Takes((PAYLOAD,)), _element_of),
    Signature("array_position", Takes((PAYLOAD, LIKE_ELEMENTS)), _BIGINT),
    Signature("array_remove", Takes((PAYLOAD, LIKE_ELEMENTS)), first),
    Signature("array_append", Takes((PAYLOAD, LIKE_ELEMENTS)), first, sees_nulls=True),
    Signature("array_prepend", Takes((PAYLOAD, LIKE_ELEMENTS)), first, sees_nulls=True),
    Signature("array_compact", Takes((PAYLOAD,)), first),
    Signature("array_union", Takes((PAYLOAD, PAYLOAD)), _together),
    Signature("array_intersect", Takes((PAYLOAD, PAYLOAD)), _together),
    Signature("array_except", Takes((PAYLOAD, PAYLOAD)), _together),
    Signature("arrays_overlap", Takes((PAYLOAD, PAYLOAD)), _BOOLEAN),
    Signature("slice", Takes((PAYLOAD, WHOLE, WHOLE)), first),
    Signature("flatten", Takes((PAYLOAD,)), _flattened),
    Signature("array_repeat", Takes((ANY, WHOLE)), _array_of, sees_nulls=True),
    Signature("sequence", Takes((WHOLE, WHOLE), (WHOLE,)), _whole_numbers),
    Signature("array_reverse", Takes((PAYLOAD,)), first, written=lambda parts: f"reverse({parts[0]})", is_syntax=True),
    Signature(
        "array_concat",
        Takes((PAYLOAD,), repeated=(PAYLOAD,)),
        _together,
        written=lambda parts: f"concat({', '.join(parts)})",
        is_syntax=True,
    ),
    Signature("map_keys", Takes((PAYLOAD,)), _keys),
    Signature("map_values", Takes((PAYLOAD,)), _values),
    Signature("map_contains_key", Takes((PAYLOAD, LIKE_ELEMENTS)), _BOOLEAN),
)
