"""Select first: the boxes whose a-interval contains the event's a, then each one's c-interval among the partners.

This is the improved version of SSI 4.1: a box is looked up only within the event's run. The boxes are those of the
event's lists (`Lists`); a short run is coded once and boxes are looked up in its codes, a long one is searched by the
keys of the boxes, so that the cost does not depend on its length but by a logarithm.

Cost of an event: the boxes of its lists, at least half of which contain its a, and log m' for each of these n'.
"""

from __future__ import annotations

import numpy as np

from weir.index.box_tables import Int32s
from weir.index.jit import Scalar
from weir.index.meeting.codes import FLIP, meets, next_value
from weir.index.meeting.lean import lean, thin
from weir.index.meeting.lists import LOW_FIELDS, LOW_PASSES, Lists, Point, list_of, select
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch

_LOW_ONES = np.int64(0x0001_0001)
_ONE = np.uint64(1)


@thin
def stab_select_first(
    lists: Lists, plane: Plane, point: Point, is_coded: Scalar, scratch: Scratch, used: Scalar
) -> Scalar:
    """Append the boxes that the event affects; `is_coded` says whether its run is."""
    for k in range(len(lists.classes)):
        at = list_of(lists, k, point.a_code)
        selected = select(lists.words, at.first, at.last, point.a_code, scratch.found, used)
        if is_coded:
            used = _look_up_codes(lists, plane, point, scratch, selected, used)
        else:
            used = _look_up_keys(lists, plane, point, scratch.found, selected, used)
    return used


@lean
def _look_up_keys(lists: Lists, plane: Plane, point: Point, out: Int32s, selected: Scalar, used: Scalar) -> Scalar:
    """Keep of the entries out[used .. selected] the boxes with a partner in their c-interval."""
    a, begin, end, values, doubt = point.a, point.begin, point.end, point.values, point.doubt
    at = np.uint64(used)
    for j in range(np.uint64(used), np.uint64(selected)):
        box = np.uint64(lists.boxes[np.uint64(out[j])])
        c = next_value(values, begin, end, plane.c_lo[box])
        inside = (plane.c_lo[box] <= c) & (c <= plane.c_hi[box])
        if doubt > 0:
            inside &= (plane.a_lo[box] <= a) & (a <= plane.a_hi[box])
        out[at] = box
        at += np.uint64(inside)
    return np.int64(at)


@lean
def _look_up_codes(
    lists: Lists, plane: Plane, point: Point, scratch: Scratch, selected: Scalar, used: Scalar
) -> Scalar:
    """The same by codes; keys decide where these are in doubt."""
    words, boxes, codes, out = lists.words, lists.boxes, scratch.codes, scratch.found
    begin, a_code, doubt = point.begin, point.a_code, point.doubt
    event = (a_code << 16) | (FLIP - a_code) | LOW_PASSES
    at, length = np.uint64(used), np.uint64(point.end - begin)
    a_doubt = (a_code & doubt) * _LOW_ONES
    for j in range(np.uint64(used), np.uint64(selected)):
        entry = np.uint64(out[j])
        word = words[entry]
        c_lo = word >> 48
        c_hi = FLIP - ((word >> 32) & FLIP)
        low, n = np.uint64(begin), length
        while n > _ONE:  # the first code that is not below c_lo, or the last one; as many steps for all boxes
            half = n >> _ONE
            low = low + half if codes[low + half - _ONE] <= c_lo else low
            n -= half
        code = np.int64(codes[low]) - 1
        box = boxes[entry]
        inside = (c_lo <= code) & (code <= c_hi)
        if doubt > 0 and inside:
            of_a = event - (word & LOW_FIELDS) - a_doubt
            if (of_a & LOW_PASSES) != LOW_PASSES or ((code & 1) == 1 and code in (c_lo, c_hi)):
                inside = meets(plane, box, point.a, begin, point.end, point.values)
        out[at] = box
        at += np.uint64(inside)
    return np.int64(at)
