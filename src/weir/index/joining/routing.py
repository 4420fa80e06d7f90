"""Routing: by which index the boxes of a batch's events are found.

Three ways lead to the boxes of a select join. Two attributes, one of each side, are the usual one
(`weir.index.joins`): what else a box asks for is checked of each candidate. All attributes, those of the event first
(`weir.index.trees.partial_index`), is better where nearly all such candidates fail, and finds pairs at once; which way
is expected to cost less is decided for each event, from its number of partners and from histograms, with the candidates
that will be checked counted in.

The third way is by c and age. A box that is found by c alone may have no partner of its age, which shows only when its
stretch of partners is walked: such a box is *fruitless*. The window index finds no fruitless boxes, but costs more for
those that are none. So the first block of events is searched by c; a sample of its boxes tells how much is wasted on
fruitless ones, the cost models tell how the searches compare, and the window index takes over where it is expected to
be clearly cheaper. Short batches never get there.

Answers are the same either way: pairs are checked for all that a box asks for when they are enumerated.
"""

from __future__ import annotations

import numpy as np

from weir.index.box_tables import Matches, Uint8s
from weir.index.histograms import Floats
from weir.index.meeting.index_contract import (
    AUTO,
    TAKEN,
    Found,
    Listed,
    Meeting,
    PairFinder,
    Pairing,
    PairWriter,
    PlaneIndex,
    Tuning,
)
from weir.index.trees.partial_index import CHECKED_NS, PartialIndex
from weir.index.windows.window_index import WindowIndex

_SAMPLE_BOXES, _SAMPLE_EVENTS = 512, 64
_BOXES_MIN = 4_096  # boxes of a block from which on it is asked whether they were fruitless
_LOOK_NS, _WALK_NS = 25.0, 1.0  # a fruitless box: its stretch is found, and walked
_CLEARLY = 1.2


class EitherIndex:
    """One part's searches in one batch, all with the same partners: by two attributes, or by all of them.

    By two attributes boxes are found, by all of them pairs: it is the finder of its own events.
    """

    def __init__(self, by_two: PlaneIndex, partial: PartialIndex) -> None:
        self._by_two, self._partial = by_two, partial
        self.plane, self.name, self.names = by_two.plane, partial.name, (*by_two.names, partial.name)

    @property
    def listed(self) -> Listed | None:
        return self._by_two.listed

    @property
    def finder(self) -> PairFinder:
        return self

    def takes(self, meeting: Meeting, tuning: Tuning) -> Uint8s:
        """Those events for which all attributes are expected to cost less than two."""
        if tuning.strategy != "auto":
            return self._partial.takes(meeting, tuning)
        costs = self.estimates(meeting, tuning)
        return np.where(costs[:, -1] < costs[:, :-1].min(axis=1), np.uint8(TAKEN), np.uint8(0))

    def writer(self, of: Pairing, muted: Uint8s) -> PairWriter:
        return self._partial.writer(of, muted)

    def search(self, meeting: Meeting, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        """The boxes of events that are not taken."""
        found = self._by_two.search(meeting, muted, pairs_max, tuning)
        return Found(found.matches, np.append(found.choices, 0))

    def estimates(self, meeting: Meeting, tuning: Tuning = AUTO) -> Floats:
        """What each strategy costs, with what is checked afterwards of the candidates that two attributes leave."""
        by_two = self._by_two.estimates(meeting, tuning)
        checked = self._partial.left_by_two(meeting, self.listed) * CHECKED_NS
        return np.column_stack([by_two + checked[:, None], self._partial.estimates(meeting)])


class RoutedIndex:
    """One part's searches in one batch, all with the same partners: by c, or by c and age."""

    def __init__(self, by_c: PlaneIndex, windows: WindowIndex) -> None:
        self._by_c, self._windows = by_c, windows
        self._kept: WindowIndex | None = None  # with what it keeps of the batch's partners
        self._is_by_age = False
        self.plane, self.names = by_c.plane, (*by_c.names, *windows.names)

    @property
    def listed(self) -> Listed | None:
        return self._by_c.listed

    @property
    def finder(self) -> PairFinder | None:
        """Whoever finds pairs finds no fruitless boxes either: age stands in for c only."""
        return self._by_c.finder

    def search(self, meeting: Meeting, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO) -> Found:
        """The boxes of a block of events; fruitless ones may be among them."""
        choices = np.zeros(len(self.names), dtype=np.int64)
        n_by_c = len(self._by_c.names)
        is_forced = tuning.strategy in self._windows.names
        if self._is_by_age or is_forced:
            is_built = tuning.strategy.removeprefix("window ") in self._windows.strategies
            found = self._by_age(meeting).search(meeting, muted, pairs_max, tuning if is_forced and is_built else AUTO)
            choices[n_by_c:] = found.choices
            return Found(found.matches, choices)
        found = self._by_c.search(meeting, muted, pairs_max, tuning)
        is_free = tuning.strategy == "auto"
        if is_free and isinstance(found.matches, Matches) and len(found.matches.slots) >= _BOXES_MIN:
            self._is_by_age = self._pays(meeting, found.matches, tuning)
        choices[:n_by_c] = found.choices
        return Found(found.matches, choices)

    def estimates(self, meeting: Meeting, tuning: Tuning = AUTO) -> Floats:
        by_c, by_age = self._by_c.estimates(meeting, tuning), self._by_age(meeting).estimates(meeting, tuning)
        return np.concatenate([by_c, by_age], axis=1)

    def _by_age(self, meeting: Meeting) -> WindowIndex:
        if self._kept is None:
            self._kept = self._windows.keeping(meeting.partners.times)
        return self._kept

    def _pays(self, meeting: Meeting, found: Matches, tuning: Tuning) -> bool:
        """Whether finding boxes by age as well would clearly have been cheaper for these events."""
        n_events, by_age = len(meeting.a), self._by_age(meeting)
        sample = np.linspace(0, len(found.slots) - 1, _SAMPLE_BOXES).astype(np.int64)
        event_of = np.searchsorted(found.offsets, sample, side="right") - 1
        boxes = np.ascontiguousarray(found.slots[sample])
        wasted = by_age.walked_in_vain(meeting, event_of, boxes)
        wasted_ns = (wasted[0] * _LOOK_NS + wasted[1] * _WALK_NS) / _SAMPLE_BOXES * len(found.slots) / n_events
        some = np.linspace(0, n_events - 1, min(_SAMPLE_EVENTS, n_events)).astype(np.int64)
        few = meeting.at(some)
        costs = [index.estimates(few, tuning).min(axis=1).mean() for index in (self._by_c, by_age)]
        return bool(_CLEARLY * costs[1] < costs[0] + wasted_ns)
