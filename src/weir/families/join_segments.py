"""A query segment of a join family: all boxes of many select joins, ready to be met from both sides.

A box constrains attributes of side 0 and of side 1. Each slot has one access attribute a side, or none
(`weir.families.join_accesses`), and slots with the same two form a *part* (`weir.families.join_parts`), which is
searched by them; other constraints, and how far apart in time two rows may be (`weir.families.join_windows`), are
checks of each pair. Conditions over both sides are evaluated last (`weir.families.join_conditions`), for blocks of
candidate pairs. A slot is in one part only, so parts never find a pair twice.

Like a selection's segment it is immutable, made of flat arrays and a small JSON description, and comes back from
memory-mapped arrays without copying: attributes are decoded when they are first evaluated.

Invariants: ids ascend strictly; every attribute is used by some box; `match` gives exactly the pairs (event, partner)
with equal join keys for which a query's predicate is TRUE and which some moment can show, each once for a slot,
whichever the strategy.

Cost: building is a few NumPy passes over the constants, two sorts and the indexes. A match evaluates and encodes each
attribute of the events once, looks every event's join key up once, and otherwise is the parts' searches; of the
partner rows only runs that some event meets are touched, and none where all of them are too old for every window of
a part. DESIGN.md sections 1 and 2; SSI 3.2; CSJQ section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression
from weir.algebra.schema import Catalog
from weir.families.bounds import Ints
from weir.families.codec import from_json, to_json
from weir.families.differences import Difference, difference_of, event_part, partner_order
from weir.families.join_conditions import columns_of, satisfied
from weir.families.join_matching import (
    EventKeys,
    JoinMatches,
    Meeting,
    Result,
    Search,
    distinct,
    meet,
    reach_of,
    stacked,
    within_reach,
)
from weir.families.join_parts import Indexing, Part, Sides, below, build_parts, two
from weir.families.join_windows import Apart, apart
from weir.families.joins import BOTH, JoinFamily, joined, on_side
from weir.families.members import by_shape
from weir.families.partner_rows import PartnerRows, keys_of
from weir.families.segments import Group, boxes_of, in_slots
from weir.index.bands.index import BandIndex
from weir.index.bands.runs import make_run
from weir.index.bands.spread import spread
from weir.index.boxes import Int32s, Int64s, OverBudget, Uint8s
from weir.index.joins.costs import DEFAULT, Costs
from weir.index.joins.enumeration import Side
from weir.index.joins.pairs import Band
from weir.index.joins.search import STRATEGIES, JoinIndex, batch_order
from weir.index.strings import StringDictionary
from weir.settings import Settings

# What a strategy of select joins is in a band join.
BAND_STRATEGY = {
    "vanilla": "query-outer",
    "select-first": "query-outer",
    "join-first": "data-outer",
    "sweep": "merge",
}
KEYS_BYTES_MAX = 256 << 20  # keys of events that are held at a time
_ANY_BOXES = 1 << 30  # what was registered stays registered, also under a lower cap
EVENTS_FIRST = 1 << 10  # events of the first block whose candidates are examined
CANDIDATES = 1 << 20  # candidates of a block that is neither too small to pay nor too large
CANDIDATES_MAX = 1 << 22  # candidates of a block, at most
EXAMINED_SHARE = 4  # candidates that may be examined for a pair that may be written


class JoinSegment:
    """Queries of one join family, ready to be matched with new rows of either side."""

    def __init__(
        self,
        family: JoinFamily,
        ids: Ints,
        attributes: Sequence[Sequence[dict[str, Any]]],
        dictionaries: Sequence[Mapping[int, StringDictionary]],
        parts: Sequence[Part],
    ) -> None:
        self.family = family
        self.ids = ids  # int64[n_slots], ascending: the query of each slot
        self.dictionaries = tuple(dictionaries)  # by side, and of pairs; by attribute
        self.parts = tuple(parts)
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
        return [*self.columns(side), *self._columns_of_conditions(side)]

    def _columns_of_conditions(self, side: int) -> list[ColumnRef]:
        """Of pairs' attributes only those count that are evaluated: times are compared without."""
        numbers = [p.conditions.attribute for p in self.parts if p.conditions is not None]
        used = np.unique(np.concatenate([np.empty(0, np.int32), *numbers])).tolist()
        return columns_of((self.columns(BOTH)[n] for n in used), side)

    def accesses(self, side: int) -> list[Expression | None]:
        """The orders in which partner rows of a side are asked for; None: any order."""
        plain = dict.fromkeys(part.access[side] for part in self.parts if part.difference < 0)
        found = [None if n < 0 else self.columns(side)[n] for n in plain]
        return [*found, *(self._order(n, side) for n in dict.fromkeys(p.difference for p in self.parts) if n >= 0)]

    def _order(self, difference: int, side: int) -> Expression:
        """How partners of a side are ordered for a difference."""
        return on_side(partner_order(self._difference(difference), side), {side: 0})

    def _difference(self, number: int) -> Difference:
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
    ) -> JoinSegment:
        """The segment of all queries of `groups`, which are of this family, but the `excluded` ids (ascending).

        `strategies` are those that are indexed: by default all that are worth their memory when the router chooses,
        else the one that is set.
        """
        thrifty = strategies is None
        if strategies is None:
            strategies = STRATEGIES if settings.join_strategy == "auto" else (settings.join_strategy,)
        streams = two(catalog.streams[name.lower()] for name in family.streams)
        members = list(by_shape(family, groups, lambda query: joined(query, catalog), excluded))
        ids, slot_of_row = in_slots([own for _, _, own in members])

        whole, attributes, dictionaries = boxes_of([(found.predicate, c) for found, c, _ in members], slot_of_row)
        bounds = Apart(np.empty(len(ids), np.int64), np.empty(len(ids), np.int64))
        of_members = [apart(found.scans, streams, constants) for found, constants, _ in members]
        nothing = np.empty(0, np.int64)
        bounds.lo[slot_of_row] = np.concatenate([nothing, *(of.lo for of in of_members)])
        bounds.hi[slot_of_row] = np.concatenate([nothing, *(of.hi for of in of_members)])
        used = np.flatnonzero(np.bincount(whole.constraint_attribute, minlength=len(attributes))).tolist()
        sides = Sides([attributes[n] for n in used], two(stream.time for stream in streams))
        renumbered = np.zeros(len(attributes), np.int64)
        renumbered[used] = np.arange(len(used))
        whole = whole._replace(constraint_attribute=renumbered[whole.constraint_attribute])
        return cls(
            family,
            ids,
            [[to_json(e) for e in of_side] for of_side in sides.expressions],
            [
                {
                    int(sides.number[k]): dictionaries[n]
                    for k, n in enumerate(used)
                    if n in dictionaries and sides.side[k] == side
                }
                for side in (0, 1, BOTH)
            ],
            build_parts(
                whole,
                bounds,
                len(ids),
                sides,
                Indexing(settings.hotspot_share, strategies, thrifty),
                has_keys=bool(family.keys),
            ),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        found = {"ids": self.ids}
        for side, dictionaries in enumerate(self.dictionaries):
            for number, dictionary in dictionaries.items():
                found |= {f"strings.{side}.{number}.{name}": array for name, array in dictionary._asdict().items()}
        for k, part in enumerate(self.parts):
            found |= {f"part.{k}.{name}": array for name, array in part.arrays().items()}
        return found

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {
            "family": self.family.to_json(),
            "attributes": [list(nodes) for nodes in self._written],
            "strings": [sorted(dictionaries) for dictionaries in self.dictionaries],
            "parts": [part.meta() for part in self.parts],
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> JoinSegment:
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
        )

    def match(
        self,
        side: int,
        events: pa.Table,
        times: Int64s,
        rows: PartnerRows,
        muted: Uint8s,
        pairs_max: int,
        *,
        costs: Costs = DEFAULT,
        strategy: str = "auto",
    ) -> JoinMatches | OverBudget:
        """The pairs of new rows of `side` with partners, but those of muted slots; counts if there are too many.

        `times` are those of the events, `pairs_max` counts pairs, over all parts.
        """
        assert rows.side == 1 - side, "partners are rows of the other side"
        result = Result(len(self.ids), pairs_max)
        if not self.parts or not events.num_rows or not len(rows.row_ids):
            return result.whole()
        codes = rows.codes(events, [pair[side] for pair in self.family.keys])
        whole = meet(rows.ordered(None), codes)  # all orders have the same runs
        sign = -1 if side else 1  # time bounds are those of t0 − t1
        reach = reach_of(sign * times, sign * rows.times)
        step = max(1, KEYS_BYTES_MAX // (8 * max(1, len(self._written[side]))))
        for first in range(0, len(whole.events), step):
            meeting = whole.some(first, first + step)
            differences = [e for e in self.columns(BOTH) if difference_of(e) is not None]
            keys = EventKeys(
                self.columns(side), self.dictionaries[side], columns_of(differences, side), events, meeting.events
            )
            for part in self.parts:
                if not part.can_meet(*reach):
                    continue
                timed = part.is_timed(*reach)
                if part.difference >= 0:
                    search, positions, row_of_place = self._band_search(
                        part, side, meeting, keys, events, times, rows, muted, sign, timed, strategy, costs
                    )
                else:
                    search, positions, row_of_place = self._search(
                        part, side, meeting, keys, times, rows, muted, sign, timed, strategy, costs
                    )
                if part.conditions is not None:
                    self._add_satisfying(result, search, part, positions, events, rows, row_of_place)
                    continue
                found, choices = search.pairs(0, len(positions), result.left)
                result.choices += choices
                if isinstance(found, OverBudget):
                    result.count(found.counts)
                else:
                    row_ids = rows.row_ids[row_of_place[found.places]]
                    result.add(positions, found.offsets, found.slots, row_ids)
        return result.whole()

    def _search(
        self,
        part: Part,
        side: int,
        meeting: Meeting,
        keys: EventKeys,
        times: Int64s,
        rows: PartnerRows,
        muted: Uint8s,
        sign: int,
        timed: bool,
        strategy: str,
        costs: Costs,
    ) -> tuple[Search, Ints, Int32s]:
        """The search of a part, the events it is about, and the row of each place."""
        a = np.zeros(len(meeting.events), np.int64) if part.access[side] < 0 else keys[part.access[side]]
        order = batch_order(meeting.codes, a)
        access = self._access(part, 1 - side)
        row_of_place = rows.ordered(access).rows
        values = rows.values(access, self.dictionaries[1 - side].get(part.access[1 - side]))
        if meeting.places is not None:
            row_of_place, values = row_of_place[meeting.places], values[meeting.places]
        begin, end = meeting.begin, meeting.end
        if timed:
            own, others = sign * times[meeting.events], sign * rows.times[row_of_place]
            near = within_reach(others, begin, end, own, part.widest)
            if near is not None:
                kept, begin, end = near
                row_of_place, values = row_of_place[kept], values[kept]
        index = part.indexes[side]
        assert isinstance(index, JoinIndex)
        search = Search(
            index,
            *part.checks(side, timed),
            a[order],
            begin[order],
            end[order],
            values,
            self._events(part, side, keys, sign * times, meeting.events, order),
            self._partners(part, 1 - side, rows, row_of_place, sign if timed else 0),
            muted if part.conditions is None else muted[part.slot_of_box],
            strategy,
            costs,
            part.windows(side) if timed else None,
            sign,
        )
        return search, meeting.events[order], row_of_place

    def _band_search(
        self,
        part: Part,
        side: int,
        meeting: Meeting,
        keys: EventKeys,
        events: pa.Table,
        times: Int64s,
        rows: PartnerRows,
        muted: Uint8s,
        sign: int,
        timed: bool,
        strategy: str,
        costs: Costs,
    ) -> tuple[Search, Ints, Int32s]:
        """The same for a part that is reached through a difference."""
        of = self._difference(part.difference)
        ordered = rows.ordered(self._order(part.difference, 1 - side))
        row_of_place, values = ordered.rows, ordered.values
        if meeting.places is not None:
            row_of_place, values = row_of_place[meeting.places], values[meeting.places]
        own = keys_of(on_side(event_part(of, side), {side: 0}), keys.rows)
        a = np.zeros(len(meeting.events), np.int64) if part.access[side] < 0 else keys[part.access[side]]
        bands = spread(values, own, meeting.begin, meeting.end, is_double=of.is_double)
        order = bands.event
        index = part.indexes[side]
        assert isinstance(index, BandIndex)
        # A ladder is a pass over the partners: it pays if they are searched more often than that.
        is_searched = len(order) * len(part.slot_of_box) > len(bands.values)
        run = make_run(bands.values, of.is_double, is_one=not self.family.keys and is_searched)
        search = Search(
            Band(index, run, bands.offset),
            *part.checks(side, timed),
            a[order],
            bands.begin,
            bands.end,
            bands.values,
            self._events(part, side, keys, sign * times, meeting.events, order),
            self._partners(part, 1 - side, rows, row_of_place[bands.nulls :], sign if timed else 0),
            muted if part.conditions is None else muted[part.slot_of_box],
            BAND_STRATEGY.get(strategy, strategy),
            costs,
        )
        return search, meeting.events[order], row_of_place[bands.nulls :]

    def _events(self, part: Part, side: int, keys: EventKeys, times: Int64s, events: Ints, order: Ints) -> Side:
        """What is checked of events, in the order given."""
        return Side(times[events[order]], stacked([keys[n][order] for n in part.checked[side]], len(order)))

    def _add_satisfying(
        self,
        result: Result,
        search: Search,
        part: Part,
        positions: Ints,
        events: pa.Table,
        rows: PartnerRows,
        row_of_place: Int32s,
    ) -> None:
        """Add the pairs of a part with conditions: candidates in blocks, of which those stay that satisfy theirs."""
        assert part.conditions is not None
        conditions, side = part.conditions, 1 - rows.side
        attributes, dictionaries = self.columns(BOTH), self.dictionaries[BOTH]
        tables = [events, rows.table(self._columns_of_conditions(rows.side))]
        is_alone = bool(np.all(part.slot_of_box[1:] > part.slot_of_box[:-1]))
        first, size, examined = 0, EVENTS_FIRST, 0
        examined_max = max(result.left, CANDIDATES_MAX) * EXAMINED_SHARE
        while first < len(positions):
            stop = min(first + size, len(positions))
            found, choices = search.pairs(first, stop, CANDIDATES_MAX if examined < examined_max else 0)
            if isinstance(found, OverBudget) and stop - first > 1 and examined < examined_max:
                size = max((stop - first) // 4, 1)
                continue
            result.choices += choices
            if isinstance(found, OverBudget):  # even the candidates are too many
                counts = np.bincount(part.slot_of_box, weights=found.counts, minlength=len(self.ids))
                result.count(counts.astype(np.int64))
                first = stop
                continue
            examined += len(found.slots)
            size = max(min(2 * size, (stop - first) * CANDIDATES // max(len(found.slots), 1)), 1)
            event = np.repeat(positions[first:stop], np.diff(found.offsets))
            row = row_of_place[found.places].astype(np.int64)
            of_sides, places = (tables, [event, row]) if side == 0 else (tables[::-1], [row, event])
            holds = satisfied(conditions, attributes, dictionaries, two(of_sides), two(places), found.slots)
            entry = np.repeat(np.arange(stop - first), np.diff(found.offsets))[holds]
            slots, row = part.slot_of_box[found.slots[holds]], row[holds]
            if not is_alone:
                entry, slots, row = distinct(entry, slots, row)
            offsets = np.searchsorted(entry, np.arange(stop - first + 1))
            result.add(positions[first:stop], offsets, slots, rows.row_ids[row])
            first = stop

    def _partners(self, part: Part, side: int, rows: PartnerRows, row_of_place: Int32s, sign: int) -> Side:
        """What is checked of partners, by place; times are multiplied by `sign`, and with 0 they are left out."""
        count = len(row_of_place)
        times = sign * rows.times[row_of_place] if sign else np.zeros(count, np.int64)
        attributes, dictionaries = self.columns(side), self.dictionaries[side]
        checked = [rows.column(attributes[n], dictionaries.get(n))[row_of_place] for n in part.checked[side]]
        return Side(times, stacked(checked, count))

    def _access(self, part: Part, side: int) -> Expression | None:
        return None if part.access[side] < 0 else self.columns(side)[part.access[side]]
