"""Payload columns of pushed rows: Python's values and Arrow's arrays as the type that a column has.

Nothing is lost on the way: a number that does not fit, a field that the type does not have and a value of another kind
are errors, wherever they are inside. What a struct of the rows lacks is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.schema import DataType, Kind
from weir.store.row_files import arrow_type


class PayloadFaultError(ValueError):
    """A value that is none of the type."""


def payload_array(values: Sequence[Any], type_: DataType) -> pa.Array:
    """Python's values as a column: lists, dicts (structs and maps), pairs (maps), bytes."""
    try:
        return pa.array([_checked(v, type_, "value") for v in values], arrow_type(type_), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as wrong:
        raise PayloadFaultError(str(wrong)) from wrong


def _checked(value: Any, type_: DataType, where: str) -> Any:
    """The value, if Arrow takes it without a loss; Arrow itself would cut 1.5 and leave out unknown fields."""
    if value is None or (isinstance(value, float) and value != value and type_.variant):
        return None
    if type_.variant == "array":
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise PayloadFaultError(f"{where} is a {type(value).__name__}, expected a list")
        return [_checked(v, type_.parts[0][1], f"{where}[{k}]") for k, v in enumerate(value)]
    if type_.variant == "struct":
        return _checked_struct(value, type_, where)
    if type_.variant == "map":
        (_, key), (_, of) = type_.parts
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list) or not all(isinstance(p, tuple | list) and len(p) == 2 for p in pairs):
            raise PayloadFaultError(f"{where} is a {type(value).__name__}, expected a dict or a list of pairs")
        return [(_checked(k, key, f"a key of {where}"), _checked(v, of, f"{where}[{k!r}]")) for k, v in pairs]
    whole = type_.kind in (Kind.INT, Kind.BIGINT)
    if whole and isinstance(value, float | np.floating):
        if not float(value).is_integer():
            raise PayloadFaultError(f"{where} is {value}, expected {type_}")
        return int(value)
    return value


def _checked_struct(value: Any, type_: DataType, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise PayloadFaultError(f"{where} is a {type(value).__name__}, expected a dict")
    spelt = {name.lower(): name for name, _ in type_.parts}
    unknown = next((str(name) for name in value if str(name).lower() not in spelt), None)
    if unknown is not None:
        raise PayloadFaultError(f"{where} has a field '{unknown}', which {type_} does not have")
    given = {spelt[str(name).lower()]: v for name, v in value.items()}
    return {name: _checked(given.get(name), part, f"{where}.{name}") for name, part in type_.parts}


def takes(type_: DataType, have: pa.DataType) -> bool:
    """Whether columns of an Arrow type can be cast to this type without leaving anything out."""
    t = pa.types
    if t.is_null(have):
        return True
    if type_.variant == "array":
        return _is_list(have) and takes(type_.parts[0][1], have.value_type)
    if type_.variant == "map":
        return t.is_map(have) and takes(type_.parts[0][1], have.key_type) and takes(type_.parts[1][1], have.item_type)
    if type_.variant == "struct":
        parts = dict(type_.parts)
        return t.is_struct(have) and all(f.name in parts and takes(parts[f.name], f.type) for f in have)
    if type_.variant == "binary":
        return bool(t.is_binary(have) or t.is_large_binary(have) or t.is_fixed_size_binary(have))
    return scalar_takes(type_, have)


def _is_list(have: pa.DataType) -> bool:
    return bool(pa.types.is_list(have) or pa.types.is_large_list(have) or pa.types.is_fixed_size_list(have))


def scalar_takes(type_: DataType, have: pa.DataType) -> bool:
    """The same of types that are no payloads: numbers of any kind may be numbers of the type."""
    t = pa.types
    number = t.is_integer(have) or t.is_floating(have) or t.is_decimal(have)
    is_text = t.is_string(have) or t.is_large_string(have) or t.is_string_view(have) or t.is_dictionary(have)
    return bool(
        (type_.is_numeric and number)
        or (type_.kind is Kind.STRING and is_text)
        or (type_.kind is Kind.BOOLEAN and t.is_boolean(have))
        or (type_.kind is Kind.TIMESTAMP and t.is_timestamp(have))
        or (type_.kind is Kind.DATE and t.is_date(have))
    )
