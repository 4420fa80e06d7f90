"""Old documents of the ledger are folded into one: the ledger stays small, and every reader is of the same mind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.documents import Batches
from weir.errors import StoreError
from weir.settings import Settings
from weir.store.catalog import identity
from weir.store.check import check
from weir.store.files import LocalFiles
from weir.store.folds import fold_path, folds
from weir.store.ledger import Ledger, done_path, plan_path
from weir.store.state import State
from weir.store.vacuum import vacuum

SETTINGS = Settings(fold_every_batches=5, orphan_grace_s=0)


def grown(folder: Path, count: int, behind: State | None = None) -> Batches:
    """A ledger of some batches, vacuumed after each."""
    batches = Batches(LocalFiles(folder))
    identity(batches.files)
    for number in range(count):
        batches.add(
            {"s": [[number, number + 1, number + 2]]}, late={"s": 1}, demoted=(number,) if number % 7 == 0 else ()
        )
        state = State()
        state.refresh(batches.ledger, caches_allowed=False)
        vacuum(batches.files, state, 1e12, SETTINGS)
        if behind is not None and number == 2:
            behind.refresh(batches.ledger, caches_allowed=False)
    return batches


def facts(state: State) -> tuple[object, ...]:
    return (
        state.last, state.head, state.now_us, state.row_counts, state.demoted, state.late, state.late_files,
        state.row_files("s").paths, state.match_files(), [state.active_from(n) for n in range(3)], state.inbox_next,
    )  # fmt: skip


def test_documents_stay_few_and_readers_agree(tmp_path: Path) -> None:
    behind, plain = State(), State()
    batches = grown(tmp_path, 43, behind)
    files, ledger = batches.files, batches.ledger
    numbers = folds(files)
    assert numbers == [34, 39]
    left = sorted(e.path for e in files.list("ledger") if "folds" not in e.path)
    assert left == sorted(path for n in range(34, 43) for path in (plan_path(n), done_path(n)))
    assert len(list(files.list("seals/ledger"))) == len(left) + len(numbers)
    assert ledger.last_done() == 42
    plain.refresh(ledger, caches_allowed=False)
    assert behind.last == 2, "it has seen three batches, whose documents are gone"
    assert behind.refresh(ledger, caches_allowed=False) == 42
    assert facts(plain) == facts(behind)
    assert plain.row_counts == {"s": 43 * 3}
    assert not check(files).wrong


def test_a_witness_that_came_too_late_misleads_nobody(tmp_path: Path) -> None:
    """Of a driver that slept between a document and its witness, while the document was folded and removed."""
    behind = State()
    batches = grown(tmp_path, 23, behind)
    (tmp_path / "seals" / done_path(3)).write_bytes(b"0" * 64)
    (tmp_path / "seals" / plan_path(3)).write_bytes(b"0" * 64)
    assert behind.refresh(batches.ledger, caches_allowed=False) == 22
    assert not check(batches.files).wrong


def test_a_fold_is_truth(tmp_path: Path) -> None:
    batches = grown(tmp_path, 23)
    path = tmp_path / fold_path(folds(batches.files)[-1])
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(StoreError, match="does not have its seal"):
        State().refresh(Ledger(LocalFiles(tmp_path)), caches_allowed=False)
    assert list(check(batches.files).wrong)
    path.unlink()
    with pytest.raises(StoreError, match="is missing, though it was written"):
        State().refresh(Ledger(LocalFiles(tmp_path)), caches_allowed=False)
    path.write_bytes(data)
    assert State().refresh(Ledger(LocalFiles(tmp_path)), caches_allowed=False) == 22


def test_a_gap_before_the_documents_that_are_left_is_found(tmp_path: Path) -> None:
    batches = grown(tmp_path, 4)  # no fold yet
    for path in (plan_path(0), done_path(0)):
        (tmp_path / path).unlink()
        (tmp_path / "seals" / path).unlink()
    assert check(batches.files).wrong
