"""Stabbing partitions: intervals in groups that one point each stabs (SSI, 2.1).

`canonical` is the greedy partition: intervals by ascending `lo`; a group takes intervals as long as their common
intersection is not empty. The point of a group is the least `hi` in it. It is minimal (SSI, lemma 1), because the
intervals that end at the points are pairwise disjoint: each begins beyond the point of the group before. A partition
needs a point for each of them, so none has fewer groups. A group with a large share of all intervals is a *hotspot*.

Segments are immutable, so production makes a partition once and never changes it; the one that lives under insertions
and deletions is `weir.index.papers.stabbing_partition`.

Bounds are closed and in keys; an interval may begin at the least int64 and end at the greatest.
Cost: a sort of n intervals by `lo` and one pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s, read_only
from weir.index.jit import Scalar, kernel


class Partition(NamedTuple):
    """Intervals in groups, each with a point that lies in all its intervals."""

    group_of_interval: Int32s  # int32[n]: number of the interval's group
    points: Int64s  # int64[g]: stabbing point of each group, strictly ascending


def canonical(lo: Int64s, hi: Int64s) -> Partition:
    """The greedy partition of the closed intervals [lo, hi]: no stabbing partition has fewer groups."""
    lo, hi = checked_bounds(lo, hi)
    groups = np.empty(len(lo), np.int32)
    _, points, _ = sweep_groups(read_only(np.argsort(lo, kind="stable")), lo, hi, groups)
    return Partition(groups, points)


def is_hot(partition: Partition, alpha: float) -> npt.NDArray[np.bool_]:
    """bool[g]: which groups of a partition are hotspots: those of at least alpha · n intervals."""
    sizes = np.bincount(partition.group_of_interval, minlength=len(partition.points))
    return sizes >= alpha * len(partition.group_of_interval)


def checked_bounds(lo: Int64s, hi: Int64s) -> tuple[Int64s, Int64s]:
    """Bounds with one layout, so that kernels are compiled once."""
    lo = np.ascontiguousarray(lo, dtype=np.int64)
    hi = np.ascontiguousarray(hi, dtype=np.int64)
    assert lo.shape == hi.shape, f"{len(lo)} lower bounds, but {len(hi)} upper bounds"
    assert bool(np.all(lo <= hi)), "an interval is not empty"
    return read_only(lo), read_only(hi)


@kernel
def sweep_groups(order: Int64s, lo: Int64s, hi: Int64s, groups: Int32s) -> Scalar:
    """Fill in the group of each interval; of each group its common intersection and which interval ends with that."""
    n = len(order)
    begins, points, ends_at = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    g = -1
    for k in range(n):
        i = order[k]
        if g < 0 or lo[i] > points[g]:
            g += 1
            points[g], ends_at[g] = hi[i], i
        elif hi[i] < points[g]:
            points[g], ends_at[g] = hi[i], i
        begins[g] = lo[i]  # ascending, so the last one is the greatest
        groups[i] = g
    return begins[: g + 1].copy(), points[: g + 1].copy(), ends_at[: g + 1].copy()
