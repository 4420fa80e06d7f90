"""`format("weir")`: answers, matches and rows as DataFrames, and what comes and goes as streams."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import textwrap
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import weir
from weir.feeds.contents import CAME, WENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark
NOW = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)
MINUTE = "BEGIN NOW - INTERVAL 1 MINUTE END NOW"


def row(name: str, price: float, seconds: float = 0) -> dict[str, Any]:
    return {"name": name, "price": price, "ts": NOW + datetime.timedelta(seconds=seconds)}


@pytest.fixture
def trading(spark: SparkSession, tmp_path: Path) -> weir.Weir:
    w = weir.open(tmp_path / "trading", spark=spark)
    w.stream("trade", "name string, price double, ts timestamp", time="ts", keep="1 hour")
    return w


def batch(w: weir.Weir, *rows: dict[str, Any]) -> None:
    w.push("trade", list(rows))
    w.run(available_now=True)


def load(w: weir.Weir, **options: object) -> DataFrame:
    return w.spark.read.format("weir").options(**{k: str(v) for k, v in options.items()}).load(w.files.location)


def table(w: weir.Weir, **options: object) -> list[dict[str, Any]]:
    return load(w, **options).toArrow().to_pylist()  # Row would give times in the zone of this machine


class Reader:
    """A stream of its own that reads what there is, and keeps what it was given by Spark's batch numbers."""

    def __init__(self, w: weir.Weir, checkpoint: Path, **options: object) -> None:
        self.w = w
        self.checkpoint = checkpoint
        self.options = {"path": w.files.location} | {k: str(v) for k, v in options.items()}
        self.batches: dict[int, list[Row]] = {}
        self.dies = False

    def take(self, frame: DataFrame, number: int) -> None:
        rows = sorted(frame.collect(), key=str)
        assert self.batches.setdefault(number, rows) == rows, "a batch that is told again is the same"
        if self.dies:
            raise RuntimeError("died before Spark noted the batch")

    def go(self) -> list[Row]:
        """What the batches of one run with availableNow brought."""
        before = set(self.batches)
        frame = self.w.spark.readStream.format("weir").options(**self.options).load()
        writer = frame.writeStream.foreachBatch(self.take).option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return [r for number in sorted(set(self.batches) - before) for r in self.batches[number]]

    def total(self, columns: int) -> Counter[tuple[Any, ...]]:
        """What all changes add up to, by the last columns."""
        found: Counter[tuple[Any, ...]] = Counter()
        for rows in self.batches.values():
            for r in rows:
                found[tuple(r)[-columns:]] += r["change"]
        assert min(found.values(), default=0) >= 0, "what went had come"
        return +found


def bag(query: weir.Query) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in query.fetch().to_pylist())


def test_answers_are_what_fetch_gives(trading: weir.Weir, tmp_path: Path) -> None:
    columns = (
        "k int, small tinyint, d decimal(20,3), day date, local timestamp_ntz, raw binary, yes boolean, f float, "
        "list array<int>, pairs map<string,bigint>, inner struct<a:int,b:array<string>>, ts timestamp"
    )
    trading.stream("wide", columns, time="ts", keep="1 hour")
    plain = trading.register("SELECT name, price FROM trade WHERE price < 10 ORDER BY price DESC")
    grouped = trading.register(f"SELECT name, count(*) AS n, sum(price) AS s FROM trade GROUP BY name {MINUTE}")
    wide = trading.register("SELECT *, NULL AS nothing FROM wide")
    none = trading.register("SELECT name AS `a b` FROM trade WHERE price > 1000")
    values = {
        "k": 1, "small": 2, "d": Decimal("12.345"), "day": NOW.date(), "local": datetime.datetime(2026, 3, 1),
        "raw": b"\x00\xff", "yes": True, "f": 0.5, "list": [1, None], "pairs": {"x": 7}, "inner": {"a": 1, "b": ["y"]},
        "ts": NOW,
    }  # fmt: skip
    trading.push("wide", [values, {**dict.fromkeys(values), "ts": NOW}])
    batch(trading, row("a", 1), row("b", 2), row("b", 3), row("c", 70, 50))
    batch(trading, row("a", 4, 100), row("d", 5, 61))
    for query in (plain, grouped, wide, none):
        assert table(trading, query=query.id) == query.fetch().to_pylist()
    earlier = "2026-03-01 12:00:30"
    assert table(trading, query=grouped.id, at=earlier) == grouped.fetch(at=earlier).to_pylist()
    assert load(trading, query=plain.id).schema.simpleString() == "struct<name:string,price:double>"


def test_many_answers_have_the_id_of_their_query(trading: weir.Weir) -> None:
    queries = trading.register_many("SELECT name AS query FROM trade WHERE price < :p", {"p": [2.0, 3.0, 4.0]})
    batch(trading, row("a", 1), row("b", 2.5), row("c", 3.5))
    found = load(trading, query="0-1, 2")
    assert found.columns == ["query_", "query"]
    assert found.rdd.getNumPartitions() == 3
    expected = [(q.id, r["query"]) for q in queries for r in q.fetch().to_pylist()]
    assert [tuple(r) for r in found.collect()] == expected


def test_a_dataframe_is_what_there_was_when_it_was_loaded(trading: weir.Weir) -> None:
    query = trading.register("SELECT name FROM trade")
    batch(trading, row("a", 1))
    before = load(trading, query=query.id)
    batch(trading, row("b", 2))
    assert [r["name"] for r in before.collect()] == ["a"]
    assert before.count() == 1
    assert load(trading, query=query.id).count() == 2


def test_matches_rows_and_queries(trading: weir.Weir) -> None:
    trading.stream("batch", "name string, n int, ts timestamp", time="ts", keep="1 hour")
    low = trading.register("SELECT name FROM trade WHERE price < 10")
    both = trading.register("SELECT t.name, b.n FROM trade t JOIN batch b ON t.name = b.name WHERE t.price > 5")
    batch(trading, row("a", 1), row("b", 20))
    trading.push("batch", [{"name": "b", "n": 7, "ts": NOW}])
    batch(trading, row("c", 3))
    (joined,) = load(trading, what="matches", query=both.id).collect()
    assert (joined["batch"], joined["stream"], joined["partner_stream"], joined["partner_row"]) == (
        1,
        "batch",
        "trade",
        1,
    )
    assert (joined["trade"]["price"], joined["batch_"]["n"]) == (20.0, 7)
    everything = load(trading, what="matches")
    assert sorted((r["query"], r["batch"], r["stream"], r["row"]) for r in everything.collect()) == [
        (low.id, 0, "trade", 0),
        (low.id, 1, "trade", 2),
        (both.id, 1, "batch", 0),
    ]
    rows = [(r["batch"], r["row"], r["name"]) for r in load(trading, what="streams", stream="Trade").collect()]
    assert rows == [(0, 0, "a"), (0, 1, "b"), (1, 2, "c")]
    assert table(trading, what="queries") == trading.queries().to_pylist()


def test_changes_add_up_to_the_answer_while_batches_run(trading: weir.Weir, tmp_path: Path) -> None:
    query = trading.register(f"SELECT name, sum(price) AS s FROM trade GROUP BY name {MINUTE}")
    reader = Reader(trading, tmp_path / "c", what="changes", query=query.id)
    batch(trading, row("a", 1), row("b", 2, 1), row("a", 1, 2))
    for step in range(3):
        reader.go()
        assert reader.total(2) == bag(query), "a reader that has read all has the answer"
        for k in range(step + 1):  # so it is several batches behind
            batch(trading, row("a", step, 40 * step + k), row(f"n{k}", 3, 40 * step))
    told = [r for rows in reader.batches.values() for r in rows]
    assert {r["change"] for r in told} == {CAME, WENT}
    assert {r["batch"] for r in told} == {0, 1, 2, 3}, "batches are told one by one, however many Spark takes at once"
    assert {r["query"] for r in told} == {query.id}


def test_a_reader_goes_on_where_it_was(trading: weir.Weir, tmp_path: Path) -> None:
    query = trading.register("SELECT name FROM trade")
    reader = Reader(trading, tmp_path / "c", what="changes", query=query.id)
    assert reader.go() == [], "there is no batch yet"
    batch(trading, row("a", 1), row("b", 2))
    assert [(r["batch"], r["change"], r["name"]) for r in reader.go()] == [(0, 1, "a"), (0, 1, "b")]
    assert reader.go() == [], "nothing twice"
    batch(trading, row("c", 3))
    reader.dies = True
    with pytest.raises(Exception, match="died before Spark noted the batch"):
        reader.go()
    batch(trading, row("d", 4))
    reader.dies = False
    assert [r["name"] for r in reader.go()] == ["d"], "the batch before it is told again, as it was"
    told = [[r["name"] for r in rows] for _, rows in sorted(reader.batches.items()) if rows]
    assert told == [["a", "b"], ["c"], ["d"]]


def test_rows_and_matches_as_streams(trading: weir.Weir, tmp_path: Path) -> None:
    query = trading.register("SELECT name FROM trade WHERE price < 10")
    rows = Reader(trading, tmp_path / "rows", what="streams", stream="trade")
    matches = Reader(trading, tmp_path / "matches", what="matches", query=query.id)
    batch(trading, row("a", 1), row("b", 20))
    assert [(r["batch"], r["row"], r["name"]) for r in rows.go()] == [(0, 0, "a"), (0, 1, "b")]
    assert [(r["batch"], r["trade"]["name"]) for r in matches.go()] == [(0, "a")]
    batch(trading, row("c", 3))
    batch(trading, row("d", 4))
    assert [(r["batch"], r["row"], r["name"]) for r in rows.go()] == [(1, 2, "c"), (2, 3, "d")]
    assert [(r["batch"], r["trade"]["name"]) for r in matches.go()] == [(1, "c"), (2, "d")]
    assert rows.go() == matches.go() == []


def test_wrong_options_say_what_is_wrong(trading: weir.Weir, tmp_path: Path) -> None:
    """All of them are in tests/feeds; here, that Spark hands the message on."""
    trading.register("SELECT name FROM trade")
    with pytest.raises(Exception, match="feed: what=answers needs the option 'query'"):
        load(trading)
    with pytest.raises(Exception, match="changes are read as a stream"):
        load(trading, what="changes", query=0).collect()
    with pytest.raises(Exception, match="what=answers is no stream"):
        Reader(trading, tmp_path / "c", query=0).go()
    with pytest.raises(Exception, match="the source knows its columns"):
        trading.spark.read.schema("a int").format("weir").option("query", "0").load(trading.files.location).collect()


ELSEWHERE = textwrap.dedent("""
    import sys
    from pyspark.sql import SparkSession
    import weir

    folder, last = sys.argv[1], int(sys.argv[2])
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.log.level", "ERROR").getOrCreate())
    weir.register_source(spark)
    total = {}
    def take(frame, number):
        for r in frame.collect():
            total[r["name"]] = total.get(r["name"], 0) + r["change"]
        print("batch", number, flush=True)
        if f"n{last}" in total:
            print("read", sorted(n for n, k in total.items() if k), flush=True)
    frame = spark.readStream.format("weir").option("path", folder).option("what", "changes").option("query", "0").load()
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", folder + "/../there").start()
    while f"n{last}" not in total:
        assert not query.awaitTermination(1), "it ended"
    query.stop()
    print("answer", sorted(r["name"] for r in spark.read.format("weir").option("query", "0").load(folder).collect()))
""")


def test_another_process_reads_while_the_job_runs(trading: weir.Weir) -> None:
    """On a session that it made itself, by a Python whose environment is not activated."""
    query = trading.register("SELECT name FROM trade")
    batch(trading, row("n0", 1))
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not p.startswith(sys.prefix))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "VIRTUAL"))} | {"PATH": path}
    command = [sys.executable, "-c", ELSEWHERE, trading.files.location, "5"]
    run = trading.run(trigger="0 seconds")
    try:
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline().startswith("batch 0")
            for k in range(1, 6):
                trading.push("trade", [row(f"n{k}", k, k)])
                while run.progress().events < k:
                    assert not run.wait(0.01), "the run ended"
            said, wrong = reader.communicate(timeout=300)
    finally:
        run.stop()
    names = str(sorted(r["name"] for r in query.fetch().to_pylist()))
    assert f"read {names}" in said, said + wrong[-3000:]
    assert f"answer {names}" in said, said + wrong[-3000:]
