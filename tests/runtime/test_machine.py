"""`weir doctor`: one screen, and each thing that can be wrong is said with what to do."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from weir.cli import main
from weir.index import jit
from weir.runtime import machine


def found(thing: str, folder: str = ".") -> machine.Finding:
    return next(f for f in machine.examine(folder) if f.thing == thing)


def test_the_doctor_says_all_in_one_screen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", str(tmp_path / "not" / "yet")]) == 0
    said = capsys.readouterr().out
    assert said.count("\n") < 24
    assert sys.executable in said
    assert str(tmp_path) in said
    assert "wrong" not in said


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        ("user", "has no name"),
        ("python", "use Python 3.11 to 3.14"),
        ("spark", "unset it"),
        ("disk", "at least 1 GiB"),
        ("scratch", "or set TMPDIR"),
    ],
)
def test_what_is_wrong_is_said(
    thing: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if thing == "user":
        monkeypatch.setattr(machine.pwd, "getpwuid", {}.__getitem__)
    elif thing == "python":
        monkeypatch.setattr(machine, "PYTHONS", ((3, 98), (3, 99)))
        says = "use Python 3.98 to 3.99"
    elif thing == "spark":
        monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    else:
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda place: usage._replace(free=1_000))
    assert says in found(thing).wrong
    assert main(["doctor"]) == 1
    assert f"wrong {thing}" in capsys.readouterr().out


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "cannot be written" in found("disk", str(tmp_path)).wrong


def test_kernels_that_cannot_be_kept_cost_time_but_are_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_folder", lambda: None)
    finding = found("kernels")
    assert "XDG_CACHE_HOME" in finding.costs
    assert not finding.wrong
