"""Histograms against brute force: every key of a small range is looked at one by one."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.marks import few_are_quick
from tests.oracle.naive_stabbing import least_cost, stabbed, stabbing_points
from weir.index.histograms import EqualWidth, height_at
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.papers.interval_histograms import (
    StepFunction,
    _by_cardinality,
    _by_error,
    _cluster,
    exact,
    optimal,
    peaked_histogram,
    stabbing_histogram,
)

pytestmark = pytest.mark.slow

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))  # small where kernels are not compiled


def random_intervals(rng: np.random.Generator, n: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    lo = rng.integers(0, keys, n)
    return lo, np.minimum(lo + rng.integers(0, keys // 2, n), keys - 1)


def pairs(lo: np.ndarray, hi: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(lo.tolist(), hi.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_a_bucket_is_the_mean_of_its_keys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, buckets = int(rng.integers(1, 9)), int(rng.integers(1, 12))
    keys, offset = width * buckets, int(rng.integers(-100, 100))
    lo, hi = random_intervals(rng, 40, keys)
    lo[0], hi[0] = 0, keys - 1  # so that buckets are as wide as wanted
    made = EqualWidth.of_intervals(lo + offset, hi + offset, buckets)
    truth = np.array([stabbed(pairs(lo, hi), x) for x in range(keys)])
    expected = truth.reshape(buckets, width).mean(axis=1)
    estimates = made.estimate(np.arange(keys) + offset)
    assert np.allclose(estimates, np.repeat(expected, width)), f"seed {seed}"
    assert made.counts.sum() == pytest.approx(truth.sum())
    for x in range(-2, keys + 2):
        assert made.estimate(x + offset) == height_at(*made, x + offset)


@pytest.mark.parametrize("seed", range(20))
def test_any_width_keeps_the_sum(seed: int) -> None:
    """Where keys do not divide into buckets evenly, all buckets together still have every key of every interval."""
    rng = np.random.default_rng(100 + seed)
    lo, hi = random_intervals(rng, 50, 97)
    made = EqualWidth.of_intervals(lo, hi, int(rng.integers(1, 30)))
    assert made.counts.sum() == pytest.approx(np.sum(hi - lo + 1))


@pytest.mark.parametrize("seed", range(10))
def test_remove_undoes_add(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    lo, hi = random_intervals(rng, 60, 1_000)
    lo[rng.random(60) < 0.1] = rng.choice([NULL_KEY, KEY_MIN])
    hi[rng.random(60) < 0.1] = KEY_MAX
    made = EqualWidth.of_intervals(lo[:40], hi[:40], 13)
    before = made.heights.copy()
    made.add(lo[40:], hi[40:])
    both = made.heights.copy()
    assert not np.allclose(before, both)
    made.remove(lo[40:], hi[40:])
    assert np.allclose(made.heights, before)
    for low, high in pairs(lo[40:], hi[40:]):
        made.add(low, high)
    assert np.allclose(made.heights, both), "one by one as all at once"


def test_without_bounds() -> None:
    lo = np.array([NULL_KEY, KEY_MIN, 10, 20])
    hi = np.array([KEY_MAX, 30, KEY_MAX, 29])
    made = EqualWidth.of_intervals(lo, hi, 3)
    assert made.span.tolist() == [10, 30]
    assert made.estimate(NULL_KEY) == 1
    assert made.estimate(KEY_MIN) == made.estimate(9) == 2
    assert made.estimate(10) == 3
    assert made.estimate(31) == made.estimate(KEY_MAX) == 2
    assert [height_at(*made, x) for x in (NULL_KEY, KEY_MIN, 10, 31, KEY_MAX)] == [1, 2, 3, 2, 2]
    everything = EqualWidth.of_intervals(np.array([NULL_KEY] * 5), np.array([KEY_MAX] * 5), 4)
    assert everything.estimate(np.array([NULL_KEY, KEY_MIN, -1, 0, 1, KEY_MAX])).tolist() == [5] * 6
    nothing = EqualWidth.of_intervals(np.array([], np.int64), np.array([], np.int64), 4)
    assert nothing.estimate(np.array([NULL_KEY, -1, 0, 1])).tolist() == [0] * 4


def test_beyond_the_buckets() -> None:
    """Intervals that come later may lie outside: they count below or above, and in no bucket that they miss."""
    made = EqualWidth.of_intervals(np.array([0, 40]), np.array([99, 59]), 10)
    inside = made.estimate(np.arange(100))
    made.add(np.array([200, -50]), np.array([300, -10]))
    assert made.estimate(np.arange(100)).tolist() == inside.tolist()
    assert made.estimate(np.array([-51, -1, 100, 400])).tolist() == [1] * 4
    made.add(-5, 9)
    made.add(90, 200)
    assert np.allclose(made.estimate(np.arange(100)) - inside, [1] * 10 + [0] * 80 + [1] * 10)
    assert made.estimate(np.array([-1, 100])).tolist() == [2, 2]


def test_extreme_keys_do_not_overflow() -> None:
    lo = np.array([KEY_MIN + 1, KEY_MIN + 1, KEY_MAX - 10])
    hi = np.array([KEY_MAX - 1, KEY_MIN + 5, KEY_MAX - 1])
    made = EqualWidth.of_intervals(lo, hi, 10)
    assert made.estimate(0) == pytest.approx(1)
    assert made.estimate(KEY_MIN + 1) == pytest.approx(1)  # a narrow interval is a tiny share of its bucket
    assert height_at(*made, KEY_MAX - 1) == pytest.approx(1)
    near = EqualWidth.of_intervals(np.array([KEY_MAX - 20]), np.array([KEY_MAX - 1]), 20)
    assert near.estimate(KEY_MAX - 7) == 1
    assert near.estimate(KEY_MAX - 21) == 0


def test_rows_by_key() -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 100, 5_000)
    values[:2] = 0, 99
    nulls = np.full(7, NULL_KEY)
    made = EqualWidth.of_values(np.concatenate((values, nulls)), 10)
    assert np.allclose(made.counts, np.bincount(values // 10))
    assert made.estimate(35) == pytest.approx(np.count_nonzero(values // 10 == 3) / 10)
    assert made.estimate(NULL_KEY) == 7
    assert made.estimate(-1) == made.estimate(100) == 0
    made.remove(values, values)
    assert made.estimate(np.arange(100)) == pytest.approx(np.zeros(100), abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lo, hi = random_intervals(rng, 30, 60)
    if seed % 2:
        lo[0], hi[1] = NULL_KEY, KEY_MAX
    x = np.array([NULL_KEY, KEY_MIN, *range(-2, 64), KEY_MAX - 1])
    assert exact(lo, hi).estimate(x).tolist() == [stabbed(pairs(lo, hi), int(key)) for key in x]


@pytest.mark.parametrize("seed", few_are_quick(range(30), quick=4))
def test_clusters_are_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 10))
    heights = np.cumsum(rng.integers(1, 5, m)).astype(np.float64)
    weights = rng.random(m) / heights**2
    weights[rng.random(m) < 0.15] = 0
    cuts, costs = _cluster(heights, weights, m)
    points = list(zip(weights.tolist(), heights.tolist(), strict=True))
    assert costs[0] == pytest.approx(np.sum(weights * heights**2))
    for k in range(1, m + 1):
        assert costs[k] == pytest.approx(least_cost(points, k), abs=1e-12), f"seed {seed}, {k} clusters"
        assert 0 <= cuts[k, m] < m


def truth_of(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """How many intervals contain each key, one key at a time."""
    return np.array([np.count_nonzero((lo <= x) & (x <= hi)) for x in range(lo.min(), hi.max() + 1)], np.float64)


def squared_error(made: StepFunction, lo: np.ndarray, hi: np.ndarray) -> float:
    """Sum of the squared relative error over all keys that an interval contains."""
    truth = truth_of(lo, hi)
    there = truth > 0
    off = made.estimate(np.arange(lo.min(), hi.max() + 1))[there] - truth[there]
    return float(np.sum((off / truth[there]) ** 2))


@pytest.mark.parametrize("seed", few_are_quick(range(30), quick=8))
def test_the_optimum_is_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lo, hi = random_intervals(rng, 5, 40)
    f = exact(lo, hi)
    heights, lengths = f.heights[1:-1], np.diff(f.breaks)
    weights = np.divide(lengths, heights**2, out=np.zeros(len(heights)), where=heights > 0)
    points = list(zip(weights.tolist(), heights.tolist(), strict=True))
    for k in range(1, len(points) + 2):
        made = optimal(lo, hi, k)
        assert made.buckets <= k
        assert squared_error(made, lo, hi) == pytest.approx(least_cost(points, k), abs=1e-9), f"seed {seed}, {k}"
    assert squared_error(optimal(lo, hi, 100), lo, hi) == pytest.approx(0, abs=1e-12)
    some = optimal(lo, hi, 3, candidates=f.breaks[::3])
    assert set(some.breaks.tolist()) <= {*f.breaks[::3].tolist(), int(f.breaks[0]), int(f.breaks[-1])}
    assert squared_error(some, lo, hi) >= least_cost(points, 3) - 1e-9


def clustered(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A few groups of long and short intervals with tails."""
    centres = rng.choice([200, 500, 800], n, p=[0.2, 0.6, 0.2])
    half = np.abs(rng.normal(10, 60, n)).astype(np.int64)
    return centres - half, centres + np.abs(rng.normal(10, 60, n)).astype(np.int64)


def as_steps(equal: EqualWidth) -> StepFunction:
    buckets = len(equal.heights) - 3
    breaks = equal.span[0] + np.ceil(np.arange(buckets + 1) / equal.scale[0]).astype(np.int64)
    return StepFunction(breaks, np.concatenate(([0.0], equal.heights[2:-1], [0.0])))


HISTOGRAMS = {
    "cardinality": lambda lo, hi, buckets: stabbing_histogram(lo, hi, buckets),
    "error": lambda lo, hi, buckets: stabbing_histogram(lo, hi, buckets, share="error"),
    "peaked": peaked_histogram,
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_lie_between(name: str) -> None:
    """Never better than the optimum; over all seeds better than buckets of one width, each by a margin of its own."""
    logs = []
    for seed in range(6 if SCALE == 1 else 2):
        lo, hi = clustered(np.random.default_rng(seed), 300 if SCALE == 1 else 100)
        for buckets in (10, 20, 40) if SCALE == 1 else (10,):
            made = HISTOGRAMS[name](lo, hi, buckets)
            assert made.buckets <= buckets
            error = squared_error(made, lo, hi)
            assert error >= squared_error(optimal(lo, hi, buckets), lo, hi) - 1e-9, f"seed {seed}, {buckets} buckets"
            logs.append(np.log(error / squared_error(as_steps(EqualWidth.of_intervals(lo, hi, buckets)), lo, hi)))
    assert np.exp(np.mean(logs)) < {"cardinality": 1.0, "error": 0.5, "peaked": 1.0}[name]


def test_a_peak_is_as_good_as_the_optimum() -> None:
    """One peak of noisy sides: all intervals together are the group."""
    rng = np.random.default_rng(12)
    middle, half = rng.normal(500, 80, 400), np.abs(rng.normal(50, 100, 400))
    lo, hi = (middle - half).astype(np.int64), (middle + half).astype(np.int64)
    assert len(stabbing_points(pairs(lo, hi))) > 15
    for buckets in (10, 20, 40) if SCALE == 1 else (10,):
        best = squared_error(optimal(lo, hi, buckets), lo, hi)
        assert best - 1e-9 <= squared_error(peaked_histogram(lo, hi, buckets), lo, hi) < 1.3 * best


def test_enough_buckets_are_exact() -> None:
    """With a bucket for every break, and groups apart from each other, nothing is lost."""
    rng = np.random.default_rng(8)
    lo, hi = clustered(rng, 25)
    x = np.arange(lo.min() - 1, hi.max() + 2)
    for name, make in HISTOGRAMS.items():
        assert np.allclose(make(lo, hi, 2_000).estimate(x), exact(lo, hi).estimate(x)), name


def test_one_group_has_the_best_of_both_sides() -> None:
    """A single group in k pieces: no division of pieces between its sides is better."""
    rng = np.random.default_rng(9)
    lo, hi = 50 - rng.integers(1, 40, 7), 50 + rng.integers(0, 40, 7)
    assert len(stabbing_points(pairs(lo, hi))) == 1
    f = exact(lo, hi)
    heights, lengths = f.heights[1:-1], np.diff(f.breaks)
    points = list(zip((lengths / heights**2).tolist(), heights.tolist(), strict=True))
    turn = int(np.searchsorted(f.breaks, hi.min() + 1))
    for k in range(2, len(points)):
        best = min(side_cost(points[:turn], i) + side_cost(points[turn:], k - i) for i in range(k + 1))
        assert squared_error(stabbing_histogram(lo, hi, k), lo, hi) == pytest.approx(best, abs=1e-9)


def side_cost(points: list[tuple[float, float]], k: int) -> float:
    """Of a side in k pieces; without any it is left out."""
    return least_cost(points, k) if k else sum(w * y**2 for w, y in points)


def test_without_bounds_or_intervals() -> None:
    """Only the finite range has weight; beyond it an estimate is some height of the unbounded intervals."""
    lo, hi = np.array([NULL_KEY, 5, 7, KEY_MIN]), np.array([KEY_MAX, KEY_MAX, 9, 6])
    x = np.array([5, 6, 7, 9, 10])
    outside = np.array([NULL_KEY, KEY_MIN, 0, KEY_MAX - 1])
    for name, make in (*HISTOGRAMS.items(), ("optimal", optimal)):
        made = make(lo, hi, 50)
        assert np.allclose(made.estimate(x[:-1]), exact(lo, hi).estimate(x[:-1])), name
        assert bool(np.all((made.estimate(outside) > 0) & (made.estimate(outside) <= 4))), name
        empty = make(lo[:0], hi[:0], 5)
        assert empty.estimate(x).tolist() == [0] * len(x), name


def test_shares() -> None:
    """Pieces and the breaks that they need stay within the buckets."""
    rng = np.random.default_rng(10)
    for _ in range(300):
        sizes = (rng.pareto(1.0, rng.integers(1, 40)) * 10 + 1).astype(np.int64)
        buckets = int(rng.integers(1, 60))
        pieces = _by_cardinality(sizes, buckets)
        assert np.sum(pieces + (pieces > 0)) <= buckets + 1
        assert pieces[np.argmax(sizes)] >= 1
        assert bool(np.all(np.diff(pieces[np.argsort(sizes, kind="stable")]) >= -1)), "larger groups have more"
    for _ in range(100):
        costs = [np.sort(rng.random(6))[::-1] for _ in range(3)]
        buckets = int(rng.integers(1, 12))
        pieces = _by_error(costs, buckets)
        assert np.sum(pieces + (pieces > 0)) <= buckets + 1
        best = min(
            costs[0][a] + costs[1][b] + costs[2][c]
            for a in range(6)
            for b in range(6)
            for c in range(6)
            if sum(k + 1 for k in (a, b, c) if k) <= buckets + 1
        )
        assert sum(cost[k] for cost, k in zip(costs, pieces, strict=True)) == pytest.approx(best)
