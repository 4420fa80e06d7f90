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
import numpy.typing as npt

from weir.index.boxes import Int64s, read_only
from weir.index.histograms import height_at
from weir.index.jit import Scalar
from weir.index.joins.codes import n_codes
from weir.index.joins.lean import lean
from weir.index.joins.lists import FIRST_ENTRY, FIRST_LIST, LONGEST, Lists
from weir.index.windows.skylines import COUNT, MADE, SHORT, Skylines, StabbingPoints, segments_of
from weir.index.windows.strategies import (
    HOTSPOT,
    JOIN_FIRST,
    N_STRATEGIES,
    SEGMENT_MIN,
    SELECT_FIRST,
    SSI,
    Boxes,
    Meeting,
    Standing,
    list_recent,
)

Floats = npt.NDArray[np.float64]

PROBE_NS, TOUCHED_NS, COLD_NS = 50.0, 3.0, 0.007
VISIT_NS, STEP_NS, STEP_COLD_NS = 200.0, 5.5, 0.015
LISTED_NS, MADE_NS = 1.0, 5.0


def describe(boxes: Boxes) -> Floats:
    """float64[7]: κ and ρ of all boxes, of those in hotspots and of the scattered ones; √n."""
    omega = n_codes(boxes.codes.c)
    shapes = [x for lists in (boxes.lists, boxes.hot, boxes.scattered) for x in _shape(lists, omega)]
    return read_only(np.array([*shapes, math.sqrt(len(boxes.ages.most))]))


def _shape(lists: Lists, omega: int) -> tuple[float, float]:
    """κ and ρ of some lists; a list is half again as long as what it has of n'."""
    begins = lists.classes[:, FIRST_LIST]
    ends = np.append(begins, len(lists.lists) - 1)[1:]
    entries = lists.lists[ends, FIRST_ENTRY] - lists.lists[begins, FIRST_ENTRY]
    share = entries / max(int(entries.sum()), 1)
    return float(len(begins)), 1.5 * float(share @ ((lists.classes[:, LONGEST] + 1.0) / omega))


@lean
def estimate(boxes: Boxes, shape: Floats, events: Meeting, standing: Standing, event: Scalar, out: Floats) -> None:
    """cost[strategy] of one event into `out`, float64[4]; its run's partners that are young enough are listed then."""
    begin, end, a = events.begin[event], events.end[event], events.a[event]
    n = height_at(boxes.selected.span, boxes.selected.scale, boxes.selected.heights, a)
    rest = boxes.selected_scattered
    n_scattered = height_at(rest.span, rest.scale, rest.heights, a)
    lookup_ns = (STEP_NS + STEP_COLD_NS * shape[6]) * math.log2(1.0 + np.float64(end - begin))
    probe_ns = PROBE_NS * shape[0] + (TOUCHED_NS + COLD_NS * shape[6]) * n * shape[1]
    hot_probe_ns = PROBE_NS * shape[2] + (TOUCHED_NS + COLD_NS * shape[6]) * max(n - n_scattered, 0.0) * shape[3]
    listed = list_recent(boxes, events, standing, event)
    out[JOIN_FIRST] = listed * probe_ns
    out[SELECT_FIRST] = VISIT_NS * shape[0] + n * lookup_ns
    out[SSI] = _thinned(boxes.points, events.values, standing, standing.skylines, begin, end, probe_ns)
    out[HOTSPOT] = np.inf
    if len(standing.hot.about) > 0:  # else hotspots are not built
        hot = _thinned(boxes.hot_points, events.values, standing, standing.hot, begin, end, hot_probe_ns)
        out[HOTSPOT] = VISIT_NS * shape[4] + n_scattered * lookup_ns + hot


@lean
def _thinned(
    points: StabbingPoints,
    values: Int64s,
    standing: Standing,
    skylines: Skylines,
    begin: Scalar,
    end: Scalar,
    probe_ns: Scalar,
) -> Scalar:
    """What probing with a run's skylines costs, or with all that are young enough if these leave out too little."""
    items, listed = standing.recent.items, standing.recent.about[begin, COUNT]
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


@lean
def cheapest(costs: Floats, allowed: Scalar) -> Scalar:
    """The strategy of least cost among those whose bit is set in `allowed`."""
    best = -1
    for s in range(N_STRATEGIES):
        if (allowed >> s) & 1 and (best < 0 or costs[s] < costs[best]):
            best = s
    return best
