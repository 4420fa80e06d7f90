"""Lists: boxes by the cell of a that an event falls into, each list in the order of c.

A box is a word of codes (`weir.index.meeting.codes`). Boxes are classed by the widths of their two intervals; a class
cuts the codes of a into cells of one width, and a box stands in the list of every cell that its a-interval touches. So
an event meets one list a class, `first_list + (code >> shift)`, and every box that contains its a is in one of them,
once. Within a list words ascend, that is, boxes by c_lo; `cells` leads from a code of c to the place in the list
where the boxes begin that have it as c_lo, or nearly, so the boxes with c_lo in a range are found by two loads. A class
knows its longest c-interval: a box that reaches c begins at most that far below it.

Cells are half as wide to as wide as the a-intervals of their class are on average, so there are two to three copies of
a box on average, and half to two thirds of a list contain an event's a; a class of few boxes has wider cells. Classes
that are neighbours are laid together where one more list to visit costs more than the boxes it would spare (dynamic
programming over 16 × 32 classes); unbounded intervals are the widest class.

Size: 12 bytes a copy, about 1 for cells of c. Cost: a sort of n words to build; see the strategies for a search:
`sweep`, `join_first` and `select_first` are three ways to use the same lists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s
from weir.index.histograms import Floats
from weir.index.jit import Scalar, kernel
from weir.index.meeting.codes import FLIP, GUARDS, PASSES, Coded, Codes, code_of
from weir.index.meeting.lean import lean, thin
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch

SHIFT, FIRST_LIST, LONGEST = 0, 1, 2  # columns of `classes`
FIRST_ENTRY, FIRST_CELL, CELL_SHIFT = 0, 1, 2  # columns of `lists`
LOW_PASSES, LOW_FIELDS = np.int64(0x8000_8000), np.int64(0xFFFF_FFFF)  # of a word, the two fields of a

_ENTRIES_PER_CELL = 4  # entries of a list that one cell of c holds on average
_BOXES_PER_LIST = 4  # boxes that a list of a class has at least, on average
_PARTNERS = 16  # partners of an event that classes are cut for
_PROBE_NS, _ENTRY_NS = 12.0, 1.0  # what one partner's visit to a list costs, and an entry looked at
_C_CLASSES, _A_CLASSES = 16, 32


class Lists(NamedTuple):
    """Boxes in lists, reached by class and cell of a."""

    classes: Int64s  # int64[k, 3]: shift from a code of a to its cell, list of cell 0, longest c-interval in codes
    lists: Int32s  # int32[l+1, 3]: first entry, first cell of c, shift from a code of c to its cell; the last is an end
    cells: Int32s  # int32[.]: first entry of each cell of c, then the end of the list
    words: Int64s  # int64[e]: codes of the box, ascending within a list
    boxes: Int32s  # int32[e]: number of the box


class Point(NamedTuple):
    """An event as strategies over lists see it."""

    a: Scalar  # key of its own attribute
    a_code: Scalar
    doubt: Scalar  # the bit of a code that may be in doubt
    begin: Scalar
    end: Scalar  # its partners are the places begin .. end
    values: Int64s  # int64[m]: c of each place, ascending within a run


class OneList(NamedTuple):
    """The list of a class that an event meets."""

    first: Scalar  # entry
    last: Scalar  # entry behind the last one
    first_cell: Scalar
    shift: Scalar  # from a code of c to its cell
    longest: Scalar  # c-interval, in codes


def reach_of_classes(lists: Lists, n_c: int) -> tuple[Floats, Floats]:
    """For each class its share of all entries, and the share of the codes of c that its longest c-interval covers."""
    begins = lists.classes[:, FIRST_LIST]
    ends = np.append(begins, len(lists.lists) - 1)[1:]
    entries = lists.lists[ends, FIRST_ENTRY] - lists.lists[begins, FIRST_ENTRY]
    return entries / max(int(entries.sum()), 1), (lists.classes[:, LONGEST] + 1.0) / n_c


def build_lists(coded: Coded, boxes: Int64s, n_a: int, n_c: int) -> Lists:
    """Lists of the given boxes; codes of a are below `n_a`, of c below `n_c`."""
    a_lo, a_hi = coded.a_lo[boxes], coded.a_hi[boxes]
    c_width = coded.c_hi[boxes] - coded.c_lo[boxes]
    class_of_box = cut_classes(a_hi - a_lo, c_width, n_a, n_c, _PARTNERS)
    n_classes = int(class_of_box.max()) + 1 if len(boxes) else 0
    classes = np.zeros((n_classes, 3), dtype=np.int64)
    n_boxes = np.bincount(class_of_box, minlength=n_classes)
    width = np.bincount(class_of_box, weights=a_hi - a_lo + 1, minlength=n_classes).astype(np.float64)
    classes[:, SHIFT] = cell_shifts(n_boxes, width, n_a, 0.5)
    n_cells = (n_a - 1 >> classes[:, SHIFT]) + 1
    classes[:, FIRST_LIST] = np.cumsum(n_cells) - n_cells
    np.maximum.at(classes[:, LONGEST], class_of_box, c_width)
    shift, first = classes[class_of_box, SHIFT], classes[class_of_box, FIRST_LIST]
    words = coded.words()[boxes]
    begin, end = first + (a_lo >> shift), first + (a_hi >> shift) + 1
    offsets, listed = distribute(np.argsort(words, kind="stable"), begin, end, int(n_cells.sum()))
    words = words[listed]
    lists, cells = _make_cells(offsets, words, n_c)
    return Lists(classes, lists, cells, words, boxes[listed].astype(np.int32))


def cell_shifts(n_boxes: Int64s, width: Floats, n_codes: int, least: float) -> Int64s:
    """log2 of the cell width of classes of boxes with the sum of widths `width`: at least `least` times the mean width,
    and no more cells than boxes need."""
    wanted = np.maximum(least * width / np.maximum(n_boxes, 1), n_codes * _BOXES_PER_LIST / np.maximum(n_boxes, 1))
    return np.clip(np.ceil(np.log2(np.maximum(wanted, 1.0))), 0, 15).astype(np.int64)


def distribute(order: Int64s, begin: Int64s, end: Int64s, n_lists: int) -> tuple[Int64s, Int64s]:
    """Put box i into the lists begin[i] .. end[i], boxes in the given order; offsets of lists, and boxes by list."""
    steps = np.bincount(begin, minlength=n_lists + 1) - np.bincount(end, minlength=n_lists + 1)
    offsets = np.concatenate([[0], np.cumsum(np.cumsum(steps)[:n_lists])]).astype(np.int64)
    listed = np.empty(int(offsets[-1]), dtype=np.int64)
    _distribute(order, begin, end, offsets[:-1].copy(), listed)
    return offsets, listed


@kernel
def _distribute(order: Int64s, begin: Int64s, end: Int64s, at: Int64s, listed: Int64s) -> None:
    for box in order:
        for i in range(begin[box], end[box]):
            listed[at[i]] = box
            at[i] += 1


def _make_cells(offsets: Int64s, words: Int64s, n_c: int) -> tuple[Int32s, Int32s]:
    """The cells of c of all lists."""
    sizes = np.diff(offsets)
    wanted = np.maximum(sizes // _ENTRIES_PER_CELL, 1)
    shift = np.clip(np.ceil(np.log2(n_c / wanted)), 0, 15).astype(np.int64)
    n_cells = (n_c - 1 >> shift) + 2  # and the end
    lists = np.zeros((len(offsets), 3), dtype=np.int32)
    lists[:, FIRST_ENTRY] = offsets
    lists[1:, FIRST_CELL] = np.cumsum(n_cells)
    lists[:-1, CELL_SHIFT] = shift
    cells = np.empty(int(n_cells.sum()), dtype=np.int32)
    _fill_cells(lists, words, cells)
    return lists, cells


@kernel
def _fill_cells(lists: Int32s, words: Int64s, cells: Int32s) -> None:
    """cells[first + k] is the first entry of the list whose c_lo lies in cell k or after it."""
    for i in range(len(lists) - 1):
        at, end = lists[i, FIRST_CELL], lists[i + 1, FIRST_CELL]
        shift = np.int64(lists[i, CELL_SHIFT]) + 48
        filled = 0
        for entry in range(lists[i, FIRST_ENTRY], lists[i + 1, FIRST_ENTRY]):
            cell = words[entry] >> shift
            while filled <= cell:
                cells[at + filled] = entry
                filled += 1
        while at + filled < end:
            cells[at + filled] = lists[i + 1, FIRST_ENTRY]
            filled += 1


def cut_classes(a_width: Int64s, c_width: Int64s, n_a: int, n_c: int, n_probes: float) -> Int64s:
    """The class of each box: those of similar widths together, and no more classes than pay for `n_probes` visits."""
    a_class = np.minimum((2 * np.log2(a_width + 1.0)).astype(np.int64), _A_CLASSES - 1)
    c_class = np.minimum(np.log2(c_width + 1.0).astype(np.int64), _C_CLASSES - 1)
    both = c_class * _A_CLASSES + a_class
    shape = (_C_CLASSES, _A_CLASSES)
    n_boxes = np.bincount(both, minlength=_C_CLASSES * _A_CLASSES).astype(np.float64).reshape(shape)
    width = np.bincount(both, weights=a_width + 1.0, minlength=_C_CLASSES * _A_CLASSES)
    longest = np.zeros(_C_CLASSES, dtype=np.float64)
    np.maximum.at(longest, c_class, c_width + 1.0)
    share = np.minimum(n_probes * np.maximum.accumulate(longest) / n_c, 1.0)
    cut = np.zeros(shape, dtype=np.int64)
    _cheapest_classes(n_boxes, width.astype(np.float64).reshape(shape), share, float(n_a), n_probes * _PROBE_NS, cut)
    return np.unique(cut.reshape(-1)[both], return_inverse=True)[1].astype(np.int64)


@kernel
def _cheapest_classes(n_boxes: Floats, width: Floats, share: Floats, n_a: Scalar, list_ns: Scalar, cut: Int64s) -> None:
    """cut[c class, a class] = number of the class that they are laid into: the cheapest cut of c, and within a of a."""
    n_c = len(n_boxes)
    best = np.full(n_c + 1, np.inf)
    best[0] = 0.0
    begin = np.zeros(n_c + 1, dtype=np.int64)
    boxes, widths = np.zeros(n_boxes.shape[1]), np.zeros(n_boxes.shape[1])
    begin_a = np.zeros(n_boxes.shape[1] + 1, dtype=np.int64)
    for i in range(n_c):
        boxes[:] = 0.0
        widths[:] = 0.0
        for j in range(i + 1, n_c + 1):
            boxes += n_boxes[j - 1]
            widths += width[j - 1]
            cost = best[i] + _cheapest_cuts(boxes, widths, share[j - 1], n_a, list_ns, begin_a)
            if cost < best[j]:
                best[j], begin[j] = cost, i
    number = 0
    j = n_c
    while j > 0:
        i = begin[j]
        boxes[:] = 0.0
        widths[:] = 0.0
        for k in range(i, j):
            boxes += n_boxes[k]
            widths += width[k]
        _cheapest_cuts(boxes, widths, share[j - 1], n_a, list_ns, begin_a)
        q = len(boxes)
        while q > 0:
            p = begin_a[q]
            cut[i:j, p:q] = number
            number += 1
            q = p
        j = i


@kernel
def _cheapest_cuts(
    n_boxes: Floats, width: Floats, share: Scalar, n_a: Scalar, list_ns: Scalar, begin: Int64s
) -> Scalar:
    """Least cost of an event; begin[q] = where the class that ends at q begins in the cheapest cut.

    A class with the sum of widths w over n boxes in cells of width h makes an event look at (w + n·h) / n_a boxes.
    """
    n = len(n_boxes)
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    for p in range(n):
        total, sum_of_widths = 0.0, 0.0
        for q in range(p + 1, n + 1):
            total += n_boxes[q - 1]
            sum_of_widths += width[q - 1]
            cost = best[p]
            if total > 0.0:
                cell = max(0.5 * sum_of_widths / total, 1.0)
                looked_at = min((sum_of_widths + total * cell) / n_a, total) * share
                cost += list_ns + looked_at * _ENTRY_NS
            if cost < best[q]:
                best[q], begin[q] = cost, p
    return best[n]


@thin
def point_of(codes: Codes, a: Scalar, begin: Scalar, end: Scalar, values: Int64s) -> Point:
    """An event with its code."""
    return Point(a, code_of(codes.a, a), codes.doubt[0], begin, end, values)


@thin
def list_of(lists: Lists, k: Scalar, a_code: Scalar) -> OneList:
    """The list of class k that an event with this code meets."""
    at = lists.classes[k, FIRST_LIST] + (a_code >> lists.classes[k, SHIFT])
    return OneList(
        lists.lists[at, FIRST_ENTRY],
        lists.lists[at + 1, FIRST_ENTRY],
        np.int64(lists.lists[at, FIRST_CELL]),
        np.int64(lists.lists[at, CELL_SHIFT]),
        lists.classes[k, LONGEST],
    )


@lean
def select(words: Int64s, first: Scalar, last: Scalar, a_code: Scalar, out: Int32s, used: Scalar) -> Scalar:
    """Append the entries first .. last whose a-interval contains the code, or may."""
    event = (a_code << 16) | (FLIP - a_code) | LOW_PASSES
    at = np.uint64(used)
    for entry in range(np.uint64(first), np.uint64(last)):
        out[at] = entry
        at += np.uint64(((event - (words[entry] & LOW_FIELDS)) & LOW_PASSES) == LOW_PASSES)
    return np.int64(at)


@thin
def stab_list(
    lists: Lists, at: OneList, plane: Plane, point: Point, c: Scalar, c_code: Scalar, scratch: Scratch, used: Scalar
) -> Scalar:
    """Append the boxes of one list that contain (a, c)."""
    zero = np.int64(0)
    first = lists.cells[at.first_cell + (max(c_code - at.longest, zero) >> at.shift)]
    last = lists.cells[at.first_cell + (c_code >> at.shift) + 1]
    a_code = point.a_code
    event = (c_code << 48) | ((FLIP - c_code) << 32) | (a_code << 16) | (FLIP - a_code) | PASSES
    a_doubt, c_doubt = a_code & point.doubt, c_code & point.doubt
    if (a_doubt | c_doubt) == 0:
        return take(lists.words, lists.boxes, first, last, event, zero, scratch.found, used)
    doubts = (c_doubt << 48) | (c_doubt << 32) | (a_doubt << 16) | a_doubt
    of = Doubt(event, doubts, zero, zero)
    used, n_doubtful = take_in_doubt(lists.words, lists.boxes, first, last, of, scratch.doubtful, scratch.found, used)
    for j in range(n_doubtful):  # keys decide
        box = scratch.doubtful[j]
        if plane.a_lo[box] <= point.a <= plane.a_hi[box] and plane.c_lo[box] <= c <= plane.c_hi[box]:
            scratch.found[used] = box
            used += 1
    return used


@lean
def take(
    words: Int64s,
    boxes: Int32s,
    first: Scalar,
    last: Scalar,
    event: Scalar,
    floor: Scalar,
    out: Int32s,
    used: Scalar,
) -> Scalar:
    """Append the boxes of the entries first .. last whose word `event` passes and that is not below `floor`.

    There is no branch on what is found. Places are unsigned, because a signed one is tested for being negative.
    """
    at = np.uint64(used)
    for entry in range(np.uint64(first), np.uint64(last)):
        word = words[entry]
        out[at] = boxes[entry]
        at += np.uint64((((event - word) & GUARDS) == PASSES) & (word >= floor))
    return np.int64(at)


class Doubt(NamedTuple):
    """An event's word, and where it does not decide."""

    event: Scalar
    fields: Scalar  # a one in each field of the event that is in doubt
    floor: Scalar  # words below it are passed over
    sure_floor: Scalar  # words below it are in doubt


@lean
def take_in_doubt(
    words: Int64s,
    boxes: Int32s,
    first: Scalar,
    last: Scalar,
    of: Doubt,
    doubtful: Int32s,
    out: Int32s,
    used: Scalar,
) -> tuple[Scalar, Scalar]:
    """`take` where a field is in doubt: a box with an equal field there, or with a word below the floor of sure ones,
    goes to `doubtful`. Returns how much of both is used."""
    event, floor, sure_floor = of.event, of.floor, of.sure_floor
    sure_event = event - of.fields
    at, n_doubtful = np.uint64(used), 0
    for entry in range(np.uint64(first), np.uint64(last)):
        word = words[entry]
        passes = (((event - word) & GUARDS) == PASSES) & (word >= floor)
        sure = (((sure_event - word) & GUARDS) == PASSES) & (word >= sure_floor)
        out[at] = boxes[entry]
        at += np.uint64(sure)
        if passes != sure:  # rare, and never the other way round
            doubtful[n_doubtful] = boxes[entry]
            n_doubtful += 1
    return np.int64(at), n_doubtful
