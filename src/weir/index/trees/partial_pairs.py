"""Pairs from a tree: the boxes that an event and its partners satisfy, found together and written in order.

For an event the leaves of its own side are looked at once (`weir.index.trees.byte_boxes`): what is left of a leaf are
the lanes that the event satisfies, as bits. Each partner is compared with these lanes, all of them at once. A lane that
is left is a pair of a box and a place. Where a code is in doubt, the keys of the event and of the partner decide, and
only of boxes that would have a pair. So nothing is walked twice: that is partial dimension filtering (CSJQ, 3.3) down
to the pair, T1 + m' · T2 for m' partners.

Pairs come leaf by leaf. They are sorted by box, digit by digit, before they are written; times are checked then. A box
is in one leaf and its places come ascending, so only the boxes of one slot have to be put together.

Invariants: those of `weir.index.joining.enumeration`, of which this is the second implementation.
Cost of an event, W5: 20 to 30 ns a leaf that its side may meet, 4 a leaf and partner, 30 a pair.
Memory: 16 bytes a pair of one event, at most PAIRS_MAX of them; an event with more is refused and left to others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s, Uint8s, frozen
from weir.index.jit import Scalar, kernel
from weir.index.meeting.checks import EVENT, PARTNER, TIME, Checks, PairBuffer, satisfies
from weir.index.meeting.index_contract import REFUSED, TAKEN, Pairing
from weir.index.meeting.instructions import (
    BYTES,
    bytes_at_ends,
    bytes_beyond,
    bytes_same,
    bytes_within,
    lowest_bit,
    prefetch,
    without_lowest_bit,
)
from weir.index.meeting.lean import lean, thin
from weir.index.trees.byte_boxes import LEAF_BYTES, ByteBoxes

PAIRS_MAX = 1 << 20  # pairs of one event, in doubt or not
AHEAD = 4  # leaves that are asked for before they are looked at
_FEW_MAX = 24  # pairs of an event that are sorted by insertion
_DIGIT_BITS = 10
_ALL, _NONE, _ONE = np.uint64(0xFFFF_FFFF_FFFF_FFFF), np.uint64(0), np.uint64(1)
_PLACE_BITS, _PLACE = np.uint64(32), np.uint64(0xFFFF_FFFF)

Uint64s = npt.NDArray[np.uint64]


class Codes(NamedTuple):
    """Rows of a side as `weir.index.trees.byte_boxes` sees them."""

    coarse: Uint8s  # uint8[rows, d of the side]
    fine: Uint8s  # uint8[rows, d of the side]: where in their cells keys are


class PairSearch(NamedTuple):
    """What is read during a search."""

    groups: Uint8s  # as in ByteBoxes
    leaves: Uint8s
    fine: Uint8s
    box: Int32s
    own: Codes  # events
    others: Codes  # partners, by place
    n_doubtful: Int64s  # int64[2]: the first dimensions of each side in which a code may be in doubt
    muted: Uint8s  # uint8[n]
    any_muted: bool
    digits: int  # by which boxes are sorted


class Room(NamedTuple):
    """Buffers for one event."""

    leaf: Int32s  # int32[leaves]: those that are not ruled out
    place: Int32s  # int32[longest run]: partners that are left with lanes of a leaf
    lanes: Uint64s  # uint64[longest run]: these lanes, as bits
    pairs: Uint64s  # uint64[PAIRS_MAX]: box and place of each pair
    other: Uint64s  # uint64[PAIRS_MAX]: for sorting
    counts: Int64s  # int64[2^_DIGIT_BITS]


class TreeWriter:
    """One search for pairs: what `weir.index.meeting.index_contract.PairWriter` says."""

    def __init__(self, search: PairSearch, of: Pairing) -> None:
        run_max = int((of.end - of.begin).max(initial=0))
        self._search, self._of = frozen(search), of
        self._room = Room(
            np.empty(search.box.shape[0], np.int32),
            np.empty(run_max, np.int32),
            np.empty(run_max, np.uint64),
            np.empty(PAIRS_MAX + BYTES, np.uint64),  # pages that nothing is written to cost nothing
            np.empty(PAIRS_MAX + BYTES, np.uint64),
            np.empty(1 << _DIGIT_BITS, np.int64),
        )

    def write(self, taken: Uint8s, first: int, event: int, counting: bool, out: PairBuffer) -> tuple[int, int]:
        return write_pairs(self._search, self._of, taken, first, event, counting, self._room, out)


def make_search(
    boxes: ByteBoxes, own: Codes, others: Codes, n_doubtful: tuple[int, int], muted: Uint8s, n_boxes: int
) -> PairSearch:
    """What is read by a search for events with these codes, `others` of their partners."""
    return PairSearch(
        boxes.groups,
        boxes.leaves,
        boxes.fine,
        boxes.box,
        own,
        others,
        np.array(n_doubtful, np.int64),
        np.ascontiguousarray(muted, dtype=np.uint8),
        bool(muted.any()),
        max(1, -(-max(n_boxes - 1, 1).bit_length() // _DIGIT_BITS)),
    )


@kernel
def write_pairs(
    search: PairSearch,
    of: Pairing,
    taken: Uint8s,
    first: Scalar,
    event: Scalar,
    counting: Scalar,
    room: Room,
    out: PairBuffer,
) -> tuple[Scalar, Scalar]:
    """Write or count the pairs of the events that are taken, as `PairWriter.write` says."""
    begin, end, per_event, slots, places, counts = of.begin, of.end, out.per_event, out.slots, out.places, out.counts
    used = np.int64(0)
    for e in range(event, first + len(taken)):
        if taken[e - first] != TAKEN or begin[e] == end[e]:
            continue
        n = _find(search, of, e, room)
        if n < 0 or n > len(slots):
            taken[e - first] = REFUSED
            continue
        if used + n > len(slots):
            return e, used
        is_turned = _sort(room, n, search.digits)
        last = _write_event(of.checks, of.events.times[e], of.partners.times, room, is_turned, n, out, used)
        if not of.checks.is_alone:
            last = _put_together(slots, places, used, last)
        if counting:
            for i in range(used, last):
                counts[slots[i]] += 1
        else:
            per_event[e] += last - used
            used = last
    return first + len(taken), used


@lean
def _find(search: PairSearch, of: Pairing, event: Scalar, room: Room) -> Scalar:
    """The pairs of an event into room.pairs, those of a box together, its places ascending; −1: there are too many."""
    leaves, fine, box_of, muted = search.leaves, search.fine, search.box, search.muted
    own, own_fine, others, others_fine = search.own.coarse, search.own.fine, search.others.coarse, search.others.fine
    doubtful_own, doubtful_others, any_muted = search.n_doubtful[0], search.n_doubtful[1], search.any_muted
    leaf_of, place_of, lanes_of, pairs = room.leaf, room.place, room.lanes, room.pairs
    n_own, n_others, n_dims = own.shape[1], others.shape[1], leaves.shape[1]
    begin, end = of.begin[event], of.end[event]
    n_leaves = _open_leaves(search.groups, own, event, leaf_of)
    n = np.int64(0)
    for k in range(n_leaves):
        if k + AHEAD < n_leaves:
            _ask_for(leaves, np.int64(leaf_of[k + AHEAD]) * n_dims * LEAF_BYTES, n_dims)
        leaf = np.int64(leaf_of[k])
        first = leaf * n_dims * LEAF_BYTES
        left = bytes_within(leaves, own, first, event * n_own, n_own, _ALL)
        if any_muted:
            left = _without_muted(left, box_of, leaf, muted)
        if left == _NONE:
            continue
        first_other = first + n_own * LEAF_BYTES
        n_hit = np.int64(0)
        anyone = _NONE
        for p in range(begin, end):
            lanes = bytes_within(leaves, others, first_other, p * n_others, n_others, left)
            place_of[n_hit] = p
            lanes_of[n_hit] = lanes
            anyone |= lanes
            n_hit += np.int64(lanes != _NONE)
        if anyone == _NONE:
            continue
        if bytes_at_ends(leaves, own, first, event * n_own, doubtful_own) & anyone:
            anyone, doubtful = _refined(leaves, own, fine, own_fine, first, event * n_own, doubtful_own, anyone)
            if doubtful:
                anyone = _decided_for_event(of, box_of, leaf, event, anyone, doubtful)
        for i in range(n_hit):
            lanes = lanes_of[i] & anyone
            place = place_of[i]
            at = np.int64(place) * n_others
            if bytes_at_ends(leaves, others, first_other, at, doubtful_others) & lanes:
                lanes, doubtful = _refined(leaves, others, fine, others_fine, first_other, at, doubtful_others, lanes)
                if doubtful:
                    lanes = _decided_for_partner(of, box_of, leaf, place, lanes, doubtful)
            if n + BYTES > len(pairs):
                return np.int64(-1)
            while lanes != _NONE:
                box = box_of[leaf, lowest_bit(lanes)]
                pairs[n] = (np.uint64(box) << _PLACE_BITS) | np.uint64(place)
                lanes = without_lowest_bit(lanes)
                n += 1
    return n


@lean
def _refined(
    leaves: Uint8s,
    codes: Uint8s,
    fine: Uint8s,
    fine_codes: Uint8s,
    first: Scalar,
    at: Scalar,
    dims: Scalar,
    lanes: Scalar,
) -> tuple[Scalar, Scalar]:
    """Of some lanes those that a row's places in its cells leave, and of these the ones that only keys decide."""
    left, doubtful = lanes, _NONE
    for j in range(dims):
        place = first + j * LEAF_BYTES
        left &= ~bytes_beyond(leaves, codes, fine, fine_codes, place, at + j)
        doubtful |= bytes_same(leaves, codes, fine, fine_codes, place, at + j)
    return left, doubtful & left


@lean
def _open_leaves(groups: Uint8s, own: Uint8s, event: Scalar, leaf_of: Int32s) -> Scalar:
    """The leaves whose bounds hold the event."""
    n_own = own.shape[1]
    n = np.int64(0)
    for group in range(len(groups)):
        first = np.int64(group) * n_own * LEAF_BYTES
        left = bytes_within(groups, own, first, event * n_own, n_own, _ALL)
        while left != _NONE:
            leaf_of[n] = group * BYTES + lowest_bit(left)
            left = without_lowest_bit(left)
            n += 1
    return n


@thin
def _ask_for(leaves: Uint8s, first: Scalar, n_dims: Scalar) -> None:
    """Have a leaf on its way."""
    for line in range(2 * n_dims):
        prefetch(leaves, first + line * BYTES)


@lean
def _without_muted(left: Scalar, box_of: Int32s, leaf: Scalar, muted: Uint8s) -> Scalar:
    lanes = left
    while lanes != _NONE:
        lane = lowest_bit(lanes)
        lanes = without_lowest_bit(lanes)
        if muted[box_of[leaf, lane]]:
            left &= ~(_ONE << np.uint64(lane))
    return left


@lean
def _decided_for_event(
    of: Pairing, box_of: Int32s, leaf: Scalar, event: Scalar, lanes: Scalar, doubtful: Scalar
) -> Scalar:
    """Some lanes without those doubtful ones whose boxes do not hold the event's keys."""
    a_lo, a_hi, checks, columns, key = of.plane.a_lo, of.plane.a_hi, of.checks, of.events.columns, of.a[event]
    offsets, attribute, lo, hi = checks.event_offsets, checks.event_attribute, checks.event_lo, checks.event_hi
    while doubtful != _NONE:
        lane = lowest_bit(doubtful)
        doubtful = without_lowest_bit(doubtful)
        box = box_of[leaf, lane]
        holds = a_lo[box] <= key <= a_hi[box]
        if holds and checks.traits[box] & EVENT:
            holds = satisfies(offsets[box], offsets[box + 1], attribute, lo, hi, columns, event)
        if not holds:
            lanes &= ~(_ONE << np.uint64(lane))
    return lanes


@lean
def _decided_for_partner(
    of: Pairing, box_of: Int32s, leaf: Scalar, place: Scalar, lanes: Scalar, doubtful: Scalar
) -> Scalar:
    """The same for a partner's keys."""
    c_lo, c_hi, checks, columns, key = (
        of.plane.c_lo,
        of.plane.c_hi,
        of.checks,
        of.partners.columns,
        of.run.values[place],
    )
    offsets, attribute, lo, hi = checks.partner_offsets, checks.partner_attribute, checks.partner_lo, checks.partner_hi
    while doubtful != _NONE:
        lane = lowest_bit(doubtful)
        doubtful = without_lowest_bit(doubtful)
        box = box_of[leaf, lane]
        holds = c_lo[box] <= key <= c_hi[box]
        if holds and checks.traits[box] & PARTNER:
            holds = satisfies(offsets[box], offsets[box + 1], attribute, lo, hi, columns, place)
        if not holds:
            lanes &= ~(_ONE << np.uint64(lane))
    return lanes


@lean
def _sort(room: Room, n: Scalar, digits: Scalar) -> Scalar:
    """Order pairs by box; those of a box stay as they are. Whether they are in room.other then."""
    pairs, other, counts = room.pairs, room.other, room.counts
    if n <= _FEW_MAX:
        for i in range(1, n):
            pair = pairs[i]
            at = i
            while at > 0 and pairs[at - 1] > pair:
                pairs[at] = pairs[at - 1]
                at -= 1
            pairs[at] = pair
        return False
    mask = np.uint64((1 << _DIGIT_BITS) - 1)
    for digit in range(digits):
        shift = _PLACE_BITS + np.uint64(digit * _DIGIT_BITS)
        counts[:] = 0
        for i in range(n):
            counts[(pairs[i] >> shift) & mask] += 1
        before = np.int64(0)
        for value in range(len(counts)):
            of_value = counts[value]
            counts[value] = before
            before += of_value
        for i in range(n):
            own = (pairs[i] >> shift) & mask
            other[counts[own]] = pairs[i]
            counts[own] += 1
        pairs, other = other, pairs
    return digits % 2 == 1


@lean
def _write_event(
    checks: Checks,
    time: Scalar,
    place_times: Int64s,
    room: Room,
    is_turned: Scalar,
    n: Scalar,
    out: PairBuffer,
    used: Scalar,
) -> Scalar:
    """Write the pairs whose times are as their boxes ask; returns how many pairs there are then in all."""
    pairs = room.other if is_turned else room.pairs
    slots, places, slot_of_box, traits = out.slots, out.places, checks.slot_of_box, checks.traits
    apart_lo, apart_hi = checks.apart_lo, checks.apart_hi
    if not checks.is_timed:
        for i in range(n):
            slots[used + i] = slot_of_box[np.int64(pairs[i] >> _PLACE_BITS)]
            places[used + i] = np.int64(pairs[i] & _PLACE)
        return used + n
    for i in range(n):
        box, place = np.int64(pairs[i] >> _PLACE_BITS), np.int64(pairs[i] & _PLACE)
        slots[used] = slot_of_box[box]
        places[used] = place
        holds = not traits[box] & TIME or apart_lo[box] <= time - place_times[place] <= apart_hi[box]
        used += np.int64(holds)
    return used


@kernel
def _put_together(slots: Int32s, places: Int32s, begin: Scalar, end: Scalar) -> Scalar:
    """Of an event's pairs, those of a slot with several boxes: ascending, each once. Returns where they end then."""
    used = i = begin
    while i < end:
        slot, first, is_ordered = slots[i], i, True
        i += 1
        while i < end and slots[i] == slot:
            is_ordered &= places[i] > places[i - 1]
            i += 1
        if not is_ordered:
            places[first:i].sort()
        for k in range(first, i):
            if k == first or places[k] != places[used - 1]:
                slots[used] = slot
                places[used] = places[k]
                used += 1
    return used
