"""The kernel benchmark runs at smoke size, and every peer that is there agrees with Weir on the number of pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.micro import selections
from benchmarks.workloads import WORKLOADS, w1, w2

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("ncls", reason="peers are an extra")
    rows = selections.main(["--quick"])
    printed = capsys.readouterr().out
    assert [row["queries"] for row in rows] == [200, 2000, 200, 2000]
    for row in rows:
        assert row["answer_sha256"] in printed
        assert {"scan", "predicate", "polars", "duckdb"} <= set(row["peers"])
    assert {"ncls", "numpy-sort"} <= set(rows[0]["peers"])
    (written,) = (tmp_path / "bench-results").glob("selections-*.json")
    assert json.loads(written.read_text())["rows"] == rows


def test_a_peer_that_disagrees_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    honest = selections.load("scan")
    liar = honest._replace(prepare=lambda workload: lambda n_events: 1)
    monkeypatch.setattr(selections, "load", lambda name: liar)
    with pytest.raises(AssertionError, match="scan found 1 pairs"):
        selections.main(["--quick", "--peers", "scan", "--workload", "W1"])


@pytest.mark.parametrize("name", list(WORKLOADS))
@pytest.mark.parametrize("n_queries", [1_000, 30_000])
def test_workloads_match_ten_queries_an_event(name: str, n_queries: int) -> None:
    workload = WORKLOADS[name](n_queries, 5_000, seed=11)
    found = selections.STRATEGIES["grid"].build(workload.table, n_queries, workload.n_attributes)
    matches = found.search(workload.keys, np.zeros(n_queries, np.uint8), 10**9)
    assert len(matches.slots) / 5_000 == pytest.approx(10, rel=0.15)


def test_a_seed_is_a_workload() -> None:
    for make in (w1, w2):
        again, other = make(50, 20, seed=5), make(50, 20, seed=6)
        assert np.array_equal(make(50, 20, seed=5).keys, again.keys)
        assert not np.array_equal(other.keys, again.keys)
