"""Constants as bounds on keys: op-specific rounding that is exact for every pair of types.

A column of constants is placed among the keys of an attribute: `floor` is the greatest key that is not above
the constant, and `exact` says whether the constant itself has that key. Then for an attribute x

    x <= c   is  x <= floor              x >  c   is  x >= floor + 1
    x <  c   is  x <= floor − [exact]    x >= c   is  x >= floor + 1 − [exact]
    x =  c   is  x in [floor, floor] if exact, else nothing

which holds because keys are whole and ordered as the values are. So `i < 5.5` is `i <= 5`, 2^53 + 1 stays
apart from 2^53 as a double, and constants outside the type's range give everything or nothing (also ±∞, and NaN, which
is above all). Numbers become whole by exact steps only: integer multiplication that saturates, integer division with
remainder, and for doubles against decimals an error-free product of two doubles (Dekker 1971). The language itself asks
for the one rounding there is: a constant that is compared with a *double* attribute becomes its nearest double.

Cost: a few passes of NumPy over the constants; a million take some tens of milliseconds. No code is shared with
`weir.values.comparisons`, which compares the same values without keys.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import KEY_DIGITS_MAX, is_wide
from weir.algebra.schema import DataType, Kind
from weir.index.digits import texts_between, texts_of
from weir.index.keys import KEY_MAX, KEY_MIN, encode_column, encode_doubles
from weir.index.strings import StringDictionary, find

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

BELOW_ALL = KEY_MIN - 1  # the floor of a constant below every key
DAY_US = 86_400_000_000
_WHOLE = (Kind.INT, Kind.BIGINT, Kind.DECIMAL)
_FAR = 10**40  # beyond all decimals
_SPLITTER = 134_217_729.0  # 2^27 + 1 cuts a double into two halves of 26 bits


class Places(NamedTuple):
    """Where constants stand among the keys of an attribute."""

    floor: Ints  # greatest key not above the constant; BELOW_ALL if there is none
    exact: Bools  # the constant has a key, and it is `floor`


class Intervals(NamedTuple):
    """Closed intervals of keys; those with lo > hi are empty."""

    lo: Ints
    hi: Ints


def comparable(attribute: DataType, constant: DataType) -> bool:
    """Whether a constant of this type can be placed among the keys of this attribute."""
    if attribute.is_numeric and constant.is_numeric:
        return True
    temporal = (Kind.DATE, Kind.TIMESTAMP)
    return attribute.kind is constant.kind or (attribute.kind in temporal and constant.kind in temporal)


def place(constants: pa.Array, constant: DataType, attribute: DataType) -> Places:
    """Places of constants other than strings among the attribute's keys; the place of a NULL means nothing."""
    if attribute.kind is Kind.DOUBLE:
        keys = encode_doubles(_nearest_doubles(constants, constant))
        return Places(keys, np.ones(len(keys), bool))
    if constant.kind is Kind.DOUBLE:
        scale = attribute.scale if attribute.kind is Kind.DECIMAL else 0
        return _floor_doubles(doubles_of(constants), scale)
    if is_wide(constant):
        return _held(*_floors(constants, constant, _scale(attribute)))
    values = encode_column(constants, constant)
    if attribute.kind in _WHOLE:
        up = _scale(attribute) - _scale(constant)
        return _multiplied(values, 10**up) if up >= 0 else _divided(values, 10**-up)
    if attribute.kind is constant.kind:
        return _multiplied(values, 1)
    if attribute.kind is Kind.DATE:
        return _divided(values, DAY_US)
    assert (attribute.kind, constant.kind) == (Kind.TIMESTAMP, Kind.DATE), f"{attribute} with {constant}"
    return _multiplied(values, DAY_US)


def texts_of_constants(constants: pa.Array, constant: DataType, attribute: DataType) -> pa.Array:
    """Constants that meet an attribute with a dictionary, as its entries."""
    if not is_wide(attribute):
        return constants
    if constant.kind is Kind.DECIMAL and constant.scale == attribute.scale:
        return texts_of(constants, constant)
    texts = texts_between(*_floors(constants, constant, attribute.scale))
    there = constants.is_valid()
    return pc.if_else(there, texts, pa.scalar(None, texts.type)) if constants.null_count else texts


def _floors(constants: pa.Array, constant: DataType, scale: int) -> tuple[npt.NDArray[np.object_], Bools]:
    """The greatest numbers of units of 10^−scale that are not above constants, and whether they are these.

    NaN and infinity are above all numbers; the place of a NULL means nothing.
    """
    found = [_floor(value, scale) for value in constants.to_pylist()]
    return np.array([units for units, _ in found], object), np.array([is_it for _, is_it in found], bool)


def _floor(value: int | float | Decimal | None, scale: int) -> tuple[int, bool]:
    if value is None:
        return 0, False
    if isinstance(value, float) and not math.isfinite(value):
        return (-_FAR if value < 0 else _FAR), False
    above, below = value.as_integer_ratio()
    units, rest = divmod(above * 10**scale, below)
    return units, not rest


def _held(floors: npt.NDArray[np.object_], exact: Bools) -> Places:
    """Places among keys; what is beyond all of them stands at an end."""
    low, high = np.asarray(floors < KEY_MIN, bool), np.asarray(floors > KEY_MAX, bool)
    inside = np.where(low | high, 0, floors).astype(np.int64)
    return Places(np.where(high, KEY_MAX, np.where(low, BELOW_ALL, inside)), exact & ~low & ~high)


def place_strings(constants: pa.Array, dictionary: StringDictionary) -> Places:
    """Places of strings that the dictionary contains."""
    encoded = constants.dictionary_encode()
    codes = find(dictionary, encoded.dictionary)
    assert bool(np.all(codes & 1)), "a dictionary has every constant of its attribute"
    at = encoded.indices.fill_null(0).to_numpy()
    floor = codes[at] if len(codes) else np.zeros(len(at), np.int64)
    return Places(floor, np.ones(len(floor), bool))


def interval(op: str, places: Places) -> Intervals:
    """The keys that satisfy `x op constant`; op is one of = < <= > >=."""
    floor, exact = places
    lo = np.full(len(floor), KEY_MIN, np.int64)
    hi = np.full(len(floor), KEY_MAX, np.int64)
    if op in ("<", "<="):
        hi = floor - (exact & (floor > BELOW_ALL)) if op == "<" else floor
    elif op in (">", ">="):
        above = np.ones(len(floor), bool) if op == ">" else ~exact
        nothing = above & (floor == KEY_MAX)  # there is no key above the last one
        lo = floor + (above & ~nothing)
        hi[nothing] = BELOW_ALL
    else:
        assert op == "=", op
        lo, hi = floor, np.where(exact, floor, BELOW_ALL)
    return Intervals(np.maximum(lo, KEY_MIN), hi)


def undone(step: str, intervals: Intervals, constants: Ints) -> Intervals:
    """The keys x for which `step` (`x + c`, `x - c`, `c - x`, `x * c` or `x // c`) lies in the interval.

    A result that overflows is NULL and satisfies nothing. That needs no case of its own: the given interval
    consists of keys, so only x whose result is a key are in the new one. Nothing overflows here either.
    """
    lo, hi = intervals
    empty = lo > hi
    if step == "x * c":
        return _divided_interval(lo, hi, constants, empty)
    if step == "x // c":
        (new_lo, low_out), (after, high_out) = _times(lo, constants), _times(np.minimum(hi, KEY_MAX - 1) + 1, constants)
        new_hi = np.where(high_out == 0, after - 1, after)
    elif step == "x + c":
        (new_lo, low_out), (new_hi, high_out) = _minus(lo, constants), _minus(hi, constants)
    elif step == "x - c":
        (new_lo, low_out), (new_hi, high_out) = _plus(lo, constants), _plus(hi, constants)
    else:
        assert step == "c - x", step
        (new_lo, low_out), (new_hi, high_out) = _minus(constants, hi), _minus(constants, lo)
    # A lower bound beyond the last key, or an upper one before the first, leaves nothing.
    empty = empty | (low_out > 0) | (high_out < 0)
    return Intervals(np.maximum(new_lo, KEY_MIN), np.where(empty, BELOW_ALL, new_hi))


def _divided_interval(lo: Ints, hi: Ints, c: Ints, empty: Bools) -> Intervals:
    """x·c in [lo, hi]: the quotients rounded inwards; with c = 0 every x or none."""
    divisor = np.where(c == 0, 1, c)
    lo, hi = np.where(empty, 0, lo), np.where(empty, 0, hi)
    lower, upper = np.where(c > 0, lo, hi), np.where(c > 0, hi, lo)
    new_lo, new_hi = -(-lower // divisor), upper // divisor
    anything = (lo <= 0) & (hi >= 0)
    new_lo = np.where(c == 0, KEY_MIN, new_lo)
    new_hi = np.where(c == 0, np.where(anything, KEY_MAX, BELOW_ALL), new_hi)
    return Intervals(np.maximum(new_lo, KEY_MIN), np.where(empty, BELOW_ALL, new_hi))


def _times(a: Ints, c: Ints) -> tuple[Ints, Ints]:
    """a·c for c > 0, and where it left int64: −1 below, 1 above."""
    last = KEY_MAX // c
    out = np.where(a > last, 1, np.where(a < -last, -1, 0))
    return np.where(out == 0, np.where(out == 0, a, 0) * c, np.where(out > 0, KEY_MAX, KEY_MIN)), out


def _minus(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """a − b, and where it left int64: −1 below, 1 above; the difference then is the last number on that side."""
    with np.errstate(over="ignore"):
        difference = a - b
    out = np.where(((a ^ b) & (a ^ difference)) < 0, np.where(b > 0, -1, 1), 0)
    return np.where(out == 0, difference, np.where(out > 0, KEY_MAX, KEY_MIN)), out


def _plus(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    with np.errstate(over="ignore"):
        total = a + b
    out = np.where(((a ^ total) & (b ^ total)) < 0, np.where(b < 0, -1, 1), 0)
    return np.where(out == 0, total, np.where(out > 0, KEY_MAX, KEY_MIN)), out


def _scale(type_: DataType) -> int:
    return type_.scale if type_.kind is Kind.DECIMAL else 0


def whole(constants: pa.Array, constant: DataType, factor: int, divisor: int) -> Places:
    """constant · factor / divisor in int64, exact where that is a whole number within its range."""
    if is_wide(constant):
        floors, _ = _floors(constants, constant, constant.scale)
        scaled = floors * factor
        return _held(scaled // divisor, np.asarray(scaled % divisor == 0, bool))
    values = encode_column(constants, constant)
    return _multiplied(values, factor) if divisor == 1 else _divided(values, divisor)


def _multiplied(values: Ints, factor: int) -> Places:
    if factor == 1:
        return Places(values, np.ones(len(values), bool))
    last = KEY_MAX // factor
    inside = (values <= last) & (values >= -last)
    floor = np.where(inside, values, 0) * factor
    if not inside.all():
        floor = np.where(inside, floor, np.where(values > 0, KEY_MAX, BELOW_ALL))
    return Places(floor, inside)


def _divided(values: Ints, divisor: int) -> Places:
    floor, remainder = np.divmod(values, divisor)
    return Places(floor, remainder == 0)


def doubles_of(constants: pa.Array) -> Doubles:
    """Constants that are doubles; what stands at a NULL is 0."""
    values: Doubles = (constants.fill_null(0.0) if constants.null_count else constants).to_numpy()
    return values


def _nearest_doubles(constants: pa.Array, type_: DataType) -> Doubles:
    if type_.kind is Kind.DOUBLE:
        return doubles_of(constants)
    if is_wide(type_):
        return np.array([0.0 if value is None else float(value) for value in constants.to_pylist()])
    values = encode_column(constants, type_)
    if type_.kind is not Kind.DECIMAL:
        return values.astype(np.float64)
    nearest = values / 10.0**type_.scale  # both are exact up to 53 bits: rounded once
    long = (np.abs(values) > 2**53) & constants.is_valid().to_numpy(zero_copy_only=False)
    if long.any():
        texts = constants.filter(pa.array(long)).cast(pa.string())
        nearest[long] = texts.cast(pa.float64()).to_numpy()
    return nearest


def _floor_doubles(values: Doubles, scale: int) -> Places:
    """Floors of value·10^scale, by way of the magnitude.

    Whole part and fraction of a double are both exact, and the fraction is multiplied error-free.
    """
    limit = 9.0 * 10.0 ** (KEY_DIGITS_MAX - scale) if scale else 2.0**63  # 64 bits hold it, and no key is as large
    high, low = ~(values < limit), values <= -limit  # NaN is above all
    size = np.abs(np.where(high | low, 0.0, values))
    whole = np.floor(size)
    fraction = size - whole
    product = fraction * 10.0**scale
    floor = np.floor(product)
    # A product that is not whole lies strictly between the same two integers as the exact one, because rounding
    # is monotone; one that is whole is off by `error`, which may be more than one beyond 2^53.
    error = np.where(floor == product, _product_error(fraction, 10.0**scale, product), 0.0)
    exact = (floor == product) & (np.floor(error) == error)
    below = floor.astype(np.int64) + np.floor(error).astype(np.int64)
    units = whole.astype(np.int64) * 10**scale + below
    units = np.where(values < 0, -units - ~exact, units)
    units = np.where(high, KEY_MAX, np.where(low, BELOW_ALL, units))
    return Places(units, exact & ~high & ~low & (units > BELOW_ALL))


def _product_error(a: Doubles, b: float, product: Doubles) -> Doubles:
    """a·b − fl(a·b), exactly, for 0 <= a < 1 and 1 <= b <= 10^18."""
    a_high = a * _SPLITTER - (a * _SPLITTER - a)
    a_low = a - a_high
    b_high = b * _SPLITTER - (b * _SPLITTER - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
