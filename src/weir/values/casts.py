"""Vectorised CAST between operands of `weir.values.columns`. A value that has no counterpart becomes NULL.

Numbers to integers truncate towards zero; to a decimal they round half away from zero; both give NULL
outside the type, and so does NaN. A date is the timestamp of its midnight (UTC), a timestamp's date is the
day it lies in; as a number a timestamp is its seconds since the epoch. Text is read as a literal of the type would
be, with blanks around it allowed; a value becomes the text that Spark writes for it.
"""

from __future__ import annotations

from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import BIGINT, DOUBLE, STRING, DataType, Kind, decimal
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

_WHOLE = (Kind.INT, Kind.BIGINT)
_SECOND_US = 1_000_000
_EXACT = Context(prec=100)
_SPLITTER = 134_217_729.0  # 2^27 + 1 cuts a double into halves whose products are exact


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
            return _to_string(arg)
        if arg.kind is Kind.STRING:
            return _from_string(arg, type_)
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
    if source in _WHOLE and target is Kind.TIMESTAMP:
        return _times(arg.values, _SECOND_US, arg.valid)
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
        units = _rounded(np.abs(inside), 10.0**type_.scale)
        units = np.where(inside < 0, -units, units)
    return units, in_range(units, without(valid, outside), type_)


def _rounded(values: Doubles, power: float) -> Ints:
    """The exact product values·power, rounded half up: the product as a double, plus its error (Dekker 1971)."""
    product = values * power
    high = values * _SPLITTER - (values * _SPLITTER - values)
    power_high = power * _SPLITTER - (power * _SPLITTER - power)
    low, power_low = values - high, power - power_high
    error = ((high * power_high - product) + high * power_low + low * power_high) + low * power_low
    floor = np.floor(product)
    rest = product - floor
    # A rest of exactly 0 or 1/2 is where the error decides; elsewhere it is too small to matter.
    of_whole = np.floor(error) + (error - np.floor(error) >= 0.5)
    up = np.where(rest == 0, of_whole, np.where(rest == 0.5, error >= 0, rest > 0.5))
    return floor.astype(np.int64) + up.astype(np.int64)


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


def _to_string(arg: Operand) -> Operand:
    array = to_arrow(arg, len(arg.values))
    if arg.kind is Kind.DOUBLE:
        text = _double_text(array)
    elif arg.kind is Kind.DECIMAL:
        text = _decimal_text(arg)
    elif arg.kind is Kind.TIMESTAMP:
        text = pc.strftime(array, format="%Y-%m-%d %H:%M:%S")  # %S has six decimals for microseconds
        text = _replaced(text, r"\.?0+$", "", where=pc.match_substring_regex(text, pattern=r"\.[0-9]*0$"))
    else:
        text = array.cast(pa.string())
    return Operand(text if text.type == pa.string() else text.cast(pa.string()), arg.valid, STRING, arg.constant)


def _replaced(text: pa.Array, pattern: str, replacement: str, *, where: pa.Array) -> pa.Array:
    return pc.if_else(where, pc.replace_substring_regex(text, pattern=pattern, replacement=replacement), text)


def _double_text(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    text = _replaced(text, "$", ".0", where=pc.match_substring_regex(text, pattern=r"^-?[0-9]+$"))
    text = _replaced(text, "^(-?[0-9])e", "\\1.0e", where=pc.match_substring(text, "e"))
    for ours, spark in (("e+", "E"), ("e", "E"), ("inf", "Infinity"), ("nan", "NaN")):
        text = pc.replace_substring(text, pattern=ours, replacement=spark)
    return text


def _decimal_text(arg: Operand) -> pa.Array:
    """Plain digits: Arrow itself writes small decimals with an exponent."""
    scale, size = arg.type.scale, len(arg.values)
    valid = pa.array(np.ones(size, bool) if arg.valid is None else arg.valid)
    digits = np.abs(arg.values)
    sign = pc.if_else(pa.array(np.asarray(arg.values < 0)), "-", "")
    whole = pa.array(digits // 10**scale).cast(pa.string())
    text = pc.binary_join_element_wise(sign, whole, "")
    if scale:
        fraction = pc.utf8_lpad(pa.array(digits % 10**scale).cast(pa.string()), width=scale, padding="0")
        text = pc.binary_join_element_wise(text, fraction, ".")
    return pc.if_else(valid, text, pa.scalar(None, pa.string()))


_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_WRITTEN = {
    Kind.INT: _NUMBER + "$",
    Kind.BIGINT: _NUMBER + "$",
    Kind.DECIMAL: _NUMBER + "$",
    Kind.DOUBLE: _NUMBER + r"([eE][+-]?[0-9]+)?$|^[+-]?(inf|infinity|nan)$",
    Kind.BOOLEAN: "^(true|t|yes|y|1|false|f|no|n|0)$",
    Kind.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    Kind.TIMESTAMP: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z?)?$",
}


def _from_string(arg: Operand, type_: DataType) -> Operand:
    kind = type_.kind
    text = pc.ascii_trim_whitespace(arg.values)
    if kind in (Kind.BOOLEAN, Kind.DOUBLE):
        text = pc.ascii_lower(text)
    well_formed = pc.match_substring_regex(text, pattern=_WRITTEN[kind])
    text = pc.if_else(well_formed, text, pa.scalar(None, pa.string()))
    if kind is Kind.BOOLEAN:
        parsed = pc.match_substring_regex(text, pattern="^(t|y|1)")
        return _read(parsed, type_, arg)
    if kind is Kind.DOUBLE:
        numbers = pc.replace_substring(text, pattern="infinity", replacement="inf").cast(arrow_type(type_))
        return _read(numbers, type_, arg)
    if kind is Kind.DATE:
        return _read(_days(text), type_, arg)
    if kind is Kind.TIMESTAMP:
        return _read(_instants(text), type_, arg)
    return _exact_number(text, type_, arg)


def _read(parsed: pa.Array, type_: DataType, arg: Operand) -> Operand:
    return column_operand(parsed, type_, constant=arg.constant)


def _exact_number(text: pa.Array, type_: DataType, arg: Operand) -> Operand:
    """Numbers read from their integer digits and the first 18 after the point, so that no text is too long."""
    negative = _known(pc.starts_with(text, pattern="-"))
    bare = pc.replace_substring_regex(text, pattern="^[+-]?0*", replacement="")
    digits = pc.replace_substring_regex(bare, pattern=r"\.[0-9]*$", replacement="")
    too_long = pc.greater(pc.utf8_length(digits), 19)
    digits = pc.if_else(too_long, pa.scalar(None, pa.string()), pc.utf8_lpad(digits, width=1, padding="0"))
    whole = digits.cast(pa.decimal128(38, 0))
    whole = pc.if_else(pc.greater(whole, pa.scalar(2**63 - 1, pa.decimal128(38, 0))), None, whole)
    units = column_operand(whole.cast(pa.int64()), BIGINT)
    if type_.kind is not Kind.DECIMAL:
        values = np.where(negative, -units.values, units.values)
        return Operand(values, in_range(values, units.valid, type_), type_, arg.constant)
    point = pc.replace_substring_regex(bare, pattern=r"^[0-9]*\.?", replacement="")
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(point, width=18, padding="0"), 0, 18).cast(pa.int64())
    cut, valid = _rescale(Operand(column_operand(fraction, BIGINT).values, None, decimal(18, 18), False), type_)
    scaled, fits = _times(units.values, 10**type_.scale, units.valid)
    values = np.where(negative, -(scaled + cut), scaled + cut)
    valid = fits if valid is None else (valid if fits is None else valid & fits)
    return Operand(values, in_range(values, valid, type_), type_, arg.constant)


def _known(found: pa.Array) -> Bools:
    return found.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow is untyped


def _days(text: pa.Array) -> pa.Array:
    """Dates; as `strptime` reads 30 February as 1 March, each is written again and compared with its text."""
    parsed = pc.strptime(text, format="%Y-%m-%d", unit="s", error_is_null=True)
    back = pc.strftime(parsed, format="%Y-%m-%d").cast(pa.string())
    return pc.if_else(pc.equal(back, text), parsed, None).cast(pa.date32())


def _instants(text: pa.Array) -> pa.Array:
    text = pc.replace_substring_regex(
        pc.replace_substring(text, pattern="T", replacement=" "), pattern="Z$", replacement=""
    )
    has_clock = pc.greater(pc.utf8_length(text), 10)
    text = pc.if_else(has_clock, text, pc.binary_join_element_wise(text, "00:00:00", " "))
    whole = pc.utf8_slice_codeunits(text, 0, 19)
    parsed = pc.strptime(whole, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)
    back = pc.strftime(parsed, format="%Y-%m-%d %H:%M:%S").cast(pa.string())
    seconds = pc.if_else(pc.equal(back, whole), parsed, None).cast(pa.int64())
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(text, 20, 26), width=6, padding="0").cast(pa.int64())
    return pc.add(pc.multiply(seconds, _SECOND_US), fraction).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
