"""The strategies of select joins: one row each, with its name, its weights in the cost model and its kernel.

Strategies answer the same question, which boxes an event affects, and give the same answer; they differ in what they
cost, and in which events they are good at (SSI, 4.1). Sweep, join-first and select-first share their lists; ssi and
hotspot share stabbing sets. Partners are coded when the first event meets them whose strategy asks for it; m' is the
length of an event's run, n' and n" come from histograms of the a-intervals of all boxes and of the scattered ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int64s, read_only
from weir.index.histograms import EqualWidth, Floats, height_at
from weir.index.jit import Scalar
from weir.index.joins.hotspot import Hotspots
from weir.index.joins.join_costs import CODED_MAX, event_costs
from weir.index.joins.join_first import stab_join_first
from weir.index.joins.select_first import stab_select_first
from weir.index.joins.stabbing_sets import StabbingSets, stab_stabbing_sets
from weir.index.joins.sweep import stab_sweep
from weir.index.joins.vanilla import stab_vanilla
from weir.index.meeting.codes import Codes, code_run
from weir.index.meeting.collector import Events, StrategyRow, collects
from weir.index.meeting.lean import thin
from weir.index.meeting.lists import Lists, Point, point_of
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch


class Structures(NamedTuple):
    """Everything that an index over one plane consists of; strategies that were not built are empty."""

    plane: Plane
    codes: Codes
    lists: Lists  # of sweep, join-first and select-first
    sets: StabbingSets  # of all groups; of hotspots only if ssi was not built
    hotspots: Hotspots
    selected: EqualWidth  # a-intervals of all boxes


class JoinSearch(NamedTuple):
    """What strategies read during a search."""

    built: Structures
    values: Int64s  # int64[m]: c of each place, ascending within a run
    prepared: Floats  # float64[·]: what costs have in common for all events (`weir.index.joins.join_costs`)


@thin
def _point(search: JoinSearch, events: Events, event: Scalar) -> Point:
    return point_of(search.built.codes, events.a[event], events.begin[event], events.end[event], search.values)


@thin
def _code(search: JoinSearch, point: Point, scratch: Scratch) -> None:
    code_run(search.built.codes.c, point.begin, point.end, point.values, scratch.codes)


@thin
def _code_short(search: JoinSearch, point: Point, scratch: Scratch) -> Scalar:
    """Code the event's run if it is short enough for boxes to be looked up in its codes; whether it is."""
    is_short = point.end - point.begin <= CODED_MAX
    if is_short:
        _code(search, point, scratch)
    return is_short


@thin
def _vanilla(search: JoinSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    point = Point(events.a[event], 0, 0, events.begin[event], events.end[event], search.values)
    return stab_vanilla(search.built.plane, point, scratch)


@thin
def _join_first(search: JoinSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    point = _point(search, events, event)
    _code(search, point, scratch)
    return stab_join_first(search.built.lists, search.built.plane, point, scratch)


@thin
def _select_first(search: JoinSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    point = _point(search, events, event)
    is_coded = _code_short(search, point, scratch)
    return stab_select_first(search.built.lists, search.built.plane, point, is_coded, scratch, np.int64(0))


@thin
def _ssi(search: JoinSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    built, point = search.built, _point(search, events, event)
    return stab_stabbing_sets(built.sets, built.sets.numbers, built.plane, built.codes.c, point, scratch)


@thin
def _hotspot(search: JoinSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    """Stabbing sets of the hotspots, select-first for the scattered rest."""
    built, point = search.built, _point(search, events, event)
    is_coded = _code_short(search, point, scratch)
    used = stab_stabbing_sets(built.sets, built.hotspots.groups, built.plane, built.codes.c, point, scratch)
    return stab_select_first(built.hotspots.scattered, built.plane, point, is_coded, scratch, used)


@thin
def _sweep(search: JoinSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    point = _point(search, events, event)
    _code(search, point, scratch)
    return stab_sweep(search.built.lists, search.built.plane, point, scratch)


@thin
def _estimate(search: JoinSearch, events: Events, scratch: Scratch, event: Scalar) -> None:
    a = events.a[event]
    selected, scattered = search.built.selected, search.built.hotspots.selected
    n_selected = height_at(selected.span, selected.scale, selected.heights, a)
    n_scattered = height_at(scattered.span, scattered.scale, scattered.heights, a)
    m_run = events.end[event] - events.begin[event]
    event_costs(search.prepared, m_run, n_selected, n_scattered, scratch.estimates)


# Weights: event, rows, boxes, lookups, turns, probes, touched, visits, coded, selected, unsure, reached, doubted.
STRATEGIES = (
    StrategyRow("vanilla", (0, 7.2, 0, 0.011, 0, 0, 0.65, 3.8, 0, 0, 0, 0, 0), _vanilla),
    StrategyRow("join-first", (0, 0, 0, 0, 0, 0.24, 1.7, 20.0, 0, 8.3, 0, 250.0, 1.6), _join_first),
    StrategyRow("select-first", (0, 0, 0, 1.0, 24.0, 0, 1.1, 270.0, 0.57, 0, 14.0, 0, 2.3), _select_first),
    StrategyRow("ssi", (0, 22.0, 0, 0, 0.4, 0, 6.5, 1.7, 0, 0, 56.0, 60.0, 0), _ssi),
    StrategyRow("hotspot", (530.0, 0, 0, 1.2, 28.0, 0, 7.4, 3.8, 0.67, 1.3, 16.0, 68.0, 2.7), _hotspot),
    StrategyRow("sweep", (0, 0, 8.0, 0, 6.8, 0.058, 1.6, 15.0, 0, 8.3, 240.0, 130.0, 1.7), _sweep),
)
NAMES = tuple(row.name for row in STRATEGIES)
WEIGHTS = read_only(np.array([row.weights for row in STRATEGIES], dtype=np.float64))

collects(JoinSearch, STRATEGIES, _estimate)
