"""Routing: whether a batch's window joins are found by c alone, or by c and age.

A box that is found by c alone (`weir.index.joins`) may have no partner of its age, which shows only when its stretch of
partners is walked: such a box is *fruitless*. The window index finds no fruitless boxes, but costs more for those that
are none. So the first block of events is searched by c; a sample of its boxes tells how much is wasted on fruitless
ones, the cost models tell how the searches compare, and the window index takes over where it is expected to be clearly
cheaper. Short batches never get there.

Answers are the same either way: pairs are checked for their times when they are enumerated.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from weir.index.boxes import Int32s, Int64s, Matches, Uint8s, read_only
from weir.index.jit import Scalar
from weir.index.joins.costs import N_STRATEGIES as N_JOIN_STRATEGIES
from weir.index.joins.costs import Costs
from weir.index.joins.lean import lean
from weir.index.joins.planes import Plane
from weir.index.joins.search import Found
from weir.index.windows.index import WindowIndex
from weir.index.windows.newest import Newest, build_newest, has_age
from weir.index.windows.strategies import N_STRATEGIES, STRATEGIES, Ages, Meeting, Standing, stretch

if TYPE_CHECKING:
    from weir.index.joins.search import JoinIndex

FORCED = {f"window {name}": name for name in STRATEGIES}  # names of strategies that are taken whatever they cost
N_CHOICES = N_JOIN_STRATEGIES + N_STRATEGIES

_SAMPLE_BOXES, _SAMPLE_EVENTS = 512, 64
_BOXES_MIN = 4_096  # boxes of a block from which on it is asked whether they were fruitless
_LOOK_NS, _WALK_NS = 25.0, 1.0  # a fruitless box: its stretch is found, and walked
_CLEARLY = 1.2


class Routed:
    """One part's searches in one batch: by c, or by c and age."""

    def __init__(self, joins: JoinIndex, windows: WindowIndex, sign: int, place_times: Int64s) -> None:
        self._joins, self._windows = joins, windows
        self._sign = sign  # −1 if times are those of an event and a partner that have changed places
        self._place_times = place_times
        self._by_age = False

    @property
    def plane(self) -> Plane:
        return self._joins.plane

    def search(
        self,
        times: Int64s,
        a: Int64s,
        begin: Int64s,
        end: Int64s,
        values: Int64s,
        muted: Uint8s,
        pairs_max: int,
        *,
        strategy: str,
        costs: Costs,
    ) -> Found:
        """The boxes of a block of events; fruitless ones may be among them."""
        choices = np.zeros(N_CHOICES, dtype=np.int64)
        if self._by_age or strategy in FORCED:
            events = self._meeting(times, a, begin, end, values)
            wanted = FORCED.get(strategy, "auto")
            if wanted not in self._windows.strategies:
                wanted = "auto"
            found = self._windows.search(events, muted, pairs_max, strategy=wanted, standing=self._standing)
            choices[N_JOIN_STRATEGIES:] = found.choices
            return Found(found.matches, choices)
        found = self._joins.search(a, begin, end, values, muted, pairs_max, strategy=strategy, costs=costs)
        if strategy == "auto" and isinstance(found.matches, Matches) and len(found.matches.slots) >= _BOXES_MIN:
            events = self._meeting(times, a, begin, end, values)
            self._by_age = self._pays(events, found.matches, costs)
        choices[:N_JOIN_STRATEGIES] = found.choices
        return Found(found.matches, choices)

    def _pays(self, events: Meeting, found: Matches, costs: Costs) -> bool:
        """Whether finding boxes by age as well would clearly have been cheaper for these events."""
        sample = np.linspace(0, len(found.slots) - 1, _SAMPLE_BOXES).astype(np.int64)
        event_of = np.searchsorted(found.offsets, sample, side="right") - 1
        boxes = np.ascontiguousarray(found.slots[sample])
        wasted = walked_in_vain(self.plane, self._windows.ages, events, read_only(event_of), read_only(boxes))
        wasted_ns = (wasted[0] * _LOOK_NS + wasted[1] * _WALK_NS) / _SAMPLE_BOXES * len(found.slots) / len(events.a)
        some = np.linspace(0, len(events.a) - 1, min(_SAMPLE_EVENTS, len(events.a))).astype(np.int64)
        a, times, begin, end = (array[some] for array in events[:4])
        by_c = self._joins.estimates(a, begin, end, costs=costs, m_rows=len(events.values)).min(axis=1).mean()
        few = Meeting(a, times, begin, end, events.values, events.newest)
        by_age = self._windows.estimates(few, self._standing).min(axis=1).mean()
        return bool(_CLEARLY * by_age < by_c + wasted_ns)

    @functools.cached_property
    def _newest(self) -> Newest:
        return build_newest(self._sign * self._place_times)

    @functools.cached_property
    def _standing(self) -> Standing:
        return self._windows.standing(len(self._place_times))

    def _meeting(self, times: Int64s, a: Int64s, begin: Int64s, end: Int64s, values: Int64s) -> Meeting:
        return Meeting(a, self._sign * times, begin, end, values, self._newest)


@lean
def walked_in_vain(plane: Plane, ages: Ages, events: Meeting, event_of: Int64s, boxes: Int32s) -> tuple[Scalar, Scalar]:
    """How many of some boxes of events are fruitless, and how many partners they have by c alone."""
    fruitless = walked = 0
    for i in range(len(boxes)):
        event, box = event_of[i], boxes[i]
        low, high = stretch(events.values, events.begin[event], events.end[event], plane.c_lo[box], plane.c_hi[box])
        if not has_age(events.newest, low, high, events.times[event], ages.least[box], ages.most[box]):
            fruitless += 1
            walked += high - low
    return fruitless, walked
