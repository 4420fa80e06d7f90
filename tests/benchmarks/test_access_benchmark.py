"""The benchmark of access attributes runs, and its workloads are what they say."""

from __future__ import annotations

import numpy as np

from benchmarks.micro import access
from weir.index.keys import NULL_KEY


def test_the_benchmark_runs_at_smoke_size() -> None:
    found = access.main(["--quick"])
    assert [row["kind"] for row in found] == list(access.KINDS)
    assert all(row["rate_rows"] > 0 and row["rate_constants"] > 0 for row in found)


def test_workloads_are_what_they_say() -> None:
    _, events, sample = access.draw("skewed", 1_000, 5_000, 1)
    assert np.ptp(events[0]) < access.DOMAIN / 40 < np.ptp(events[2])
    assert sample.keys.shape == (access.ATTRIBUTES, access.SAMPLE_ROWS)
    _, events, _ = access.draw("correlated", 1_000, 5_000, 1)
    assert np.corrcoef(events[0], events[1])[0, 1] > 0.99
    assert abs(np.corrcoef(events[0], events[2])[0, 1]) < 0.1
    _, events, _ = access.draw("empty", 1_000, 5_000, 1)
    assert 0.97 < (events[-1] == NULL_KEY).mean() < 0.99
