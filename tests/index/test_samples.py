"""Samples of recent rows: whatever they are, answers stay; where rows are not where constants are, candidates get few.

Run compiled here, and uncompiled and with bounds checks by `test_three_ways.py`, which sets WEIR_INDEX_SCALE.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.workloads import w2
from tests.index.random_tables import Case, draw
from tests.index.test_grid import candidates, layout_of, table_of
from tests.index.test_strategies import SCALE, SEEDS, check_against_twin
from tests.marks import few_are_quick
from weir.index import access, digests, grid, lifts, ranks, samples
from weir.index.box_tables import BoxTable
from weir.index.grid import GridIndex
from weir.index.keys import NULL_KEY
from weir.index.samples import Sample, measured_shares
from weir.index.strategies import STRATEGIES, Choosing

DOMAIN = 10**6
SMALLEST = SCALE < 0.05  # `make test` runs them uncompiled; soak has the larger sizes
counts_work = pytest.mark.skipif(SCALE < 1, reason="counts work, not answers")


def kinds_of_samples(case: Case, seed: int) -> dict[str, Sample | None]:
    """No rows, misleading ones, and those that are asked for."""
    a, rng = case.n_attributes, np.random.default_rng(seed)
    every = np.ones(a, np.bool_)
    corners = np.full((a, 200), NULL_KEY)
    if len(case.table.constraint_lo):
        at = rng.integers(0, len(case.table.constraint_lo), (a, 200))
        corners = case.table.constraint_lo[at]
    return {
        "none": None,
        "empty": Sample(np.empty((a, 0), np.int64), every),
        "all NULL": Sample(np.full((a, 90), NULL_KEY), every),
        "one value": Sample(np.repeat(corners[:, :1], 90, axis=1), every),
        "corners": Sample(corners, every),
        "half measured": Sample(corners, rng.random(a) < 0.5),
        "the events": Sample(np.resize(case.keys, (a, 200)), every),
        "extremes": Sample(np.resize(np.array([NULL_KEY, 2**63 - 1, NULL_KEY + 1]), (a, 99)), every),
    }


@pytest.fixture
def any_size_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((grid, "BOXES_MIN"), (grid, "ROWS_MIN"), (samples, "ROWS_MIN"), (lifts, "ROWS_MIN")):
        monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(digests, "BOXES_MIN", 8)
    monkeypatch.setattr(digests, "ROWS_MIN", 1)
    monkeypatch.setattr(lifts, "_BOXES_MIN", 1)
    monkeypatch.setattr(access, "_GAIN", 2.0)  # what rows say is followed, also where it does not pay


@pytest.mark.usefixtures("any_size_is_measured")
@pytest.mark.parametrize("name", list(STRATEGIES))
@pytest.mark.parametrize("seed", few_are_quick(list(SEEDS)[::3], quick=3))
def test_answers_do_not_depend_on_the_sample(name: str, seed: int) -> None:
    case = draw(seed, SCALE)
    for kind, sample in kinds_of_samples(case, seed).items():
        index = STRATEGIES[name].build(case.table, case.n_slots, case.n_attributes, sample)
        check_against_twin(index, case, seed)
        if isinstance(index, Choosing) and sample is not None:
            foreseen = index.foreseen(sample)
            assert foreseen is None or (foreseen.now >= 0 and foreseen.anew >= 0), f"seed {seed}, {kind}"
            assert sum(size for _, size in index.reached.boxes) == len(case.table.slot_of_box)


def ranked_of(table: BoxTable, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    space = ranks.build(table, len(keys))
    return *ranks.rank_bounds(space, table), np.diff(space.point_offsets), ranks.rank_rows(space, keys)


def test_shares_are_those_of_the_rows_where_many_rows_say_so() -> None:
    rng = np.random.default_rng(5)
    n = 300
    lo = rng.integers(0, 20, n)
    table = table_of((0, lo, lo + rng.integers(0, 4, n)))
    keys = np.minimum(rng.geometric(0.3, (1, 4_000)), 19)
    keys[0, :1_000] = NULL_KEY
    lo_rank, hi_rank, n_points, ranked = ranked_of(table, keys)
    assumed = access.selectivities(table.constraint_attribute, lo_rank, hi_rank, n_points)
    shares = measured_shares(table.constraint_attribute, lo_rank, hi_rank, n_points, ranked, np.ones(1, bool), assumed)
    inside = (table.constraint_lo[:, None] <= keys[0]) & (keys[0] <= table.constraint_hi[:, None])
    true = inside.mean(axis=1)
    believed = shares != assumed
    assert believed.sum() > 100
    assert np.abs(shares - true)[believed].max() < 0.01
    assert (shares > 0).all(), "none of 4,000 is not never"
    near = np.maximum(true, 1e-3) / np.maximum(assumed, 1e-3)
    assert ((near > 0.4) & (near < 2.5))[~believed].all(), "what is kept is about right"


def test_rows_that_fall_as_constants_do_change_nothing() -> None:
    n, rows = 20_000 if SCALE == 1 else 1_000, 500 if SMALLEST else 4_000
    workload = w2(n, rows)
    plain = layout_of(GridIndex.build(workload.table, n, workload.n_attributes))
    sample = Sample(workload.keys, np.ones(workload.n_attributes, bool))
    same = layout_of(GridIndex.build(workload.table, n, workload.n_attributes, sample))
    assert np.array_equal(plain.probes, same.probes)


def uniform(rng: np.random.Generator, attributes: int, width: int, n: int) -> BoxTable:
    lows = [rng.integers(0, DOMAIN - width, n) for _ in range(attributes)]
    return table_of(*((k, lo, lo + width) for k, lo in enumerate(lows)))


@counts_work
def test_a_skewed_attribute_serves_the_boxes_where_rows_are_rare() -> None:
    rng = np.random.default_rng(1)
    n, width = 100_000, DOMAIN // 12
    table = uniform(rng, 4, width, n)
    keys = rng.integers(0, DOMAIN, (4, 6_000))
    keys[:2] = rng.integers(480_000, 500_000, (2, 6_000))  # all rows in one place of two attributes
    sample = Sample(np.ascontiguousarray(keys[:, :4_000]), np.ones(4, bool))
    events = keys[:, 4_000:]
    by_constants, by_rows = GridIndex.build(table, n, 4), GridIndex.build(table, n, 4, sample)
    # One box in ten is where the rows are, in each of both; the others are never met.
    assert candidates(by_rows, events) * 5 < candidates(by_constants, events)


@counts_work
def test_a_second_attribute_that_repeats_the_first_is_not_chosen() -> None:
    rng = np.random.default_rng(2)
    n, width = 50_000, DOMAIN // 100
    table = uniform(rng, 4, width, n)
    near = rng.integers(-width // 4, width // 4, n)
    lo, hi = table.constraint_lo.reshape(n, 4).copy(), table.constraint_hi.reshape(n, 4).copy()
    lo[:, 1], hi[:, 1] = lo[:, 0] + near, hi[:, 0] + near  # queries ask for what occurs
    table = table._replace(constraint_lo=lo.reshape(-1), constraint_hi=hi.reshape(-1))
    keys = rng.integers(0, DOMAIN, (4, 6_000))
    keys[1] = keys[0] + rng.integers(-width // 4, width // 4, 6_000)
    sample = Sample(np.ascontiguousarray(keys[:, :4_000]), np.ones(4, bool))
    events = keys[:, 4_000:]
    by_constants, by_rows = GridIndex.build(table, n, 4), GridIndex.build(table, n, 4, sample)
    assert set(by_constants.reached.boxes[0][0]) == {0, 1}
    assert set(by_rows.reached.boxes[0][0]) != {0, 1}
    assert candidates(by_rows, events) * 20 < candidates(by_constants, events)
    before, after = by_constants.foreseen(sample), by_rows.foreseen(sample)
    assert before is not None
    assert after is not None
    assert before.now > 5 * before.anew, "it says that another choice is better"
    assert after.now < 1.5 * after.anew, "once that is made, it is content"


@counts_work
def test_an_attribute_without_values_finds_nearly_nobody() -> None:
    rng = np.random.default_rng(3)
    n = 50_000
    table = uniform(rng, 3, DOMAIN // 50, n)
    keys = rng.integers(0, DOMAIN, (3, 6_000))
    keys[2, rng.random(6_000) < 0.98] = NULL_KEY
    sample = Sample(np.ascontiguousarray(keys[:, :4_000]), np.ones(3, bool))
    plain, fitted = GridIndex.build(table, n, 3), GridIndex.build(table, n, 3, sample)
    assert 2 not in plain.reached.boxes[0][0]
    assert 2 in fitted.reached.boxes[0][0]
    assert candidates(fitted, keys[:, 4_000:]) * 20 < candidates(plain, keys[:, 4_000:])


def test_independent_attributes_have_no_lift_and_dependent_ones_theirs() -> None:
    rng = np.random.default_rng(4)
    n, width = 300 if SMALLEST else 2_000, DOMAIN // 20
    table = uniform(rng, 3, width, n)
    lo = table.constraint_lo.reshape(n, 3).copy()
    lo[:, 2] = lo[:, 0]
    for dependent in (False, True):
        if dependent:
            table = table._replace(constraint_lo=lo.reshape(-1), constraint_hi=lo.reshape(-1) + width)
        keys = rng.integers(0, DOMAIN, (3, n))
        keys[2] = keys[0] if dependent else keys[2]
        lo_rank, hi_rank, _, ranked = ranked_of(table, keys)
        found = lifts.lifts(table, lo_rank, hi_rank, ranked, np.ones(3, bool))
        if not dependent:
            assert found.shape == (0, 0)
            continue
        assert np.array_equal(found, found.T)
        assert 15 < found[0, 2] < 27, "one implies the other: 1 / selectivity"
        assert found[0, 1] == found[1, 2] == 1
