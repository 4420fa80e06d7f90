"""Select first: the boxes whose a-interval contains the event's a, then each one's c-interval among the partners.

This is the improved version of SSI 4.1: a box is looked up only within the event's run. The boxes are those of the
event's lists (`Lists`); a short run is coded once and boxes are looked up in its codes, a long one is searched by the
keys of the boxes, so that the cost does not depend on its length but by a logarithm.

Cost of an event: the boxes of its lists, at least half of which contain its a, and log m' for each of these n'.
"""

from __future__ import annotations

import numpy as np

from weir.index.boxes import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.joins.codes import FLIP, Uint16s, meets, next_value
from weir.index.joins.lean import lean
from weir.index.joins.lists import FIRST_ENTRY, FIRST_LIST, SHIFT, Lists
from weir.index.joins.planes import Plane

_LOW_PASSES = np.int64(0x8000_8000)
_LOW_FIELDS = np.int64(0xFFFF_FFFF)
_LOW_ONES = np.int64(0x0001_0001)
_ONE = np.uint64(1)


@lean
def stab_select_first(
    lists: Lists,
    plane: Plane,
    doubt: Scalar,
    a: Scalar,
    a_code: Scalar,
    begin: Scalar,
    end: Scalar,
    values: Int64s,
    codes: Uint16s,
    coded: Scalar,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Append the boxes that the event affects.

    If the run is coded, codes[i] is the code of values[i], plus one.
    """
    event = (a_code << 16) | (FLIP - a_code) | _LOW_PASSES
    for k in range(len(lists.classes)):
        at = lists.classes[k, FIRST_LIST] + (a_code >> lists.classes[k, SHIFT])
        first, last = lists.lists[at, FIRST_ENTRY], lists.lists[at + 1, FIRST_ENTRY]
        selected = _select(lists.words, first, last, event, out, used)
        if coded:
            used = _look_up_codes(lists, plane, doubt, a, event, begin, end, values, codes, selected, out, used)
        else:
            used = _look_up_keys(lists, plane, doubt, a, begin, end, values, selected, out, used)
    return used


@lean
def _select(words: Int64s, first: Scalar, last: Scalar, event: Scalar, out: Int32s, used: Scalar) -> Scalar:
    """Append the entries first .. last whose a-interval the event passes."""
    at = np.uint64(used)
    for entry in range(np.uint64(first), np.uint64(last)):
        out[at] = entry
        at += np.uint64(((event - (words[entry] & _LOW_FIELDS)) & _LOW_PASSES) == _LOW_PASSES)
    return np.int64(at)


@lean
def _look_up_keys(
    lists: Lists,
    plane: Plane,
    doubt: Scalar,
    a: Scalar,
    begin: Scalar,
    end: Scalar,
    values: Int64s,
    selected: Scalar,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Keep of the entries out[used .. selected] the boxes with a partner in their c-interval."""
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
    lists: Lists,
    plane: Plane,
    doubt: Scalar,
    a: Scalar,
    event: Scalar,
    begin: Scalar,
    end: Scalar,
    values: Int64s,
    codes: Uint16s,
    selected: Scalar,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Keep of the entries out[used .. selected] the boxes with a partner in their c-interval."""
    words, boxes = lists.words, lists.boxes
    at, length = np.uint64(used), np.uint64(end - begin)
    a_doubt = ((event >> 16) & doubt) * _LOW_ONES
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
            of_a = event - (word & _LOW_FIELDS) - a_doubt
            if (of_a & _LOW_PASSES) != _LOW_PASSES or ((code & 1) == 1 and code in (c_lo, c_hi)):
                inside = meets(plane, box, a, begin, end, values)
        out[at] = box
        at += np.uint64(inside)
    return np.int64(at)
