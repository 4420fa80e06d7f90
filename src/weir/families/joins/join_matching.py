"""One match of a join segment: events that have partners, their keys, a part's search, and the pairs found.

What `join_segments` does for each slice of a batch is put together from these. Nothing here lives longer
than one call of `match`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression, walk
from weir.boxes.bounds import Bools, Ints
from weir.boxes.value_keys import keys_of_values
from weir.index.box_tables import Int32s, Int64s, OverBudget, Uint8s
from weir.index.joining.kinds import STRATEGIES
from weir.index.joining.pairs import Pairs, match_pairs
from weir.index.keys import NULL_KEY
from weir.index.meeting.checks import Checks
from weir.index.meeting.index_contract import Meeting, PlaneIndex, Tuning
from weir.index.meeting.partners import Partners, locate
from weir.index.strings import StringDictionary
from weir.values.evaluate import evaluate

_KEPT_MOST = 0.875  # share of the places met above which none are left out
_FAR = 1 << 62  # no two times are further apart


class JoinMatches(NamedTuple):
    """Pairs of events and partners, and the slots that they match: CSR by event."""

    events: Int64s  # int64[e]: positions of events that have pairs; in any order, and one may occur for every part
    offsets: Int64s  # int64[e+1]
    slots: Int32s  # int32[p]: ascending within an entry of `events`
    partners: Int64s  # int64[others, p]: row ids on the other sides, ascending; unique within (entry, slot)
    choices: Int64s  # int64[16]: how many events each of STRATEGIES processed, summed over parts

    def of_events(self, values: Int64s) -> Int64s:
        """Values of all events, for each pair that of its event."""
        return np.repeat(values[self.events], np.diff(self.offsets))

    def where(self, holds: Bools) -> JoinMatches:
        """The matches with some of the pairs."""
        if holds.all():
            return self
        before = np.concatenate([[0], np.cumsum(holds)])
        return JoinMatches(self.events, before[self.offsets], self.slots[holds], self.partners[:, holds], self.choices)


@dataclass(frozen=True)
class Search:
    """One part's search for pairs, over all its events."""

    index: PlaneIndex
    meeting: Meeting
    checks: Checks
    muted: Uint8s
    tuning: Tuning

    def pairs(self, first: int, stop: int, pairs_max: int) -> tuple[Pairs | OverBudget, Int64s]:
        """The pairs of some events, or their counts; and how many events each of STRATEGIES processed."""
        some = self.meeting.at(slice(first, stop))
        found, chosen = match_pairs(self.index, some, self.checks, self.muted, pairs_max, self.tuning)
        choices = np.zeros(len(STRATEGIES), np.int64)
        choices[[STRATEGIES.index(name) for name in self.index.names]] = chosen
        return found, choices


def distinct(entry: Ints, slots: Int32s, row: Ints) -> tuple[Ints, Int32s, Ints]:
    """The triples without repetitions, in order."""
    order = np.lexsort((row, slots, entry))
    entry, slots, row = entry[order], slots[order], row[order]
    new = np.ones(len(entry), bool)
    new[1:] = (entry[1:] != entry[:-1]) | (slots[1:] != slots[:-1]) | (row[1:] != row[:-1])
    return entry[new], slots[new], row[new]


class MetEvents(NamedTuple):
    """Events that have partners, by ascending join key, and where those are among the places that are met."""

    events: Ints  # int64[e]: positions
    codes: Ints  # int64[e]: join keys, ascending
    begin: Ints  # int64[e]
    end: Ints  # int64[e]
    places: Ints | None  # int64[m]: the places that any event meets, in order; None: all of them

    def some(self, first: int, stop: int) -> MetEvents:
        """Some of the events; the places stay."""
        at = slice(first, stop)
        return MetEvents(self.events[at], self.codes[at], self.begin[at], self.end[at], self.places)


def meet(partners: Partners, codes: Ints) -> MetEvents:
    """Look every join key up. All orders of the same rows have the same runs, so the places serve every part."""
    known = np.flatnonzero(codes != NULL_KEY)
    by_key = known[np.argsort(codes[known], kind="stable")]
    codes = codes[by_key]
    begin, end = locate(partners, codes)
    there = np.flatnonzero(end > begin)
    by_key, codes, begin, end = by_key[there], codes[there], begin[there], end[there]
    if not len(by_key):
        return MetEvents(by_key, codes, begin, end, None)
    is_first = np.ones(len(begin), bool)
    is_first[1:] = begin[1:] != begin[:-1]
    starts, lengths = begin[is_first], (end - begin)[is_first]
    met = int(lengths.sum())
    if 2 * met > len(partners.rows):
        return MetEvents(by_key, codes, begin, end, None)
    moved = np.cumsum(lengths) - lengths
    places = np.repeat(starts - moved, lengths) + np.arange(met)
    shift = (starts - moved)[np.cumsum(is_first) - 1]
    return MetEvents(by_key, codes, begin - shift, end - shift, places)


def within_reach(
    times: Ints, begin: Ints, end: Ints, event_times: Ints, widest: tuple[int, int]
) -> tuple[Ints, Ints, Ints] | None:
    """The places that are near enough in time to some event, and where the runs then begin and end.

    `widest` bounds event time − partner time. None: hardly any place is left out.
    """
    oldest, latest = int(event_times.min()) - widest[1], int(event_times.max()) - widest[0]
    return without((times >= max(oldest, -_FAR)) & (times <= min(latest, _FAR)), begin, end)


def without(wanted: Bools, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints] | None:
    """The places that are wanted, and where runs then begin and end. None: hardly any place is left out."""
    kept = np.flatnonzero(wanted)
    if _KEPT_MOST * len(wanted) < len(kept):
        return None
    before = np.zeros(len(wanted) + 1, np.int64)
    np.cumsum(wanted, out=before[1:])
    return kept, before[begin], before[end]


def reach_of(times: Int64s, partner_times: Int64s) -> tuple[int, int]:
    """The least and greatest difference that times of two sides can have."""
    return int(times.min()) - int(partner_times.max()), int(times.max()) - int(partner_times.min())


class EventKeys:
    """Keys of the events' attributes, each made when a part first asks for it."""

    def __init__(
        self,
        attributes: Sequence[Expression],
        dictionaries: Mapping[int, StringDictionary],
        more: Sequence[ColumnRef],
        events: pa.Table,
        at: Ints,
    ) -> None:
        self._attributes = attributes
        self._dictionaries = dictionaries
        names = {c.name for e in (*self._attributes, *more) for c in walk(e) if isinstance(c, ColumnRef)}
        # A table without columns has no rows, and an attribute always has a column: nobody asks for such keys.
        self.rows = events.select(sorted(names)).take(pa.array(at)) if names else events
        self._made: dict[int, Ints] = {}

    def __getitem__(self, number: int) -> Ints:
        if number not in self._made:
            e = self._attributes[number]
            values = self.rows.column(e.name) if isinstance(e, ColumnRef) else evaluate(e, self.rows)
            self._made[number] = keys_of_values(values, e.type, self._dictionaries.get(number))
        return self._made[number]


class Result:
    """Pairs of all parts and blocks of events, or once they are over budget their counts by slot."""

    def __init__(self, slots_count: int, pairs_max: int, others: int = 1) -> None:
        """`others` is the number of other sides: of so many row ids are the partners of a pair."""
        self.others = others
        self.left = max(pairs_max, 0)
        self.choices = np.zeros(len(STRATEGIES), np.int64)
        self._slots_count = slots_count
        self._counts: Ints | None = None
        self._is_shared = False
        self._done: list[tuple[Ints, Ints, Int32s, Ints]] = []  # events, their counts, slots, partners

    def add(self, events: Ints, offsets: Ints, slots: Int32s, partners: Ints) -> None:
        partners = partners.reshape(self.others, len(slots))
        if self._counts is not None or len(slots) > self.left:
            self.count(np.bincount(slots, minlength=self._slots_count))
            return
        counts = np.diff(offsets)
        some = np.flatnonzero(counts)
        self._done.append((events[some], counts[some], slots, partners))
        self.left -= len(slots)

    def count(self, counts: Ints, *, is_shared: bool = False) -> None:
        """From here on pairs are only counted."""
        self._is_shared |= is_shared
        if self._counts is None:
            self._counts = np.zeros(self._slots_count, np.int64)
            for _, _, slots, _ in self._done:
                self._counts += np.bincount(slots, minlength=self._slots_count)
            self._done.clear()
            self.left = 0
        self._counts += counts

    def whole(self) -> JoinMatches | OverBudget:
        if self._counts is not None:
            return OverBudget(self._counts, self._is_shared)
        if len(self._done) == 1:
            events, counts, slots, partners = self._done[0]
            return JoinMatches(events, np.concatenate([[0], np.cumsum(counts)]), slots, partners, self.choices)
        nothing = np.empty(0, np.int64)
        events = np.concatenate([nothing, *(d[0] for d in self._done)])
        counts = np.concatenate([nothing, *(d[1] for d in self._done)])
        offsets = np.zeros(len(events) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        slots = np.concatenate([np.empty(0, np.int32), *(d[2] for d in self._done)])
        partners = np.concatenate([np.empty((self.others, 0), np.int64), *(d[3] for d in self._done)], axis=1)
        return JoinMatches(events, offsets, slots, partners, self.choices)


def stacked(columns: Sequence[Ints], count: int) -> Ints:
    return np.stack(columns) if columns else np.empty((0, count), np.int64)
