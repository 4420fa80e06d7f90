"""Join first: every partner makes a point (a, c), and each point stabs a two-dimensional index of boxes (SSI, 3.2.1).

The index is `Lists` in place of the paper's R-tree: cells over a, within a list cells over c. A box that contains
several partners is found by each of them; marks remove the duplicates, one bit a box.

Invariant: all marks are 0 between events. Cost of an event: m' stabs of O(1) and the boxes around each point, affected
boxes as often as partners lie in them.
"""

from __future__ import annotations

import numpy as np

from weir.index.jit import Scalar
from weir.index.meeting.lean import thin
from weir.index.meeting.lists import Lists, Point, list_of, stab_list
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch, keep_unmarked


@thin
def stab_join_first(lists: Lists, plane: Plane, point: Point, scratch: Scratch) -> Scalar:
    """Find the boxes that the event affects; its run is coded.

    The buffer has room for the boxes of one list beyond all boxes.
    """
    values, begin, marks, found = point.values, point.begin, scratch.bits, scratch.found
    used = np.int64(0)
    for k in range(len(lists.classes)):
        at = list_of(lists, k, point.a_code)
        if at.first == at.last:
            continue
        for i in range(point.end - begin):
            if i > 0 and values[begin + i] == values[begin + i - 1]:
                continue  # the same point
            c_code = np.int64(scratch.codes[begin + i]) - 1
            stabbed = stab_list(lists, at, plane, point, values[begin + i], c_code, scratch, used)
            used = keep_unmarked(marks, found, used, stabbed)
    for j in range(used):
        marks[found[j] >> 6] = 0
    return used
