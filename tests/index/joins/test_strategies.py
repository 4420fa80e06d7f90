"""One battery for all select-join strategies: whatever the plane and the events, answers are those of the plain twin.

Run compiled here, and uncompiled and with bounds checks by `test_three_ways.py`, which sets WEIR_INDEX_SCALE.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.marks import few_are_quick
from tests.oracle import naive_joins as naive
from weir.index.box_tables import Matches, OverBudget
from weir.index.joining.kinds import make_costs
from weir.index.joins.join_costs import N_TERMS
from weir.index.joins.join_index import JoinIndex, batch_order
from weir.index.joins.join_strategies import NAMES as STRATEGIES
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting import codes, collector
from weir.index.meeting.index_contract import Found, Meeting, Tuning, plain_meeting
from weir.index.meeting.planes import Plane

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SEEDS = range(max(int(100 * SCALE), 10))
WAYS = (*STRATEGIES, "auto")

everywhere = pytest.mark.parametrize("strategy", WAYS)


class Case(NamedTuple):
    """A plane, a batch of events with their partners, and muted boxes."""

    plane: Plane
    a: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    values: np.ndarray
    muted: np.ndarray
    alpha: float

    @property
    def meeting(self) -> Meeting:
        return plain_meeting(self.a, self.begin, self.end, self.values)


def draw_keys(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    """Middles of intervals, or keys of events, of one of several distributions."""
    match kind:
        case "scattered":
            return rng.integers(-1_000, 1_000, n)
        case "clustered":
            return rng.choice([-700, 0, 20, 900], n) + rng.integers(-15, 16, n)
        case "few":
            return rng.integers(-3, 4, n)
        case "identical":
            return np.full(n, 5)
        case "skewed":
            return (np.exp(rng.uniform(0, 42, n)) * rng.choice([-1, 1], n)).astype(np.int64)
        case "extreme":
            ends = np.array([KEY_MIN, KEY_MIN + 1, -(2**62), 0, 2**62, KEY_MAX - 1, KEY_MAX])
            return rng.choice(ends, n)
    raise AssertionError(kind)


KINDS = ("scattered", "clustered", "few", "identical", "skewed", "extreme")


def draw_intervals(rng: np.random.Generator, n: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Closed intervals: of one length or of many, some of them open, some without a constraint."""
    middle = draw_keys(rng, n, kind).astype(object)  # Python's integers: no sum overflows
    scale = rng.choice([0, 3, 30, 800])
    half = rng.integers(0, scale + 1, n) if rng.random() < 0.5 else np.full(n, scale)
    half = np.where(rng.random(n) < 0.1, half * 20, half).astype(object)
    lo = np.clip(middle - half, KEY_MIN, KEY_MAX).astype(np.int64)
    hi = np.clip(middle + half, KEY_MIN, KEY_MAX).astype(np.int64)
    odds = rng.choice([0.0, 0.05, 0.4])
    lo[rng.random(n) < odds] = KEY_MIN
    hi[rng.random(n) < odds] = KEY_MAX
    free = rng.random(n) < odds
    lo[free], hi[free] = NULL_KEY, KEY_MAX
    return lo, hi


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 2, 30, 300, 3_000], p=[0.03, 0.05, 0.05, 0.27, 0.4, 0.2]) * min(SCALE * 2, 1))
    kinds = rng.choice(KINDS, 2)
    a_lo, a_hi = draw_intervals(rng, n, kinds[0])
    c_lo, c_hi = draw_intervals(rng, n, kinds[1])
    plane = Plane(a_lo, a_hi, c_lo, c_hi)
    n_events = int(rng.choice([0, 1, 40]))
    a = draw_keys(rng, n_events, rng.choice([kinds[0], rng.choice(KINDS)]))
    ends = np.concatenate([a_lo, a_hi])
    if len(ends):
        at_bound = rng.random(n_events) < 0.4
        a[at_bound] = np.clip(rng.choice(ends, n_events), KEY_MIN + 1, KEY_MAX - 1)[at_bound]
        a[at_bound] += rng.integers(-1, 2, n_events)[at_bound]
    a[rng.random(n_events) < 0.1] = NULL_KEY
    sizes = rng.choice([0, 1, 2, 10, 60, 600], rng.integers(1, 8))
    parts = []
    for size in sizes:
        run = draw_keys(rng, size, rng.choice([kinds[1], rng.choice(KINDS)]))
        ends = np.concatenate([c_lo, c_hi])
        if len(ends) and rng.random() < 0.5:
            at_bound = rng.random(size) < 0.5
            run[at_bound] = rng.choice(ends, size)[at_bound]
        if rng.random() < 0.3:
            run[rng.random(size) < 0.2] = NULL_KEY
        parts.append(np.sort(run))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    which = rng.integers(0, len(sizes), n_events)
    muted = (rng.random(n) < rng.choice([0.0, 0.3])).astype(np.uint8)
    values = np.concatenate(parts).astype(np.int64)
    return Case(plane, a.astype(np.int64), offsets[which], offsets[which + 1], values, muted, rng.choice([0.001, 0.1]))


def search_case(index: JoinIndex, case: Case, pairs_max: int, strategy: str) -> Found:
    return index.search(case.meeting, case.muted, pairs_max, Tuning(strategy))


def check_against_twin(index: JoinIndex, case: Case, strategy: str, seed: int) -> None:
    offsets, boxes, counts = naive.search(*case[:-1])
    found = search_case(index, case, len(boxes), strategy)
    assert isinstance(found.matches, Matches), f"seed {seed}: {len(boxes)} pairs are within a budget of {len(boxes)}"
    assert found.matches.offsets.dtype == np.int64
    assert found.matches.slots.dtype == np.int32
    assert np.array_equal(found.matches.offsets, offsets), f"seed {seed}"
    assert np.array_equal(found.matches.slots, boxes), f"seed {seed}"
    assert found.choices.sum() == np.count_nonzero(case.end > case.begin), f"seed {seed}"
    if strategy != "auto":
        assert found.choices[STRATEGIES.index(strategy)] == found.choices.sum()
    if len(boxes):
        over = search_case(index, case, len(boxes) - 1, strategy)
        assert isinstance(over.matches, OverBudget), f"seed {seed}: {len(boxes)} pairs are one over budget"
        assert np.array_equal(over.matches.counts, counts), f"seed {seed}"
        assert np.array_equal(over.choices, found.choices), f"seed {seed}"


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=20))
def test_answers_are_those_of_the_twin(seed: int) -> None:
    case = draw(seed)
    index = JoinIndex.build(case.plane, alpha=case.alpha)
    for strategy in WAYS:
        check_against_twin(index, case, strategy, seed)


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=10))
def test_answers_hold_where_codes_decide_little(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "POINTS_MAX", int(np.random.default_rng(seed).choice([2, 7, 50])))
    case = draw(seed)
    index = JoinIndex.build(case.plane, alpha=case.alpha)
    for strategy in WAYS:
        check_against_twin(index, case, strategy, seed)


@everywhere
def test_small_buffers_are_resumed(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "OUTPUT_MIN", 1)
    monkeypatch.setattr(collector, "MATCHES_EXPECTED", 0)
    for seed in list(SEEDS)[::4]:
        case = draw(seed)
        check_against_twin(JoinIndex.build(case.plane, strategies=STRATEGIES), case, strategy, seed)


@pytest.mark.parametrize("mapped", [False, True], ids=["copied", "memory-mapped"])
def test_arrays_make_the_same_index(mapped: bool, tmp_path: Path) -> None:
    for seed in list(SEEDS)[::10]:
        case = draw(seed)
        index = JoinIndex.build(case.plane, alpha=case.alpha)
        arrays = {}
        for name, array in index.arrays().items():
            np.save(tmp_path / f"{name}.npy", array)
            arrays[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r" if mapped and array.size else None)
        again = JoinIndex.from_arrays(arrays)
        assert again.nbytes == index.nbytes == sum(array.nbytes for array in arrays.values())
        assert again.strategies == STRATEGIES
        for array, loaded in zip(again.plane, case.plane, strict=True):
            assert np.array_equal(array, loaded)
        for name, array in again.arrays().items():
            assert not array.size or np.shares_memory(array, arrays[name]) or name == "allowed", f"{name} is copied"
        for strategy in WAYS:
            check_against_twin(again, case, strategy, seed)


def fixed_case() -> Case:
    """A case with a bit of everything, the same at every scale."""
    rng = np.random.default_rng(4)
    lo, hi = draw_intervals(rng, 200, "clustered"), draw_intervals(rng, 200, "scattered")
    values = np.sort(rng.integers(-1_000, 1_000, 30))
    begin, end = np.array([0, 0, 10, 5]), np.array([30, 30, 10, 6])
    return Case(Plane(*lo, *hi), np.array([0, 905, 0, -700]), begin, end, values, np.zeros(200, np.uint8), 0.1)


def test_a_thrifty_index_has_stabbing_sets_only_where_they_pay() -> None:
    rng = np.random.default_rng(4)
    n = 20_000
    everything = np.full(n, NULL_KEY), np.full(n, KEY_MAX)
    middle = rng.integers(0, 1_000_000, n)
    scattered = Plane(*everything, middle, middle + 10)
    index = JoinIndex.build(scattered, thrifty=True)
    assert index.strategies == ("vanilla", "join-first", "select-first", "sweep")
    assert index.nbytes < 0.75 * JoinIndex.build(scattered).nbytes
    # Ten points stab all of these, and every event selects all of them.
    middle = rng.integers(0, 10, n) * 100_000
    clustered = Plane(*everything, middle - rng.integers(1, 9_000, n), middle + rng.integers(1, 9_000, n))
    assert "ssi" in JoinIndex.build(clustered, thrifty=True).strategies
    assert JoinIndex.build(clustered, strategies=("ssi",), thrifty=True).strategies == ("ssi",), "it is all there is"


@everywhere
def test_only_what_is_named_is_built(strategy: str) -> None:
    case = fixed_case()
    whole = JoinIndex.build(case.plane)
    part = JoinIndex.build(case.plane, strategies=[strategy] if strategy != "auto" else ["sweep", "select-first"])
    check_against_twin(part, case, strategy, 4)
    check_against_twin(part, case, "auto", 4)
    assert part.nbytes < whole.nbytes
    for name in set(STRATEGIES) - set(part.strategies):
        with pytest.raises(AssertionError, match="was not built"):
            search_case(part, case, 1, name)
    built = np.isfinite(part.estimates(case.meeting))
    assert [name for name, finite in zip(STRATEGIES, built.all(axis=0), strict=True) if finite] == list(part.strategies)


def plane_of(*boxes: tuple[int, int, int, int]) -> Plane:
    return Plane(*np.array(boxes, dtype=np.int64).reshape(-1, 4).T)


def run(plane: Plane, strategy: str, *events: tuple[int, list[int]]) -> list[list[int]]:
    """The boxes of events given as (a, partners)."""
    sizes = np.cumsum([0] + [len(partners) for _, partners in events])
    values = np.array([c for _, partners in events for c in sorted(partners)], dtype=np.int64)
    index = JoinIndex.build(plane)
    a = np.array([a for a, _ in events], dtype=np.int64)
    meeting = plain_meeting(a, sizes[:-1], sizes[1:], values)
    found = index.search(meeting, np.zeros(len(plane.a_lo), np.uint8), 10**6, Tuning(strategy))
    assert isinstance(found.matches, Matches)
    bounds = found.matches.offsets
    return [found.matches.slots[b:e].tolist() for b, e in pairwise(bounds)]


@everywhere
def test_no_boxes_and_no_events(strategy: str) -> None:
    assert run(plane_of(), strategy) == []
    assert run(plane_of(), strategy, (3, [1, 2]), (4, [])) == [[], []]
    assert run(plane_of((1, 5, 1, 5)), strategy) == []
    assert run(plane_of((1, 5, 1, 5)), strategy, (1, [5]), (6, [5]), (1, [6]), (3, [])) == [[0], [], [], []]


@everywhere
def test_null_is_contained_only_where_nothing_is_asked(strategy: str) -> None:
    free, some = (NULL_KEY, KEY_MAX), (KEY_MIN, KEY_MAX)
    plane = plane_of((*free, *free), (*some, *free), (*free, *some), (*some, *some), (3, 3, *free))
    events = (NULL_KEY, [NULL_KEY]), (NULL_KEY, [NULL_KEY, KEY_MIN]), (3, [NULL_KEY]), (KEY_MIN, [NULL_KEY, KEY_MAX])
    assert run(plane, strategy, *events) == [[0], [0, 2], [0, 1, 4], [0, 1, 2, 3]]


@everywhere
def test_extreme_keys(strategy: str) -> None:
    plane = plane_of(
        (KEY_MIN, KEY_MIN, KEY_MAX, KEY_MAX), (KEY_MAX, KEY_MAX, KEY_MIN, KEY_MIN), (KEY_MIN, KEY_MAX, KEY_MIN, KEY_MAX)
    )
    both = [KEY_MIN, KEY_MAX]
    assert run(plane, strategy, (KEY_MIN, both), (KEY_MAX, both), (0, both), (KEY_MIN, [0])) == [
        [0, 2],
        [1, 2],
        [2],
        [2],
    ]


@everywhere
def test_a_box_that_many_partners_lie_in_is_found_once(strategy: str) -> None:
    plane = plane_of((0, 9, 0, 99), (0, 9, 5, 5), (0, 9, 6, 7), (20, 30, 0, 99))
    assert run(plane, strategy, (4, [5] * 500 + list(range(8, 99))), (4, [5, 5, 8])) == [[0, 1], [0, 1]]


@everywhere
def test_many_boxes_are_sorted_and_huge_runs_walked(strategy: str) -> None:
    rng = np.random.default_rng(9)
    n = max(int(6_000 * SCALE), 300)
    middle = rng.integers(0, 10_000, (2, n))
    plane = Plane(middle[0] - 2_000, middle[0] + 2_000, middle[1] - 300, middle[1] + 300)
    m = max(int(20_000 * SCALE), 1_000)
    values = np.concatenate([np.sort(rng.integers(0, 10_000, size)) for size in (3, m, 5)])
    begin, end = np.array([0, 3, m + 3, 3]), np.array([3, m + 3, m + 8, m + 3])
    case = Case(plane, np.array([5_000, 100, 9_000, 7_000]), begin, end, values, np.zeros(n, np.uint8), 0.01)
    check_against_twin(JoinIndex.build(plane, alpha=0.01), case, strategy, 9)


def test_the_router_takes_the_cheapest() -> None:
    case = fixed_case()
    index = JoinIndex.build(case.plane)
    for number in range(len(STRATEGIES)):
        terms = np.zeros((len(STRATEGIES), N_TERMS))
        terms[:, 0] = 5.0
        terms[number, 0] = 4.0
        tuning = Tuning(costs=make_costs(terms))
        found = index.search(case.meeting, case.muted, 10**9, tuning)
        assert found.choices[number] == found.choices.sum() == 3
        estimates = index.estimates(case.meeting, tuning)
        assert estimates.shape == (len(case.a), len(STRATEGIES))
        assert np.all(estimates.argmin(axis=1) == number)


@everywhere
def test_estimates_are_finite_and_cycles_are_counted(strategy: str) -> None:
    for seed in list(SEEDS)[:6]:
        case = draw(seed)
        index = JoinIndex.build(case.plane, alpha=case.alpha)
        assert np.all(np.isfinite(index.estimates(case.meeting)))
        if strategy != "auto":
            spent = index.cycles(case.meeting, strategy)
            assert np.array_equal(spent > 0, case.end > case.begin)


def test_events_are_ordered_by_a_then_by_key() -> None:
    keys, a = np.array([3, 1, 3, 1, 2]), np.array([5, 9, 4, 9, 5])
    assert batch_order(keys, a).tolist() == [2, 4, 0, 1, 3]
