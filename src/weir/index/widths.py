"""Widths: groups of boxes cut into probes of similar widths.

A run of candidates is as long as the longest interval around it, so one long interval among short ones would make
every event near it pay. Boxes of a group are therefore classed by the widths of their access intervals in rank space
(0, 1..3, 4..15, …) and neighbouring classes share a probe unless keeping them apart saves more candidates than a
further probe costs; the cheapest cuts are found by dynamic programming over at most 17 classes.

Long and open intervals have no short runs whatever the order. Those that hug the upper end (`price > c`) are told apart
by their lower bound, those that hug the lower end (`price < c`) by their upper one: the latter get a probe in which x
is counted from the top, so that there too the run ends where the matches end.

Of two access intervals the wider one becomes y (a few strips), the narrower one x (sorted within a strip); an
equality becomes y, because an event then looks at one strip instead of two, unless hardly two boxes share a constant.

Cost: O(b) for the boxes of a group. Classing intervals by length is the idea of multi-level grids and of augmented
interval lists; here the estimate decides the levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.access import PARTITION_SPARSITY_MAX, PROBE_COST, ROW_COST, Access
from weir.index.box_tables import Int32s, Int64s

_CLASSES = 17
_LONG_SHARE = 1 / 8  # of all ranks: an interval this long may be laid out mirrored
_X_REACH, _Y_REACH = 1.25, 2.0  # how far beyond an interval's width the run of a cell and of a strip reaches

Floats = npt.NDArray[np.float64]


class Probe(NamedTuple):
    """Boxes that are laid out together, and how."""

    boxes: Int64s
    equality: int  # attribute that selects the partition, −1 for none
    x: int  # attribute that orders a row, −1 for none
    y: int  # attribute that selects rows, −1 for none; never without x
    x_place: int  # where the box's constraint on x stands in Access.constraint
    mirrored: bool  # x is counted from the top


def cut(access: Access, lo: Int32s, hi: Int32s, n_points: Int64s, scan_max: int) -> list[Probe]:
    """The probes of all groups; partitions of up to `scan_max` boxes are scanned, so widths do not matter there."""
    by_group = np.argsort(access.group_of_box, kind="stable")
    bounds = np.searchsorted(access.group_of_box[by_group], np.arange(len(access.signatures) + 1))
    probes: list[Probe] = []
    for g, (equality, first, second) in enumerate(access.signatures.tolist()):
        boxes = by_group[bounds[g] : bounds[g + 1]]
        whole = Probe(boxes, equality, first, second, 1, False)
        if first < 0:
            probes.append(whole)
            continue
        if second >= 0 and _first_is_y(access, boxes, lo, hi, scan_max):
            whole = Probe(boxes, equality, second, first, 2, False)
        if _partition_size(access, boxes, lo, equality) <= scan_max:
            probes.append(whole)
            continue
        for tall in _by_width(whole, whole.y, 3 - whole.x_place, access, lo, hi, n_points, _Y_REACH):
            for probe in _by_width(tall, tall.x, tall.x_place, access, lo, hi, n_points, _X_REACH):
                probes.extend(_by_end(probe, access, lo, hi, n_points))
    return probes


def _first_is_y(access: Access, boxes: Int64s, lo: Int32s, hi: Int32s, scan_max: int) -> bool:
    """Whether the first of two access attributes makes the better y."""
    first, second = access.constraint[boxes, 1], access.constraint[boxes, 2]
    first_equal, second_equal = np.mean(lo[first] == hi[first]), np.mean(lo[second] == hi[second])
    if max(first_equal, second_equal) > 0.5 and first_equal != second_equal:
        equal_is_first = bool(first_equal > second_equal)
        constants = np.bincount(lo[first if equal_is_first else second] >> 1)
        shared = np.square(constants, dtype=np.float64).sum() / len(boxes)
        return equal_is_first if shared > scan_max else not equal_is_first  # few boxes share a constant: better sorted
    return bool(access.selectivity[boxes, 1].mean() > access.selectivity[boxes, 2].mean())


def _partition_size(access: Access, boxes: Int64s, lo: Int32s, equality: int) -> float:
    """How many boxes share the partition of a box, on average over boxes."""
    if equality < 0:
        return float(len(boxes))
    sizes = np.bincount(lo[access.constraint[boxes, 0]] >> 1)
    return float(np.square(sizes, dtype=np.float64).sum() / len(boxes))


def _by_width(
    probe: Probe, attribute: int, place: int, access: Access, lo: Int32s, hi: Int32s, n_points: Int64s, reach: float
) -> list[Probe]:
    """The probe, cut by the width of its interval on `attribute` where that pays."""
    if attribute < 0:
        return [probe]
    constraint = access.constraint[probe.boxes, place]
    width = hi[constraint].astype(np.int64) - lo[constraint]
    width_class = np.zeros(len(width), dtype=np.int64)
    wide = width > 0
    width_class[wide] = 1 + (np.log2(width[wide]).astype(np.int64) >> 1)
    others = [p for p in range(3) if p != place]
    weights = access.selectivity[probe.boxes][:, others].prod(axis=1)
    load = np.bincount(width_class, weights=weights, minlength=_CLASSES).astype(np.float64)
    widest = np.zeros(_CLASSES, dtype=np.int64)
    np.maximum.at(widest, width_class, width)
    share = np.minimum(reach * (widest + 1) / (2 * n_points[attribute] + 1), 1.0)
    present = np.unique(width_class)
    cost = PROBE_COST + (ROW_COST if probe.y >= 0 else 0.0)
    groups = _cheapest_cuts(load[present], share[present], cost)
    n_probes = int(groups[-1]) + 1
    sparse = probe.equality >= 0 and n_points[probe.equality] * n_probes > PARTITION_SPARSITY_MAX * len(probe.boxes)
    if n_probes == 1 or sparse:
        return [probe]
    group_of_class = np.zeros(_CLASSES, dtype=np.int64)
    group_of_class[present] = groups
    group = group_of_class[width_class]
    return [probe._replace(boxes=probe.boxes[group == k]) for k in range(n_probes)]


def _cheapest_cuts(load: Floats, share: Floats, probe_cost: float) -> Int64s:
    """The number of the probe of each class, when classes i..j together cost probe_cost + sum(load) · share[j]."""
    n = len(load)
    total = np.concatenate([[0.0], np.cumsum(load)])
    best = [0.0] + [np.inf] * n
    begin = [0] * (n + 1)
    for j in range(1, n + 1):
        for i in range(j):
            cost = best[i] + probe_cost + (total[j] - total[i]) * share[j - 1]
            if cost < best[j]:
                best[j], begin[j] = cost, i
    starts = []
    j = n
    while j > 0:
        starts.append(begin[j])
        j = begin[j]
    group = np.zeros(n, dtype=np.int64)
    group[[s for s in starts if s > 0]] = 1
    return np.cumsum(group)


def _by_end(probe: Probe, access: Access, lo: Int32s, hi: Int32s, n_points: Int64s) -> list[Probe]:
    """Intervals that are open below, or long and near the lower end, apart from the others if both are worth a probe;
    else all as most of them need it."""
    constraint = access.constraint[probe.boxes, probe.x_place]
    top = 2 * n_points[probe.x]
    from_top = top - hi[constraint].astype(np.int64)
    is_long = hi[constraint].astype(np.int64) - lo[constraint] > _LONG_SHARE * top
    hugs_low = (lo[constraint] == 0) | (is_long & (lo[constraint] < from_top))
    if not np.any(hugs_low):
        return [probe]
    others = [p for p in range(3) if p != probe.x_place]
    load = access.selectivity[probe.boxes][:, others].prod(axis=1)
    low, high = float(load[hugs_low].sum()), float(load[~hugs_low].sum())
    if min(low, high) * 0.5 < PROBE_COST:
        return [probe._replace(mirrored=low > high)]
    return [
        probe._replace(boxes=probe.boxes[~hugs_low]),
        probe._replace(boxes=probe.boxes[hugs_low], mirrored=True),
    ]
