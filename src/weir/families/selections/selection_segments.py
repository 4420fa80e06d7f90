"""A query segment of the selection family: all boxes of many queries of one stream, behind one index.

It holds the ids of its queries by slot and their boxes (`indexed_boxes`). It is immutable, made of flat arrays and a
small JSON description, and comes back from memory-mapped arrays without copying or decoding anything.

Invariants: ids ascend strictly; `match` gives for an event exactly the slots of queries whose predicate is TRUE,
whichever the strategy.

Cost: building is a few NumPy passes over the constants plus the index; a match evaluates and encodes each attribute
once for the batch, whatever the number of queries, and is otherwise the index's search. Keys are 8 bytes for
each (attribute, event), so a batch with very many attributes is matched in pieces. ARCHITECTURE.md, "From predicate to
index".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression
from weir.algebra.schema import Stream
from weir.boxes.bounds import Ints
from weir.boxes.value_keys import keys_of_values
from weir.families.indexed_boxes import IndexedBoxes, Measure, used_boxes
from weir.families.members import Group, boxes_of, in_slots, without
from weir.families.query_parts import WIDE, parts_of, width_of
from weir.families.recent import Recent, sample_of
from weir.index.box_tables import Matches, OverBudget
from weir.index.digests import Foreseen
from weir.index.meeting.index_contract import Costs
from weir.values.evaluate import evaluate

KEYS_BYTES_MAX = 256 << 20  # keys of events that are held at a time


class Segment:
    """Queries of one stream, ready to be matched with its rows."""

    def __init__(self, stream: str, ids: Ints, boxes: IndexedBoxes) -> None:
        self.stream = stream
        self.ids = ids  # int64[n_slots], ascending: the query of each slot
        self.boxes = boxes

    @classmethod
    def build(
        cls,
        stream: Stream,
        groups: Sequence[Group],
        *,
        strategy: str,
        excluded: np.ndarray | None = None,
        recent: Recent | None = None,
    ) -> Segment:
        """The segment of all queries of `groups` except the `excluded` ids (ascending: dropped or demoted).

        Where there are recent rows, queries are reached as is best for rows like them.
        """
        members = [_ShapeMembers(*shape) for shape in _by_shape(groups, excluded)]
        ids, slot_of_row = in_slots([m.ids for m in members])

        made = boxes_of([(m.predicate, m.constants) for m in members], slot_of_row)
        is_wide = any(width_of(m.predicate) >= WIDE for m in members)
        boxes = IndexedBoxes.build(used_boxes(made), len(ids), strategy, _measure(recent), is_wide=is_wide)
        return cls(stream.name, ids, boxes)

    @property
    def reached(self) -> str:
        """For `explain`: through which attributes its queries are reached."""
        return self.boxes.reached({0: self.stream})

    def foreseen(self, recent: Recent) -> Foreseen | None:
        """What rows like these cost, as it is built and if it were built for them; None if that cannot be told."""
        return self.boxes.foreseen(_measure(recent))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        return {"ids": self.ids, **self.boxes.arrays()}

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {"stream": self.stream, **self.boxes.meta()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Segment:
        """The segment that `arrays` and `meta` describe; nothing is copied."""
        return cls(meta["stream"], arrays["ids"], IndexedBoxes.from_arrays(arrays, meta))

    def match(
        self, rows: pa.Table, muted: np.ndarray, pairs_max: int, costs: Costs | None = None
    ) -> Matches | OverBudget:
        """The slots that each row matches, except muted ones; counts by slot if there are more than `pairs_max`."""
        events_max = max(1, KEYS_BYTES_MAX // (8 * max(1, len(self.boxes.written))))
        if rows.num_rows <= events_max:
            return self.boxes.search(self._keys(rows), muted, pairs_max, costs)
        pieces: list[Matches] = []
        counts: Ints | None = None
        left = pairs_max
        for begin in range(0, rows.num_rows, events_max):
            piece = self.boxes.search(self._keys(rows.slice(begin, events_max)), muted, max(left, 0), costs)
            if counts is None and isinstance(piece, Matches) and len(piece.slots) <= left:
                left -= len(piece.slots)
                pieces.append(piece)
                continue
            if counts is None:  # from here on results are only counted
                counts = sum((self._counts(p) for p in pieces), np.zeros(len(self.ids), np.int64))
                left = 0
            counts = counts + self._counts(piece)
        if counts is not None:
            return OverBudget(counts)
        offsets = [np.zeros(1, np.int64)]
        for piece in pieces:
            offsets.append(piece.offsets[1:] + offsets[-1][-1])
        return Matches(np.concatenate(offsets), np.concatenate([p.slots for p in pieces]))

    def _counts(self, piece: Matches | OverBudget) -> Ints:
        return piece.counts if isinstance(piece, OverBudget) else np.bincount(piece.slots, minlength=len(self.ids))

    def _keys(self, rows: pa.Table) -> Ints:
        keys = np.empty((len(self.boxes.written), rows.num_rows), np.int64)
        for number, e in enumerate(self.boxes.attributes):
            values = rows.column(e.name) if isinstance(e, ColumnRef) else evaluate(e, rows)
            keys[number] = keys_of_values(values, e.type, self.boxes.dictionaries.get(number))
        return keys


@dataclass(frozen=True)
class _ShapeMembers:
    """All queries of one predicate, whichever groups they came in."""

    predicate: Expression | None
    constants: pa.Table
    ids: Ints


def _by_shape(
    groups: Sequence[Group], excluded: np.ndarray | None
) -> Iterator[tuple[Expression | None, pa.Table, Ints]]:
    """Groups of one predicate together: a thousand registrations of one query each are one table."""
    together: dict[tuple[Expression | None, tuple[str, ...]], list[Group]] = {}
    for group in groups:
        predicate = parts_of(group.query)[1]
        together.setdefault((predicate, tuple(map(str, group.constants.schema))), []).append(group)
    for (predicate, _), members in together.items():
        constants, ids = without(members, excluded)
        if len(ids):
            yield predicate, constants, ids


def _measure(recent: Recent | None) -> Measure:
    """Recent rows as a sample of attributes over them."""
    return lambda attributes, dictionaries, weights: sample_of(
        recent, attributes, [0] * len(attributes), dictionaries, weights
    )
