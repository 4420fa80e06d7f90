"""Where compiled kernels are kept, and that warming compiles all of them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest

from benchmarks.workloads import w1, w2
from weir.index import jit
from weir.index.box_tables import BoxTable
from weir.index.jit import KERNELS, kernel
from weir.index.meeting.lean import thin
from weir.index.strategies import STRATEGIES
from weir.index.warm import warm

compiled_only = pytest.mark.skipif(bool(jit.config.DISABLE_JIT), reason="kernels are plain functions here")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    jit.cache_folder.cache_clear()
    yield tmp_path
    jit.cache_folder.cache_clear()


def test_the_folder_is_private_and_named_after_the_sources(fresh: Path) -> None:
    folder = jit.cache_folder()
    assert folder is not None
    assert folder.name.startswith(jit.source_hash(jit.COMPILED_FROM))
    for part in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700


def test_another_checkout_of_the_same_sources_has_a_folder_of_its_own(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba's cache files are by path as well: what one checkout compiled is not there for another."""
    first = jit.cache_folder()
    monkeypatch.setattr(jit, "__file__", str(fresh / "elsewhere" / "index" / "jit.py"))
    monkeypatch.setattr(jit, "source_hash", lambda _: "same")
    jit.cache_folder.cache_clear()
    second = jit.cache_folder()
    assert first is not None
    assert second is not None
    assert first.name.split("-")[1] != second.name.split("-")[1]


def test_an_open_folder_is_closed_and_a_link_is_not_trusted(fresh: Path) -> None:
    (fresh / "weir").mkdir(mode=0o777)
    (fresh / "weir").chmod(0o777)
    folder = jit.cache_folder()
    assert folder is not None
    assert stat.S_IMODE((fresh / "weir").stat().st_mode) == 0o700
    jit.cache_folder.cache_clear()
    folder.rmdir()
    (fresh / "elsewhere").mkdir()
    folder.symlink_to(fresh / "elsewhere")
    other = jit.cache_folder()
    assert other is not None
    assert other.is_relative_to(fresh / "temporary")


def test_without_any_folder_kernels_are_still_made(fresh: Path) -> None:
    for place in ("weir", "temporary"):
        (fresh / place).write_text("a file, not a folder")
    assert jit.cache_folder() is None
    assert int(kernel(lambda x: x + 1)(1)) == 2
    KERNELS.pop() if not jit.config.DISABLE_JIT else None


def test_the_hashes_follow_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*jit.LAID_OUT_BY, "operators", "store"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("1")
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "index" / "jit.py"))

    def hashes() -> tuple[str, str]:
        jit.source_hash.cache_clear()
        return jit.source_hash(jit.COMPILED_FROM), jit.source_hash()

    try:
        before = hashes()
        (tmp_path / "store" / "a.py").write_text("2")
        assert hashes() == before
        for name in ("values", "boxes", "families"):
            (tmp_path / name / "a.py").write_text("2")
            assert hashes()[0] == before[0], "compiled code does not depend on it"
            assert hashes()[1] != before[1]
            before = hashes()
        (tmp_path / "operators" / "a.py").write_text("2")
        assert hashes()[0] != before[0]
        assert hashes()[1] == before[1], "no segment is laid out by it"
        before = hashes()
        (tmp_path / "index" / "a.py").write_text("2")
        assert hashes()[0] != before[0]
        assert hashes()[1] != before[1]
    finally:
        jit.source_hash.cache_clear()


def test_unused_folders_are_removed_after_a_month(fresh: Path) -> None:
    folder = jit.cache_folder()
    assert folder is not None
    old, recent = folder.parent / "old", folder.parent / "recent"
    for made in (old, recent):
        made.mkdir()
    os.utime(old, (0, 0))
    jit.cache_folder.cache_clear()
    jit.cache_folder()
    assert recent.exists()
    assert not old.exists()


def test_other_users_of_numba_keep_their_settings(fresh: Path) -> None:
    before = jit.config.CACHE_DIR
    made = kernel(lambda x: x)
    assert before == jit.config.CACHE_DIR
    if not jit.config.DISABLE_JIT:
        KERNELS.remove(made)


@compiled_only
def test_kernels_release_the_gil_and_keep_to_the_letter_of_comparisons() -> None:
    assert len(KERNELS) > 20
    for made in KERNELS:
        assert made.__module__.startswith(("weir.index.", "weir.operators.", __name__)), (
            f"{made.__module__}: not part of the cache's hash"
        )
        assert made.targetoptions["nogil"], made.__name__
        assert not made.targetoptions.get("fastmath"), made.__name__
        assert not made.targetoptions.get("parallel"), made.__name__


@compiled_only
def test_nothing_is_compiled_after_warming() -> None:
    assert warm(None, STRATEGIES) > 0
    before = {made: len(made.signatures) for made in KERNELS}
    for workload, strategies in ((w1(3_000, 300), ("grid", "sweep", "by-batch")), (w2(3_000, 300), tuple(STRATEGIES))):
        table = BoxTable(*(np.array(a) for a in workload.table))  # writeable arrays, unlike a memory-mapped table's
        for strategy in (STRATEGIES[name] for name in strategies):
            index = strategy.from_arrays(strategy.build(table, 3_000, workload.n_attributes).arrays())
            index.search(workload.keys, np.zeros(3_000, np.uint8), 10**9)
            index.search(workload.keys, np.ones(3_000, np.uint8), 10**9)
    assert {made.__name__: len(made.signatures) for made in KERNELS if len(made.signatures) != before[made]} == {}


@pytest.mark.slow
def test_bounds_checks_reach_the_kernels_and_have_their_own_folder(tmp_path: Path) -> None:
    """A warm cache must not hide NUMBA_BOUNDSCHECK: the same kernel is compiled without checks first."""
    (tmp_path / "beyond.py").write_text(
        "import numpy as np\n"
        "from weir.index.jit import cache_folder, kernel\n\n\n"
        "@kernel\n"
        "def read(a, i):\n"
        "    return a[i]\n\n\n"
        "print(cache_folder().name)\n"
        "read(np.zeros(4), 4)\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    environment.pop("NUMBA_BOUNDSCHECK", None)
    runs = [
        subprocess.run([sys.executable, "beyond.py"], cwd=tmp_path, env=e, capture_output=True, text=True, check=False)
        for e in (environment, {**environment, "NUMBA_BOUNDSCHECK": "1"})
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    assert "IndexError" in runs[1].stderr
    assert runs[1].stdout.strip() == runs[0].stdout.strip() + "-boundscheck"


@compiled_only
def test_a_thin_kernel_is_for_kernels() -> None:
    """It has no entry for Python, and a call from there without this error would end the process."""

    def one_more(number: int) -> int:
        return number + 1

    made = thin(one_more)
    KERNELS.remove(made)
    with pytest.raises(TypeError, match="one_more is called by kernels only"):
        made(1)
    assert numba.njit(lambda number: made(number) + made(number))(3) == 8
