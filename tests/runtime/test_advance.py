"""`advance`: what it takes, what it refuses, and what it does to rows, tables and the clock."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weir
from tests.tables import SECOND, STOCK, lines, opened, read, trades
from weir import api
from weir.algebra.schema import ENDLESS_US
from weir.errors import PushError
from weir.runtime import faults
from weir.settings import Settings
from weir.store.check import check
from weir.store.files import open_files
from weir.store.inbox import CLOCK, Inbox
from weir.store.state import State
from weir.store.vacuum import vacuum
from weir.testing.direct import DirectWeir

WALL_US = 1_700_000_000 * SECOND
HOUR = 3_600 * SECOND


# ── what it takes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "time",
    [
        dt.datetime(1970, 1, 1, 0, 1, 40),  # without a zone it is UTC
        dt.datetime(1970, 1, 1, 1, 1, 40, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        "1970-01-01 00:01:40",
        "1970-01-01T01:01:40+01:00",
        100 * SECOND,
        np.int64(100 * SECOND),
    ],
    ids=repr,
)
def test_a_time_may_be_said_in_many_ways(tmp_path: Path, time: Any) -> None:
    direct = opened(tmp_path)
    assert direct.weir.advance(time) == 0
    done = direct.batch({})
    assert (done.now_us, done.rows, done.matches) == (100 * SECOND, (), ())


@pytest.mark.parametrize(
    ("time", "says"),
    [
        (None, "None is not a time, but a NoneType"),
        (True, "True is not a time, but a bool"),
        ([], "is not a time, but a list"),
        (1.5, "is not a time, but a float"),
        (dt.date(2026, 1, 1), "is not a time, but a date"),
        ("soon", "'soon' is not a time"),
        (-(2**70), "no row can have such a time"),
        (2**70, "ahead of the wall clock"),
    ],
)
def test_what_is_no_time_is_refused(tmp_path: Path, time: Any, says: str) -> None:
    w = opened(tmp_path).weir
    with pytest.raises(PushError, match=says):
        w.advance(time)
    assert w.inbox.next(0) == 0


def test_it_goes_no_further_than_the_strictest_stream_lets_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "time_ns", lambda: WALL_US * 1_000)
    w = weir.open(tmp_path)
    w.stream("slow", "a bigint, ts timestamp", time="ts", future="1 hour")
    assert w.advance(WALL_US + HOUR) == 0
    w.stream("strict", "a bigint, ts timestamp", time="ts", future="5 seconds")
    with pytest.raises(PushError, match=r"5\.5 s ahead of the wall clock, and rows of stream 'strict' may be 5\.0 s"):
        w.advance(WALL_US + 5 * SECOND + SECOND // 2)
    with pytest.raises(PushError, match="ahead of the wall clock"):
        w.advance(WALL_US + 5 * SECOND + 1)
    assert w.advance(WALL_US + 5 * SECOND) == 1
    w.drop_stream("strict")
    assert w.advance(WALL_US + HOUR) == 2


def test_without_a_stream_there_is_no_clock_to_advance(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.table("stock", STOCK, key="symbol")
    with pytest.raises(PushError, match="there is no stream yet whose clock could be advanced"):
        w.advance(1)
    assert w.inbox.next(0) == 0


def test_on_the_arrival_clock_time_moves_by_itself(tmp_path: Path) -> None:
    w = opened(tmp_path, "arrival").weir
    with pytest.raises(PushError, match="arrival clock, on which time moves by itself"):
        w.advance(SECOND)
    assert w.inbox.next(0) == 0


def test_an_idle_tick_only_makes_a_batch(tmp_path: Path) -> None:
    for clock, now_us in (("arrival", 10**15), ("event", None)):
        direct = opened(tmp_path / clock, clock)
        direct.weir.inbox.advance(None)
        done = direct.batch({})
        assert done.now_us == now_us


# ── the clock ──────────────────────────────────────────────────────────────────────────────────────


def test_an_earlier_time_changes_nothing(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    direct.batch({"trade": trades(100 * SECOND)})
    for number, time_us in enumerate((50 * SECOND, -(10**17), 100 * SECOND)):
        assert direct.weir.advance(time_us) == number
        done = direct.batch({})
        assert (done.now_us, done.inbox_next) == (100 * SECOND, number)


@pytest.mark.parametrize("slices", [1, 2, 5])
def test_the_largest_of_a_batch_counts_wherever_it_stands(tmp_path: Path, slices: int) -> None:
    direct = opened(tmp_path)
    direct.slices = slices
    w = direct.weir
    for time_s in (20, 90, 30):
        w.advance(time_s * SECOND)
        w.push("trade", trades((time_s - 10) * SECOND))
    w.inbox.advance(None)
    done = direct.batch({})
    assert (done.now_us, done.inbox_next, sum(f.count for f in done.rows)) == (90 * SECOND, 6, 3)
    w.advance(95 * SECOND)
    w.push("trade", trades(99 * SECOND))
    assert direct.batch({}).now_us == 99 * SECOND, "rows move it further than the advance beside them"


def test_a_stream_without_rows_has_windows_that_move(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    query = w.register("SELECT a FROM trade BEGIN NOW - INTERVAL 10 SECONDS END NOW")
    w.advance(1_000 * SECOND)
    direct.batch({})
    assert query.fetch().num_rows == 0
    token = query.token()
    assert token == f"0:{1_000 * SECOND}:{query.id}"
    w.push("trade", trades(985 * SECOND, 995 * SECOND, 399 * SECOND))  # the last is below now − keep
    direct.batch({})
    assert query.fetch()["a"].to_pylist() == [1]
    assert w.late("trade")["weir_reason"].to_pylist() == ["late"]
    assert query.changes(after=token).came["a"].to_pylist() == [1]
    token = query.token()
    w.advance(1_005 * SECOND)
    direct.batch({})
    changes = query.changes(after=token)
    assert (changes.came.num_rows, changes.went["a"].to_pylist()) == (0, [1])
    assert query.fetch().num_rows == 0


def test_rows_of_the_same_batch_are_judged_by_the_clock_before_it(tmp_path: Path) -> None:
    direct = opened(tmp_path)  # keeps ten minutes
    w = direct.weir
    w.push("trade", trades(1_000 * SECOND))
    direct.batch({})
    w.advance(2_000 * SECOND)
    w.push("trade", trades(500 * SECOND))
    done = direct.batch({})
    assert ([f.count for f in done.rows], done.late, done.now_us) == ([1], (), 2_000 * SECOND)
    w.push("trade", trades(1_399 * SECOND, 1_400 * SECOND))
    done = direct.batch({})
    assert ([f.count for f in done.rows], [f.reasons for f in done.late]) == ([1], [{"late": 1}])


def test_changes_of_a_table_without_time_hold_from_after_it(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("stock", STOCK, key="symbol")
    w.advance(100 * SECOND)
    w.upsert("stock", [{"symbol": "A", "company": "of the same batch"}])
    direct.batch({})
    w.upsert("stock", [{"symbol": "A", "company": "of a later batch"}])
    direct.batch({})
    since = 100 * SECOND + 1
    assert lines(read(direct, stock), "company") == [
        ("of a later batch", since, ENDLESS_US),
        ("of the same batch", -ENDLESS_US, since),
    ]
    met = w.register("SELECT t.a, s.company FROM trade t JOIN stock s ON s.symbol = 'A'")
    w.push("trade", trades(100 * SECOND, since))
    direct.batch({})
    assert met.fetch()["company"].to_pylist() == ["of the same batch", "of a later batch"]


# ── exactly once ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("point", ["plan created", "between ingest and match", "all files written, not done"])
def test_a_batch_that_is_run_again_sees_the_same_clock(tmp_path: Path, point: str) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    w.advance(100 * SECOND)

    def hook(reached: str) -> None:
        if reached == point:
            raise faults.Crash

    with faults.arm(hook), pytest.raises(faults.Crash):
        direct.batch({})
    w.advance(200 * SECOND)
    again = DirectWeir(weir.open(tmp_path), wall_us=10**15, takes_pushes=True)
    assert again.batch({}).now_us == 100 * SECOND
    assert again.batch({}).now_us == 200 * SECOND
    assert again.batch({}).now_us == 200 * SECOND


def test_many_processes_advance_at_once(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    start = threading.Barrier(4)

    def client(who: int) -> list[int]:
        w = weir.open(tmp_path)
        start.wait()
        return [w.advance((10 * who + n) * SECOND) for n in range(8)]

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for given in pool.map(client, range(4)) for number in given]
    assert sorted(numbers) == list(range(32))
    done = direct.batch({})
    assert (done.now_us, done.inbox_next) == (37 * SECOND, 31)


def test_what_was_taken_is_released_and_a_fold_knows_the_clock(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    for number in range(4):
        w.advance((number + 1) * SECOND)
        direct.batch({})
    w.advance(9 * SECOND)
    state = State()
    state.refresh(w.ledger)
    assert vacuum(w.files, state, 0.0, Settings(fold_every_batches=2), inbox_committed=3).inbox == 6
    assert not check(w.files).wrong
    fresh = State()
    fresh.refresh(weir.open(tmp_path).ledger, caches_allowed=False)
    assert fresh.now_us == 4 * SECOND
    ticket = Inbox(open_files(str(tmp_path))).ticket(4)
    assert ticket is not None
    assert (ticket.stream, ticket.rows) == (CLOCK, 1)
    assert direct.batch({}).now_us == 9 * SECOND
