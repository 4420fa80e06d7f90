"""Stabbing groups in several dimensions: boxes with a common point in each of some dimensions (beyond SSI, 2.1).

A stabbing partition of intervals groups those with a common point; within a group, the intervals that contain x are a
prefix of those sorted by their lower bound if x lies below the point, else of those sorted by their upper bound. In
several dimensions a group is cut by the next dimension again, so that its boxes have a common point in all of them; the
event's boxes are then in the prefix of *any* dimension, and the shortest one is looked at. Against that stands the
number of groups, each of which an event visits: it grows with every dimension.

With one dimension this is SSI's structure with the other dimensions checked, so both can be compared by one kernel.
Cost of an event: a binary search for each group and dimension, and the boxes of the shortest prefixes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Matches, frozen
from weir.index.jit import Scalar, kernel
from weir.index.stabbing import canonical


class StabbingBoxes(NamedTuple):
    """Groups of boxes that constrain every dimension."""

    points: Int64s  # int64[g, k]: the common point of each group in the k dimensions that groups are made by
    offsets: Int64s  # int64[g+1]: the boxes of a group are places offsets[g] .. offsets[g+1] of each order
    by_lo: Int32s  # int32[k, n]: boxes of each group by ascending lower bound in a dimension
    by_hi: Int32s  # int32[k, n]: by descending upper bound
    lo: Int64s  # int64[n, d]
    hi: Int64s  # int64[n, d]


def build_stabbing_boxes(lo: Int64s, hi: Int64s, dims: int) -> StabbingBoxes:
    """Boxes int64[n, d], grouped by the first `dims` dimensions."""
    n = len(lo)
    group = np.zeros(n, np.int64)
    points = np.zeros((n, dims), np.int64)  # by box
    for d in range(dims):
        made = np.empty(n, np.int64)
        count = 0
        for g in range(int(group.max(initial=-1)) + 1):
            mine = np.flatnonzero(group == g)
            partition = canonical(lo[mine, d], hi[mine, d])
            own = partition.group_of_interval.astype(np.int64)
            points[mine, d] = partition.points[own]
            made[mine] = count + own
            count += len(partition.points)
        group = made
    n_groups = int(group.max(initial=-1)) + 1
    offsets = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=n_groups), out=offsets[1:])
    first = np.zeros(n_groups, np.int64)
    first[group] = np.arange(n)
    return frozen(
        StabbingBoxes(
            points[first],
            offsets,
            np.array([np.lexsort((lo[:, d], group)) for d in range(dims)], dtype=np.int32).reshape(dims, n),
            np.array([np.lexsort((-hi[:, d], group)) for d in range(dims)], dtype=np.int32).reshape(dims, n),
            np.ascontiguousarray(lo, dtype=np.int64),
            np.ascontiguousarray(hi, dtype=np.int64),
        )
    )


def search_stabbing_boxes(boxes: StabbingBoxes, keys: Int64s) -> tuple[Matches, int]:
    """The boxes that contain each event int64[d, e], ascending; and how many boxes were looked at."""
    found: list[Int32s] = []
    looked = 0
    out = np.empty(len(boxes.lo), np.int32)
    for event in range(keys.shape[1]):
        n, touched = _stab(boxes, np.ascontiguousarray(keys[:, event]), out)
        looked += touched
        found.append(np.sort(out[:n]))
    offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
    return Matches(offsets, np.concatenate([*found, np.empty(0, np.int32)])), looked


@kernel
def _stab(boxes: StabbingBoxes, values: Int64s, out: Int32s) -> tuple[Scalar, Scalar]:
    """The boxes that contain an event into `out`; how many they are, and how many were looked at."""
    points, offsets, lo, hi = boxes.points, boxes.offsets, boxes.lo, boxes.hi
    n: Scalar = 0
    looked: Scalar = 0
    for g in range(len(points)):
        best, is_by_lo = 0, True
        best_size: Scalar = np.int64(-1)
        for d in range(points.shape[1]):
            below = values[d] <= points[g, d]
            size = _prefix(boxes, g, d, values[d], below)
            if best_size < 0 or size < best_size:
                best, best_size, is_by_lo = d, size, below
        looked += best_size
        order = boxes.by_lo if is_by_lo else boxes.by_hi
        for place in range(offsets[g], offsets[g] + best_size):
            box = order[best, place]
            inside = True
            for d in range(len(values)):
                if values[d] < lo[box, d] or values[d] > hi[box, d]:
                    inside = False
                    break
            if inside:
                out[n] = box
                n += 1
    return n, looked


@kernel
def _prefix(boxes: StabbingBoxes, group: Scalar, dim: Scalar, value: Scalar, is_by_lo: Scalar) -> Scalar:
    """How many boxes of a group may contain a value: those that begin before it, or that end behind it."""
    low, high = boxes.offsets[group], boxes.offsets[group + 1]
    while low < high:
        middle = (low + high) >> 1
        if is_by_lo:
            is_in = boxes.lo[boxes.by_lo[dim, middle], dim] <= value
        else:
            is_in = boxes.hi[boxes.by_hi[dim, middle], dim] >= value
        if is_in:
            low = middle + 1
        else:
            high = middle
    return low - boxes.offsets[group]
