"""Strings as keys: codes relative to a sorted dictionary of the constants that a segment mentions.

Entry k of the dictionary has code 2k + 1, and a string between entries k − 1 and k (in the order of UTF-8 bytes)
has code 2k, so that every comparison with a constant is a comparison of codes. Rows keep raw values: codes stored
with rows would be wrong as soon as a new query mentions a new string. DESIGN.md section 2.

`offsets` and `data` lay the entries out as Arrow does: entry k is data[offsets[k] : offsets[k + 1]].
Invariant: entries ascend strictly by bytes. The search works on Arrow's own buffers; bytes that a string shares with
both ends of the range still searched are not compared again (every entry in between shares them too).
Bytes that are no text are entries too: decimals of more than 18 digits (`weir.index.digits`).
Cost of `find`: O(log k) comparisons for each string of the batch, or for each distinct one where a sample says that
values repeat (then Arrow's hash finds the distinct ones first).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.index.box_tables import read_only
from weir.index.jit import kernel
from weir.index.keys import NULL_KEY

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_SAMPLE = 1024  # rows that show whether values repeat
_REPEATS_MIN = 4  # rows a distinct value of the sample, from which on distinct values are searched instead of rows


class StringDictionary(NamedTuple):
    """Strings in ascending order of their UTF-8 bytes, each once."""

    offsets: Int64s  # int64[k+1]
    data: Bytes  # uint8[…]


def build(values: pa.Array | pa.ChunkedArray) -> StringDictionary:
    """The dictionary of the strings among `values`; NULLs are left out."""
    distinct = _large(_whole(values)).unique().drop_null()
    offsets, data = _buffers(distinct.sort())
    used = data[offsets[0] : offsets[-1]]
    return StringDictionary(offsets - offsets[0], used.copy())


def find(dictionary: StringDictionary, values: pa.Array | pa.ChunkedArray) -> Int64s:
    """The code of each string, NULL_KEY for NULL."""
    array = _whole(values)
    if pa.types.is_dictionary(array.type):
        return _find_encoded(dictionary, array)
    array = _large(array)
    sample = array.slice(0, _SAMPLE)
    if len(array) > _SAMPLE and len(sample.unique()) * _REPEATS_MIN <= len(sample):
        return _find_encoded(dictionary, array.dictionary_encode())
    return _find_rows(dictionary, array)


def _find_encoded(dictionary: StringDictionary, array: pa.DictionaryArray) -> Int64s:
    """Search the distinct values only; a NULL may be an index or a value."""
    codes = np.append(_find_rows(dictionary, _large(array.dictionary)), NULL_KEY)
    indices = array.indices.cast(pa.int64())
    if indices.null_count:
        indices = indices.fill_null(len(codes) - 1)
    found: Int64s = codes[indices.to_numpy(zero_copy_only=False)]
    return found


def _find_rows(dictionary: StringDictionary, array: pa.LargeStringArray) -> Int64s:
    codes = np.empty(len(array), dtype=np.int64)
    offsets, data = _buffers(array)
    _find(read_only(dictionary.offsets), read_only(dictionary.data), read_only(offsets), read_only(data), codes)
    if array.null_count:
        codes[array.is_null().to_numpy(zero_copy_only=False)] = NULL_KEY
    return codes


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _large(array: pa.Array) -> pa.LargeStringArray:
    """One layout for all kinds of string arrays: 64-bit offsets into bytes."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return array if is_large else array.cast(pa.large_string())


def _buffers(array: pa.LargeStringArray) -> tuple[Int64s, Bytes]:
    """Offsets and bytes of an array, which may be a slice of a longer one; nothing is copied."""
    _, offsets, data = array.buffers()
    nothing: Bytes = np.empty(0, dtype=np.uint8)
    if offsets is None or offsets.size == 0:
        return np.zeros(1, dtype=np.int64), nothing
    starts = np.frombuffer(offsets, dtype=np.int64, count=len(array) + 1, offset=8 * array.offset)
    return starts, np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else nothing


@kernel
def _find(offsets: Int64s, data: Bytes, row_offsets: Int64s, row_data: Bytes, codes: Int64s) -> None:
    """The code of each row's string; entries below `low` are smaller, those from `high` on are greater."""
    for row in range(len(row_offsets) - 1):
        begin = row_offsets[row]
        length = row_offsets[row + 1] - begin
        low, high = 0, len(offsets) - 1
        common_low, common_high = np.int64(0), np.int64(0)  # bytes shared with the entries just outside the range
        code = np.int64(-1)
        while low < high:
            middle = (low + high) >> 1
            first = offsets[middle]
            entry_length = offsets[middle + 1] - first
            k = min(common_low, common_high)
            end = min(length, entry_length)
            while k < end and data[first + k] == row_data[begin + k]:
                k += 1
            if k < end:
                entry_is_less = data[first + k] < row_data[begin + k]
            elif entry_length == length:
                code = np.int64(2 * middle + 1)
                break
            else:
                entry_is_less = entry_length < length
            if entry_is_less:
                low = middle + 1
                common_low = k
            else:
                high = middle
                common_high = k
        codes[row] = code if code >= 0 else 2 * low
