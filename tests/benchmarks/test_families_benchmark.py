"""The benchmark of families runs; its rows meet nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import families

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_no_two_rows_have_a_key_in_common() -> None:
    tables = [families.rows(batch, stream) for batch in range(3) for stream in range(2)]
    keys = [key for table in tables for name in table.column_names if name[0] == "k" for key in table[name].to_pylist()]
    assert len(set(keys)) == len(keys) == 6 * families.ROWS * families.COLUMNS


@pytest.mark.soak
def test_the_benchmark_runs_at_smoke_size(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [f["families"] for f in families.main(["--quick"])] == [1, 3]
