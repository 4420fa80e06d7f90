"""The strategies of band joins: kernels that find the boxes an event affects.

What they are is said in `weir.index.bands.index`. All work on one layout, `Bands`: boxes in classes by the widths of
their intervals and, within a class, by lo, and the same boxes in stabbing groups. Each leaves an event's boxes in
`found`, in any order, each once; a box whose own attribute the event does not satisfy is left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weir.index.bands.costs import DATA_OUTER, HOTSPOT, MERGE, SELECT_FIRST, SSI
from weir.index.bands.ladders import climb_boxes
from weir.index.bands.layout import WIDE, Bands, Meeting, first_lo, least_lo
from weir.index.bands.runs import Floats, Run, difference, first_above, first_not_below, is_whole
from weir.index.boxes import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.joins.affected import Scratch
from weir.index.joins.instructions import double_of, prefetch
from weir.index.joins.lean import lean
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

_AT_ONCE = 16  # partners that data-outer looks up before it looks at what it finds there
_EVENTS, _PARTNERS, _LOOKED_AT = 16, 8, 8  # of a sample: events, partners of each, boxes that a partner touches


@lean
def sample(bands: Bands, events: Meeting, run: Run, touched: Floats, stabbed: Floats) -> None:
    """By class, means over some partners of some events: boxes that data-outer looks at for it, and that it lies in."""
    count = 0
    step = max(len(events.a) // _EVENTS, 1)
    for event in range(step // 2, len(events.a), step):
        begin, end = events.begin[event], events.end[event]
        stride = max((end - begin) // _PARTNERS, 1)
        for i in range(begin + stride // 2, end, stride):
            d = difference(run.values[i], events.offset[event], run.is_double)
            count += 1
            for k in range(len(bands.longest)):
                first, last = bands.classes[k], bands.classes[k + 1]
                first = first_lo(bands.lo, first, last, least_lo(d, bands.longest[k]))
                last = first_lo(bands.lo, first, last, d + 1) if d < KEY_MAX else last
                touched[k] += last - first
                apart = max((last - first) // _LOOKED_AT, 1)
                for place in range(first + apart // 2, last, apart):
                    stabbed[k] += apart if bands.hi[place] >= d else 0
    for k in range(len(bands.longest)):
        touched[k] /= max(count, 1)
        stabbed[k] /= max(count, 1)


@lean
def stab(
    bands: Bands, events: Meeting, run: Run, strategy: Scalar, scratch: Scratch, event: Scalar, silent: Scalar
) -> Scalar:
    """The event's boxes by one strategy into scratch.found; returns how many they are.

    `silent`: where stretches of boxes are reported, only find them; for measuring what finding costs.
    """
    a, offset, begin, end = events.a[event], events.offset[event], events.begin[event], events.end[event]
    found = scratch.found
    if strategy == DATA_OUTER:
        return _data_outer(bands, run, a, offset, begin, end, scratch.doubtful, scratch.bits, found)
    if strategy == MERGE:
        return _merge(bands, run, a, offset, begin, end, found)
    if strategy == SSI:
        return _stabbed(bands, bands.numbers, run, a, offset, begin, end, silent, found)
    if strategy == HOTSPOT:
        used = _stabbed(bands, bands.hot, run, a, offset, begin, end, silent, found)
        for place in bands.scattered:
            found[used] = bands.boxes[place]
            used += _has_partner(bands, run, place, offset, begin, end) and _selects(bands, place, a)
        return used
    if strategy == SELECT_FIRST and len(bands.cells) > 0:
        return _selected(bands, run, a, offset, begin, end, found)
    if is_whole(run, begin, end, offset):
        return climb_boxes(bands, run, a, offset, begin, end, found)
    used = 0
    for place in range(len(bands.lo)):
        found[used] = bands.boxes[place]
        used += _has_partner(bands, run, place, offset, begin, end) and _selects(bands, place, a)
    return used


@lean
def cell_of(marks: Int64s, a: Scalar) -> Scalar:
    """The cell of a: how many marks are not above it."""
    first, n = 0, len(marks)
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if marks[first + half - 1] <= a else first
        n -= half
    return first


@lean
def _selected(bands: Bands, run: Run, a: Scalar, offset: Scalar, begin: Scalar, end: Scalar, found: Int32s) -> Scalar:
    """Select-first: of the boxes whose a-interval meets the cell of a, those that contain it look for a partner."""
    cell = cell_of(bands.marks, a)
    used = 0
    for entry in range(bands.cells[cell], bands.cells[cell + 1]):
        place = bands.entries[entry]
        if bands.a_lo[place] <= a <= bands.a_hi[place] and _has_partner(bands, run, place, offset, begin, end):
            found[used] = bands.boxes[place]
            used += 1
    return used


@lean
def _selects(bands: Bands, place: Scalar, a: Scalar) -> Scalar:
    """Whether a box contains the event's own attribute."""
    if len(bands.a_lo) == 0:
        return True
    return bands.a_lo[place] <= a and a <= bands.a_hi[place]


@lean
def _has_partner(bands: Bands, run: Run, place: Scalar, offset: Scalar, begin: Scalar, end: Scalar) -> Scalar:
    at = first_not_below(run, begin, end, bands.lo[place], offset)
    return at < end and difference(run.values[at], offset, run.is_double) <= bands.hi[place]


@lean
def _merge(bands: Bands, run: Run, a: Scalar, offset: Scalar, begin: Scalar, end: Scalar, found: Int32s) -> Scalar:
    """Boxes of a class by lo and partners by difference, both from left to right."""
    values, is_double = run.values, run.is_double
    used = 0
    for k in range(len(bands.longest)):
        at = begin
        for place in range(bands.classes[k], bands.classes[k + 1]):
            while at < end and difference(values[at], offset, is_double) < bands.lo[place]:
                at += 1
            if at == end:
                break
            found[used] = bands.boxes[place]
            used += difference(values[at], offset, is_double) <= bands.hi[place] and _selects(bands, place, a)
    return used


@lean
def _data_outer(
    bands: Bands,
    run: Run,
    a: Scalar,
    offset: Scalar,
    begin: Scalar,
    end: Scalar,
    starts: Int32s,
    marks: npt.NDArray[np.uint64],
    found: Int32s,
) -> Scalar:
    """For every partner the boxes of each class whose lo is near enough below its difference; each box once.

    Some partners go together, from the ladder to its cells to the boxes: what all of them need next is asked for before
    any of them waits for it.
    """
    used = 0
    near, hi, steps = bands.near, bands.hi, bands.steps
    one, two = np.uint64(1), np.uint64(2)
    n_starts = min(len(starts), _AT_ONCE)
    for first in range(begin, end, n_starts):
        n = min(end - first, n_starts)
        for k in range(len(bands.longest)):
            last, longest = np.uint64(2 * bands.classes[k + 1]), bands.longest[k]
            is_narrow = longest < WIDE
            if bands.step_offsets[k] < bands.step_offsets[k + 1]:
                for j in range(n):
                    d = difference(run.values[first + j], offset, run.is_double)
                    starts[j] = _step(bands, k, least_lo(d, longest), run.is_double)
                    prefetch(steps, np.int64(starts[j]))
                for j in range(n):
                    starts[j] = bands.classes[k] + steps[starts[j]]
                    prefetch(near, 2 * np.int64(starts[j]))
                    prefetch(near, 2 * np.int64(starts[j]) + 7)  # a line has eight numbers
            else:
                for j in range(n):
                    d = difference(run.values[first + j], offset, run.is_double)
                    starts[j] = first_lo(bands.lo, bands.classes[k], bands.classes[k + 1], least_lo(d, longest))
            for j in range(n):
                i = first + j
                if i > begin and run.values[i] == run.values[i - 1]:
                    continue
                d = difference(run.values[i], offset, run.is_double)
                least = least_lo(d, longest)
                at = np.uint64(2 * np.int64(starts[j]))
                while at < last and near[at] < least:
                    at += two
                while at < last and near[at] <= d:
                    rest = near[at + one]
                    box = np.uint64(rest) & np.uint64(0xFFFF_FFFF)
                    bit = one << (box & np.uint64(63))
                    inside = d - near[at] <= rest >> 32 if is_narrow else hi[at >> one] >= d
                    if inside and not marks[box >> np.uint64(6)] & bit and _selects(bands, at >> one, a):
                        marks[box >> np.uint64(6)] |= bit
                        found[used] = box
                        used += 1
                    at += two
    for j in range(used):
        marks[found[j] >> 6] = 0
    return used


@lean
def _step(bands: Bands, k: Scalar, key: Scalar, is_double: Scalar) -> Scalar:
    """The place in `steps` of the cell before that of `key`; a key that is no number lies below or above all."""
    begin, end = bands.step_offsets[k], bands.step_offsets[k + 1]
    if key == KEY_MIN:  # boxes without a lower bound are in the first cell, wherever the others begin
        return begin
    number = double_of(key ^ np.int64(KEY_MAX) if key < 0 else key) if is_double else np.float64(key)
    at = number * bands.step_scale[k, 0] + (bands.step_scale[k, 1] - 1.0)
    if at != at:
        return begin if key < 0 else end - 1
    return begin + np.int64(min(max(at, 0.0), np.float64(end - begin - 1)))


@lean
def _stabbed(
    bands: Bands,
    groups: Int32s,
    run: Run,
    a: Scalar,
    offset: Scalar,
    begin: Scalar,
    end: Scalar,
    silent: Scalar,
    found: Int32s,
) -> Scalar:
    """The boxes of the given groups: those that reach the partner just below the point or at it, or the one above."""
    values, is_double = run.values, run.is_double
    used = 0
    above = begin
    for g in groups:
        above = first_above(run, above, end, bands.points[g], offset)
        first, last = bands.group_offsets[g], bands.group_offsets[g + 1]
        below = np.int64(NULL_KEY)  # the difference of the partner at or below the point
        if above > begin:
            below = difference(values[above - 1], offset, is_double)
            reached = _prefix(bands.low, bands.lo, first, last, below) if below < bands.points[g] else last
            if not silent:
                used = _append(bands, bands.low, first, reached, a, np.int64(NULL_KEY), found, used)
            if reached == last:
                continue  # it is in all of them
        if above < end:
            beyond = difference(values[above], offset, is_double)
            if beyond <= bands.highest[g]:
                reached = _suffix(bands.high, bands.hi, first, last, beyond)
                if not silent:
                    used = _append(bands, bands.high, first, reached, a, below, found, used)
    return used


@lean
def _prefix(low: Int32s, lo: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The end of the boxes of a group, by ascending lo, whose lo is not above `key`."""
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if lo[low[first + half - 1]] <= key else first
        n -= half
    return first


@lean
def _suffix(high: Int32s, hi: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The end of the boxes of a group, by descending hi, whose hi is not below `key`."""
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if hi[high[first + half - 1]] >= key else first
        n -= half
    return first


@lean
def _append(
    bands: Bands, places: Int32s, first: Scalar, last: Scalar, a: Scalar, below: Scalar, found: Int32s, used: Scalar
) -> Scalar:
    """Append the boxes at places[first .. last] that contain a, and whose lo is above `below`."""
    boxes, lo = bands.boxes, bands.lo
    if len(bands.a_lo) == 0 and below == NULL_KEY:
        for k in range(first, last):
            found[used] = boxes[places[k]]
            used += 1
        return used
    for k in range(first, last):
        place = places[k]
        found[used] = boxes[place]
        used += (lo[place] > below) & _selects(bands, place, a)
    return used
