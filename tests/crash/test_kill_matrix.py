"""The kill matrix: real drivers on real Spark die at every named point; nothing is lost, nothing doubled.

Each driver first replays what the one before left behind, then dies at its own point, so one pass over the points
costs one start each: of Python, and in `make soak` of a JVM too. Between a crash and its replay queries are registered
and dropped and rows are pushed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.crash.jvm import shared_jvm
from tests.crash.world import WAIT_S, Reader, World, jvm_of, kill_all, wait_until_stopped
from weir.runtime.faults import POINTS
from weir.store.data_files import batch_of_path

pytestmark = pytest.mark.crash
# A worker that dies is started again by Spark and the batch goes on; everything else takes the driver along.
IN_WORKERS = {
    "ingest worker, mid-file", "row file written, task result lost", "match worker, mid-file", "kept state, mid-file",
    "mid-merge of kept state", "kept state written, task result lost",
}  # fmt: skip
LATER = {"mid-publication"}  # nothing is published yet


def ends(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        said, _ = process.communicate(timeout=WAIT_S)
        return process.returncode, said
    finally:
        kill_all(process)


@pytest.mark.parametrize("own_jvm", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_every_point(tmp_path: Path, own_jvm: bool) -> None:
    world = World(tmp_path / "weir")
    world.push(2)
    reader = Reader(world)
    reader.start()
    with contextlib.ExitStack() as closing:
        closing.callback(reader.finish)
        if not own_jvm:
            world.environment = closing.enter_context(shared_jvm())
        for k, point in enumerate(p for p in POINTS if p not in LATER):
            mark = tmp_path / f"mark{k}"
            code, said = ends(world.driver(point, mark))
            assert mark.exists(), f"'{point}' was never reached: {said}"
            if point in IN_WORKERS:
                assert code == 0, f"Spark did not get over '{point}': {said}"
            world.check()
            # Before the replay: other queries, other rows. The replay must see the plan's.
            id = world.register(
                f"SELECT t.n FROM trade t JOIN weather w ON t.area = w.area WHERE t.price > {90 - k} AND category = {k}"
                if k % 2
                else f"SELECT n FROM trade WHERE price > {90 - k}",
                kept=k % 4 < 2,
            )
            if k % 3 == 2:
                world.drop(id - 1)
            world.push(2 if k % 2 else 3)
        code, said = ends(world.driver())
        assert code == 0, said
    world.check_complete()


def test_only_the_jvm_dies_then_everything_at_once(tmp_path: Path) -> None:
    world = World(tmp_path / "weir")
    world.push(2)
    driver = world.driver("between ingest and match:stop")
    wait_until_stopped(driver)
    os.kill(jvm_of(driver), signal.SIGKILL)
    os.kill(driver.pid, signal.SIGCONT)
    code, said = ends(driver)
    assert code != 0, said
    world.check()
    driver = world.driver("all files written, not done:stop")
    wait_until_stopped(driver)
    jvm = jvm_of(driver)
    kill_all(driver)
    os.kill(jvm, signal.SIGKILL) if Path(f"/proc/{jvm}").exists() else None
    world.check()
    # What a power cut may do to files that were never synced: they are cut, and nobody names them.
    batch = world.last_done() + 1
    cut = 0
    for path in [*world.folder.glob("rows/**/*"), *world.folder.glob("matches/**/*"), *world.folder.glob("cache/**/*")]:
        if path.is_file() and batch_of_path(path.name) in (batch, None):
            data = path.read_bytes()
            path.write_bytes(data[: len(data) // 2])
            cut += 1
    assert cut > 0
    world.push()
    code, said = ends(world.driver())
    assert code == 0, said
    world.check_complete()


def test_a_zombie_is_fenced(tmp_path: Path) -> None:
    world = World(tmp_path / "weir")
    world.push()
    zombie = world.driver("all files written, not done:stop")
    wait_until_stopped(zombie)
    world.push(2)
    code, said = ends(world.driver())
    assert code == 0, said
    before = world.last_done()
    os.kill(zombie.pid, signal.SIGCONT)
    code, said = ends(zombie)
    assert code == 3, said
    assert "was committed by another driver" in said, f"the zombie said: {said[-6000:]}"
    assert world.last_done() == before == 2, "one commit a batch"
    world.check_complete()
