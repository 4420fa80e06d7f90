"""The strategies of band joins: kernels that find the boxes an event affects.

What they are is said in `weir.index.bands.index`. All work on one layout, `Bands`: boxes in classes by the widths of
their intervals and, within a class, by lo, and the same boxes in stabbing groups. Each leaves an event's boxes in
`found`, in any order, each once; a box whose own attribute the event does not satisfy is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.bands.costs import DATA_OUTER, HOTSPOT, MERGE, SELECT_FIRST, SSI
from weir.index.bands.runs import Floats, Run, difference, first_above, first_not_below, is_whole, walk
from weir.index.boxes import Int32s, Int64s
from weir.index.jit import Scalar
from weir.index.joins.affected import Scratch
from weir.index.joins.instructions import double_of, prefetch, word_at
from weir.index.joins.lean import lean
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

SHORT = 56  # intervals shorter than this are looked for in one word of bits
WIDE = (1 << 31) - 1  # a width that stands for itself and all greater ones
_AT_ONCE = 16  # partners that data-outer looks up before it looks at what it finds there
_EVENTS, _PARTNERS, _LOOKED_AT = 16, 8, 8  # of a sample: events, partners of each, boxes that a partner touches


class Bands(NamedTuple):
    """Boxes by class of width and, within a class, by ascending lo; and in stabbing groups."""

    lo: Int64s  # int64[n]: least key of the difference
    hi: Int64s  # int64[n]: greatest
    aids: Int64s  # int64[n]: of doubles lo as a number, its bits; of whole numbers, bits for a short interval's
    boxes: Int32s  # int32[n]: the box
    near: Int64s  # int64[2n]: lo, then in its upper half hi − lo, or WIDE, and in its lower the box: what partners see
    a_lo: Int64s  # int64[n], or empty if no box constrains a
    a_hi: Int64s
    marks: Int64s  # int64[c−1]: ascending keys of a that part its cells
    cells: Int32s  # int32[c+1]: the entries of each cell; empty if a is not selective
    entries: Int32s  # int32[·]: places of the boxes whose a-interval meets the cell
    classes: Int64s  # int64[k+1]: the boxes of class i are classes[i] .. classes[i+1]
    longest: Int64s  # int64[k]: the longest interval of a class, in keys
    steps: Int32s  # int32[·]: ladders over the lo of each class: the first place of each cell, counted within the class
    step_offsets: Int64s  # int64[k+1]: where those of class i begin
    step_scale: Floats  # float64[k, 2]: cell = lo · scale[0] + scale[1]
    group_offsets: Int64s  # int64[g+1]
    low: Int32s  # int32[n]: places of the boxes of each group, by ascending lo
    high: Int32s  # int32[n]: the same by descending hi
    points: Int64s  # int64[g]: what stabs the group, ascending
    lowest: Int64s  # int64[g]: its least lo
    highest: Int64s  # int64[g]: its greatest hi
    numbers: Int32s  # int32[g]: 0, 1, …: all groups
    hot: Int32s  # int32[η]: the hotspots
    scattered: Int32s  # int32[·]: places of the boxes of other groups, ascending


class Meeting(NamedTuple):
    """A batch of events."""

    a: Int64s  # int64[e]
    offset: Int64s  # int64[e]: b, as `Run` has u
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]: its partners are the places begin .. end


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
                first = _first_lo(bands.lo, first, last, _least(d, bands.longest[k]))
                last = _first_lo(bands.lo, first, last, d + 1) if d < KEY_MAX else last
                touched[k] += last - first
                apart = max((last - first) // _LOOKED_AT, 1)
                for place in range(first + apart // 2, last, apart):
                    stabbed[k] += apart if bands.hi[place] >= d else 0
    for k in range(len(bands.longest)):
        touched[k] /= max(count, 1)
        stabbed[k] /= max(count, 1)


@lean
def _least(d: Scalar, longest: Scalar) -> Scalar:
    """The least lo of a box that may contain d, in a class whose longest interval is given.

    The class of the longest has intervals with open ends, and such that are too long for int64.
    """
    return d - longest if longest < KEY_MAX and d >= KEY_MIN + longest else np.int64(KEY_MIN)


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
        return _climb(bands, run, a, offset, begin, end, found)
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
def _climb(bands: Bands, run: Run, a: Scalar, offset: Scalar, begin: Scalar, end: Scalar, found: Int32s) -> Scalar:
    """Query-outer with a ladder: each box goes to the cell of its lo, or to the one before, and on from there.

    Of each class only boxes are looked at that can reach the partners at all.
    """
    least = difference(run.values[begin], offset, run.is_double)
    greatest = difference(run.values[end - 1], offset, run.is_double)
    used = np.int64(0)
    for k in range(len(bands.longest)):
        first, last = bands.classes[k], bands.classes[k + 1]
        longest = bands.longest[k]
        if longest < KEY_MAX and least >= KEY_MIN + longest:
            first = _first_lo(bands.lo, first, last, least - longest)
        if greatest < KEY_MAX:
            last = _first_lo(bands.lo, first, last, greatest + 1)
        if run.units[1] == 1 and longest < SHORT:
            used = _look_at_bits(bands, run, offset, least, first, last, found, used)
        elif run.units[1] == 1:
            used = _climb_units(bands, run, offset, least, end, first, last, found, used)
        else:
            used = _climb_cells(bands, run, offset, end, first, last, found, used)
    if len(bands.a_lo) == 0:
        for i in range(used):
            found[i] = bands.boxes[found[i]]
        return used
    kept = 0
    for i in range(used):
        place = found[i]
        found[kept] = bands.boxes[place]
        kept += bands.a_lo[place] <= a and a <= bands.a_hi[place]
    return kept


@lean
def _look_at_bits(
    bands: Bands, run: Run, offset: Scalar, least: Scalar, first: Scalar, last: Scalar, found: Int32s, used: Scalar
) -> Scalar:
    """Places of the boxes first .. last with a partner, where every number has a bit, and intervals are short."""
    lo, hi, masks, bits = bands.lo, bands.hi, bands.aids, run.bits
    shift = offset - run.units[0]
    whole = _first_lo(lo, first, last, least)
    for place in range(first, whole):  # they begin below all partners
        ahead = word_at(bits, np.uint64(0)) >> np.uint64(1)  # cell 0 is that of the number before the first
        reach = hi[place] - least
        found[used] = place
        used += reach >= 0 and (ahead & ((np.uint64(2) << np.uint64(max(reach, 0))) - np.uint64(1))) != np.uint64(0)
    out = np.uint64(used)
    for place in range(np.uint64(whole), np.uint64(last)):
        cell = np.uint64(lo[place] + shift)
        ahead = word_at(bits, cell >> np.uint64(3)) >> (cell & np.uint64(7))
        found[out] = place
        out += np.uint64((ahead & np.uint64(masks[place])) != np.uint64(0))
    return np.int64(out)


@lean
def _climb_units(
    bands: Bands,
    run: Run,
    offset: Scalar,
    least: Scalar,
    end: Scalar,
    first: Scalar,
    last: Scalar,
    found: Int32s,
    used: Scalar,
) -> Scalar:
    """The same for intervals of any length, by the cells of their lo."""
    lo, hi, cells, values = bands.lo, bands.hi, run.cells, run.values
    shift = offset - run.units[0]
    at_end = np.uint32(end)
    out = np.uint64(used)
    for place in range(np.uint64(first), np.uint64(last)):
        at = np.uint32(cells[np.uint64(max(lo[place], least) + shift)])
        found[out] = place
        out += np.uint64((at < at_end) & (values[np.uint64(at)] - offset <= hi[place]))
    return np.int64(out)


@lean
def _climb_cells(
    bands: Bands, run: Run, offset: Scalar, end: Scalar, first: Scalar, last: Scalar, found: Int32s, used: Scalar
) -> Scalar:
    """The same where cells are found by floating point."""
    lo, hi, aids = bands.lo, bands.hi, bands.aids
    values, cells, is_double = run.values, run.cells, run.is_double
    number = double_of(offset) if is_double else 0.0
    factor, shift = run.scale[0], run.scale[1]
    top = np.float64(len(cells) - 1)
    out = np.uint64(used)
    for place in range(np.uint64(first), np.uint64(last)):
        least = lo[place]
        if is_double:
            near = (double_of(aids[place]) + number) * factor + shift
        else:  # whole numbers are added before they are rounded; a sum that leaves int64 is beyond all partners
            moved = least + offset
            left = (least ^ moved) & (offset ^ moved) < 0
            near = np.float64(moved) * factor + shift if not left else top if offset > 0 else 0.0
        at = np.int64(cells[np.uint64(min(max(near, 0.0), top))]) if near == near else np.int64(0)
        if at > 0 and difference(values[np.uint64(at - 1)], offset, is_double) >= least:
            at = walk(run, at, end, least, offset)
        d = difference(values[np.uint64(at)], offset, is_double)
        while d < least and at < end:
            at += 1
            d = difference(values[np.uint64(at)], offset, is_double)
        found[out] = place
        out += np.uint64((at < end) & (d <= hi[place]))
    return np.int64(out)


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
                    starts[j] = _step(bands, k, _least(d, longest), run.is_double)
                    prefetch(steps, np.int64(starts[j]))
                for j in range(n):
                    starts[j] = bands.classes[k] + steps[starts[j]]
                    prefetch(near, 2 * np.int64(starts[j]))
                    prefetch(near, 2 * np.int64(starts[j]) + 7)  # a line has eight numbers
            else:
                for j in range(n):
                    d = difference(run.values[first + j], offset, run.is_double)
                    starts[j] = _first_lo(bands.lo, bands.classes[k], bands.classes[k + 1], _least(d, longest))
            for j in range(n):
                i = first + j
                if i > begin and run.values[i] == run.values[i - 1]:
                    continue
                d = difference(run.values[i], offset, run.is_double)
                least = _least(d, longest)
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
    number = double_of(key ^ np.int64(KEY_MAX) if key < 0 else key) if is_double else np.float64(key)
    at = number * bands.step_scale[k, 0] + (bands.step_scale[k, 1] - 1.0)
    if at != at:
        return begin if key < 0 else end - 1
    return begin + np.int64(min(max(at, 0.0), np.float64(end - begin - 1)))


@lean
def _first_lo(lo: Int64s, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The first place of a class whose lo is not below `key`."""
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if lo[first + half - 1] < key else first
        n -= half
    return first


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
