"""Pairs: from the boxes that events affect to their joining pairs, within a budget (the second half of SSI, 3.2).

Affected boxes come from the index, their pairs from `weir.index.joining.enumeration`. An index that finds pairs itself
(`weir.index.meeting.index_contract.PairFinder`) writes those of the events that it takes; an event that has too many
for it goes the usual way. Here are blocks, buffers and what becomes of a batch that has too many pairs. The result is
ordered as the enumeration is, whoever wrote which event.

Memory: events go in blocks whose affected boxes are at most CANDIDATES_MAX (or those of one event), pairs through one
buffer of OUTPUT pairs and the longest run; beside them only the result, which is within the budget. Over the budget
nothing is kept and pairs are counted by slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s, Matches, OverBudget, Uint8s, frozen
from weir.index.joining.enumeration import enumerate_pairs
from weir.index.meeting.checks import SPARE, Checks, PairBuffer
from weir.index.meeting.index_contract import (
    AUTO,
    REFUSED,
    TAKEN,
    Found,
    Meeting,
    Pairing,
    PairWriter,
    PlaneIndex,
    Side,
    Tuning,
)

CANDIDATES_MAX = 1 << 22  # affected boxes of a block, at most
CANDIDATES = 1 << 20  # affected boxes of a block that is neither too small to pay nor too large for the cache
EVENTS_FIRST = 1 << 10  # events of the first block, of whose boxes nothing is known yet
OUTPUT = 1 << 20  # pairs after which the buffer is emptied
PAIRS = 1 << 26  # pairs of a block, if events have as many as those before; and pairs after which counting ends


class _Piece(NamedTuple):
    """What one kernel found of a block."""

    events: npt.NDArray[np.bool_]  # bool[·]: whose pairs they are
    slots: list[Int32s]
    places: list[Int32s]


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
    plane, runs = frozen(index.plane), (meeting.begin, meeting.end, meeting.offset, meeting.run)
    pairing = Pairing(plane, checks, meeting.a, *runs, *sides)
    choices = np.zeros(len(index.names), dtype=np.int64)
    writer: PairWriter | None = None
    first, size = 0, EVENTS_FIRST
    while first < n_events:
        stop = min(first + size, n_events)
        block = meeting.at(slice(first, stop))
        finder = index.finder
        taken = np.zeros(stop - first, np.uint8) if finder is None else finder.takes(block, tuning)
        n_candidates = 0
        if not taken.all():
            # One event affects every box at most, so a block of one is never over this budget.
            found = _search(index, block, taken == 0, muted_box, max(CANDIDATES_MAX, n_boxes), tuning)
            if isinstance(found.matches, OverBudget):
                size = max((stop - first) // 4, 1)
                continue
            choices += found.choices
            n_candidates = len(found.matches.slots)
            output.enumerate(pairing, frozen(found.matches), first)
        if finder is not None and taken.any():
            writer = writer or finder.writer(pairing, muted_box)
            output.write(writer, taken, first)
            choices[index.names.index(finder.name)] += np.count_nonzero((taken == TAKEN) & (block.end > block.begin))
            for event in np.flatnonzero(taken == REFUSED).tolist():
                only = np.arange(stop - first) == event
                found = _search(index, block, only, muted_box, max(CANDIDATES_MAX, n_boxes), tuning)
                assert isinstance(found.matches, Matches), "the boxes of one event are within the budget"
                choices += found.choices
                output.enumerate(pairing, frozen(found.matches), first)
        output.close(first, stop)
        size = _next_size(stop - first, n_candidates)
        first = stop
        pairs = output.pairs
        if pairs:
            size = max(min(size, PAIRS * stop // pairs), 1)
        if output.is_counting and pairs > PAIRS:
            break
    return output.result(), choices


def _search(
    index: PlaneIndex, block: Meeting, which: npt.NDArray[np.bool_], muted: Uint8s, boxes_max: int, tuning: Tuning
) -> Found:
    """The boxes that some events of a block affect; the others have none."""
    if which.all():
        return index.search(block, muted, boxes_max, tuning)
    found = index.search(block.at(np.flatnonzero(which)), muted, boxes_max, tuning)
    if isinstance(found.matches, OverBudget):
        return found
    offsets = np.zeros(len(which) + 1, np.int64)
    offsets[1:][which] = np.diff(found.matches.offsets)
    return Found(Matches(np.cumsum(offsets), found.matches.slots), found.choices)


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
        self._pieces: list[_Piece] = []  # of the block that is not closed
        size = OUTPUT + run_max + SPARE  # untouched pages cost nothing
        self._into = PairBuffer(
            np.empty(size, dtype=np.int32),
            np.empty(size, dtype=np.int32),
            OUTPUT,
            np.zeros(n_events, dtype=np.int64),
            np.zeros(n_slots, dtype=np.int64),
        )

    def enumerate(self, of: Pairing, found: Matches, first: int) -> None:
        """Add the pairs of some events of a block, whose first one is `first`, from the boxes that they affect."""
        event = candidate = 0
        piece = self._begin(np.diff(found.offsets) > 0)
        while event < len(found.offsets) - 1:
            event, candidate, used = enumerate_pairs(of, found, first, event, candidate, self._counting, self._into)
            self._keep(piece, used)

    def write(self, writer: PairWriter, taken: Uint8s, first: int) -> None:
        """Add those of the events of a block that are taken; what is refused is marked."""
        event = first
        piece = self._begin(taken == TAKEN)
        while event < first + len(taken):
            event, used = writer.write(taken, first, event, self._counting, self._into)
            self._keep(piece, used)
        piece.events[:] = taken == TAKEN  # without those that were refused

    def close(self, first: int, stop: int) -> None:
        """Put the pairs of a block into the order of its events."""
        pieces, self._pieces = [piece for piece in self._pieces if piece.slots], []
        if len(pieces) < 2:
            self._done += [pair for piece in pieces for pair in zip(piece.slots, piece.places, strict=True)]
            return
        counts = self._into.per_event[first:stop]
        n = int(counts.sum())
        slots, places = np.empty(n, np.int32), np.empty(n, np.int32)
        for piece in pieces:
            mine = np.repeat(piece.events, counts)
            slots[mine], places[mine] = np.concatenate(piece.slots), np.concatenate(piece.places)
        self._done.append((slots, places))

    def _begin(self, events: npt.NDArray[np.bool_]) -> _Piece:
        self._pieces.append(_Piece(events, [], []))
        return self._pieces[-1]

    def _keep(self, piece: _Piece, used: int) -> None:
        """Empty the buffer: into the result, or into the counts from the pair on that is over budget."""
        if self._counting or not used:
            return
        self._total += used
        piece.slots.append(self._into.slots[:used].copy())
        piece.places.append(self._into.places[:used].copy())
        if self._total > self._pairs_max:
            self._counting = True
            counts = self._into.counts
            for slots in [slots for slots, _ in self._done] + [
                slots for piece in self._pieces for slots in piece.slots
            ]:
                counts += np.bincount(slots, minlength=len(counts))
            self._done.clear()
            self._pieces.clear()

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
