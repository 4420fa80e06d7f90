"""Samples: keys of recent rows, and what they say about the constraints of boxes.

Constants say where queries look; only rows say where events fall. A sample holds the keys of a few thousand recent
rows, and from it follows the share of events that satisfies a constraint. Two things keep it from misleading:

- It is smoothed. A rank (`weir.index.ranks`) that many rows share counts by itself: a frequent value, a gap between
  constants where much of the data lies, all that is beyond the last constant. All other rows are counted in buckets of
  neighbouring ranks, points and gaps apart, and spread evenly there. A few rows more stand for what the constants say,
  so that none of 4,000 does not mean never.
- What it hardly changes stays. A share within a factor of two of what the constants say is theirs: where rows fall as
  constants do, boxes are reached as they would be without a sample, and noise makes no groups of its own.

Rows without a value (NULL) satisfy nothing, and count as rows. Any sample gives the same answers: it decides through
which constraints a box is reached, never whether it matches.

Cost: a sort of the sample for each attribute, and two look-ups of some 10 ns for each constraint.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar, kernel
from weir.index.searches import halved

ROWS_MIN = 64  # fewer rows say nothing
BOXES_MIN = 256  # fewer boxes are found quickly however they are reached
_BUCKETS = 64  # of points, and of gaps, of an attribute
_HEAVY = 8  # rows with one rank that count by themselves
_PRIOR_ROWS = 16.0  # rows that stand for what the constants say
_SAME = 2.0  # a share that differs by less is not believed to differ

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """Recent rows, as keys."""

    keys: Int64s  # int64[a, r], C-contiguous
    measured: Bools  # bool[a]: False where nothing is known; its keys mean nothing

    @property
    def rows_count(self) -> int:
        return int(self.keys.shape[1])


class _Distribution(NamedTuple):
    """How the ranks of a sample are distributed, by attribute."""

    heavy_offsets: Int64s  # int64[a+1]
    heavy_ranks: Int64s  # int64[h]: ranks that count by themselves, ascending within an attribute
    heavy_below: Floats  # float64[h+1]: rows with these ranks, summed up to here over all attributes
    buckets: Int64s  # int64[a, 2]: of gaps (even ranks) and of points (odd ones)
    below: Floats  # float64[a, 2, BUCKETS+1]: other rows in the buckets before


def measured_shares(
    attribute: Int32s,
    lo: Int32s,
    hi: Int32s,
    n_points: Int64s,
    ranked: Int32s,
    measured: Bools,
    assumed: Floats,
    *,
    is_coarse: bool = False,
) -> Floats:
    """The share of events that satisfies each constraint, from the ranks of a sample.

    `ranked` is int32[a, r], `assumed` is what constants say. `is_coarse`: that was said by all constants, but ranks are
    those of a few of them, and the sample only tells how much denser or sparser rows are than constants.
    """
    shares: Floats = np.array(assumed, np.float64)
    rows = ranked.shape[1]
    if rows >= ROWS_MIN and measured.any() and len(attribute):
        found = _distribution(ranked, n_points, measured)
        _measure(attribute, lo, hi, n_points, measured, *found, rows, is_coarse, shares)
    return shares


def _distribution(ranked: Int32s, n_points: Int64s, measured: Bools) -> _Distribution:
    heavy_ranks, heavy_counts, offsets = [], [], [0]
    buckets = np.ones((len(n_points), 2), np.int64)
    below = np.zeros((len(n_points), 2, _BUCKETS + 1))
    for a in range(len(n_points)):
        found, counts = np.unique(ranked[a][ranked[a] >= 0], return_counts=True) if measured[a] else (np.empty(0), [])
        found, counts = np.asarray(found, np.int64), np.asarray(counts, np.int64)
        heavy = counts >= _HEAVY
        heavy_ranks.append(found[heavy])
        heavy_counts.append(counts[heavy])
        offsets.append(offsets[-1] + int(heavy.sum()))
        for odd in (0, 1):
            cells = max(int(n_points[a]) + 1 - odd, 1)
            buckets[a, odd] = min(cells, _BUCKETS)
            light = ~heavy & (found & 1 == odd)
            bucket = (found[light] >> 1) * buckets[a, odd] // cells
            per_bucket = np.bincount(bucket, weights=counts[light], minlength=buckets[a, odd])
            below[a, odd, 1 : buckets[a, odd] + 1] = np.cumsum(per_bucket)
    nothing = np.empty(0, np.int64)
    summed = np.concatenate([[0.0], np.cumsum(np.concatenate([nothing, *heavy_counts]))])
    return _Distribution(np.array(offsets, np.int64), np.concatenate([nothing, *heavy_ranks]), summed, buckets, below)


@kernel
def _measure(
    attribute: Int32s,
    lo: Int32s,
    hi: Int32s,
    n_points: Int64s,
    measured: Bools,
    heavy_offsets: Int64s,
    heavy_ranks: Int64s,
    heavy_below: Floats,
    buckets: Int64s,
    below: Floats,
    rows: Scalar,
    is_coarse: Scalar,
    shares: Floats,
) -> None:
    """Replace the shares that constants give by those that the sample gives."""
    for c in range(len(attribute)):
        a = attribute[c]
        if not measured[a]:
            continue
        first, n_heavy = heavy_offsets[a], heavy_offsets[a + 1] - heavy_offsets[a]
        heavy = heavy_below[halved(heavy_ranks, first, n_heavy, np.int64(hi[c]) + 1, False)]
        heavy -= heavy_below[halved(heavy_ranks, first, n_heavy, np.int64(lo[c]), False)]
        light = 0.0
        for odd in range(2):
            cells = max(n_points[a] + 1 - odd, np.int64(1))
            # Of the ranks below r, (r + 1) / 2 are even and r / 2 are odd.
            light += _rows_before((np.int64(hi[c]) + 2 - odd) >> 1, cells, buckets[a, odd], below[a, odd])
            light -= _rows_before((np.int64(lo[c]) + 1 - odd) >> 1, cells, buckets[a, odd], below[a, odd])
        assumed = shares[c]
        if is_coarse:  # an interval looks wider than it is, with the rows in it; a point does not
            wider = max((np.int64(hi[c]) - lo[c] + 1) / (2 * n_points[a] + 1) / max(assumed, 1e-18), 1.0)
            light /= wider
            heavy /= 1.0 if lo[c] == hi[c] and lo[c] & 1 else wider
        share = (light + heavy) / rows
        share = (share * rows + _PRIOR_ROWS * assumed) / (rows + _PRIOR_ROWS)
        if share * _SAME < assumed or share > _SAME * assumed:
            shares[c] = min(share, 1.0)


@kernel
def _rows_before(cell: Scalar, cells: Scalar, n_buckets: Scalar, below: Floats) -> Scalar:
    """Rows in the cells before this one; those of a bucket are spread evenly over its cells."""
    place = cell * n_buckets / cells
    bucket = min(np.int64(place), n_buckets)
    if bucket == n_buckets:
        return below[bucket]
    return below[bucket] + (place - bucket) * (below[bucket + 1] - below[bucket])
