"""Answers equal the oracle's at every batch boundary, with everything on Spark: push, two jobs, ledger, fetch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import weir
from tests.scenario import Scenario, play
from tests.tally import tally
from weir.index.strategies import STRATEGIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SEEDS = range(1000, 1020) if os.environ.get("WEIR_SOAK") else range(1000, 1001)


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_equal_the_oracle_on_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    strategy = tuple(STRATEGIES)[seed % len(STRATEGIES)]
    w = weir.open(tmp_path, spark=spark, settings={"strategy": strategy, "tail_queries_max": 5, "slices": 1 + seed % 3})

    def batch(rows: dict[str, pa.Table]) -> None:
        for name, table in rows.items():
            w.push(name, table)
        w.run(available_now=True)

    played = play(Scenario(seed, batches=4, rows=200, queries=60), w, batch, delete_caches=seed % 2 == 0)
    assert played.rows > 0
    assert played.comparisons >= 120
    tally("on Spark, DuckDB", played.comparisons)


@pytest.mark.parametrize("seed", (3000, 3001, 3002, 3003) if os.environ.get("WEIR_SOAK") else (3000,))
def test_joins_equal_the_oracle_on_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """The last seed mixes them with selections and with joins of many sources."""
    w = weir.open(tmp_path, spark=spark, settings={"tail_queries_max": 5, "slices": 2, "compact_every_batches": 2})

    def batch(rows: dict[str, pa.Table]) -> None:
        for name, table in rows.items():
            w.push(name, table)
        w.run(available_now=True)

    scenario = Scenario(seed, batches=4, rows=80, queries=40, joins=seed != 3003, mixed=seed == 3003)
    played = play(scenario, w, batch, delete_caches=seed % 2 == 0)
    assert played.rows > 0
    assert played.comparisons >= 80
    tally("on Spark, DuckDB", played.comparisons)
