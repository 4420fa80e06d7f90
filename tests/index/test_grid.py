"""What the grid index promises beyond the battery: the battery meets every layout, memory and work are bounded."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.workloads import Workload, w1, w2
from tests.index.random_tables import draw
from tests.index.test_strategies import SCALE, SEEDS
from tests.oracle import naive_boxes as naive
from weir.index import layout as columns
from weir.index.box_tables import BoxTable, Matches
from weir.index.grid import GridIndex
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.layout import Layout
from weir.index.probing import make_hits, probe_events
from weir.index.ranks import rank_events


def build(workload: Workload) -> GridIndex:
    return GridIndex.build(workload.table, workload.n_queries, workload.n_attributes)


def layout_of(index: GridIndex) -> Layout:
    arrays = index.arrays()
    return Layout(*(arrays[f"layout_{name}"] for name in Layout._fields))


def table_of(*columns: tuple[int, np.ndarray, np.ndarray]) -> BoxTable:
    """One box a row; a column is (attribute, lo of each box, hi of each box)."""
    n, k = len(columns[0][1]), len(columns)
    return BoxTable(
        np.arange(n, dtype=np.int32),
        np.arange(0, n * k + 1, k, dtype=np.int64),
        np.tile(np.array([a for a, _, _ in columns], dtype=np.int32), n),
        np.stack([lo for _, lo, _ in columns], axis=1).reshape(-1).astype(np.int64),
        np.stack([hi for _, _, hi in columns], axis=1).reshape(-1).astype(np.int64),
    )


@pytest.mark.skipif(SCALE < 1, reason="small tables do not need every layout")
def test_the_battery_meets_every_kind_of_layout() -> None:
    met: set[str] = set()
    for seed in SEEDS:
        case = draw(seed)
        made = layout_of(GridIndex.build(case.table, case.n_slots, case.n_attributes))
        for probe in made.probes:
            met |= {"partitions"} if probe[columns.EQUALITY] >= 0 else set()
            met |= {"rows"} if probe[columns.Y] >= 0 else set()
            met |= {"partitions with rows"} if probe[columns.Y] >= 0 and probe[columns.EQUALITY] >= 0 else set()
            met |= {"mirrored"} if probe[columns.X_SIGN] < 0 else set()
            met |= {"scanned"} if probe[columns.X] < 0 and probe[columns.EQUALITY] < 0 else set()
            met |= {"inline"} if probe[columns.HAS_Z] else set()
            met |= {"sparse list"} if probe[columns.HAS_REST] else set()
        met |= {"cells"} if len(made.cells) else set()
        met |= {"two rows"} if len(made.partitions) and made.partitions[:, 4].max() == 1 else set()
    kinds = "partitions, rows, partitions with rows, mirrored, scanned, inline, sparse list, cells, two rows"
    assert met == set(kinds.split(", "))


@pytest.mark.parametrize("make", [w1, w2])
def test_large_blocks_whose_runs_are_sorted(make: object) -> None:
    assert callable(make)
    n_queries, n_events = (20_000, 700) if SCALE == 1 else (300, 20)
    workload = make(n_queries, n_events)
    found = build(workload).search(workload.keys, np.zeros(n_queries, np.uint8), 10**9)
    assert isinstance(found, Matches)
    offsets, slots, _ = naive.search(workload.table, n_queries, workload.keys, np.zeros(n_queries))
    assert np.array_equal(found.offsets, offsets)
    assert np.array_equal(found.slots, slots)


def test_null_selects_no_partition_not_even_the_last() -> None:
    rng = np.random.default_rng(4)
    n = 6_000 if SCALE == 1 else 600
    category, x, y = np.sort(rng.integers(0, 6, n)), rng.integers(0, 10**6, n), rng.integers(0, 10**6, n)
    index = GridIndex.build(table_of((0, category, category), (1, x, x + 10**4), (2, y, y + 10**4)), n, 3)
    made = layout_of(index)
    assert made.probes[:, columns.EQUALITY].tolist() == [0], "there is one group, and it is partitioned"
    last = np.flatnonzero(category == 5)
    keys = np.stack([np.full(len(last), NULL_KEY), x[last], y[last]])
    assert len(index.search(keys, np.zeros(n, np.uint8), 10**6).slots) == 0
    keys[0] = 5
    assert len(index.search(keys, np.zeros(n, np.uint8), 10**6).slots) >= len(last)


def test_a_query_takes_few_bytes() -> None:
    n = 30_000 if SCALE == 1 else 2_000
    assert build(w1(n, 1)).nbytes <= 60 * n
    assert build(w2(n, 1)).nbytes <= 100 * n


def test_many_distinct_constants_in_many_groups_stay_within_memory() -> None:
    n = 20_000 if SCALE == 1 else 1_000
    rng = np.random.default_rng(3)
    symbol = rng.permutation(n)  # each constant once, and each box with one of eight other attributes
    other = 1 + rng.integers(0, 8, n)
    lo = rng.integers(0, 10**6, n)
    table = BoxTable(
        np.arange(n, dtype=np.int32),
        np.arange(0, 2 * n + 1, 2, dtype=np.int64),
        np.stack([np.zeros(n, np.int64), other], axis=1).reshape(-1).astype(np.int32),
        np.stack([symbol, lo], axis=1).reshape(-1),
        np.stack([symbol, lo + 1000], axis=1).reshape(-1),
    )
    assert GridIndex.build(table, n, 9).nbytes <= 110 * n


def candidates(index: GridIndex, keys: np.ndarray) -> float:
    """Entries that an event is compared with, on average."""
    made = layout_of(index)
    arrays = index.arrays()
    space = type(index._space)(*(arrays[f"space_{name}"] for name in index._space._fields))
    keys = np.ascontiguousarray(keys)
    keys.flags.writeable = False
    ranked = np.empty((keys.shape[1], len(keys)), dtype=np.int32)
    rank_events(space, keys, 0, keys.shape[1], ranked)
    total = 0
    for p in range(len(made.probes)):
        one = made._replace(probes=made.probes[p : p + 1])
        hits = make_hits(keys.shape[1], 10**6)
        hits.runs[...] = 0
        stop = made.probes[p + 1, columns.ENTRY_BASE] if p + 1 < len(made.probes) else len(made.entries)
        probes = one.probes.copy()
        probes.flags.writeable = False
        entries = made.entries[:stop]
        probe_events(one._replace(probes=probes, entries=entries), ranked, 0, keys.shape[1], hits)
        total += int((hits.runs[:, 2] - hits.runs[:, 1]).sum())
    return total / keys.shape[1]


@pytest.mark.skipif(SCALE < 1, reason="counts work, not answers")
def test_events_meet_few_candidates_whatever_the_number_of_queries() -> None:
    few, many = w2(2_000, 2_000), w2(50_000, 2_000)
    assert candidates(build(many), many.keys) < 2.5 * candidates(build(few), few.keys)
    one_range = w1(50_000, 2_000)
    assert candidates(build(one_range), one_range.keys) < 4 * 10


@pytest.mark.skipif(SCALE < 1, reason="counts work, not answers")
@pytest.mark.parametrize("side", ["above", "below"])
def test_alerts_far_from_the_events_cost_nothing(side: str) -> None:
    n = 20_000
    far = 10**6 + np.random.default_rng(1).integers(0, 10**6, n)
    never, always = np.full(n, KEY_MIN), np.full(n, KEY_MAX)
    table = table_of((0, far, always)) if side == "above" else table_of((0, never, -far))
    events = np.random.default_rng(2).integers(-(10**6), 10**6, (1, 1000))
    assert candidates(GridIndex.build(table, n, 1), events) < 100
