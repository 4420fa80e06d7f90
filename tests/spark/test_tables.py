"""Tables on Spark: changes go through the running job as pushes do, and versions are there afterwards."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import weir
from weir.algebra.schema import ENDLESS_US, Table
from weir.answer.table_versions import FROM_US, TO_US, versions
from weir.errors import PushError, RunError, StreamError
from weir.store.check import check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
NOW = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)
NOW_US = int(NOW.timestamp()) * 1_000_000


def test_changes_go_through_a_run(spark: SparkSession, tmp_path: Path) -> None:
    w = weir.open(tmp_path / "trading", spark=spark, settings={"batch_rows_max": 2})
    w.stream("trade", "name string, ts timestamp", time="ts", keep="1 hour")
    stock = w.table("stock", "symbol string, company string null", key="symbol")
    query = w.register("SELECT name FROM trade WHERE name <> ''")
    w.upsert("stock", [{"symbol": s, "company": s.lower()} for s in "ABCDE"])
    w.push("trade", [{"name": n, "ts": NOW} for n in "xyz"])
    seen: list[tuple[int, list[str]]] = []  # by batch, how many matches a sink gets, and its columns
    w.run(available_now=True, sink=lambda frame, n: seen.append((frame.count(), frame.columns)))
    w.upsert("stock", spark.createDataFrame([("A", "Alpha")], "symbol string, company string"))
    w.delete("stock", ["B", "Q"])
    run = w.run(available_now=True, sink=lambda frame, n: seen.append((frame.count(), frame.columns)))
    assert [matches for matches, _ in seen] == [0, 2, 1, 0, 0], "five changes in one batch, then two rows each"
    assert not any("stock" in column for _, columns in seen for column in columns)
    assert (run.progress().events, run.progress().late, query.fetch().num_rows) == (0, 0, 3)
    w.state.refresh(w.ledger)
    found = versions(w.files, stock, w.state, w.state.last).to_pylist()
    since = NOW_US + 1
    assert {(v["symbol"], v["company"]): (v[FROM_US], v[TO_US]) for v in found} == {
        ("A", "a"): (-ENDLESS_US, since),
        ("B", "b"): (-ENDLESS_US, since),
        **{(s, s.lower()): (-ENDLESS_US, ENDLESS_US) for s in "CDE"},
        ("A", "Alpha"): (since, ENDLESS_US),
    }
    w.vacuum()
    assert not check(w.files).wrong


@pytest.mark.parametrize("retroactive", [False, True])
def test_a_sink_gets_what_versions_of_tables_meet(spark: SparkSession, tmp_path: Path, retroactive: bool) -> None:
    w = weir.open(tmp_path / "trading", spark=spark)
    w.stream("trade", "name string, price int, ts timestamp", time="ts", keep="1 hour")
    w.table("stock", "symbol string, company string, rating int", key="symbol", retroactive=retroactive)
    query = w.register(
        "SELECT t.price, s.company FROM trade t JOIN stock s ON t.name = s.symbol WHERE t.price < 100 AND s.rating > 3"
    )
    assert "not matched" not in query.explain()
    seen: list[tuple[object, ...]] = []

    def sink(frame: DataFrame, batch: int) -> None:
        for row in frame.collect():
            partner = row.partner_stream, row.partners[0].stream
            assert partner == (("stock", "stock") if row.stream == "trade" else ("trade", "trade"))
            assert sorted(row.stock.asDict()) == ["company", "rating", "symbol"]
            seen.append((batch, row.query, row.stream, row.time, row.trade.price, row.stock.company))

    second = datetime.timedelta(seconds=1)
    w.upsert("stock", [{"symbol": s, "company": s.lower(), "rating": r} for s, r in [("A", 5), ("B", 1)]])
    w.push("trade", [{"name": n, "price": p, "ts": NOW} for n, p in [("A", 1), ("B", 2), ("A", 200)]])
    w.run(available_now=True, sink=sink)
    assert {(of[0], *of[4:]) for of in seen} == {(0, 1, "a")}, "a version may be the event: it has always held"
    assert seen[0][3] in (NOW, NOW.replace(tzinfo=None), None)
    seen.clear()
    w.upsert("stock", [{"symbol": "A", "company": "new", "rating": 9}, {"symbol": "C", "company": "c", "rating": 9}])
    w.push("trade", [{"name": n, "price": 3, "ts": NOW + second} for n in "AC"])
    w.run(available_now=True, sink=sink)
    found = {(of[4], of[5]) for of in seen}
    assert {(3, "new"), (3, "c")} <= found
    assert ((1, "new") in found) is retroactive, "an older row meets a later version only of a retroactive table"
    assert (3, "a") not in found
    answer = {tuple(row.values()) for row in query.fetch().to_pylist()}
    assert answer == {(1, "new" if retroactive else "a"), (3, "new"), (3, "c")}
    w.delete("stock", ["A"])
    w.push("trade", [{"name": "A", "price": 4, "ts": NOW + 2 * second}])
    seen.clear()
    w.run(available_now=True, sink=sink)
    assert not seen
    assert {price for price, _ in (row.values() for row in query.fetch().to_pylist())} == (
        {3} if retroactive else {1, 3}
    )
    assert not check(w.files).wrong


def test_a_streaming_dataframe_changes_a_table(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    schema = "symbol string, company string, op string, since timestamp"
    w = weir.open(tmp_path / "trading", spark=spark)
    w.stream("trade", "name string, ts timestamp", time="ts", keep="1 hour")

    def defined(w: weir.Weir) -> Table:
        frame = spark.readStream.schema(schema).json(str(folder))
        return w.table("stock", frame, key="symbol", time="since", operation="OP")

    stock = defined(w)
    assert [c.name for c in stock.columns] == ["symbol", "company", "since"]
    with pytest.raises(PushError, match="table 'stock' is changed by a streaming DataFrame"):
        w.upsert("stock", [])
    with pytest.raises(StreamError, match="operation column 'opp' is not in the DataFrame given for table 'other'"):
        w.table("other", spark.readStream.schema(schema).json(str(folder)), key="symbol", operation="opp")
    with pytest.raises(StreamError, match="the DataFrame given for table 'other' is not streaming"):
        w.table("other", spark.range(1), key="id")
    other = weir.open(tmp_path / "trading", spark=spark)
    with pytest.raises(RunError, match=r"table 'stock' is fed by a streaming DataFrame.* weir.table\('stock', df, …\)"):
        other.run(available_now=True)
    defined(other)

    def change(name: str, *lines: tuple[str | None, str, str, int]) -> None:
        keys = ("symbol", "company", "op", "since")
        rows = [dict(zip(keys, (*line[:3], f"1970-01-01T00:00:{line[3]:02}Z"), strict=True)) for line in lines]
        (folder / name).write_text("\n".join(json.dumps(row) for row in rows))

    change("a.json", ("A", "a", "insert", 1), ("B", "b", "UPSERT", 1), ("C", "c", "merge", 1), (None, "d", "insert", 1))
    w.push("trade", [{"name": "A", "ts": NOW}])
    w.run(available_now=True)
    change("b.json", ("A", "aa", "update", 5), ("B", "", "delete", 3))
    other.run(available_now=True)
    w.state.refresh(w.ledger)
    found = versions(w.files, stock, w.state, w.state.last).to_pylist()
    assert {(v["symbol"], v["company"], v[FROM_US] // 10**6, v[TO_US]) for v in found} == {
        ("A", "a", 1, 5_000_000),
        ("B", "b", 1, 3_000_000),
        ("A", "aa", 5, ENDLESS_US),
    }
    assert w.state.now_us == NOW_US
    assert sorted(w.late("stock")["weir_reason"].to_pylist()) == ["null key", "unknown operation"]
    assert not check(w.files).wrong
    w.drop_table("stock")
    w.push("trade", [{"name": "B", "ts": NOW}])
    w.run(available_now=True)
