"""The tests of operators once more, in processes of their own: uncompiled, and compiled with bounds checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("way", "scale"),
    [
        pytest.param("NUMBA_DISABLE_JIT", "0.1", marks=pytest.mark.slow),
        pytest.param("NUMBA_BOUNDSCHECK", "1", marks=pytest.mark.soak),  # compiles everything anew
    ],
)
def test_operators_hold(way: str, scale: str) -> None:
    files = [str(HERE / f"{name}.py") for name in ("test_buffers", "test_moments", "test_against_oracle")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "not soak", "-p", "no:cacheprovider", *files]
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "WEIR_OPERATORS_SCALE": scale, "PYTHONPATH": path, way: "1"}
    run = subprocess.run(command, cwd=HERE.parent.parent, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert " passed" in run.stdout
