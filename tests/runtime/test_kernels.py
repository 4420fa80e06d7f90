"""Which kernels standing queries need: they are compiled ahead, with progress, and nothing is compiled later."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.generators import START_US
from tests.marks import few_are_quick
from weir.families.query_parts import kernels_of
from weir.index import jit, warm
from weir.index.strategies import STRATEGIES
from weir.index.warm import KINDS
from weir.testing.direct import DirectWeir

SELECTION = "SELECT * FROM r WHERE x > {k} AND area = 'a{k}'"
JOIN = "SELECT r.x, s.y FROM r JOIN s ON r.k = s.k WHERE r.x < {k} AND s.y > 2 BEGIN NOW - INTERVAL 1 HOUR END NOW"
BAND = "SELECT r.x, s.y FROM r, s WHERE s.x - r.x BETWEEN {k} AND {k} + 2 AND s.area = 'a1'"
DOUBLES = "SELECT r.x, s.y FROM r, s WHERE s.d - r.d BETWEEN {k} AND {k} + 2e0"
WIDE = "SELECT * FROM r WHERE x > {k} AND y < 7 AND d BETWEEN 1 AND 40"
WIDE_JOIN = "SELECT r.x, s.y FROM r JOIN s ON r.k = s.k WHERE r.x < {k} AND r.y > 0 AND s.y > 2 AND s.x < 90"
MANY = "SELECT r.x, s.y FROM r, s, t WHERE r.k = s.k AND s.k = t.k AND r.x < {k} AND t.y > 1"
NEEDED = {
    "selections": ([SELECTION], {"grid", "sweep"}),
    "wide": ([WIDE], {"grid", "rtree", "sweep"}),
    "joins": ([JOIN], {"joins", "pairs", "windows"}),
    "partial": ([WIDE_JOIN], {"joins", "pairs", "windows", "partial"}),
    "bands": ([BAND, DOUBLES], {"joins", "pairs", "windows", "bands", "partial"}),
    "many": ([MANY], {"grid", "many", "sweep"}),
    "all": ([SELECTION, JOIN, BAND, MANY], {"grid", "sweep", "joins", "pairs", "windows", "bands", "partial", "many"}),
}
ALONE = sorted(NEEDED.keys() - {"all", "selections", "joins"})  # what they need is part of what all need

compiled_only = pytest.mark.skipif(bool(jit.config.DISABLE_JIT), reason="kernels are plain functions here")


def play(folder: Path, texts: list[str]) -> DirectWeir:
    """A life with every kind of batch: rows of all streams, NULLs, queries that come later and that go."""
    w = weir.open(folder, settings={"tail_queries_max": 5})
    for name in ("r", "s", "t"):
        w.stream(name, "k int, x int, y int, d double, area string, ts timestamp", time="ts", keep="1 hour")
    direct = DirectWeir(w, wall_us=START_US + 3_600_000_000)
    for batch in range(3):
        made = [w.register(text.format(k=k)) for text in texts for k in range(20 * batch, 20 * batch + 20)]
        rows = {
            name: pa.table(
                {
                    "k": pa.array([n % 7 if n % 11 else None for n in range(count)], pa.int32()),
                    "x": pa.array([n * 37 % 100 for n in range(count)], pa.int32()),
                    "y": pa.array([n % 9 for n in range(count)], pa.int32()),
                    "d": pa.array([n * 91 % 100 / 2 for n in range(count)], pa.float64()),
                    "area": pa.array([f"a{n % 5}" for n in range(count)]),
                    "ts": pa.array([START_US + batch * 1_000_000 + n for n in range(count)], pa.timestamp("us", "UTC")),
                }
            )
            for name, count in (("r", 300), ("s", 300), ("t", 20))
        }
        assert direct.batch(rows).matches
        made[0].drop()
    return direct


@pytest.mark.parametrize("of", NEEDED)
def test_queries_need_the_kernels_of_their_kinds(of: str, tmp_path: Path) -> None:
    texts, kinds = NEEDED[of]
    w = weir.open(tmp_path)
    for name in ("r", "s", "t"):
        w.stream(name, "k int, x int, y int, d double, area string, ts timestamp", time="ts", keep="1 hour")
    segments = DirectWeir(w).segments
    assert segments.kernels(None, w.catalog) == ()
    for text in texts:
        w.register(text.format(k=5))
    segments.registry.refresh()
    assert set(segments.kernels(None, w.catalog)) == kinds
    scanning = weir.open(tmp_path, settings={"strategy": "scan"})
    assert ("scan" in DirectWeir(scanning).segments.kernels(len(texts), w.catalog)) == ("grid" in kinds)


@compiled_only
@pytest.mark.parametrize("of", few_are_quick(["all", "selections", "joins", *ALONE], quick=0, tested=3))
def test_nothing_is_compiled_after_its_kinds_are_warm(of: str, tmp_path: Path) -> None:
    """In a process of its own, where nobody has called a kernel before."""
    if os.environ.get("WEIR_WARMED") != of:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / of}"]
        done = subprocess.run(
            [*command, "-k", f"nothing_is_compiled and {of}", __file__],
            env={**os.environ, "WEIR_WARMED": of, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=Path(__file__).parent.parent.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        assert "1 passed" in done.stdout
        return
    texts, kinds = NEEDED[of]
    warm.warm(None, kinds)
    before = {made: len(made.signatures) for made in jit.KERNELS}
    play(tmp_path, texts)
    assert [made.__name__ for made in jit.KERNELS if len(made.signatures) != before[made]] == []


@pytest.mark.slow
@compiled_only
def test_missing_kinds_are_compiled_once_with_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    jit.cache_folder.cache_clear()
    try:
        said: list[str] = []
        assert warm.ready_kinds() == []
        warm.ready(["many", "scan"], said.append)
        assert said[0].endswith(": scan, many")
        assert len(said) == 3
        assert said[-1].startswith("kernels of ")
        assert "2 of 2" in said[-1]
        assert warm.ready_kinds() == ["scan", "many"]
        warm.ready(["many", "scan"], said.append)
        assert len(said) == 3, "what is cached is not compiled again"
        monkeypatch.setitem(KINDS, "nothing", KINDS["many"])  # which the other process does not know
        warm.ready(["nothing"], said.append)
        assert "were not compiled ahead: " in said[-1]
        assert "KeyError" in said[-1]
    finally:
        jit.cache_folder.cache_clear()


def test_without_a_cache_folder_nothing_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "cache_folder", lambda: None)
    warm.ready(KINDS, pytest.fail)
    assert warm.ready_kinds() == []


@compiled_only
def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "cache_folder", lambda: tmp_path)
    (tmp_path / "compiling").mkdir()  # where the lock would be
    said: list[str] = []
    warm.ready(["many"], said.append)
    assert len(said) == 1
    assert said[0].startswith("kernels were not compiled ahead: ")


def test_every_strategy_of_the_settings_is_a_kind() -> None:
    for strategy in ("auto", *STRATEGIES):
        assert kernels_of(strategy, None) <= set(KINDS)
