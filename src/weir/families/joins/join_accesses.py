"""Access attributes of joins: through which attribute of each side the queries of a segment are reached.

A plane of `weir.index.joins` has one attribute of the event's side and one of the partners', so every slot gets one
access attribute a side, or none; what else its boxes constrain is checked afterwards. It must be an attribute that
*all* boxes of the slot constrain; among these candidates it is the most selective, an equality before an interval
where they are about equally so. Selectivity is measured over recent rows of the attribute's side where there are any
(`weir.index.samples`); constants alone give the share of all end points of the attribute, or of a sample of them, that
an interval covers, which for an equality is the frequency of its constant.

Slots with the same candidates choose alike, by the mean of their selectivities: every distinct pair of access
attributes is a structure that each event probes, and every access attribute an order in which the other side's rows
are kept, so a few slots that would do better alone do not pay. Slots for which rows make one of the candidates
clearly better or worse than constants do choose apart from the others: of a skewed attribute's slots, those where all
rows lie are reached otherwise. A side has at most `ACCESSES_MAX` access attributes, those that most slots would
choose; slots choose among these, or have none. Differences of pairs are chosen in the same way, as if they were of a
third side, but any number of them.

A digest of the boxes (`weir.index.digests`) tells later whether other attributes would be better for the rows that came
since. Cost: some sorts of the constraints by slot and attribute.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weir.boxes.bounds import Bools, Ints
from weir.boxes.instances import RowBoxes
from weir.index import digests
from weir.index.access import PROBE_COST, Floats
from weir.index.box_tables import BoxTable
from weir.index.digests import Digest, Foreseen
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.samples import ROWS_MIN, Sample, measured_shares

ACCESSES_MAX = 4  # distinct access attributes of a side
_SAMPLE = 4_096  # intervals of an attribute whose end points stand for all
_CLEAR_BITS = 3  # a share that rows make so many powers of two greater or smaller is clearly another one


def choose_accesses(
    boxes: RowBoxes,
    slots_count: int,
    side_of_attribute: Ints,
    sample: Sample | None = None,
    assumed: Floats | None = None,
) -> Ints:
    """int64[n_slots, 3]: the access attribute of each slot on each side, and its difference; −1 for none.

    Rows of boxes are slots; an attribute whose side is none of the three is not chosen. `assumed`: what constants say
    of each constraint, if that is known from more of them.
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
    if assumed is None:
        assumed = assumed_shares(boxes, attributes_count)
    share = np.bincount(which, weights=assumed).astype(np.float64)
    profile = np.zeros(len(codes), np.int64)
    if sample is not None and sample.rows_count >= ROWS_MIN:
        measured = np.bincount(which, weights=_measured(boxes, assumed, sample)).astype(np.float64)
        bits = np.log2(np.clip(measured, 2.0**-60, None) / np.clip(share, 2.0**-60, None))
        share, profile = measured, np.clip(np.round(bits / _CLEAR_BITS), -1, 1).astype(np.int64)
    is_equality = np.bincount(which, weights=lo == hi) == counts
    for side in (0, 1, 2):
        mine = np.flatnonzero(eligible & (side_of_attribute[attribute_of_code] == side))
        told_apart = 3 * attribute_of_code[mine] + profile[mine] + 1
        score = _scores(
            slot[mine], attribute_of_code[mine], told_apart, share[mine], is_equality[mine], attributes_count
        )
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


def _scores(
    slot: Ints, attribute: Ints, told_apart: Ints, share: Floats, is_equality: Bools, attributes_count: int
) -> Ints:
    """For each candidate, the lower the better: by selectivity, then equalities first, then the lesser attribute.

    Slots ascend, and slots with the same candidates, as far as `told_apart` (< 3 · attributes) can tell, get the same
    scores for them. Selectivities within a factor of four count as equal.
    """
    if not len(slot):
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.r_[True, slot[1:] != slot[:-1]])
    # Sets of candidates are told apart by sums of random numbers; were two confused, slots would only choose worse.
    random = np.random.default_rng(0).integers(1, KEY_MAX, 3 * attributes_count)
    _, set_of_slot = np.unique(np.add.reduceat(random[told_apart], starts), return_inverse=True)
    lengths = np.diff(np.append(starts, len(slot)))
    _, which = np.unique(np.repeat(set_of_slot, lengths) * attributes_count + attribute, return_inverse=True)
    counts = np.bincount(which)
    halvings = np.bincount(which, weights=np.log2(np.clip(share, 2.0**-60, 1.0))) / counts
    equal = np.bincount(which, weights=is_equality) * 2 > counts
    return ((2 * np.floor(halvings / 2).astype(np.int64) + ~equal)[which]) * attributes_count + attribute


def assumed_shares(boxes: RowBoxes, attributes_count: int) -> Floats:
    """The share of an attribute's end points that lie in each interval: what constants tell about rows."""
    lo, hi = boxes.constraint_lo, boxes.constraint_hi
    shares = np.ones(len(lo))
    for _, at, points in _points(boxes, attributes_count):
        if len(points):
            inside = np.searchsorted(points, hi[at], side="right") - np.searchsorted(points, lo[at], side="left")
            shares[at] = inside / len(points)
    return shares


def _points(boxes: RowBoxes, attributes_count: int) -> Iterator[tuple[int, Ints, Ints]]:
    """For each attribute its constraints, and the end points of these or of some of them, ascending."""
    attribute = boxes.constraint_attribute
    order = np.argsort(attribute, kind="stable")
    bounds = np.searchsorted(attribute[order], np.arange(attributes_count + 1))
    rng = np.random.default_rng(0)
    for number in range(attributes_count):
        at = order[bounds[number] : bounds[number + 1]]
        drawn = at if len(at) <= _SAMPLE else rng.choice(at, _SAMPLE)
        low, high = boxes.constraint_lo[drawn], boxes.constraint_hi[drawn]
        yield number, at, np.sort(np.concatenate([low[low > KEY_MIN], high[high < KEY_MAX]]))


def _measured(boxes: RowBoxes, assumed: Floats, sample: Sample) -> Floats:
    """The share of recent rows that satisfies each constraint."""
    count = len(sample.keys)
    lo, hi = (np.empty(len(assumed), np.int32) for _ in range(2))
    ranked = np.empty(sample.keys.shape, np.int32)
    points_count = np.empty(count, np.int64)
    for number, at, all_points in _points(boxes, count):
        points = np.unique(all_points)
        points_count[number] = len(points)
        ranked[number] = _ranks(points, sample.keys[number])
        lo[at], hi[at] = (_ranks(points, bound[at]) for bound in (boxes.constraint_lo, boxes.constraint_hi))
    return measured_shares(
        boxes.constraint_attribute.astype(np.int32),
        lo,
        hi,
        points_count,
        ranked,
        sample.measured,
        assumed,
        is_coarse=True,
    )


def _ranks(points: Ints, keys: Ints) -> Ints:
    """The ranks of keys among points, as `weir.index.ranks` has them."""
    at = np.searchsorted(points, keys)
    found = np.append(points, KEY_MAX)[at] == keys
    ranks: Ints = np.where(keys == NULL_KEY, -1, 2 * at + (found & (at < len(points))))
    return ranks


# ── whether another choice would be better ──


def digest_of(boxes: RowBoxes, chosen: Ints, attributes_count: int, sample: Sample | None) -> Digest:
    """Some of the boxes, and how they are reached: by a constraint of each side, or none."""
    assumed = assumed_shares(boxes, attributes_count)
    rows_measured = 0 if sample is None else sample.rows_count
    return digests.draw(_as_table(boxes), assumed, _reached(boxes, chosen), rows_measured)


def _reached(boxes: RowBoxes, chosen: Ints) -> Ints:
    """int64[b, 3]: for each box its constraint on the access attribute of each side, −1 for none."""
    counts = np.diff(boxes.constraint_offsets)
    box = np.repeat(np.arange(len(counts)), counts)
    found = np.full((len(counts), 3), -1, np.int64)
    for side in (0, 1):
        at = np.flatnonzero(boxes.constraint_attribute == chosen[boxes.row_of_box[box], side])
        found[box[at], side] = at
    return found


def foreseen(digest: Digest, side_of_attribute: Ints, sample: Sample) -> Foreseen | None:
    """What events of both sides cost, as queries are reached and if their accesses were chosen for these rows."""
    n = len(digest.offsets) - 1
    if not n or sample.rows_count < 2 * ROWS_MIN:
        return None
    fitted, met = digests.halves(sample)
    boxes = RowBoxes(np.arange(n), digest.offsets, digest.attribute.astype(np.int64), digest.lo, digest.hi)
    assumed = digest.assumed.astype(np.float64)
    chosen = choose_accesses(boxes, n, side_of_attribute, Sample(fitted, sample.measured), assumed)
    anew = _reached(boxes, chosen)

    def cost(reached: Ints) -> float:
        of_sides = [digests.shares_met(digest, reached[:, [side]], met, sample.measured).sum() for side in (0, 1)]
        attributes = np.where(reached >= 0, digest.attribute[reached], -1)
        return digest.boxes_each * float(sum(of_sides)) + PROBE_COST * len(np.unique(attributes, axis=0))

    return Foreseen(cost(digest.reached), cost(anew))


def _as_table(boxes: RowBoxes) -> BoxTable:
    return BoxTable(
        boxes.row_of_box.astype(np.int32),
        boxes.constraint_offsets,
        boxes.constraint_attribute.astype(np.int32),
        boxes.constraint_lo,
        boxes.constraint_hi,
    )
