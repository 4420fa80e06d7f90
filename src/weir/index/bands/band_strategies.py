"""The strategies of band joins: one row each, with its name, its weights in the cost model and its kernel.

    query-outer   every box looks for its first partner: n searches, each one a few comparisons where there is a ladder
    data-outer    every partner looks for the boxes around its difference: m searches
    merge         boxes by lo and partners by d are merged: n + m steps
    ssi           boxes in stabbing groups; the two partners around a group's point decide for it: τ searches and k
    hotspot       ssi for groups of at least α·n boxes, query-outer for the rest
    select-first  the boxes listed in the cell of a look for their first partner; lists are there if a is selective

All work on one layout, `Bands`: boxes in classes by the widths of their intervals and, within a class, by lo, and the
same boxes in stabbing groups. A box whose own attribute the event does not satisfy is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.bands.band_costs import SELECT_FIRST, event_costs, selected_cost
from weir.index.bands.band_layout import WIDE, BandPoint, Bands, first_lo, least_lo
from weir.index.bands.ladders import climb_boxes
from weir.index.box_tables import Int32s, Int64s, read_only
from weir.index.histograms import Floats
from weir.index.jit import Scalar
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.collector import Events, StrategyRow, collects
from weir.index.meeting.instructions import double_of, prefetch
from weir.index.meeting.lean import lean, thin
from weir.index.meeting.partner_runs import PartnerRun, difference, first_above, first_not_below, is_whole
from weir.index.meeting.scratch import Scratch
from weir.index.searches import halved

_AT_ONCE = 16  # partners that data-outer looks up before it looks at what it finds there
_EVENTS, _PARTNERS, _LOOKED_AT = 16, 8, 8  # of a sample: events, partners of each, boxes that a partner touches


class BandSearch(NamedTuple):
    """What strategies read during a search."""

    bands: Bands
    run: PartnerRun
    offset: Int64s  # int64[e]: what events bring to differences
    prepared: Floats  # float64[·]: what costs have in common for all events (`weir.index.bands.band_costs`)
    silent: bool  # where stretches of boxes are reported, only find them; for measuring what finding costs


@lean
def sample(bands: Bands, events: Events, offset: Int64s, run: PartnerRun, touched: Floats, stabbed: Floats) -> None:
    """By class, means over some partners of some events: boxes that data-outer looks at for it, and that it lies in."""
    count = 0
    step = max(len(events.a) // _EVENTS, 1)
    for event in range(step // 2, len(events.a), step):
        begin, end = events.begin[event], events.end[event]
        stride = max((end - begin) // _PARTNERS, 1)
        for i in range(begin + stride // 2, end, stride):
            d = difference(run.values[i], offset[event], run.is_double)
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


@thin
def _point(search: BandSearch, events: Events, event: Scalar) -> BandPoint:
    return BandPoint(events.a[event], search.offset[event], events.begin[event], events.end[event])


@lean
def _query_outer(search: BandSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    """Every box looks for its first partner, by the ladder over these if there is one."""
    bands, run, found, point = search.bands, search.run, scratch.found, _point(search, events, event)
    if is_whole(run, point.begin, point.end, point.offset):
        return climb_boxes(bands, run, point, found)
    used = 0
    for place in range(len(bands.lo)):
        found[used] = bands.boxes[place]
        used += _has_partner(bands, run, place, point) and _selects(bands, place, point.a)
    return used


@lean
def _ssi(search: BandSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    return _stab_groups(search, search.bands.numbers, _point(search, events, event), scratch.found)


@lean
def _hotspot(search: BandSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    """Stabbing groups of the hotspots; every other box looks for its first partner."""
    bands, found, point = search.bands, scratch.found, _point(search, events, event)
    used = _stab_groups(search, bands.hot, point, found)
    for place in bands.scattered:
        found[used] = bands.boxes[place]
        used += _has_partner(bands, search.run, place, point) and _selects(bands, place, point.a)
    return used


@lean
def cell_of(marks: Int64s, a: Scalar) -> Scalar:
    """The cell of a: how many marks are not above it."""
    return halved(marks, 0, len(marks), a, True)


@lean
def _select_first(search: BandSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    """Of the boxes whose a-interval meets the cell of a, those that contain it look for a partner."""
    bands, run, found, point = search.bands, search.run, scratch.found, _point(search, events, event)
    if len(bands.cells) == 0:  # a is not selective, so there are no lists
        return _query_outer(search, events, scratch, event)
    a, cell = point.a, cell_of(bands.marks, point.a)
    used = 0
    for entry in range(bands.cells[cell], bands.cells[cell + 1]):
        place = bands.entries[entry]
        if bands.a_lo[place] <= a <= bands.a_hi[place] and _has_partner(bands, run, place, point):
            found[used] = bands.boxes[place]
            used += 1
    return used


@thin
def _selects(bands: Bands, place: Scalar, a: Scalar) -> Scalar:
    """Whether a box contains the event's own attribute."""
    if len(bands.a_lo) == 0:
        return True
    return bands.a_lo[place] <= a and a <= bands.a_hi[place]


@thin
def _has_partner(bands: Bands, run: PartnerRun, place: Scalar, point: BandPoint) -> Scalar:
    at = first_not_below(run, point.begin, point.end, bands.lo[place], point.offset)
    return at < point.end and difference(run.values[at], point.offset, run.is_double) <= bands.hi[place]


@lean
def _merge(search: BandSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    """Boxes of a class by lo and partners by difference, both from left to right."""
    bands, found = search.bands, scratch.found
    a, offset, begin, end = _point(search, events, event)
    values, is_double = search.run.values, search.run.is_double
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
def _data_outer(search: BandSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    """For every partner the boxes of each class whose lo is near enough below its difference; each box once.

    Some partners go together, from the ladder to its cells to the boxes: what all of them need next is asked for before
    any of them waits for it.
    """
    bands, run, starts, marks, found = search.bands, search.run, scratch.doubtful, scratch.bits, scratch.found
    a, offset, begin, end = _point(search, events, event)
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
def _stab_groups(search: BandSearch, groups: Int32s, point: BandPoint, found: Int32s) -> Scalar:
    """The boxes of the given groups: those that reach the partner just below the point or at it, or the one above."""
    bands, run, silent = search.bands, search.run, search.silent
    a, offset, begin, end = point
    values, is_double = run.values, run.is_double
    used = 0
    above = begin
    for g in groups:
        above = first_above(run, above, end, bands.points[g], offset)
        first, last = bands.group_offsets[g], bands.group_offsets[g + 1]
        below = np.int64(NULL_KEY)  # the difference of the partner at or below the point
        if above > begin:
            below = difference(values[above - 1], offset, is_double)
            reached = (
                _reaching(bands.low, bands.lo, np.int64(0), first, last, below) if below < bands.points[g] else last
            )
            if not silent:
                used = _append(bands, bands.low, first, reached, a, np.int64(NULL_KEY), found, used)
            if reached == last:
                continue  # it is in all of them
        if above < end:
            beyond = difference(values[above], offset, is_double)
            if beyond <= bands.highest[g]:
                reached = _reaching(bands.high, bands.hi, np.int64(-1), first, last, beyond)
                if not silent:
                    used = _append(bands, bands.high, first, reached, a, below, found, used)
    return used


@lean
def _reaching(places: Int32s, bounds: Int64s, flip: Scalar, first: Scalar, last: Scalar, key: Scalar) -> Scalar:
    """The end of the boxes of a group whose bound is not above `key`; `flip` is −1 where bounds and keys descend.

    With −1 for flip, x ^ flip is −x − 1: what descends ascends then, without leaving int64.
    """
    key ^= flip
    n = last - first
    while n > 0:
        half = (n + 1) >> 1
        first = first + half if (bounds[places[first + half - 1]] ^ flip) <= key else first
        n -= half
    return first


@thin
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


@thin
def _estimate(search: BandSearch, events: Events, scratch: Scratch, event: Scalar) -> None:
    begin, end = events.begin[event], events.end[event]
    has_ladder = is_whole(search.run, begin, end, search.offset[event])
    event_costs(search.prepared, end - begin, has_ladder, scratch.estimates)
    scratch.estimates[SELECT_FIRST] = np.inf
    if len(search.bands.cells) > 0:
        cell = cell_of(search.bands.marks, events.a[event])
        n_listed = search.bands.cells[cell + 1] - search.bands.cells[cell]
        scratch.estimates[SELECT_FIRST] = selected_cost(n_listed, end - begin)


# Weights: event, boxes, cells, steps, visits, cold, reached, touched, affected, doubles.
STRATEGIES = (
    StrategyRow("query-outer", (560.0, 0.54, 1.9, 1.4, 360.0, 0, 0, 0, 0, 0.57), _query_outer),
    StrategyRow("data-outer", (300.0, 0, 0, 0, 1.8, 0.73, 0, 1.4, 2.3, 0), _data_outer),
    StrategyRow("merge", (100.0, 2.7, 0, 0, 0.59, 0, 0, 0, 0.4, 0.27), _merge),
    StrategyRow("ssi", (340.0, 0, 0, 1.4, 34.0, 3.9, 0, 0, 1.5, 0), _ssi),
    StrategyRow("hotspot", (0, 0, 0, 1.8, 41.0, 8.3, 5.0, 0, 1.1, 0.68), _hotspot),
    StrategyRow("select-first", (), _select_first),  # its boxes are counted: those of one cell
)
NAMES = tuple(row.name for row in STRATEGIES)
WEIGHTS = read_only(np.array([row.weights for row in STRATEGIES if row.weights], dtype=np.float64))

collects(BandSearch, STRATEGIES, _estimate)
