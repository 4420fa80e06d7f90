"""A query segment of a family of joins of many streams: all boxes of its queries, behind one index over combinations.

Rows are joined once for all queries (`many_probes`); a combination of rows, one of each side, is then an event to the
same index that selections have. An attribute belongs to one side (`r.price`) or to several (`r.x - t.y`). Where
queries have windows of different lengths, the distance in time of two sides is an attribute too: two rows that no
moment shows together are no result (`join_windows`). Looking at pairs of sides is enough, because intervals of moments
that meet two by two have a moment in common.

What limits every query is used before that, while rows are joined (`many_limits`): how far apart rows may be, how
large the differences of a band, and which keys of an attribute some query takes.

Invariants and layout are those of `selection_segments`. Cost of a match: the join, then for each combination the
keys of its attributes, gathered from those of its rows, and a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Arithmetic, ColumnRef, Comparison, Expression, Param, conjunction, walk
from weir.algebra.schema import ENDLESS_US, INTERVAL, TIMESTAMP, Catalog, Stream, is_changes
from weir.boxes.attributes import sources_of
from weir.boxes.bounds import Bools, Ints
from weir.boxes.guards import Guards, given_up, guards_as_arrays, guards_as_json, guards_of_arrays
from weir.boxes.value_keys import keys_of_values
from weir.families.indexed_boxes import IndexedBoxes, Measure, used_boxes
from weir.families.joins.join_conditions import spelled, spelled_name
from weir.families.joins.join_family import at_home, on_side
from weir.families.joins.join_matching import JoinMatches, Result
from weir.families.joins.join_windows import apart, dated
from weir.families.many.many_family import Many, ManyFamily, joined
from weir.families.many.many_limits import UNBOUNDED_US, Limits, Wanted, limits_of
from weir.families.many.many_probes import Places, SymmetricJoin, TooManyError
from weir.families.many.many_rows import EventRows, Pool, SideRows
from weir.families.members import Group, boxes_of, by_shape, in_slots
from weir.families.query_parts import WIDE, width_of
from weir.families.recent import Recent, sample_of
from weir.index.box_tables import OverBudget, Uint8s
from weir.index.digests import Foreseen
from weir.index.meeting.index_contract import Costs
from weir.index.samples import Sample
from weir.index.strings import StringDictionary
from weir.store.lifetimes import Lifetimes
from weir.values.codec import canonical
from weir.values.evaluate import evaluate

EXAMINED_SHARE = 4  # combinations that may be examined for each match that may be written …
EXAMINED_MIN = 1 << 22  # … and at least so many
KEYS_BYTES_MAX = 64 << 20  # keys of combinations that are held at a time
_ANY_BOXES = 1 << 30


class ManySegment:
    """Queries of one family, ready to be matched with new rows of any of its sides."""

    def __init__(
        self, family: ManyFamily, ids: Ints, boxes: IndexedBoxes, limits: Limits, has_boxes: bool, guards: Guards
    ) -> None:
        self.family = family
        self.ids = ids  # int64[n_slots], ascending: the query of each slot
        self.boxes = boxes  # sources of their attributes are sides
        self.limits = limits
        self.has_boxes = has_boxes  # if not, its queries are never true
        self.guards = guards  # sources of their differences are sides

    def asked(self, side: int) -> list[Expression]:
        """The attributes and columns of a side's rows that a match needs, over a row of that side."""
        found: dict[str, Expression] = {}
        whole = [e for e in self.boxes.attributes if sources_of(e) == {side}]
        parts: list[Expression] = [e for e in self.boxes.attributes if len(sources_of(e)) > 1]
        parts += [on_side(key.of(side), {0: side}) for key in self.family.keys if side in key.sides]
        parts += [*self.family.bands, *(of for of, _ in self.guards)]
        for e in [*whole, *(c for p in parts for c in walk(p) if isinstance(c, ColumnRef) and c.source == side)]:
            home = at_home(e)
            found[canonical(home)] = home
        return list(found.values())

    @classmethod
    def build(
        cls,
        family: ManyFamily,
        groups: Sequence[Group],
        catalog: Catalog,
        *,
        strategy: str,
        excluded: np.ndarray | None = None,
        recent: Recent | None = None,
    ) -> ManySegment:
        """The segment of all queries of `groups` but the `excluded` ids (ascending), for rows like the recent ones."""
        streams = [catalog.side(name) for name in family.streams]
        members = list(_members(family, groups, catalog, excluded, streams))
        ids, slot_of_row = in_slots([m.ids for m in members])
        uniform = _uniform(members)
        timed = [member.with_distances(streams, uniform) for member in members]
        made = boxes_of(timed, slot_of_row, hints=family.has_hints)
        used = used_boxes(made)
        windows = {
            pair: (min(int(m.lo[pair].min()) for m in members), max(int(m.hi[pair].max()) for m in members))
            for pair in (members[0].lo if members else ())
        }
        limits = limits_of(used.table, used.attributes, family.bands, windows, [stream.time for stream in streams])
        is_wide = any(width_of(m.many.predicate) >= WIDE for m in members)
        boxes = IndexedBoxes.build(used, len(ids), strategy, _measure(recent), is_wide=is_wide)
        return cls(family, ids, boxes, limits, bool(len(used.table.slot_of_box)), made.guards)

    @property
    def reached(self) -> str:
        """For `explain`: through which attributes its queries are reached; sides by their streams."""
        return self.boxes.reached(dict(enumerate(self.family.streams)))

    def foreseen(self, recent: Recent) -> Foreseen | None:
        """What combinations of rows like these cost, as it is built and if it were built for them."""
        return self.boxes.foreseen(_measure(recent))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        found = {"ids": self.ids, **self.boxes.arrays()}
        for wanted in (w for of_side in self.limits.wanted for w in of_side):
            found |= {f"wanted.{wanted.attribute}.lo": wanted.lo, f"wanted.{wanted.attribute}.hi": wanted.hi}
        return found | guards_as_arrays(self.guards)

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {
            "family": self.family.to_json(),
            **self.boxes.meta(),
            "apart": [[*sides, *bounds] for sides, bounds in self.limits.apart.items()],
            "bands": [list(bounds) for bounds in self.limits.bands],
            "has_boxes": self.has_boxes,
            "guards": guards_as_json(self.guards),
            "wanted": [[w.attribute for w in of_side] for of_side in self.limits.wanted],
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> ManySegment:
        """The segment that `arrays` and `meta` describe; nothing is copied."""
        limits = Limits(
            {(a, b): (lo, hi) for a, b, lo, hi in meta["apart"]},
            [(lo, hi) for lo, hi in meta["bands"]],
            [[Wanted(n, arrays[f"wanted.{n}.lo"], arrays[f"wanted.{n}.hi"]) for n in of] for of in meta["wanted"]],
        )
        return cls(
            ManyFamily.from_json(meta["family"]),
            arrays["ids"],
            IndexedBoxes.from_arrays(arrays, meta),
            limits,
            meta["has_boxes"],
            guards_of_arrays(arrays, meta["guards"]),
        )

    def match(
        self,
        side: int,
        events: EventRows,
        pools: Mapping[int, Pool],
        muted: Uint8s,
        pairs_max: int,
        lifetimes: Sequence[Lifetimes | None] = (),
        costs: Costs | None = None,
    ) -> JoinMatches | OverBudget:
        """The results of new rows of `side` with kept rows, except those of muted slots; only counts if too many.

        `pools` are the rows of the other sides. Partners of a match are row ids of the other sides, sides ascending.
        Combinations with versions of tables that did not hold together with the rows are left out.
        """
        others = [s for s in range(len(self.family.streams)) if s != side]
        result = Result(len(self.ids), pairs_max, others=len(others))
        if not len(events.row_ids) or not all(len(pools[s].parts) for s in others):
            return result.whole()
        rows: dict[int, SideRows] = {**pools, side: events}
        over = given_up(self.guards, lambda s, column: rows[s].keys(column, None), muted)
        if over is not None:
            return OverBudget(over, is_shared=True)
        if not self.has_boxes:
            return result.whole()
        wanted = [
            [rows[s].keys(at_home(self.boxes.attributes[n]), self.boxes.dictionaries.get(n)) for n, _, _ in of_side]
            for s, of_side in enumerate(self.limits.wanted)
        ]
        examined_max = max(EXAMINED_SHARE * result.left, EXAMINED_MIN)
        alive = _alive(side, events, pools, lifetimes)
        join = SymmetricJoin(self.family, side, events, pools, self.limits, wanted, examined_max, alive)
        step = max(1, KEYS_BYTES_MAX // (8 * max(1, len(self.boxes.written))))
        try:
            for places in join.combinations():
                places = _met(places, rows, lifetimes)
                stepped, steps = self._stepwise(side, places)
                for begin in range(0, len(places[side]), step):
                    some = tuple(at[begin : begin + step] for at in stepped)
                    self._add(result, side, rows, some, steps, muted, costs)
        except TooManyError:
            # All queries share the join, so none of them is lighter than another: all that are not muted are over.
            result.count(np.where(muted == 0, pairs_max + 1, 0), is_shared=True)
        return result.whole()

    def _stepwise(self, side: int, places: Places) -> tuple[Places, list[list[int]]]:
        """Combinations in an order in which neighbours share rows, and the attributes of each side in that order.

        The event's side comes first, then the sides with few different rows: what a step finds for a row serves all
        combinations that have it and agree in the sides before.
        """
        if not self.boxes.index.takes_steps:
            return places, []
        others = [s for s in range(len(places)) if s != side]
        sides = [side, *sorted(others, key=lambda s: len(np.unique(places[s])))]
        order = np.lexsort([places[s] for s in reversed(sides)])
        steps: list[list[int]] = [[] for _ in sides]
        for number, e in enumerate(self.boxes.attributes):
            # What is about several sides is known when the last of them is.
            steps[max(sides.index(s) for s in sources_of(e))].append(number)
        return tuple(at[order] for at in places), steps

    def _add(
        self,
        result: Result,
        side: int,
        rows: Mapping[int, SideRows],
        places: Places,
        steps: Sequence[Sequence[int]],
        muted: Uint8s,
        costs: Costs | None,
    ) -> None:
        """Find the queries of these combinations."""
        found = self.boxes.search(self._keys(rows, places), muted, result.left, costs, steps)
        if isinstance(found, OverBudget):
            result.count(found.counts)
            return
        counts = np.diff(found.offsets)
        partners = [rows[s].row_ids[places[s]] for s in range(len(places)) if s != side]
        result.add(places[side], found.offsets, found.slots, np.repeat(np.stack(partners), counts, axis=1))

    def _keys(self, rows: Mapping[int, SideRows], places: Places) -> Ints:
        """Keys of every attribute, by combination."""
        keys = np.empty((len(self.boxes.written), len(places[0])), np.int64)
        for number, e in enumerate(self.boxes.attributes):
            sides, dictionary = sorted(sources_of(e)), self.boxes.dictionaries.get(number)
            if len(sides) == 1:
                keys[number] = rows[sides[0]].keys(at_home(e), dictionary)[places[sides[0]]]
                continue
            columns: dict[str, pa.ChunkedArray] = {}
            for s in sides:
                mine = {c.name: replace(c, source=0) for c in walk(e) if isinstance(c, ColumnRef) and c.source == s}
                table = rows[s].table(list(mine.values()), places[s])
                columns |= {spelled_name(s, name): table.column(name) for name in mine}
            keys[number] = keys_of_values(evaluate(spelled(e), pa.table(columns)), e.type, dictionary)
        return keys


def _alive(
    side: int, events: EventRows, pools: Mapping[int, Pool], lifetimes: Sequence[Lifetimes | None]
) -> dict[int, Bools]:
    """For each table among the other sides, which of its versions may be met beside some of the events."""
    if not any(lifetimes):
        return {}
    spans = [part.reach for s, pool in pools.items() if lifetimes[s] is None for part in pool.parts]
    earliest = -ENDLESS_US
    if lifetimes[side] is None:  # the newest row is not older than the event
        earliest = int(events.times.min())
        spans.append((earliest, int(events.times.max())))
    latest = max(last for _, last in spans)
    own = ((s, lifetimes[s], pool) for s, pool in pools.items())
    return {s: of.within(pool.row_ids, earliest, latest) for s, of, pool in own if of is not None}


def _met(places: Places, rows: Mapping[int, SideRows], lifetimes: Sequence[Lifetimes | None]) -> Places:
    """The combinations in which rows of streams meet the versions of tables that held then."""
    if not any(lifetimes):
        return places
    own = zip(places, lifetimes, strict=True)
    newest = np.maximum.reduce([rows[s].times[at] for s, (at, of) in enumerate(own) if of is None])
    holds = np.ones(len(newest), bool)
    for s, of in enumerate(lifetimes):
        if of is not None:
            holds &= of.meet(rows[s].row_ids[places[s]], newest)
    return places if holds.all() else tuple(at[holds] for at in places)


def _measure(recent: Recent | None) -> Measure:
    """Recent rows, side by side, as a sample; attributes of several sides are not measured."""

    def measure(
        attributes: Sequence[Expression], dictionaries: Mapping[int, StringDictionary], weights: Ints
    ) -> Sample | None:
        sources = [sorted(sources_of(e)) for e in attributes]
        sides = [of[0] if len(of) == 1 else -1 for of in sources]
        homes = [e if side < 0 else at_home(e) for e, side in zip(attributes, sides, strict=True)]
        return sample_of(recent, homes, sides, dictionaries, weights)

    return measure


@dataclass(frozen=True)
class _ManyMembers:
    """All queries of one predicate and one kind of windows, whichever groups they came in."""

    many: Many
    constants: pa.Table
    ids: Ints
    lo: Mapping[tuple[int, int], Ints]  # by two sides, for each query: the least that first time − second time may be
    hi: Mapping[tuple[int, int], Ints]  # … and the most

    def with_distances(
        self, streams: Sequence[Stream], uniform: set[tuple[int, int]]
    ) -> tuple[Expression | None, pa.Table]:
        """The predicate and the distances in time that windows allow, except those that all queries have in common."""
        terms = [] if self.many.predicate is None else [self.many.predicate]
        constants = self.constants
        for pair in self.lo:
            if pair in uniform:
                continue
            one, other = (ColumnRef(s, streams[s].time, TIMESTAMP) for s in pair)
            distance = Arithmetic("-", one, other, INTERVAL)
            for op, bounds in ((">=", self.lo[pair]), ("<=", self.hi[pair])):
                column = f"apart {pair} {op}"
                near = np.clip(bounds, -UNBOUNDED_US, UNBOUNDED_US)
                constants = constants.append_column(column, pa.array(near, pa.int64()).cast(pa.duration("us")))
                terms.append(Comparison(op, distance, Param(column, INTERVAL)))
        return (conjunction(terms) if terms else None), constants


def _members(
    family: ManyFamily,
    groups: Sequence[Group],
    catalog: Catalog,
    excluded: np.ndarray | None,
    streams: Sequence[Stream],
) -> Iterator[_ManyMembers]:
    """The queries by shape, and how far apart in time their windows let rows of two sides be."""
    for found, constants, ids in by_shape(family, groups, lambda query: joined(query, catalog), excluded):
        lo, hi = {}, {}
        has_one = sum(not is_changes(s.name) for s in streams) == 1  # if not, tables are met by the newest of several
        for one, other in combinations(range(len(streams)), 2):
            scans = found.scans[one], found.scans[other]
            bounds = apart(scans, (streams[one], streams[other]), constants)
            lo[one, other], hi[one, other] = dated(scans, bounds) if has_one else bounds
        yield _ManyMembers(found, constants, ids, lo, hi)


def _uniform(members: Sequence[_ManyMembers]) -> set[tuple[int, int]]:
    """The pairs of sides for which the windows of all queries allow the same distances."""
    found = set()
    for pair in members[0].lo if members else ():
        ends = ([m.lo[pair] for m in members], [m.hi[pair] for m in members])
        if all(len(np.unique(np.concatenate(end))) == 1 for end in ends):
            found.add(pair)
    return found
