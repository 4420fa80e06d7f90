"""The symmetric join of many streams: from new rows of one side to all combinations with kept rows of the others.

A combination grows by one side at a time, along the keys and bands of its family (`many_rows`). Each combination
chooses its next side by itself: all links that lead out of it are looked up, and it takes the one with the fewest
rows. So a combination ends at once if some side has no row for it, whatever the order of FROM. Combinations that have
reached the same sides, by whichever way, go on together: the work is a few array passes for each set of sides, of
which there are at most 2^(k−1). Each row is looked up once for each link, however many combinations it is in.

Of a table's versions only those are met that may hold beside some event.

All links must hold, so when a side is added over one of them, the other keys that lead to it are checked (bands are
left to the index). Pairs of rows too far apart in time for every query are left out, and so are rows that no query
takes.

Memory: `BLOCK` combinations for each set of sides. The caller limits how many are examined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from weir.algebra.nodes import ColumnRef, Expression, walk
from weir.boxes.attributes import sources_of
from weir.boxes.bounds import Bools, Ints
from weir.boxes.differences import difference_of, event_part
from weir.families.joins.join_family import on_side
from weir.families.joins.partner_rows import keys_of
from weir.families.many.many_family import ManyFamily
from weir.families.many.many_limits import Limits
from weir.families.many.many_rows import EventRows, ManyRows, Pool, side_links
from weir.index.box_tables import Int32s
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY, encode_doubles
from weir.index.meeting.partners import locate

BLOCK = 1 << 17  # combinations that go on together
EVENTS = 1 << 14  # events that begin together
_MAGNITUDE_BITS = np.int64(KEY_MAX)
_INFINITY_KEY = int(encode_doubles(np.array([np.inf]))[0])

Places = tuple[Ints, ...]  # by side, the position of each combination's row; empty for a side not reached yet


class TooManyError(Exception):
    """More combinations would have to be examined than the caller allows."""


class Link(NamedTuple):
    """A way from a side that a combination has to one that it lacks."""

    start: int
    to: int
    edge: int  # its place among the edges of `to`
    key: int  # of the family, −1 for none
    band: int  # of the family, −1 for none


class _Found:
    """Where the rows that a link leads to are, for those rows of its start that were asked for."""

    def __init__(self, n_starts: int, parts: Sequence[ManyRows]) -> None:
        # Entries that are not known are neither read nor written, so only kept rows that are met take memory.
        self.known = np.zeros(n_starts, bool)
        self.begin, self.end, self.codes = np.empty((3, len(parts), n_starts), np.int64)


@dataclass
class SymmetricJoin:
    """The combinations of some events of one side with the kept rows that they meet."""

    family: ManyFamily
    side: int  # of the events
    events: EventRows
    pools: Mapping[int, Pool]  # the rows of the other sides
    limits: Limits
    keys: Sequence[Sequence[Ints]]  # by side, the rows' keys for each of `limits.wanted`
    left: int  # combinations that may still be examined
    alive: Mapping[int, Bools] = field(default_factory=dict)  # for some sides, which rows are to be met at all

    def __post_init__(self) -> None:
        self._orders: dict[tuple[int, int, int], tuple[Int32s, Ints | None]] = {}
        self._found: dict[Link, _Found] = {}
        self._links = list(_links(self.family))
        self._complete = (1 << len(self.family.streams)) - 1

    def combinations(self) -> Iterator[Places]:
        """All combinations, block by block; TooManyError when more than allowed would have to be examined."""
        wanted = np.flatnonzero(self._is_wanted(self.side, np.arange(len(self.events.row_ids))))
        for begin in range(0, len(wanted), EVENTS):
            yield from self._of(wanted[begin : begin + EVENTS])

    def _of(self, events: Ints) -> Iterator[Places]:
        """The combinations of some events."""
        nothing = np.empty(0, np.int64)
        start = tuple(events if s == self.side else nothing for s in range(len(self.family.streams)))
        waiting: dict[int, list[Places]] = {1 << self.side: [start]}
        while waiting:
            # Small sets of sides go first, so that combinations with the same sides meet and go on together. Once
            # more than BLOCK are held, large sets go first, so that they leave.
            held = sum(len(places[self.side]) for blocks in waiting.values() for places in blocks)
            mask = (max if held > BLOCK else min)(waiting, key=lambda m: (m.bit_count(), m))
            places = _together(waiting.pop(mask))
            if mask == self._complete:
                yield places
                continue
            grown, rest = self._grow(mask, places)
            if len(rest[self.side]):
                waiting[mask] = [rest]
            for to, more in grown:
                if len(more[self.side]):
                    waiting.setdefault(mask | 1 << to, []).append(more)

    def _grow(self, mask: int, places: Places) -> tuple[list[tuple[int, Places]], Places]:
        """The combinations with one more side each, grouped by that side; and those that a block had no room for."""
        links = [link for link in self._links if mask >> link.start & 1 and not mask >> link.to & 1]
        assert links, "keys and bands connect all sides"
        counts = np.empty((len(links), len(places[self.side])), np.int64)
        for k, link in enumerate(links):
            found = self._located(link, places[link.start])
            at = places[link.start]
            counts[k] = (found.end[:, at] - found.begin[:, at]).sum(axis=0)
        alive = np.flatnonzero(counts.min(axis=0) > 0)
        choice = counts[:, alive].argmin(axis=0)
        rows = np.cumsum(counts[choice, alive])
        taken = max(int(np.searchsorted(rows, BLOCK, side="right")), 1)
        rest = _some(places, alive[taken:])
        alive, choice = alive[:taken], choice[:taken]
        if len(alive):
            self.left -= int(rows[len(alive) - 1])
        if self.left < 0:
            raise TooManyError
        grown = []
        for k in np.unique(choice).tolist():
            chosen = _some(places, alive[choice == k])
            grown.append((links[k].to, self._added(chosen, links[k], links, mask)))
        return grown, rest

    def _added(self, places: Places, link: Link, links: Sequence[Link], mask: int) -> Places:
        """Combinations with the rows that a link leads to, where the other keys and the limits allow them."""
        pool, starts = self.pools[link.to], places[link.start]
        found = self._found[link]
        others = [other for other in links if other.to == link.to and other != link and other.key >= 0]
        at, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for p, part in enumerate(pool.parts):
            begin, end = found.begin[p][starts], found.end[p][starts]
            count = end - begin
            before = np.cumsum(count) - count
            combination = np.repeat(np.arange(len(starts)), count)
            place = np.arange(len(combination)) + np.repeat(begin - before, count)
            row = self._order(link.to, link.edge, p)[0][place].astype(np.int64)
            for other in others:
                codes = self._found[other].codes[p][places[other.start][combination]]
                # A key that does not occur in this part has NULL_KEY for its code, as NULL has.
                same = (codes != NULL_KEY) & (part.codes_of_rows(other.edge)[row] == codes)
                combination, row = combination[same], row[same]
            at.append(combination)
            rows.append(row + pool.offsets[p])
        combination, row = np.concatenate(at), np.concatenate(rows)
        kept = np.flatnonzero(self._is_wanted(link.to, row))
        combination, row = combination[kept], row[kept]
        times = pool.times[row]
        for side in range(len(self.family.streams)):
            if mask >> side & 1 and (bounds := self._bounds(side, link.to)) is not None:
                apart = self._times(side)[places[side][combination]] - times
                near = (bounds[0] <= apart) & (apart <= bounds[1])
                if not near.all():
                    combination, row, times = combination[near], row[near], times[near]
        return tuple(
            row if s == link.to else at_side[combination] if mask >> s & 1 else at_side
            for s, at_side in enumerate(places)
        )

    def _bounds(self, one: int, other: int) -> tuple[int, int] | None:
        """The bounds of the time of `one` minus that of `other`; None if there are none."""
        if one < other:
            return self.limits.apart.get((one, other))
        bounds = self.limits.apart.get((other, one))
        return None if bounds is None else (-bounds[1], -bounds[0])

    def _times(self, side: int) -> Ints:
        return self.events.times if side == self.side else self.pools[side].times

    def _is_wanted(self, side: int, rows: Ints) -> Bools:
        """For each row, whether some query may take it, judged by the attributes that every query constrains."""
        found = np.ones(len(rows), bool)
        for (_, lo, hi), keys in zip(self.limits.wanted[side], self.keys[side], strict=True):
            key = keys[rows]
            place = np.searchsorted(lo, key, side="right") - 1
            found &= (place >= 0) & (key <= hi[np.maximum(place, 0)])
        return found

    def _located(self, link: Link, starts: Ints) -> _Found:
        """Where the rows that a link leads to are; rows of its start that were not looked up before are looked up."""
        parts = self.pools[link.to].parts
        if link not in self._found:
            self._found[link] = _Found(len(self._times(link.start)), parts)
        found = self._found[link]
        new = np.unique(starts[~found.known[starts]])
        if not len(new):
            return found
        found.known[new] = True
        own = self._own(link)
        names = {c.name: c for c in walk(own) if isinstance(c, ColumnRef)}
        rows = self.events if link.start == self.side else self.pools[link.start]
        table = rows.table(list(names.values()), new)
        times = self._times(link.start)[new]
        bounds = self._bounds(link.start, link.to)
        for p, part in enumerate(parts):
            edge = part.edges[link.edge]
            if link.key >= 0:
                codes = edge.codes(table, [own])
                begin, end = locate(edge.ordered(None), codes)
                found.codes[p][new] = codes
            else:
                begin, end = self._within(link, edge.ordered(None).values, keys_of(own, table))
            before = self._order(link.to, link.edge, p)[1]
            if before is not None:
                begin, end = before[begin], before[end]
            if bounds is not None:
                least, most = part.reach
                near = (times - most <= bounds[1]) & (bounds[0] <= times - least)
                end = np.where(near, end, begin)
            found.begin[p][new], found.end[p][new] = begin, end
        return found

    def _order(self, side: int, edge: int, p: int) -> tuple[Int32s, Ints | None]:
        """The rows of a part in the order of an edge, those to be met; and how many of them stand before each place.

        None: they are all to be met.
        """
        at = side, edge, p
        if at not in self._orders:
            pool = self.pools[side]
            rows = pool.parts[p].edges[edge].ordered(None).rows
            before: Ints | None = None
            alive = self.alive.get(side)
            if alive is not None:
                kept = alive[pool.offsets[p] + rows]
                before = np.concatenate([[0], np.cumsum(kept)])
                rows = rows[kept]
            self._orders[at] = rows, before
        return self._orders[at]

    def _own(self, link: Link) -> Expression:
        """The expression over rows of the start by whose value they are looked up."""
        if link.key >= 0:
            return self.family.keys[link.key].of(link.start)
        of = difference_of(self.family.bands[link.band])
        assert of is not None, "a band is a difference"
        return on_side(event_part(of, link.start), {link.start: 0})

    def _within(self, link: Link, values: Ints, own: Ints) -> tuple[Ints, Ints]:
        """The places whose difference may lie within the bounds of the band; the index checks each query's own."""
        lo, hi = self.limits.bands[link.band]
        of = difference_of(self.family.bands[link.band])
        assert of is not None, "a band is a difference"
        low, high = (_double_ends if of.is_double else _whole_ends)(lo, hi, own)
        first = int(np.searchsorted(values, NULL_KEY, side="right"))
        begin = np.maximum(np.searchsorted(values, low, side="left"), first)
        end = np.maximum(np.searchsorted(values, high, side="right"), begin)
        return begin, np.where(own == NULL_KEY, begin, end)


def _links(family: ManyFamily) -> Iterator[Link]:
    for to in range(len(family.streams)):
        for place, edge in enumerate(side_links(family, to)):
            sides = family.keys[edge.key].sides if edge.key >= 0 else sorted(sources_of(family.bands[edge.band]))
            yield from (Link(start, to, place, edge.key, edge.band) for start in sides if start != to)


def _whole_ends(lo: int, hi: int, own: Ints) -> tuple[Ints, Ints]:
    """lo + own and hi + own, within int64."""
    known = np.where(own == NULL_KEY, 0, own)
    low = np.full(len(own), KEY_MIN, np.int64) if lo == KEY_MIN else _sum(known, lo)
    high = np.full(len(own), KEY_MAX, np.int64) if hi == KEY_MAX else _sum(known, hi)
    return low, high


def _sum(values: Ints, by: int) -> Ints:
    return np.asarray(np.clip(values, KEY_MIN - min(by, 0), KEY_MAX - max(by, 0)) + by)


def _double_ends(lo: int, hi: int, own: Ints) -> tuple[Ints, Ints]:
    """The keys of lo + own and hi + own, each moved outwards a little, because sums round."""
    value = _double(np.where(own == NULL_KEY, 0, own))
    with np.errstate(all="ignore"):
        low = np.nextafter(np.nextafter(_double(np.array([lo])), -np.inf) + value, -np.inf)
        high = np.nextafter(np.nextafter(_double(np.array([hi])), np.inf) + value, np.inf)
    # A difference with NaN or an infinity does not ascend as others do, so rows with such a value are not bounded.
    free = ~np.isfinite(value)
    below = free if -_INFINITY_KEY <= lo <= _INFINITY_KEY else np.ones(len(own), bool)
    above = free if hi <= _INFINITY_KEY else np.ones(len(own), bool)
    return np.where(below, KEY_MIN, encode_doubles(low)), np.where(above, KEY_MAX, encode_doubles(high))


def _double(keys: Ints) -> np.ndarray:
    """The doubles that have these keys; an unbounded end is some NaN, which is not used."""
    return np.where(keys < 0, keys ^ _MAGNITUDE_BITS, keys).view(np.float64)


def _some(places: Places, at: Ints) -> Places:
    return tuple(one[at] if len(one) else one for one in places)


def _together(blocks: Sequence[Places]) -> Places:
    return blocks[0] if len(blocks) == 1 else tuple(np.concatenate(one) for one in zip(*blocks, strict=True))
