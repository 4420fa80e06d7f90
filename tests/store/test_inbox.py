"""Pushes: durable when acknowledged, read once each, whoever races, sleeps or releases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from weir.errors import StoreError
from weir.store import inbox as inbox_module
from weir.store.check import check
from weir.store.documents import ROOT, create_document
from weir.store.files import Data, Files, LocalFiles, ObjectFiles
from weir.store.inbox import Inbox, release_path, ticket_path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return ObjectFiles(MemoryStore(), cache=tmp_path)


def rows(*values: int) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.int64())})


def values(inbox: Inbox, number: int) -> list[int]:
    ticket = inbox.ticket(number)
    assert ticket is not None
    return inbox.read(ticket)["value"].to_pylist()


def test_a_push_comes_back(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    assert [Inbox(files).push("trade", rows(1, 2)), Inbox(files).push("weather", rows(3))] == [0, 1]
    inbox = Inbox(files)
    ticket = inbox.ticket(0)
    assert ticket is not None
    assert (ticket.number, ticket.stream, ticket.rows) == (0, "trade", 2)
    assert values(inbox, 0) == [1, 2]
    assert values(inbox, 1) == [3]
    assert inbox.ticket(2) is None
    assert [inbox.next(start) for start in (0, 1, 2)] == [2, 2, 2]


@pytest.mark.parametrize("shared", [False, True])
def test_many_pushers_at_once(tmp_path: Path, shared: bool) -> None:
    files = LocalFiles(tmp_path)
    start = threading.Barrier(4)
    one = Inbox(files)

    def pusher(who: int) -> dict[int, int]:
        inbox = one if shared else Inbox(files)
        start.wait()
        return {inbox.push("trade", rows(who * 100 + n)): who * 100 + n for n in range(10)}

    with ThreadPoolExecutor(4) as pool:
        given = [item for taken in pool.map(pusher, range(4)) for item in taken.items()]
    inbox = Inbox(files)
    assert sorted(number for number, _ in given) == list(range(40))
    assert all(values(inbox, number) == [value] for number, value in given)
    assert inbox.dead_data() == []  # losers of a race take their data away


def test_a_release_takes_tickets_and_data(files: Files) -> None:
    inbox = Inbox(files)
    for n in range(6):
        inbox.push("trade", rows(n))
    assert inbox.release(0) == 0
    assert inbox.release(4) == 8
    assert inbox.release(4) == inbox.release(2) == 0
    assert inbox.released() == Inbox(files).released() == 4
    assert [inbox.ticket(n) is None for n in range(7)] == [True] * 4 + [False, False, True]
    assert len(list(files.list("inbox/data"))) == 2
    assert inbox.next(0) == Inbox(files).next(0) == Inbox(files).next(2) == 6
    assert Inbox(files).push("trade", rows(6)) == 6


def test_everything_released_still_leaves_the_numbers_taken(files: Files) -> None:
    for n in range(3):
        Inbox(files).push("trade", rows(n))
    Inbox(files).release(3)
    assert list(files.list("inbox/data")) == []
    assert Inbox(files).push("trade", rows(3)) == 3


def test_a_release_beyond_the_tickets_is_an_error(files: Files) -> None:
    Inbox(files).push("trade", rows(1))
    with pytest.raises(StoreError, match="ticket 1 is missing, yet not released"):
        Inbox(files).release(2)
    assert Inbox(files).released() == 0


class Interrupted:
    """Runs `between` just before or after the n-th creation of a ticket: what happens while its caller sleeps."""

    def __init__(self, files: Files, between: Callable[[], None], *, before: bool) -> None:
        self.files = files
        self.between = between
        self.before = before
        self.armed = True

    def __getattr__(self, name: str) -> object:
        return getattr(self.files, name)

    def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
        fires = self.armed and path.removeprefix("inbox/").isdigit()
        self.armed = self.armed and not fires
        if fires and self.before:
            self.between()
        created = self.files.create(path, data, durable=durable)
        if fires and not self.before:
            self.between()
        return created


def test_a_pusher_that_slept_through_a_release_pushes_again(files: Files) -> None:
    """Its number was taken, consumed and freed meanwhile: a ticket there would never be read."""

    def meanwhile() -> None:
        for n in range(3):
            Inbox(files).push("trade", rows(n))
        Inbox(files).release(3)

    sleeper = Inbox(Interrupted(files, meanwhile, before=True))  # type: ignore[arg-type]  # the rest is forwarded
    assert sleeper.push("trade", rows(9)) == 3
    assert values(Inbox(files), 3) == [9]
    assert Inbox(files).next(3) == 4
    Inbox(files).release(3)  # takes the dead ticket away
    assert {e.path for e in files.list("inbox") if "released" not in e.path} == {
        ticket_path(3),
        Inbox(files).ticket(3).path,  # type: ignore[union-attr]  # it is there
    }


def test_a_push_that_was_consumed_before_its_pusher_woke_up_is_not_pushed_again(files: Files) -> None:
    def meanwhile() -> None:
        Inbox(files).push("trade", rows(1))
        Inbox(files).release(2)
        Inbox(files).push("trade", rows(2))
        Inbox(files).release(3)

    sleeper = Inbox(Interrupted(files, meanwhile, before=False))  # type: ignore[arg-type]  # the rest is forwarded
    assert sleeper.push("trade", rows(9)) == 0
    assert Inbox(files).next(0) == 3
    assert sleeper.push("trade", rows(4)) == 3


def test_releases_do_not_grow(files: Files) -> None:
    """Neither in number nor in size, however many there were; and every process finds the newest."""
    inbox, old = Inbox(files), Inbox(files)
    for n in range(60):
        assert inbox.push("trade", rows(n)) == n
        assert inbox.release(n + 1) == 2
        if n == 2:
            assert old.released() == 3
    left = sorted(e.path for e in files.list("inbox"))
    assert left == [release_path(58), release_path(59)]
    assert sorted(e.path for e in files.list("seals/inbox")) == [f"seals/{path}" for path in left]
    assert max(e.size for e in files.list("inbox")) < 300
    assert old.released() == Inbox(files).released() == 60
    assert Inbox(files).push("trade", rows(1)) == old.push("trade", rows(2)) - 1 == 60
    assert not check(files).wrong.keys() - {"weir.json"}  # there is no weir around this inbox


def test_who_waits_is_named_until_it_is_done(files: Files) -> None:
    """A pusher sleeps after its ticket while that is consumed, through many releases."""
    seen = []

    def meanwhile() -> None:
        for n in range(1, 9):
            assert Inbox(files).push("trade", rows(n)) == n
            Inbox(files).release(n + 1)
        assert Inbox(files).ticket(0) is None
        seen.append(Inbox(files)._refresh().waiting)

    sleeper = Inbox(Interrupted(files, meanwhile, before=False))  # type: ignore[arg-type]  # the rest is forwarded
    assert sleeper.push("trade", rows(9)) == 0
    assert [list(waiting) for waiting in seen] == [[0]]
    assert Inbox(files).push("trade", rows(10)) == 9
    assert files.exists("seals/inbox/000000000000"), "it has told that it is done"
    Inbox(files).release(10)
    assert not Inbox(files)._refresh().waiting
    assert not [e.path for e in files.list("seals/inbox") if "released" not in e.path]


def test_of_pushers_that_died_the_newest_are_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "WAITING_MAX", 3)

    def die() -> None:
        raise KeyboardInterrupt

    def meanwhile() -> None:
        for n in range(1, 6):
            with pytest.raises(KeyboardInterrupt):
                Inbox(Interrupted(files, die, before=False)).push("trade", rows(n))  # type: ignore[arg-type]  # forwarded
            Inbox(files).release(n + 1)

    sleeper = Inbox(Interrupted(files, meanwhile, before=False))  # type: ignore[arg-type]  # the rest is forwarded
    with pytest.raises(StoreError, match="it is not known whether its rows were taken"):
        sleeper.push("trade", rows(0))
    assert list(Inbox(files)._refresh().waiting) == [3, 4, 5]
    assert sleeper.push("trade", rows(7)) == 6


def test_a_vacuum_that_slept_harms_nothing(files: Files) -> None:
    """Its release comes when that number was used, followed and removed: nobody believes it."""
    for n in range(6):
        Inbox(files).push("trade", rows(n))

    class SlowRelease(Interrupted):
        def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
            if self.armed and path == release_path(0):
                self.armed = False
                self.between()
            return self.files.create(path, data, durable=durable)

    def meanwhile() -> None:
        for n in range(4):
            Inbox(files).release(n + 1)

    slow = Inbox(SlowRelease(files, meanwhile, before=True))  # type: ignore[arg-type]  # the rest is forwarded
    slow.release(5)
    assert Inbox(files).released() == slow.released() == 5
    assert [Inbox(files).ticket(n) is None for n in range(7)] == [True] * 5 + [False, True]
    assert sorted(e.path for e in files.list("inbox/released")) == [release_path(3), release_path(4)]


def require_three(files: Files) -> None:
    assert Inbox(files).release(3) == 6


def test_two_vacuums_release_at_once(files: Files) -> None:
    for n in range(5):
        Inbox(files).push("trade", rows(n))

    class SlowRelease(Interrupted):
        def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
            if self.armed and "released" in path:
                self.armed = False
                self.between()
            return self.files.create(path, data, durable=durable)

    slow = Inbox(SlowRelease(files, lambda: require_three(files), before=True))  # type: ignore[arg-type]  # forwarded
    slow.release(4)
    assert Inbox(files).released() == 4
    assert [Inbox(files).ticket(n) is None for n in range(6)] == [True] * 4 + [False, True]


def test_a_release_that_died_half_way_is_finished_by_the_next(files: Files) -> None:
    for n in range(4):
        Inbox(files).push("trade", rows(n))

    class Dies(Interrupted):
        def delete(self, path: str) -> None:
            if path == ticket_path(2):
                raise KeyboardInterrupt
            self.files.delete(path)

    with pytest.raises(KeyboardInterrupt):
        Inbox(Dies(files, lambda: None, before=True)).release(4)  # type: ignore[arg-type]  # the rest is forwarded
    assert Inbox(files).released() == 4
    assert Inbox(files).push("trade", rows(7)) == 4
    Inbox(files).release(4)
    assert [Inbox(files).ticket(n) is None for n in range(5)] == [True] * 4 + [False]


def test_dead_data_is_what_no_ticket_can_name(files: Files) -> None:
    Inbox(files).push("trade", rows(0))
    Inbox(files).push("trade", rows(1))
    Inbox(files).release(1)
    files.write("inbox/data/000000000000-a.arrow", b"")  # of a number that is released
    files.write("inbox/data/000000000001-b.arrow", b"")  # of a number that another push has
    files.write("inbox/data/stranger", b"")
    files.write("inbox/data/000000000002-c.arrow", b"")  # of a pusher that is asleep
    assert set(Inbox(files).dead_data()) == {
        "inbox/data/000000000000-a.arrow",
        "inbox/data/000000000001-b.arrow",
        "inbox/data/stranger",
    }


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format":1}', b'{"format":5,"stream":"s"}'])
def test_a_damaged_ticket_is_refused_by_name(files: Files, data: bytes) -> None:
    files.create(ticket_path(0), data)
    with pytest.raises(StoreError, match="inbox/000000000000"):
        Inbox(files).ticket(0)


def test_missing_rows_or_releases_are_errors(files: Files) -> None:
    inbox = Inbox(files)
    inbox.push("trade", rows(1))
    ticket = inbox.ticket(0)
    assert ticket is not None
    files.delete(ticket.path)
    with pytest.raises(StoreError, match="is missing"):
        inbox.read(ticket)
    create_document(files, release_path(0), ROOT, b"{}")
    with pytest.raises(StoreError, match="inbox/released/000000000000 is not readable"):
        inbox.released()
