"""Access attributes of joins: through which attribute of each side the queries of a segment are reached.

A plane of `weir.index.joins` has one attribute of the event's side and one of the partners', so every slot gets one
access attribute a side, or none; what else its boxes constrain is checked afterwards. It must be an attribute that
*all* boxes of the slot constrain; among these candidates it is the most selective, an equality before an interval
where they are about equally so. Selectivity is estimated from the constants alone: the share of all end points of the
attribute, or of a sample of them, that an interval covers, which for an equality is the frequency of its constant.

Slots with the same candidates choose alike, by the mean of their selectivities: every distinct pair of access
attributes is a structure that each event probes, and every access attribute an order in which the other side's rows
are kept, so a few slots that would do better alone do not pay. For the same reason a side has at most `ACCESSES_MAX`
of them, those that most slots would choose; slots choose among these, or have none. Differences of pairs are chosen in
the same way, as if they were of a third side, but any number of them.
Cost: some sorts of the constraints by slot and attribute.
"""

from __future__ import annotations

import numpy as np

from weir.boxes.bounds import Bools, Ints
from weir.boxes.instances import RowBoxes
from weir.index.access import Floats
from weir.index.keys import KEY_MAX, KEY_MIN

ACCESSES_MAX = 4  # distinct access attributes of a side
_SAMPLE = 4_096  # intervals of an attribute whose end points stand for all


def choose_accesses(boxes: RowBoxes, slots_count: int, side_of_attribute: Ints) -> Ints:
    """int64[n_slots, 3]: the access attribute of each slot on each side, and its difference; −1 for none.

    Rows of boxes are slots; an attribute whose side is none of the three is not chosen.
    """
    chosen = np.full((slots_count, 3), -1, np.int64)
    attributes_count = len(side_of_attribute)
    if not len(boxes.constraint_attribute):
        return chosen
    slot_of_constraint = np.repeat(boxes.row_of_box, np.diff(boxes.constraint_offsets))
    attribute, lo, hi = boxes.constraint_attribute, boxes.constraint_lo, boxes.constraint_hi
    codes, which, counts = np.unique(
        slot_of_constraint * attributes_count + attribute, return_inverse=True, return_counts=True
    )
    slot, attribute_of_code = np.divmod(codes, attributes_count)
    boxes_of_slot = np.bincount(boxes.row_of_box, minlength=slots_count)
    narrows = np.bincount(which, weights=(lo > KEY_MIN) | (hi < KEY_MAX)) > 0
    eligible = (counts == boxes_of_slot[slot]) & narrows
    share = np.bincount(which, weights=_shares(attribute, lo, hi, attributes_count)).astype(np.float64)
    is_equality = np.bincount(which, weights=lo == hi) == counts
    for side in (0, 1, 2):
        mine = np.flatnonzero(eligible & (side_of_attribute[attribute_of_code] == side))
        score = _scores(slot[mine], attribute_of_code[mine], share[mine], is_equality[mine], attributes_count)
        best = _best(slot[mine], score)
        wanted = np.bincount(attribute_of_code[mine[best]], minlength=attributes_count)
        common = np.argsort(-wanted, kind="stable")[: ACCESSES_MAX if side < 2 else None]
        allowed = np.isin(attribute_of_code[mine], common)
        mine, score = mine[allowed], score[allowed]
        best = mine[_best(slot[mine], score)]
        chosen[slot[best], side] = attribute_of_code[best]
    return chosen


def _best(slot: Ints, score: Ints) -> Ints:
    """For each slot that occurs, the place of its least score; slots ascend."""
    order = np.lexsort((score, slot))
    first = np.ones(len(slot), bool)
    first[1:] = slot[order][1:] != slot[order][:-1]
    return order[first]


def _scores(slot: Ints, attribute: Ints, share: Floats, is_equality: Bools, attributes_count: int) -> Ints:
    """For each candidate, the lower the better: by selectivity, then equalities first, then the lesser attribute.

    Slots ascend, and slots with the same candidates get the same scores for them. Selectivities within a factor of
    four count as equal.
    """
    if not len(slot):
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.r_[True, slot[1:] != slot[:-1]])
    # Sets of candidates are told apart by sums of random numbers; were two confused, slots would only choose worse.
    random = np.random.default_rng(0).integers(1, KEY_MAX, attributes_count)
    _, set_of_slot = np.unique(np.add.reduceat(random[attribute], starts), return_inverse=True)
    lengths = np.diff(np.append(starts, len(slot)))
    _, which = np.unique(np.repeat(set_of_slot, lengths) * attributes_count + attribute, return_inverse=True)
    counts = np.bincount(which)
    halvings = np.bincount(which, weights=np.log2(np.clip(share, 2.0**-60, 1.0))) / counts
    equal = np.bincount(which, weights=is_equality) * 2 > counts
    return ((2 * np.floor(halvings / 2).astype(np.int64) + ~equal)[which]) * attributes_count + attribute


def _shares(attribute: Ints, lo: Ints, hi: Ints, attributes_count: int) -> Floats:
    """The share of an attribute's end points that lie in each interval: what constants tell about rows."""
    shares = np.ones(len(lo))
    order = np.argsort(attribute, kind="stable")
    bounds = np.searchsorted(attribute[order], np.arange(attributes_count + 1))
    rng = np.random.default_rng(0)
    for number in range(attributes_count):
        at = order[bounds[number] : bounds[number + 1]]
        drawn = at if len(at) <= _SAMPLE else rng.choice(at, _SAMPLE)
        low, high = lo[drawn], hi[drawn]
        points = np.sort(np.concatenate([low[low > KEY_MIN], high[high < KEY_MAX]]))
        if len(points):
            inside = np.searchsorted(points, hi[at], side="right") - np.searchsorted(points, lo[at], side="left")
            shares[at] = inside / len(points)
    return shares
