"""Keys: every value but a string or a decimal of more than 18 digits as an order-preserving int64.

Comparing keys is comparing values: for x, y of one type, x < y exactly if key(x) < key(y), and x = y exactly
if their keys are equal. Keys are integers, so an open bound is the closed bound one key further. NULL has a
key of its own below all others, which no interval contains.

- integers, dates (days) and timestamps (µs): the number itself; boolean: 0 and 1;
- decimal(p <= 18, s): the unscaled integer at the column's scale; of more digits `weir.index.digits` has the keys, and
  here a number that 64 bits do not hold is the first or the last key;
- double (a float is one): its bits, with the magnitude of negative numbers flipped. −0.0 is made 0.0 and every NaN
  the same NaN before, whose bits are above those of +inf: Spark's order. No integer goes through a double.

Why it holds for doubles: IEEE 754 orders the bits of non-negative numbers as integers; a negative number has
the sign bit set, so it is negative as int64 too, and flipping the other bits reverses the order of magnitudes.
The least key of a double (−inf) is far above KEY_MIN, so all keys keep clear of NULL_KEY; the one bigint that
would collide, −2^63, is refused at ingest.

Cost: one pass over the column, in NumPy and Arrow, without a Python loop over rows. DESIGN.md section 2.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.decimals import is_wide
from weir.algebra.schema import DataType, Kind
from weir.index.digits import words_of

NULL_KEY = int(np.iinfo(np.int64).min)  # the key of NULL: below every bound, so that no constraint holds
KEY_MIN = NULL_KEY + 1  # the least key of a value, and the `lo` of an interval without lower bound
KEY_MAX = int(np.iinfo(np.int64).max)  # the greatest key, and the `hi` of an interval without upper bound

N = TypeVar("N", np.int8, np.int32, np.int64, np.float64)

_MAGNITUDE_BITS = np.int64(KEY_MAX)  # all bits but the sign


def encode_doubles(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Keys of doubles in Spark's order: −inf < … < −0.0 = 0.0 < … < +inf < NaN = NaN."""
    normal = np.array(values, dtype=np.float64, copy=True, order="C")
    normal += 0.0  # −0.0 + 0.0 is 0.0; every other value stays as it is
    normal[np.isnan(normal)] = np.nan
    bits = normal.view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE_BITS, bits)


def encode_column(array: pa.Array | pa.ChunkedArray, type: DataType) -> npt.NDArray[np.int64]:
    """Keys of a column of the given type (any but string); NULL becomes NULL_KEY."""
    if isinstance(array, pa.ChunkedArray):
        parts = [encode_column(chunk, type) for chunk in array.chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return np.full(len(array), NULL_KEY, dtype=np.int64)
    keys = _encode_values(array, type)
    if array.null_count:
        keys[array.is_null().to_numpy(zero_copy_only=False)] = NULL_KEY
    return keys


def _encode_values(array: pa.Array, type: DataType) -> npt.NDArray[np.int64]:
    """A new array of keys; what stands at a NULL is arbitrary."""
    match type.kind:
        case Kind.INT | Kind.BIGINT:
            return _words(array, pa.int64())
        case Kind.DATE:
            return _words(array, pa.date32())
        case Kind.TIMESTAMP:
            return _words(array, pa.timestamp("us", array.type.tz if pa.types.is_timestamp(array.type) else None))
        case Kind.INTERVAL:
            return _words(array, pa.duration("us"))
        case Kind.BOOLEAN:
            return _words(array.cast(pa.bool_()), pa.int8())
        case Kind.DOUBLE:
            return encode_doubles(_values(array.cast(pa.float64()), np.float64))
        case Kind.DECIMAL:
            decimals = array.cast(pa.decimal128(max(type.precision, 1), type.scale))
            low, high = words_of(decimals)
            if not is_wide(type):  # 18 digits fit into the low word of the little-endian 128 bits, sign included
                return low.copy()
            fits = (high == low >> 63) & (low != NULL_KEY)
            return np.where(fits, low, np.where(high < 0, KEY_MIN, KEY_MAX))
    raise AssertionError(f"{type} has no keys of its own; strings are encoded by weir.index.strings")


def decode_column(keys: npt.NDArray[np.int64], type: DataType, stored: pa.DataType) -> pa.Array:
    """The values that have these keys, as Arrow stores that type; NULL_KEY becomes NULL. None that have texts."""
    known = keys != NULL_KEY
    values = np.where(known, keys, 0)
    buffers = [None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))]
    match type.kind:
        case Kind.INT | Kind.DATE:
            values = values.astype(f"int{stored.bit_width}")
        case Kind.BOOLEAN:
            values = np.packbits(values.astype(bool), bitorder="little")
        case Kind.DOUBLE:
            values = np.where(values < 0, values ^ _MAGNITUDE_BITS, values)
            if stored.bit_width == 32:
                values = values.view(np.float64).astype(np.float32)
        case Kind.DECIMAL:
            values = np.stack([values, values >> 63], axis=1)  # 128 bits, little-endian
    return pa.Array.from_buffers(stored, len(keys), [*buffers, pa.py_buffer(np.ascontiguousarray(values))])


def _words(array: pa.Array, stored: pa.DataType) -> npt.NDArray[np.int64]:
    """The integers behind a column, widened to int64; a value that does not fit the type is an error."""
    if array.type != stored:
        array = array.cast(stored)
    if stored.bit_width == 64:
        return _values(array, np.int64).copy()
    if stored.bit_width == 32:
        return _values(array, np.int32).astype(np.int64)
    return _values(array, np.int8).astype(np.int64)


def _values(array: pa.Array, dtype: type[N]) -> npt.NDArray[N]:
    """The value buffer of a fixed-width array as NumPy sees it: sliced, NULL slots included, not copied."""
    buffer = array.buffers()[1]
    if buffer is None:  # an empty array may have none
        return np.zeros(len(array), dtype=dtype)
    size = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(array), offset=array.offset * size)
