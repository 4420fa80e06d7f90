"""A query segment of a join family: all boxes of many select joins, ready to be met from both sides.

How it is laid out is in `join_layouts`. `match` gives exactly the pairs (event, partner) with equal join
keys for which a query's predicate is TRUE and which some moment can show, each once for a slot, whichever the strategy.

Cost: a match evaluates and encodes each attribute of the events once, looks every event's join key up once, and
otherwise is the parts' searches; of the partner rows only runs that some event meets are touched, and none where all
of them are too old for every window of a part. DESIGN.md sections 1 and 2; SSI 3.2; CSJQ section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression
from weir.boxes.bounds import Ints
from weir.boxes.differences import difference_of, event_part
from weir.boxes.guards import given_up
from weir.families.joins.join_conditions import columns_of, satisfied
from weir.families.joins.join_family import BOTH, on_side
from weir.families.joins.join_layouts import JoinLayout
from weir.families.joins.join_matching import (
    EventKeys,
    JoinMatches,
    MetEvents,
    Result,
    Search,
    distinct,
    meet,
    reach_of,
    stacked,
    within_reach,
    without,
)
from weir.families.joins.join_parts import Part, two
from weir.families.joins.join_windows import seen_from
from weir.families.joins.partner_rows import PartnerRows, keys_of
from weir.index.bands.spread import spread
from weir.index.box_tables import Int32s, Int64s, OverBudget, Uint8s
from weir.index.joining.routing import EitherIndex, RoutedIndex
from weir.index.joins.join_index import batch_order
from weir.index.meeting.index_contract import AUTO, Meeting, PlaneIndex, Side, Tuning
from weir.index.meeting.partner_runs import PartnerRun, make_run, plain_run
from weir.store.lifetimes import Lifetimes

KEYS_BYTES_MAX = 256 << 20  # keys of events that are held at a time
EVENTS_FIRST = 1 << 10  # events of the first block whose candidates are examined
CANDIDATES = 1 << 20  # candidates of a block that is neither too small to pay nor too large
CANDIDATES_MAX = 1 << 22  # candidates of a block, at most
EXAMINED_SHARE = 4  # candidates that may be examined for a pair that may be written


class JoinSegment(JoinLayout):
    """Queries of one join family, ready to be matched with new rows of either side."""

    def match(
        self,
        side: int,
        events: pa.Table,
        times: Int64s,
        rows: PartnerRows,
        muted: Uint8s,
        pairs_max: int,
        tuning: Tuning = AUTO,
        lifetimes: Lifetimes | None = None,
    ) -> JoinMatches | OverBudget:
        """The pairs of new rows of `side` with partners, but those of muted slots; counts if there are too many.

        `times` are those of the events, `pairs_max` counts pairs, over all parts. `lifetimes`, of partners that are a
        table's changes, leave most of those out that no event can meet.
        """
        assert rows.side == 1 - side, "partners are rows of the other side"
        result = Result(len(self.ids), pairs_max)
        if not events.num_rows or not len(rows.row_ids):
            return result.whole()

        def keys(of: int, column: ColumnRef) -> Int64s:
            return rows.column(column, None) if of != side else keys_of(column, events)

        over = given_up(self.guards, keys, muted)
        if over is not None:
            return OverBudget(over, is_shared=True)
        if self.parts:
            _Match(self, side, events, times, rows, muted, tuning, result, lifetimes).run()
        return result.whole()


@dataclass
class _Match:
    """One slice of new rows, and what is found for it."""

    of: JoinLayout
    side: int  # of the events
    events: pa.Table
    times: Int64s  # int64[n]: of the events
    rows: PartnerRows  # of the other side
    muted: Uint8s
    tuning: Tuning
    result: Result
    lifetimes: Lifetimes | None  # of the partners

    def run(self) -> None:
        codes = self.rows.codes(self.events, [pair[self.side] for pair in self.of.family.keys])
        whole = meet(self.rows.ordered(None), codes)  # all orders have the same runs
        reach = seen_from(self.side, *reach_of(self.times, self.rows.times))  # of t0 − t1, like a part's bounds
        columns = self.of.columns(self.side)
        differences = columns_of((e for e in self.of.columns(BOTH) if difference_of(e) is not None), self.side)
        step = max(1, KEYS_BYTES_MAX // (8 * max(1, len(columns))))
        for first in range(0, len(whole.events), step):
            meeting = whole.some(first, first + step)
            keys = EventKeys(columns, self.of.dictionaries[self.side], differences, self.events, meeting.events)
            for part in self.of.parts:
                if part.can_meet(*reach):
                    self._match(part, meeting, keys, part.is_timed(*reach))

    def _match(self, part: Part, met: MetEvents, keys: EventKeys, timed: bool) -> None:
        """Add the pairs of a part."""
        found = (self._band_search if part.difference >= 0 else self._search)(part, met, keys, timed)
        search, positions, row_of_place = found
        if part.conditions is not None:
            self._add_satisfying(search, part, positions, row_of_place)
            return
        pairs, choices = search.pairs(0, len(positions), self.result.left)
        self.result.choices += choices
        if isinstance(pairs, OverBudget):
            self.result.count(pairs.counts)
        else:
            self.result.add(positions, pairs.offsets, pairs.slots, self.rows.row_ids[row_of_place[pairs.places]])

    def _search(self, part: Part, met: MetEvents, keys: EventKeys, timed: bool) -> tuple[Search, Ints, Int32s]:
        """The search of a part, the events it is about, and the row of each place."""
        a, partial = self._own(part, met, keys), part.partial[self.side]
        if partial is None:
            order = batch_order(met.codes, a)
        else:
            order = partial.batch_order(a, stacked([keys[n] for n in part.checked[self.side]], len(a)))
        access = self._access(part)
        row_of_place = self.rows.ordered(access).rows
        values = self.rows.values(access, self.of.dictionaries[1 - self.side].get(part.access[1 - self.side]))
        if met.places is not None:
            row_of_place, values = row_of_place[met.places], values[met.places]
        row_of_place, values, begin, end = self._holding(met, row_of_place, values)
        if timed:
            own, others = self.times[met.events], self.rows.times[row_of_place]
            near = within_reach(others, begin, end, own, seen_from(self.side, *part.widest))
            if near is not None:
                kept, begin, end = near
                row_of_place, values = row_of_place[kept], values[kept]
        index: PlaneIndex = part.indexes[self.side]
        if partial is not None:
            index = EitherIndex(index, partial.for_batch())
        windows = part.windows(self.side) if timed else None
        if windows is not None:
            index = RoutedIndex(index, windows)
        runs = begin[order], end[order], plain_run(values), np.empty(0, np.int64)
        search = self._searching(index, part, met, keys, order, runs, row_of_place, timed)
        return search, met.events[order], row_of_place

    def _band_search(self, part: Part, met: MetEvents, keys: EventKeys, timed: bool) -> tuple[Search, Ints, Int32s]:
        """The same for a part that is reached through a difference."""
        of = self.of.difference(part.difference)
        ordered = self.rows.ordered(self.of.order(part.difference, 1 - self.side))
        row_of_place, values = ordered.rows, ordered.values
        if met.places is not None:
            row_of_place, values = row_of_place[met.places], values[met.places]
        row_of_place, values, begin, end = self._holding(met, row_of_place, values)
        own = keys_of(on_side(event_part(of, self.side), {self.side: 0}), keys.rows)
        bands = spread(values, own, begin, end, is_double=of.is_double)
        order, row_of_place = bands.event, row_of_place[bands.nulls :]
        # A ladder is a pass over the partners: it pays if they are searched more often than that.
        is_searched = len(order) * len(part.slot_of_box) > len(bands.values)
        run = make_run(bands.values, of.is_double, is_one=not self.of.family.keys and is_searched)
        runs = bands.begin, bands.end, run, bands.offset
        search = self._searching(part.indexes[self.side], part, met, keys, order, runs, row_of_place, timed)
        return search, met.events[order], row_of_place

    def _holding(self, met: MetEvents, row_of_place: Int32s, values: Ints) -> tuple[Int32s, Ints, Ints, Ints]:
        """The places without a table's versions that no event can meet, and where runs then begin and end."""
        begin, end = met.begin, met.end
        if self.lifetimes is not None and len(met.events):
            own, partners = self.times[met.events], self.rows.row_ids[row_of_place]
            holds = self.lifetimes.within(partners, int(own.min()), int(own.max()))
            if (some := without(holds, begin, end)) is not None:
                kept, begin, end = some
                row_of_place, values = row_of_place[kept], values[kept]
        return row_of_place, values, begin, end

    def _searching(
        self,
        index: PlaneIndex,
        part: Part,
        met: MetEvents,
        keys: EventKeys,
        order: Ints,
        runs: tuple[Ints, Ints, PartnerRun, Ints],
        row_of_place: Int32s,
        timed: bool,
    ) -> Search:
        """The search of an index for events in the order given, with their runs and offsets."""
        events, partners = self._events(part, keys, met.events, order), self._partners(part, row_of_place, timed)
        meeting = Meeting(self._own(part, met, keys)[order], *runs, events, partners)
        return Search(index, meeting, part.checks(self.side, timed), self._muted(part), self.tuning)

    def _own(self, part: Part, met: MetEvents, keys: EventKeys) -> Int64s:
        """What events have of the part's access attribute."""
        number = part.access[self.side]
        return np.zeros(len(met.events), np.int64) if number < 0 else keys[number]

    def _access(self, part: Part) -> Expression | None:
        """The attribute that the part's partners are ordered by."""
        number = part.access[1 - self.side]
        return None if number < 0 else self.of.columns(1 - self.side)[number]

    def _muted(self, part: Part) -> Uint8s:
        """By slot, or by box where conditions are still to be evaluated."""
        return self.muted if part.conditions is None else self.muted[part.slot_of_box]

    def _events(self, part: Part, keys: EventKeys, events: Ints, order: Ints) -> Side:
        """What is checked of events, in the order given."""
        checked = [keys[n][order] for n in part.checked[self.side]]
        return Side(self.times[events[order]], stacked(checked, len(order)))

    def _partners(self, part: Part, row_of_place: Int32s, timed: bool) -> Side:
        """What is checked of partners, by place."""
        side, count = self.rows.side, len(row_of_place)
        times = self.rows.times[row_of_place] if timed else np.zeros(count, np.int64)
        attributes, dictionaries = self.of.columns(side), self.of.dictionaries[side]
        checked = [self.rows.column(attributes[n], dictionaries.get(n))[row_of_place] for n in part.checked[side]]
        return Side(times, stacked(checked, count))

    def _add_satisfying(self, search: Search, part: Part, positions: Ints, row_of_place: Int32s) -> None:
        """Add the pairs of a part with conditions: candidates in blocks, of which those stay that satisfy theirs."""
        assert part.conditions is not None
        conditions, result, rows = part.conditions, self.result, self.rows
        attributes, dictionaries = self.of.columns(BOTH), self.of.dictionaries[BOTH]
        tables = [self.events, rows.table(self.of.columns_of_conditions(rows.side))]
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
                counts = np.bincount(part.slot_of_box, weights=found.counts, minlength=len(self.of.ids))
                result.count(counts.astype(np.int64))
                first = stop
                continue
            examined += len(found.slots)
            size = max(min(2 * size, (stop - first) * CANDIDATES // max(len(found.slots), 1)), 1)
            event = np.repeat(positions[first:stop], np.diff(found.offsets))
            row = row_of_place[found.places].astype(np.int64)
            of_sides, places = (tables, [event, row]) if self.side == 0 else (tables[::-1], [row, event])
            holds = satisfied(conditions, attributes, dictionaries, two(of_sides), two(places), found.slots)
            entry = np.repeat(np.arange(stop - first), np.diff(found.offsets))[holds]
            slots, row = part.slot_of_box[found.slots[holds]], row[holds]
            if not is_alone:
                entry, slots, row = distinct(entry, slots, row)
            offsets = np.searchsorted(entry, np.arange(stop - first + 1))
            result.add(positions[first:stop], offsets, slots, rows.row_ids[row])
            first = stop
