"""The production index: boxes in rank space, reached through their most selective constraints.

An index is a rank space (`weir.index.ranks`) and a layout of probes (`weir.index.layout`). A search takes a batch in
blocks of events: it ranks their keys, probes the layout (`weir.index.probing`), and writes what was hit as CSR by event
(`weir.index.hit_pairs`). Nothing grows while it runs: a block whose hits might not fit into their buffer is given up
and tried again with fewer events (one event always fits), and an output that is full is set aside and the next one
begun. Over budget the batch is searched once more, and counted instead of written.

Cost of an event: that of ranking its keys (20 to 100 ns an attribute), of probing, and of its matches; independent of
the number n of queries but for cache misses. Memory: 16 bytes of end points and 16 to 44 of entries a query, see there.
DESIGN.md sections 2 and 4; the contract (queries are stored, and probed with data) is PSoup's query SteM, 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from weir.index import access, digests, layout, ranks
from weir.index.access import Access, Estimates, Floats
from weir.index.box_tables import BoxTable, Int32s, Int64s, Matches, OverBudget, Uint8s, check, check_events, frozen
from weir.index.digests import Digest, Foreseen, Reached
from weir.index.hit_pairs import Gathered, count_pairs, make_gathered, write_pairs
from weir.index.layout import ENTRY_BASE, EQUALITY, STRIDE, Layout, X, Y
from weir.index.probing import BLOCK_EVENTS, Hits, make_hits, probe_events
from weir.index.ranks import RankSpace, rank_bounds, rank_events, rank_rows
from weir.index.samples import BOXES_MIN, ROWS_MIN, Sample

_MATCHES_EXPECTED = 16  # matches an event for which the first output has room


class Plan(NamedTuple):
    """How the boxes of a table will be reached."""

    table: BoxTable  # checked
    space: RankSpace
    lo: Int32s  # int32[c]: rank of each constraint's lo
    hi: Int32s  # int32[c]
    assumed: Floats  # float64[c]: selectivities as constants have it
    known: Estimates  # as it is planned by: the same, or what rows say
    chosen: Access
    rows_measured: int

    @classmethod
    def of(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None) -> Plan:
        table = check(table, n_slots, n_attributes)
        space = ranks.build(table, n_attributes)
        lo, hi = rank_bounds(space, table)
        n_points = np.diff(space.point_offsets)
        assumed = access.selectivities(table.constraint_attribute, lo, hi, n_points)
        known = Estimates(assumed)
        if sample is not None and sample.rows_count >= ROWS_MIN and len(table.slot_of_box) >= BOXES_MIN:
            ranked = rank_rows(space, sample.keys)
            known = access.measured(table, lo, hi, n_points, ranked, sample.measured, assumed)
        chosen = access.choose_measured(table, lo, hi, n_points, assumed, known)
        return cls(table, space, lo, hi, assumed, known, chosen, 0 if sample is None else sample.rows_count)


class GridIndex:
    """Strategy "grid"."""

    takes_steps = False

    def __init__(
        self, space: RankSpace, made: Layout, digest: Digest, n_slots: int, n_attributes: int, has_multi: bool
    ) -> None:
        self._space = frozen(space)
        self._layout = frozen(made)
        self._digest = frozen(digest)
        self._n_slots = n_slots
        self._n_attributes = n_attributes
        self._has_multi = has_multi  # whether some slot has several boxes, so that duplicates are possible
        bases = np.append(made.probes[:, ENTRY_BASE], len(made.entries))
        self._n_boxes = int((np.diff(bases) // made.probes[:, STRIDE]).sum())

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> Self:
        return cls.planned(Plan.of(table, n_slots, n_attributes, sample), n_slots, n_attributes)

    @classmethod
    def planned(cls, plan: Plan, n_slots: int, n_attributes: int) -> Self:
        n_points = np.diff(plan.space.point_offsets)
        made = layout.build(plan.table, plan.lo, plan.hi, n_points, plan.known, plan.chosen)
        digest = digests.draw(plan.table, plan.assumed, plan.chosen.constraint, plan.rows_measured)
        slots = plan.table.slot_of_box
        return cls(plan.space, made, digest, n_slots, n_attributes, bool(np.any(slots[1:] == slots[:-1])))

    @property
    def probes_count(self) -> int:
        return len(self._layout.probes)

    def arrays(self) -> dict[str, np.ndarray]:
        found = {f"space_{name}": array for name, array in self._space._asdict().items()}
        found |= {f"layout_{name}": array for name, array in self._layout._asdict().items()}
        found |= {f"digest_{name}": array for name, array in self._digest._asdict().items()}
        found["numbers"] = np.array([self._n_slots, self._n_attributes, self._has_multi], dtype=np.int64)
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        space = RankSpace(*(arrays[f"space_{name}"] for name in RankSpace._fields))
        made = Layout(*(arrays[f"layout_{name}"] for name in Layout._fields))
        digest = Digest(*(arrays[f"digest_{name}"] for name in Digest._fields))
        n_slots, n_attributes, has_multi = arrays["numbers"].tolist()
        return cls(space, made, digest, n_slots, n_attributes, bool(has_multi))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def reached(self) -> Reached:
        """Through which attributes its boxes are reached."""
        probes = self._layout.probes
        sizes = np.diff(np.append(probes[:, ENTRY_BASE], len(self._layout.entries))) // probes[:, STRIDE]
        return Reached.of(probes[:, [EQUALITY, X, Y]], sizes, self._digest.rows_measured)

    def foreseen(self, sample: Sample) -> Foreseen | None:
        """What rows like these cost, as it is built and if it were built for them; None if that cannot be told."""
        return digests.foreseen(self._digest, self._n_attributes, sample)

    def search(
        self, keys: Int64s, muted: Uint8s, pairs_max: int, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        keys, muted = check_events(keys, muted, self._n_slots, self._n_attributes)
        return _Search(self._space, self._layout, keys, muted, self._n_boxes, self._has_multi).run(pairs_max)


class _Search:
    """One search: its buffers and its progress through the batch."""

    def __init__(
        self, space: RankSpace, made: Layout, keys: Int64s, muted: Uint8s, n_boxes: int, has_multi: bool
    ) -> None:
        self._space, self._layout = space, made
        self._keys, self._muted, self._any_muted, self._has_multi = keys, muted, bool(muted.any()), has_multi
        self._n_events = int(keys.shape[1])
        self._hits: Hits = make_hits(self._n_events, n_boxes)
        self._gathered: Gathered = make_gathered(len(self._hits.runs), len(self._hits.slots), len(muted))
        self._ranked = np.empty((min(BLOCK_EVENTS, self._n_events), max(len(keys), 1)), dtype=np.int32)
        self._block = BLOCK_EVENTS  # events to try next

    def run(self, pairs_max: int) -> Matches | OverBudget:
        offsets = np.zeros(self._n_events + 1, dtype=np.int64)
        done: list[Int32s] = []
        output = self._make_output(_MATCHES_EXPECTED * self._n_events, pairs_max)
        used = total = 0
        for begin in range(0, self._n_events, BLOCK_EVENTS):
            end = self._rank(begin)
            event = begin
            while event < end:
                n, n_hits, n_pieces = self._probe(event - begin, end - event)
                if used + n_hits > len(output):
                    done.append(output[:used])
                    expected = int(1.1 * (total + n_hits) / (event + n) * (self._n_events - event))
                    output, used = self._make_output(expected, pairs_max), 0
                ends = offsets[event + 1 : event + n + 1]
                written = write_pairs(
                    self._hits,
                    n_pieces,
                    self._gathered,
                    self._muted,
                    self._any_muted,
                    self._has_multi,
                    output,
                    used,
                    total - used,
                    ends,
                )
                total += written - used
                used = written
                if total > pairs_max:
                    return self._count()
                event += n
        slots = np.concatenate([*done, output[:used]]) if done else output[:used]
        return Matches(offsets, slots)

    def _count(self) -> OverBudget:
        """How many events match each slot."""
        counts = np.zeros(len(self._muted), dtype=np.int64)
        for begin in range(0, self._n_events, BLOCK_EVENTS):
            end = self._rank(begin)
            event = begin
            while event < end:
                n, _, n_pieces = self._probe(event - begin, end - event)
                count_pairs(
                    self._hits, n_pieces, self._gathered, n, self._muted, self._any_muted, self._has_multi, counts
                )
                event += n
        return OverBudget(counts)

    def _make_output(self, n_expected: int, pairs_max: int) -> Int32s:
        """Room for what is expected, but no more than the budget, and at least for the hits of a block.

        Pages that nothing is written to cost nothing, so it is better to expect too much than to copy later.
        """
        n_hits_max = len(self._hits.slots)
        return np.empty(max(n_hits_max, min(n_expected, pairs_max + n_hits_max)), dtype=np.int32)

    def _rank(self, begin: int) -> int:
        """Rank the keys of the events from `begin` on; returns where they end."""
        end = min(begin + BLOCK_EVENTS, self._n_events)
        rank_events(self._space, self._keys, begin, end, self._ranked)
        return end

    def _probe(self, first: int, n_left: int) -> tuple[int, int, int]:
        """Probe as many of the ranked events as fit; returns their number, and those of their hits and pieces."""
        while True:
            n = min(self._block, n_left)
            n_hits, n_pieces = probe_events(self._layout, self._ranked, first, n, self._hits)
            if n_hits >= 0:
                break
            self._block = max(n // 4, 1)
        if 3 * n_hits < len(self._hits.slots):
            self._block = min(2 * self._block, BLOCK_EVENTS)
        return n, n_hits, n_pieces
