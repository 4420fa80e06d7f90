"""The batch as the index: its events are sorted by one attribute, and a sweep meets each box where it begins and ends.

All boxes are intervals of one attribute, that with the fewest candidates; a box that does not constrain it is met by
every event, NULL's included. The sweep goes through the events by ascending key and keeps the boxes that contain the
key, in the order of slots. Whenever they change it writes them down once, as a *list* of candidates, and every event up
to the next change points at that list. Then the events are gone through in their own order, and their lists copied.
Where boxes have other constraints, each candidate is checked for these as it is copied.

Invariants: a box is among the active ones exactly while lo <= key <= hi; boxes ascend with their slots, so lists do
too, and several boxes of one slot stand next to each other. Boxes that no event of the batch lies in are passed by and
never active.

Cost of a batch of m events with A candidates each, over n boxes: sorting m keys, about 6 ns a box to pass by, 15 to 50
for one that contains an event (it is put in and taken out, A numbers being moved each time), 30 to 40 ns an event, 1 to
3 ns a candidate. So n counts once a batch and not once an event. Lists that do not fit their buffer are given up, and
the sweep begins again with half of the events; one event always fits. Memory: 24 bytes a box, 20 more a constraint of
another attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weir.index import access, ranks
from weir.index.box_tables import (
    BoxTable,
    Int32s,
    Int64s,
    Matches,
    OverBudget,
    Uint8s,
    check,
    check_events,
    read_only,
)
from weir.index.flat_index import FlatIndex
from weir.index.jit import Scalar
from weir.index.keys import KEY_MAX, NULL_KEY
from weir.index.meeting.lean import lean, thin
from weir.index.samples import Sample

Floats = npt.NDArray[np.float64]

_LANES = 8  # ids that are copied together; buffers have room for as many beyond what is used
_STEP = np.uint64(_LANES)
_CANDIDATES_MIN = 1 << 24  # ids of lists that a sweep has room for
_OUTPUT_MIN = 1 << 20  # ids that are written at a time when they are only counted
_KEY_BITS = 63  # of a key that is not negative
_SLOT_MAX = np.int32(np.iinfo(np.int32).max)
_ASKED = 64  # events of a batch that are asked how many candidates they have


class Swept(NamedTuple):
    """Boxes as intervals of one attribute, and what else they ask for."""

    attribute: Int64s  # int64[1]: that events are sorted by; −1 if no box constrains any
    lo: Int64s  # int64[b]: ascending; NULL_KEY for a box that does not constrain the attribute
    hi: Int64s  # int64[b]: of the same box
    boxes: Int32s  # int32[b]: its number, or its slot if boxes have nothing but a slot
    by_hi: Int32s  # int32[b]: places in the arrays above, by ascending hi
    slots: Int32s  # int32[b]: the slot of each number; int32[0] if that is the number
    rest_offsets: Int64s  # int64[b+1]: other constraints of each number; int64[1] if there are none
    rest_attribute: Int32s  # int32[c]
    rest_lo: Int64s  # int64[c]
    rest_hi: Int64s  # int64[c]


class Chosen(NamedTuple):
    """The attribute that a table's boxes are swept by."""

    attribute: int  # −1 if no box constrains any
    candidates: float  # of an event, as far as is known


def choose(table: BoxTable, n_attributes: int, selectivity: Floats) -> Chosen:
    """The attribute with the fewest candidates; `selectivity` is that of each constraint."""
    n_boxes = len(table.slot_of_box)
    if not len(table.constraint_attribute):
        return Chosen(-1, float(n_boxes))
    spared = np.bincount(table.constraint_attribute, weights=1.0 - selectivity, minlength=n_attributes)
    best = int(spared.argmax())
    return Chosen(best, n_boxes - float(spared[best]))


def lay_out(table: BoxTable, attribute: int) -> Swept:
    """The arrays of a checked table for a sweep by `attribute`."""
    n_boxes = len(table.slot_of_box)
    lo, hi = np.full(n_boxes, NULL_KEY, dtype=np.int64), np.full(n_boxes, KEY_MAX, dtype=np.int64)
    box = np.repeat(np.arange(n_boxes, dtype=np.int32), np.diff(table.constraint_offsets))
    own = table.constraint_attribute == attribute
    lo[box[own]], hi[box[own]] = table.constraint_lo[own], table.constraint_hi[own]
    is_rest = ~own
    slots = table.slot_of_box
    rest_offsets = np.zeros(1, dtype=np.int64)
    if np.any(is_rest):
        rest_offsets = np.concatenate([[0], np.cumsum(np.bincount(box[is_rest], minlength=n_boxes))]).astype(np.int64)
    order = np.argsort(lo)
    numbers = order.astype(np.int32)
    if not np.any(is_rest) and not np.any(slots[1:] == slots[:-1]):
        numbers, slots = slots[order], np.empty(0, dtype=np.int32)
    return Swept(
        np.array([attribute], dtype=np.int64),
        lo[order],
        hi[order],
        numbers,
        np.argsort(hi[order]).astype(np.int32),
        slots,
        rest_offsets,
        table.constraint_attribute[is_rest],
        table.constraint_lo[is_rest],
        table.constraint_hi[is_rest],
    )


class SweepIndex(FlatIndex):
    """Strategy "sweep"."""

    structure = Swept

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> Self:
        del sample  # constants say well enough which one attribute is best
        table = check(table, n_slots, n_attributes)
        space = ranks.build(table, n_attributes)
        lo, hi = ranks.rank_bounds(space, table)
        known = access.selectivities(table.constraint_attribute, lo, hi, np.diff(space.point_offsets))
        return cls(lay_out(table, choose(table, n_attributes, known).attribute), n_slots, n_attributes)

    def search(
        self, keys: Int64s, muted: Uint8s, pairs_max: int, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        keys, muted = check_events(keys, muted, self._n_slots, self._n_attributes)
        return sweep(self._flat, keys, muted, pairs_max)


def sweep(swept: Swept, keys: Int64s, muted: Uint8s, pairs_max: int) -> Matches | OverBudget:
    """What a search returns; `swept` is frozen, `keys` and `muted` are checked."""
    return _Search(swept, keys, muted).run(pairs_max)


def candidates_of(swept: Swept, keys: Int64s) -> float:
    """How many candidates an event of this batch has, by some of its events."""
    n_events = keys.shape[1]
    if not n_events or swept.attribute[0] < 0:
        return float(len(swept.lo))
    some = keys[swept.attribute[0], :: max(n_events // _ASKED, 1)]
    return float(_count_met(swept, read_only(np.ascontiguousarray(some)))) / len(some)


@lean
def _count_met(swept: Swept, keys: Int64s) -> Scalar:
    """How many boxes contain a key, summed over all keys."""
    lo, hi, by_hi = swept.lo, swept.hi, swept.by_hi
    met = np.int64(0)
    for key in keys:
        begun, end = 0, len(lo)
        while begun < end:
            middle = (begun + end) >> 1
            if lo[middle] <= key:
                begun = middle + 1
            else:
                end = middle
        over, end = 0, len(lo)
        while over < end:
            middle = (over + end) >> 1
            if hi[by_hi[middle]] < key:
                over = middle + 1
            else:
                end = middle
        met += begun - over
    return met


class _Search:
    """One search: its buffers and its progress through the batch."""

    def __init__(self, swept: Swept, keys: Int64s, muted: Uint8s) -> None:
        self._swept, self._keys, self._muted, self._any_muted = swept, keys, muted, bool(muted.any())
        self._n_boxes, self._n_events = len(swept.boxes), keys.shape[1]
        attribute = int(swept.attribute[0])
        self._sorted_by = keys[attribute] if attribute >= 0 else read_only(np.zeros(self._n_events, dtype=np.int64))
        room = min(max(_CANDIDATES_MIN, self._n_boxes), self._n_boxes * self._n_events)
        self._candidates = np.empty(room + _LANES, dtype=np.int32)
        self._active = np.empty(self._n_boxes + _LANES, dtype=np.int32)
        self._events_max = max(self._n_events, 1)  # that are swept together

    def run(self, pairs_max: int) -> Matches | OverBudget:
        offsets = np.zeros(self._n_events + 1, dtype=np.int64)
        done: list[Int32s] = []
        counts: Int64s | None = None
        event = total = 0
        while event < self._n_events:
            lists = self._sweep(event)
            for part in self._write(lists, event, offsets, pairs_max):
                total += len(part)
                if counts is None and total > pairs_max:
                    counts = sum((self._counts(one) for one in done), np.zeros(len(self._muted), dtype=np.int64))
                    done.clear()
                if counts is None:
                    done.append(part)
                else:
                    counts += self._counts(part)
            event += len(lists)
        if counts is not None:
            return OverBudget(counts)
        if len(done) == 1:
            return Matches(offsets, done[0])
        return Matches(offsets, np.concatenate([*done, np.empty(0, dtype=np.int32)]))

    def _counts(self, slots: Int32s) -> Int64s:
        return np.bincount(slots, minlength=len(self._muted)).astype(np.int64, copy=False)

    def _sweep(self, event: int) -> Int32s:
        """The lists of as many events from `event` on as fit: int32[n, 2], where each begins and how long it is."""
        while True:
            keys = self._sorted_by[event : event + self._events_max]
            order, number_bits = _in_order(keys)
            lists = np.empty((len(keys), 2), dtype=np.int32)
            n = _sweep(
                self._swept,
                keys,
                order,
                number_bits,
                self._muted,
                self._any_muted,
                self._active,
                self._candidates,
                lists,
            )
            if n >= 0:
                return lists
            self._events_max = (self._events_max + 1) // 2

    def _write(self, lists: Int32s, first: int, offsets: Int64s, pairs_max: int) -> Iterator[Int32s]:
        """The slots of events from `first` on, in parts; their ends go into `offsets`.

        The first part has room for all that the budget allows, the others, which are only counted, for less. A page
        that nothing is written to costs nothing.
        """
        left = int(lists[:, 1].sum(dtype=np.int64))
        ends = offsets[first + 1 :]
        before = int(offsets[first])
        most = max(pairs_max - before, _OUTPUT_MIN, self._n_boxes)
        place = 0
        while place < len(lists):
            output = np.empty(min(left, most) + _LANES, dtype=np.int32)
            place, n = _write(self._swept, self._candidates, lists, self._keys, first, place, output, before, ends)
            before += n
            left -= n
            most = max(_OUTPUT_MIN, self._n_boxes)
            yield output[:n]


def _in_order(keys: Int64s) -> tuple[Int64s, int]:
    """The events by ascending key, NULL's first: their numbers, in the returned bits of each entry.

    Keys that span fewer bits than the numbers leave free are sorted with the numbers behind them, which NumPy does in
    a third of the time that it takes to sort numbers by keys.
    """
    least = int(keys.min())
    if least == NULL_KEY:
        least = int(keys.min(initial=KEY_MAX, where=keys != NULL_KEY))
    bits = len(keys).bit_length()
    if (int(keys.max()) - least + 1).bit_length() + bits >= _KEY_BITS:
        return np.argsort(keys), -1
    order = np.maximum(keys, least - 1)
    order -= least - 1
    order <<= bits
    order |= np.arange(len(keys))
    order.sort()
    return order, (1 << bits) - 1


@lean
def _sweep(
    swept: Swept,
    keys: Int64s,
    order: Int64s,
    number_bits: Scalar,
    muted: Uint8s,
    any_muted: Scalar,
    active: Int32s,
    candidates: Int32s,
    lists: Int32s,
) -> Scalar:
    """Write the candidates of all events, each list once, and where each event finds its own.

    Returns how many ids are written; −1 if they do not fit.
    """
    lo, hi, boxes, by_hi = swept.lo, swept.hi, swept.boxes, swept.by_hi
    n_boxes = len(lo)
    room = len(candidates) - _LANES
    has_slots, is_checked = len(swept.slots) > 0, len(swept.rest_offsets) > 1
    n_begun = n_over = n_active = begin = size = used = np.int64(0)
    next_lo = lo[0] if n_boxes else np.int64(KEY_MAX)
    next_hi = hi[by_hi[0]] if n_boxes else np.int64(KEY_MAX)
    before = np.int64(NULL_KEY)  # the key of the event before: a box that begins later was passed by
    for i in range(len(order)):
        event = np.uint64(order[i] & number_bits)
        key = keys[event]
        if next_lo <= key or next_hi < key:
            while n_over < n_boxes:
                place = by_hi[n_over]
                next_hi = hi[place]
                if next_hi >= key:
                    break
                n_over += 1
                box = boxes[place]
                if lo[place] <= before and not (any_muted and muted[swept.slots[box] if has_slots else box]):
                    _take_out(active, n_active, box)
                    n_active -= 1
            if n_over == n_boxes:
                next_hi = np.int64(KEY_MAX)
            while n_begun < n_boxes and lo[n_begun] <= key:
                box = boxes[n_begun]
                if hi[n_begun] >= key and not (any_muted and muted[swept.slots[box] if has_slots else box]):
                    _put_in(active, n_active, box)
                    n_active += 1
                n_begun += 1
            next_lo = lo[n_begun] if n_begun < n_boxes else np.int64(KEY_MAX)
            begin = used
            if begin + n_active > room:
                return np.int64(-1)
            if has_slots and not is_checked:
                used = _write_slots(swept.slots, active, n_active, candidates, used)
            else:
                _copy(active, np.int64(0), candidates, used, n_active)
                used += n_active
            size = used - begin
        before = key
        lists[event, 0] = begin
        lists[event, 1] = size
    return used


@thin
def _put_in(active: Int32s, n: Scalar, box: Scalar) -> None:
    """Put a box among the `n` active ones, which ascend; without a branch on where it belongs."""
    active[n] = _SLOT_MAX
    for k in range(n, 0, -1):
        active[k] = min(active[k], max(active[k - 1], box))
    active[0] = min(active[0], box)


@thin
def _take_out(active: Int32s, n: Scalar, box: Scalar) -> None:
    for k in range(n - 1):
        active[k] = active[k] if active[k] < box else active[k + 1]


@thin
def _copy(source: Int32s, begin: Scalar, target: Int32s, at: Scalar, n: Scalar) -> None:
    """Copy `n` ids in whole steps: what is beyond them in `target` is overwritten later, or never read."""
    first, to, end = np.uint64(begin), np.uint64(at), np.uint64(n)
    for step in range(np.uint64(0), end, _STEP):
        for lane in range(_STEP):
            target[to + step + lane] = source[first + step + lane]


@thin
def _write_slots(slots: Int32s, active: Int32s, n: Scalar, candidates: Int32s, used: Scalar) -> Scalar:
    """Append the slots of active boxes, each once: boxes of one slot follow each other."""
    last = np.int32(-1)
    for k in range(n):
        slot = slots[active[k]]
        if slot != last:
            candidates[used] = slot
            used += 1
        last = slot
    return used


@lean
def _write(
    swept: Swept,
    candidates: Int32s,
    lists: Int32s,
    keys: Int64s,
    first: Scalar,
    event: Scalar,
    output: Int32s,
    before: Scalar,
    ends: Int64s,
) -> tuple[Scalar, Scalar]:
    """Write the slots of events from `event` on until one might not fit; returns that event and the ids written.

    Events are counted from `first`, their ends from `before`.
    """
    room = len(output) - _LANES
    is_checked = len(swept.rest_offsets) > 1
    written = np.int64(0)
    while event < len(lists):
        begin, n = np.int64(lists[event, 0]), np.int64(lists[event, 1])
        if written + n > room:
            break
        if is_checked:
            written = _write_checked(swept, candidates, begin, begin + n, keys, first + event, output, written)
        else:
            _copy(candidates, begin, output, written, n)
            written += n
        ends[event] = before + written
        event += 1
    return event, written


@thin
def _write_checked(
    swept: Swept,
    candidates: Int32s,
    begin: Scalar,
    end: Scalar,
    keys: Int64s,
    event: Scalar,
    output: Int32s,
    written: Scalar,
) -> Scalar:
    """Append the slots of those candidates, which are boxes, whose other constraints hold; each slot once."""
    last = np.int32(-1)
    for k in range(begin, end):
        box = candidates[k]
        slot = swept.slots[box]
        if slot == last:
            continue
        holds = True
        for c in range(swept.rest_offsets[box], swept.rest_offsets[box + 1]):
            key = keys[swept.rest_attribute[c], event]
            if key < swept.rest_lo[c] or key > swept.rest_hi[c]:
                holds = False
                break
        if holds:
            output[written] = slot
            written += 1
            last = slot
    return written
