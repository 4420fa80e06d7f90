"""The benchmark of band joins at smoke size: it runs, checks its answers, and its table has what it promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.micro import bands
from benchmarks.workloads import w4, w4_even

pytestmark = pytest.mark.slow


def test_the_workload_is_as_defined() -> None:
    workload = w4(20_000, 300)
    standing = bands.Standing(workload)
    assert 0.17 < standing.ids(300) / 300 / 20_000 < 0.21
    widths = workload.hi - workload.lo + 1
    assert abs(widths.mean() - 3) < 0.3
    assert np.all(workload.rows[1:] >= workload.rows[:-1])
    for n in (1_000, 50_000):
        even = w4_even(n, 400, 50.0)
        assert 35 < bands.Standing(even).ids(400) / 400 < 65


@pytest.mark.soak
def test_a_quick_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    [row] = bands.main(["--quick"])
    assert set(row["peers"]) == {"scan", "polars", "duckdb", "duckdb-binned"}
    assert set(row["strategies"]) == set(bands.STRATEGIES)
    assert "that affect as many an event" in capsys.readouterr().out
    assert list((tmp_path / "bench-results").glob("bands-*.json"))
