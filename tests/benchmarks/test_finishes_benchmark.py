"""The benchmark of finishes runs, and what it compares has the same answers."""

from __future__ import annotations

import pytest

from benchmarks.micro import finishes


@pytest.mark.slow
def test_the_benchmark_runs_at_smoke_size() -> None:
    found = finishes.main(["--quick"])
    assert [line["kind"] for line in found["fetches"]] == list(finishes.QUERIES)
    assert all(line["rows"] > 0 and line["weir_ms"] > 0 for line in found["fetches"])
    assert found["standing"]["ratio"] > 0
    assert found["tables"]["table_ms"] > 0
