"""A query segment of the selection family: all boxes of many queries of one stream, behind one index.

It holds the strategy's index, the ids of its queries by slot, its attributes (expressions with all constants put
in) and for each string attribute the sorted dictionary of the constants it is compared with. It is immutable,
made of flat arrays and a small JSON description, and comes back from memory-mapped arrays without copying or
decoding anything: attributes are decoded when they are first evaluated.

Invariants: ids ascend strictly; every attribute is used by some box; `match` gives for an event exactly the slots
of queries whose predicate is TRUE, whichever the strategy.

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
from weir.boxes.instances import RowBoxes
from weir.boxes.value_keys import keys_of_values
from weir.families.members import Group, boxes_of, in_slots, without
from weir.families.query_parts import WIDE, parts_of, width_of
from weir.families.recent import no_attributes_text, reached_text, sample_of
from weir.index.box_tables import BoxTable, Matches, OverBudget
from weir.index.digests import Foreseen
from weir.index.samples import BOXES_MIN
from weir.index.strategies import STRATEGIES, Choosing, Strategy, choose
from weir.index.strings import StringDictionary
from weir.settings import Settings
from weir.values.codec import from_json, to_json
from weir.values.evaluate import evaluate

KEYS_BYTES_MAX = 256 << 20  # keys of events that are held at a time


class Segment:
    """Queries of one stream, ready to be matched with its rows."""

    def __init__(
        self,
        stream: str,
        strategy: str,
        ids: Ints,
        attributes: Sequence[dict[str, Any]],
        dictionaries: Mapping[int, StringDictionary],
        index: Strategy,
    ) -> None:
        self.stream = stream
        self.strategy = strategy
        self.ids = ids  # int64[n_slots], ascending: the query of each slot
        self.dictionaries = dictionaries  # by attribute
        self.index = index
        self._written = list(attributes)
        self._decoded: list[Expression] | None = None

    @property
    def attributes(self) -> list[Expression]:
        """What the boxes constrain, by attribute number."""
        if self._decoded is None:
            self._decoded = [from_json(node) for node in self._written]
        return self._decoded

    @classmethod
    def build(
        cls,
        stream: Stream,
        groups: Sequence[Group],
        *,
        strategy: str,
        settings: Settings,
        excluded: np.ndarray | None = None,
        recent: pa.Table | None = None,
    ) -> Segment:
        """The segment of all queries of `groups` except the `excluded` ids (ascending: dropped or demoted).

        Where there are recent rows, queries are reached as is best for rows like them.
        """
        del settings  # limits were checked at registration
        members = [_ShapeMembers(*shape) for shape in _by_shape(groups, excluded)]
        ids, slot_of_row = in_slots([m.ids for m in members])

        boxes, attributes, dictionaries, _ = boxes_of([(m.predicate, m.constants) for m in members], slot_of_row)
        table, used = box_table(boxes, len(attributes))
        expressions = [attributes[n] for n in used]
        own = {k: dictionaries[n] for k, n in enumerate(used) if n in dictionaries}
        sample = None
        if len(table.slot_of_box) >= BOXES_MIN:
            weights = np.bincount(table.constraint_attribute, minlength=len(used))
            sample = sample_of((recent,), expressions, [0] * len(used), own, weights)
        if strategy == "auto":
            is_wide = any(width_of(m.predicate) >= WIDE for m in members)
            strategy = choose(table, len(ids), len(used), sample) if is_wide else "grid"
        return cls(
            stream.name,
            strategy,
            ids,
            [to_json(e) for e in expressions],
            own,
            STRATEGIES[strategy].build(table, len(ids), len(used), sample),
        )

    @property
    def reached(self) -> str:
        """For `explain`: through which attributes its queries are reached."""
        if not isinstance(self.index, Choosing):
            return no_attributes_text(self.strategy)
        return reached_text(self.index.reached, self.attributes, {0: self.stream})

    def foreseen(self, recent: pa.Table | None) -> Foreseen | None:
        """What rows like these cost, as it is built and if it were built for them; None if that cannot be told."""
        if not isinstance(self.index, Choosing):
            return None
        used = {n for numbers, _ in self.index.reached.boxes for n in numbers}
        weights = np.array([number in used for number in range(len(self._written))], np.int64)
        sample = sample_of((recent,), self.attributes, [0] * len(weights), self.dictionaries, weights)
        return None if sample is None else self.index.foreseen(sample)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        found = {"ids": self.ids}
        found |= {f"index.{name}": array for name, array in self.index.arrays().items()}
        for number, dictionary in self.dictionaries.items():
            found |= {f"strings.{number}.{name}": array for name, array in dictionary._asdict().items()}
        return found

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {
            "stream": self.stream,
            "strategy": self.strategy,
            "attributes": self._written,
            "strings": sorted(self.dictionaries),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Segment:
        """The segment that `arrays` and `meta` describe; nothing is copied."""
        dictionaries = {
            n: StringDictionary(*(arrays[f"strings.{n}.{name}"] for name in StringDictionary._fields))
            for n in meta["strings"]
        }
        index = {name.removeprefix("index."): array for name, array in arrays.items() if name.startswith("index.")}
        made = STRATEGIES[meta["strategy"]].from_arrays(index)
        return cls(meta["stream"], meta["strategy"], arrays["ids"], meta["attributes"], dictionaries, made)

    def match(self, rows: pa.Table, muted: np.ndarray, pairs_max: int) -> Matches | OverBudget:
        """The slots that each row matches, except muted ones; counts by slot if there are more than `pairs_max`."""
        events_max = max(1, KEYS_BYTES_MAX // (8 * max(1, len(self._written))))
        if rows.num_rows <= events_max:
            found: Matches | OverBudget = self.index.search(self._keys(rows), muted, pairs_max)
            return found
        pieces: list[Matches] = []
        counts: Ints | None = None
        left = pairs_max
        for begin in range(0, rows.num_rows, events_max):
            piece = self.index.search(self._keys(rows.slice(begin, events_max)), muted, max(left, 0))
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
        keys = np.empty((len(self._written), rows.num_rows), np.int64)
        for number, e in enumerate(self.attributes):
            values = rows.column(e.name) if isinstance(e, ColumnRef) else evaluate(e, rows)
            keys[number] = keys_of_values(values, e.type, self.dictionaries.get(number))
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


def box_table(boxes: RowBoxes, attributes_count: int) -> tuple[BoxTable, list[int]]:
    """The boxes with their attributes renumbered, unused ones left out; and the old numbers of those that stay."""
    used = np.flatnonzero(np.bincount(boxes.constraint_attribute, minlength=attributes_count))
    renumbered = np.zeros(attributes_count, np.int32)
    renumbered[used] = np.arange(len(used), dtype=np.int32)
    table = BoxTable(
        boxes.row_of_box.astype(np.int32),
        boxes.constraint_offsets,
        renumbered[boxes.constraint_attribute],
        boxes.constraint_lo,
        boxes.constraint_hi,
    )
    return table, used.tolist()
