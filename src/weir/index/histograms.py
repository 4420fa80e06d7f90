"""Equal-width histograms: how many intervals a value stabs, how many rows have a key (SSI, 4.1).

Buckets of one width divide the keys from the least to the greatest finite bound of what the histogram was made of. The
height of a bucket is the mean, over its keys, of the number of intervals that contain the key: an interval adds 1 to
every bucket that it covers, and to the first and the last one that it touches the share of their keys that it covers.
A row is the interval [key, key], so a bucket of rows has the mean number of rows of one of its keys.

Keys beyond the buckets have heights of their own: one below, one above and one for NULL. An interval without a bound on
one side (NULL_KEY, KEY_MIN or KEY_MAX) counts as 1 all the way to there; NULL is contained only in intervals that begin
at NULL_KEY.

Invariant: heights are sums over intervals, so `remove` undoes `add` (to rounding), in any order. Distances of keys are
taken by halves and then doubled, because the distance of two int64 need not be one.

Cost: O(n + b) for n intervals and b buckets, vectorised; an estimate is O(1). 8 bytes a bucket.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int64s
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY

Floats = npt.NDArray[np.float64]

BUCKETS = 100  # as many as SSI 5.3 uses

_OF_NULL = 0  # places in `heights`: NULL, below, the buckets, above
_BELOW = 1
_FIRST = 2


class EqualWidth(NamedTuple):
    """Buckets of one width; kernels read it through `height_at`."""

    span: Int64s  # int64[2]: least and greatest key of the buckets
    scale: Floats  # float64[1]: buckets a key
    heights: Floats  # float64[b+3]: of NULL, of keys below, of the b buckets, of keys above

    @classmethod
    def of_intervals(cls, lo: Int64s, hi: Int64s, buckets: int = BUCKETS) -> Self:
        """A histogram of closed intervals, over the range of their finite bounds."""
        assert buckets > 0, f"{buckets} buckets"
        lo, hi = np.asarray(lo, np.int64), np.asarray(hi, np.int64)
        finite = np.concatenate((lo[lo > KEY_MIN], hi[(hi > KEY_MIN) & (hi < KEY_MAX)]))
        least, greatest = (int(finite.min()), int(finite.max())) if len(finite) else (0, 0)
        made = cls(
            np.array([least, greatest], np.int64),
            np.array([buckets / (greatest - least + 1)], np.float64),
            np.zeros(buckets + 3, np.float64),
        )
        made.add(lo, hi)
        return made

    @classmethod
    def of_values(cls, values: Int64s, buckets: int = BUCKETS) -> Self:
        """A histogram of rows by key: the mean number of rows of a key."""
        return cls.of_intervals(values, values, buckets)

    @property
    def counts(self) -> Floats:
        """Intervals times keys in each bucket; of a histogram of rows, the number of rows."""
        counts: Floats = self.heights[_FIRST:-1] / self.scale[0]
        return counts

    def add(self, lo: Int64s | int, hi: Int64s | int) -> None:
        """Count intervals in; those beyond the buckets count below or above them."""
        self._count(np.atleast_1d(np.asarray(lo, np.int64)), np.atleast_1d(np.asarray(hi, np.int64)), 1.0)

    def remove(self, lo: Int64s | int, hi: Int64s | int) -> None:
        """Count intervals out that were counted in."""
        self._count(np.atleast_1d(np.asarray(lo, np.int64)), np.atleast_1d(np.asarray(hi, np.int64)), -1.0)

    @overload
    def estimate(self, x: int) -> float: ...
    @overload
    def estimate(self, x: Int64s) -> Floats: ...
    def estimate(self, x: Int64s | int) -> Floats | float:
        """How many intervals contain x, about; x may be NULL_KEY."""
        keys = np.asarray(x, np.int64)
        least, greatest = self.span
        inside = _distance(np.clip(keys, least, greatest), least) * self.scale[0]
        place = _FIRST + np.minimum(inside.astype(np.int64), len(self.heights) - 4)
        place = np.where(keys < least, _BELOW, np.where(keys > greatest, len(self.heights) - 1, place))
        heights = self.heights[np.where(keys == NULL_KEY, _OF_NULL, place)]
        return heights if heights.ndim else float(heights)

    def _count(self, lo: Int64s, hi: Int64s, weight: float) -> None:
        assert lo.shape == hi.shape, f"{len(lo)} lower bounds, but {len(hi)} upper bounds"
        assert bool(np.all(lo <= hi)), "an interval is not empty"
        least, greatest = self.span
        buckets = len(self.heights) - 3
        begin = _distance(np.clip(lo, least, greatest), least) * self.scale[0]
        begin[lo > greatest] = buckets
        end = (_distance(np.clip(hi, least, greatest), least) + 1) * self.scale[0]
        end[hi < least] = 0
        covered = _covered_from(np.minimum(begin, buckets), buckets) - _covered_from(np.minimum(end, buckets), buckets)
        self.heights[_FIRST:-1] += weight * covered
        self.heights[_OF_NULL] += weight * np.count_nonzero(lo == NULL_KEY)
        self.heights[_BELOW] += weight * np.count_nonzero((lo < least) & (hi > NULL_KEY))
        self.heights[-1] += weight * np.count_nonzero(hi > greatest)


@kernel
def height_at(span: Int64s, scale: Floats, heights: Floats, key: Scalar) -> Scalar:
    """`EqualWidth.estimate` of one key, for kernels."""
    if key < span[0]:
        return heights[0] if key == -(2**63) else heights[1]
    if key > span[1]:
        return heights[-1]
    distance = ((key >> 1) - (span[0] >> 1)) * 2.0 + ((key & 1) - (span[0] & 1))
    return heights[2 + min(int(distance * scale[0]), len(heights) - 4)]


def _distance(keys: Int64s, origin: Any) -> Floats:
    """keys − origin without overflow: of the halves, then of the last bits."""
    distance: Floats = ((keys >> 1) - (origin >> 1)) * 2.0 + ((keys & 1) - (origin & 1))
    return distance


def _covered_from(begins: Floats, buckets: int) -> Floats:
    """How much of each bucket lies at or after the begins, summed over them; a bucket is 1 wide."""
    whole = np.floor(begins)
    place = whole.astype(np.int64)
    part = begins - whole
    steps = np.bincount(place, 1 - part, buckets + 2) + np.bincount(place + 1, part, buckets + 2)
    return np.cumsum(steps)[:buckets]
