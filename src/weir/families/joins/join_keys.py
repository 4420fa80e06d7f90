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
keys here.

Equal keys say nothing about two values of the same side, and unlike keys of indexes these are not ordered across types.
Cost: one or two passes of NumPy over the column. No code is shared with `weir.values.comparisons`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weir.algebra.schema import DataType, Kind
from weir.boxes.bounds import DAY_US, Ints, comparable
from weir.index.keys import KEY_MAX, NULL_KEY, encode_column, encode_doubles

_EXACT_DOUBLE_MAX = 2**53  # integers up to this one are doubles


def has_keys(own: DataType, other: DataType) -> bool:
    """Whether values of these two types can be equal at all, and if so have keys (or are strings)."""
    return comparable(own, other) and Kind.NULL not in (own.kind, other.kind)


def key_of(values: pa.Array | pa.ChunkedArray, own: DataType, other: DataType) -> Ints:
    """The key of each value of type `own` that is compared with values of type `other`; no strings."""
    assert has_keys(own, other), f"{own} = {other}"
    array = _whole(values)
    if Kind.DOUBLE in (own.kind, other.kind):
        return _as_doubles(array, own)
    return _times(encode_column(array, own), _factor(own, other))


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
