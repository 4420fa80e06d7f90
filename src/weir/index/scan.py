"""The plain scan: every box is checked for every event. The floor that other strategies are measured against.

Arrays: those of the box table. Invariant: boxes come in the order of slots, so matches do too, and duplicates of a slot
follow each other. Cost: one comparison or more for each of m events and n boxes; 12 bytes a box and 20 a constraint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from weir.index.blocks import search_blocks
from weir.index.box_tables import BoxTable, Int32s, Int64s, Matches, OverBudget, Uint8s, check, check_events
from weir.index.flat_index import FlatIndex
from weir.index.jit import Scalar, kernel
from weir.index.samples import Sample


class ScanIndex(FlatIndex):
    """Strategy "scan"."""

    structure = BoxTable

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> Self:
        del sample  # it has nothing to choose
        return cls(check(table, n_slots, n_attributes), n_slots, n_attributes)

    def search(
        self, keys: Int64s, muted: Uint8s, pairs_max: int, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        keys, muted = check_events(keys, muted, self._n_slots, self._n_attributes)

        def block(event: int, output: Int32s, per_event: Int64s) -> tuple[int, int]:
            return _scan(self._flat, keys, muted, event, output, per_event)

        return search_blocks(block, keys.shape[1], self._n_slots, pairs_max)


@kernel
def _scan(
    table: BoxTable, keys: Int64s, muted: Uint8s, event: Scalar, output: Int32s, per_event: Int64s
) -> tuple[Scalar, Scalar]:
    """Write the slots of events from `event` on until one does not fit; returns that event and the ids written."""
    written = 0
    n_events = keys.shape[1]
    while event < n_events:
        start = written
        last = -1  # boxes come in slot order, so a slot's second box that matches comes right behind its first
        for box in range(len(table.slot_of_box)):
            slot = table.slot_of_box[box]
            if slot == last or muted[slot]:
                continue
            inside = True
            for c in range(table.constraint_offsets[box], table.constraint_offsets[box + 1]):
                key = keys[table.constraint_attribute[c], event]
                if key < table.constraint_lo[c] or key > table.constraint_hi[c]:
                    inside = False
                    break
            if inside:
                if written == len(output):
                    return event, start
                output[written] = slot
                written += 1
                last = slot
        per_event[event] = written - start
        event += 1
    return event, written
