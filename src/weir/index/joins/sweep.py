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
from weir.index.keys import NULL_KEY


@lean
def stab_sweep(
    lists: Lists,
    plane: Plane,
    doubt: Scalar,
    a: Scalar,
    a_code: Scalar,
    begin: Scalar,
    end: Scalar,
    values: Int64s,
    codes: Uint16s,
    doubtful: Int32s,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Append the boxes that the event affects; codes[i] is the code of values[i], plus one."""
    cells, words, boxes = lists.cells, lists.words, lists.boxes
    of_a = (a_code << 16) | (FLIP - a_code) | PASSES
    a_doubt = a_code & doubt
    for k in range(len(lists.classes)):
        at = lists.classes[k, FIRST_LIST] + (a_code >> lists.classes[k, SHIFT])
        longest = lists.classes[k, LONGEST]
        if lists.lists[at, FIRST_ENTRY] == lists.lists[at + 1, FIRST_ENTRY]:
            continue
        first_cell, shift = np.int64(lists.lists[at, FIRST_CELL]), np.int64(lists.lists[at, CELL_SHIFT])
        u_code, u_doubt = np.int64(-1), np.int64(0)
        for i in range(end - begin):
            v_code = np.int64(codes[begin + i]) - 1
            v_doubt = v_code & doubt
            if v_code == u_code and (v_doubt == 0 or values[begin + i] == values[begin + i - 1]):
                continue
            # A box whose c_lo has the code of u was met by u, or it is above u in the same gap.
            lowest = u_code + 1 - u_doubt
            first = cells[first_cell + (max(lowest, v_code - longest) >> shift)]
            last = cells[first_cell + (v_code >> shift) + 1]
            event = (v_code << 48) | ((FLIP - v_code) << 32) | of_a
            if (a_doubt | u_doubt | v_doubt) == 0:
                used = take(words, boxes, first, last, event, lowest << 48, out, used)
            else:
                doubts = (v_doubt << 48) | (v_doubt << 32) | (a_doubt << 16) | a_doubt
                used, n_doubtful = take_in_doubt(
                    words, boxes, first, last, event, doubts, lowest << 48, (u_code + 1) << 48, doubtful, out, used
                )
                if n_doubtful > 0:
                    u = values[begin + i - 1] if i > 0 else NULL_KEY
                    used = _decide(plane, a, u, i == 0, values[begin + i], doubtful, n_doubtful, out, used)
            u_code, u_doubt = v_code, v_doubt
    return used


@lean
def _decide(
    plane: Plane,
    a: Scalar,
    u: Scalar,
    is_first: Scalar,
    v: Scalar,
    doubtful: Int32s,
    n_doubtful: Scalar,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Append those of the boxes in doubt that v is the first partner to reach, by their keys."""
    for j in range(n_doubtful):
        box = doubtful[j]
        if plane.a_lo[box] <= a <= plane.a_hi[box] and plane.c_lo[box] <= v <= plane.c_hi[box]:
            out[used] = box
            used += 1 if is_first or plane.c_lo[box] > u else 0
    return used
