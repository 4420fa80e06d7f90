"""The whole thing on Spark: sources, batches, answers, sinks, streams added while it runs."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import weir
from weir.errors import FetchError, QueryError, RunError, StreamError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
TRADE = "name string, price double, ts timestamp"
NOW = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)


def row(name: str, price: float, seconds: float = 0) -> dict[str, Any]:
    return {"name": name, "price": price, "ts": NOW + datetime.timedelta(seconds=seconds)}


def names(table: pa.Table) -> list[str]:
    return [r["name"] for r in table.to_pylist()]


@pytest.fixture
def trading(spark: SparkSession, tmp_path: Path) -> weir.Weir:
    w = weir.open(tmp_path / "trading", spark=spark)
    w.stream("trade", TRADE, time="ts", keep="1 hour")
    return w


def test_old_rows_new_rows_windows_and_changes(trading: weir.Weir) -> None:
    trading.push("trade", [row("a", 1), row("b", 20)])
    trading.run(available_now=True)
    cheap = trading.register("SELECT name FROM trade WHERE price < 10 BEGIN NOW - INTERVAL 1 MINUTE END NOW")
    assert names(cheap.fetch()) == ["a"], "rows from before the registration count"
    token = cheap.token()
    trading.push("trade", [row("c", 2, 30), row("d", 30, 30)])
    trading.run(available_now=True)
    assert names(cheap.fetch()) == ["a", "c"]
    trading.push("trade", [row("e", 3, 75)])
    trading.run(available_now=True)
    assert names(cheap.fetch()) == ["c", "e"], "a has left the window"
    assert names(cheap.fetch(at=NOW)) == ["a"]
    assert names(cheap.fetch(at="2026-03-01 12:00:30")) == ["a", "c"]
    changes = cheap.changes(after=token)
    assert (names(changes.came), names(changes.went)) == (["c", "e"], ["a"])
    assert cheap.changes(after=changes.token).came.num_rows == 0
    assert "materialised since batch 1" in cheap.explain()
    cheap.drop()
    with pytest.raises(QueryError, match="query 0 was dropped"):
        cheap.fetch()


def test_a_driver_may_die_before_its_first_batch_is_logged(trading: weir.Weir) -> None:
    """Spark refuses to begin where anything is, be it half a file."""
    offsets = Path(trading.files.location) / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.53c9ad61-44ee-4cff-af19-7ce43a9a4ff4.tmp").write_text("half")
    query = trading.register("SELECT name FROM trade WHERE price < 10")
    trading.push("trade", [row("a", 1)])
    trading.run(available_now=True)
    assert names(query.fetch()) == ["a"]


def test_expired_moments_and_tokens_say_so(trading: weir.Weir) -> None:
    query = trading.register("SELECT name FROM trade WHERE price > 0 BEGIN NOW - INTERVAL 10 MINUTES END NOW")
    trading.push("trade", [row("a", 1)])
    trading.run(available_now=True)
    token = query.token()
    trading.push("trade", [row("b", 1, 7_200)])
    trading.run(available_now=True)
    trading.push("trade", [row("late", 1, 60), row("c", 1, 7_201)])
    trading.run(available_now=True)
    assert names(query.fetch()) == ["b", "c"]
    with pytest.raises(FetchError, match="rows before .* have expired"):
        query.fetch(at=NOW)
    with pytest.raises(FetchError, match="token '0:.*' has expired"):
        query.changes(after=token)
    assert trading.late("trade").to_pylist() == [{**row("late", 1, 60), "weir_reason": "late"}]


def test_two_streams_and_one_that_comes_later(trading: weir.Weir) -> None:
    trading.stream("weather", "area string, category int, ts timestamp", time="ts", keep="1 day")
    storms = trading.register("SELECT area FROM weather WHERE category > 4")
    cheap = trading.register("SELECT name FROM trade WHERE price < 10")
    run = trading.run(trigger="0 seconds")
    try:
        trading.push("trade", [row("a", 1)])
        trading.push("weather", [{"area": "north", "category": 5, "ts": NOW}])
        wait_for(run, events=2)
        assert names(cheap.fetch()) == ["a"]
        assert storms.fetch().to_pylist() == [{"area": "north"}]
        trading.stream("news", "headline string, ts timestamp", time="ts", keep="1 hour")
        flashes = trading.register("SELECT headline FROM news WHERE headline LIKE '%storm%'")
        trading.push("news", [{"headline": "a storm is near", "ts": NOW}, {"headline": "calm", "ts": NOW}])
        wait_for(run, events=4)
        assert flashes.fetch().to_pylist() == [{"headline": "a storm is near"}]
    finally:
        run.stop()


def test_a_streaming_dataframe_joins_a_running_weir(trading: weir.Weir, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    cheap = trading.register("SELECT name FROM trade WHERE price < 10")
    run = trading.run(trigger="0 seconds")
    try:
        trading.push("trade", [row("a", 1)])
        wait_for(run, events=1)
        frame = spark.readStream.schema("symbol string, bid double, ts timestamp").json(str(folder))
        trading.stream("quote", frame, time="ts", keep="1 hour")
        bids = trading.register("SELECT symbol FROM quote WHERE bid >= 5")
        (folder / "one.json").write_text(
            '{"symbol":"x","bid":7,"ts":"2026-03-01T12:00:00Z"}\n{"symbol":"y","bid":1,"ts":"2026-03-01T12:00:00Z"}\n'
            '{"symbol":"z","bid":9}\n'
        )
        trading.push("trade", [row("b", 2)])
        wait_for(run, events=4, late=1)
        assert bids.fetch().to_pylist() == [{"symbol": "x"}]
        assert names(cheap.fetch()) == ["a", "b"]
        assert trading.late("quote").to_pylist()[0]["weir_reason"] == "null time"
    finally:
        run.stop()
    elsewhere = weir.open(trading.files.location, spark=spark)
    with pytest.raises(RunError, match="stream 'quote' is fed by a streaming DataFrame"):
        elsewhere.run(available_now=True)


def test_texts_that_are_no_utf8_stop_nobody(trading: weir.Weir, spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes any bytes for a text. Such rows are not taken; all others, and all queries, go on."""
    folder = tmp_path / "files"
    folder.mkdir()
    frame = (
        spark.readStream.schema("bytes string, bid double, ts timestamp").json(str(folder))
        .selectExpr("CAST(unhex(bytes) AS STRING) AS symbol", "bid", "ts")
    )  # fmt: skip
    trading.stream("quote", frame, time="ts", keep="1 hour")
    texts = ("symbol = 'A'", "symbol LIKE '%A%'", "upper(symbol) = 'A'", "symbol <> 'B'", "length(symbol) = 1")
    queries = [trading.register(f"SELECT symbol, bid FROM quote WHERE {text}") for text in texts]
    joined = trading.register("SELECT q.bid FROM quote q JOIN trade t ON q.symbol = t.name")
    for batch in range(2):
        rows = [("41", 1), ("FF41", 2), ("C3A9", 3), ("41C3", 4)]  # A, no UTF-8, é, a cut é
        (folder / f"{batch}.json").write_text(
            "".join(f'{{"bytes":"{h}","bid":{10 * batch + b},"ts":"2026-03-01T12:00:00Z"}}\n' for h, b in rows)
        )
        trading.push("trade", [row("A", 1)])
        trading.run(available_now=True)
    found = [[(r["symbol"], r["bid"]) for r in query.fetch().to_pylist()] for query in queries]
    a, e = [("A", 1.0), ("A", 11.0)], [("é", 3.0), ("é", 13.0)]
    assert [sorted(rows) for rows in found] == [a, a, a, sorted(a + e), sorted(a + e)]
    assert sorted(r["bid"] for r in joined.fetch().to_pylist()) == [1.0, 1.0, 11.0, 11.0]
    late = [(r["symbol"], r["bid"], r["weir_reason"]) for r in trading.late("quote").to_pylist()]
    assert late == [(s, 10.0 * b + n, "not UTF-8") for b in range(2) for s, n in (("\ufffdA", 2), ("A\ufffd", 4))]
    assert trading.queries()["reason"].null_count == len(queries) + 1, "no query is to blame"


def test_the_sink_gets_matches_with_their_rows(trading: weir.Weir) -> None:
    low = trading.register("SELECT name FROM trade WHERE price < 10")
    high = trading.register("SELECT name FROM trade WHERE price > 5")
    seen: dict[int, list[tuple[int, str]]] = {}

    def sink(frame: DataFrame, number: int) -> None:
        seen[number] = sorted((r["query"], r["trade"]["name"]) for r in frame.collect())

    trading.push("trade", [row("a", 1), row("b", 7), row("c", 70)])
    trading.run(available_now=True, sink=sink)
    assert seen == {0: [(low.id, "a"), (low.id, "b"), (high.id, "b"), (high.id, "c")]}


def test_the_arrival_clock_stamps_rows(spark: SparkSession, tmp_path: Path) -> None:
    w = weir.open(tmp_path / "w", spark=spark, clock="arrival")
    w.stream("trade", TRADE, time="ts", keep="1 hour")
    everything = w.register("SELECT name, ts FROM trade")
    w.push("trade", [{"name": "a", "price": 1.0}])
    before = datetime.datetime.now(datetime.UTC)
    w.run(available_now=True)
    (got,) = everything.fetch().to_pylist()
    assert before <= got["ts"] <= datetime.datetime.now(datetime.UTC)


def test_heavy_queries_are_demoted_and_answered_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    w = weir.open(tmp_path / "w", spark=spark, settings={"pairs_per_batch_max": 40, "demote_pairs_min": 1_000_000})
    w.stream("trade", TRADE, time="ts", keep="1 hour")
    heavy = w.register("SELECT name FROM trade WHERE price >= 0")
    light = w.register("SELECT name FROM trade WHERE price = 3")
    w.push("trade", [row(f"t{k}", k) for k in range(100)])
    run = w.run(available_now=True)
    assert run.progress().demoted == 1
    assert heavy.fetch().num_rows == 100
    assert names(light.fetch()) == ["t3"]
    assert "demoted in batch 0" in heavy.explain()
    assert "materialised" in light.explain()
    assert w.queries().column("demoted").to_pylist() == [True, False]


def test_another_process_registers_pushes_and_fetches(trading: weir.Weir) -> None:
    run = trading.run(trigger="0 seconds")
    try:
        code = (
            "import sys, datetime, weir\n"
            "w = weir.open(sys.argv[1])\n"
            'q = w.register("SELECT name FROM trade WHERE price < 10")\n'
            "w.push('trade', [{'name': 'a', 'price': 1.0, 'ts': datetime.datetime(2026, 3, 1, 12)}])\n"
            "print(q.id)"
        )
        said = subprocess.run(
            [sys.executable, "-c", code, trading.files.location], capture_output=True, text=True, check=True
        )
        wait_for(run, events=1)
    finally:
        run.stop()
    assert names(trading.query(int(said.stdout)).fetch()) == ["a"]


def test_a_lost_checkpoint_is_refused(trading: weir.Weir) -> None:
    import shutil

    trading.push("trade", [row("a", 1)])
    trading.run(available_now=True)
    shutil.rmtree(Path(trading.files.location) / "checkpoint")
    with pytest.raises(RunError, match="the ledger is at batch 0, Spark's checkpoint at batch -1"):
        trading.run(available_now=True)


def test_a_batch_larger_than_the_limit_is_cut_inside_a_push(spark: SparkSession, tmp_path: Path) -> None:
    w = weir.open(tmp_path / "w", spark=spark, settings={"batch_rows_max": 30})
    w.stream("trade", TRADE, time="ts", keep="1 hour")
    query = w.register("SELECT name FROM trade WHERE price >= 0")
    w.push("trade", [row(f"t{k}", k) for k in range(100)])
    run = w.run(available_now=True)
    assert run.progress().batches == 4
    assert names(query.fetch()) == [f"t{k}" for k in range(100)], "in arrival order"


def test_a_static_dataframe_is_refused(trading: weir.Weir, spark: SparkSession) -> None:
    with pytest.raises(StreamError, match="is not streaming"):
        trading.stream("quote", spark.range(1), time="id")


def wait_for(run: weir.Run, *, events: int, late: int = 0) -> None:
    """Until the run has taken so many rows; an error of the job is raised."""
    for _ in range(6_000):
        figures = run.progress()
        if figures.events + figures.late >= events and figures.late >= late:
            return
        assert not run.wait(0.01), "the run ended"
    raise AssertionError(f"waited a minute for {events} events: {run.progress()}")
