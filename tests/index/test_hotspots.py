"""Hotspots against a plain twin: the three invariants of theorem 1 over thousands of histories."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.index.interval_histories import KINDS, history
from tests.marks import few_are_quick
from tests.oracle.naive_stabbing import stabbing_points
from weir.index.papers.hotspots import HotspotTracker
from weir.index.papers.stabbing_triggers import TRIGGERS

pytestmark = pytest.mark.slow

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
HISTORIES = int(1_014 * SCALE)
UPDATES = 500
EPSILONS = (0.1, 0.5, 1.0, 3.0)
ALPHAS = (0.05, 0.1, 0.2, 0.34, 0.5, 1.0)


def check(tracker: HotspotTracker, epsilon: float, bounds: dict[int, tuple[int, int]]) -> None:
    """I1, I2 and that hot and scattered groups divide the intervals."""
    n = len(bounds)
    assert len(tracker) == n
    hot, scattered = tracker.hotspots(), tracker.scattered_groups()
    for group in hot:
        assert len(group.members) >= tracker.alpha / 2 * n, f"I1: a hot group of {len(group.members)} in {n}"
        assert all(tracker.is_hot(id) for id in group.members)
    for group in scattered:
        assert len(group.members) < tracker.alpha * n, f"I1: a scattered group of {len(group.members)} in {n}"
        assert not any(tracker.is_hot(id) for id in group.members)
    assert len(hot) <= 2 / tracker.alpha
    assert tracker.size == len(hot) + len(scattered)
    tau = len(stabbing_points(bounds.values()))
    assert tracker.size <= (1 + epsilon) * tau + 2 / tracker.alpha, f"I2: {tracker.size} groups, τ = {tau}"
    rest = [bounds[id] for group in scattered for id in group.members]
    assert len(scattered) <= (1 + epsilon) * len(stabbing_points(rest)), "the scattered part has a bound of its own"
    seen = []
    for group in (*hot, *scattered):
        seen += group.members
        for id in group.members:
            lo, hi = bounds[id]
            assert lo <= group.point <= hi, f"{group.point} does not stab [{lo}, {hi}]"
    assert sorted(seen) == sorted(bounds), "groups divide the intervals"
    assert sorted(tracker.scattered) == sorted(id for group in scattered for id in group.members)


def run_history(tracker: HotspotTracker, epsilon: float, kind: str, seed: int) -> None:
    ids: dict[int, int] = {}
    bounds: dict[int, tuple[int, int]] = {}
    for step, (serial, interval) in enumerate(history(kind, seed, UPDATES)):
        if interval is None:
            id = ids.pop(serial)
            tracker.delete(id)
            del bounds[id]
        else:
            id = ids[serial] = tracker.insert(*interval)
            assert id not in bounds, f"step {step}: id {id} is in use"
            bounds[id] = interval
        if step % 10 == 0:
            check(tracker, epsilon, bounds)
        moves = tracker.moves_in + tracker.moves_out
        assert moves <= 5 * (step + 1), f"I3: {moves} moves in {step + 1} updates"
    check(tracker, epsilon, bounds)
    assert tracker.updates == step + 1


@pytest.mark.parametrize("kind", few_are_quick(KINDS, quick=1))
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_invariants(trigger: str, kind: str) -> None:
    for seed in range(max(HISTORIES // len(KINDS) // len(TRIGGERS), 2)):
        alpha, epsilon = ALPHAS[seed % len(ALPHAS)], EPSILONS[seed % len(EPSILONS)]
        tracker = HotspotTracker(alpha, epsilon, trigger)
        try:
            run_history(tracker, epsilon, kind, seed)
        except AssertionError as error:
            raise AssertionError(f"{kind}, seed {seed}, {trigger}, α = {alpha}, ε = {epsilon}: {error}") from error


def test_histories_promote_and_demote() -> None:
    """The test above would mean little if nothing ever moved."""
    trackers = {kind: HotspotTracker(0.2, 1.0) for kind in KINDS}
    for kind, tracker in trackers.items():
        run_history(tracker, 1.0, kind, seed=1)
        assert tracker.moves_out > 0, kind
    assert sum(tracker.moves_in for tracker in trackers.values()) > 200
    assert sum(tracker.moves_out for tracker in trackers.values()) > 400
    assert trackers["tides"].moves_in > 10


def test_a_cluster_becomes_hot_and_cools() -> None:
    tracker = HotspotTracker(alpha=0.5, epsilon=1.0)
    apart = [tracker.insert(100 * k, 100 * k + 1) for k in range(20)]
    crowd = [tracker.insert(5_000 - k, 5_000 + k) for k in range(25)]
    assert all(tracker.is_hot(id) for id in crowd)
    assert sorted(tracker.scattered) == sorted(apart)
    (hotspot,) = tracker.hotspots()
    assert sorted(hotspot.members) == sorted(crowd)
    assert hotspot.point == 5_000
    while crowd:
        tracker.delete(crowd.pop())
        # at 6 of 26 it is below a quarter
        assert all(tracker.is_hot(id) == (len(crowd) / (20 + len(crowd)) >= 0.25) for id in crowd)
    assert tracker.hotspots() == []


def test_zipf_keeps_few_hotspots() -> None:
    """Clusters of Zipf sizes: the hotspots cover what the large clusters do, and few intervals ever move."""
    rng = np.random.default_rng(11)
    tracker = HotspotTracker(alpha=0.02, epsilon=1.0)
    weights = 1 / np.arange(1, 201)
    clusters = rng.choice(200, 4_000, p=weights / weights.sum())
    for cluster, left, right in zip(clusters, *rng.integers(0, 40, (2, 4_000)), strict=True):
        tracker.insert(int(cluster * 100 - left), int(cluster * 100 + right))
    sizes = np.bincount(clusters, minlength=200)
    hot = {round(group.point / 100): len(group.members) for group in tracker.hotspots()}
    assert all(sizes[cluster] == count for cluster, count in hot.items())
    assert set(np.flatnonzero(sizes >= 0.02 * 4_000)) <= set(hot) <= set(np.flatnonzero(sizes >= 0.01 * 4_000))
    assert tracker.moves_in + tracker.moves_out < 4_000
