"""PSoup's predicate index (4.2.2): for each attribute the sorted constants of all factors, and a counter for each box.

A box is an AND of factors: `attribute >= lo` and `attribute <= hi` for each interval, `=` for a point. For an event,
each attribute's value is looked up among the sorted constants; the factors it satisfies are a prefix (>=), a suffix
(<=) and a run (=), and each decrements the counter of its box. A box whose counter reaches zero matches. The paper's
red-black trees are sorted arrays here: built in bulk, scanned in order.

Invariants: `needed` is the number of factors of a box, and all counters are set to it before each event (one copy of
2 bytes a box). NULL satisfies no factor; an interval without ends still has one, which asks for a value.
Cost: O(log n) for each attribute, plus every factor that is satisfied, which for ranges is about half of all: time in
proportion to the n queries, whatever matches. Size: 12 bytes a factor, 6 a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weir.index.blocks import search_blocks
from weir.index.box_tables import BoxTable, Int32s, Int64s, Matches, OverBudget, Uint8s, check, check_events
from weir.index.flat_index import FlatIndex
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.samples import Sample

Uint16s = npt.NDArray[np.uint16]

_ONE = np.uint16(1)


class Factors(NamedTuple):
    """All factors, by relation and attribute, and what boxes need of them."""

    least_offsets: Int64s  # int64[a+1]: factors `>=` of attribute k are offsets[k] .. offsets[k+1]
    least_keys: Int64s  # int64[…]: ascending within an attribute
    least_boxes: Int32s  # int32[…]
    most_offsets: Int64s  # int64[a+1]: the same for `<=`
    most_keys: Int64s
    most_boxes: Int32s
    equal_offsets: Int64s  # int64[a+1]: the same for `=`
    equal_keys: Int64s
    equal_boxes: Int32s
    needed: Uint16s  # uint16[b]: factors of each box
    slot_of_box: Int32s  # int32[b]
    free_boxes: Int32s  # int32[…]: boxes without factors, which match every event


def _sorted_factors(
    chosen: np.ndarray, attribute: Int32s, keys: Int64s, boxes: Int32s, n_attributes: int
) -> tuple[Int64s, Int64s, Int32s]:
    attribute, keys, boxes = attribute[chosen], keys[chosen], boxes[chosen]
    order = np.lexsort((keys, attribute))
    offsets = np.zeros(n_attributes + 1, dtype=np.int64)
    np.cumsum(np.bincount(attribute, minlength=n_attributes), out=offsets[1:])
    return offsets, keys[order], boxes[order]


class PredicateIndex(FlatIndex):
    """Strategy "predicate"."""

    structure = Factors

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> Self:
        del sample  # it has nothing to choose
        table = check(table, n_slots, n_attributes)
        n_boxes = len(table.slot_of_box)
        boxes = np.repeat(np.arange(n_boxes, dtype=np.int32), np.diff(table.constraint_offsets))
        attribute, lo, hi = table.constraint_attribute, table.constraint_lo, table.constraint_hi
        equal = lo == hi
        most = ~equal & (hi < KEY_MAX)
        least = ~equal & ((lo > KEY_MIN) | ~most)  # an interval without ends still asks for a value
        needed = np.bincount(boxes, weights=equal.astype(np.int64) + most + least, minlength=n_boxes)
        assert needed.max(initial=0) <= np.iinfo(np.uint16).max, "a box has more factors than a counter can count"
        factors = Factors(
            *_sorted_factors(least, attribute, lo, boxes, n_attributes),
            *_sorted_factors(most, attribute, hi, boxes, n_attributes),
            *_sorted_factors(equal, attribute, lo, boxes, n_attributes),
            needed.astype(np.uint16),
            table.slot_of_box,
            np.flatnonzero(needed == 0).astype(np.int32),
        )
        return cls(factors, n_slots, n_attributes)

    def search(
        self, keys: Int64s, muted: Uint8s, pairs_max: int, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        keys, muted = check_events(keys, muted, self._n_slots, self._n_attributes)
        counters = np.empty(len(self._flat.needed), dtype=np.uint16)
        hits = np.empty(len(counters), dtype=np.int32)

        def block(event: int, output: Int32s, per_event: Int64s) -> tuple[int, int]:
            return _search(self._flat, keys, muted, event, counters, hits, output, per_event)

        return search_blocks(block, keys.shape[1], self._n_slots, pairs_max)


@kernel
def _satisfy(boxes: Int32s, begin: Scalar, end: Scalar, counters: Uint16s, hits: Int32s, n_hits: Scalar) -> Scalar:
    """Decrement the counters of the boxes whose factors are satisfied; those that reach zero are hits."""
    for k in range(begin, end):
        box = boxes[k]
        counters[box] -= _ONE
        if counters[box] == 0:
            hits[n_hits] = box
            n_hits += 1
    return n_hits


@kernel
def _first_above(keys: Int64s, begin: Scalar, end: Scalar, key: Scalar) -> Scalar:
    """The first of the sorted keys begin .. end that is above `key`."""
    while begin < end:
        middle = (begin + end) >> 1
        if keys[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _sort(boxes: Int32s, n: Scalar) -> None:
    """Shell sort: matches are few, and insertion in growing steps is enough for many."""
    step = np.int64(1)
    while step < n // 3:
        step = 3 * step + 1
    while step > 0:
        for i in range(step, n):
            box = boxes[i]
            at: Scalar = i
            while at >= step and boxes[at - step] > box:
                boxes[at] = boxes[at - step]
                at -= step
            boxes[at] = box
        step //= 3


@kernel
def _search(
    f: Factors,
    keys: Int64s,
    muted: Uint8s,
    event: Scalar,
    counters: Uint16s,
    hits: Int32s,
    output: Int32s,
    per_event: Int64s,
) -> tuple[Scalar, Scalar]:
    """Write the slots of events from `event` on until one does not fit; returns that event and the ids written."""
    written = 0
    n_attributes, n_events = keys.shape
    while event < n_events:
        for k in range(len(counters)):  # a slice that is assigned takes Numba twice as long as all of this kernel
            counters[k] = f.needed[k]
        n_hits: Scalar = np.int64(0)
        for box in f.free_boxes:
            hits[n_hits] = box
            n_hits += 1
        for a in range(n_attributes):
            key = keys[a, event]
            if key == NULL_KEY:
                continue
            begin, end = f.least_offsets[a], f.least_offsets[a + 1]
            stop = _first_above(f.least_keys, begin, end, key)
            n_hits = _satisfy(f.least_boxes, begin, stop, counters, hits, n_hits)
            begin, end = f.most_offsets[a], f.most_offsets[a + 1]
            start = _first_above(f.most_keys, begin, end, key - 1)  # no key is NULL's, so there is one below
            n_hits = _satisfy(f.most_boxes, start, end, counters, hits, n_hits)
            begin, end = f.equal_offsets[a], f.equal_offsets[a + 1]
            start = _first_above(f.equal_keys, begin, end, key - 1)
            stop = _first_above(f.equal_keys, start, end, key)
            n_hits = _satisfy(f.equal_boxes, start, stop, counters, hits, n_hits)
        _sort(hits, n_hits)  # the order of boxes is that of slots
        first = written
        last = -1
        for h in range(n_hits):
            slot = f.slot_of_box[hits[h]]
            if slot == last or muted[slot]:
                continue
            if written == len(output):
                return event, first
            output[written] = slot
            written += 1
            last = slot
        per_event[event] = written - first
        event += 1
    return event, written
