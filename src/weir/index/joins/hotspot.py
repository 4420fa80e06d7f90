"""Hotspots: stabbing sets for large groups of boxes, select-first for the scattered rest (SSI, 2.2 and 3.2.3).

A group of the canonical stabbing partition with at least α·n boxes is a hotspot. There are at most 1/α of them, so the
stabbing sets cost an event a bounded number of groups, however the boxes lie; what is in smaller groups is looked up
box by box, as far as it contains the event's a.

Cost of an event: that of both parts. Size: that of the scattered part; the hotspots are groups of stabbing sets, which
may have others too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.boxes import Int32s, Int64s
from weir.index.histograms import EqualWidth
from weir.index.jit import Scalar
from weir.index.joins.codes import Coded, Points, Uint16s
from weir.index.joins.lean import lean
from weir.index.joins.lists import Lists, build_lists
from weir.index.joins.planes import Plane
from weir.index.joins.select_first import stab_select_first
from weir.index.joins.stabbing_sets import StabbingSets, stab_stabbing_sets
from weir.index.stabbing import Partition

_BUCKETS = 256


class Hotspots(NamedTuple):
    """Both parts, and what the router asks of the scattered one."""

    groups: Int32s  # int32[η]: the stabbing sets that are hotspots, ascending
    scattered: Lists
    n_scattered: Int64s  # int64[1]: scattered boxes
    selected: EqualWidth  # their a-intervals


def is_hot(partition: Partition, alpha: float) -> npt.NDArray[np.bool_]:
    """bool[g]: which groups of a partition are hotspots."""
    sizes = np.bincount(partition.group_of_interval, minlength=len(partition.points))
    return sizes >= alpha * len(partition.group_of_interval)


def build_hotspots(plane: Plane, coded: Coded, groups: Int32s, scattered: Int64s, n_a: int, n_c: int) -> Hotspots:
    """Both parts: stabbing sets with the numbers `groups`, and boxes; codes of a are below `n_a`, of c below `n_c`."""
    return Hotspots(
        groups,
        build_lists(coded, scattered, n_a, n_c),
        np.array([len(scattered)], dtype=np.int64),
        EqualWidth.of_intervals(plane.a_lo[scattered], plane.a_hi[scattered], _BUCKETS),
    )


@lean
def stab_hotspots(
    hotspots: Hotspots,
    sets: StabbingSets,
    plane: Plane,
    c_points: Points,
    doubt: Scalar,
    a: Scalar,
    a_code: Scalar,
    begin: Scalar,
    end: Scalar,
    values: Int64s,
    codes: Uint16s,
    coded: Scalar,
    doubtful: Int32s,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Append the boxes that the event affects; the arguments are those of the two strategies."""
    groups = hotspots.groups
    used = stab_stabbing_sets(sets, groups, plane, c_points, doubt, a, a_code, begin, end, values, doubtful, out, used)
    return stab_select_first(hotspots.scattered, plane, doubt, a, a_code, begin, end, values, codes, coded, out, used)
