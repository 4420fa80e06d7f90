"""The state is a function of the done documents, whether folded one by one, at once, or from a cache."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from obstore.store import MemoryStore

from tests.store.documents import SECOND, Batches
from weir.errors import StoreError
from weir.store import state as state_module
from weir.store.files import Files, ObjectFiles
from weir.store.ledger import Ledger, done_path, plan_path
from weir.store.state import State


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return ObjectFiles(MemoryStore(), cache=tmp_path)


@pytest.fixture
def batches(files: Files) -> Batches:
    return Batches(files)


def fresh(files: Files) -> State:
    state = State()
    state.refresh(Ledger(files))
    return state


def test_nothing_is_done(files: Files) -> None:
    state = fresh(files)
    assert (state.last, state.now_us, state.inbox_next, state.row_counts) == (-1, None, 0, {})
    assert state.row_files("s").paths == ()
    assert state.file_of_row("s", [0, 5]).tolist() == [-1, -1]
    assert state.match_files() == []
    assert state.active_from(0) is None
    assert state.rows_at("s", 3) == 0
    assert state.named() == set()


def test_rows_lead_to_files(files: Files, batches: Batches) -> None:
    first = batches.add({"s": [[1, 2], [3]], "t": [[5]]})
    batches.add()
    third = batches.add({"s": [[4, 4, 4]]})
    state = fresh(files)
    view = state.row_files("s")
    assert view.paths == (first.rows[0].path, first.rows[1].path, third.rows[0].path)
    assert view.batch.tolist() == [0, 0, 2]
    assert view.first_row.tolist() == [0, 2, 3]
    assert view.count.tolist() == [2, 1, 3]
    assert (view.t_min_us // SECOND).tolist() == [1, 3, 4]
    assert (view.t_max_us // SECOND).tolist() == [2, 3, 4]
    assert state.file_of_row("s", np.arange(-1, 8)).tolist() == [-1, 0, 0, 1, 2, 2, 2, -1, -1]
    assert state.file_of_row("t", 0).tolist() == 0
    assert [state.rows_at("s", n) for n in (-1, 0, 1, 2, 9)] == [0, 3, 3, 6, 6]
    assert [state.rows_at("t", n) for n in (-1, 0, 5)] == [0, 1, 1]


def test_expired_files_are_not_seen(files: Files, batches: Batches) -> None:
    old = batches.add({"s": [[1, 2], [3]], "t": [[1]]})
    batches.add({"s": [[9]]})
    late_comer = batches.add({"s": [[2]], "t": [[1]]}, read_floors_s={"s": 3})
    state = fresh(files)
    assert (state.row_files("s").first_row).tolist() == [2, 3]
    assert state.file_of_row("s", [0, 2, 3, 4]).tolist() == [-1, 0, 1, -1]
    assert state.row_files("t").first_row.tolist() == [0, 1]
    # Batch 0 and 2 have rows of t, or of s that are kept: their match files stay.
    assert {b for b, _ in state.match_files()} == {0, 1, 2}
    batches.add(read_floors_s={"s": 4, "t": 5})
    state.refresh(Ledger(files))
    assert {b for b, _ in state.match_files()} == {1}
    assert old.rows[0].path not in state.named()
    assert late_comer.matches[0].path not in state.named()


def test_match_files_by_batch(files: Files, batches: Batches) -> None:
    for n in range(6):
        batches.add({"s": [[n], [n]]} if n % 2 else None)
    state = fresh(files)
    assert [b for b, _ in state.match_files()] == [1, 1, 3, 3, 5, 5]
    assert [b for b, _ in state.match_files(2, 4)] == [3, 3]
    assert [b for b, _ in state.match_files(3)] == [3, 3, 5, 5]
    assert [m.slice for _, m in state.match_files(3, 3)] == [0, 1]
    assert state.match_files(6, 9) == []


def test_the_first_batch_of_a_registration(files: Files, batches: Batches) -> None:
    for registry in (0, 2, 2, 5, 5):
        batches.add(registry=registry)
    state = fresh(files)
    assert [state.active_from(n) for n in range(7)] == [1, 1, 3, 3, 3, None, None]
    batches.add(registry=9)
    state.refresh(Ledger(files))
    assert [state.active_from(n) for n in range(7)] == [1, 1, 3, 3, 3, 5, 5]


def test_late_rows_and_demotions_add_up(files: Files, batches: Batches) -> None:
    batches.add(late={"s": 2}, demoted=(7,))
    batches.add(late={"s": 3, "t": 1}, demoted=(7, 8), inbox_next=4)
    state = fresh(files)
    assert state.late == {"s": {"late": 5}, "t": {"late": 1}}
    assert [(b, f.stream) for b, _, f in state.late_files] == [(0, "s"), (1, "s"), (1, "t")]
    assert state.demoted == {7: 0, 8: 1}
    assert state.inbox_next == 4


def test_a_done_batch_without_its_plan_is_an_error(files: Files, batches: Batches) -> None:
    batches.add()
    files.delete(plan_path(0))
    with pytest.raises(StoreError, match="ledger/000000000000.plan is missing, though it was written"):
        fresh(files)
    files.create(plan_path(0), Batches(ObjectFiles(MemoryStore())).add().to_json())
    with pytest.raises(StoreError):
        fresh(files)


# ── caches, and forgetting ─────────────────────────────────────────────────────────────────────────


def random_history(files: Files, seed: int, count: int) -> list[State]:
    """Adds batches, and returns readers that looked at different moments."""
    dice = random.Random(seed)
    batches = Batches(files)
    readers = [State() for _ in range(3)]
    registry, floor = 0, 0
    for n in range(count):
        registry += dice.choice([0, 0, 1, 3])
        floor += dice.choice([0, 1, 2])
        rows = {
            s: [[n + dice.randint(-3, 3) for _ in range(dice.randint(1, 3))] for _ in range(dice.randint(1, 2))]
            for s in "st"
            if dice.random() < 0.6
        }
        batches.add(
            rows,
            read_floors_s={"s": floor // 2},
            late={"s": 1} if dice.random() < 0.3 else None,
            demoted=(n,) if dice.random() < 0.2 else (),
            registry=registry,
        )
        for k, reader in enumerate(readers):
            if n % (k + 1) == 0:
                reader.refresh(Ledger(files))
    return readers


def summary(state: State, batches: int) -> tuple[object, ...]:
    views = []
    for s in "st":
        view = state.row_files(s)
        floor = min(view.batch.tolist(), default=batches)
        views.append((view.paths, view.batch.tolist(), view.first_row.tolist(), view.t_max_us.tolist()))
        views.append(tuple(state.rows_at(s, b) for b in range(floor, batches)))
        views.append(tuple(state.file_of_row(s, np.arange(3 * batches)).tolist()))
    return (
        state.last,
        state.now_us,
        state.floors,
        state.read_floors,
        state.row_counts,
        state.inbox_next,
        state.demoted,
        state.late,
        state.late_files,
        state.registry,
        state.match_files(),
        [state.active_from(n) for n in range(state.registry + 2)],
        state.named(),
        views,
    )


@pytest.mark.parametrize("seed", range(8))
def test_all_ways_to_the_same_batch_agree(files: Files, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(state_module, "CACHE_EVERY", 7)
    monkeypatch.setattr(state_module, "PRUNE_EVERY", 3)
    readers = random_history(files, seed, 40)
    assert len(list(files.list("cache"))) >= 1
    for reader in readers:
        reader.refresh(Ledger(files))
    from_cache = fresh(files)
    for entry in list(files.list("cache")):
        files.delete(entry.path)
    monkeypatch.setattr(state_module, "CACHE_EVERY", 10**9)
    monkeypatch.setattr(state_module, "PRUNE_EVERY", 10**9)
    expected = summary(fresh(files), 40)
    for state in (*readers, from_cache):
        assert summary(state, 40) == expected
        state.forget_expired()
        assert summary(state, 40) == expected


def test_opening_reads_the_cache_and_what_is_newer(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "CACHE_EVERY", 10)
    random_history(files, 1, 33)
    reads: list[str] = []

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def read(self, path: str) -> bytes | None:
            reads.append(path)
            return files.read(path)

    state = State()
    assert state.refresh(Ledger(Counting())) == 32  # type: ignore[arg-type]  # the rest is forwarded
    assert len([path for path in reads if path.startswith("ledger/")]) <= 2 * 10 + 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "renamed", "not json"])
def test_a_damaged_cache_changes_nothing(files: Files, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(state_module, "CACHE_EVERY", 10)
    readers = random_history(files, 2, 25)
    readers[0].refresh(Ledger(files))
    for entry in list(files.list("cache")):
        data = files.read(entry.path) or b""
        files.delete(entry.path)
        middle = len(data) // 2
        broken = {
            "cut": data[:middle],
            "flip": data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :],
            "empty": b"",
            "renamed": data,
            "not json": b"00000000\n{",
        }[damage]
        files.create(f"{entry.path[:-1]}4" if damage == "renamed" else entry.path, broken)
    assert summary(fresh(files), 25) == summary(readers[0], 25)


def test_a_cache_of_another_ledger_is_ignored(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that was emptied, but for its cache."""
    monkeypatch.setattr(state_module, "CACHE_EVERY", 5)
    random_history(files, 3, 12)
    other = ObjectFiles(MemoryStore(), cache=tmp_path)
    for entry in files.list("cache"):
        other.create(entry.path, files.read(entry.path) or b"")
    assert fresh(other).last == -1
    random_history(other, 4, 12)
    state = fresh(other)
    newest = other.read(done_path(11))
    assert newest is not None
    assert state.row_counts == Ledger(other).done(11).row_counts  # type: ignore[union-attr]  # it is there
    assert state.named() <= {e.path for e in other.list("")}


def test_memory_follows_the_kept_rows(files: Files, batches: Batches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "PRUNE_EVERY", 5)
    state = State()
    for n in range(60):
        batches.add({"s": [[n]]}, read_floors_s={"s": n - 4})
        state.refresh(Ledger(files))
    known = state._streams["s"]
    assert len(known.files) <= 5 + 5
    assert len(known.mark_batches) <= 5 + 5 + 1
    assert len(state._matches) <= 5 + 5
    assert len(state.expired) >= 2 * 50
    assert [state.rows_at("s", b) for b in (55, 57, 59)] == [56, 58, 60]
    oldest = int(state.row_files("s").first_row[0])
    assert all(state.rows_at("s", b) <= oldest for b in range(oldest))


def test_batches_are_folded_in_order(files: Files, batches: Batches) -> None:
    batches.add()
    batches.add()
    ledger = Ledger(files)
    plan, done = ledger.plan(1), ledger.done(1)
    assert plan is not None
    assert done is not None
    with pytest.raises(AssertionError, match="in order"):
        State().fold(plan, done)
