"""Checks: what is left to ask of a pair once its box is known, and the buffer that pairs are written to.

A box of a join is found through some of its constraints. The others are checked: of the event, of the partner, and how
far apart their times are. Whoever writes pairs does that, walking the partners of an affected box
(`weir.index.joining.enumeration`) or having found box and partner together (`weir.index.trees.partial_pairs`).

A NULL satisfies no check.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Uint8s, frozen
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

SPARE = 4  # pairs that are written without a look at how many there are; what is too many is overwritten

EVENT, PARTNER, TIME = 1, 2, 4  # bits of a trait: which kinds of checks a box has


class Remaining(NamedTuple):
    """Constraints of one side that are left to check: CSR by box, closed intervals over keys."""

    offsets: Int64s  # int64[n+1]: the checks of box i are offsets[i] .. offsets[i+1]
    attribute: Int32s  # int32[·]: a row of the side's `columns`
    lo: Int64s  # int64[·]: least key that satisfies the check
    hi: Int64s  # int64[·]: greatest key that satisfies it


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
    traits: Uint8s  # uint8[n]: which kinds of checks each box has
    is_timed: bool  # some box has bounds of time
    is_alone: bool  # no slot has two boxes


class PairBuffer(NamedTuple):
    """Where pairs are written, or counted."""

    slots: Int32s  # int32[·]
    places: Int32s  # int32[·]
    used_max: int  # once more pairs are written, the kernel returns; there is room for the longest run and SPARE behind
    per_event: Int64s  # int64[e]: pairs written of each event
    counts: Int64s  # int64[n_slots]


def make_checks(
    event: Remaining, partner: Remaining, slot_of_box: Int32s, apart: tuple[Int64s, Int64s], *, is_timed: bool = True
) -> Checks:
    """The checks of boxes; times are not looked at unless `is_timed`. Worth keeping when they serve many batches."""
    traits = np.zeros(len(slot_of_box), dtype=np.uint8)
    for left, bit in ((event, EVENT), (partner, PARTNER)):
        if len(left.attribute):
            traits |= np.where(left.offsets[1:] > left.offsets[:-1], np.uint8(bit), np.uint8(0))
    if is_timed:
        traits |= np.where((apart[0] > KEY_MIN) | (apart[1] < KEY_MAX), np.uint8(TIME), np.uint8(0))
    any_time = bool(np.any(traits & TIME)) if is_timed else False
    is_alone = bool(np.all(slot_of_box[1:] > slot_of_box[:-1]))
    return frozen(Checks(*event, *partner, slot_of_box, *apart, traits, any_time, is_alone))


@kernel
def satisfies(
    begin: Scalar, end: Scalar, attribute: Int32s, lo: Int64s, hi: Int64s, columns: Int64s, row: Scalar
) -> Scalar:
    """Whether a row satisfies the checks begin .. end; NULL satisfies none."""
    for k in range(begin, end):
        key = columns[attribute[k], row]
        if key == NULL_KEY or key < lo[k] or key > hi[k]:
            return False
    return True
