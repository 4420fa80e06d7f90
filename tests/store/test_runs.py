"""Match files and runs by query, against the pairs they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weir.store.arrays import save_arrays
from weir.store.files import LocalFiles
from weir.store.ledger import Done, Ledger, MatchFile, Plan, RowFile
from weir.store.matches import Piece, read_matches, rows_of_query, write_matches
from weir.store.runs import compact, invert, matched_rows, runs_of
from weir.store.state import State

EVENTS = 20  # a batch
QUERIES = 9


def commit(files: LocalFiles, batch: int, random: np.random.Generator) -> set[tuple[int, int]]:
    """One batch with two match files; returns its (query, row) pairs."""
    ledger = Ledger(files)
    plan = Plan(batch, "e", 0, 0, 0, None, {}, {}, {}, f"p{batch}")
    assert ledger.create_plan(plan)
    pairs: set[tuple[int, int]] = set()
    matches = []
    for k in range(2):
        first = batch * EVENTS + k * EVENTS // 2
        hits = random.random((EVENTS // 2, QUERIES)) < 0.3
        offsets = np.concatenate([[0], np.cumsum(hits.sum(1))]).astype(np.int64)
        items = np.nonzero(hits)[1].astype(np.int64)
        rows = np.nonzero(hits)[0] + first
        pairs |= set(zip(items.tolist(), rows.tolist(), strict=True))
        path = write_matches(files, batch, [Piece("s", first, offsets, items)])
        matches.append(MatchFile(path, k, len(items), EVENTS // 2))
    row = RowFile("s", f"rows/{batch}", batch * EVENTS, EVENTS, 0, 0)
    done = Done(batch, plan.token, 0, (row,), (), tuple(matches), (), (), 0, {"s": (batch + 1) * EVENTS}, 0)
    assert ledger.create_done(done)
    return pairs


def check(files: LocalFiles, state: State, pairs: set[tuple[int, int]], first: int, last: int) -> None:
    for query in range(QUERIES + 1):
        expected = sorted(r for q, r in pairs if q == query and first * EVENTS <= r < (last + 1) * EVENTS)
        assert matched_rows(files, state, "s", query, first, last).tolist() == expected


@pytest.mark.parametrize("seed", range(5))
def test_runs_and_match_files_say_the_same(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    files = LocalFiles(tmp_path)
    state = State()
    pairs: set[tuple[int, int]] = set()
    for batch in range(12):
        pairs |= commit(files, batch, random)
        state.refresh(Ledger(files))
        if random.random() < 0.4:
            compact(files, state, "s")
        first = int(random.integers(0, batch + 1))
        check(files, state, pairs, first, int(random.integers(first, batch + 1)))
    compact(files, state, "s")
    assert len(runs_of(files, "s")) < 12
    check(files, state, pairs, 0, 11)


def test_a_damaged_run_is_only_slower(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    files = LocalFiles(tmp_path)
    state = State()
    pairs: set[tuple[int, int]] = set()
    for batch in range(3):
        pairs |= commit(files, batch, random)
    state.refresh(Ledger(files))
    compact(files, state, "s")
    (run,) = runs_of(files, "s")
    path = tmp_path / run.path
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    check(files, state, pairs, 0, 2)


def test_large_ids_do_not_fit_into_32_bits_and_still_come_back(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    items = np.array([3, 2**40, 3], np.int64)
    path = write_matches(
        files, 0, [Piece("s", 5, np.array([0, 2, 3]), items), Piece("t", 0, np.array([0, 0]), items[:0])]
    )
    first, second = read_matches(files, path)
    assert first.items.tolist() == items.tolist()
    assert (first.stream, first.first_row, second.stream) == ("s", 5, "t")
    assert second.items.tolist() == []
    assert rows_of_query(files, path, "s", 3).tolist() == [5, 6]
    assert rows_of_query(files, path, "s", 2**40).tolist() == [5]
    assert rows_of_query(files, path, "t", 3).tolist() == []


def test_a_deleted_run_in_the_middle_is_filled_again(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    files = LocalFiles(tmp_path)
    state = State()
    pairs: set[tuple[int, int]] = set()
    for batch in range(6):
        pairs |= commit(files, batch, random)
        state.refresh(Ledger(files))
        arrays = invert(files, "s", [m.path for _, m in state.match_files(batch, batch)])
        save_arrays(files, f"cache/runs/s/{batch:012d}-{batch:012d}.run", arrays, {})
    files.delete(runs_of(files, "s")[2].path)
    check(files, state, pairs, 0, 5)
    pairs |= commit(files, 6, random)
    state.refresh(Ledger(files))
    compact(files, state, "s")
    assert len(runs_of(files, "s")) == 1
    check(files, state, pairs, 0, 6)


def test_a_flipped_bit_in_a_run_is_noticed(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    files = LocalFiles(tmp_path)
    state = State()
    pairs = commit(files, 0, random)
    state.refresh(Ledger(files))
    compact(files, state, "s")
    (run,) = runs_of(files, "s")
    data = bytearray((tmp_path / run.path).read_bytes())
    data[-100] ^= 1
    (tmp_path / run.path).write_bytes(data)
    check(files, state, pairs, 0, 0)
