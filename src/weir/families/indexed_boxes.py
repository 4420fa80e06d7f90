"""Boxes behind one index: what a segment of selections and one of joins of many streams have in common.

Boxes constrain attributes, which are expressions with all constants put in. A string attribute has the sorted
dictionary of the constants that it is compared with. What an event is (a row, or a combination of rows) is the affair
of the segment, which also measures attributes over recent rows.

Invariants: every attribute is used by some box; attributes come back from JSON when they are first evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weir.algebra.nodes import Expression
from weir.boxes.bounds import Ints
from weir.families.members import MadeBoxes
from weir.families.recent import no_attributes_text, reached_text
from weir.index.box_tables import BoxTable, Matches, OverBudget, Uint8s
from weir.index.digests import Foreseen
from weir.index.meeting.index_contract import Costs
from weir.index.samples import BOXES_MIN, Sample
from weir.index.strategies import STRATEGIES, Choosing, Strategy, Weighing, choose
from weir.index.strings import StringDictionary
from weir.values.codec import from_json, to_json

# Recent rows by attribute: of which attributes, with which dictionaries, and how much each attribute matters.
Measure = Callable[[Sequence[Expression], Mapping[int, StringDictionary], Ints], Sample | None]


class UsedBoxes(NamedTuple):
    """Boxes whose attributes are numbered without gaps."""

    table: BoxTable
    attributes: list[Expression]
    dictionaries: dict[int, StringDictionary]  # by attribute


def used_boxes(made: MadeBoxes) -> UsedBoxes:
    """The boxes with those attributes that some box constrains."""
    boxes = made.boxes
    used = np.flatnonzero(np.bincount(boxes.constraint_attribute, minlength=len(made.attributes)))
    renumbered = np.zeros(len(made.attributes), np.int32)
    renumbered[used] = np.arange(len(used), dtype=np.int32)
    table = BoxTable(
        boxes.row_of_box.astype(np.int32),
        boxes.constraint_offsets,
        renumbered[boxes.constraint_attribute],
        boxes.constraint_lo,
        boxes.constraint_hi,
    )
    old = used.tolist()
    dictionaries = {k: made.dictionaries[n] for k, n in enumerate(old) if n in made.dictionaries}
    return UsedBoxes(table, [made.attributes[n] for n in old], dictionaries)


class IndexedBoxes:
    """All boxes of a segment's queries, and the index that finds them."""

    def __init__(
        self,
        strategy: str,
        written: Sequence[dict[str, Any]],
        dictionaries: Mapping[int, StringDictionary],
        index: Strategy,
    ) -> None:
        self.strategy = strategy
        self.written = list(written)  # the attributes as JSON
        self.dictionaries = dictionaries  # by attribute
        self.index = index

    @cached_property
    def attributes(self) -> list[Expression]:
        """What the boxes constrain, by attribute number."""
        return [from_json(node) for node in self.written]

    @classmethod
    def build(cls, boxes: UsedBoxes, n_slots: int, strategy: str, measure: Measure, *, is_wide: bool) -> IndexedBoxes:
        """The index of boxes; `auto` chooses one where queries constrain many attributes."""
        table, attributes, dictionaries = boxes
        sample = None
        if len(table.slot_of_box) >= BOXES_MIN:
            weights = np.bincount(table.constraint_attribute, minlength=len(attributes))
            sample = measure(attributes, dictionaries, weights)
        if strategy == "auto":
            strategy = choose(table, n_slots, len(attributes), sample) if is_wide else "by-batch"
        index = STRATEGIES[strategy].build(table, n_slots, len(attributes), sample)
        return cls(strategy, [to_json(e) for e in attributes], dictionaries, index)

    def search(
        self, keys: Ints, muted: Uint8s, pairs_max: int, costs: Costs | None, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        """The slots of each event; `costs` are those that were fitted on this machine."""
        index = self.index
        if costs is not None and isinstance(index, Weighing):
            index = index.weighed(costs.batches)
        return index.search(keys, muted, pairs_max, steps)

    def reached(self, names: Mapping[int, str]) -> str:
        """For `explain`: through which attributes queries are reached; `names` are those of the sources."""
        if not isinstance(self.index, Choosing):
            return no_attributes_text(self.strategy)
        return reached_text(self.index.reached, self.attributes, names)

    def foreseen(self, measure: Measure) -> Foreseen | None:
        """What the measured rows cost, as the index is built and if it were built for them; None if nobody can tell."""
        if not isinstance(self.index, Choosing):
            return None
        used = {n for numbers, _ in self.index.reached.boxes for n in numbers}
        weights = np.array([number in used for number in range(len(self.written))], np.int64)
        sample = measure(self.attributes, self.dictionaries, weights)
        return None if sample is None else self.index.foreseen(sample)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        found = {f"index.{name}": array for name, array in self.index.arrays().items()}
        for number, dictionary in self.dictionaries.items():
            found |= {f"strings.{number}.{name}": array for name, array in dictionary._asdict().items()}
        return found

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {"strategy": self.strategy, "attributes": self.written, "strings": sorted(self.dictionaries)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> IndexedBoxes:
        """The boxes that `arrays` and `meta` describe, among others of a segment; nothing is copied."""
        index = {name.removeprefix("index."): array for name, array in arrays.items() if name.startswith("index.")}
        dictionaries = {
            n: StringDictionary(*(arrays[f"strings.{n}.{name}"] for name in StringDictionary._fields))
            for n in meta["strings"]
        }
        return cls(meta["strategy"], meta["attributes"], dictionaries, STRATEGIES[meta["strategy"]].from_arrays(index))
