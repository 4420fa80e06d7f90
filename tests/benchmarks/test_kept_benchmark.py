"""The benchmark of kept queries runs, and what it compares has the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import kept
from benchmarks.alerts import w6
from benchmarks.peers.alerts_duckdb import RecomputedInDuckDB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_duckdb_counts_the_window() -> None:
    alerts = w6(40, 100, 60_000_000)
    peer = RecomputedInDuckDB(alerts)
    for batch in range(8):
        peer.put(batch)
    rows = [row for batch in range(3, 8) for row in alerts.events(batch).to_pylist()]
    wanted = {}
    for rule in alerts.rules.to_pylist():
        count = sum(row["k"] == rule["k"] and row["v"] > rule["lo"] for row in rows)
        if count > rule["n"]:
            wanted[rule["id"]] = count
    assert kept.as_dict(peer.answers()) == wanted
    assert 0 < len(wanted) < 40


@pytest.mark.slow
def test_the_benchmark_runs_at_smoke_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = kept.main(["--quick", "--parts", "batch,state,expiry,joins"])
    assert found["batch"]["ratio of whole"] > 0
    assert found["batch"]["state"]["results"] > 0
    assert found["expiry"]["ratio"] > 0
    assert found["joins"]["rows_per_s"] > 0


@pytest.mark.spark
@pytest.mark.soak
def test_peers_on_spark_show_the_same_alerts(spark: SparkSession) -> None:
    found = kept.beside(w6(100, 200, 60_000_000), 2, None)
    assert [one["name"].partition(",")[0] for one in found] == ["DuckDB", "Spark", "Spark", "Spark"]
    assert all(one["events_per_s"] > 0 for one in found)
