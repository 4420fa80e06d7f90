"""Enumeration: the joining pairs of a block of events, from the boxes that they affect.

A box's partners are one stretch of its event's run, c_lo <= c <= c_hi, where c is an attribute of the partner or, of a
band join, its difference with the event (`weir.index.bands`); what the plane does not know is checked: the
event's other attributes once a box, the partner's other attributes and the distance of the two times once a pair. A
NULL satisfies no check.

Invariants: slots ascend within an event, places ascend within (event, slot), no (event, slot, place) is written twice.
Why: boxes come ascending, so slots do and the boxes of one slot are neighbours; a lone box is walked once from left to
right; several boxes of one slot are walked together, place by place, and the first that accepts a place ends the
tests of it.
Cost: two short binary searches and a copy for a box without checks; else a test a place of its stretch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.bands.runs import Run, climb, first_above
from weir.index.boxes import Int32s, Int64s, Uint8s, read_only
from weir.index.jit import Scalar, kernel
from weir.index.joins.instructions import pick
from weir.index.joins.planes import Plane
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

SPARE = 4  # pairs that are written without a look at how many there are; what is too many is overwritten
_FEW_MAX = 32  # boxes of one slot that are sorted by insertion

_EVENT, _PARTNER, _TIME = 1, 2, 4  # bits of a trait: which kinds of checks a box has


class Checks(NamedTuple):
    """What is left to check of each box: CSR by box, closed intervals over keys."""

    event_offsets: Int64s  # int64[n+1]: the checks of box i on the event's side are offsets[i] .. offsets[i+1]
    event_attribute: Int32s  # int32[·]: a row of the events' `columns`
    event_lo: Int64s  # int64[·]: least key that satisfies the check
    event_hi: Int64s  # int64[·]: greatest key that satisfies it
    partner_offsets: Int64s  # int64[n+1]: the same for the partners' side
    partner_attribute: Int32s  # int32[·]: a row of the partners' `columns`
    partner_lo: Int64s  # int64[·]
    partner_hi: Int64s  # int64[·]
    slot_of_box: Int32s  # int32[n]: nondecreasing
    apart_lo: Int64s  # int64[n]: least event time − partner time, µs; KEY_MIN for none
    apart_hi: Int64s  # int64[n]: greatest; KEY_MAX for none


class Side(NamedTuple):
    """What is checked of the events, or of the partners by place."""

    times: Int64s  # int64[e]: µs
    columns: Int64s  # int64[k, e]: keys of the attributes that checks name; NULL_KEY for NULL


class Boxes(NamedTuple):
    """The affected boxes of a block of events, and the events' runs."""

    offsets: Int64s  # int64[e+1]
    boxes: Int32s  # int32[h]: ascending within an event
    begin: Int64s  # int64[e]
    end: Int64s  # int64[e]
    offset: Int64s  # int64[e]: what the event brings to differences; of a band join only


def traits_of(checks: Checks) -> Uint8s:
    """Which kinds of checks each box has; worth keeping with the checks when they serve many batches."""
    traits = np.zeros(len(checks.slot_of_box), dtype=np.uint8)
    if len(checks.event_attribute):
        traits |= np.where(checks.event_offsets[1:] > checks.event_offsets[:-1], np.uint8(_EVENT), np.uint8(0))
    if len(checks.partner_attribute):
        traits |= np.where(checks.partner_offsets[1:] > checks.partner_offsets[:-1], np.uint8(_PARTNER), np.uint8(0))
    timed = (checks.apart_lo > KEY_MIN) | (checks.apart_hi < KEY_MAX)
    traits |= np.where(timed, np.uint8(_TIME), np.uint8(0))
    return read_only(traits)


@kernel
def enumerate_pairs(
    block: Boxes,
    run: Run,
    is_band: Scalar,
    plane: Plane,
    checks: Checks,
    traits: Uint8s,
    events: Side,
    partners: Side,
    first: Scalar,
    event: Scalar,
    candidate: Scalar,
    counting: Scalar,
    used_max: Scalar,
    slots: Int32s,
    places: Int32s,
    per_event: Int64s,
    counts: Int64s,
) -> tuple[Scalar, Scalar, Scalar]:
    """Write pairs from a candidate on until more than `used_max` are written, or count all of the block.

    There is room behind `used_max` for the longest run, which is what one slot of one event has at most, and some to
    spare. Returns where to go on (event and candidate) and how many pairs were written.
    """
    # Arrays are taken out of their tuples once: within a loop each access would count references, which costs more
    # than what is done with the element.
    offsets, boxes, begin, end, offset = block.offsets, block.boxes, block.begin, block.end, block.offset
    c_lo, c_hi, slot_of_box = plane.c_lo, plane.c_hi, checks.slot_of_box
    event_offsets, event_attribute = checks.event_offsets, checks.event_attribute
    event_lo, event_hi = checks.event_lo, checks.event_hi
    partner_offsets, partner_attribute = checks.partner_offsets, checks.partner_attribute
    partner_lo, partner_hi = checks.partner_lo, checks.partner_hi
    apart_lo, apart_hi = checks.apart_lo, checks.apart_hi
    event_times, event_columns = events.times, events.columns
    place_times, place_columns = partners.times, partners.columns
    used = np.int64(0)  # not 0, of whose own type everything that takes it would be compiled once more
    for e in range(event, len(begin)):
        h, h_end = offsets[e], offsets[e + 1]
        if e == event and candidate > h:
            h = candidate
        run_begin, run_end = begin[e], end[e]
        time = event_times[first + e]
        used_before = used
        while h < h_end:
            if used > used_max:
                per_event[first + e] += used - used_before
                return e, h, used
            box = boxes[h]
            slot = slot_of_box[box]
            trait = traits[box]
            h += 1
            if h < h_end and slot_of_box[boxes[h]] == slot:
                h -= 1
                group_end = h + 2
                while group_end < h_end and slot_of_box[boxes[group_end]] == slot:
                    group_end += 1
                found = _walk_together(
                    boxes[h:group_end],
                    plane,
                    checks,
                    traits,
                    events,
                    partners,
                    run,
                    is_band,
                    run_begin,
                    run_end,
                    offset[e],
                    first + e,
                    counting,
                    places,
                    used,
                )
                if counting:
                    counts[slot] += found
                else:
                    slots[used : used + found] = slot
                    used += found
                h = group_end
                continue
            if trait & _EVENT:
                k, k_end = event_offsets[box], event_offsets[box + 1]
                if not _accepted(k, k_end, event_attribute, event_lo, event_hi, event_columns, first + e):
                    continue
            low, high = _stretch(run, is_band, run_begin, run_end, c_lo[box], c_hi[box], offset[e])
            if not trait & (_PARTNER | _TIME):
                if counting:
                    counts[slot] += high - low
                    continue
                for i in range(SPARE):  # most boxes have few partners, and a loop that ends anywhere is mispredicted
                    slots[used + i] = slot
                    places[used + i] = low + i
                for i in range(SPARE, high - low):
                    slots[used + i] = slot
                    places[used + i] = low + i
                used += high - low
                continue
            k, k_end = partner_offsets[box], partner_offsets[box + 1]
            least, most = apart_lo[box], apart_hi[box]
            is_timed = trait & _TIME
            for p in range(low, high):
                if is_timed and not least <= time - place_times[p] <= most:
                    continue
                if k < k_end and not _accepted(k, k_end, partner_attribute, partner_lo, partner_hi, place_columns, p):
                    continue
                if counting:
                    counts[slot] += 1
                else:
                    slots[used] = slot
                    places[used] = p
                    used += 1
        per_event[first + e] += used - used_before
    return len(begin), 0, used


@kernel
def _walk_together(
    boxes: Int32s,
    plane: Plane,
    checks: Checks,
    traits: Uint8s,
    events: Side,
    partners: Side,
    run: Run,
    is_band: Scalar,
    begin: Scalar,
    end: Scalar,
    offset: Scalar,
    event: Scalar,
    counting: Scalar,
    places: Int32s,
    used: Scalar,
) -> Scalar:
    """Write or count the places that one of a slot's boxes accepts, each once and ascending; returns how many."""
    c_lo, c_hi = plane.c_lo, plane.c_hi
    offsets, attribute = checks.event_offsets, checks.event_attribute
    lo, hi, columns = checks.event_lo, checks.event_hi, events.columns
    stretches = np.empty((4, len(boxes)), dtype=np.int64)
    lows, highs, box_of, active = stretches[0], stretches[1], stretches[2], stretches[3]
    n = np.int64(0)
    for box in boxes:
        if traits[box] & _EVENT and not _accepted(offsets[box], offsets[box + 1], attribute, lo, hi, columns, event):
            continue
        lows[n], highs[n] = _stretch(run, is_band, begin, end, c_lo[box], c_hi[box], offset)
        box_of[n] = box
        n += 1
    if n == 0:
        return 0
    _sort_stretches(stretches, n)
    offsets, attribute = checks.partner_offsets, checks.partner_attribute
    lo, hi, columns = checks.partner_lo, checks.partner_hi, partners.columns
    apart_lo, apart_hi, place_times = checks.apart_lo, checks.apart_hi, partners.times
    time = events.times[event]
    # `active` are the boxes whose stretch has begun; one that ended is taken out when it is met.
    n_active = begun = found = 0
    p = lows[0]
    while True:
        while begun < n and lows[begun] <= p:
            active[n_active] = begun
            n_active += 1
            begun += 1
        i = 0
        while i < n_active:
            s = active[i]
            if highs[s] <= p:
                n_active -= 1
                active[i] = active[n_active]
                continue
            box = box_of[s]
            accepted = not traits[box] & _TIME or apart_lo[box] <= time - place_times[p] <= apart_hi[box]
            if accepted and traits[box] & _PARTNER:
                accepted = _accepted(offsets[box], offsets[box + 1], attribute, lo, hi, columns, p)
            if accepted:
                if not counting:
                    places[used + found] = p
                found += 1
                break
            i += 1
        if n_active > 0:
            p += 1
        elif begun < n:
            p = lows[begun]
        else:
            return found


@kernel
def _sort_stretches(stretches: Int64s, n: Scalar) -> None:
    """Order the columns by where they begin. Boxes of a slot often come in that order already."""
    if n > _FEW_MAX:
        order = np.argsort(stretches[0, :n])
        stretches[:, :n] = stretches[:, :n][:, order]
        return
    for i in range(1, n):
        low, high, box = stretches[0, i], stretches[1, i], stretches[2, i]
        k = i
        while k > 0 and stretches[0, k - 1] > low:
            stretches[0, k], stretches[1, k], stretches[2, k] = (
                stretches[0, k - 1],
                stretches[1, k - 1],
                stretches[2, k - 1],
            )
            k -= 1
        stretches[0, k], stretches[1, k], stretches[2, k] = low, high, box


@kernel
def _accepted(
    begin: Scalar, end: Scalar, attribute: Int32s, lo: Int64s, hi: Int64s, columns: Int64s, row: Scalar
) -> Scalar:
    """Whether a row satisfies the checks begin .. end; NULL satisfies none."""
    for k in range(begin, end):
        key = columns[attribute[k], row]
        if key == NULL_KEY or key < lo[k] or key > hi[k]:
            return False
    return True


@kernel
def _stretch(
    run: Run, is_band: Scalar, begin: Scalar, end: Scalar, lo: Scalar, hi: Scalar, offset: Scalar
) -> tuple[Scalar, Scalar]:
    """The places of the run whose values, or differences, are within lo .. hi, as begin and end.

    Two binary searches side by side, whose steps depend on the length of the run alone and not on what is found: no
    branch is mispredicted, and neither search waits for the other.
    """
    if is_band:
        first = climb(run, begin, end, lo, offset)
        return first, first_above(run, first, end, hi, offset)
    values = run.values
    low, high, n = begin, begin, end - begin
    while n > 1:
        half = n >> 1
        low = pick(values[low + half - 1] < lo, low + half, low)
        high = pick(values[high + half - 1] <= hi, high + half, high)
        n -= half
    if n == 1:
        low = pick(values[low] < lo, low + 1, low)
        high = pick(values[high] <= hi, high + 1, high)
    return low, high
