"""A query segment of the selection family: all boxes of many queries of one stream, behind one index.

It holds the strategy's index, the ids of its queries by slot, its attributes (expressions with all constants put
in) and for each string attribute the sorted dictionary of the constants it is compared with. It is immutable,
made of flat arrays and a small JSON description, and comes back from memory-mapped arrays without copying or
decoding anything: attributes are decoded when they are first evaluated.

Invariants: ids ascend strictly; every attribute is used by some box; `match` gives for an event exactly the slots
of queries whose predicate is TRUE, whichever the strategy.

Cost: building is a few NumPy passes over the constants plus the index; a match evaluates and encodes each attribute
once for the batch, whatever the number of queries, and is otherwise the index's search. Keys are 8 bytes for
each (attribute, event), so a batch with very many attributes is matched in pieces. DESIGN.md sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression, Query
from weir.algebra.schema import Stream
from weir.families.attributes import Attributes
from weir.families.bounds import Ints
from weir.families.boxes import template
from weir.families.codec import from_json, to_json
from weir.families.evaluate import evaluate
from weir.families.guards import Guard, Guards
from weir.families.instances import Boxes, dictionaries_of, in_row_order, resolve, texts, write_boxes
from weir.families.parts import parts_of
from weir.families.value_keys import keys_of_values
from weir.index.boxes import BoxTable, Matches, OverBudget
from weir.index.strategies import STRATEGIES, Strategy
from weir.index.strings import StringDictionary
from weir.settings import Settings

KEYS_BYTES_MAX = 256 << 20  # keys of events that are held at a time
_ANY_BOXES = 1 << 30  # what was registered stays registered, also under a lower cap


@dataclass(frozen=True)
class Group:
    """Queries of one shape: their constants, one row each, and their ids (an int: consecutive from there on)."""

    query: Query  # its constants are params
    constants: pa.Table  # columns c0, c1, …; others are ignored
    ids: np.ndarray | int

    def id_of_row(self) -> Ints:
        if isinstance(self.ids, int):
            return np.arange(self.ids, self.ids + self.constants.num_rows, dtype=np.int64)
        assert len(self.ids) == self.constants.num_rows, "one id for each row of constants"
        return np.asarray(self.ids, np.int64)


def without(groups: Sequence[Group], excluded: np.ndarray | None) -> tuple[pa.Table, Ints]:
    """Constants and ids of groups of one shape together, but the `excluded` ids (ascending)."""
    ids = np.concatenate([g.id_of_row() for g in groups])
    constants = groups[0].constants if len(groups) == 1 else pa.concat_tables([g.constants for g in groups])
    if excluded is not None and len(excluded):
        at = np.minimum(np.searchsorted(excluded, ids), len(excluded) - 1)
        kept = excluded[at] != ids
        if not kept.all():
            constants, ids = constants.filter(pa.array(kept)), ids[kept]
    return constants.combine_chunks(), ids


def in_slots(ids_of_members: Sequence[Ints]) -> tuple[Ints, Ints]:
    """All ids, ascending: their places are the slots; and the slot of each row, members one after the other."""
    ids = np.concatenate([np.empty(0, np.int64), *ids_of_members])
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    assert bool(np.all(ids[1:] > ids[:-1])), "a query is in a segment once"
    slot_of_row = np.empty(len(ids), np.int64)
    slot_of_row[order] = np.arange(len(ids))
    return ids, slot_of_row


class MadeBoxes(NamedTuple):
    """The boxes of many queries, by slot."""

    boxes: Boxes
    attributes: list[Expression]
    dictionaries: dict[int, StringDictionary]  # of attributes that are compared with strings
    guards: Guards


def boxes_of(
    members: Sequence[tuple[Expression | None, pa.Table]], slot_of_row: Ints, *, hints: bool = False
) -> MadeBoxes:
    """The boxes of predicates with their constants."""
    attributes = Attributes()
    resolved = [
        resolve(template(predicate, _ANY_BOXES, hints=hints), constants, attributes) for predicate, constants in members
    ]
    dictionaries = dictionaries_of(texts(r) for r in resolved)
    boxes: list[Boxes] = []
    guards: dict[int, Guard] = {}
    first = 0
    for (_, constants), disjuncts in zip(members, resolved, strict=True):
        slots = slot_of_row[first : first + constants.num_rows]
        first += constants.num_rows
        boxes += [b._replace(row_of_box=slots[b.row_of_box]) for b in write_boxes(disjuncts, dictionaries)]
        for disjunct in disjuncts:
            guarded = [c for c in disjunct.constraints if c.reach is not None]
            for c in guarded:
                assert isinstance(c.attribute, int), "a difference has no parameters"
                assert c.reach is not None
                bounds = {other.op[0] for other in guarded if other.attribute == c.attribute}
                guard = guards.setdefault(c.attribute, Guard.open(len(slot_of_row)))
                guard.narrow(slots, c.reach, bounds >= {"<", ">"})
    of_differences = [(attributes.expressions[number], guard) for number, guard in guards.items()]
    return MadeBoxes(in_row_order(boxes), attributes.expressions, dictionaries, of_differences)


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
    ) -> Segment:
        """The segment of all queries of `groups` but the `excluded` ids (ascending: dropped or demoted)."""
        del settings  # limits were checked at registration
        members = [_Member(*shape) for shape in _by_shape(groups, excluded)]
        ids, slot_of_row = in_slots([m.ids for m in members])

        boxes, attributes, dictionaries, _ = boxes_of([(m.predicate, m.constants) for m in members], slot_of_row)
        table, used = box_table(boxes, len(attributes))
        return cls(
            stream.name,
            strategy,
            ids,
            [to_json(attributes[n]) for n in used],
            {k: dictionaries[n] for k, n in enumerate(used) if n in dictionaries},
            STRATEGIES[strategy].build(table, len(ids), len(used)),
        )

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
        """The slots that each row matches, but the muted ones; their counts if there are more than `pairs_max`."""
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
            if counts is None:  # from here on only counting
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
class _Member:
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


def box_table(boxes: Boxes, attributes_count: int) -> tuple[BoxTable, list[int]]:
    """The boxes with attributes that none of them uses left out, and the numbers of the others."""
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
