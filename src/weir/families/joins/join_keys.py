"""Keys of joins: values of two types as int64, equal exactly where SQL's `=` says that the values are.

The two sides of an equality may be of different types, and a value's key depends on both: `key_of(values, own, other)`
on one side meets `key_of(values, other, own)` on the other.

    a double on either side     both compare as doubles: the key of the nearest double (−0.0 is 0.0, NaN equals NaN)
    whole numbers, decimals     the number in units of the finer scale; one that leaves int64 there equals nothing
    date with timestamp         microseconds of the date's midnight
    otherwise                   the value's own key (`weir.index.keys`)

NULL, and what equals nothing, is NULL_KEY. Why the second line is exact: rescaling multiplies by a power of ten, which
is one-to-one, and every value of the finer side is an int64 in its own units, so a product beyond int64 meets none of
them. Why the first is: comparing a double with another number is *defined* through its nearest double, so several
integers beyond 2^53 may have one key, and all of them equal that double. Strings are compared as they are and have no
keys here. Neither have decimals of more than 18 digits beside numbers that are no doubles: they are looked up as texts
(`texts_of_keys`), in units of the finer scale too.

Equal keys say nothing about two values of the same side, and unlike keys of indexes these are not ordered across types.
Cost: one or two passes of NumPy over the column. No code is shared with `weir.values.comparisons`.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import BIGINT_DIGITS, DIGITS_MAX, is_wide
from weir.algebra.schema import DOUBLE, DataType, Kind, decimal
from weir.boxes.bounds import DAY_US, Ints, comparable
from weir.index.digits import texts_of
from weir.index.keys import KEY_MAX, NULL_KEY, encode_column, encode_doubles

_EXACT_DOUBLE_MAX = 2**53  # integers up to this one are doubles


def has_keys(own: DataType, other: DataType) -> bool:
    """Whether values of these two types can be equal at all, and if so have keys (or are strings)."""
    return comparable(own, other) and Kind.NULL not in (own.kind, other.kind)


def key_of(values: pa.Array | pa.ChunkedArray, own: DataType, other: DataType) -> Ints:
    """The key of each value of type `own` that is compared with values of type `other`; no texts."""
    assert has_keys(own, other), f"{own} = {other}"
    assert not are_texts(own, other), f"{own} = {other}"
    array = _whole(values)
    if Kind.DOUBLE in (own.kind, other.kind):
        return _as_doubles(array, own)
    return _times(encode_column(array, own), _factor(own, other))


def are_texts(own: DataType, other: DataType) -> bool:
    """Whether values of these two types are looked up in a dictionary."""
    return own.kind is Kind.STRING or (Kind.DOUBLE not in (own.kind, other.kind) and (is_wide(own) or is_wide(other)))


def texts_of_keys(values: pa.Array, own: DataType, other: DataType) -> pa.Array:
    """What is looked up; decimals in units of the finer scale, NULL where no decimal has so many digits."""
    if own.kind is Kind.STRING:
        return values
    scale = max(_scale(own), _scale(other))
    stored = decimal(DIGITS_MAX, scale)
    if own.kind is not Kind.DECIMAL:  # as long as any whole number is
        values = values.cast(pa.decimal128(BIGINT_DIGITS, 0))
        own = decimal(BIGINT_DIGITS, 0)
    limit = pa.scalar(Decimal(10) ** (DIGITS_MAX - scale), pa.decimal256(76, own.scale))
    fits = pc.less(pc.abs(values.cast(pa.decimal256(76, own.scale))), limit)
    inside = pc.if_else(fits, values, pa.scalar(None, values.type))
    return texts_of(inside.cast(pa.decimal128(DIGITS_MAX, scale)), stored)


def _factor(own: DataType, other: DataType) -> int:
    """How many units of the finer of two types one unit of `own` is."""
    if own.kind is Kind.DATE and other.kind is Kind.TIMESTAMP:
        return DAY_US
    return int(10 ** max(0, _scale(other) - _scale(own)))


def _scale(type_: DataType) -> int:
    return type_.scale if type_.kind is Kind.DECIMAL else 0


def _times(keys: Ints, factor: int) -> Ints:
    """Products that stay in int64; NULL_KEY for the others, and where it was before."""
    if factor == 1:
        return keys
    last = KEY_MAX // factor
    inside = (keys <= last) & (keys >= -last)  # NULL_KEY is below −last
    return np.where(inside, np.where(inside, keys, 0) * factor, NULL_KEY)


def _as_doubles(array: pa.Array, own: DataType) -> Ints:
    """Keys of the nearest doubles."""
    if own.kind is Kind.DOUBLE:
        return encode_column(array, own)
    if is_wide(own):
        return encode_column(array.cast(pa.string()).cast(pa.float64()), DOUBLE)
    numbers = encode_column(array, own)
    known = numbers != NULL_KEY
    doubles = np.where(known, numbers, 0).astype(np.float64)
    if _scale(own):
        doubles /= 10.0 ** _scale(own)  # up to 53 bits both operands are exact, so this rounds once
        large = known & (np.abs(np.where(known, numbers, 0)) > _EXACT_DOUBLE_MAX)
        if large.any():  # rounding before the division would round twice: by way of the digits
            texts = array.filter(pa.array(large)).cast(pa.string())
            doubles[large] = texts.cast(pa.float64()).to_numpy()
    return np.where(known, encode_doubles(doubles), NULL_KEY)


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
