"""Hotspots: stabbing sets for large groups of boxes, select-first for the scattered rest (SSI, 2.2 and 3.2.3).

A group of the canonical stabbing partition with at least α·n boxes is a hotspot. There are at most 1/α of them, so the
stabbing sets cost an event a bounded number of groups, however the boxes lie; what is in smaller groups is looked up
box by box, as far as it contains the event's a.

Cost of an event: that of both parts. Size: that of both parts, a box being in one of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.boxes import Int32s, Int64s
from weir.index.histograms import EqualWidth
from weir.index.jit import Scalar
from weir.index.joins.codes import Coded, Points, Uint16s
from weir.index.joins.lean import lean
from weir.index.joins.lists import Lists, build_lists
from weir.index.joins.planes import Plane
from weir.index.joins.select_first import stab_select_first
from weir.index.joins.stabbing_sets import StabbingSets, build_stabbing_sets, stab_stabbing_sets
from weir.index.stabbing import Partition

_BUCKETS = 256


class Hotspots(NamedTuple):
    """Both parts, and what the router asks of the scattered one."""

    sets: StabbingSets
    scattered: Lists
    n_scattered: Int64s  # int64[1]: scattered boxes
    selected: EqualWidth  # their a-intervals


def build_hotspots(plane: Plane, coded: Coded, partition: Partition, alpha: float, n_a: int, n_c: int) -> Hotspots:
    """Both parts of a partition of the plane's c-intervals; codes of a are below `n_a`, of c below `n_c`."""
    sizes = np.bincount(partition.group_of_interval, minlength=len(partition.points))
    hot = sizes >= alpha * len(partition.group_of_interval)
    scattered = np.flatnonzero(~hot[partition.group_of_interval])
    return Hotspots(
        build_stabbing_sets(plane, coded, partition, np.flatnonzero(hot), n_a),
        build_lists(coded, scattered, n_a, n_c),
        np.array([len(scattered)], dtype=np.int64),
        EqualWidth.of_intervals(plane.a_lo[scattered], plane.a_hi[scattered], _BUCKETS),
    )


@lean
def stab_hotspots(
    hotspots: Hotspots,
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
    sets, scattered = hotspots.sets, hotspots.scattered
    used = stab_stabbing_sets(sets, plane, c_points, doubt, a, a_code, begin, end, values, doubtful, out, used)
    return stab_select_first(scattered, plane, doubt, a, a_code, begin, end, values, codes, coded, out, used)
