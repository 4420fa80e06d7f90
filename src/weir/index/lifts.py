"""Lifts: how much more often two constraints of a box hold together than they would if they were independent.

Where attributes of rows depend on each other and queries ask for what occurs, the product of two selectivities is far
too small: a second access attribute that repeats the first finds hardly fewer candidates. The lift of two attributes
is P(both) / (P(one) · P(other)), measured over some boxes that constrain both and the rows of a sample: 1 if they are
independent, 1 / P(one) if one implies the other.

A lift is believed only if it is clear: many rows in both constraints, far from what chance gives, and a factor of two
at least. All others are 1, so that independent attributes are chosen as they would be without a sample.

Boxes count by the square root of what is expected of them, or a few wide ones would drown all narrow ones.
Cost: one comparison for each of `_CONSTRAINTS` constraints and each row, whatever the number of boxes: 5 to 10 ms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import BoxTable, Int32s, Int64s
from weir.index.jit import kernel
from weir.index.samples import ROWS_MIN, Bools, Floats

NO_LIFTS: Floats = np.empty((0, 0))  # all are 1
_CONSTRAINTS = 4_096  # of boxes that are drawn
_BOXES_MIN = 32  # that are worth looking at
_ROWS = 2_048  # of the sample
_ATTRIBUTES_MAX = 1_024  # the lifts of all pairs are one matrix
_HITS_MIN = 8  # rows in both constraints, over all boxes
_DEVIATIONS_MIN = 4.0  # standard deviations from what is expected
_CLEAR = 2.0


def lifts(table: BoxTable, lo: Int32s, hi: Int32s, ranked: Int32s, measured: Bools) -> Floats:
    """float64[a, a], symmetric; float64[0, 0] if all lifts are 1. `ranked` is int32[a, r]."""
    n_boxes, n_attributes = len(table.slot_of_box), len(ranked)
    constraints = len(table.constraint_attribute)
    if n_boxes < _BOXES_MIN or constraints <= n_boxes or ranked.shape[1] < ROWS_MIN or n_attributes > _ATTRIBUTES_MAX:
        return NO_LIFTS
    drawn = max(_CONSTRAINTS * n_boxes // constraints, _BOXES_MIN)
    boxes = np.unique(np.random.default_rng(0).integers(0, n_boxes, drawn)) if drawn < n_boxes else np.arange(n_boxes)
    rows = np.ascontiguousarray(ranked[:, :: -(-ranked.shape[1] // _ROWS)])
    sums = np.zeros((4, n_attributes, n_attributes))
    widest = int(np.diff(table.constraint_offsets)[boxes].max(initial=1))
    inside = np.empty((widest, rows.shape[1]), np.uint8)
    offsets, attribute = table.constraint_offsets, table.constraint_attribute
    _count_together(offsets, attribute, lo, hi, measured, boxes.astype(np.int64), rows, inside, sums)
    hits, found, expected, boxes_of_pair = sums
    ratio = found / np.maximum(expected, 1e-9)
    clear = np.abs(found - expected) > _DEVIATIONS_MIN * np.sqrt(boxes_of_pair)
    more = clear & (ratio > _CLEAR) & (hits >= _HITS_MIN)
    fewer = clear & (ratio * _CLEAR < 1)
    if not (more.any() or fewer.any()):
        return NO_LIFTS
    return np.where(more, ratio, np.where(fewer, np.maximum(ratio, 1 / rows.shape[1]), 1.0))


@kernel
def _count_together(
    offsets: Int64s,
    attribute: Int32s,
    lo: Int32s,
    hi: Int32s,
    measured: Bools,
    boxes: Int64s,
    ranked: Int32s,
    inside: npt.NDArray[np.uint8],
    sums: npt.NDArray[np.float64],
) -> None:
    """For each two attributes: rows in both constraints; the same, weighted; what is expected of that; boxes."""
    n_rows = ranked.shape[1]
    attributes = np.empty(len(inside), dtype=np.int64)
    own = np.empty(len(inside), dtype=np.int64)
    for b in range(len(boxes)):
        n = 0
        for c in range(offsets[boxes[b]], offsets[boxes[b] + 1]):
            a = attribute[c]
            if not measured[a]:
                continue
            low, high = lo[c], hi[c]
            total = np.int64(0)
            for r in range(n_rows):
                is_inside = np.uint8((low <= ranked[a, r]) & (ranked[a, r] <= high))
                inside[n, r] = is_inside
                total += np.int64(is_inside)
            attributes[n], own[n] = a, total
            n += 1 if total > 0 else 0
        for i in range(n):
            for j in range(i):
                both = np.int64(0)
                for r in range(n_rows):
                    both += np.int64(inside[i, r] & inside[j, r])
                expected = own[i] * own[j] / n_rows
                weight = 1.0 / np.sqrt(expected)
                one, other = attributes[i], attributes[j]
                sums[0, one, other] += both
                sums[1, one, other] += weight * both
                sums[2, one, other] += weight * expected
                sums[3, one, other] += 1
                for k in range(4):
                    sums[k, other, one] = sums[k, one, other]
