"""The batteries of all indexes once more, in processes of their own: uncompiled, and compiled with bounds checks.

A battery is test files that compare an index with its plain twin. Compiled they run like any other test; here they
run smaller (WEIR_INDEX_SCALE): a kernel that only works because Numba wraps, or that reads beyond an array, is seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
UNCOMPILED, CHECKED = "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"
# Differences of doubles become infinite or NaN, which compiled kernels do silently and NumPy warns of. Its words are
# the same for integers that wrap, so these go unseen in bands, and only there.
INFINITE = ("-W", "ignore:overflow encountered:RuntimeWarning", "-W", "ignore:invalid value:RuntimeWarning")
BATTERIES = {
    "selections": ["test_strategies", "test_grid", "test_ranks", "test_samples", "test_strings"],
    "steps": ["test_steps"],
    "intervals": ["test_stabbing", "test_hotspots", "test_histograms"],
    "joins": ["joins/test_strategies"],
    "pairs": ["joins/test_pairs", "joins/test_partial"],
    "bands": ["bands/test_bands", "bands/test_spread", "bands/test_costs"],
    "windows": ["windows/test_skylines", "windows/test_windows"],
}


def cases() -> list[object]:
    """`make test` has small uncompiled runs of the quickest; soak has all, also with checks, which are compiled."""
    tested = [(battery, UNCOMPILED, 0.02) for battery in ("selections", "intervals", "pairs")]
    every = [(battery, way, scale) for battery in BATTERIES for way, scale in ((UNCOMPILED, 0.05), (CHECKED, 0.2))]
    soaked = [case for case in every if case not in tested]
    marked = [(tested, pytest.mark.slow), (soaked, pytest.mark.soak)]
    return [pytest.param(*case, marks=mark) for of_mark, mark in marked for case in of_mark]


@pytest.mark.parametrize(("battery", "way", "share"), cases())
def test_the_battery_holds(battery: str, way: str, share: float) -> None:
    ignored = INFINITE if battery == "bands" else ()
    files = [str(HERE / f"{name}.py") for name in BATTERIES[battery]]
    scale = {"WEIR_INDEX_SCALE": str(share), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *ignored, *files]
    environment = {**os.environ, **scale, way: "1"}
    root = HERE.parent.parent
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert " passed" in run.stdout


def test_every_battery_that_can_be_small_is_run() -> None:
    small = {path for path in HERE.rglob("test_*.py") if "WEIR_INDEX_SCALE" in path.read_text()}
    run = {HERE / f"{name}.py" for names in BATTERIES.values() for name in names}
    assert small - run == {Path(__file__)}
