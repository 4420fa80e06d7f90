"""The layout of a window-join index, and what a search of it reads.

All strategies work on it (`weir.index.windows.window_strategies`); how it is built is said in `window_index`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int64s
from weir.index.histograms import EqualWidth, Floats
from weir.index.jit import Scalar
from weir.index.meeting.codes import Codes
from weir.index.meeting.collector import Events
from weir.index.meeting.lean import thin
from weir.index.meeting.lists import Lists
from weir.index.meeting.planes import Plane
from weir.index.windows.newest import Newest
from weir.index.windows.skylines import Skylines, StabbingPoints, Stretch, ask

SEGMENT_MIN = 5  # partners a segment, on average, from which on skylines leave out enough to be worth making
_NEVER_THIN = 1 << 40


class Ages(NamedTuple):
    """How much older than the event a partner of each box may be."""

    least: Int64s  # int64[n]: KEY_MIN for no bound
    most: Int64s  # int64[n]: KEY_MAX for none


class WindowBoxes(NamedTuple):
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


class KeptPartners(NamedTuple):
    """What is kept of partners between events, and between searches that meet the same partners."""

    newest: Newest  # times of the places
    recent: Skylines  # never thin: partners that are young enough for some box
    skylines: Skylines  # for all stabbing points
    hot: Skylines  # for those of hotspots
    floor: Int64s  # int64[1]: the oldest partner that any event of the batch may meet


class WindowSearch(NamedTuple):
    """What strategies read during a search."""

    boxes: WindowBoxes
    values: Int64s  # int64[m]: c of each place, ascending within a run
    times: Int64s  # int64[e]: of the events
    kept: KeptPartners
    shape: Floats  # what costs are made of (`weir.index.windows.window_costs`)


@thin
def list_recent(search: WindowSearch, events: Events, event: Scalar) -> Scalar:
    """List the partners that are young enough for some box; returns how many they are."""
    kept = search.kept
    stretch_of = Stretch(search.values, kept.newest.times, events.begin[event], events.end[event])
    return ask(kept.recent, search.boxes.hot_points, stretch_of, kept.floor[0], np.int64(_NEVER_THIN))
