"""Tables on Spark: changes go through the running job as pushes do, and versions are there afterwards."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import weir
from weir.algebra.schema import ENDLESS_US
from weir.answer.table_versions import FROM_US, TO_US, versions
from weir.store.check import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
