"""The benchmark of select joins runs at smoke size, its peers agree with Weir, and its workload is what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks import run
from benchmarks.micro import joins
from benchmarks.peers.select_join_scan import joined_rows, scan
from benchmarks.workloads import JOINS, JoinWorkload, w3_broad, w3_even, w3_narrow
from weir.index.meeting.planes import Plane

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def affected(workload: JoinWorkload) -> tuple[list[list[int]], int]:
    """The queries that each event affects, and the rows of the join, from the definition."""
    p, found, rows = workload.plane, [], 0
    for b, a in zip(workload.keys, workload.values, strict=True):
        partners = workload.row_values[workload.row_keys == b]
        inside = (p.c_lo[:, None] <= partners) & (partners <= p.c_hi[:, None])
        inside &= ((p.a_lo <= a) & (a <= p.a_hi))[:, None]
        found.append(np.flatnonzero(inside.any(axis=1)).tolist())
        rows += int(inside.sum())
    return found, rows


@pytest.mark.soak
def test_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rows = joins.main(["--quick"])
    printed = capsys.readouterr().out
    assert [(row["workload"], row["queries"]) for row in rows] == [
        ("W3 broad", 200), ("W3 broad", 2000), ("W3 narrow", 200), ("W3 narrow", 2000)
    ]  # fmt: skip
    for row in rows:
        assert row["answer_sha256"] in printed
        assert set(row["strategies"]) == set(joins.STRATEGIES)
        assert set(row["peers"]) == {"scan", "polars", "duckdb", "duckdb-binned"}
        assert sum(row["choices"].values()) > 0
    assert "that affect as many an event" in printed
    (written,) = (tmp_path / "bench-results").glob("joins-*.json")
    assert json.loads(written.read_text())["rows"] == rows


@pytest.mark.slow
def test_a_peer_that_disagrees_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    liar = joins.load_join("duckdb")._replace(prepare=lambda workload: lambda n_events: 1)
    monkeypatch.setattr(joins, "load_join", lambda name: liar)
    with pytest.raises(AssertionError, match="duckdb found 1, not"):
        joins.main(["--quick", "--peers", "duckdb", "--strategies", "none", "--case", "broad"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", list(JOINS))
def test_scan_and_weir_find_what_the_definition_says(name: str, seed: int) -> None:
    workload = JOINS[name](400, 60, seed, rows=3_000)
    expected, rows = affected(workload)
    flat = [query for of_event in expected for query in of_event]
    for threads in (1, 2):
        got = [q for _, parts in scan(workload, 60, threads) for ids in parts for q in ids.tolist()]
        assert got == flat, f"seed {seed}"
    assert joined_rows(workload, 60) == rows
    [found] = joins.Standing(workload).search(60, order=False)
    assert [found.slots[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)] == expected
    ordered = joins.Standing(workload).search(60, 2)
    assert sorted(q for part in ordered for q in part.slots.tolist()) == sorted(flat), f"seed {seed}"


@pytest.mark.spark
@pytest.mark.parametrize("name", [pytest.param("spark-nested", marks=pytest.mark.soak), "spark-binned"])
def test_spark_finds_what_the_definition_says(spark: SparkSession, name: str) -> None:
    for workload in (w3_broad(300, 50, 2, rows=20_000), w3_even(300, 50, 20.0, 2, rows=20_000)):
        assert joins.load_join(name).prepare(workload)(40) == joined_rows(workload, 40) > 0


def test_the_scan_takes_another_buffer_when_one_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.peers import select_join_scan

    monkeypatch.setattr(select_join_scan, "_IDS", 1)
    workload = w3_broad(300, 200, 4, rows=100_000)
    [(_, parts)] = scan(workload, 200, threads=1)
    assert len(parts) > 3
    assert [q for ids in parts for q in ids.tolist()] == [q for of in affected(workload)[0] for q in of]


def test_w3_affects_the_share_of_queries_it_says() -> None:
    for make, share, queries in ((w3_broad, 0.054, 2_000), (w3_narrow, 1e-4, 50_000)):
        workload = make(queries, 1_500, 5)
        found = sum(len(ids) for _, parts in scan(workload, 1_500) for ids in parts)
        assert found / 1_500 / queries == pytest.approx(share, rel=0.15)
    for queries in (1_000, 20_000):
        workload = w3_even(queries, 1_500, 50.0, 5)
        found = sum(len(ids) for _, parts in scan(workload, 1_500) for ids in parts)
        assert found / 1_500 == pytest.approx(50, rel=0.1)


def test_a_seed_is_a_workload() -> None:
    for make in JOINS.values():
        one, again, other = (make(50, 20, seed, rows=30) for seed in (5, 5, 6))
        assert isinstance(one.plane, Plane)
        for a, b in zip((*one.plane, *one[2:]), (*again.plane, *again[2:]), strict=True):
            assert np.array_equal(a, b)
        assert not np.array_equal(one.keys, other.keys)


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--peers", "oracle"], ["--case", "wide"], ["--strategies", "luck"]):
        with pytest.raises(SystemExit):
            joins.main(arguments)
        assert "unknown" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run.main(["--workload", "W9"])
    assert "unknown workloads: W9" in capsys.readouterr().err
