"""Vanilla: every box is looked at for every event, without an index of boxes (SSI, 4.1).

The boxes that contain the event's a are looked up in its run of partners by a binary search. Cost of an event: n
comparisons, and log m' for each of n' boxes. No arrays but the plane's; the floor that other strategies stand on.
"""

from __future__ import annotations

import numpy as np

from weir.index.boxes import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.joins.codes import next_value
from weir.index.joins.lean import lean
from weir.index.joins.planes import Plane


@lean
def stab_vanilla(
    plane: Plane, a: Scalar, begin: Scalar, end: Scalar, values: Int64s, out: Int32s, used: Scalar
) -> Scalar:
    """Append the boxes that the event affects."""
    a_lo, a_hi, c_lo, c_hi = plane.a_lo, plane.a_hi, plane.c_lo, plane.c_hi
    at = np.uint64(used)
    for box in range(np.uint64(len(a_lo))):
        out[at] = box
        at += np.uint64((a_lo[box] <= a) & (a <= a_hi[box]))
    kept = np.uint64(used)
    for j in range(np.uint64(used), at):
        chosen = np.uint64(out[j])
        c = next_value(values, begin, end, c_lo[chosen])
        out[kept] = chosen
        kept += np.uint64((c_lo[chosen] <= c) & (c <= c_hi[chosen]))
    return np.int64(kept)
