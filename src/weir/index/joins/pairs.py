"""Pairs: from the boxes that events affect to their joining pairs, within a budget (the second half of SSI, 3.2).

Affected boxes come from the index, their pairs from `weir.index.joins.enumeration`; here are blocks, buffers and what
becomes of a batch that has too many. The result is ordered as the enumeration is.

Memory: events go in blocks whose affected boxes are at most CANDIDATES_MAX (or those of one event), pairs through one
buffer of OUTPUT pairs and the longest run; beside them only the result, which is within the budget. Over the budget
nothing is kept and pairs are counted by slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weir.index.bands.costs import NAMES as BAND_STRATEGIES
from weir.index.bands.index import BandIndex
from weir.index.bands.layout import Meeting
from weir.index.bands.runs import Run, plain_run
from weir.index.boxes import Int32s, Int64s, OverBudget, Uint8s, frozen, read_only
from weir.index.joins.costs import DEFAULT, N_STRATEGIES, Costs
from weir.index.joins.enumeration import SPARE, Boxes, Checks, Side, enumerate_pairs, traits_of
from weir.index.joins.planes import Plane
from weir.index.windows.routing import N_CHOICES, Routed

if TYPE_CHECKING:
    from weir.index.joins.search import JoinIndex

CANDIDATES_MAX = 1 << 22  # affected boxes of a block, at most
CANDIDATES = 1 << 20  # affected boxes of a block that is neither too small to pay nor too large for the cache
EVENTS_FIRST = 1 << 10  # events of the first block, of whose boxes nothing is known yet
OUTPUT = 1 << 20  # pairs after which the buffer is emptied
PAIRS = 1 << 26  # pairs of a block, if events have as many as those before; and pairs after which counting ends


class Pairs(NamedTuple):
    """The joining pairs of each event: CSR by event."""

    offsets: Int64s  # int64[e+1]
    slots: Int32s  # int32[p]: ascending within an event
    places: Int32s  # int32[p]: partners; ascending and unique within (event, slot)


@dataclass(frozen=True)
class Band:
    """What a band join has beside: the partners by what differences are made of, and the events' part of these."""

    index: BandIndex
    run: Run
    offset: Int64s  # int64[e]


def match_pairs(
    index: JoinIndex | Band | Routed,
    checks: Checks,
    a: Int64s,
    begin: Int64s,
    end: Int64s,
    values: Int64s,
    events: Side,
    partners: Side,
    muted: Uint8s,
    pairs_max: int,
    *,
    strategy: str = "auto",
    costs: Costs = DEFAULT,
    traits: Uint8s | None = None,
) -> tuple[Pairs | OverBudget, Int64s]:
    """All joining pairs of the events, or how many each slot has if there are more than `pairs_max`; and the choices.

    Over budget, counting ends when there are very many: the counts are then those of the first events only.

    `muted` is by slot; `traits` are those of the checks, made anew if not given. The second result says how many
    events each strategy (of the index) processed. Of a band join `values` are those of its run; of window joins
    (`Routed`) boxes are found by age too where that pays.
    """
    n_boxes, n_slots, n_events = len(checks.slot_of_box), len(muted), len(a)
    plane = frozen(index.index.plane if isinstance(index, Band) else index.plane)
    assert len(plane.c_lo) == n_boxes, f"checks of {n_boxes} boxes, the index has {len(plane.c_lo)}"
    a, begin, end, values = (np.ascontiguousarray(array, dtype=np.int64) for array in (a, begin, end, values))
    checks = frozen(checks)
    output = _Output(n_events, n_slots, pairs_max, int((end - begin).max(initial=0)))
    traits = traits_of(checks) if traits is None else read_only(traits)
    muted_box = muted[checks.slot_of_box] if muted.any() else np.zeros(n_boxes, dtype=np.uint8)
    events, partners = _frozen_side(events), _frozen_side(partners)
    run, offset = (index.run, index.offset) if isinstance(index, Band) else (plain_run(values), begin)
    n_choices = N_CHOICES if isinstance(index, Routed) else N_STRATEGIES
    choices = np.zeros(len(BAND_STRATEGIES) if isinstance(index, Band) else n_choices, dtype=np.int64)
    first, size = 0, EVENTS_FIRST
    while first < n_events:
        stop = min(first + size, n_events)
        # One event affects every box at most, so a block of one is never over this budget.
        candidates_max = max(CANDIDATES_MAX, n_boxes)
        at = slice(first, stop)
        if isinstance(index, Band):
            meeting = Meeting(a[at], offset[at], begin[at], end[at])
            found = index.index.search(meeting, run, muted_box, candidates_max, strategy=strategy, costs=costs)
        elif isinstance(index, Routed):
            found = index.search(
                events.times[at],
                a[at],
                begin[at],
                end[at],
                values,
                muted_box,
                candidates_max,
                strategy=strategy,
                costs=costs,
            )
        else:
            found = index.search(
                a[at], begin[at], end[at], values, muted_box, candidates_max, strategy=strategy, costs=costs
            )
        if isinstance(found.matches, OverBudget):
            size = max((stop - first) // 4, 1)
            continue
        choices += found.choices
        block = frozen(Boxes(found.matches.offsets, found.matches.slots, begin[at], end[at], offset[at]))
        output.enumerate(block, run, isinstance(index, Band), plane, checks, traits, events, partners, first)
        size = _next_size(stop - first, len(found.matches.slots))
        first = stop
        pairs = output.pairs
        if pairs:
            size = max(min(size, PAIRS * stop // pairs), 1)
        if output.is_counting and pairs > PAIRS:
            break
    return output.result(), choices


def _next_size(n_events: int, n_candidates: int) -> int:
    """Events of the next block, if they affect as many boxes as those of the last; at most four times as many."""
    if n_candidates == 0:
        return n_events * 4
    return max(min(CANDIDATES * n_events // n_candidates, n_events * 4), 1)


def _frozen_side(side: Side) -> Side:
    times = np.ascontiguousarray(side.times, dtype=np.int64)
    columns = np.ascontiguousarray(side.columns, dtype=np.int64)
    assert columns.ndim == 2, f"columns are [attribute, row], got {columns.ndim} dimensions"
    return frozen(Side(times, columns))


class _Output:
    """The pairs so far, or once they are over budget their counts."""

    def __init__(self, n_events: int, n_slots: int, pairs_max: int, run_max: int) -> None:
        self._pairs_max = pairs_max
        self._total = 0
        self._per_event = np.zeros(n_events, dtype=np.int64)
        self._counts = np.zeros(n_slots, dtype=np.int64)
        self._counting = False
        self._done: list[tuple[Int32s, Int32s]] = []
        self._run_max = run_max
        self._slots = np.empty(OUTPUT + run_max + SPARE, dtype=np.int32)  # untouched pages cost nothing
        self._places = np.empty(OUTPUT + run_max + SPARE, dtype=np.int32)

    def enumerate(
        self,
        block: Boxes,
        run: Run,
        is_band: bool,
        plane: Plane,
        checks: Checks,
        traits: Uint8s,
        events: Side,
        partners: Side,
        first: int,
    ) -> None:
        """Add the pairs of a block; `first` is the number of its first event."""
        event = candidate = 0
        n_events = len(block.begin)
        while event < n_events:
            event, candidate, used = enumerate_pairs(
                block,
                run,
                is_band,
                plane,
                checks,
                traits,
                events,
                partners,
                first,
                event,
                candidate,
                self._counting,
                len(self._slots) - self._run_max - SPARE,
                self._slots,
                self._places,
                self._per_event,
                self._counts,
            )
            if not self._counting:
                self._keep(used)

    def _keep(self, used: int) -> None:
        """Empty the buffer: into the result, or into the counts from the pair on that is over budget."""
        self._total += used
        self._done.append((self._slots[:used].copy(), self._places[:used].copy()))
        if self._total > self._pairs_max:
            self._counting = True
            for slots, _ in self._done:
                self._counts += np.bincount(slots, minlength=len(self._counts))
            self._done.clear()

    @property
    def is_counting(self) -> bool:
        return self._counting

    @property
    def pairs(self) -> int:
        """Pairs so far, written or counted."""
        return int(self._counts.sum()) if self._counting else self._total

    def result(self) -> Pairs | OverBudget:
        if self._counting:
            return OverBudget(self._counts)
        offsets = np.zeros(len(self._per_event) + 1, dtype=np.int64)
        np.cumsum(self._per_event, out=offsets[1:])
        if not self._done:
            return Pairs(offsets, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))
        return Pairs(
            offsets,
            np.concatenate([slots for slots, _ in self._done]),
            np.concatenate([places for _, places in self._done]),
        )
