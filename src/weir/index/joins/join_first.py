"""Join first: every partner makes a point (a, c), and each point stabs a two-dimensional index of boxes (SSI, 3.2.1).

The index is `Lists` in place of the paper's R-tree: cells over a, within a list cells over c. A box that contains
several partners is found by each of them; marks remove the duplicates, one bit a box.

Invariant: all marks are 0 between events. Cost of an event: m' stabs of O(1) and the boxes around each point, affected
boxes as often as partners lie in them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weir.index.boxes import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.joins.codes import FLIP, PASSES, Uint16s
from weir.index.joins.lean import lean
from weir.index.joins.lists import (
    CELL_SHIFT,
    FIRST_CELL,
    FIRST_ENTRY,
    FIRST_LIST,
    LONGEST,
    SHIFT,
    Lists,
    take,
    take_in_doubt,
)
from weir.index.joins.planes import Plane

_ONE, _WORD, _BIT = np.uint64(1), np.uint64(6), np.uint64(63)


@lean
def stab_join_first(
    lists: Lists,
    plane: Plane,
    doubt: Scalar,
    a: Scalar,
    a_code: Scalar,
    begin: Scalar,
    end: Scalar,
    values: Int64s,
    codes: Uint16s,
    marks: npt.NDArray[np.uint64],
    doubtful: Int32s,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Append the boxes that the event affects; codes[i] is the code of values[i], plus one.

    `out` must have room for the boxes of one list beyond all boxes.
    """
    cells, words, boxes = lists.cells, lists.words, lists.boxes
    of_a = (a_code << 16) | (FLIP - a_code) | PASSES
    a_doubt = a_code & doubt
    start = used
    for k in range(len(lists.classes)):
        at = lists.classes[k, FIRST_LIST] + (a_code >> lists.classes[k, SHIFT])
        longest = lists.classes[k, LONGEST]
        if lists.lists[at, FIRST_ENTRY] == lists.lists[at + 1, FIRST_ENTRY]:
            continue
        first_cell, shift = np.int64(lists.lists[at, FIRST_CELL]), np.int64(lists.lists[at, CELL_SHIFT])
        for i in range(end - begin):
            if i > 0 and values[begin + i] == values[begin + i - 1]:
                continue  # the same point
            c_code = np.int64(codes[begin + i]) - 1
            first = cells[first_cell + (max(c_code - longest, np.int64(0)) >> shift)]
            last = cells[first_cell + (c_code >> shift) + 1]
            event = (c_code << 48) | ((FLIP - c_code) << 32) | of_a
            c_doubt = c_code & doubt
            if (a_doubt | c_doubt) == 0:
                stabbed = take(words, boxes, first, last, event, np.int64(0), out, used)
            else:
                doubts = (c_doubt << 48) | (c_doubt << 32) | (a_doubt << 16) | a_doubt
                zero = np.int64(0)
                stabbed, n_doubtful = take_in_doubt(
                    words, boxes, first, last, event, doubts, zero, zero, doubtful, out, used
                )
                if n_doubtful > 0:
                    stabbed = _decide(plane, a, values[begin + i], doubtful, n_doubtful, out, stabbed)
            used = _keep_unmarked(marks, out, used, stabbed)
    for j in range(start, used):
        marks[out[j] >> 6] = 0
    return used


@lean
def _decide(
    plane: Plane, a: Scalar, c: Scalar, doubtful: Int32s, n_doubtful: Scalar, out: Int32s, used: Scalar
) -> Scalar:
    """Append those of the boxes in doubt that contain (a, c), by their keys."""
    for j in range(n_doubtful):
        box = doubtful[j]
        if plane.a_lo[box] <= a <= plane.a_hi[box] and plane.c_lo[box] <= c <= plane.c_hi[box]:
            out[used] = box
            used += 1
    return used


@lean
def _keep_unmarked(marks: npt.NDArray[np.uint64], out: Int32s, used: Scalar, stabbed: Scalar) -> Scalar:
    """Keep of the boxes out[used .. stabbed] those that are not marked, and mark them."""
    at = np.uint64(used)
    for j in range(np.uint64(used), np.uint64(stabbed)):
        box = out[j]
        number = np.uint64(box)
        bit = _ONE << (number & _BIT)
        before = marks[number >> _WORD]
        marks[number >> _WORD] = before | bit
        out[at] = box
        at += np.uint64((before & bit) == 0)
    return np.int64(at)
