"""The benchmark of window joins at smoke size: it runs, checks its answers, and its table has what it promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.exhibits.ssi.windows import HORIZON, with_windows
from benchmarks.exhibits.ssi.workload import table_one
from benchmarks.micro import windows

pytestmark = pytest.mark.slow


@pytest.mark.soak
def test_a_quick_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rows = windows.main(["--quick"])
    assert {row["varied"] for row in rows} == {"w_max", "queries", "joining", "groups", "hot"}
    for row in rows:
        assert set(row["us"]) == set(windows.SERIES)
        assert set(row["ratio"]) == {"kept", "first"}
        assert row["listed"] <= row["joining_in_window"] <= row["joining"] * 3
    assert "ssi over join-first, the worst" in capsys.readouterr().out
    assert list((tmp_path / "bench-results").glob("windows-*.json"))


def test_the_workload_is_as_defined() -> None:
    joins = table_one(500, 200, groups=10, join_rate=100, rows=5_000)
    whole, short = with_windows(joins, 1.0), with_windows(joins, 0.1)
    assert short.joining == pytest.approx(0.1 * whole.joining, rel=0.15)
    assert np.all(whole.events.events.times >= HORIZON)
    assert np.all(whole.events.partners.times < HORIZON)
    assert short.ages.most.max() <= 0.1 * HORIZON
    assert np.array_equal(short.ages.least, -short.ages.most)
