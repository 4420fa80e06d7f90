"""The strategies of window joins: kernels that find the boxes an event affects by its own attribute, by c and by age.

A box is [a_lo, a_hi] × [c_lo, c_hi] × [least, most]: what an event must have, what a partner must have, and how much
older than the event the partner may be (SSI, 3.3; `least` is negative where partners may be younger). It is affected if
one partner has both c and age. The strategies give the same answer:

    join-first     every partner within the longest window makes a point (a, c, age) that stabs the lists of boxes
    select-first   every box that contains a looks its stretch of partners up: whether one there has its age
    ssi            only partners on skylines make points; all of them, if skylines would leave out next to none
    hotspot        ssi over the boxes of large stabbing groups and their points alone, select-first for the rest

Skylines tell nothing of partners that are too young for a box. Where the run has one that might be, ssi and hotspot
take all partners that are not too old, as join-first does, which is exact for any event.

Cost of an event as in theorem 4 of the paper: join-first m_b probes, select-first n' lookups of O(log m'), ssi as many
probes as partners are on skylines, and O(m') more when it is the first to ask for its run. Lists, codes and cells are
those of select joins (`weir.index.joins.lists`): a probe is some 20 ns, a box within it 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.boxes import Int32s, Int64s
from weir.index.histograms import EqualWidth
from weir.index.jit import Scalar
from weir.index.joins.affected import Scratch
from weir.index.joins.codes import FLIP, PASSES, Codes, code_of
from weir.index.joins.instructions import pick
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
from weir.index.windows.newest import Newest, has_age
from weir.index.windows.skylines import COUNT, IS_THIN, LATEST, Skylines, StabbingPoints, ask

STRATEGIES = ("join-first", "select-first", "ssi", "hotspot")  # a strategy's number is its place
JOIN_FIRST, SELECT_FIRST, SSI, HOTSPOT = range(4)
N_STRATEGIES = 4

SEGMENT_MIN = 5  # partners a segment, on average, from which on skylines leave out enough to be worth making
_NEVER_THIN = 1 << 40
_LOW_PASSES = np.int64(0x8000_8000)
_LOW_FIELDS = np.int64(0xFFFF_FFFF)
_ONE, _WORD, _BIT = np.uint64(1), np.uint64(6), np.uint64(63)


class Ages(NamedTuple):
    """How much older than the event a partner of each box may be."""

    least: Int64s  # int64[n]: KEY_MIN for no bound
    most: Int64s  # int64[n]: KEY_MAX for none


class Boxes(NamedTuple):
    """Window joins, indexed; what was not built is empty."""

    plane: Plane
    ages: Ages
    extremes: Int64s  # int64[3]: the least of `least`, the greatest of `least`, the greatest of `most`
    codes: Codes
    lists: Lists  # of all boxes
    selected: EqualWidth  # a-intervals of all boxes
    points: StabbingPoints  # of all boxes
    hot: Lists  # of the boxes in hotspots
    hot_points: StabbingPoints
    scattered: Lists  # of the other boxes
    selected_scattered: EqualWidth


class Meeting(NamedTuple):
    """A batch of events and the partners that they meet."""

    a: Int64s  # int64[e]
    times: Int64s  # int64[e]
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]: its partners are the places begin .. end
    values: Int64s  # int64[m]: c of each place, ascending within a run
    newest: Newest  # times of the places


class Standing(NamedTuple):
    """What is kept of runs between events."""

    recent: Skylines  # never thin: partners that are young enough for some box
    skylines: Skylines  # for all stabbing points
    hot: Skylines  # for those of hotspots
    floor: Int64s  # int64[1]: the oldest partner that any event of the batch may meet


@lean
def stab(
    boxes: Boxes, events: Meeting, standing: Standing, strategy: Scalar, scratch: Scratch, event: Scalar
) -> Scalar:
    """The event's boxes by one strategy into scratch.found, in any order, each once; returns how many they are."""
    if strategy == SELECT_FIRST:
        return _look_up(boxes, boxes.lists, events, scratch, event, np.int64(0))
    if strategy == SSI and _stands(boxes, boxes.points, events, standing.skylines, standing.floor[0], event):
        return _probe(boxes, boxes.lists, events, standing.skylines, scratch, event)
    lists = boxes.lists
    if strategy == HOTSPOT:
        lists = boxes.hot
    if strategy == HOTSPOT and _stands(boxes, boxes.hot_points, events, standing.hot, standing.floor[0], event):
        used = _probe(boxes, lists, events, standing.hot, scratch, event)
    else:
        list_recent(boxes, events, standing, event)
        used = _probe(boxes, lists, events, standing.recent, scratch, event)
    return _look_up(boxes, boxes.scattered, events, scratch, event, used) if strategy == HOTSPOT else used


@lean
def list_recent(boxes: Boxes, events: Meeting, standing: Standing, event: Scalar) -> Scalar:
    """List the partners that are young enough for some box; returns how many they are."""
    begin, end, times = events.begin[event], events.end[event], events.newest.times
    return ask(
        standing.recent, boxes.hot_points, events.values, times, begin, end, standing.floor[0], np.int64(_NEVER_THIN)
    )


@lean
def _stands(
    boxes: Boxes, points: StabbingPoints, events: Meeting, skylines: Skylines, floor: Scalar, event: Scalar
) -> Scalar:
    """Whether the listed partners stand for the event's run: all that are young enough, or none is too young."""
    begin, end = events.begin[event], events.end[event]
    n_listed = ask(skylines, points, events.values, events.newest.times, begin, end, floor, np.int64(SEGMENT_MIN))
    if n_listed == 0 or skylines.about[begin, IS_THIN] == 0:
        return True
    return events.times[event] - skylines.about[begin, LATEST] >= boxes.extremes[1]


@lean
def _probe(boxes: Boxes, lists: Lists, events: Meeting, skylines: Skylines, scratch: Scratch, event: Scalar) -> Scalar:
    """The boxes of some lists that contain one of the listed partners."""
    plane, ages, points, doubt = boxes.plane, boxes.ages, boxes.codes.c, boxes.codes.doubt[0]
    values, times, codes, items = events.values, events.newest.times, scratch.codes, skylines.items
    cells, words, numbers = lists.cells, lists.words, lists.boxes
    out, marks, doubtful = scratch.found, scratch.bits, scratch.doubtful
    a, time = events.a[event], events.times[event]
    youngest, oldest = boxes.extremes[0], boxes.extremes[2]
    begin = events.begin[event]
    a_code = code_of(boxes.codes.a, a)
    of_a = (a_code << 16) | (FLIP - a_code) | PASSES
    a_doubt = a_code & doubt
    zero = np.int64(0)
    used = zero
    for k in range(len(lists.classes)):
        at = lists.classes[k, FIRST_LIST] + (a_code >> lists.classes[k, SHIFT])
        longest = lists.classes[k, LONGEST]
        if lists.lists[at, FIRST_ENTRY] == lists.lists[at + 1, FIRST_ENTRY]:
            continue
        first_cell, shift = np.int64(lists.lists[at, FIRST_CELL]), np.int64(lists.lists[at, CELL_SHIFT])
        for i in range(begin, begin + skylines.about[begin, COUNT]):
            place = items[i]
            age = time - times[place]
            if age > oldest or age < youngest:
                continue
            if codes[place] == 0:
                codes[place] = code_of(points, values[place]) + 1
            c_code = np.int64(codes[place]) - 1
            first = cells[first_cell + (max(c_code - longest, zero) >> shift)]
            last = cells[first_cell + (c_code >> shift) + 1]
            point = (c_code << 48) | ((FLIP - c_code) << 32) | of_a
            c_doubt = c_code & doubt
            if (a_doubt | c_doubt) == 0:
                stabbed = take(words, numbers, first, last, point, zero, out, used)
            else:
                doubts = (c_doubt << 48) | (c_doubt << 32) | (a_doubt << 16) | a_doubt
                stabbed, n_doubtful = take_in_doubt(
                    words, numbers, first, last, point, doubts, zero, zero, doubtful, out, used
                )
                stabbed = _decide(plane, a, values[place], doubtful, n_doubtful, out, stabbed)
            used = _keep(ages, age, marks, out, used, stabbed)
    for j in range(used):
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
def _keep(ages: Ages, age: Scalar, marks: npt.NDArray[np.uint64], out: Int32s, used: Scalar, stabbed: Scalar) -> Scalar:
    """Keep of the boxes out[used .. stabbed] those that the age is within and that are not marked, and mark them."""
    least, most = ages.least, ages.most
    at = np.uint64(used)
    for j in range(np.uint64(used), np.uint64(stabbed)):
        box = out[j]
        number = np.uint64(box)
        within = np.uint64((least[number] <= age) & (age <= most[number]))
        bit = within << (number & _BIT)
        before = marks[number >> _WORD]
        marks[number >> _WORD] = before | bit
        out[at] = box
        at += within & np.uint64((before & bit) == 0)
    return np.int64(at)


@lean
def _look_up(boxes: Boxes, lists: Lists, events: Meeting, scratch: Scratch, event: Scalar, used: Scalar) -> Scalar:
    """Append the boxes of some lists that contain a and, in their stretch of the run, a partner of their age."""
    plane, ages, out = boxes.plane, boxes.ages, scratch.found
    words, numbers = lists.words, lists.boxes
    a, time, doubt = events.a[event], events.times[event], boxes.codes.doubt[0]
    begin, end, values = events.begin[event], events.end[event], events.values
    a_code = code_of(boxes.codes.a, a)
    of_a = (a_code << 16) | (FLIP - a_code) | _LOW_PASSES
    kept = np.int64(used)
    for k in range(len(lists.classes)):
        at = lists.classes[k, FIRST_LIST] + (a_code >> lists.classes[k, SHIFT])
        chosen = np.uint64(kept)
        for entry in range(np.uint64(lists.lists[at, FIRST_ENTRY]), np.uint64(lists.lists[at + 1, FIRST_ENTRY])):
            out[chosen] = numbers[entry]
            chosen += np.uint64(((of_a - (words[entry] & _LOW_FIELDS)) & _LOW_PASSES) == _LOW_PASSES)
        for j in range(kept, np.int64(chosen)):
            box = np.uint64(out[j])
            if doubt > 0 and (a < plane.a_lo[box] or a > plane.a_hi[box]):
                continue
            low, high = stretch(values, begin, end, plane.c_lo[box], plane.c_hi[box])
            if low < high and has_age(events.newest, low, high, time, ages.least[box], ages.most[box]):
                out[kept] = box
                kept += 1
    return kept


@lean
def stretch(values: Int64s, begin: Scalar, end: Scalar, lo: Scalar, hi: Scalar) -> tuple[Scalar, Scalar]:
    """The places of the run whose values are within lo .. hi: two searches side by side, without a branch."""
    low, high, n = begin, begin, end - begin
    while n > 1:
        half = n >> 1
        low = pick(values[low + half - 1] < lo, low + half, low)
        high = pick(values[high + half - 1] <= hi, high + half, high)
        n -= half
    if n == 1:
        low = pick(values[low] < lo, low + 1, low)
        high = pick(values[high] <= hi, high + 1, high)
    return low, high
