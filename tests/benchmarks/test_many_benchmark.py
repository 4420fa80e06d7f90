"""The benchmark of joins of many streams at smoke size: it runs, DuckDB counts the same, its table is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.micro import many

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_quick_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rows = many.main(["--quick"])
    assert [row["sources"] for row in rows] == [2, 3, 4]
    assert all(row["duckdb"] > 0 and 5 < row["matches"] < 20 for row in rows)
    assert "× two sources" in capsys.readouterr().out
    assert list((tmp_path / "bench-results").glob("many-*.json"))
