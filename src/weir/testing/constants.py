"""Values in the oracle: the typed SQL fragment `Scalar`, and how literals and parameters become one.

A whole number is BIGINT, one with a dot or beyond 64 bits DECIMAL of its digits (at most 38), anything else numeric
DOUBLE. In DuckDB
an INTERVAL is a BIGINT of microseconds and a TIMESTAMP is naive and UTC. A parameter is given as a Python value or
as an Arrow scalar, whose type it then has.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from weir.algebra import schema
from weir.algebra.schema import DataType, Kind, decimal
from weir.testing.arrow_types import Listed, Spanned
from weir.testing.duck_decimals import DIGITS_MAX

WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}  # beside a decimal
DAY_US = 86_400_000_000
WHOLE = (Kind.INT, Kind.BIGINT)
TIMES = (Kind.DATE, Kind.TIMESTAMP)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_DUCK = {
    Kind.INT: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.STRING: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.INTERVAL: "BIGINT",
    Kind.NULL: "INTEGER",
}
_DUCK_VARIANTS = {"tinyint": "TINYINT", "smallint": "SMALLINT", "float": "FLOAT"}
_NAMED = {
    "TINYINT": schema.TINYINT,
    "SMALLINT": schema.SMALLINT,
    "FLOAT": schema.FLOAT,
    "TIMESTAMPNTZ": schema.TIMESTAMP_NTZ,
    "INT": schema.INT,
    "BIGINT": schema.BIGINT,
    "DOUBLE": schema.DOUBLE,
    "TEXT": schema.STRING,
    "VARCHAR": schema.STRING,
    "BOOLEAN": schema.BOOLEAN,
    "DATE": schema.DATE,
    "TIMESTAMP": schema.TIMESTAMP,
    "TIMESTAMPTZ": schema.TIMESTAMP,
    "TIMESTAMPLTZ": schema.TIMESTAMP,
}
UNITS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY_US,
    "WEEK": 7 * DAY_US,
}


@dataclass(frozen=True)
class Scalar:
    """DuckDB SQL for a value, and the value's type in the language."""

    sql: str
    type: DataType
    constant: bool = False  # mentions no column
    origin: str = ""  # "literal" or "param" if it is one itself; then `value` is known
    value: object = None

    @property
    def scale(self) -> int:
        return self.type.scale if self.type.kind is Kind.DECIMAL else 0


def wider(types: Sequence[DataType]) -> DataType:
    """The widest of types of whole numbers."""
    return max(types, key=lambda type_: WHOLE_DIGITS[str(type_)])


def duck_type(type_: DataType) -> str:
    if isinstance(type_, Listed):
        return f"{duck_type(type_.item)}[]"
    if isinstance(type_, Spanned):
        return 'STRUCT("start" TIMESTAMP, "end" TIMESTAMP)'
    if type_.kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision},{type_.scale})"
    return _DUCK_VARIANTS.get(type_.variant, _DUCK[type_.kind])


def named_type(to: exp.DataType) -> DataType:
    """The type that a CAST names."""
    name = to.this.name
    if name == "DECIMAL":
        sizes = [int(p.name) for p in to.expressions] or [10]
        return decimal(sizes[0], sizes[1] if len(sizes) > 1 else 0)
    return _NAMED[name]


def arrow_value_type(type_: pa.DataType) -> DataType:
    """The language's type of an Arrow scalar."""
    if pa.types.is_decimal(type_):
        return decimal(type_.precision, type_.scale)
    for test, found in (
        (pa.types.is_boolean, schema.BOOLEAN),
        (pa.types.is_int32, schema.INT),
        (pa.types.is_integer, schema.BIGINT),
        (pa.types.is_floating, schema.DOUBLE),
        (pa.types.is_date, schema.DATE),
        (pa.types.is_timestamp, schema.TIMESTAMP),
        (pa.types.is_duration, schema.INTERVAL),
        (pa.types.is_null, schema.NULL),
    ):
        if test(type_):
            return found
    return schema.STRING


def parameter(value: object) -> Scalar:
    """A parameter's value; a bare NULL stays untyped and takes part as SQL's NULL."""
    if isinstance(value, pa.Scalar):
        scalar: Any = value
        type_ = arrow_value_type(scalar.type)
        if type_ in (schema.TIMESTAMP, schema.INTERVAL):
            scalar = scalar.cast(pa.timestamp("us", "UTC") if type_ == schema.TIMESTAMP else pa.duration("us"))
        return replace(constant(scalar.as_py(), type_), origin="param")
    return replace(constant(value), origin="param")


def number(text: str) -> Scalar:
    """A numeric literal by its spelling."""
    if "e" not in text.lower():
        exact = Decimal(text)
        if "." not in text and abs(exact) < 2**63:
            return constant(int(exact))
        found = constant(exact)
        if found.type.precision <= DIGITS_MAX:
            return found
    return constant(float(text))


def constant(value: object, type_: DataType | None = None) -> Scalar:
    """A literal of this value; its type follows from it unless given."""
    type_ = type_ or _type_of(value)
    return Scalar(_sql(value, type_), type_, True, "literal", value)


def _type_of(value: object) -> DataType:
    if isinstance(value, Decimal):
        digits = value.as_tuple()
        assert isinstance(digits.exponent, int), f"{value} is no number"
        scale = max(0, -digits.exponent)
        return decimal(max(len(digits.digits) + max(0, digits.exponent), scale, 1), scale)
    for kind, type_ in (
        (bool, schema.BOOLEAN),
        (int, schema.BIGINT),
        (float, schema.DOUBLE),
        (str, schema.STRING),
        (dt.datetime, schema.TIMESTAMP),
        (dt.date, schema.DATE),
        (dt.timedelta, schema.INTERVAL),
    ):
        if isinstance(value, kind):
            return type_
    assert value is None, f"no type for the value {value!r}"
    return schema.NULL


def _sql(value: object, type_: DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {duck_type(type_)})"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"make_timestamp({instant_us(value)})"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.timedelta):
        return f"CAST({value // _MICROSECOND} AS BIGINT)"
    if isinstance(value, float):
        text = repr(value) if math.isfinite(value) else ("NaN" if math.isnan(value) else "inf" if value > 0 else "-inf")
        return f"CAST('{text}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS {duck_type(type_)})"
    return f"CAST({value} AS {duck_type(type_)})"


def instant_us(value: dt.datetime) -> int:
    """Microseconds since the epoch; a naive value is UTC."""
    return ((value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH) // _MICROSECOND


def instant_of_text(text: str) -> dt.datetime:
    """The instant that a quoted constant names; UTC unless it gives a zone."""
    padded = re.sub(r"(?<=[-: T])(\d)(?=\D|$)", r"0\1", text.strip().upper().removesuffix("UTC").strip())
    found = dt.datetime.fromisoformat(padded)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def date_of_text(text: str) -> dt.date:
    """The date that a quoted constant names."""
    return dt.date(*(int(part) for part in text.strip().split("-")))
