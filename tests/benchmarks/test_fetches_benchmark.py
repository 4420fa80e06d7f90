"""The benchmark of fetches runs, and what is fetched together is what is fetched one by one."""

from __future__ import annotations

import pytest

from benchmarks.micro import fetches


@pytest.mark.slow
def test_the_benchmark_runs_at_smoke_size() -> None:
    found = fetches.main(["--quick"])
    assert found["rows"] > 0
    assert found["together_rows"] > 10_000
    assert all(found[figure] > 0 for figure in ("open_ms", "cold_ms", "warm_ms", "another_ms", "nothing_ms", "ratio"))
