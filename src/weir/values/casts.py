"""Vectorised CAST between operands of `weir.values.columns`. A value that has no counterpart becomes NULL.

Numbers to integers truncate towards zero; to a decimal they round half away from zero; both give NULL
outside the type, and so does NaN. A date is the timestamp of its midnight (UTC), a timestamp's date is the
day it lies in; as a number a timestamp is its seconds since the epoch. Texts are the part of `weir.values.text_casts`.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.decimals import EXACT, is_wide
from weir.algebra.schema import BIGINT, DOUBLE, TIMESTAMP, DataType, Kind, decimal
from weir.store.texts import padded
from weir.values.columns import (
    DAY_US,
    Bools,
    Doubles,
    Ints,
    Operand,
    as_stored,
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
_LONG_DIGITS = 18  # powers of ten up to this one are bigints


def cast(arg: Operand, type_: DataType) -> Operand:
    """`CAST(arg AS type_)`."""
    if arg.kind is Kind.NULL:
        return null_operand(type_)
    if arg.kind is type_.kind and arg.kind is not Kind.DECIMAL:
        return _variant(arg, type_)
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
        values, valid = _times(arg.values, 10 ** (6 - scale), arg.valid)
    else:
        values, valid = _cut(arg.values, 10 ** (scale - 6)), arg.valid
        valid = in_range(values, valid, TIMESTAMP)
    return as_stored(values, valid, TIMESTAMP), valid


def _cut(values: Any, divisor: int) -> Any:
    """Quotients towards zero."""
    return np.where(values < 0, -(-values // divisor), values // divisor)


def _times(values: Any, factor: int, valid: Bools | None) -> tuple[Any, Bools | None]:
    limit = (2**63 - 1) // factor
    return values * factor, without(valid, np.asarray((values < -limit) | (values > limit), bool))


def _whole_of_double(values: Doubles, valid: Bools | None, type_: DataType) -> tuple[Any, Bools | None]:
    """Doubles in units of `type_`: cut off for integers, rounded half away from zero for decimals."""
    outside = ~(np.abs(values) < (10.0 ** (type_.precision - type_.scale) if type_.kind is Kind.DECIMAL else 2.0**63))
    inside = np.where(outside, 0.0, values)  # NaN is outside too
    units: Any
    if type_.kind is not Kind.DECIMAL:
        units = inside.astype(np.int64)
    elif is_wide(type_):
        units = np.array([_units(x, type_.scale) for x in inside.tolist()], object)
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
    units[near] = [_units(x, scale) for x in values[near].tolist()]
    return units


def _units(x: float, scale: int) -> int:
    return int(Decimal(repr(x)).scaleb(scale, EXACT).to_integral_value(ROUND_HALF_UP, EXACT))


def _rescale(arg: Operand, type_: DataType) -> tuple[Any, Bools | None]:
    """Integers and decimals to another scale: exact upwards; downwards cut off for integers, else rounded."""
    scale = arg.type.scale if arg.kind is Kind.DECIMAL else 0
    wanted = type_.scale if type_.kind is Kind.DECIMAL else 0
    values: Any = arg.values
    valid = arg.valid
    if is_wide(type_) or scale - wanted > _LONG_DIGITS:
        values = values.astype(object)
    if wanted >= scale:
        factor = 10 ** (wanted - scale)
        values, valid = (values * factor, valid) if values.dtype == object else _times(values, factor, valid)
    else:
        divisor = 10 ** (scale - wanted)
        cut = _cut(values, divisor)
        if type_.kind is Kind.DECIMAL:
            rest = values - cut * divisor
            cut = cut + np.where(np.abs(rest) * 2 >= divisor, np.sign(rest), 0)
        values = cut
    valid = in_range(values, valid, type_)
    return as_stored(values, valid, type_), valid
