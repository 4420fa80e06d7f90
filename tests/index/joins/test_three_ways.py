"""The battery of select-join strategies once more, in processes of their own: uncompiled, and with bounds checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WAYS = {"NUMBA_DISABLE_JIT": "0.1", "NUMBA_BOUNDSCHECK": "0.3"}


@pytest.mark.slow
@pytest.mark.parametrize("way", list(WAYS))
def test_the_battery_holds(way: str) -> None:
    if "WEIR_INDEX_SCALE" in os.environ:
        pytest.skip("this is one of those processes")
    environment = {**os.environ, way: "1", "WEIR_INDEX_SCALE": WAYS[way], "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "test_strategies.py")]
    root = HERE.parent.parent.parent
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert " passed" in run.stdout
