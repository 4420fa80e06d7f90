"""Stabbing partitions against a plain twin: minimal when canonical, within (1 + ε) τ after every update otherwise."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable

import numpy as np
import pytest

from tests.index.interval_histories import KINDS, history
from tests.marks import few_are_quick
from tests.oracle.naive_stabbing import fewest_points, stabbing_points
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.papers.stabbing_partition import StabbingPartition
from weir.index.papers.stabbing_triggers import TRIGGERS, Interval
from weir.index.stabbing import canonical

pytestmark = pytest.mark.slow

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
HISTORIES = int(1_014 * SCALE)  # 26 for each kind and trigger
UPDATES = 500
EPSILONS = (0.1, 0.5, 1.0, 3.0)


def random_intervals(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of many lengths with ties and, sometimes, without bounds."""
    lo = rng.integers(-50, 50, n) * rng.choice([1, 1_000])
    hi = lo + (rng.random(n) ** 3 * rng.choice([1, 20, 5_000])).astype(np.int64)
    lo[rng.random(n) < 0.03] = rng.choice([NULL_KEY, KEY_MIN])
    hi[rng.random(n) < 0.03] = KEY_MAX
    return lo, hi


def check_partition(groups: Iterable[tuple[int, list[int]]], bounds: dict[int, tuple[int, int]]) -> None:
    """Every interval is in one group, whose point stabs it; points ascend."""
    points, seen = [], []
    for point, members in groups:
        points.append(point)
        seen += members
        assert members, "no group is empty"
        for id in members:
            lo, hi = bounds[id]
            assert lo <= point <= hi, f"{point} does not stab [{lo}, {hi}]"
    assert sorted(seen) == sorted(bounds), "groups divide the intervals"
    assert points == sorted(set(points))


@pytest.mark.parametrize("seed", few_are_quick(range(60), quick=10))
def test_canonical(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n in (0, 1, 2, 5, 40, 300):
        lo, hi = random_intervals(rng, n)
        group_of_interval, points = canonical(lo, hi)
        assert group_of_interval.dtype == np.int32
        assert points.dtype == np.int64
        assert bool(np.all(points[1:] > points[:-1]))
        assert points.tolist() == stabbing_points(zip(lo.tolist(), hi.tolist(), strict=True))
        stabbing = points[group_of_interval]
        assert bool(np.all((lo <= stabbing) & (stabbing <= hi)))
        assert sorted(set(group_of_interval.tolist())) == list(range(len(points))), "no group is empty"


def test_canonical_is_minimal() -> None:
    """The twin's greedy is not trusted either: on small sets all sets of points are tried."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        lo = rng.integers(0, 20, rng.integers(0, 9))
        hi = lo + rng.integers(0, 7, len(lo))
        assert len(canonical(lo, hi).points) == fewest_points(list(zip(lo.tolist(), hi.tolist(), strict=True)))


def run_history(partition: StabbingPartition, kind: str, seed: int, every: int = 1) -> int:
    """Play a history; the number of updates after which the size was checked and found too large."""
    ids: dict[int, int] = {}
    bounds: dict[int, tuple[int, int]] = {}
    exceeded = 0
    for step, (serial, interval) in enumerate(history(kind, seed, UPDATES)):
        if interval is None:
            id = ids.pop(serial)
            partition.delete(id)
            del bounds[id]
        else:
            id = ids[serial] = partition.insert(*interval)
            assert id not in bounds, f"step {step}: id {id} is in use"
            bounds[id] = interval
        if step % every == 0:
            tau = len(stabbing_points(bounds.values()))
            assert partition.size >= tau
            exceeded += partition.size > (1 + partition.epsilon) * tau
        if step % 25 == 0:
            check_partition(partition.groups(), bounds)
            check_cores(partition)
            for id, (lo, hi) in bounds.items():
                assert lo <= partition.point_of(id) <= hi
                assert id in partition.members_of(partition.group_of(id))
        assert len(partition) == len(bounds)
    return exceeded


def check_cores(partition: StabbingPartition) -> None:
    """Cores ascend without overlap and lie in all members: that is what makes the search right."""
    cores = [partition.core_of(group) for group in partition.numbers()]
    assert all(begin <= end for begin, end in cores)
    assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(cores))
    for group, (begin, end) in zip(partition.numbers(), cores, strict=True):
        members = [partition.bounds(id) for id in partition.members_of(group)]
        assert len(members) == partition.count_of(group)
        assert all(lo <= begin and end <= hi for lo, hi in members)


@pytest.mark.parametrize("kind", few_are_quick(KINDS, quick=1))
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_size_is_bounded_after_every_update(trigger: str, kind: str) -> None:
    n_seeds = max(HISTORIES // len(KINDS) // len(TRIGGERS), 2)
    for seed in range(n_seeds):
        partition = StabbingPartition(EPSILONS[seed % len(EPSILONS)], trigger)
        try:
            exceeded = run_history(partition, kind, seed)
        except AssertionError as error:
            raise AssertionError(f"{kind}, seed {seed}, {trigger}, ε = {partition.epsilon}: {error}") from error
        assert not exceeded, f"{kind}, seed {seed}, {trigger}, ε = {partition.epsilon}: {exceeded} times too large"


class Never:
    """A trigger that forgets its duty."""

    def rebuilt(self, witnesses: Iterable[Interval], size: int) -> None: ...

    def inserted(self, id: int, lo: int, hi: int, size: int) -> bool:
        return False

    def deleted(self, id: int, lo: int, hi: int, size: int, others: Iterable[Interval]) -> bool:
        return False


@pytest.mark.parametrize("kind", ["blurred", "scattered", "points", "first to end", "bridged", "sliding"])
def test_histories_are_hard(kind: str) -> None:
    """Without rebuilds the bound breaks, so the test above can fail."""
    exceeded = 0
    for seed in range(8):
        partition = StabbingPartition(0.1)
        partition._trigger = Never()
        exceeded += run_history(partition, kind, seed, every=5)
    assert exceeded


def test_of_many_at_once() -> None:
    rng = np.random.default_rng(3)
    for n in (0, 1, 50, 400):
        lo, hi = random_intervals(rng, n)
        partition = StabbingPartition.of(lo, hi, 0.5)
        assert partition.size == len(canonical(lo, hi).points)
        bounds = dict(enumerate(zip(lo.tolist(), hi.tolist(), strict=True)))
        check_partition(partition.groups(), bounds)
        check_cores(partition)
        assert partition.rebuilds == 0
        for id in range(0, n, 2):
            partition.delete(id)
            del bounds[id]
        check_partition(partition.groups(), bounds)


def test_whole_groups() -> None:
    """A group goes out and comes back in; the bound and the members hold."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        lo, hi = random_intervals(rng, 80)
        for trigger in TRIGGERS:
            partition = StabbingPartition.of(lo, hi, 0.5, trigger)
            for _ in range(30):
                group = partition.numbers()[int(rng.integers(partition.size))]
                before = partition.size, partition.count_of(group)
                taken = partition.take_group(group)
                assert len(taken.ids) == before[1]
                assert len(partition) == 80 - before[1]
                assert partition.size <= 1.5 * len(stabbing_points(b for b in living(partition))), seed
                partition.insert_group(taken)
                assert sorted(living(partition)) == sorted(zip(lo.tolist(), hi.tolist(), strict=True))
                assert partition.size <= 1.5 * len(stabbing_points(living(partition))), seed
                check_cores(partition)


def living(partition: StabbingPartition) -> list[tuple[int, int]]:
    return [partition.bounds(id) for group in partition.groups() for id in group.members]


def test_join_never_opens_a_group() -> None:
    partition = StabbingPartition(1.0)
    assert partition.join(0, 10) == -1
    first = partition.insert(0, 10)
    assert partition.join(11, 12) == -1
    second = partition.join(5, 20)
    assert partition.group_of(first) == partition.group_of(second)
    assert (partition.size, len(partition)) == (1, 2)


def test_witnesses_spare_rebuilds() -> None:
    """30 clusters of many intervals: the witness trigger hardly ever rebuilds, the others do all the time."""
    rebuilds = {}
    for trigger in TRIGGERS:
        rng = np.random.default_rng(5)
        centres = rng.permutation(30) * 1_000

        def draw(rng: np.random.Generator = rng, centres: np.ndarray = centres) -> tuple[int, int]:
            left, right = rng.integers(1, 300, 2)
            centre = rng.choice(centres)
            return int(centre - left), int(centre + right)

        lo, hi = np.array([draw() for _ in range(3_000)]).T
        partition = StabbingPartition.of(lo, hi, 1.0, trigger)
        live = list(range(3_000))
        for _ in range(1_000):
            place = int(rng.integers(len(live)))
            partition.delete(live[place])
            live[place] = partition.insert(*draw())
        rebuilds[trigger] = partition.rebuilds
    assert rebuilds["updates"] > 100, rebuilds
    assert rebuilds["deletions"] > 50, rebuilds
    assert rebuilds["witnesses"] <= 3, rebuilds


def test_a_deleted_witness_is_replaced() -> None:
    """Nested intervals whose innermost always goes: each is the witness, and the next one takes over."""
    n = 200
    partition = StabbingPartition.of(np.arange(n), np.arange(2 * n, n, -1), 0.5)
    for id in range(n - 1, -1, -1):
        partition.delete(id)
        assert partition.size == (1 if id else 0)
    assert partition.rebuilds == 0


def test_unknown_intervals_are_refused() -> None:
    partition = StabbingPartition(1.0)
    id = partition.insert(1, 2)
    partition.delete(id)
    with pytest.raises(AssertionError, match="there is no interval"):
        partition.delete(id)
    with pytest.raises(AssertionError, match="not empty"):
        partition.insert(3, 2)
