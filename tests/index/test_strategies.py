"""One battery for all strategies: whatever the table and the events, their answers are those of the plain twin.

Run compiled here, and uncompiled and with bounds checks by `test_three_ways.py`, which sets WEIR_INDEX_SCALE.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.index.random_tables import Case, draw
from tests.marks import few_are_quick
from tests.oracle import naive_boxes as naive
from weir.index import blocks, by_batch, grid, probing, sweep
from weir.index.box_tables import BoxTable, Matches, OverBudget
from weir.index.by_batch import ByBatchIndex
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.strategies import STRATEGIES, Strategy

SCALE = float(os.environ.get("WEIR_INDEX_SCALE", "1"))
SEEDS = range(max(int(80 * SCALE), 12))

NOTHING_IS_SWEPT = np.stack([0 * by_batch.WEIGHTS[0], 1 + 0 * by_batch.WEIGHTS[1]])
EVERYTHING_IS_SWEPT = NOTHING_IS_SWEPT[::-1].copy()

everywhere = pytest.mark.parametrize("name", list(STRATEGIES))


def build(name: str, case: Case) -> Strategy:
    return STRATEGIES[name].build(case.table, case.n_slots, case.n_attributes)


def table_of(*boxes: tuple[int, dict[int, tuple[int, int]]]) -> BoxTable:
    """A table from (slot, {attribute: (lo, hi)})."""
    constraints = [(a, *bounds) for _, box in boxes for a, bounds in sorted(box.items())]
    columns = np.array(constraints, dtype=np.int64).reshape(-1, 3)
    return BoxTable(
        np.array([slot for slot, _ in boxes], dtype=np.int32),
        np.cumsum([0] + [len(box) for _, box in boxes], dtype=np.int64),
        columns[:, 0].astype(np.int32),
        columns[:, 1].copy(),
        columns[:, 2].copy(),
    )


def lists(found: Matches | OverBudget) -> list[list[int]]:
    assert isinstance(found, Matches)
    return [found.slots[b:e].tolist() for b, e in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


def check_against_twin(index: Strategy, case: Case, seed: int) -> None:
    offsets, slots, counts = naive.search(case.table, case.n_slots, case.keys, case.muted)
    found = index.search(case.keys, case.muted, len(slots))
    assert isinstance(found, Matches), f"seed {seed}: {len(slots)} pairs are within a budget of {len(slots)}"
    assert found.offsets.dtype == np.int64
    assert found.slots.dtype == np.int32
    assert np.array_equal(found.offsets, offsets), f"seed {seed}"
    assert np.array_equal(found.slots, slots), f"seed {seed}"
    if len(slots):
        over = index.search(case.keys, case.muted, len(slots) - 1)
        assert isinstance(over, OverBudget), f"seed {seed}: {len(slots)} pairs are one over budget"
        assert np.array_equal(over.counts, counts), f"seed {seed}"


@everywhere
@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=15))
def test_answers_are_those_of_the_twin(name: str, seed: int) -> None:
    case = draw(seed, SCALE)
    check_against_twin(build(name, case), case, seed)


@everywhere
def test_small_buffers_are_resumed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_HITS_MIN", 1)
    monkeypatch.setattr(grid, "_MATCHES_EXPECTED", 0)
    monkeypatch.setattr(blocks, "OUTPUT_MIN", 1)
    monkeypatch.setattr(sweep, "_CANDIDATES_MIN", 1)
    monkeypatch.setattr(sweep, "_OUTPUT_MIN", 1)
    for seed in list(SEEDS)[::4]:
        case = draw(seed, SCALE)
        check_against_twin(build(name, case), case, seed)


@pytest.mark.parametrize("weights", [by_batch.WEIGHTS, EVERYTHING_IS_SWEPT, NOTHING_IS_SWEPT], ids=["", "all", "none"])
def test_whichever_way_a_batch_takes_it_finds_the_same(weights: np.ndarray) -> None:
    ways = set()
    for seed in list(SEEDS)[::4]:
        case = draw(seed, SCALE)
        index = ByBatchIndex.build(case.table, case.n_slots, case.n_attributes).weighed(weights)
        check_against_twin(index, case, seed)
        ways.add(index.reached.swept is not None)
    assert True in ways, "some tables can be swept"


def test_large_batches_are_swept_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[int] = []
    whole = sweep.sweep
    monkeypatch.setattr(sweep, "sweep", lambda *given: swept.append(given[1].shape[1]) or whole(*given))
    n = max(int(20_000 * SCALE), 2_000)
    lo = np.arange(n, dtype=np.int64) * 10
    table = BoxTable(np.arange(n, dtype=np.int32), np.arange(n + 1), np.zeros(n, np.int32), lo, lo + 20)
    index = ByBatchIndex.build(table, n, 1)
    assert index.reached.swept is not None
    attribute, rows = index.reached.swept
    assert attribute == 0
    assert 1 < rows < n
    for n_events in (1, rows // 8, 8 * rows):
        keys = np.random.default_rng(n_events).integers(0, 10 * n, (1, n_events))
        found = index.search(keys, np.zeros(n, np.uint8), 10**9)
        assert isinstance(found, Matches)
        offsets, slots, _ = naive.search(table, n, keys[:, :50], np.zeros(n, np.uint8))
        assert found.offsets[:51].tolist() == offsets.tolist()
        assert found.slots[: offsets[-1]].tolist() == slots.tolist()
    assert swept == [8 * rows]


def test_boxes_of_many_attributes_are_not_swept() -> None:
    """Two selective attributes leave a grid hardly any candidates, one leaves a sweep too many."""
    rng = np.random.default_rng(3)
    boxes = [(k, {a: (int(lo), int(lo) + 30) for a, lo in enumerate(rng.integers(0, 970, 2))}) for k in range(6_000)]
    assert ByBatchIndex.build(table_of(*boxes), 6_000, 2).reached.swept is None


@pytest.mark.parametrize("span", [1_000, 1 << 40, 1 << 62], ids=["narrow", "wide", "too wide"])
def test_events_are_swept_in_the_order_of_their_keys(span: int) -> None:
    rng = np.random.default_rng(span)
    keys = rng.integers(-span, span, 500)
    for some in (keys, np.where(rng.random(500) < 0.2, NULL_KEY, keys), np.full(500, NULL_KEY), keys[:1]):
        order, number_bits = sweep._in_order(some)
        numbers = order & number_bits
        assert sorted(numbers.tolist()) == list(range(len(some)))
        assert some[numbers].tolist() == sorted(some.tolist())


@everywhere
@pytest.mark.parametrize("mapped", [False, True], ids=["copied", "memory-mapped"])
def test_arrays_make_the_same_index(name: str, mapped: bool, tmp_path: Path) -> None:
    for seed in list(SEEDS)[::8]:
        case = draw(seed, SCALE)
        index = build(name, case)
        arrays = {}
        for field, array in index.arrays().items():
            np.save(tmp_path / f"{field}.npy", array)
            arrays[field] = np.load(tmp_path / f"{field}.npy", mmap_mode="r" if mapped and array.size else None)
        again = STRATEGIES[name].from_arrays(arrays)
        assert again.nbytes == index.nbytes == sum(array.nbytes for array in arrays.values())
        check_against_twin(again, case, seed)


@everywhere
def test_no_queries_and_no_events(name: str) -> None:
    none = STRATEGIES[name].build(table_of(), 0, 2)
    assert lists(none.search(np.zeros((2, 3), np.int64), np.zeros(0, np.uint8), 10)) == [[], [], []]
    idle = STRATEGIES[name].build(table_of(), 4, 2)
    assert lists(idle.search(np.zeros((2, 1), np.int64), np.zeros(4, np.uint8), 0)) == [[]]
    some = STRATEGIES[name].build(table_of((1, {0: (5, 9)})), 3, 1)
    assert lists(some.search(np.zeros((1, 0), np.int64), np.zeros(3, np.uint8), 0)) == []
    bare = STRATEGIES[name].build(table_of((1, {})), 2, 0)
    assert lists(bare.search(np.zeros((0, 2), np.int64), np.zeros(2, np.uint8), 9)) == [[1], [1]]


@everywhere
def test_null_satisfies_no_constraint_not_even_an_open_one(name: str) -> None:
    boxes = [(0, {0: (KEY_MIN, KEY_MAX)}), (1, {}), (2, {0: (KEY_MIN, 3)}), (3, {0: (3, KEY_MAX)}), (4, {0: (3, 3)})]
    index = STRATEGIES[name].build(table_of(*boxes), 5, 1)
    keys = np.array([[NULL_KEY, KEY_MIN, 3, KEY_MAX]], dtype=np.int64)
    assert lists(index.search(keys, np.zeros(5, np.uint8), 99)) == [[1], [0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 3]]


@everywhere
def test_a_query_with_overlapping_boxes_matches_once(name: str) -> None:
    boxes = [(0, {0: (0, 5)}), (2, {0: (0, 9)}), (2, {0: (3, 4), 1: (0, 9)}), (2, {1: (1, 1)}), (2, {})]
    index = STRATEGIES[name].build(table_of(*boxes), 3, 2)
    keys = np.array([[3, 7], [1, 1]], dtype=np.int64)
    assert lists(index.search(keys, np.zeros(3, np.uint8), 99)) == [[0, 2], [2]]
    over = index.search(keys, np.zeros(3, np.uint8), 2)
    assert isinstance(over, OverBudget)
    assert over.counts.tolist() == [1, 0, 2]
    muted = np.array([0, 0, 1], dtype=np.uint8)
    assert lists(index.search(keys, muted, 1)) == [[0], []]


@everywhere
def test_events_that_match_everything(name: str) -> None:
    n = 3000 if SCALE == 1 else 100
    boxes = table_of(*((slot, {} if slot % 2 else {0: (0, 9)}) for slot in range(n)))
    index = STRATEGIES[name].build(boxes, n, 1)
    found = lists(index.search(np.array([[5, 5, 50]], dtype=np.int64), np.zeros(n, np.uint8), 3 * n))
    assert found == [list(range(n)), list(range(n)), list(range(1, n, 2))]


@everywhere
def test_searches_in_two_threads_do_not_disturb_each_other(name: str) -> None:
    case = max((draw(seed, SCALE) for seed in SEEDS), key=lambda case: case.keys.shape[1])
    assert case.keys.shape[1] > 1
    index = build(name, case)
    whole = lists(index.search(case.keys, case.muted, 10**9))
    half = case.keys.shape[1] // 2
    found: dict[int, list[list[int]]] = {}

    def search(part: int, keys: np.ndarray) -> None:
        found[part] = lists(index.search(np.ascontiguousarray(keys), case.muted, 10**9))

    threads = [
        threading.Thread(target=search, args=(part, keys))
        for part, keys in enumerate([case.keys[:, :half], case.keys[:, half:]])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] + found[1] == whole
