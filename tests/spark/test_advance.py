"""Time that passes by itself, on Spark: advances between batches, and a job that is idle."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import weir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOW = datetime.datetime(2025, 6, 1, 12, 0, tzinfo=datetime.UTC)


def at(seconds: float) -> datetime.datetime:
    return NOW + datetime.timedelta(seconds=seconds)


def test_rows_leave_windows_though_none_come(spark: SparkSession, tmp_path: Path) -> None:
    w = weir.open(tmp_path / "w", spark=spark)
    w.stream("trade", "name string, ts timestamp", time="ts", keep="5 minutes")
    query = w.register("SELECT name FROM trade BEGIN NOW - INTERVAL 1 MINUTE END NOW")
    pushed = [{"name": "a", "ts": NOW}, {"name": "b", "ts": at(30)}]
    w.push("trade", pushed)
    assert w.run(available_now=True).progress().batches == 1
    assert query.fetch()["name"].to_pylist() == ["a", "b"]
    token = query.token()
    assert w.advance(at(61)) == 1
    seen: list[tuple[int, int]] = []
    progress = w.run(available_now=True, sink=lambda frame, n: seen.append((n, frame.count()))).progress()
    assert (progress.batches, progress.events, seen) == (1, 0, [(1, 0)])
    assert progress.now_us == int(at(61).timestamp() * 1e6)
    assert query.fetch()["name"].to_pylist() == ["b"]
    assert query.fetch(at=at(30))["name"].to_pylist() == ["a", "b"]
    changes = query.changes(after=token)
    assert (changes.came.num_rows, changes.went["name"].to_pylist()) == (0, ["a"])
    # One batch with rows on both sides of an advance, one with late rows after it.
    w.push("trade", [{"name": "c", "ts": at(62)}])
    w.advance(at(400))
    w.push("trade", [{"name": "d", "ts": at(390)}])
    assert w.run(available_now=True).progress().events == 2
    assert query.fetch()["name"].to_pylist() == ["d"]
    w.push("trade", [{"name": "e", "ts": at(99)}, {"name": "f", "ts": at(399)}])
    w.run(available_now=True)
    assert query.fetch()["name"].to_pylist() == ["d", "f"]
    assert w.late("trade")["name"].to_pylist() == ["e"]
    assert w.run(available_now=True).progress().batches == 0, "nothing is left to take"


def test_an_idle_job_on_the_arrival_clock_lets_time_pass(spark: SparkSession, tmp_path: Path) -> None:
    w = weir.open(tmp_path / "w", spark=spark, clock="arrival", settings={"idle_tick_s": 0.05})
    w.stream("trade", "name string, ts timestamp", time="ts", keep="1 hour")
    query = w.register("SELECT name FROM trade BEGIN NOW - INTERVAL 1 SECOND END NOW")
    w.push("trade", [{"name": "a"}])
    assert w.run(available_now=True).progress().batches == 1
    assert ticks() == [], "a run over what is there never ticks"
    token = query.token()
    run = w.run(trigger="0 seconds")
    try:
        for _ in range(6_000):
            if not query.fetch().num_rows and run.progress().batches >= 3:
                break
            assert not run.wait(0.01), "the run ended"
        progress = run.progress()
        assert progress.batches >= 3
        assert (progress.events, progress.housekeeping_error) == (0, None)
        assert query.changes(after=token).went["name"].to_pylist() == ["a"]
        assert ticks() == ["weir-idle"]
    finally:
        run.stop()
    assert ticks() == []
    last = w.ledger.done(w.ledger.last_done())
    assert last is not None
    assert w.inbox.next(0) - last.inbox_next <= 1, "ticks do not pile up"


def test_on_the_event_clock_a_tick_makes_a_batch_and_nobody_ticks(spark: SparkSession, tmp_path: Path) -> None:
    w = weir.open(tmp_path / "w", spark=spark, settings={"idle_tick_s": 0.001})
    w.stream("trade", "name string, ts timestamp", time="ts", keep="5 minutes")
    w.advance(NOW)
    run = w.run(trigger="0 seconds")
    try:
        wait_for(run, batches=1)
        run._tick()
        wait_for(run, batches=2)
        assert ticks() == []
        assert run.progress().now_us == int(NOW.timestamp() * 1e6)
        assert w.inbox.next(0) == 2
        w.advance(at(1))
        wait_for(run, batches=3)
        assert run.progress().now_us == int(at(1).timestamp() * 1e6)
    finally:
        run.stop()


def wait_for(run: weir.Run, *, batches: int) -> None:
    for _ in range(6_000):
        if run.progress().batches >= batches:
            return
        assert not run.wait(0.01), "the run ended"
    raise AssertionError(f"waited a minute for {batches} batches: {run.progress()}")


def ticks() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "weir-idle"]
