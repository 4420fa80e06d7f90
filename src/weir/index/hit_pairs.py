"""Pairs: the hits of a block as (event, slot) pairs, or counted by slot.

Hits come in pieces, probe by probe. They are brought together by event (a counting sort), and then each event's slots
are sorted, freed of duplicates (a query with several boxes that contain the event) and of muted slots, and written.
Few slots are sorted by comparing all with all, which needs no branch and one vector instruction for 8 of them; many go
through a set of bits, which sorts and removes duplicates in time linear in their number.

Invariant: the sets of bits are empty between events. Cost: 5 to 15 ns a pair. Over budget nothing is written and each
slot's events are counted instead (DESIGN.md section 4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Uint8s
from weir.index.jit import Scalar, kernel
from weir.index.probing import Hits

_LANES = 16  # slots that are compared with one in a step
_FEW_MAX = 3 * _LANES  # slots of an event that are sorted by comparing all with all
_SLOT_MAX = np.iinfo(np.int32).max
_WORD = 32  # bits that are used of a word, so that no product below overflows
# The multiples of a de Bruijn sequence have different top five bits for each power of two.
_LOWEST_BIT = np.zeros(_WORD, dtype=np.int64)
_LOWEST_BIT[[(0x077CB531 << bit & 0xFFFFFFFF) >> 27 for bit in range(_WORD)]] = np.arange(_WORD)


class Gathered(NamedTuple):
    """Buffers of a block: its hits by event, and what sorts them."""

    offsets: Int64s  # int64[block + 2]: where the slots of each event begin
    slots: Int32s  # int32[h]: slots by event
    few: Int32s  # int32[few]: slots of one event while they are sorted
    bits: Int64s  # int64[slots / 32]: set of slots
    bit_words: Int64s  # int64[slots / 1024]: set of the words of `bits` that are not zero
    bit_groups: Int64s  # int64[slots / 32768]: set of the words of `bit_words` that are not zero


def make_gathered(n_events: int, n_hits: int, n_slots: int) -> Gathered:
    """Buffers for blocks of so many events and hits."""
    words = -(-max(n_slots, 1) // _WORD)
    return Gathered(
        np.zeros(n_events + 2, dtype=np.int64),
        np.empty(n_hits, dtype=np.int32),
        np.empty(_FEW_MAX, dtype=np.int32),
        np.zeros(words, dtype=np.int64),
        np.zeros(-(-words // _WORD), dtype=np.int64),
        np.zeros(-(-words // _WORD**2), dtype=np.int64),
    )


@kernel
def write_pairs(
    hits: Hits,
    n_pieces: Scalar,
    gathered: Gathered,
    muted: Uint8s,
    any_muted: Scalar,
    has_multi: Scalar,
    output: Int32s,
    used: Scalar,
    before: Scalar,
    ends: Int64s,
) -> Scalar:
    """Append the slots of the block's events to `output`, and where each event's end, counted from `before`, to `ends`.

    Returns how much of `output` is used then; there must be room for all hits.
    """
    n = len(ends)
    _gather(gathered, hits, n, n_pieces)
    for i in range(n):
        begin, end = gathered.offsets[i], gathered.offsets[i + 1]
        used = write_slots(gathered, begin, end, muted, any_muted, has_multi, output, used)
        ends[i] = before + used
    return used


@kernel
def count_pairs(
    hits: Hits,
    n_pieces: Scalar,
    gathered: Gathered,
    n: Scalar,
    muted: Uint8s,
    any_muted: Scalar,
    has_multi: Scalar,
    counts: Int64s,
) -> None:
    """Add the block's events to the counts of the slots that they match."""
    _gather(gathered, hits, n, n_pieces)
    for i in range(n):
        begin, end = gathered.offsets[i], gathered.offsets[i + 1]
        _count_slots(gathered, begin, end, muted, any_muted, has_multi, counts)


@kernel
def _gather(gathered: Gathered, hits: Hits, n: Scalar, n_pieces: Scalar) -> None:
    """Bring the hits of a block together by event."""
    offsets, slots = gathered.offsets, gathered.slots
    pieces, hit_slots = hits.pieces, hits.slots
    offsets[: n + 2] = 0
    begin = np.int32(0)
    for k in range(n_pieces):
        offsets[pieces[k, 0] + 2] += pieces[k, 1] - begin
        begin = pieces[k, 1]
    for i in range(2, n + 1):
        offsets[i + 1] += offsets[i]
    begin = np.int32(0)
    for k in range(n_pieces):
        i = pieces[k, 0] + 1
        at, end = offsets[i], pieces[k, 1]
        for h in range(begin, end):
            slots[at] = hit_slots[h]
            at += 1
        offsets[i] = at
        begin = end


@kernel
def write_slots(
    gathered: Gathered,
    begin: Scalar,
    end: Scalar,
    muted: Uint8s,
    any_muted: Scalar,
    has_multi: Scalar,
    output: Int32s,
    used: Scalar,
) -> Scalar:
    """Write an event's slots to `output`: sorted, without duplicates, without muted ones."""
    if end - begin > _FEW_MAX:
        return _write_many(gathered, begin, end, muted, any_muted, output, used)
    slots, few = gathered.slots, gathered.few
    n = 0
    for h in range(begin, end):
        few[n] = slots[h]
        n += 0 if any_muted and muted[slots[h]] else 1
    filled = n
    while filled % _LANES:
        few[filled] = _SLOT_MAX
        filled += 1
    if has_multi:
        output[used : used + n] = -1
    # A slot's place is the number of smaller ones: many comparisons, but in one vector and without a branch.
    for k in range(n):
        slot = few[k]
        place = used
        for lane in range(0, filled, _LANES):
            window = few[lane : lane + _LANES]
            n_smaller = np.int32(0)
            for w in range(_LANES):
                n_smaller += np.int32(window[w] < slot)
            place += n_smaller
        output[place] = slot
    if not has_multi:
        return used + n
    kept = used  # equal slots went to one place, and the places after it are still empty
    for k in range(used, used + n):
        if output[k] >= 0:
            output[kept] = output[k]
            kept += 1
    return kept


@kernel
def _write_many(
    gathered: Gathered, begin: Scalar, end: Scalar, muted: Uint8s, any_muted: Scalar, output: Int32s, used: Scalar
) -> Scalar:
    """The same for many slots: a set of bits sorts and removes duplicates in time linear in their number."""
    bits, words, groups, slots = gathered.bits, gathered.bit_words, gathered.bit_groups, gathered.slots
    for h in range(begin, end):
        slot = np.int64(slots[h])
        if any_muted and muted[slot]:
            continue
        word = slot >> 5
        group = word >> 5
        bits[word] |= 1 << (slot & 31)
        words[group] |= 1 << (word & 31)
        groups[group >> 5] |= 1 << (group & 31)
    for g in range(len(groups)):
        of_groups = groups[g]
        groups[g] = 0
        while of_groups:
            group = (g << 5) + _lowest_bit(of_groups)
            of_groups &= of_groups - 1
            of_group = words[group]
            words[group] = 0
            while of_group:
                word = (group << 5) + _lowest_bit(of_group)
                of_group &= of_group - 1
                of_word = bits[word]
                bits[word] = 0
                while of_word:
                    output[used] = (word << 5) + _lowest_bit(of_word)
                    of_word &= of_word - 1
                    used += 1
    return used


@kernel
def _lowest_bit(word: Scalar) -> Scalar:
    """Number of the lowest bit set of a 32-bit word that is not 0."""
    return _LOWEST_BIT[(((word & -word) * 0x077CB531) & 0xFFFFFFFF) >> 27]


@kernel
def _count_slots(
    gathered: Gathered, begin: Scalar, end: Scalar, muted: Uint8s, any_muted: Scalar, has_multi: Scalar, counts: Int64s
) -> None:
    """Count one event for each of its slots once."""
    bits, slots = gathered.bits, gathered.slots
    for h in range(begin, end):
        slot = np.int64(slots[h])
        if any_muted and muted[slot]:
            continue
        if has_multi:
            bit = 1 << (slot & 31)
            if bits[slot >> 5] & bit:
                continue
            bits[slot >> 5] |= bit
        counts[slot] += 1
    if has_multi:
        for h in range(begin, end):
            bits[np.int64(slots[h]) >> 5] = 0
