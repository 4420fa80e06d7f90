"""Slots and parameters as values that the oracle takes, converted one by one (the engine does it by columns)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from weir.algebra.nodes import Literal, Param
from weir.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INTERVAL, STRING, TIMESTAMP, DataType, Kind, decimal
from weir.sql.literals import timestamp

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
US = dt.timedelta(microseconds=1)


def type_of(value: object) -> DataType | None:
    """The language's type of a Python value; None for NULL."""
    if isinstance(value, Decimal):
        digits = value.as_tuple()
        assert isinstance(digits.exponent, int)
        scale = max(0, -digits.exponent)
        return decimal(max(len(digits.digits) + max(0, digits.exponent), scale, 1), scale)
    kinds = (
        (bool, BOOLEAN),
        (int, BIGINT),
        (float, DOUBLE),
        (str, STRING),
        (dt.datetime, TIMESTAMP),
        (dt.date, DATE),
        (dt.timedelta, INTERVAL),
    )
    return next((t for kind, t in kinds if isinstance(value, kind)), None)


def param_types(params: Mapping[str, object]) -> dict[str, DataType]:
    return {name: t for name, value in params.items() if (t := type_of(value)) is not None}


def converted(value: object, param: Param) -> object:
    """A user's value as the literal value of the slot it stands in."""
    kind = param.type.kind
    if value is None:
        return None
    if kind is Kind.INTERVAL:
        if isinstance(value, dt.timedelta):
            return value // US * (1 if param.unit_us > 0 else -1)
        assert isinstance(value, (int, float, Decimal))
        return int(Fraction(value) * param.unit_us)
    if kind is Kind.TIMESTAMP:
        if isinstance(value, str):
            return timestamp(value)
        if isinstance(value, dt.datetime):
            return _instant(value)
        if isinstance(value, dt.date):
            return _instant(dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC))
        assert isinstance(value, (int, float, Decimal))
        return int(Fraction(value) * 1_000_000)
    if kind is Kind.DATE and isinstance(value, str):
        return dt.date.fromisoformat(value)
    if kind is Kind.DOUBLE:
        assert isinstance(value, (int, float, Decimal))
        return float(value)
    if kind is Kind.DECIMAL:
        assert isinstance(value, (int, Decimal))
        return Decimal(value).quantize(Decimal(1).scaleb(-param.type.scale))
    return value


def _instant(value: dt.datetime) -> int:
    return ((value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - EPOCH) // US


def arrow_type(type_: DataType) -> pa.DataType:
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return {
        Kind.INT: pa.int32(),
        Kind.BIGINT: pa.int64(),
        Kind.DOUBLE: pa.float64(),
        Kind.STRING: pa.string(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
        Kind.INTERVAL: pa.duration("us"),
    }[type_.kind]


def slot_values(slots: tuple[Literal | Param, ...], params: Mapping[str, object]) -> dict[str, pa.Scalar]:
    """`c0`, `c1`, … with the constants of one query, for the oracle."""
    values: dict[str, pa.Scalar] = {}
    for i, slot in enumerate(slots):
        value = slot.value if isinstance(slot, Literal) else converted(params[slot.name], slot)
        values[f"c{i}"] = pa.scalar(value, arrow_type(slot.type))
    return values
