"""Codes: the bounds of a plane as 15-bit numbers, and a box as one 64-bit word of four of them.

Of each attribute up to 16,382 of its end points are kept sorted, e_0 < e_1 < … < e_(p−1). A key has code 2k+2 if it
equals e_k and 2k+1 if it lies in the gap just below e_k; NULL has code 0. Codes are monotone in keys, so comparing
codes decides every comparison of keys but one: two different keys may lie in one gap. If all end points are kept the
codes are *exact*: no bound lies within a gap (the open ones, which are below or above all keys of theirs, excepted), so
code(lo) <= code(key) <= code(hi) exactly if lo <= key <= hi. Else an odd code of an event is *in doubt*: a box that it
passes with an equal code is decided by the keys in the plane. Half of the points kept are the most frequent ones, half
are quantiles, so doubt is rare, and hot spots of constants are stretched to the density of the rest.

A word has four fields of 16 bits, from the top: c_lo, ~c_hi, a_lo, ~a_hi, where ~x is 32,767 − x, so that "box contains
(a, c)" is "no field of the box's word is above that of the event's". One subtraction tells it for all four: each field
but the top one lends a guard bit, which is gone exactly if the field was larger; the top one takes the sign. Words
sort by c_lo, then by descending c_hi.

Size: 8 bytes a box, and at most 144 kB an attribute. Cost: 5 ns a key (50 if all keys crowd into a few buckets of equal
width), four instructions a box.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.lean import lean
from weir.index.meeting.planes import Plane

Uint16s = npt.NDArray[np.uint16]

POINTS_MAX = 16_382  # end points of an attribute that are kept
FLIP = np.int64(0x7FFF)  # ~x is FLIP − x
PASSES = np.int64(0x0000_8000_8000_8000)  # what is left of GUARDS if no field of a box is above the event's
GUARDS = np.int64(-0x8000_0000_0000_0000 + int(PASSES))

_BUCKET_BITS = 12  # an attribute has 2^12 buckets at most
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)  # 2^64 divided by the golden ratio
_ZERO, _ONE = np.uint64(0), np.uint64(1)  # places are unsigned: a signed one is tested for being negative


class Points(NamedTuple):
    """The end points of an attribute that are kept, and buckets of equal key width that lead into them."""

    keys: Int64s  # int64[p]: distinct, ascending
    buckets: Int32s  # int32[b+1]: the first point of each bucket, then p
    scale: Int64s  # int64[2]: half of the least key, and the shift from a half key's distance from it to its bucket


class Codes(NamedTuple):
    """The end points of a plane that are kept."""

    a: Points
    c: Points
    doubt: Int64s  # int64[1]: the bit of a code that may be in doubt: 0 if these are all end points, else 1


def build_codes(plane: Plane) -> Codes:
    a_points, a_exact = _kept(plane.a_lo, plane.a_hi)
    c_points, c_exact = _kept(plane.c_lo, plane.c_hi)
    return Codes(
        _make_points(a_points), _make_points(c_points), np.array([0 if a_exact and c_exact else 1], dtype=np.int64)
    )


def _kept(lo: Int64s, hi: Int64s) -> tuple[Int64s, bool]:
    """End points that are neither open nor NULL, or quantiles of them; and whether these are all."""
    ends = np.concatenate([lo[lo > KEY_MIN], hi[hi < KEY_MAX]])
    points, frequency = np.unique(ends, return_counts=True)
    if len(points) <= POINTS_MAX:
        return points, True
    scattered = np.arange(len(points), dtype=np.uint64) * _GOLDEN  # any first k of this order are evenly spread
    frequent = np.lexsort((scattered, -frequency))[: POINTS_MAX // 2]
    quantiles = np.linspace(0, len(points) - 1, POINTS_MAX // 2).astype(np.int64)
    return points[np.unique(np.concatenate([frequent, quantiles]))], False


def _make_points(keys: Int64s) -> Points:
    """Keys are halved before they are subtracted: the difference of any two then fits into 63 bits."""
    half = keys >> 1 if len(keys) else np.zeros(1, dtype=np.int64)
    span = int(half[-1]) - int(half[0])
    shift = max(span.bit_length() - _BUCKET_BITS, 0)
    buckets = np.searchsorted((half - half[0]) >> shift, np.arange((span >> shift) + 2))
    buckets[-1] = len(keys)
    return Points(keys, np.minimum(buckets, len(keys)).astype(np.int32), np.array([half[0], shift], dtype=np.int64))


def n_codes(points: Points) -> int:
    """All codes are below this."""
    return 2 * len(points.keys) + 2


def encode(points: Int64s, keys: Int64s) -> Int64s:
    """Codes of many keys."""
    below = np.searchsorted(points, keys, side="right")
    known = below > 0
    known[known] = points[below[known] - 1] == keys[known]
    codes = 2 * below + 1 - known
    codes[keys == NULL_KEY] = 0
    return codes.astype(np.int64, copy=False)


class Coded(NamedTuple):
    """The codes of a plane's boxes."""

    a_lo: Int64s
    a_hi: Int64s
    c_lo: Int64s
    c_hi: Int64s

    def words(self) -> Int64s:
        """c_lo, ~c_hi, a_lo, ~a_hi: those that contain a point have no field above its own."""
        flip = int(FLIP)
        return (self.c_lo << 48) | ((flip - self.c_hi) << 32) | (self.a_lo << 16) | (flip - self.a_hi)

    def words_from_above(self) -> Int64s:
        """~c_hi, ~c_lo, a_lo, ~a_hi: in the order of descending c_hi."""
        flip = int(FLIP)
        return ((flip - self.c_hi) << 48) | ((flip - self.c_lo) << 32) | (self.a_lo << 16) | (flip - self.a_hi)


def encode_plane(codes: Codes, plane: Plane) -> Coded:
    return Coded(
        encode(codes.a.keys, plane.a_lo),
        encode(codes.a.keys, plane.a_hi),
        encode(codes.c.keys, plane.c_lo),
        encode(codes.c.keys, plane.c_hi),
    )


@lean
def code_of(points: Points, key: Scalar) -> Scalar:
    """Code of one key: a search among the points of its bucket, which are few unless keys are very uneven."""
    if key == NULL_KEY:
        return np.int64(0)
    keys, buckets = points.keys, points.buckets
    beyond = max((key >> 1) - points.scale[0], np.int64(0)) >> points.scale[1]
    bucket = np.uint64(min(beyond, np.int64(len(buckets) - 2)))
    low = np.uint64(buckets[bucket])
    n = np.uint64(buckets[bucket + _ONE]) - low
    while n > _ZERO:  # the first point above the key
        half = (n + _ONE) >> _ONE
        low = low + half if keys[low + half - _ONE] <= key else low
        n -= half
    known = low > _ZERO and keys[low - _ONE] == key
    return 2 * np.int64(low) + 1 - np.int64(known)


@lean
def meets(plane: Plane, box: Scalar, a: Scalar, begin: Scalar, end: Scalar, values: Int64s) -> Scalar:
    """Whether the event affects the box, decided by keys: the last word on a box in doubt."""
    if a < plane.a_lo[box] or a > plane.a_hi[box]:
        return False
    c = next_value(values, begin, end, plane.c_lo[box])
    return plane.c_lo[box] <= c and c <= plane.c_hi[box]


@lean
def next_value(values: Int64s, begin: Scalar, end: Scalar, key: Scalar) -> Scalar:
    """The least value of begin .. end that is not below `key`; the greatest if all are. There must be one."""
    low, n = np.uint64(begin), np.uint64(end - begin)
    while n > _ONE:  # the one looked for is among n from `low` on, or behind them all
        half = n >> _ONE
        low = low + half if values[low + half - _ONE] < key else low
        n -= half
    return values[low]


@lean
def code_run(points: Points, begin: Scalar, end: Scalar, values: Int64s, codes: Uint16s) -> None:
    """Code the places of a run that no event met before: codes[i] becomes the code of values[i], plus one."""
    for i in range(np.uint64(begin), np.uint64(end)):
        if codes[i] == 0:
            codes[i] = code_of(points, values[i]) + 1
