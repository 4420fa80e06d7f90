"""Costs: what an event costs under each strategy of window joins, in nanoseconds (SSI, 4.2).

With m' partners, m_b of them within the longest window, n' boxes whose a-interval contains the event, n" scattered ones
among them, κ lists that an event visits and ρ the share of a list that a partner touches, a probe is worth PROBE · κ +
(TOUCHED + COLD · √n) · n' · ρ, a lookup (STEP + STEP_COLD · √n) · log m', where √n is how cold the memory of n boxes
is, and

    join-first     m_b probes
    select-first   VISIT · κ + n' lookups
    ssi            LISTED · m' + MADE · m_b, unless the run's skylines are made, and as many probes as are on them
    hotspot        the same of the hotspots' lists and points, and select-first of the scattered boxes

m_b is not estimated: what is young enough is listed before the choice, a nanosecond a partner when a run is first met,
and join-first uses the list. A run cut into g segments of s partners has about g · (2 ln s + 0.15) partners on skylines
(a partner in the j-th place of its segment is the newest so far with probability 1 / j, from either side), which serves
until they are counted.

The weights were fitted by hand to workloads of a hundred to a hundred thousand boxes (`benchmarks.micro.windows`).
"""

from __future__ import annotations

import math

import numpy as np

from weir.index.box_tables import read_only
from weir.index.histograms import Floats, height_at
from weir.index.jit import Scalar
from weir.index.meeting.codes import n_codes
from weir.index.meeting.collector import Events
from weir.index.meeting.lean import thin
from weir.index.meeting.lists import Lists, reach_of_classes
from weir.index.meeting.scratch import Scratch
from weir.index.windows.skylines import COUNT, MADE, SHORT, Skylines, StabbingPoints, segments_of
from weir.index.windows.window_layout import SEGMENT_MIN, WindowBoxes, WindowSearch, list_recent

JOIN_FIRST, SELECT_FIRST, SSI, HOTSPOT = range(4)  # rows of window_strategies.STRATEGIES

PROBE_NS, TOUCHED_NS, COLD_NS = 50.0, 3.0, 0.007
VISIT_NS, STEP_NS, STEP_COLD_NS = 200.0, 5.5, 0.015
LISTED_NS, MADE_NS = 1.0, 5.0


def describe(boxes: WindowBoxes) -> Floats:
    """float64[7]: κ and ρ of all boxes, of those in hotspots and of the scattered ones; √n."""
    omega = n_codes(boxes.codes.c)
    shapes = [x for lists in (boxes.lists, boxes.hot, boxes.scattered) for x in _shape(lists, omega)]
    return read_only(np.array([*shapes, math.sqrt(len(boxes.ages.most))]))


def _shape(lists: Lists, omega: int) -> tuple[float, float]:
    """κ and ρ of some lists; a list is half again as long as what it has of n'."""
    share, reach = reach_of_classes(lists, omega)
    return float(len(share)), 1.5 * float(share @ reach)


@thin
def estimate_event(search: WindowSearch, events: Events, scratch: Scratch, event: Scalar) -> None:
    """cost[strategy] of one event; its run's partners that are young enough are listed then."""
    begin, end, a, out = events.begin[event], events.end[event], events.a[event], scratch.estimates
    if begin == end:
        out[:] = 0.0
        return
    boxes, kept, shape = search.boxes, search.kept, search.shape
    n = height_at(boxes.selected.span, boxes.selected.scale, boxes.selected.heights, a)
    rest = boxes.selected_scattered
    n_scattered = height_at(rest.span, rest.scale, rest.heights, a)
    lookup_ns = (STEP_NS + STEP_COLD_NS * shape[6]) * math.log2(1.0 + np.float64(end - begin))
    probe_ns = PROBE_NS * shape[0] + (TOUCHED_NS + COLD_NS * shape[6]) * n * shape[1]
    hot_probe_ns = PROBE_NS * shape[2] + (TOUCHED_NS + COLD_NS * shape[6]) * max(n - n_scattered, 0.0) * shape[3]
    listed = list_recent(search, events, event)
    out[JOIN_FIRST] = listed * probe_ns
    out[SELECT_FIRST] = VISIT_NS * shape[0] + n * lookup_ns
    out[SSI] = _thinned(search, boxes.points, kept.skylines, begin, end, probe_ns)
    out[HOTSPOT] = np.inf
    if len(kept.hot.about) > 0:  # else hotspots are not built
        hot = _thinned(search, boxes.hot_points, kept.hot, begin, end, hot_probe_ns)
        out[HOTSPOT] = VISIT_NS * shape[4] + n_scattered * lookup_ns + hot


@thin
def _thinned(
    search: WindowSearch, points: StabbingPoints, skylines: Skylines, begin: Scalar, end: Scalar, probe_ns: Scalar
) -> Scalar:
    """What probing with a run's skylines costs, or with all that are young enough if these leave out too little."""
    recent, values = search.kept.recent, search.values
    items, listed = recent.items, recent.about[begin, COUNT]
    if skylines.about[begin, MADE] > 0:
        return np.float64(skylines.about[begin, COUNT]) * probe_ns
    m = np.float64(listed)
    cost = LISTED_NS * np.float64(end - begin)
    if listed < SHORT * SEGMENT_MIN:
        return cost + m * probe_ns
    n_segments = np.float64(segments_of(points, values[items[begin]], values[items[begin + listed - 1]]))
    if n_segments * SEGMENT_MIN > m:
        return cost + m * probe_ns
    return cost + MADE_NS * m + n_segments * (2.0 * math.log(m / n_segments) + 0.15) * probe_ns
