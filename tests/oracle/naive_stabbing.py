"""Plain twins of stabbing partitions and histograms: no arrays, no shared code, as short as can be."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

Bounds = tuple[int, int]


def stabbing_points(intervals: Iterable[Bounds]) -> list[int]:
    """The fewest points that stab all intervals: always the end of the first one to end among those not stabbed yet."""
    points: list[int] = []
    for hi, lo in sorted((hi, lo) for lo, hi in intervals):
        if not points or lo > points[-1]:
            points.append(hi)
    return points


def fewest_points(intervals: Sequence[Bounds]) -> int:
    """The same number by trying: the least k such that some k right ends stab all intervals."""
    ends = sorted({hi for lo, hi in intervals})
    for k in range(len(ends) + 1):
        for points in itertools.combinations(ends, k):
            if all(any(lo <= p <= hi for p in points) for lo, hi in intervals):
                return k
    raise AssertionError("all ends together stab everything")


def stabbed(intervals: Iterable[Bounds], x: int) -> int:
    """How many intervals contain x."""
    return sum(lo <= x <= hi for lo, hi in intervals)


def cluster_cost(points: Sequence[tuple[float, float]]) -> float:
    """Weighted squared distance of (weight, y) from their weighted mean."""
    total = sum(w for w, y in points)
    if total == 0:
        return 0.0
    mean = sum(w * y for w, y in points) / total
    return sum(w * (y - mean) ** 2 for w, y in points)


def least_cost(points: Sequence[tuple[float, float]], k: int) -> float:
    """Least cost of a sequence cut into at most k runs, by trying all cuts."""
    n = len(points)
    return min(
        sum(cluster_cost(points[i:j]) for i, j in itertools.pairwise((0, *cuts, n)))
        for n_cuts in range(min(k, n))
        for cuts in itertools.combinations(range(1, n), n_cuts)
    )
