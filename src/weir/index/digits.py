"""Decimals of more than 18 digits as texts of 16 bytes, in the order of the numbers.

The unscaled number in 128 bits, the most significant byte first and the sign bit flipped: comparing bytes is comparing
numbers of one scale. So dictionaries of texts (`weir.index.strings`) give such decimals their keys. A constant that
lies between two numbers of the scale is the lower one with one byte more, which is above it and below the next.

Cost: a few passes of NumPy over the column.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.schema import DataType

Int64s = npt.NDArray[np.int64]
_SIZE = 16
_SIGN = np.uint64(1 << 63)
_LIMIT = 10**38  # no number of the language reaches it
_MASK = 2**64 - 1


def words_of(array: pa.Array) -> tuple[Int64s, Int64s]:
    """The low and the high 64 bits of decimals; what stands at a NULL is arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        nothing = np.zeros(len(array), np.int64)
        return nothing, nothing
    words = np.frombuffer(buffer, np.int64, 2 * len(array), _SIZE * array.offset)
    return words[::2], words[1::2]


def texts_of(values: pa.Array | pa.ChunkedArray, type_: DataType) -> pa.LargeBinaryArray:
    """Decimals of a type as texts; NULL stays NULL."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    wanted = pa.decimal128(type_.precision, type_.scale)
    array = array if array.type == wanted else array.cast(wanted)
    return _written(*words_of(array), array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None)


def texts_between(floors: npt.NDArray[np.object_], exact: npt.NDArray[np.bool_]) -> pa.LargeBinaryArray:
    """Constants as texts: the greatest numbers of the scale that are not above them, and whether they are these."""
    floors = np.minimum(np.maximum(floors, -_LIMIT), _LIMIT)
    low = np.array([n & _MASK for n in floors.tolist()], np.uint64).view(np.int64)
    high = np.array([n >> 64 for n in floors.tolist()], np.int64)
    plain = _written(low, high, None)
    return pa.array(
        [text if is_it else text + b"\x01" for text, is_it in zip(plain.to_pylist(), exact.tolist(), strict=True)],
        pa.large_binary(),
    )


def decimals_of(texts: pa.LargeBinaryArray, type_: DataType) -> pa.Array:
    """The decimals whose texts these are, all of 16 bytes; NULL stays NULL."""
    there = texts.is_valid().to_numpy(zero_copy_only=False)
    data = b"".join(text or bytes(_SIZE) for text in texts.to_pylist())
    read = np.frombuffer(data, ">u8").reshape(-1, 2)
    words = np.empty((len(texts), 2), np.uint64)
    words[:, 0], words[:, 1] = read[:, 1], read[:, 0].astype(np.uint64) ^ _SIGN
    validity = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    stored = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(stored, len(texts), [validity, pa.py_buffer(words)])


def _written(low: Int64s, high: Int64s, null: npt.NDArray[np.bool_] | None) -> pa.LargeBinaryArray:
    count = len(low)
    data = np.empty((count, 2), ">u8")
    data[:, 0] = np.ascontiguousarray(high).view(np.uint64) ^ _SIGN
    data[:, 1] = np.ascontiguousarray(low).view(np.uint64)
    validity = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int64) * _SIZE)
    return pa.Array.from_buffers(pa.large_binary(), count, [validity, offsets, pa.py_buffer(data)])
