"""Disks that are full while drivers work on Spark: each gets stuck at its own point, says so, and harms nothing.

A driver is stopped where its next step needs space, the disk is filled, and it goes on. What it says names the disk and
nothing else. While the disk is full every answer is the oracle's; when there is space again, the next driver takes up
what was left. Whoever pushes, changes a table or registers meanwhile is refused on the full disk, tries again with ever
more space, and counts what was acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import weir.store.check
from tests.crash.jvm import shared_jvm
from tests.crash.world import WAIT_S, World, kill_all, wait_until_stopped
from tests.disks import PAGE, SmallDisk, small_disk
from tests.marks import few_are_quick
from weir.errors import WeirError

pytestmark = pytest.mark.crash
FULL = "No space left on device"
ENDS, TELLS, MAY_DO = "the driver ends", "it is told, and the next batch ends the driver", "what is removed makes room"
ROUNDS = {  # where drivers are stopped → what then becomes of them
    "ingest worker, mid-file": ENDS,  # row files
    "all files written, not done": ENDS,  # the done document
    "match worker, mid-file": ENDS,  # match files
    "offsets logged": ENDS,  # the plan
    "plan created": ENDS,  # row files again, with a plan that stands
    "row file written, task result lost": ENDS,  # what Spark's next task writes
    "between ingest and match": ENDS,  # segments of queries and of partners
    "half a segment file": ENDS,
    "done, Spark's commit missing": ENDS,  # Spark's own file
    "mid-compaction": TELLS,  # runs by query
    "mid-release": MAY_DO,
    "mid-vacuum": MAY_DO,
}
TESTED = 2  # rounds that `make test` has
WRITES = ("push", "upsert", "delete", "register", "drop")


class Cramped:
    """A weir whose every write is tried on a full disk first, then with ever more space, until it is acknowledged."""

    def __init__(self, whole: weir.Weir, disk: SmallDisk) -> None:
        self.whole = whole
        self.disk = disk
        self.refused: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.whole, name)
        return partial(self._tried, name, found) if name in WRITES else found

    def _tried(self, name: str, write: Callable[..., Any], *args: Any, **named: Any) -> Any:
        pages = 0
        while True:
            with self.disk.fill(pages * PAGE):
                try:
                    return write(*args, **named)
                except WeirError as error:
                    assert FULL in str(error), error
                    self.refused[name] += 1
            pages += 1


class Trials:
    """A world on a small disk, and drivers that get stuck on it."""

    def __init__(self, disk: SmallDisk, folder: Path, environment: dict[str, str]) -> None:
        self.disk = disk
        self.folder = folder  # for marks and logs, on another disk
        self.world = World(disk.folder / "weir")
        self.world.environment = environment
        self.cramped = Cramped(self.world.weir, disk)
        self.world.weir = self.cramped  # type: ignore[assignment]  # it forwards everything
        self.rounds = 0

    def stop_at(self, point: str) -> tuple[subprocess.Popen[str], int, Path]:
        """A driver that stands still at a point, the process that is stopped, and the driver's log."""
        self.rounds += 1
        mark, log = (self.folder / f"{what}{self.rounds}" for what in ("mark", "log"))
        driver = self.world.driver(f"{point}:stop", mark, log=log)
        try:
            return driver, wait_until_stopped(driver, mark), log
        except BaseException:
            kill_all(driver)
            print(log.read_text())
            raise

    def finish(self) -> None:
        """With space, one more driver does everything."""
        driver = self.world.driver(log=self.folder / "last log")
        assert ended(driver) == 0, (self.folder / "last log").read_text()
        self.world.check_complete()
        assert not weir.store.check.check(self.world.weir.files).wrong
        assert min(self.cramped.refused[name] for name in WRITES[:4]) > 0, self.cramped.refused


def ended(driver: subprocess.Popen[str]) -> int:
    try:
        return driver.wait(WAIT_S)
    finally:
        kill_all(driver)


def require_told(said: str) -> None:
    """The disk is what is to blame, and nothing else."""
    assert FULL in said, said
    assert "DiskError: " in said or "housekeeping: store: " in said, said
    assert "damaged" not in said, said
    assert "a cache" not in said, said


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Trials]:
    with small_disk(tmp_path / "small") as disk, shared_jvm() as environment:
        yield Trials(disk, tmp_path, environment)


@pytest.mark.parametrize(
    "points", few_are_quick([list(ROUNDS)[:TESTED], list(ROUNDS)[TESTED:]], quick=0, tested=1), ids=("files", "all")
)
def test_the_disk_is_full_at(trials: Trials, points: list[str]) -> None:
    for k, point in enumerate(points):
        outcome = ROUNDS[point]
        trials.world.push(1 if outcome == ENDS else 2)  # what is done beside batches is due at every second one
        driver, stopped, log = trials.stop_at(point)
        if k % 2 == 0:  # clients at work while a batch is
            trials.world.push()
            trials.world.register(f"SELECT n, name FROM trade WHERE price > {90 - k} AND name <> 'fig{k}'")
        with trials.disk.fill(0):
            os.kill(stopped, signal.SIGCONT)
            code = ended(driver)
            said = log.read_text()
            assert code != 0 or outcome != ENDS, f"'{point}' ended well: {said}"
            if outcome != MAY_DO or code != 0:
                require_told(said)
            trials.world.check()
        trials.world.check()
    trials.finish()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_a_disk_is_full_at_some_moment(trials: Trials, seed: int) -> None:
    """It has little space from the start, or from some moment on."""
    dice = random.Random(f"full disk {seed}")
    trials.world.push(3)
    outcomes = []
    for left in (0, dice.randrange(8), dice.randrange(100)):
        log = trials.folder / f"log of {left}"
        with contextlib.ExitStack() as filled:
            if seed % 2:
                filled.enter_context(trials.disk.fill(left * PAGE))
            driver = trials.world.driver(log=log)
            while seed % 2 == 0 and driver.poll() is None and trials.world.last_done() < len(outcomes):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    driver.wait(dice.uniform(0, 0.3))
            if seed % 2 == 0:
                filled.enter_context(trials.disk.fill(left * PAGE))
            code = ended(driver)
            if code:
                require_told(log.read_text())
            outcomes.append(code)
            trials.world.check()
        trials.world.push()
        trials.world.register(f"SELECT n FROM trade WHERE price > {seed} + {left}")
    print(outcomes)
    assert outcomes[0] != 0 or seed % 2 == 0, "without any space nothing is done"
    trials.finish()
