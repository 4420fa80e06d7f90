"""Pairs: from the boxes that events affect to their joining pairs, within a budget (the second half of SSI, 3.2).

Affected boxes come from the index, their pairs from `weir.index.joining.enumeration`; here are blocks, buffers and what
becomes of a batch that has too many. The result is ordered as the enumeration is.

Memory: events go in blocks whose affected boxes are at most CANDIDATES_MAX (or those of one event), pairs through one
buffer of OUTPUT pairs and the longest run; beside them only the result, which is within the budget. Over the budget
nothing is kept and pairs are counted by slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Matches, OverBudget, Uint8s, frozen
from weir.index.joining.enumeration import SPARE, Checks, PairBuffer, Pairing, enumerate_pairs
from weir.index.meeting.index_contract import AUTO, Meeting, PlaneIndex, Side, Tuning

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


def match_pairs(
    index: PlaneIndex, meeting: Meeting, checks: Checks, muted: Uint8s, pairs_max: int, tuning: Tuning = AUTO
) -> tuple[Pairs | OverBudget, Int64s]:
    """All joining pairs of the events, or how many each slot has if there are more than `pairs_max`; and the choices.

    Over budget, counting ends when there are very many: the counts are then those of the first events only. `muted` is
    by slot. The second result says how many events each strategy of the index processed.
    """
    n_boxes, n_events = len(checks.slot_of_box), len(meeting.a)
    assert len(index.plane.c_lo) == n_boxes, f"checks of {n_boxes} boxes, the index has {len(index.plane.c_lo)}"
    meeting = meeting.laid_out()
    output = _Output(n_events, len(muted), pairs_max, int((meeting.end - meeting.begin).max(initial=0)))
    muted_box = muted[checks.slot_of_box] if muted.any() else np.zeros(n_boxes, dtype=np.uint8)
    sides = _laid_out(meeting.events), _laid_out(meeting.partners)
    pairing = Pairing(frozen(index.plane), checks, meeting.begin, meeting.end, meeting.offset, meeting.run, *sides)
    choices = np.zeros(len(index.names), dtype=np.int64)
    first, size = 0, EVENTS_FIRST
    while first < n_events:
        stop = min(first + size, n_events)
        # One event affects every box at most, so a block of one is never over this budget.
        found = index.search(meeting.at(slice(first, stop)), muted_box, max(CANDIDATES_MAX, n_boxes), tuning)
        if isinstance(found.matches, OverBudget):
            size = max((stop - first) // 4, 1)
            continue
        choices += found.choices
        output.enumerate(pairing, frozen(found.matches), first)
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


def _laid_out(side: Side) -> Side:
    columns = np.ascontiguousarray(side.columns, dtype=np.int64)
    assert columns.ndim == 2, f"columns are [attribute, row], got {columns.ndim} dimensions"
    return frozen(Side(np.ascontiguousarray(side.times, dtype=np.int64), columns))


class _Output:
    """The pairs so far, or once they are over budget their counts."""

    def __init__(self, n_events: int, n_slots: int, pairs_max: int, run_max: int) -> None:
        self._pairs_max = pairs_max
        self._total = 0
        self._counting = False
        self._done: list[tuple[Int32s, Int32s]] = []
        size = OUTPUT + run_max + SPARE  # untouched pages cost nothing
        self._into = PairBuffer(
            np.empty(size, dtype=np.int32),
            np.empty(size, dtype=np.int32),
            OUTPUT,
            np.zeros(n_events, dtype=np.int64),
            np.zeros(n_slots, dtype=np.int64),
        )

    def enumerate(self, of: Pairing, found: Matches, first: int) -> None:
        """Add the pairs of a block of events; `first` is the number of its first one."""
        event = candidate = 0
        while event < len(found.offsets) - 1:
            event, candidate, used = enumerate_pairs(of, found, first, event, candidate, self._counting, self._into)
            if not self._counting:
                self._keep(used)

    def _keep(self, used: int) -> None:
        """Empty the buffer: into the result, or into the counts from the pair on that is over budget."""
        self._total += used
        self._done.append((self._into.slots[:used].copy(), self._into.places[:used].copy()))
        if self._total > self._pairs_max:
            self._counting = True
            for slots, _ in self._done:
                counts = self._into.counts
                counts += np.bincount(slots, minlength=len(counts))
            self._done.clear()

    @property
    def is_counting(self) -> bool:
        return self._counting

    @property
    def pairs(self) -> int:
        """Pairs so far, written or counted."""
        return int(self._into.counts.sum()) if self._counting else self._total

    def result(self) -> Pairs | OverBudget:
        if self._counting:
            return OverBudget(self._into.counts)
        offsets = np.zeros(len(self._into.per_event) + 1, dtype=np.int64)
        np.cumsum(self._into.per_event, out=offsets[1:])
        if not self._done:
            return Pairs(offsets, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))
        return Pairs(
            offsets,
            np.concatenate([slots for slots, _ in self._done]),
            np.concatenate([places for _, places in self._done]),
        )
