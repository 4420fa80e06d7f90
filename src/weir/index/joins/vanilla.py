"""Vanilla: every box is looked at for every event, without an index of boxes (SSI, 4.1).

The boxes that contain the event's a are looked up in its run of partners by a binary search. Cost of an event: n
comparisons, and log m' for each of n' boxes. No arrays but the plane's; the floor that other strategies stand on.
"""

from __future__ import annotations

import numpy as np

from weir.index.jit import Scalar
from weir.index.meeting.codes import next_value
from weir.index.meeting.lean import lean
from weir.index.meeting.lists import Point
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch


@lean
def stab_vanilla(plane: Plane, point: Point, scratch: Scratch) -> Scalar:
    """Find the boxes that the event affects."""
    a_lo, a_hi, c_lo, c_hi, out = plane.a_lo, plane.a_hi, plane.c_lo, plane.c_hi, scratch.found
    a, begin, end, values = point.a, point.begin, point.end, point.values
    at = np.uint64(0)
    for box in range(np.uint64(len(a_lo))):
        out[at] = box
        at += np.uint64((a_lo[box] <= a) & (a <= a_hi[box]))
    kept = np.uint64(0)
    for j in range(at):
        chosen = np.uint64(out[j])
        c = next_value(values, begin, end, c_lo[chosen])
        out[kept] = chosen
        kept += np.uint64((c_lo[chosen] <= c) & (c <= c_hi[chosen]))
    return np.int64(kept)
