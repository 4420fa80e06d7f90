"""Stabbing sets: boxes in groups that one point of c stabs, and two partners decide for a whole group (SSI, 3.2.2).

All c-intervals of a group contain its stabbing point p. With q1 <= p < q2 the partners nearest to p, a box of the group
contains a partner exactly if it contains q1 or q2: an interval around p that holds any partner holds the nearest one on
that side. So the affected boxes of a group are those with a inside that have c_lo <= q1, or else c_hi >= q2.

In place of the paper's R-tree a group has cells over a, one width of cells a class of a-widths. A cell's boxes stand
in two lists of words (`weir.index.meeting.codes`): by ascending c_lo, of which a prefix qualifies through q1, and by
descending c_hi, of which a prefix qualifies through q2, but for boxes that q1 has reported; these make the first list
shorter by its prefix, so of that prefix and this rest the shorter one is read. A group none of whose boxes reaches q1
or q2 is skipped.

Cost of an event: τ groups, whose nearest partners are found by galloping on from those of the group before, and for a
group that is reached one cell a class and the boxes that match or fail by a only. Size: 24 bytes a copy, two and
a half copies of a box on average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.meeting.codes import FLIP, PASSES, Coded, Points, code_of, meets
from weir.index.meeting.lean import lean, thin
from weir.index.meeting.lists import Doubt, Point, cell_shifts, cut_classes, distribute, take, take_in_doubt
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch
from weir.index.searches import galloped
from weir.index.stabbing import Partition

_ONE = np.uint64(1)
_FEW = np.uint64(8)  # words that are compared one by one
_SHORT = 16  # entries that are read rather than looking for a shorter list
_A_FIELDS = np.int64(0x0001_0001)  # one in both fields of a
_BELOW_TOP = np.int64((1 << 48) - 1)  # all fields but the top one


class StabbingSets(NamedTuple):
    """Groups of a stabbing partition, by ascending points."""

    numbers: Int32s  # int32[g]: 0, 1, …: all groups
    points: Int64s  # int64[g]: the point that stabs the group
    lowest: Int64s  # int64[g]: least c_lo of the group
    highest: Int64s  # int64[g]: greatest c_hi of the group
    sizes: Int64s  # int64[g]: boxes of the group
    class_offsets: Int32s  # int32[g+1]: the classes of a group
    classes: Int32s  # int32[k, 2]: shift from a code of a to its cell, list of cell 0
    list_offsets: Int32s  # int32[l+1]: the entries of a list, in both orders
    low_words: Int64s  # int64[e]: c_lo, ~c_hi, a_lo, ~a_hi, ascending within a list
    low_boxes: Int32s  # int32[e]
    high_words: Int64s  # int64[e]: ~c_hi, ~c_lo, a_lo, ~a_hi, ascending within a list
    high_boxes: Int32s  # int32[e]


class OneOrder(NamedTuple):
    """Entries of the sets in one of their two orders."""

    words: Int64s
    boxes: Int32s


def extent_of(plane: Plane, boxes: Int64s, group_of_box: Int64s, n_groups: int) -> dict[str, Int64s]:
    """Least c_lo, greatest c_hi and number of boxes of each group."""
    lowest, highest = np.full(n_groups, np.iinfo(np.int64).max), np.full(n_groups, np.iinfo(np.int64).min)
    np.minimum.at(lowest, group_of_box, plane.c_lo[boxes])
    np.maximum.at(highest, group_of_box, plane.c_hi[boxes])
    sizes = np.bincount(group_of_box, minlength=n_groups).astype(np.int64)
    return {"lowest": lowest, "highest": highest, "sizes": sizes}


def build_stabbing_sets(plane: Plane, coded: Coded, partition: Partition, groups: Int64s, n_a: int) -> StabbingSets:
    """The sets of the given groups (ascending) of a partition of c-intervals; codes of a are below `n_a`."""
    number = np.full(len(partition.points), -1, dtype=np.int64)
    number[groups] = np.arange(len(groups))
    group_of_box = number[partition.group_of_interval]
    boxes = np.flatnonzero(group_of_box >= 0)
    group_of_box = group_of_box[boxes]
    a_lo, a_hi = coded.a_lo[boxes], coded.a_hi[boxes]
    extent = extent_of(plane, boxes, group_of_box, len(groups))

    width_class = cut_classes(a_hi - a_lo, np.zeros(len(boxes), np.int64), n_a, 1, float(max(len(groups), 1)))
    n_widths = int(width_class.max()) + 1 if len(boxes) else 1
    present, class_of_box = np.unique(group_of_box * n_widths + width_class, return_inverse=True)
    n_boxes = np.bincount(class_of_box, minlength=len(present))
    width = np.bincount(class_of_box, weights=a_hi - a_lo + 1, minlength=len(present)).astype(np.float64)
    shift = cell_shifts(n_boxes, width, n_a, 0.5)
    n_cells = (n_a - 1 >> shift) + 1
    first_list = np.cumsum(n_cells) - n_cells
    begin = first_list[class_of_box] + (a_lo >> shift[class_of_box])
    end = first_list[class_of_box] + (a_hi >> shift[class_of_box]) + 1

    low_words, high_words = coded.words()[boxes], coded.words_from_above()[boxes]
    offsets, low = distribute(np.argsort(low_words, kind="stable"), begin, end, int(n_cells.sum()))
    _, high = distribute(np.argsort(high_words, kind="stable"), begin, end, int(n_cells.sum()))
    return StabbingSets(
        np.arange(len(groups), dtype=np.int32),
        np.ascontiguousarray(partition.points[groups], dtype=np.int64),
        extent["lowest"],
        extent["highest"],
        extent["sizes"],
        np.searchsorted(present, np.arange(len(groups) + 1) * n_widths).astype(np.int32),
        np.stack([shift, first_list], axis=1).astype(np.int32),
        offsets.astype(np.int32),
        low_words[low],
        boxes[low].astype(np.int32),
        high_words[high],
        boxes[high].astype(np.int32),
    )


@thin
def stab_stabbing_sets(
    sets: StabbingSets, groups: Int32s, plane: Plane, c_points: Points, point: Point, scratch: Scratch
) -> Scalar:
    """Find the boxes of the given groups, which ascend, that the event affects."""
    points, offsets = sets.points, sets.list_offsets
    begin, end, values, a_code, doubt = point.begin, point.end, point.values, point.a_code, point.doubt
    low, high = OneOrder(sets.low_words, sets.low_boxes), OneOrder(sets.high_words, sets.high_boxes)
    of_a = (a_code << 16) | (FLIP - a_code) | PASSES
    a_doubt = (a_code & doubt) * _A_FIELDS
    above = begin  # first partner above the group's point
    coded = begin - 1  # the `above` that these codes are for
    q1_code, q2_code = np.int64(-1), np.int64(-1)
    used = np.int64(0)
    for g in groups:
        above = _first_above(values, above, end, points[g])
        by_q1 = above > begin and values[above - 1] >= sets.lowest[g]
        by_q2 = above < end and values[above] <= sets.highest[g] and not (by_q1 and values[above - 1] == points[g])
        if not (by_q1 or by_q2):
            continue
        if above != coded:
            q1_code = code_of(c_points, values[above - 1]) if above > begin else np.int64(-1)
            q2_code = code_of(c_points, values[above]) if above < end else np.int64(-1)
            coded = above
        for k in range(sets.class_offsets[g], sets.class_offsets[g + 1]):
            at = sets.classes[k, 1] + (a_code >> sets.classes[k, 0])
            first, last = offsets[at], offsets[at + 1]
            looked_at = first  # the end of the boxes by c_lo that are looked at for q1
            if by_q1:
                looked_at = _prefix_end(sets.low_words, first, last, q1_code)
                event = (q1_code << 48) | (FLIP << 32) | of_a
                doubts = ((q1_code & doubt) << 48) | a_doubt
                used = _take(low, first, looked_at, event, doubts, plane, point, scratch, used)
            if by_q2 and looked_at < last:
                # The boxes that reach q2 are among the rest by c_lo, and among a prefix by c_hi: the shorter is read.
                reaching = np.int64(last)
                if last - looked_at > _SHORT:
                    reaching = _prefix_end(sets.high_words, first, last, FLIP - q2_code)
                if last - looked_at <= reaching - first:
                    event = (FLIP << 48) | ((FLIP - q2_code) << 32) | of_a
                    doubts = ((q2_code & doubt) << 32) | a_doubt
                    used = _take(low, looked_at, last, event, doubts, plane, point, scratch, used)
                else:
                    unreported = q1_code + 1 if by_q1 else np.int64(0)  # least c_lo of boxes not looked at for q1
                    event = ((FLIP - q2_code) << 48) | ((FLIP - unreported) << 32) | of_a
                    doubts = ((q2_code & doubt) << 48) | a_doubt
                    used = _take(high, first, reaching, event, doubts, plane, point, scratch, used)
    return used


@lean
def _first_above(values: Int64s, low: Scalar, end: Scalar, key: Scalar) -> Scalar:
    """The first place from `low` on whose value is above `key`: galloping, as it is near."""
    return galloped(values, low, end, key, True)


@lean
def _prefix_end(words: Int64s, first: Scalar, last: Scalar, top: Scalar) -> Scalar:
    """The end of the entries first .. last whose word has a top field up to `top`."""
    ceiling = (top << 48) | _BELOW_TOP
    low, n = np.uint64(first), np.uint64(last - first)
    while n > _FEW:
        half = (n + _ONE) >> _ONE
        low = low + half if words[low + half - _ONE] <= ceiling else low
        n -= half
    end = low
    for entry in range(low, low + n):  # without a branch on what is found
        end += np.uint64(words[entry] <= ceiling)
    return np.int64(end)


@thin
def _take(
    source: OneOrder,
    first: Scalar,
    last: Scalar,
    event: Scalar,
    doubts: Scalar,
    plane: Plane,
    point: Point,
    scratch: Scratch,
    used: Scalar,
) -> Scalar:
    """Append the boxes of the entries first .. last that `event` passes; keys decide on those in doubt."""
    zero, found = np.int64(0), scratch.found
    if doubts == 0:
        return take(source.words, source.boxes, first, last, event, zero, found, used)
    of = Doubt(event, doubts, zero, zero)
    used, n_doubtful = take_in_doubt(source.words, source.boxes, first, last, of, scratch.doubtful, found, used)
    for j in range(n_doubtful):
        box = scratch.doubtful[j]
        if meets(plane, box, point.a, point.begin, point.end, point.values):
            found[used] = box
            used += 1
    return used
