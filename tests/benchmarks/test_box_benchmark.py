"""The benchmark of join results of many attributes runs at smoke size, and its workload is what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.micro import boxes as micro
from benchmarks.micro import timing
from benchmarks.peers.registry import BOX_NAMES
from benchmarks.workloads import LAWS, SHORTS, BoxWorkload, Law, boxes, w5, w5_even

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bounds(workload: BoxWorkload) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends, [queries, attributes]."""
    shape = (workload.n_queries, workload.n_attributes)
    return workload.table.constraint_lo.reshape(shape), workload.table.constraint_hi.reshape(shape)


def inside(workload: BoxWorkload) -> np.ndarray:
    """Whether a join result is in an interval, from the definition: bool[attributes, results, queries]."""
    lo, hi = bounds(workload)
    keys = workload.keys[:, :, None]
    return (lo.T[:, None, :] <= keys) & (keys <= hi.T[:, None, :])


@pytest.mark.soak
def test_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rows = micro.main(["--quick"])
    printed = capsys.readouterr().out
    assert [(row["workload"], row["queries"], row["results_per_event"]) for row in rows] == [
        *(("W5 uniform", n, results) for n in (500, 5_000) for results in (1, 5)),
        *((f"W5 {law}", n, 5) for law in LAWS[1:] for n in (500, 5_000)),
    ]
    for row in rows:
        assert row["answer_sha256"] in printed
        assert set(row["ways"]) == set(micro.WAYS)
        assert set(row["peers"]) == set(micro.QUICK_PEERS)
        assert set(row["gains"]) == set(micro.TREES)
    for words in ("× the scan", "× the best engine", "PDFA's gain over naive", "that match as many", "inserts and"):
        assert words in printed
    (written,) = (tmp_path / "bench-results").glob("boxes-*.json")
    read = json.loads(written.read_text())
    assert read["rows"] == rows
    assert {(change["index"], change["queries"]) for change in read["changes"]} == {
        (strategy, n) for strategy in micro.TREES for n in (500, 5_000)
    }


def test_a_peer_that_disagrees_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    liar = micro.load_box("duckdb")._replace(prepare=lambda workload: lambda n_events: 1)
    monkeypatch.setattr(micro, "load_box", lambda name: liar)
    with pytest.raises(AssertionError, match="duckdb found 1, not"):
        micro.main(["--quick", "--peers", "duckdb", "--ways", "scan,grid", "--law", "skewed"])


def test_a_way_that_disagrees_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    standing = micro.Standing(w5(500, 40))
    honest = standing.search

    def forgets(way: micro.Way, n_events: int, threads: int = 2) -> list[micro.Matches]:
        found = honest(way, n_events, threads)
        return [part._replace(slots=part.slots[:-1]) for part in found] if way.name == "grid" else found

    monkeypatch.setattr(standing, "search", forgets)
    with pytest.raises(AssertionError, match="grid finds other queries than the scan"):
        micro.measure(standing, ("grid",), (), 0.1)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", [name for name in BOX_NAMES if not name.startswith("spark")])
def test_peers_find_what_the_definition_says(name: str, law: Law) -> None:
    workload = w5(2_000, 30, 4, 2, law=law)
    answer = micro.load_box(name).prepare(workload)
    for n_events in (30, 7):
        expected = inside(workload).all(axis=0)[: n_events * 4].sum()
        assert answer(n_events) == expected > 0


@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in BOX_NAMES if name.startswith("spark")])
def test_spark_finds_what_the_definition_says(spark: SparkSession, name: str) -> None:
    workload = w5(2_000, 30, 4, 2)
    assert micro.load_box(name).prepare(workload)(20) == inside(workload).all(axis=0)[:80].sum() > 0


@pytest.mark.parametrize("law", LAWS)
def test_a_join_result_is_in_the_share_of_boxes_that_is_said(law: Law) -> None:
    workload = w5(2_000, 2_000, 2, 3, law=law)
    lo, hi = bounds(workload)
    assert -SHORTS // 2 <= min(lo.min(), workload.keys.min()) < max(hi.max(), workload.keys.max()) < SHORTS // 2
    shares = np.stack([inside(_some(workload, first)).mean(axis=1) for first in range(0, 4_000, 200)]).mean(axis=0)
    per_side = np.mean([_sides(_some(workload, first)) for first in range(0, 4_000, 200)], axis=0)
    each = 1e-4**0.1
    if law == "correlated":
        assert per_side.mean(axis=0) == pytest.approx([0.01, 0.01], rel=0.15)
        # Attributes of a stream say much about each other: the product of their shares is far below the truth.
        assert np.all(per_side.mean(axis=0) > 20 * shares.reshape(2, 5, -1).mean(axis=(1, 2)) ** 5)
    else:
        assert shares.mean(axis=1) == pytest.approx(np.full(10, each), rel=0.06)
        assert per_side.mean(axis=0) == pytest.approx([0.01, 0.01], rel=0.25)


def _some(workload: BoxWorkload, first: int) -> BoxWorkload:
    return workload._replace(keys=workload.keys[:, first : first + 200])


def _sides(workload: BoxWorkload) -> np.ndarray:
    """The share of queries that a join result's attributes of each stream are in: [results, 2]."""
    found = inside(workload)
    return np.stack([found[list(step)].all(axis=0).mean(axis=1) for step in workload.steps], axis=1)


def test_join_results_of_a_tuple_share_what_it_brings() -> None:
    workload = boxes("three", 100, 50, (2, 3, 1), (4, 3), seed=9)
    assert (workload.n_attributes, workload.n_results, workload.n_events) == (6, 12, 50)
    assert workload.steps == ((0, 1), (2, 3, 4), (5,))
    of_tuple = workload.keys.reshape(6, 50, 4, 3)
    assert np.all(of_tuple[:2] == of_tuple[:2, :, :1, :1])
    assert np.all(of_tuple[2:5] == of_tuple[2:5, :, :, :1])
    assert len(np.unique(of_tuple[0])) > 40
    assert len(np.unique(of_tuple[2])) > 190
    assert len(np.unique(of_tuple[5])) > 580
    with pytest.raises(AssertionError, match="is probed"):
        boxes("two", 100, 50, (2, 3), (4, 3))


def test_skewed_values_crowd_where_queries_do() -> None:
    workload = w5(5_000, 5_000, 1, 4, law="skewed")
    lo, hi = bounds(workload)
    middles, values = (lo + hi) / 2, workload.keys
    for attribute in (0, 1, 5, 6):
        assert np.median(values[attribute]) < -0.8 * SHORTS / 2
        assert np.median(middles[:, attribute]) < -0.8 * SHORTS / 2
    for attribute in (2, 3, 4, 7, 8, 9):
        assert abs(np.median(values[attribute])) < 0.05 * SHORTS


def test_even_workloads_match_as_many() -> None:
    for n_queries in (1_000, 20_000):
        workload = w5_even(n_queries, 1_000, 10.0, 2, 5)
        shares = np.mean([inside(_some(workload, first)).mean(axis=(1, 2)) for first in range(0, 2_000, 200)], axis=0)
        # Attributes are independent; counting whole matches would take many more events, as few of them have most.
        assert n_queries * shares.prod() == pytest.approx(10, rel=0.1)


def test_a_seed_is_a_workload() -> None:
    for law in LAWS:
        one, again, other = (w5(50, 20, 3, seed, law=law) for seed in (5, 5, 6))
        for a, b in zip((*one.table, one.keys), (*again.table, again.keys), strict=True):
            assert np.array_equal(a, b)
        assert not np.array_equal(one.keys, other.keys)
        # The queries are the same whatever the tuples are.
        assert np.array_equal(w5(50, 70, 9, 5, law=law).table.constraint_lo, one.table.constraint_lo)


def test_time_of_processors_is_that_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        quick = ["--quick", "--law", "skewed", "--ways", "scan,pairs", "--peers", "polars"]
        rows = micro.main([*quick, "--clock", "processor"])
    finally:
        timing.use("wall")
    assert "a second of a processor" in capsys.readouterr().out
    assert all(row["ratio_to_best_engine"] > 0 for row in rows)
    with pytest.raises(SystemExit):
        micro.main(["--peers", "spark-steps", "--clock", "processor"])
    assert "a process of its own" in capsys.readouterr().err


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--peers", "oracle"], ["--law", "murphy"], ["--ways", "luck"]):
        with pytest.raises(SystemExit):
            micro.main(arguments)
        assert "unknown" in capsys.readouterr().err
