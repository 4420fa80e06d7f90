"""The benchmark of long lists runs; it checks its own pairs."""

from __future__ import annotations

from benchmarks.micro import sets


def test_the_benchmark_runs_at_smoke_size() -> None:
    found = sets.main(["--quick"])
    assert [row["workload"] for row in found] == ["equality", "one", "many", "both"]
    assert all(row["us_per_event"] > 0 for row in found)
    assert all(row["matches_per_event"] > 0 for row in found[1:])
    assert found[1]["items"] == 1_000
