"""Crash points: off in production, refused when misspelt, and deadly when armed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weir.errors import RunError
from weir.runtime import faults

PROGRAM = """
from weir.runtime import faults
for n in range(4):
    faults.reach("plan created")
    faults.reach("mid-vacuum")
    print(n, flush=True)
"""


def run(fault: str, mark: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "WEIR_FAULT": fault}
    if mark is not None:
        environment["WEIR_FAULT_MARK"] = str(mark)
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_nothing_happens_when_nothing_is_armed() -> None:
    for point in faults.POINTS:
        faults.reach(point)


def test_a_kill_is_a_kill() -> None:
    ended = run("plan created@3")
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == ["0", "1"]


def test_other_actions() -> None:
    assert run("mid-vacuum:exit").returncode == faults.EXIT_CODE
    raised = run("mid-vacuum@2:raise")
    assert raised.stdout.split() == ["0"]
    assert "Crash: mid-vacuum" in raised.stderr


def test_a_stopped_process_goes_on_when_told() -> None:
    environment = {**os.environ, "WEIR_FAULT": "plan created@2:stop"}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.send_signal(signal.SIGCONT)
    assert process.communicate()[0].split() == ["0", "1", "2", "3"]


def test_a_mark_lets_it_happen_once_over_all_processes(tmp_path: Path) -> None:
    mark = tmp_path / "fired"
    assert run("plan created", mark).returncode == -signal.SIGKILL
    assert mark.exists()
    assert run("plan created", mark).returncode == 0


def test_a_misspelt_point_is_an_error() -> None:
    with pytest.raises(RunError, match="'plan create', which is no crash point; did you mean 'plan created'"):
        faults.parse("plan create")
    assert run("nowhere").returncode == 1


@pytest.mark.parametrize("point", faults.POINTS)
def test_every_point_can_be_armed(point: str) -> None:
    assert faults.parse(point) == faults.Fault(point, 1, "kill")
    assert faults.parse(f"{point}@12:stop") == faults.Fault(point, 12, "stop")
    assert faults.parse(f"{point}:raise", "mark") == faults.Fault(point, 1, "raise", "mark")


def test_arming_inside_a_process_ends_with_its_block() -> None:
    reached: list[str] = []
    with faults.arm(reached.append):
        faults.reach("mid-vacuum")
        with faults.arm(lambda _: None):
            faults.reach("plan created")
        faults.reach("mid-release")
    faults.reach("mid-vacuum")
    assert reached == ["mid-vacuum", "mid-release"]
