"""Sweep: the partners pass over the lists in the order of c, and every box is met once.

For an event with code a the boxes that contain it stand in one list a class, in the order of c_lo (`Lists`). Let u < v
be consecutive partners. A box with u < c_lo <= v is affected exactly if c_hi >= v, because v is its first partner that
is not below it; and it is looked at for v only, so it is reported once. Boxes with c_lo below v − longest cannot reach
v and are skipped. Both ends of the stretch are found by one load each in the list's cells.

Cost of an event: m' visits a class and the boxes looked at. If intervals of c are long against the gaps of the partners
that is every box of the lists, of which most match; if they are short it is m' times those around a point. So it
is near k either way, unlike `select_first` (all of n') and `join_first` (each box as often as partners are in it).
"""

from __future__ import annotations

import numpy as np

from weir.index.jit import Scalar
from weir.index.keys import NULL_KEY
from weir.index.meeting.codes import FLIP, PASSES
from weir.index.meeting.lean import lean, thin
from weir.index.meeting.lists import Doubt, Lists, Point, list_of, take, take_in_doubt
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch


@thin
def stab_sweep(lists: Lists, plane: Plane, point: Point, scratch: Scratch) -> Scalar:
    """Find the boxes that the event affects; its run is coded."""
    cells, words, boxes = lists.cells, lists.words, lists.boxes
    values, codes, begin, doubt = point.values, scratch.codes, point.begin, point.doubt
    of_a = (point.a_code << 16) | (FLIP - point.a_code) | PASSES
    a_doubt = point.a_code & doubt
    used = np.int64(0)
    for k in range(len(lists.classes)):
        at = list_of(lists, k, point.a_code)
        if at.first == at.last:
            continue
        u_code, u_doubt = np.int64(-1), np.int64(0)
        for i in range(point.end - begin):
            v_code = np.int64(codes[begin + i]) - 1
            v_doubt = v_code & doubt
            if v_code == u_code and (v_doubt == 0 or values[begin + i] == values[begin + i - 1]):
                continue
            # A box whose c_lo has the code of u was met by u, or it is above u in the same gap.
            lowest = u_code + 1 - u_doubt
            first = cells[at.first_cell + (max(lowest, v_code - at.longest) >> at.shift)]
            last = cells[at.first_cell + (v_code >> at.shift) + 1]
            event = (v_code << 48) | ((FLIP - v_code) << 32) | of_a
            if (a_doubt | u_doubt | v_doubt) == 0:
                used = take(words, boxes, first, last, event, lowest << 48, scratch.found, used)
            else:
                fields = (v_doubt << 48) | (v_doubt << 32) | (a_doubt << 16) | a_doubt
                doubt_of = Doubt(event, fields, lowest << 48, (u_code + 1) << 48)
                used, n_doubtful = take_in_doubt(
                    words, boxes, first, last, doubt_of, scratch.doubtful, scratch.found, used
                )
                if n_doubtful > 0:
                    used = _decide(plane, point, i, scratch, n_doubtful, used)
            u_code, u_doubt = v_code, v_doubt
    return used


@lean
def _decide(plane: Plane, point: Point, i: Scalar, scratch: Scratch, n_doubtful: Scalar, used: Scalar) -> Scalar:
    """Append those of the boxes in doubt that the i-th partner is the first to reach, by their keys."""
    u = point.values[point.begin + i - 1] if i > 0 else NULL_KEY
    v = point.values[point.begin + i]
    for j in range(n_doubtful):
        box = scratch.doubtful[j]
        if plane.a_lo[box] <= point.a <= plane.a_hi[box] and plane.c_lo[box] <= v <= plane.c_hi[box]:
            scratch.found[used] = box
            used += 1 if i == 0 or plane.c_lo[box] > u else 0
    return used
