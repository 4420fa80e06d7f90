"""Answers of queries with finishes equal DuckDB's and, for a sample, Spark's at every batch boundary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import weir
from tests.finish_scenario import FinishPlayed, FinishScenario, play_finishes
from tests.generators import SPAN_US, START_US
from tests.loose import some_loose
from tests.marks import few_are_quick
from tests.tally import tally
from weir.testing.direct import DirectWeir

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession


def run(folder: Path, scenario: FinishScenario, spark: SparkSession | None = None) -> FinishPlayed:
    w = weir.open(folder, settings={"tail_queries_max": 5, "partner_rows_max": 60} | some_loose(scenario.seed))
    direct = DirectWeir(w, wall_us=START_US + SPAN_US)

    def batch(rows: Mapping[str, pa.Table]) -> None:
        direct.batch(rows)
        direct.wall_us += 1_000_000

    return play_finishes(scenario, w, batch, spark=spark, spark_share=0.5)


@pytest.mark.parametrize("seed", few_are_quick(range(7000, 7020), quick=1, tested=3))
def test_finishes_equal_duckdb(tmp_path: Path, seed: int) -> None:
    played = run(tmp_path, FinishScenario(seed))
    print(f"taken {dict(played.taken)}\nrefused {dict(played.refused)}\n{played.reasons.most_common(12)}")
    tally("finishes at every batch, DuckDB", played.comparisons)
    assert played.comparisons > 0
    assert played.changes > 0


@pytest.mark.spark
@pytest.mark.parametrize("seed", few_are_quick(range(7100, 7110), quick=0, tested=0))
def test_finishes_equal_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    played = run(tmp_path, FinishScenario(seed), spark)
    tally("finishes at every batch, Spark", played.with_spark)
    assert played.with_spark > 0
    assert played.undecided <= 1 + played.with_spark * 0.05
