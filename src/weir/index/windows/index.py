"""The window-join index: boxes over an attribute of the event, one of its partners and their age, searched four ways.

`WindowIndex.build` makes everything, for boxes that stand alone. `WindowIndex.over` takes codes and lists of a
select-join index that is there anyway and adds the ages and the stabbing points; it has no hotspots, whose lists are a
copy of the boxes. What the strategies are and cost is said in `weir.index.windows.strategies`, how the router compares
them in `costs`.

A `Standing` keeps the skylines of partner segments for as long as these are met; without one they are made for a search
and live as long as it.

Size beside the lists: 16 bytes a box, 16 a stabbing point; the hotspots' and scattered lists if they are built.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from weir.index.boxes import Int32s, Int64s, OverBudget, Uint8s, read_only
from weir.index.histograms import EqualWidth
from weir.index.jit import Scalar
from weir.index.joins.affected import OUTPUT_SLACK, Scratch, drop_muted, make_scratch, write_sorted
from weir.index.joins.codes import Codes, build_codes, encode_plane, n_codes
from weir.index.joins.hotspot import is_hot
from weir.index.joins.instructions import cycles
from weir.index.joins.lean import lean
from weir.index.joins.lists import Lists, build_lists
from weir.index.joins.output import written
from weir.index.joins.planes import Plane, check
from weir.index.joins.search import Found
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.index.stabbing import canonical
from weir.index.windows.costs import Floats, cheapest, describe, estimate
from weir.index.windows.newest import build_newest
from weir.index.windows.skylines import make_points, make_skylines
from weir.index.windows.strategies import (
    HOTSPOT,
    N_STRATEGIES,
    STRATEGIES,
    Ages,
    Boxes,
    Meeting,
    Standing,
    stab,
)

_BUCKETS = 256
_FAR = 1 << 62  # no two times are further apart


class _Router(NamedTuple):
    strategy: int  # the strategy of all events, or −1
    allowed: int  # bit s is set if strategy s was built
    shape: Floats  # what costs are made of


class WindowIndex:
    """All strategies over one set of window joins."""

    def __init__(self, boxes: Boxes, allowed: int) -> None:
        self._boxes: Boxes = _frozen(boxes)
        self._allowed = allowed
        self._shape = describe(self._boxes)

    @classmethod
    def build(cls, plane: Plane, ages: Ages, *, alpha: float = 0.001) -> Self:
        """An index with all strategies; a stabbing group of at least alpha · n boxes is a hotspot."""
        plane = check(plane)
        codes = build_codes(plane)
        coded = encode_plane(codes, plane)
        sizes = n_codes(codes.a), n_codes(codes.c)
        partition = canonical(plane.c_lo, plane.c_hi)
        hot = is_hot(partition, alpha)
        in_hot = hot[partition.group_of_interval]
        every, scattered = np.arange(len(plane.a_lo)), np.flatnonzero(~in_hot)
        boxes = Boxes(
            plane,
            _checked(ages, len(plane.a_lo)),
            _extremes(ages),
            codes,
            build_lists(coded, every, *sizes),
            EqualWidth.of_intervals(plane.a_lo, plane.a_hi, _BUCKETS),
            make_points(partition.points),
            build_lists(coded, np.flatnonzero(in_hot), *sizes),
            make_points(partition.points[hot]),
            build_lists(coded, scattered, *sizes),
            EqualWidth.of_intervals(plane.a_lo[scattered], plane.a_hi[scattered], _BUCKETS),
        )
        return cls(boxes, (1 << N_STRATEGIES) - 1)

    @classmethod
    def over(cls, plane: Plane, codes: Codes, lists: Lists, selected: EqualWidth, points: Int64s, ages: Ages) -> Self:
        """The same without hotspots, over what a select-join index has; `points` stab all c-intervals."""
        nothing = np.empty(0, dtype=np.int64)
        none = build_lists(encode_plane(codes, Plane(nothing, nothing, nothing, nothing)), nothing, 1, 1)
        no_points, unselected = make_points(nothing), EqualWidth.of_intervals(nothing, nothing, 1)
        known = _checked(ages, len(plane.a_lo))
        boxes = Boxes(
            plane,
            known,
            _extremes(known),
            codes,
            lists,
            selected,
            make_points(points),
            none,
            no_points,
            none,
            unselected,
        )
        return cls(boxes, (1 << N_STRATEGIES) - 1 - (1 << HOTSPOT))

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that were built."""
        return tuple(name for number, name in enumerate(STRATEGIES) if self._allowed >> number & 1)

    @property
    def plane(self) -> Plane:
        return self._boxes.plane

    @property
    def ages(self) -> Ages:
        return self._boxes.ages

    @property
    def points(self) -> Int64s:
        """The stabbing points."""
        return self._boxes.points.keys

    def standing(self, m_places: int) -> Standing:
        """Room for the skylines of partners in so many places."""
        n_hot = m_places if self._allowed >> HOTSPOT & 1 else 0
        recent, all_points, hot = (make_skylines(m) for m in (m_places, m_places, n_hot))
        return Standing(recent, all_points, hot, np.zeros(1, dtype=np.int64))

    def search(
        self,
        events: Meeting,
        muted: Uint8s,
        pairs_max: int,
        *,
        strategy: str = "auto",
        standing: Standing | None = None,
    ) -> Found:
        """The boxes that each event affects, without muted ones; their counts if there are more than `pairs_max`."""
        n_boxes, n_events = len(self.plane.a_lo), len(events.a)
        muted = read_only(np.ascontiguousarray(muted, dtype=np.uint8))
        assert muted.shape == (n_boxes,), f"muted has shape {muted.shape}, not {n_boxes}"
        events, standing, router, scratch = self._prepared(events, standing, strategy)
        any_muted = bool(muted.any())
        choices = np.zeros(N_STRATEGIES, dtype=np.int64)

        def write(event: int, output: Int32s, used: int, per_event: Int64s) -> tuple[int, int]:
            of = self._boxes, events, standing, router, scratch, muted, any_muted
            found: tuple[int, int] = _write(*of, event, output, used, per_event, choices)
            return found

        matches = written(write, n_events, n_boxes, pairs_max)
        if matches is not None:
            return Found(matches, choices)
        counts = np.zeros(n_boxes, dtype=np.int64)
        choices[:] = 0
        _count(self._boxes, events, standing, router, scratch, muted, counts, choices)
        return Found(OverBudget(counts), choices)

    def cycles(self, events: Meeting, strategy: str, standing: Standing | None = None) -> Int64s:
        """int64[e]: cycles that one strategy spends on each event; sorting and writing are left out."""
        events, standing, router, scratch = self._prepared(events, standing, strategy)
        spent = np.zeros(len(events.a), dtype=np.int64)
        _cycles(self._boxes, events, standing, router.strategy, scratch, spent)
        return spent

    def estimates(self, events: Meeting, standing: Standing | None = None) -> Floats:
        """float64[e, 4]: what each strategy is expected to cost for each event, ns; inf for one that was not built."""
        events, standing, _, _ = self._prepared(events, standing, "auto")
        found = np.zeros((len(events.a), N_STRATEGIES), dtype=np.float64)
        _estimate(self._boxes, self._shape, events, standing, found)
        for number in range(N_STRATEGIES):
            if not self._allowed >> number & 1:
                found[:, number] = np.inf
        return found

    def _prepared(
        self, events: Meeting, standing: Standing | None, strategy: str
    ) -> tuple[Meeting, Standing, _Router, Scratch]:
        """The arguments of a search with one layout, so that kernels are compiled once."""
        number = -1
        if strategy != "auto":
            assert strategy in STRATEGIES, f"strategy {strategy!r} is none of {STRATEGIES}"
            number = STRATEGIES.index(strategy)
            assert self._allowed >> number & 1, f"strategy {strategy} was not built, only {self.strategies}"
        a, times, begin, end, values = (read_only(np.ascontiguousarray(array, dtype=np.int64)) for array in events[:5])
        assert len(a) == len(times) == len(begin) == len(end), "an a, a time, a begin and an end for every event"
        assert len(values) == len(events.newest.times), "a value and a time for every place"
        if standing is None:
            standing = self.standing(len(values))
        # One floor for the batch: its events may be in any order, and lists are not cut and filled again between them.
        if len(times):
            standing.floor[0] = max(min(int(times.min()) - int(self._boxes.extremes[2]), _FAR), -_FAR)
        made = Meeting(a, times, begin, end, values, events.newest)
        return (
            made,
            standing,
            _Router(number, self._allowed, self._shape),
            make_scratch(len(self.plane.a_lo), len(values)),
        )


def meeting(a: Int64s, times: Int64s, begin: Int64s, end: Int64s, values: Int64s, place_times: Int64s) -> Meeting:
    """Events, and the partners at places begin .. end of (values, place_times)."""
    return Meeting(a, times, begin, end, values, build_newest(place_times))


def _checked(ages: Ages, count: int) -> Ages:
    made = Ages(*(np.ascontiguousarray(array, dtype=np.int64) for array in ages))
    assert len(made.least) == len(made.most) == count, "a least and a greatest age for every box"
    return made


def _extremes(ages: Ages) -> Int64s:
    """Of no boxes, ages that no partner has."""
    if not len(ages.least):
        return np.array([KEY_MAX, KEY_MAX, KEY_MIN], dtype=np.int64)
    return np.array([ages.least.min(), ages.least.max(), ages.most.max()], dtype=np.int64)


def _frozen(structure: Any) -> Any:
    """Nested tuples of arrays with every array read-only."""
    if isinstance(structure, np.ndarray):
        return read_only(structure)
    return type(structure)(*(_frozen(part) for part in structure))


@lean
def _choose(
    boxes: Boxes, events: Meeting, standing: Standing, router: _Router, scratch: Scratch, event: Scalar
) -> Scalar:
    if router.strategy >= 0:
        return router.strategy
    estimate(boxes, router.shape, events, standing, event, scratch.estimates)
    return cheapest(scratch.estimates, router.allowed)


@lean
def _write(
    boxes: Boxes,
    events: Meeting,
    standing: Standing,
    router: _Router,
    scratch: Scratch,
    muted: Uint8s,
    any_muted: Scalar,
    event: Scalar,
    output: Int32s,
    used: Scalar,
    per_event: Int64s,
    choices: Int64s,
) -> tuple[Scalar, Scalar]:
    """Write the boxes of the events from `event` on until one does not fit; returns that event and what is used."""
    while event < len(events.a):
        per_event[event] = 0
        if events.begin[event] < events.end[event]:
            chosen = _choose(boxes, events, standing, router, scratch, event)
            n = stab(boxes, events, standing, chosen, scratch, event)
            if any_muted:
                n = drop_muted(scratch.found, n, muted)
            if used + n + OUTPUT_SLACK > len(output):
                return event, used
            used = write_sorted(scratch, n, output, used)
            per_event[event] = n
            choices[chosen] += 1
        event += 1
    return event, used


@lean
def _count(
    boxes: Boxes,
    events: Meeting,
    standing: Standing,
    router: _Router,
    scratch: Scratch,
    muted: Uint8s,
    counts: Int64s,
    choices: Int64s,
) -> None:
    """Add all events to the counts of the boxes that they affect."""
    for event in range(len(events.a)):
        if events.begin[event] == events.end[event]:
            continue
        chosen = _choose(boxes, events, standing, router, scratch, event)
        n = drop_muted(scratch.found, stab(boxes, events, standing, chosen, scratch, event), muted)
        for i in range(n):
            counts[scratch.found[i]] += 1
        choices[chosen] += 1


@lean
def _cycles(
    boxes: Boxes, events: Meeting, standing: Standing, strategy: Scalar, scratch: Scratch, spent: Int64s
) -> None:
    for event in range(len(events.a)):
        if events.begin[event] < events.end[event]:
            started = cycles()
            n = stab(boxes, events, standing, strategy, scratch, event)
            spent[event] = cycles() - started + (0 if n >= 0 else 1)


@lean
def _estimate(boxes: Boxes, shape: Floats, events: Meeting, standing: Standing, out: Floats) -> None:
    for event in range(len(events.a)):
        if events.begin[event] < events.end[event]:
            estimate(boxes, shape, events, standing, event, out[event])
