"""Every example runs, and so do the demo and the benchmarks at smoke size."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parent.parent
SAID = {
    "alerts": "the webhook: 4 fired, 1 changed, 4 cleared; 2 came twice and counted once",
    "alerts_from_files": "→ 2 readings",
    "nexmark": "26 of 26 answers are Spark's",
    "read_answers": "all count 56 trades; the changes add up to the answer",
    "trades_and_weather": "an hour later: [1, 1, 0]",
}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example(spark: SparkSession, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert SAID[example.stem] in capsys.readouterr().out


def test_demo_ends_with_its_line(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    from weir.cli import main

    assert main(["demo", "--queries", "2000", "--seconds", "3"]) == 0
    said = capsys.readouterr().out
    last = said.strip().splitlines()[-1]
    found = re.fullmatch(
        r"demo: 2,000 standing queries, ([\d,]+) events, ([\d,]+) matches, [\d,]+ events/s, P50/P99 batch ms \d+/\d+",
        last,
    )
    assert found, last
    assert int(found[1].replace(",", "")) > 0
    assert int(found[2].replace(",", "")) > 0
    alerts = re.search(r"^20 alerts: (\d+) fired, \d+ cleared$", said, re.MULTILINE)
    assert alerts, said
    assert int(alerts[1]) > 0


@pytest.mark.soak
def test_pipeline_benchmark_at_smoke_size(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import run

    monkeypatch.chdir(tmp_path)
    assert run.main(["--quick", "--only", "pipeline"]) == 0
    assert "1,000 |" in capsys.readouterr().out
    assert (tmp_path / "bench-results" / "pipeline.json").exists()


@pytest.mark.soak  # tests/index/test_benchmark.py has one of them in `make test`
def test_kernel_benchmark_at_smoke_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import run

    monkeypatch.chdir(tmp_path)
    assert run.main(["--quick", "--only", "kernels", "--skip-peers"]) == 0
