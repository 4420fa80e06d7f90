"""What vacuum removes, what it must not, and that it may die anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from tests.store.documents import Batches
from weir.settings import Settings
from weir.store.data_files import data_path
from weir.store.files import TEMPORARY, Entry, Files, LocalFiles, ObjectFiles
from weir.store.inbox import Inbox
from weir.store.ledger import Ledger
from weir.store.state import State
from weir.store.vacuum import Removed, vacuum

SETTINGS = replace(Settings(), orphan_grace_s=3600)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return ObjectFiles(MemoryStore(), cache=tmp_path)


@pytest.fixture
def batches(files: Files) -> Batches:
    return Batches(files)


def now_s(files: Files) -> float:
    return max((entry.mtime_s for entry in files.list("")), default=0.0)


def run(files: Files, *, later_s: float = 0.0, committed: int = 0) -> Removed:
    state = State()
    state.refresh(Ledger(files))
    return vacuum(files, state, now_s(files) + later_s, SETTINGS, inbox_committed=committed)


def data(files: Files) -> set[str]:
    return {entry.path for folder in ("rows", "matches", "late") for entry in files.list(folder)}


def test_expired_files_go_at_once(files: Files, batches: Batches) -> None:
    batches.add({"s": [[1], [9]]}, late={"s": 1})
    batches.add({"s": [[2]]})
    batches.add({"t": [[1]]}, read_floors_s={"s": 5})
    state = State()
    state.refresh(Ledger(files))
    assert run(files) == Removed(expired=2 + 1)  # two row files, and the match file of batch 1
    assert data(files) == state.named()
    assert run(files) == Removed()


def test_orphans_of_done_batches_go_after_the_grace(files: Files, batches: Batches) -> None:
    done = batches.add({"s": [[1]]})
    orphans = {data_path("rows", 0, b""), data_path("matches", 0, b"", "csr"), "rows/stranger"}
    for path in orphans:
        files.write(path, b"")
    assert run(files) == Removed()
    assert run(files, later_s=3500) == Removed()
    assert run(files, later_s=3700) == Removed(orphans=3)
    assert data(files) == set(done.paths)


def test_files_of_a_batch_that_is_not_done_are_left_alone(files: Files, batches: Batches) -> None:
    """Their driver may sleep for days and then commit."""
    batches.add()
    path = data_path("rows", 1, b"")
    files.write(path, b"")
    assert run(files, later_s=10**9) == Removed()
    assert data(files) == {path}


def test_a_stale_state_removes_less(files: Files, batches: Batches) -> None:
    batches.add({"s": [[1]]})
    stale = State()
    stale.refresh(Ledger(files))
    second = batches.add({"s": [[9]]}, read_floors_s={"s": 5})
    before = data(files)
    assert vacuum(files, stale, now_s(files) + 10**6, SETTINGS) == Removed()
    assert data(files) == before
    stale.refresh(Ledger(files))
    assert vacuum(files, stale, now_s(files), SETTINGS) == Removed(expired=2)
    assert data(files) == set(second.paths)


def test_files_that_left_a_cached_state_go_as_orphans(files: Files, batches: Batches) -> None:
    """A process that opens from a cache has never heard of them."""
    batches.add({"s": [[1]]})
    kept = batches.add({"s": [[9]]}, read_floors_s={"s": 5})
    state = State()
    state.refresh(Ledger(files))
    state.forget_expired()
    state.expired.clear()
    assert vacuum(files, state, now_s(files), SETTINGS) == Removed()
    assert vacuum(files, state, now_s(files) + 3700, SETTINGS) == Removed(orphans=2)
    assert data(files) == set(kept.paths)


def test_tickets_go_when_done_and_committed(files: Files, batches: Batches) -> None:
    for n in range(5):
        Inbox(files).push("s", pa.table({"a": [n]}))
    batches.add(inbox_next=3)
    assert run(files, committed=0) == Removed()
    assert run(files, committed=2) == Removed(inbox=4)
    assert run(files, committed=5) == Removed(inbox=2)  # the ledger says 3
    assert [Inbox(files).ticket(n) is None for n in range(6)] == [True] * 3 + [False] * 2 + [True]


def test_data_of_lost_pushes_goes(files: Files, batches: Batches) -> None:
    batches.add()
    Inbox(files).push("s", pa.table({"a": [1]}))
    files.write("inbox/data/000000000000-lost.arrow", b"")
    files.write("inbox/data/000000000001-asleep.arrow", b"")
    assert run(files) == Removed(orphans=1)
    assert len(list(files.list("inbox/data"))) == 2


def test_half_written_files_go_after_the_grace(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    Batches(files).add()
    (tmp_path / TEMPORARY / "half").write_bytes(b"1")
    assert run(files, later_s=3500) == Removed()
    assert run(files, later_s=3700) == Removed(temporary=1)
    assert run(files, later_s=3700).total == 0


def test_a_vacuum_may_die_anywhere(files: Files, batches: Batches) -> None:
    for n in range(4):
        Inbox(files).push("s", pa.table({"a": [n]}))
    batches.add({"s": [[1], [1]]}, inbox_next=3)
    files.write(data_path("rows", 0, b""), b"")
    batches.add({"s": [[9]]}, read_floors_s={"s": 5})

    class Dies:
        def __init__(self, left: int) -> None:
            self.left = left

        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def delete(self, path: str) -> None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            files.delete(path)

    state = State()
    state.refresh(Ledger(files))
    named = state.named()
    deaths = 0
    for life in range(100):
        state = State()
        state.refresh(Ledger(files))
        dying = Dies(life % 5)
        try:
            vacuum(dying, state, now_s(files) + 3700, SETTINGS, inbox_committed=3)  # type: ignore[arg-type]  # forwarded
            break
        except KeyboardInterrupt:
            deaths += 1
            assert named <= data(files)
            assert Inbox(files).ticket(3) is not None
    assert 5 < deaths < 99
    assert data(files) == named
    assert Inbox(files).released() == 3


def test_a_listing_that_misses_a_file_is_caught_up(files: Files, batches: Batches) -> None:
    batches.add({"s": [[1], [1]]})
    batches.add(read_floors_s={"s": 5})

    class Forgetful:
        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def list(self, prefix: str) -> list[Entry]:
            return list(files.list(prefix))[1:]

    state = State()
    state.refresh(Ledger(files))
    removed = vacuum(Forgetful(), state, now_s(files), SETTINGS)  # type: ignore[arg-type]  # forwarded
    assert removed == Removed(expired=2)
    assert run(files) == Removed(expired=2)
    assert data(files) == set()
