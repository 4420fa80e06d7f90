"""Spark's hash (Murmur3, 32 bits) and xxhash64 of a row of values, both with seed 42.

Each value is hashed with what came before as its seed; a NULL changes nothing. Numbers, times and booleans are hashed
for all rows at once, texts one by one. −0.0 is hashed as 0.0, a decimal by its unscaled number,
of more than 18 digits by the bytes of it, the highest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weir.algebra.decimals import is_wide
from weir.algebra.schema import DataType, Kind
from weir.values.columns import Operand
from weir.values.evaluations import Evaluation, known, size_of, spread

Words: TypeAlias = npt.NDArray[Any]  # uint32 or uint64, by row
_SEED = 42
_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _hashed(
    seed: Words,
    of_int: Callable[[Words, Words], Words],
    of_long: Callable[[Words, Words], Words],
    of_bytes: Callable[[bytes, int], int],
) -> Callable[[Sequence[Operand], DataType], Operand]:
    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        size = size_of(args)
        found = np.repeat(seed, size)
        for arg in args:
            if arg.kind is Kind.NULL:
                continue
            wide = spread(arg, size)
            found = np.where(known(wide), one(wide, found), found)
        signed = found.view(np.int32 if type_.kind is Kind.INT else np.int64).astype(np.int64)
        valid = None if (signed != np.iinfo(np.int64).min).all() else signed != np.iinfo(np.int64).min
        return Operand(signed, valid, type_, all(arg.constant for arg in args))

    def one(arg: Operand, before: Words) -> Words:
        if arg.kind is Kind.STRING:
            texts = ["" if text is None else text for text in arg.values.to_pylist()]
            words = [of_bytes(text.encode(), int(h)) for text, h in zip(texts, before, strict=True)]
            return np.array(words, before.dtype)
        if is_wide(arg.type):
            words = [of_bytes(_java_bytes(n), int(h)) for n, h in zip(arg.values.tolist(), before, strict=True)]
            return np.array(words, before.dtype)
        if arg.type.variant == "float":
            singles = np.where(np.isnan(arg.values), np.nan, arg.values + 0.0).astype(np.float32)
            return of_int(singles.view(np.uint32), before)
        if arg.kind is Kind.DOUBLE:
            bits = np.where(np.isnan(arg.values), np.nan, arg.values + 0.0).view(np.uint64)
            return of_long(bits, before)
        if arg.kind in (Kind.INT, Kind.DATE, Kind.BOOLEAN):
            return of_int(arg.values.astype(np.int64).astype(np.uint32), before)
        return of_long(np.ascontiguousarray(arg.values).astype(np.int64).view(np.uint64), before)

    return evaluated


def _java_bytes(number: int) -> bytes:
    """As few bytes as hold the number with its sign, as Java's BigInteger has them."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


# Murmur3, of 32-bit words.


def _rotl32(x: Words, by: int) -> Words:
    found: Words = (x << np.uint32(by)) | (x >> np.uint32(32 - by))
    return found


def _mixed(h: Words, k: Words) -> Words:
    k = _rotl32(k * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    found: Words = _rotl32(h ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return found


def _finished(h: Words, length: int) -> Words:
    h = h ^ np.uint32(length)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    found: Words = h ^ (h >> np.uint32(16))
    return found


def _murmur_int(x: Words, seed: Words) -> Words:
    return _finished(_mixed(seed, x), 4)


def _murmur_long(x: Words, seed: Words) -> Words:
    low, high = x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed(_mixed(seed, low), high), 8)


def _murmur_bytes(data: bytes, seed: int) -> int:
    """Whole words first; each byte that is left is a word of its own, with its sign."""
    h, whole = seed, len(data) - len(data) % 4
    words = [int.from_bytes(data[k : k + 4], "little") for k in range(0, whole, 4)]
    words += [b - 256 & _MASK32 if b > 127 else b for b in data[whole:]]
    for word in words:
        k = word * 0xCC9E2D51 & _MASK32
        k = ((k << 15 | k >> 17) & _MASK32) * 0x1B873593 & _MASK32
        h ^= k
        h = ((h << 13 | h >> 19) & _MASK32) * 5 + 0xE6546B64 & _MASK32
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK32
    return h ^ h >> 16


# xxHash, of 64-bit words.


def _rotl64(x: Words, by: int) -> Words:
    found: Words = (x << np.uint64(by)) | (x >> np.uint64(64 - by))
    return found


def _avalanche(h: Words) -> Words:
    h = (h ^ (h >> np.uint64(33))) * np.uint64(_P2)
    h = (h ^ (h >> np.uint64(29))) * np.uint64(_P3)
    found: Words = h ^ (h >> np.uint64(32))
    return found


def _xx_int(x: Words, seed: Words) -> Words:
    h = seed + np.uint64(_P5) + np.uint64(4)
    h = h ^ (x.astype(np.uint64) * np.uint64(_P1))
    return _avalanche(_rotl64(h, 23) * np.uint64(_P2) + np.uint64(_P3))


def _xx_long(x: Words, seed: Words) -> Words:
    h = seed + np.uint64(_P5) + np.uint64(8)
    h = h ^ (_rotl64(x * np.uint64(_P2), 31) * np.uint64(_P1))
    return _avalanche(_rotl64(h, 27) * np.uint64(_P1) + np.uint64(_P4))


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MASK64


def _round64(h: int, word: int) -> int:
    return _rotated(h + word * _P2 & _MASK64, 31) * _P1 & _MASK64


def _xx_bytes(data: bytes, seed: int) -> int:
    at, size = 0, len(data)
    if size >= 32:
        lanes = [seed + _P1 + _P2 & _MASK64, seed + _P2 & _MASK64, seed, seed - _P1 & _MASK64]
        while at <= size - 32:
            lanes = [
                _round64(h, int.from_bytes(data[at + 8 * k : at + 8 * k + 8], "little")) for k, h in enumerate(lanes)
            ]
            at += 32
        h = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK64
        for lane in lanes:
            h = (h ^ _round64(0, lane)) * _P1 + _P4 & _MASK64
    else:
        h = seed + _P5 & _MASK64
    h = h + size & _MASK64
    while at <= size - 8:
        h ^= _round64(0, int.from_bytes(data[at : at + 8], "little"))
        h = _rotated(h, 27) * _P1 + _P4 & _MASK64
        at += 8
    if at <= size - 4:
        h ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK64
        h = _rotated(h, 23) * _P2 + _P3 & _MASK64
        at += 4
    for byte in data[at:]:
        h ^= byte * _P5 & _MASK64
        h = _rotated(h, 11) * _P1 & _MASK64
    h = (h ^ h >> 33) * _P2 & _MASK64
    h = (h ^ h >> 29) * _P3 & _MASK64
    return h ^ h >> 32


HASH_CALLS: dict[str, Evaluation] = {
    "hash": _hashed(np.array([_SEED], np.uint32), _murmur_int, _murmur_long, _murmur_bytes),
    "xxhash64": _hashed(np.array([_SEED], np.uint64), _xx_int, _xx_long, _xx_bytes),
}
