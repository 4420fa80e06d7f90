"""Whatever is lost of an inbox, an acknowledged push is taken once, or there is an error; never is it silently gone.

A weir has released, consumed and waiting tickets. Every file of its inbox is removed, and every two of them, also where
no witness could be written because the disk was full. Then a new process pushes and a batch runs.
"""

from __future__ import annotations

import datetime
import itertools
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import weir
from weir.errors import StoreError, WeirError
from weir.store import documents, inbox
from weir.store.check import check
from weir.store.data_files import forget_checks
from weir.store.inbox import Inbox, ticket_path
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
TAKEN, RELEASED, PUSHED = 3, 2, 6  # tickets below these numbers
ADVANCES = {1, 4}  # of the clock: a ticket that is released, and one that waits
WALL_US = int(START.timestamp() * 1e6) + 3_600_000_000


def rows(number: int) -> pa.Table:
    return pa.table({"n": [number], "ts": pa.array([START], pa.timestamp("us", "UTC"))})


def instant_us(number: int) -> int:
    return int(START.timestamp() + number) * 1_000_000


def build(folder: Path) -> None:
    w = weir.open(folder)
    w.stream("trade", "n bigint, ts timestamp", time="ts", keep="10 minutes")
    w.register("SELECT n FROM trade")
    direct = DirectWeir(w, wall_us=WALL_US, takes_pushes=True)
    for number in range(PUSHED):
        given = w.advance(instant_us(number)) if number in ADVANCES else w.push("trade", rows(number))
        assert given == number
        if number + 1 == TAKEN:
            direct.batch({})
    for below in range(1, RELEASED + 1):
        Inbox(w.files).release(below)


def go_on(folder: Path) -> tuple[list[int], int | None]:
    """A new process pushes a row, and a batch takes what is there; the numbers of all rows that were taken, and now."""
    forget_checks()
    w = weir.open(folder)
    assert w.push("trade", rows(PUSHED)) == PUSHED
    done = DirectWeir(w, wall_us=WALL_US, takes_pushes=True).batch({})
    return sorted(w.query(0).fetch()["n"].to_pylist()), done.now_us


def is_silent(folder: Path, lost: Iterable[Path]) -> bool:
    """Whether these files can be lost without an error, though rows are then missing or doubled."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    try:
        for path in lost:
            (copy / path).unlink()
        return go_on(copy) != ([n for n in range(PUSHED + 1) if n not in ADVANCES], instant_us(max(ADVANCES)))
    except WeirError:
        return False
    except AssertionError:  # the push was given a number that it should not have
        return True
    finally:
        shutil.rmtree(copy)


@pytest.mark.slow
@pytest.mark.parametrize("has_witnesses", [True, False], ids=["witnessed", "on a full disk"])
def test_what_is_lost_is_missed(tmp_path: Path, has_witnesses: bool) -> None:
    folder = tmp_path / "weir"
    real = documents.create_witness

    def create_witness(files: object, path: str, seal: str) -> None:
        if has_witnesses or not path.startswith("inbox"):
            real(files, path, seal)  # type: ignore[arg-type]  # what it was given

    with (
        mock.patch.object(documents, "create_witness", create_witness),
        mock.patch.object(inbox, "create_witness", create_witness),
    ):
        build(folder)
    assert not is_silent(folder, ())
    places = (folder / "inbox", folder / "seals/inbox")
    paths = sorted(p.relative_to(folder) for place in places for p in place.rglob("*") if p.is_file())
    assert Counter(path.parts[0] for path in paths)["seals"] == (PUSHED - RELEASED + 2 if has_witnesses else 0)
    silent = [
        {str(path) for path in lost}
        for lost in itertools.chain(itertools.combinations(paths, 1), itertools.combinations(paths, 2))
        if is_silent(folder, lost)
    ]
    newest = ticket_path(PUSHED - 1)
    # Nothing is left that could tell of the newest push, once its ticket and whatever says that there was one are gone.
    assert silent, "the test looks at what it says"
    assert all(newest in lost and (not has_witnesses or f"seals/{newest}" in lost) for lost in silent), silent


def test_a_lost_ticket_is_named_by_whoever_comes_next(tmp_path: Path) -> None:
    folder = tmp_path / "weir"
    build(folder)
    lost = ticket_path(TAKEN + 1)
    for path in (lost, f"seals/{lost}"):
        (folder / path).unlink()
    for act in (lambda w: w.push("trade", rows(9)), lambda w: w.inbox.next(0)):
        with pytest.raises(StoreError, match=f"{lost} is missing, though {ticket_path(TAKEN + 2)} was pushed after it"):
            act(weir.open(folder))


@pytest.mark.parametrize("of", ["ticket", "data"])
@pytest.mark.parametrize("how", ["lost", "cut", "garbled", "of another weir"])
def test_an_advance_that_is_damaged_is_named(tmp_path: Path, of: str, how: str) -> None:
    folder = tmp_path / "weir"
    build(folder)
    w = weir.open(folder)
    number = w.advance(WALL_US)
    w.push("trade", rows(PUSHED))
    ticket = w.inbox.ticket(number)
    assert ticket is not None
    victim = ticket_path(number) if of == "ticket" else ticket.path
    named = {victim}
    data = (folder / victim).read_bytes()
    (folder / victim).unlink()
    if how == "of another weir":
        other = weir.open(tmp_path / "other")
        build(tmp_path / "other")
        assert other.advance(WALL_US - 1) == number
        found = other.inbox.ticket(number)
        assert found is not None
        theirs = victim if of == "ticket" else found.path
        (folder / victim).write_bytes((tmp_path / "other" / theirs).read_bytes())
        named.add(found.path)  # what a ticket of theirs says is not here
    elif how != "lost":
        middle = len(data) // 2
        damaged = data[:middle] if how == "cut" else data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        (folder / victim).write_bytes(damaged)
    forget_checks()
    w = weir.open(folder)
    last = w.ledger.last_done()
    with pytest.raises(StoreError, match="missing|damaged") as raised:
        DirectWeir(w, wall_us=WALL_US, takes_pushes=True).batch({})
    assert any(path in str(raised.value) for path in named)
    assert w.ledger.last_done() == last
    assert any(path in f"{where} {what}" for where, what in check(w.files).wrong.items() for path in named)
