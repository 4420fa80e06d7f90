"""Costs: what an event costs under each strategy of window joins, in nanoseconds (SSI, 4.2).

With m' partners, n' boxes whose a-interval contains the event, n" scattered ones among them, κ lists that an event
visits and ρ the share of a list that a partner touches, a probe is worth PROBE · κ + TOUCHED · n' · ρ and

    join-first     LISTED · m', unless the run's partners that are young enough are listed, and as many probes
    select-first   VISIT · κ + n' · (LOOKED_UP + STEP · log m')
    ssi            (LISTED + MADE) · m', unless the run's skylines are made, and as many probes as are on them
    hotspot        the same of the hotspots' lists and points, and select-first of the scattered boxes

A run cut into g segments of s partners has about g · (2 ln s + 0.15) partners on skylines (a partner in the j-th place
of its segment is the newest so far with probability 1 / j, from either side), which serves until they are counted. m_b
is not estimated: partners beyond the longest window are passed over at once, and are cut from the runs of a batch
before.

The weights are those of a fit on workloads of a hundred to a hundred thousand boxes.
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
from weir.index.windows.skylines import COUNT, MADE, Skylines, StabbingPoints, segments_of
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
)

Floats = npt.NDArray[np.float64]

PROBE_NS, TOUCHED_NS = 20.0, 4.0
VISIT_NS, LOOKED_UP_NS, STEP_NS = 60.0, 18.0, 2.5
LISTED_NS, MADE_NS = 1.0, 5.0


def describe(boxes: Boxes) -> Floats:
    """float64[6]: κ and ρ of all boxes, of those in hotspots and of the scattered ones."""
    omega = n_codes(boxes.codes.c)
    return read_only(np.array([x for lists in (boxes.lists, boxes.hot, boxes.scattered) for x in _shape(lists, omega)]))


def _shape(lists: Lists, omega: int) -> tuple[float, float]:
    """κ and ρ of some lists; a list is half again as long as what it has of n'."""
    begins = lists.classes[:, FIRST_LIST]
    ends = np.append(begins, len(lists.lists) - 1)[1:]
    entries = lists.lists[ends, FIRST_ENTRY] - lists.lists[begins, FIRST_ENTRY]
    share = entries / max(int(entries.sum()), 1)
    return float(len(begins)), 1.5 * float(share @ ((lists.classes[:, LONGEST] + 1.0) / omega))


@lean
def estimate(boxes: Boxes, shape: Floats, events: Meeting, standing: Standing, event: Scalar, out: Floats) -> None:
    """cost[strategy] of one event into `out`, float64[4]."""
    begin, end, a = events.begin[event], events.end[event], events.a[event]
    m = np.float64(end - begin)
    n = height_at(boxes.selected.span, boxes.selected.scale, boxes.selected.heights, a)
    rest = boxes.selected_scattered
    n_scattered = height_at(rest.span, rest.scale, rest.heights, a)
    lookup_ns = LOOKED_UP_NS + STEP_NS * math.log2(1.0 + m)
    probe_ns = PROBE_NS * shape[0] + TOUCHED_NS * n * shape[1]
    hot_probe_ns = PROBE_NS * shape[2] + TOUCHED_NS * max(n - n_scattered, 0.0) * shape[3]
    recent = standing.recent
    out[JOIN_FIRST] = m * (LISTED_NS + probe_ns)
    if recent.about[begin, MADE] > 0:
        out[JOIN_FIRST] = np.float64(recent.about[begin, COUNT]) * probe_ns
    out[SELECT_FIRST] = VISIT_NS * shape[0] + n * lookup_ns
    out[SSI] = _thinned(boxes.points, events.values, standing.skylines, begin, end, probe_ns)
    out[HOTSPOT] = np.inf
    if len(standing.hot.about) > 0:  # else hotspots are not built
        hot = _thinned(boxes.hot_points, events.values, standing.hot, begin, end, hot_probe_ns)
        out[HOTSPOT] = VISIT_NS * shape[4] + n_scattered * lookup_ns + hot


@lean
def _thinned(
    points: StabbingPoints, values: Int64s, skylines: Skylines, begin: Scalar, end: Scalar, probe_ns: Scalar
) -> Scalar:
    """What probing with a run's skylines costs, or with all of it if these leave out too little."""
    if skylines.about[begin, MADE] > 0:
        return np.float64(skylines.about[begin, COUNT]) * probe_ns
    m = np.float64(end - begin)
    n_segments = np.float64(segments_of(points, values[begin], values[end - 1]))
    if n_segments * SEGMENT_MIN > m:
        return m * (LISTED_NS + probe_ns)
    return (LISTED_NS + MADE_NS) * m + n_segments * (2.0 * math.log(m / n_segments) + 0.15) * probe_ns


@lean
def cheapest(costs: Floats, allowed: Scalar) -> Scalar:
    """The strategy of least cost among those whose bit is set in `allowed`."""
    best = -1
    for s in range(N_STRATEGIES):
        if (allowed >> s) & 1 and (best < 0 or costs[s] < costs[best]):
            best = s
    return best
