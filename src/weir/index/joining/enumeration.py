"""Enumeration: the joining pairs of a block of events, from the boxes that they affect.

A box's partners are one stretch of its event's run, c_lo <= c <= c_hi, where c is an attribute of the partner or, of a
band join, its difference with the event (`weir.index.bands`); what the plane does not know is checked: the
event's other attributes once a box, the partner's other attributes and the distance of the two times once a pair. A
NULL satisfies no check.

Invariants: slots ascend within an event, places ascend within (event, slot), no (event, slot, place) is written twice.
Why: boxes come ascending, so slots do and the boxes of one slot are neighbours; a lone box is walked once from left to
right; several boxes of one slot are walked together, place by place, and the first that accepts a place ends the
tests of it.
Cost: for a box without checks two short binary searches and a copy; with checks, a test for each place of its stretch.
"""

from __future__ import annotations

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Matches
from weir.index.jit import Scalar, kernel
from weir.index.meeting.checks import EVENT, PARTNER, SPARE, TIME, PairBuffer, satisfies
from weir.index.meeting.index_contract import Pairing
from weir.index.meeting.partner_runs import PartnerRun, climb, first_above, stretch

_FEW_MAX = 32  # boxes of one slot that are sorted by insertion


@kernel
def enumerate_pairs(
    of: Pairing, found: Matches, first: Scalar, event: Scalar, candidate: Scalar, counting: Scalar, out: PairBuffer
) -> tuple[Scalar, Scalar, Scalar]:
    """Write pairs from a candidate on until more than `used_max` are written, or count all of the block.

    `found` are the boxes that the events from `first` on affect. Returns where to go on, as event and candidate of the
    block, and how many pairs were written. One slot of one event has at most as many pairs as the longest run places.
    """
    # Arrays are taken out of their tuples once: within a loop each access would count references, which costs more
    # than what is done with the element.
    run, checks, traits = of.run, of.checks, of.checks.traits
    offsets, boxes, begin, end, offset = found.offsets, found.slots, of.begin, of.end, of.offset
    c_lo, c_hi, slot_of_box = of.plane.c_lo, of.plane.c_hi, checks.slot_of_box
    event_offsets, event_attribute = checks.event_offsets, checks.event_attribute
    event_lo, event_hi = checks.event_lo, checks.event_hi
    partner_offsets, partner_attribute = checks.partner_offsets, checks.partner_attribute
    partner_lo, partner_hi = checks.partner_lo, checks.partner_hi
    apart_lo, apart_hi = checks.apart_lo, checks.apart_hi
    event_times, event_columns = of.events.times, of.events.columns
    place_times, place_columns = of.partners.times, of.partners.columns
    slots, places, per_event, counts = out.slots, out.places, out.per_event, out.counts
    is_band = len(offset) > 0
    n_events = len(offsets) - 1
    used = np.int64(0)  # not 0, of whose own type everything that takes it would be compiled once more
    for e in range(event, n_events):
        h, h_end = offsets[e], offsets[e + 1]
        if e == event and candidate > h:
            h = candidate
        run_begin, run_end = begin[first + e], end[first + e]
        brought = offset[first + e] if is_band else np.int64(0)
        time = event_times[first + e]
        used_before = used
        while h < h_end:
            if used > out.used_max:
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
                n_found = _walk_together(of, boxes[h:group_end], first + e, counting, places, used)
                if counting:
                    counts[slot] += n_found
                else:
                    slots[used : used + n_found] = slot
                    used += n_found
                h = group_end
                continue
            if trait & EVENT:
                k, k_end = event_offsets[box], event_offsets[box + 1]
                if not satisfies(k, k_end, event_attribute, event_lo, event_hi, event_columns, first + e):
                    continue
            low, high = _stretch(run, is_band, run_begin, run_end, c_lo[box], c_hi[box], brought)
            if not trait & (PARTNER | TIME):
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
            is_timed = trait & TIME
            for p in range(low, high):
                if is_timed and not least <= time - place_times[p] <= most:
                    continue
                if k < k_end and not satisfies(k, k_end, partner_attribute, partner_lo, partner_hi, place_columns, p):
                    continue
                if counting:
                    counts[slot] += 1
                else:
                    slots[used] = slot
                    places[used] = p
                    used += 1
        per_event[first + e] += used - used_before
    return n_events, 0, used


@kernel
def _walk_together(of: Pairing, boxes: Int32s, event: Scalar, counting: Scalar, places: Int32s, used: Scalar) -> Scalar:
    """Write or count the places that one of a slot's boxes accepts, each once and ascending; returns how many."""
    checks, traits, events, partners = of.checks, of.checks.traits, of.events, of.partners
    c_lo, c_hi, run, begin, end = of.plane.c_lo, of.plane.c_hi, of.run, of.begin[event], of.end[event]
    is_band = len(of.offset) > 0
    brought = of.offset[event] if is_band else np.int64(0)
    offsets, attribute = checks.event_offsets, checks.event_attribute
    lo, hi, columns = checks.event_lo, checks.event_hi, events.columns
    stretches = np.empty((4, len(boxes)), dtype=np.int64)
    lows, highs, box_of, active = stretches[0], stretches[1], stretches[2], stretches[3]
    n = np.int64(0)
    for box in boxes:
        if traits[box] & EVENT and not satisfies(offsets[box], offsets[box + 1], attribute, lo, hi, columns, event):
            continue
        lows[n], highs[n] = _stretch(run, is_band, begin, end, c_lo[box], c_hi[box], brought)
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
            accepted = not traits[box] & TIME or apart_lo[box] <= time - place_times[p] <= apart_hi[box]
            if accepted and traits[box] & PARTNER:
                accepted = satisfies(offsets[box], offsets[box + 1], attribute, lo, hi, columns, p)
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
    """Order the columns by where they begin; the fourth row is room. Boxes of a slot often come in that order already.

    Loops, because Numba takes a second to compile an assigned slice.
    """
    if n > _FEW_MAX:
        order = np.argsort(stretches[0, :n])
        for row in range(3):
            for i in range(n):
                stretches[3, i] = stretches[row, order[i]]
            for i in range(n):
                stretches[row, i] = stretches[3, i]
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
def _stretch(
    run: PartnerRun, is_band: Scalar, begin: Scalar, end: Scalar, lo: Scalar, hi: Scalar, offset: Scalar
) -> tuple[Scalar, Scalar]:
    """The places of the run whose values, or differences, are within lo .. hi, as begin and end."""
    if is_band:
        first = climb(run, begin, end, lo, offset)
        return first, first_above(run, first, end, hi, offset)
    return stretch(run.values, begin, end, lo, hi)
