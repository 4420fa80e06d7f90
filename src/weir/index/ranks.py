"""Rank space: an attribute's keys seen only as precisely as its constants can tell them apart.

For each attribute the distinct end points of all its intervals are kept sorted, e_0 < e_1 < … < e_(m−1). A key
has rank 2k+1 if it equals e_k and 2k if it lies in the gap just below e_k; NULL has rank −1; a bound that is
open has rank 0 or 2m. Ranks are monotone in keys and equal end points have equal ranks, so

    lo <= key <= hi   exactly if   rank(lo) <= rank(key) <= rank(hi),

and from here on an index compares 4-byte ranks, exactly, and never looks at a key again. Rank space is also
what makes a plain grid adaptive: hot spots of constants are stretched to the same density as the rest, and the
constants of a categorical attribute lie side by side, two ranks apart, however skewed they are.

Arrays: sorted end points in segments of equal count, each segment cut into buckets of equal key width. Finding a
rank is a binary search over at most 1,024 first keys of segments, one shift, and a binary search within a
bucket of 4 keys on average (a segment at worst, when its keys are clustered).

Cost: 8 bytes an end point and 1 to 2 for the buckets; O(log m) a key, at most three cache misses.
The idea is the "rank space" of computational geometry; the codes are those of `weir.index.strings`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import BoxTable, Int32s, Int64s, frozen, read_only
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

_SEGMENTS_MAX = 1024  # first keys of all segments of an attribute fit into the first-level cache
_KEYS_PER_SEGMENT_MIN = 16
_KEYS_PER_BUCKET = 4
_TOGETHER = 64  # keys that are looked up in step
_WINDOW = 8  # points that are compared without a branch
_ONE = np.uint64(1)


class RankSpace(NamedTuple):
    """Sorted end points of all attributes and the buckets that find a key among them."""

    point_offsets: Int64s  # int64[a+1]: the points of an attribute
    points: Int64s  # int64[p]: distinct end points, ascending within an attribute
    segment_offsets: Int64s  # int64[a+1]: the segments of an attribute
    segment_keys: Int64s  # int64[s]: first key of each segment
    segments: Int64s  # int64[s, 3]: first point, first bucket, shift of the bucket's number
    bucket_points: Int32s  # int32[.]: first point of each bucket, and of the end of each segment's last


def build(table: BoxTable, n_attributes: int) -> RankSpace:
    """The rank space of a table's end points."""
    by_attribute = np.argsort(table.constraint_attribute, kind="stable")
    bounds = np.searchsorted(table.constraint_attribute[by_attribute], np.arange(n_attributes + 1))
    points_of: list[Int64s] = []
    segments_of: list[Int64s] = []
    buckets_of: list[Int32s] = []
    n_points = n_buckets = 0
    for attribute in range(n_attributes):
        mine = by_attribute[bounds[attribute] : bounds[attribute + 1]]
        lo, hi = table.constraint_lo[mine], table.constraint_hi[mine]
        points = np.concatenate([lo[lo > KEY_MIN], hi[hi < KEY_MAX]])
        points.sort()
        points = points[np.concatenate([[True], points[1:] != points[:-1]])] if len(points) else points
        segments, buckets = _cut(points, n_points, n_buckets)
        points_of.append(points)
        segments_of.append(segments)
        buckets_of.append(buckets)
        n_points += len(points)
        n_buckets += len(buckets)
    return RankSpace(
        np.cumsum([0] + [len(p) for p in points_of], dtype=np.int64),
        np.concatenate([*points_of, np.empty(0, np.int64)]),
        np.cumsum([0] + [len(s) for s in segments_of], dtype=np.int64),
        np.concatenate([*segments_of, np.empty((0, 4), np.int64)])[:, 0].copy(),
        np.concatenate([*segments_of, np.empty((0, 4), np.int64)])[:, 1:].copy(),
        np.concatenate([*buckets_of, np.empty(0, np.int32)]),
    )


def _cut(points: Int64s, first_point: int, first_bucket: int) -> tuple[Int64s, Int32s]:
    """Segments and buckets of one attribute."""
    if not len(points):
        return np.empty((0, 4), np.int64), np.empty(0, np.int32)
    per_segment = max(_KEYS_PER_SEGMENT_MIN, -(-len(points) // _SEGMENTS_MAX))
    begin = np.arange(0, len(points), per_segment)
    end = np.minimum(begin + per_segment, len(points))
    # Keys are halved before they are subtracted: the difference of any two then fits into 63 bits.
    span = (points[end - 1] >> 1) - (points[begin] >> 1)
    wanted = np.maximum((end - begin) // _KEYS_PER_BUCKET, 1)
    shift = np.ceil(np.log2(span / wanted + 1.0)).astype(np.int64)
    n_buckets = (span >> shift) + 1
    bucket_offsets = np.concatenate([[0], np.cumsum(n_buckets + 1)])
    segments = np.stack([points[begin], first_point + begin, first_bucket + bucket_offsets[:-1], shift], axis=1)
    buckets = np.empty(bucket_offsets[-1], dtype=np.int32)
    _fill_buckets(points, first_point, begin, end, shift, n_buckets, bucket_offsets, buckets)
    return np.ascontiguousarray(segments, dtype=np.int64), buckets


@kernel
def _fill_buckets(
    points: Int64s,
    first_point: Scalar,
    begin: Int64s,
    end: Int64s,
    shift: Int64s,
    n_buckets: Int64s,
    offsets: Int64s,
    buckets: Int32s,
) -> None:
    """buckets[offsets[s] + j] is the first point of segment s that lies in bucket j or after it."""
    for s in range(len(begin)):
        first = points[begin[s]] >> 1
        filled = 0
        for i in range(begin[s], end[s]):
            bucket = ((points[i] >> 1) - first) >> shift[s]
            while filled <= bucket:
                buckets[offsets[s] + filled] = first_point + i
                filled += 1
        while filled <= n_buckets[s]:
            buckets[offsets[s] + filled] = first_point + end[s]
            filled += 1


@kernel
def rank_keys(space: RankSpace, attribute: Scalar, keys: Int64s, begin: Scalar, end: Scalar, ranks: Int32s) -> None:
    """ranks[i] = rank of keys[begin + i] in the space of `attribute`.

    Two passes over a few keys at a time: loads of the first do not wait for each other, and those of the second
    find their bucket's first point already on its way.
    """
    first_segment = space.segment_offsets[attribute]
    n_segments = space.segment_offsets[attribute + 1] - first_segment
    first_point, last_point = space.point_offsets[attribute], space.point_offsets[attribute + 1]
    segment_keys, points = space.segment_keys, space.points
    if n_segments == 0:
        for i in range(end - begin):
            ranks[i] = -1 if keys[begin + i] == NULL_KEY else 0
        return
    lows = np.empty(_TOGETHER, dtype=np.int64)
    highs = np.empty(_TOGETHER, dtype=np.int64)
    for group in range(begin, end, _TOGETHER):
        n_group = min(_TOGETHER, end - group)
        for j in range(n_group):
            key = keys[group + j]
            segment = np.uint64(first_segment)  # the last one whose first key is not above `key`, or the first one
            n = np.uint64(n_segments)
            while n > _ONE:
                half = n >> _ONE
                segment = segment + half if segment_keys[segment + half] <= key else segment
                n -= half
            first_bucket = space.segments[segment, 1]
            next_segment = np.int64(segment) + 1
            stop = space.segments[next_segment, 1] if next_segment < len(segment_keys) else len(space.bucket_points)
            bucket = ((key >> 1) - (segment_keys[segment] >> 1)) >> space.segments[segment, 2]
            at = first_bucket + max(min(bucket, stop - first_bucket - 2), np.int64(0))
            lows[j] = space.bucket_points[at]
            highs[j] = space.bucket_points[at + 1]
        for j in range(n_group):
            key = keys[group + j]
            low, high = lows[j], highs[j]
            # Points up to `low` are not above `key`, points from `high` on are: close in on the first that is above.
            while high - low > _WINDOW:
                middle = (low + high) >> 1
                if points[middle] <= key:
                    low = middle + 1
                else:
                    high = middle
            if low + _WINDOW <= last_point:
                window = points[low : low + _WINDOW]
                n_below = 0
                for w in range(_WINDOW):
                    n_below += 1 if window[w] <= key else 0
                low += n_below
            else:
                while low < high and points[low] <= key:
                    low += 1
            known = low > first_point and points[low - 1] == key
            ranks[group - begin + j] = -1 if key == NULL_KEY else 2 * (low - first_point) - (1 if known else 0)


@kernel
def rank_events(space: RankSpace, keys: Int64s, begin: Scalar, end: Scalar, ranks: Int32s) -> None:
    """ranks[i, a] = rank of keys[a, begin + i], for all attributes."""
    for attribute in range(len(keys)):
        rank_keys(space, attribute, keys[attribute], begin, end, ranks[:, attribute])


def rank_bounds(space: RankSpace, table: BoxTable) -> tuple[Int32s, Int32s]:
    """Ranks of all bounds; an open bound is below or above all points."""
    attribute = table.constraint_attribute
    lo, hi = np.empty(len(attribute), dtype=np.int32), np.empty(len(attribute), dtype=np.int32)
    for a in range(len(space.point_offsets) - 1):
        mine = np.flatnonzero(attribute == a)
        ranked = np.empty((len(mine), 1), dtype=np.int32)[:, 0]
        for bounds, found in ((table.constraint_lo, lo), (table.constraint_hi, hi)):
            rank_keys(space, a, read_only(bounds[mine]), 0, len(mine), ranked)
            found[mine] = ranked
    lo[table.constraint_lo == KEY_MIN] = 0
    open_above = table.constraint_hi == KEY_MAX
    hi[open_above] = 2 * np.diff(space.point_offsets)[attribute[open_above]]
    return lo, hi


def rank_rows(space: RankSpace, keys: Int64s) -> Int32s:
    """int32[a, r]: the ranks of rows, by attribute."""
    ranked = np.empty((keys.shape[1], max(len(keys), 1)), dtype=np.int32)
    rank_events(frozen(space), read_only(np.ascontiguousarray(keys)), 0, keys.shape[1], ranked)
    return np.ascontiguousarray(ranked.T[: len(keys)])
