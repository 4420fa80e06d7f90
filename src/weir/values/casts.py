"""Vectorised CAST between operands of `weir.values.columns`. A value that has no counterpart becomes NULL.

Numbers to integers truncate towards zero; to a decimal they round half away from zero; both give NULL
outside the type, and so does NaN. A date is the timestamp of its midnight (UTC), a timestamp's date is the
day it lies in; as a number a timestamp is its seconds since the epoch. Texts are the part of `weir.values.text_casts`.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import BIGINT, DOUBLE, DataType, Kind, decimal
from weir.store.row_files import arrow_type
from weir.store.texts import padded
from weir.values.columns import (
    DAY_US,
    Bools,
    Doubles,
    Ints,
    Operand,
    column_operand,
    in_range,
    in_single,
    null_operand,
    to_arrow,
    to_double,
    without,
)
from weir.values.text_casts import from_text, to_text

_WHOLE = (Kind.INT, Kind.BIGINT)
_SECOND_US = 1_000_000
_EXACT = Context(prec=100)
_WIDE = Context(prec=400)


def cast(arg: Operand, type_: DataType) -> Operand:
    """`CAST(arg AS type_)`."""
    if arg.kind is Kind.NULL:
        return null_operand(type_)
    if arg.kind is type_.kind and arg.kind is not Kind.DECIMAL:
        return _variant(arg, type_)
    if arg.kind is Kind.PAYLOAD:
        return _of_digits(arg, type_)
    with np.errstate(all="ignore"):
        if type_.kind is Kind.STRING:
            return to_text(arg)
        if arg.kind is Kind.STRING:
            return from_text(arg, type_)
        values, valid = _between(arg, type_)
    return Operand(values, valid, type_, arg.constant)


def _variant(arg: Operand, type_: DataType) -> Operand:
    """A value as another variant of its kind."""
    values, valid = arg.values, arg.valid
    if type_.kind is Kind.DOUBLE:
        values = in_single(values, type_)
    elif type_.kind is Kind.INT:
        valid = in_range(values, valid, type_)
    elif type_.kind is Kind.STRING:
        values = padded(values, type_)  # Spark does so where two char of different lengths are compared
    return Operand(values, valid, type_, arg.constant)


def _of_digits(arg: Operand, type_: DataType) -> Operand:
    """A decimal of more than 18 digits, which only payloads have."""
    assert arg.type.variant == "decimal", f"no cast from {arg.type} to {type_}"
    digits = arg.values
    if type_.kind is Kind.DOUBLE:
        return column_operand(digits.cast(pa.string()).cast(arrow_type(type_)), type_, constant=arg.constant)
    scale, limit = (type_.scale, 10**type_.precision) if type_.kind is Kind.DECIMAL else (0, 1 << type_.bits - 1)
    ways = {"ndigits": scale, "round_mode": "half_towards_infinity" if type_.kind is Kind.DECIMAL else "towards_zero"}
    room = digits.cast(pa.decimal256(76, arg.type.scale))  # rounding may need a digit more
    units = [None if d is None else int(d.scaleb(scale, _EXACT)) for d in pc.round(room, **ways).to_pylist()]
    low = -limit if type_.kind is Kind.INT else 1 - limit
    values = np.array([u if u is not None and low <= u < limit else 0 for u in units], np.int64)
    valid = np.array([u is not None and low <= u < limit for u in units], bool)
    return Operand(values, valid, type_, arg.constant)


def _between(arg: Operand, type_: DataType) -> tuple[Any, Bools | None]:
    source, target = arg.kind, type_.kind
    if source is Kind.TIMESTAMP and target is Kind.DATE:
        days = arg.values // DAY_US
        return days, in_range(days, arg.valid, type_)
    if source is Kind.DATE and target is Kind.TIMESTAMP:
        return _times(arg.values, DAY_US, arg.valid)
    if source is Kind.TIMESTAMP and target is Kind.DOUBLE:
        return in_single(arg.values / float(_SECOND_US), type_), arg.valid
    if source is Kind.TIMESTAMP and target in _WHOLE:
        seconds = arg.values // _SECOND_US
        return seconds, in_range(seconds, arg.valid, type_)
    if target is Kind.TIMESTAMP:
        return _moments(arg)
    if source is Kind.TIMESTAMP and target is Kind.DECIMAL:
        return _rescale(Operand(arg.values, arg.valid, decimal(18, 6), arg.constant), type_)
    if target is Kind.BOOLEAN:
        return arg.values != 0, arg.valid
    if source is Kind.BOOLEAN:
        arg = Operand(arg.values.astype(np.int64), arg.valid, BIGINT, arg.constant)
    numeric = arg.type.is_numeric and type_.is_numeric
    assert numeric, f"no cast from {arg.type} to {type_}"
    if target is Kind.DOUBLE:
        return (to_double(arg) if type_ == DOUBLE else _singles(arg)), arg.valid
    if arg.kind is Kind.DOUBLE:
        return _whole_of_double(arg.values, arg.valid, type_)
    return _rescale(arg, type_)


def _singles(arg: Operand) -> Doubles:
    """The nearest floats of whole numbers and decimals, each rounded once."""
    if arg.kind is not Kind.DECIMAL:
        nearest: Doubles = arg.values.astype(np.float32).astype(np.float64)
        return nearest
    exact = to_arrow(Operand(arg.values, None, arg.type, False), len(arg.values))
    from_digits: Doubles = exact.cast(pa.string()).cast(pa.float32()).to_numpy().astype(np.float64)
    return from_digits


def _moments(arg: Operand) -> tuple[Any, Bools | None]:
    """Seconds since the epoch as instants; what is finer than a microsecond is cut off."""
    if arg.kind is Kind.DOUBLE:
        scaled = np.trunc(arg.values * _SECOND_US)
        outside = ~(np.abs(scaled) < 2.0**63)
        return np.where(outside, 0, scaled).astype(np.int64), without(arg.valid, outside)
    scale = arg.type.scale if arg.kind is Kind.DECIMAL else 0
    if scale <= 6:
        return _times(arg.values, 10 ** (6 - scale), arg.valid)
    return (arg.values - np.fmod(arg.values, 10 ** (scale - 6))) // 10 ** (scale - 6), arg.valid


def _times(values: Ints, factor: int, valid: Bools | None) -> tuple[Ints, Bools | None]:
    limit = (2**63 - 1) // factor
    return values * factor, without(valid, (values < -limit) | (values > limit))


def _whole_of_double(values: Doubles, valid: Bools | None, type_: DataType) -> tuple[Ints, Bools | None]:
    """Doubles in units of `type_`: cut off for integers, rounded half away from zero for decimals."""
    outside = ~(np.abs(values) < (10.0 ** (type_.precision - type_.scale) if type_.kind is Kind.DECIMAL else 2.0**63))
    inside = np.where(outside, 0.0, values)  # NaN is outside too
    if type_.kind is not Kind.DECIMAL:
        units = inside.astype(np.int64)
    else:
        units = _rounded(np.abs(inside), type_.scale)
        units = np.where(inside < 0, -units, units)
    return units, in_range(units, without(valid, outside), type_)


def _rounded(values: Doubles, scale: int) -> Ints:
    """Doubles times 10^scale, halves up, of the shortest text that each has: 1.005 is 1.01, as in Spark.

    A product that is far from a half is rounded as it is; the others, and those beyond 53 bits, by their digits.
    """
    product = values * 10.0**scale
    floor = np.floor(product)
    rest = product - floor
    units: Ints = floor.astype(np.int64) + (rest > 0.5)
    near = np.flatnonzero(np.abs(rest - 0.5) <= 4 * np.spacing(product))
    digits = [Decimal(repr(x)).scaleb(scale).to_integral_value(ROUND_HALF_UP, _WIDE) for x in values[near].tolist()]
    units[near] = [int(d) for d in digits]
    return units


def _rescale(arg: Operand, type_: DataType) -> tuple[Ints, Bools | None]:
    """Integers and decimals to another scale: exact upwards; downwards cut off for integers, else rounded."""
    scale = arg.type.scale if arg.kind is Kind.DECIMAL else 0
    wanted = type_.scale if type_.kind is Kind.DECIMAL else 0
    if wanted >= scale:
        values, valid = _times(arg.values, 10 ** (wanted - scale), arg.valid)
    else:
        divisor = 10 ** (scale - wanted)
        remainder = np.fmod(arg.values, divisor)
        values, valid = (arg.values - remainder) // divisor, arg.valid
        if type_.kind is Kind.DECIMAL:
            values = values + np.where(np.abs(remainder) * 2 >= divisor, np.sign(remainder), 0)
    return values, in_range(values, valid, type_)
