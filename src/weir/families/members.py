"""Members of a query segment: queries in groups of one shape, their slots, and their boxes.

A group is what one registration brought: one query with parameters, its constants as columns, and ids. A segment has a
slot for each of its queries, in the order of ids; `boxes_of` makes the boxes of all of them by slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query, Scan
from weir.boxes.attributes import Attributes
from weir.boxes.bounds import Ints
from weir.boxes.guards import Guard, Guards
from weir.boxes.instances import RowBoxes, dictionaries_of, in_row_order, resolve, texts, write_boxes
from weir.boxes.templates import template
from weir.index.strings import StringDictionary

_ANY_BOXES = 1 << 30  # no cap: a query that was registered stays, even if the cap has been lowered since


@dataclass(frozen=True)
class Group:
    """Queries of one shape: their constants, one row each, and their ids (an int: consecutive ids from there on)."""

    query: Query  # its constants are params
    constants: pa.Table  # columns c0, c1, …; others are ignored
    ids: np.ndarray | int

    def id_of_row(self) -> Ints:
        if isinstance(self.ids, int):
            return np.arange(self.ids, self.ids + self.constants.num_rows, dtype=np.int64)
        assert len(self.ids) == self.constants.num_rows, "one id for each row of constants"
        return np.asarray(self.ids, np.int64)


def without(groups: Sequence[Group], excluded: np.ndarray | None) -> tuple[pa.Table, Ints]:
    """The constants and ids of groups of one shape, put together, without the `excluded` ids (ascending)."""
    ids = np.concatenate([g.id_of_row() for g in groups])
    constants = groups[0].constants if len(groups) == 1 else pa.concat_tables([g.constants for g in groups])
    if excluded is not None and len(excluded):
        at = np.minimum(np.searchsorted(excluded, ids), len(excluded) - 1)
        kept = excluded[at] != ids
        if not kept.all():
            constants, ids = constants.filter(pa.array(kept)), ids[kept]
    return constants.combine_chunks(), ids


def in_slots(ids_of_members: Sequence[Ints]) -> tuple[Ints, Ints]:
    """All ids in ascending order, where an id's place is its slot; and the slot of each row, member after member."""
    ids = np.concatenate([np.empty(0, np.int64), *ids_of_members])
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    assert bool(np.all(ids[1:] > ids[:-1])), "a query is in a segment once"
    slot_of_row = np.empty(len(ids), np.int64)
    slot_of_row[order] = np.arange(len(ids))
    return ids, slot_of_row


class MadeBoxes(NamedTuple):
    """The boxes of many queries, by slot."""

    boxes: RowBoxes
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
    boxes: list[RowBoxes] = []
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


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _Seen(Protocol):
    """A query as its family sees it."""

    @property
    def family(self) -> _Named: ...

    @property
    def scans(self) -> tuple[Scan, ...]: ...

    @property
    def predicate(self) -> Expression | None: ...


S = TypeVar("S", bound=_Seen)


def by_shape(
    family: _Named, groups: Sequence[Group], see: Callable[[Query], S], excluded: np.ndarray | None
) -> Iterator[tuple[S, pa.Table, Ints]]:
    """Groups of one shape together, with their constants and ids: a thousand registrations of one query are one table.

    `see` gives a query as its family sees it; the `excluded` ids (ascending) are left out.
    """
    known: dict[int, S] = {}  # by the identity of a query, which many groups share
    together: dict[Any, tuple[S, list[Group]]] = {}
    for group in groups:
        if id(group.query) not in known:
            known[id(group.query)] = see(group.query)
        found = known[id(group.query)]
        assert found.family.name == family.name, f"a query of {found.family.name} among those of {family.name}"
        windows = tuple(scan.window for scan in found.scans)
        shape = (found.predicate, windows, tuple(map(str, group.constants.schema)))
        together.setdefault(shape, (found, []))[1].append(group)
    for found, members in together.values():
        constants, ids = without(members, excluded)
        if len(ids):
            yield found, constants, ids
