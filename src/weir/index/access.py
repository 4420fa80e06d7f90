"""Access: the constraints through which each box is reached, the others being checked afterwards.

A box may be reached through up to three of its constraints: one equality, which selects a *partition* (all
boxes that ask for the same constant), and one or two intervals, which are laid out as a grid. Boxes with the
same access attributes form a *group*, and an event probes every group once, so a group must pay for its probe:
many attributes of which each query uses a few would otherwise mean a probe for every combination.

The estimate behind every choice is the number of candidates an event meets: the selectivities of the access
constraints multiplied, with the lift of each two of them (`weir.index.lifts`), summed over the group's boxes.
Where recent rows are known, selectivities are measured (`weir.index.samples`). Else constants are all there is: an
interval's selectivity is its width in rank space, an equality's the frequency of its constant (rank space makes them
comparable; events are assumed to fall where constants do). A group is dissolved into another one with fewer access
attributes when the candidates added cost less than the probe saved; the last resort is the group without any
access attribute, which is a scan.

Because every box chooses by its own selectivities, a skewed attribute serves the boxes that lie where rows are rare,
and those that lie where all rows are choose others. More groups cost more probes, though: rows are followed where the
estimate, counted by them, is clearly better than the one without them.

Cost: O(c) for c constraints in compiled code, O(c²) a box where attributes depend on each other, then O(groups) in
Python; nothing loops over boxes in Python.
DESIGN.md section 2 (access attributes); CSJQ calls the idea partial dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import BoxTable, Int32s, Int64s
from weir.index.jit import kernel
from weir.index.lifts import NO_LIFTS, lifts
from weir.index.samples import Bools, measured_shares

PROBE_COST = 10.0  # what one probe costs an event, in candidates checked inline (about 3 ns each)
ROW_COST = 8.0  # what a second dimension adds to that: two runs instead of one
REST_COST = 3.0  # what a candidate costs that is checked from its sparse list of constraints only
_ROUNDS_MAX = 4
_GAIN = 0.8  # what rows say is followed if it makes an event at least a fifth cheaper
_SHIFTED_MIN = 0.02  # … which it hardly does if fewer constraints than this share are more or less selective by it
PARTITION_SPARSITY_MAX = 2  # end points of an attribute for each box of a probe that it partitions; memory is bounded

Floats = npt.NDArray[np.float64]
# The subsets of (equality, first interval, second interval) that a box may keep, as bits 1, 2 and 4.
_SUBSETS = range(8)
_PAIRS = ((0, 1), (0, 2), (1, 2))  # of the three places


class Access(NamedTuple):
    """For each box the indexes of its access constraints (−1 for none) and their selectivities (1 for none)."""

    constraint: Int64s  # int64[b, 3]: equality that selects the partition, first interval, second interval
    selectivity: Floats  # float64[b, 3]
    group_of_box: Int64s  # int64[b]
    signatures: Int64s  # int64[groups, 3]: access attributes of each group, −1 for none; the intervals' ascending


class Estimates(NamedTuple):
    """What is known of the constraints of a table."""

    selectivity: Floats  # float64[c]: the share of events that satisfies each
    lift: Floats = NO_LIFTS  # float64[a, a]: of each two attributes; float64[0, 0] if none depend on each other


def choose(
    table: BoxTable, lo: Int32s, hi: Int32s, n_points: Int64s, known: Estimates, boxes_each: float = 1.0
) -> Access:
    """Access constraints of every box; `lo` and `hi` are ranks, `n_points` the points of each attribute.

    `boxes_each`: how many boxes of an index a box of the table stands for.
    """
    attribute, selectivity = table.constraint_attribute, known.selectivity
    n_boxes, n_attributes = len(table.slot_of_box), len(n_points)
    is_equality = lo == hi
    equalities = np.bincount(attribute[is_equality], minlength=n_attributes)
    is_partition = is_equality & ((n_points <= PARTITION_SPARSITY_MAX * equalities)[attribute])
    chosen = np.full((n_boxes, 3), -1, dtype=np.int64)
    # Selectivities within a factor of four count as equal and the first attribute wins: boxes that constrain the same
    # attributes then mostly choose the same ones, and there are fewer groups to probe.
    coarse = np.floor(np.log2(np.maximum(selectivity, 2.0**-60)) / 2).astype(np.int8)
    if len(known.lift):
        coarse_lift = np.round(np.log2(known.lift) / 2).astype(np.int8)
        _choose_dependent(table.constraint_offsets, attribute, coarse, coarse_lift, is_partition, chosen)
    else:
        _choose_constraints(table.constraint_offsets, coarse, is_partition, chosen)
    _dissolve(chosen, attribute, known, n_attributes, boxes_each)
    _drop_sparse_partitions(chosen, attribute, selectivity, n_points)
    digits, shares = _describe(chosen, attribute, selectivity)
    codes, group = np.unique(_encode(digits, n_attributes + 1), return_inverse=True)
    return Access(chosen, shares, group, _decode(codes, n_attributes + 1) - 1)


def choose_measured(
    table: BoxTable,
    lo: Int32s,
    hi: Int32s,
    n_points: Int64s,
    assumed: Floats,
    known: Estimates,
    boxes_each: float = 1.0,
) -> Access:
    """As `choose`, by what rows say if that is clearly better than what constants say (`assumed`)."""
    shift = np.abs(np.log2(np.maximum(known.selectivity, 2.0**-60)) - np.log2(np.maximum(assumed, 2.0**-60)))
    if not len(known.lift) and np.count_nonzero(shift) < _SHIFTED_MIN * len(shift):
        return choose(table, lo, hi, n_points, Estimates(assumed), boxes_each)
    plain = choose(table, lo, hi, n_points, Estimates(assumed), boxes_each)
    fitted = choose(table, lo, hi, n_points, known, boxes_each)
    costs = [_cost(of, table.constraint_attribute, known, len(n_points), boxes_each) for of in (plain, fitted)]
    return fitted if costs[1] < _GAIN * costs[0] else plain


def _cost(of: Access, attribute: Int32s, known: Estimates, n_attributes: int, boxes_each: float) -> float:
    """What an event costs, in candidates."""
    digits, shares = _describe(of.constraint, attribute, known.selectivity)
    codes, group = np.unique(_encode(digits, n_attributes + 1), return_inverse=True)
    candidates = _candidates(shares, _lifts_of(digits, known.lift), group, len(codes))
    met = np.where(codes == 0, candidates[0], candidates[7]).sum()
    return float(met) * boxes_each + cost_of_probes(of.signatures)


def measured(
    table: BoxTable,
    lo: Int32s,
    hi: Int32s,
    n_points: Int64s,
    ranked: Int32s,
    is_measured: Bools,
    assumed: Floats,
    *,
    is_coarse: bool = False,
) -> Estimates:
    """What a sample of rows (`ranked`: int32[a, r]) says of the constraints, of which constants say `assumed`."""
    shares = measured_shares(
        table.constraint_attribute, lo, hi, n_points, ranked, is_measured, assumed, is_coarse=is_coarse
    )
    return Estimates(shares, lifts(table, lo, hi, ranked, is_measured))


def selectivities(attribute: Int32s, lo: Int32s, hi: Int32s, n_points: Int64s) -> Floats:
    """Share of events that satisfy each constraint, as far as constants can tell."""
    is_equality = lo == hi
    equalities = np.bincount(attribute[is_equality], minlength=len(n_points))
    ranks = 2 * n_points + 1
    share = (hi.astype(np.int64) - lo + 1) / np.maximum(ranks[attribute], 1)
    first_point = np.concatenate([[0], np.cumsum(n_points)])
    constant = first_point[attribute[is_equality]] + (lo[is_equality] >> 1)
    frequency = np.bincount(constant, minlength=int(first_point[-1]))
    share[is_equality] = frequency[constant] / np.maximum(equalities[attribute[is_equality]], 1)
    return np.minimum(share, 1.0)


@kernel
def _choose_constraints(
    offsets: Int64s, selectivity: npt.NDArray[np.int8], is_partition: npt.NDArray[np.bool_], chosen: Int64s
) -> None:
    """The most selective equality and the two most selective others of each box, in attribute order."""
    for box in range(len(offsets) - 1):
        equality = -1
        for c in range(offsets[box], offsets[box + 1]):
            if is_partition[c] and (equality < 0 or selectivity[c] < selectivity[equality]):
                equality = c
        first = -1
        second = -1
        for c in range(offsets[box], offsets[box + 1]):
            if c == equality:
                continue
            if first < 0 or selectivity[c] < selectivity[first]:
                second = first
                first = c
            elif second < 0 or selectivity[c] < selectivity[second]:
                second = c
        chosen[box, 0] = equality
        chosen[box, 1] = first
        chosen[box, 2] = second
        if second >= 0 and second < first:
            chosen[box, 1] = second
            chosen[box, 2] = first


@kernel
def _choose_dependent(
    offsets: Int64s,
    attribute: Int32s,
    selectivity: npt.NDArray[np.int8],
    lift: npt.NDArray[np.int8],
    is_partition: npt.NDArray[np.bool_],
    chosen: Int64s,
) -> None:
    """As `_choose_constraints`, but of all pairs the one that is most selective together."""
    for box in range(len(offsets) - 1):
        begin, end = offsets[box], offsets[box + 1]
        equality = -1
        for c in range(begin, end):
            if is_partition[c] and (equality < 0 or selectivity[c] < selectivity[equality]):
                equality = c
        chosen[box, 0] = equality
        least = np.int64(1) << 30
        for c in range(begin, end):
            if c == equality:
                continue
            if chosen[box, 1] < 0:
                chosen[box, 1] = c
            own = np.int64(selectivity[c])
            if equality >= 0:
                own = min(own + lift[attribute[equality], attribute[c]], np.int64(0))
            for d in range(c + 1, end):
                if d == equality:
                    continue
                other = np.int64(selectivity[d])
                if equality >= 0:
                    other = min(other + lift[attribute[equality], attribute[d]], np.int64(0))
                both = min(own + other + lift[attribute[c], attribute[d]], own, other)
                if both < least:
                    least = both
                    chosen[box, 1] = c
                    chosen[box, 2] = d


def _dissolve(chosen: Int64s, attribute: Int32s, known: Estimates, n_attributes: int, boxes_each: float) -> None:
    """Drop access constraints from the boxes of groups that do not pay for their probe."""
    base = n_attributes + 1
    for _ in range(_ROUNDS_MAX):
        digits, shares = _describe(chosen, attribute, known.selectivity)
        codes, group, sizes = np.unique(_encode(digits, base), return_inverse=True, return_counts=True)
        candidates = _candidates(shares, _lifts_of(digits, known.lift), group, len(codes))
        kept = _subset_to_keep(codes, sizes, candidates * boxes_each, base)
        if not np.any(kept != 7):
            return
        for place in range(3):
            chosen[((kept >> place) & 1 == 0)[group], place] = -1
        _close_gaps(chosen)


def _drop_sparse_partitions(chosen: Int64s, attribute: Int32s, selectivity: Floats, n_points: Int64s) -> None:
    """Turn the equality of a group into an interval if its partitions would be mostly empty: they take memory each."""
    digits, _ = _describe(chosen, attribute, selectivity)
    codes, group, sizes = np.unique(_encode(digits, len(n_points) + 1), return_inverse=True, return_counts=True)
    equality = _decode(codes, len(n_points) + 1)[:, 0] - 1
    points = np.append(n_points, 0)[equality]  # 0 for none
    sparse = points > PARTITION_SPARSITY_MAX * sizes
    mine = np.flatnonzero(sparse[group])
    if not len(mine):
        return
    first, second = chosen[mine, 1], chosen[mine, 2]
    second_is_better = (second >= 0) & (selectivity[second] < selectivity[first])
    other = np.where(second_is_better, second, first)
    pair = np.sort(np.stack([chosen[mine, 0], other], axis=1), axis=1)  # by constraint, hence by attribute
    chosen[mine, 0] = -1
    chosen[mine, 1:] = pair
    _close_gaps(chosen)


def _close_gaps(chosen: Int64s) -> None:
    """A lone interval is always the first."""
    gap = (chosen[:, 1] < 0) & (chosen[:, 2] >= 0)
    chosen[gap, 1] = chosen[gap, 2]
    chosen[gap, 2] = -1


def _describe(chosen: Int64s, attribute: Int32s, selectivity: Floats) -> tuple[Int64s, Floats]:
    """For each box and place the attribute + 1 (0 for none) and the selectivity (1 for none)."""
    digits = np.zeros(chosen.shape, dtype=np.int64)
    shares = np.ones(chosen.shape)
    for place in range(3):
        there = chosen[:, place] >= 0
        digits[there, place] = attribute[chosen[there, place]] + 1
        shares[there, place] = selectivity[chosen[there, place]]
    return digits, shares


def _encode(digits: Int64s, base: int) -> Int64s:
    """A signature as one number."""
    return (digits[:, 0] * base + digits[:, 1]) * base + digits[:, 2]


def _decode(codes: Int64s, base: int) -> Int64s:
    return np.stack([codes // (base * base), codes // base % base, codes % base], axis=1)


def _lifts_of(digits: Int64s, lift: Floats) -> Floats | None:
    """float64[b, 3]: for each box the lifts of equality and first, equality and second, first and second interval."""
    if not len(lift):
        return None
    padded = np.ones((len(lift) + 1, len(lift) + 1))  # 0 stands for none
    padded[1:, 1:] = lift
    return np.stack([padded[digits[:, i], digits[:, j]] for i, j in _PAIRS], axis=1)


def _candidates(shares: Floats, lift: Floats | None, group: Int64s, n_groups: int) -> Floats:
    """float64[8, groups]: what the candidates of a group cost an event, for each subset of access constraints."""
    wider = shares.copy()
    wider[:, 1:] = np.minimum(shares[:, 1:] * 1.5, 1.0)  # a grid reaches somewhat beyond the interval
    costs = np.empty((8, n_groups))
    for subset in _SUBSETS:
        kept = [place for place in range(3) if subset >> place & 1]
        share = np.ones(len(shares))
        for place in kept:
            share = share * wider[:, place]
        if lift is not None:
            for k, (i, j) in enumerate(_PAIRS):
                if i in kept and j in kept:
                    share = share * lift[:, k]
            if len(kept) > 1:
                share = np.minimum(share, wider[:, kept].min(axis=1))
        costs[subset] = np.bincount(group, weights=share, minlength=n_groups) * (REST_COST if subset == 0 else 1.0)
    return costs


def _subset_to_keep(codes: Int64s, sizes: Int64s, candidates: Floats, base: int) -> Int64s:
    """For each group the subset of its access attributes that costs an event least, given the other groups.

    A probe's cost is shared by all boxes that could use it. Small groups are dissolved first, and each sees the
    groups as the moves before it left them.
    """
    targets = np.stack([_without(codes, subset, base) for subset in _SUBSETS])
    boxes_at: dict[int, int] = dict(zip(codes.tolist(), sizes.tolist(), strict=True))
    could_use: dict[int, int] = {}
    for subset in _SUBSETS:
        for target, size in zip(targets[subset].tolist(), sizes.tolist(), strict=True):
            could_use[target] = could_use.get(target, 0) + size
    kept = np.full(len(codes), 7, dtype=np.int64)
    for g in np.argsort(sizes, kind="stable").tolist():
        code, size = int(codes[g]), int(sizes[g])
        best, best_cost = 7, candidates[7, g] + _probe_cost(code, base)
        for subset in range(7):
            target = int(targets[subset, g])
            if target == code:
                continue
            here = boxes_at.get(target, 0)
            share = 0.0 if here else size / could_use[target]
            cost = candidates[subset, g] + _probe_cost(target, base) * share
            if cost < best_cost:
                best, best_cost = subset, cost
        if best != 7:
            kept[g] = best
            boxes_at[code] -= size
            target = int(targets[best, g])
            boxes_at[target] = boxes_at.get(target, 0) + size
    return kept


def _without(codes: Int64s, subset: int, base: int) -> Int64s:
    """The codes of signatures that keep only the places in `subset`."""
    equality, first, second = _decode(codes, base).T
    equality = equality if subset & 1 else equality * 0
    first = first if subset & 2 else first * 0
    second = second if subset & 4 else second * 0
    first, second = np.where(first == 0, second, first), np.where(first == 0, 0, second)
    return _encode(np.stack([equality, first, second], axis=1), base)


def cost_of_probes(signatures: Int64s) -> float:
    """What an event pays for looking into groups with these access attributes."""
    base = int(signatures.max(initial=0)) + 2
    return sum(_probe_cost(code, base) for code in _encode(signatures + 1, base).tolist())


def _probe_cost(code: int, base: int) -> float:
    if code == 0:
        return 0.0
    return PROBE_COST + (ROW_COST if code % base else 0.0)
