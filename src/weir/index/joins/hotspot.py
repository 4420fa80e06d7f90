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

from weir.index.box_tables import Int32s, Int64s
from weir.index.histograms import EqualWidth
from weir.index.meeting.codes import Coded
from weir.index.meeting.lists import Lists, build_lists
from weir.index.meeting.planes import Plane

_BUCKETS = 256


class Hotspots(NamedTuple):
    """Both parts, and what the router asks of the scattered one."""

    groups: Int32s  # int32[η]: the stabbing sets that are hotspots, ascending
    scattered: Lists
    n_scattered: Int64s  # int64[1]: scattered boxes
    selected: EqualWidth  # their a-intervals


def build_hotspots(plane: Plane, coded: Coded, groups: Int32s, scattered: Int64s, n_a: int, n_c: int) -> Hotspots:
    """Both parts: stabbing sets with the numbers `groups`, and boxes; codes of a are below `n_a`, of c below `n_c`."""
    return Hotspots(
        groups,
        build_lists(coded, scattered, n_a, n_c),
        np.array([len(scattered)], dtype=np.int64),
        EqualWidth.of_intervals(plane.a_lo[scattered], plane.a_hi[scattered], _BUCKETS),
    )
