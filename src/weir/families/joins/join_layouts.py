"""What a query segment of a join family is made of, and how it is built, written and read.

A box constrains attributes of side 0 and of side 1. Each slot has one access attribute a side, or none
(`join_accesses`), and slots with the same two form a *part* (`join_parts`), which is searched by them; other
constraints, and how far apart in time two rows may be (`join_windows`), are checks of each pair. Conditions over both
sides are evaluated last (`join_conditions`). A slot is in one part only, so parts never find a pair twice. Where
there are recent rows, access attributes are those that are best for rows like them, and a digest of the boxes tells
later whether they still are.

Like a selection's segment it is immutable, made of flat arrays and a small JSON description, and comes back from
memory-mapped arrays without copying: attributes are decoded when they are first evaluated.

Invariants: ids ascend strictly; every attribute is used by some box. Cost: building is a few NumPy passes over the
constants, two sorts and the indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from weir.algebra.nodes import ColumnRef, Expression
from weir.algebra.schema import Catalog
from weir.boxes.bounds import Ints
from weir.boxes.differences import Difference, difference_of, partner_order
from weir.boxes.guards import Guards, guards_as_arrays, guards_as_json, guards_of_arrays
from weir.families.joins.join_accesses import digest_of, foreseen
from weir.families.joins.join_conditions import columns_of
from weir.families.joins.join_family import BOTH, JoinFamily, joined, on_side
from weir.families.joins.join_parts import Part, Sides, accesses_of, below, build_parts, two
from weir.families.joins.join_windows import TimeBounds, apart, dated
from weir.families.members import Group, boxes_of, by_shape, in_slots
from weir.families.recent import Recent, reached_text, sample_of
from weir.index.box_tables import frozen
from weir.index.digests import Digest, Foreseen, Reached
from weir.index.meeting.index_contract import Indexing
from weir.index.samples import BOXES_MIN, Sample
from weir.index.strings import StringDictionary
from weir.settings import Settings
from weir.values.codec import from_json, to_json


class JoinLayout:
    """Queries of one join family: their boxes, by part, and the attributes that these constrain."""

    def __init__(
        self,
        family: JoinFamily,
        ids: Ints,
        attributes: Sequence[Sequence[dict[str, Any]]],
        dictionaries: Sequence[Mapping[int, StringDictionary]],
        parts: Sequence[Part],
        guards: Guards,
        digest: Digest,
        place_of_attribute: Ints,
    ) -> None:
        self.family = family
        self.ids = ids  # int64[n_slots], ascending: the query of each slot
        self.dictionaries = tuple(dictionaries)  # by side, and of pairs; by attribute
        self.parts = tuple(parts)
        self.guards = guards  # sources of their differences are sides
        self.digest = frozen(digest)
        self.place_of_attribute = place_of_attribute  # int64[k, 2]: side, number within it; as the digest counts them
        self._written = tuple(attributes)  # by side, and of pairs; by number
        self._decoded: list[list[Expression] | None] = [None, None, None]

    def columns(self, side: int) -> list[Expression]:
        """The attributes of a side that boxes constrain, by number, with source 0; or of pairs (BOTH), with sides."""
        decoded = self._decoded[side]
        if decoded is None:
            decoded = self._decoded[side] = [from_json(node) for node in self._written[side]]
        return decoded

    def asked(self, side: int) -> list[Expression]:
        """What partner rows of a side must have: its attributes, and the columns that attributes of pairs are of."""
        guarded = columns_of((of for of, _ in self.guards), side)
        return [*self.columns(side), *self.columns_of_conditions(side), *guarded]

    def columns_of_conditions(self, side: int) -> list[ColumnRef]:
        """Of pairs' attributes only those count that are evaluated: times are compared without."""
        numbers = [p.conditions.attribute for p in self.parts if p.conditions is not None]
        used = np.unique(np.concatenate([np.empty(0, np.int32), *numbers])).tolist()
        return columns_of((self.columns(BOTH)[n] for n in used), side)

    def accesses(self, side: int) -> list[Expression | None]:
        """The orders in which partner rows of a side are asked for; None: any order."""
        plain = dict.fromkeys(part.access[side] for part in self.parts if part.difference < 0)
        found = [None if n < 0 else self.columns(side)[n] for n in plain]
        return [*found, *(self.order(n, side) for n in dict.fromkeys(p.difference for p in self.parts) if n >= 0)]

    def order(self, difference: int, side: int) -> Expression:
        """How partners of a side are ordered for a difference."""
        return on_side(partner_order(self.difference(difference), side), {side: 0})

    def difference(self, number: int) -> Difference:
        found = difference_of(self.columns(BOTH)[number])
        assert found is not None, "queries are reached through differences only"
        return found

    @classmethod
    def build(
        cls,
        family: JoinFamily,
        groups: Sequence[Group],
        catalog: Catalog,
        *,
        settings: Settings,
        excluded: np.ndarray | None = None,
        strategies: Sequence[str] | None = None,
        recent: Recent | None = None,
    ) -> Self:
        """The segment of all queries of `groups`, which are of this family, but the `excluded` ids (ascending).

        `strategies` are those that are indexed: by default all that are worth their memory when the router chooses,
        else the one that is set. Where there are recent rows, queries are reached as is best for rows like them.
        """
        thrifty = strategies is None
        if strategies is None and settings.join_strategy != "auto":
            strategies = (settings.join_strategy,)
        how = Indexing(settings.hotspot_share, strategies, thrifty)
        if strategies is not None:
            # What finds boxes by two attributes is needed in any case; vanilla has no structures.
            by_two = tuple(name for name in strategies if name != "partial") or ("vanilla",)
            how = how._replace(strategies=by_two, partial="partial" in strategies)
        streams = two(catalog.side(name) for name in family.streams)
        members = list(by_shape(family, groups, lambda query: joined(query, catalog), excluded))
        ids, slot_of_row = in_slots([own for _, _, own in members])

        whole, attributes, dictionaries, guards = boxes_of(
            [(found.predicate, c) for found, c, _ in members], slot_of_row, hints=not family.keys
        )
        bounds = TimeBounds(np.empty(len(ids), np.int64), np.empty(len(ids), np.int64))
        of_members = [dated(found.scans, apart(found.scans, streams, constants)) for found, constants, _ in members]
        nothing = np.empty(0, np.int64)
        bounds.lo[slot_of_row] = np.concatenate([nothing, *(of.lo for of in of_members)])
        bounds.hi[slot_of_row] = np.concatenate([nothing, *(of.hi for of in of_members)])
        used = np.flatnonzero(np.bincount(whole.constraint_attribute, minlength=len(attributes))).tolist()
        sides = Sides([attributes[n] for n in used], two(stream.time for stream in streams))
        renumbered = np.zeros(len(attributes), np.int64)
        renumbered[used] = np.arange(len(used))
        whole = whole._replace(constraint_attribute=renumbered[whole.constraint_attribute])
        own = [
            {
                int(sides.number[k]): dictionaries[n]
                for k, n in enumerate(used)
                if n in dictionaries and sides.side[k] == side
            }
            for side in (0, 1, BOTH)
        ]
        places = np.stack([sides.side, sides.number], axis=1)
        sample = None
        if len(whole.row_of_box) >= BOXES_MIN:
            weights = np.bincount(whole.constraint_attribute, minlength=len(used))
            sample = _sample(recent, sides.expressions, places, own, weights)
        chosen = accesses_of(whole, len(ids), sides, has_keys=bool(family.keys), sample=sample)
        return cls(
            family,
            ids,
            [[to_json(e) for e in of_side] for of_side in sides.expressions],
            own,
            build_parts(whole, bounds, chosen, sides, how),
            guards,
            digest_of(whole, chosen, len(used), sample),
            places,
        )

    @property
    def reached(self) -> str:
        """For `explain`: through which attributes of each side its queries are reached."""
        sizes = np.array([len(part.slot_of_box) for part in self.parts], np.int64)
        expressions = [e for side in (0, 1, BOTH) for e in self._on_sides(side)]
        first = np.cumsum([0, *(len(self.columns(side)) for side in (0, 1))])
        numbers = [(*part.access, part.difference) for part in self.parts]
        at = np.array([[n + f if n >= 0 else -1 for n, f in zip(of, first, strict=True)] for of in numbers], np.int64)
        found = Reached.of(at.reshape(-1, 3), sizes, self.digest.rows_measured)
        text = reached_text(found, expressions, dict(enumerate(self.family.streams)))
        if any(index is not None for part in self.parts for index in part.partial):
            text += (
                "; or all their attributes, the event's first, for events that would leave too many to check (partial)"
            )
        return text

    def _on_sides(self, side: int) -> list[Expression]:
        """The attributes of a side, or of pairs, over both sides."""
        return [e if side == BOTH else on_side(e, {0: side}) for e in self.columns(side)]

    def foreseen(self, recent: Recent) -> Foreseen | None:
        """What rows like these cost, as it is built and if it were built for them; None if that cannot be told."""
        weights = np.bincount(self.digest.attribute, minlength=len(self.place_of_attribute))
        expressions = [self.columns(side) for side in (0, 1, BOTH)]
        sample = _sample(recent, expressions, self.place_of_attribute, self.dictionaries, weights)
        side = self.place_of_attribute[:, 0]
        return None if sample is None else foreseen(self.digest, np.where(side == BOTH, -1, side), sample)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        found = {"ids": self.ids}
        for side, dictionaries in enumerate(self.dictionaries):
            for number, dictionary in dictionaries.items():
                found |= {f"strings.{side}.{number}.{name}": array for name, array in dictionary._asdict().items()}
        for k, part in enumerate(self.parts):
            found |= {f"part.{k}.{name}": array for name, array in part.arrays().items()}
        found |= {f"digest.{name}": array for name, array in self.digest._asdict().items()}
        found["places"] = self.place_of_attribute
        return found | guards_as_arrays(self.guards)

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {
            "family": self.family.to_json(),
            "attributes": [list(nodes) for nodes in self._written],
            "strings": [sorted(dictionaries) for dictionaries in self.dictionaries],
            "parts": [part.meta() for part in self.parts],
            "guards": guards_as_json(self.guards),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Self:
        """The segment that `arrays` and `meta` describe; nothing is copied."""
        return cls(
            JoinFamily.from_json(meta["family"]),
            arrays["ids"],
            meta["attributes"],
            [
                {
                    n: StringDictionary(*(arrays[f"strings.{side}.{n}.{name}"] for name in StringDictionary._fields))
                    for n in numbers
                }
                for side, numbers in enumerate(meta["strings"])
            ],
            [Part.from_arrays(below(arrays, f"part.{k}."), about) for k, about in enumerate(meta["parts"])],
            guards_of_arrays(arrays, meta["guards"]),
            Digest(**below(arrays, "digest.")),
            arrays["places"],
        )


def _sample(
    recent: Recent | None,
    expressions: Sequence[Sequence[Expression]],
    places: Ints,
    dictionaries: Sequence[Mapping[int, StringDictionary]],
    weights: Ints,
) -> Sample | None:
    """Recent rows of both sides by attribute; what is over both sides is not measured."""
    attributes = [expressions[side][number] for side, number in places.tolist()]
    own = {k: dictionaries[side][n] for k, (side, n) in enumerate(places.tolist()) if n in dictionaries[side]}
    return sample_of(recent, attributes, [-1 if side == BOTH else side for side in places[:, 0].tolist()], own, weights)
