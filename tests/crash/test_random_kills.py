"""Random kills, half of them on a standalone cluster: drivers, executors, Python workers and clients die at any moment.

How many is said by WEIR_KILLS (100 in `make soak`). After every few, and at the end, every answer is the oracle's over
exactly the rows that were pushed: none is lost, none doubled.

A driver needs many seconds until it has workers, and batches take one or two. So a victim is waited for, and half of
the kills wait until tasks have begun; if all kills came at any moment, hardly a driver would get that far.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash.cluster import EXECUTOR, PYTHON_WORKER, cluster, processes
from tests.crash.world import COUNTS, World, jvm_of, kill_all

pytestmark = [pytest.mark.crash, pytest.mark.soak]
KILLS = int(os.environ.get("WEIR_KILLS", "100"))
WAIT_S = 300
ROOT = Path(__file__).parent.parent.parent
CLIENT = """
import sys, weir
w = weir.open(sys.argv[1])
for k in range(50):
    w.register(f"SELECT n FROM trade WHERE price > {sys.argv[2]} + {k}")
"""


def children_of(pid: int) -> list[int]:
    """All processes below one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, open_ = [], [pid]
    while open_:
        new = parents.get(open_.pop(), [])
        found += new
        open_ += new
    return found


def workers_of(driver: subprocess.Popen[str], work: Path | None) -> list[int]:
    if work is not None:
        return processes(PYTHON_WORKER, work)
    with contextlib.suppress(AssertionError):
        return [p for p in children_of(jvm_of(driver)) if PYTHON_WORKER in command_of(p)]
    return []


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


class Life:
    """A driver and a client, from their start until they end or are killed."""

    def __init__(self, world: World, work: Path | None, log: Path) -> None:
        self.world = world
        self.work = work  # where executors of a cluster work; None: there is no cluster
        self.driver = world.driver(log=log)
        self.client = self._new_client()
        self.deadline = time.monotonic() + WAIT_S

    def _new_client(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", CLIENT, str(self.world.folder), "90"], cwd=ROOT)

    @property
    def is_over(self) -> bool:
        return self.driver.poll() is not None or time.monotonic() > self.deadline

    def candidates(self, victim: str) -> list[int]:
        """The processes of a kind that there are now."""
        if victim == "driver":
            return [self.driver.pid]
        if victim == "client":
            return [self.client.pid] if self.client.poll() is None else []
        if victim == "worker":
            return workers_of(self.driver, self.work)
        if victim == "executor":
            assert self.work is not None
            return processes(EXECUTOR, self.work)
        with contextlib.suppress(AssertionError):
            return [jvm_of(self.driver)]
        return []

    def wait_for(self, victim: str) -> bool:
        """Wait until there is a process of a kind; False if the life is over before."""
        while not self.is_over:
            if self.candidates(victim):
                return True
            time.sleep(0.02)
        return False

    def kill(self, victim: str, dice: random.Random) -> bool:
        """Kill one process of a kind at some moment; False if there was none."""
        if dice.random() < 0.5 and not self.wait_for("worker"):
            return False
        if victim == "client" and self.client.poll() is not None:
            self.client = self._new_client()
        if not self.wait_for(victim):
            return False
        time.sleep(dice.uniform(0, 2))
        found = self.candidates(victim)
        if self.is_over or not found:
            return False
        if victim == "driver":
            kill_all(self.driver)
            return True
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)
            return True
        return False

    def end(self) -> None:
        if self.driver.poll() is None:
            kill_all(self.driver)
        self.client.kill()
        self.client.wait()


def test_random_kills_on_this_machine(tmp_path: Path) -> None:
    lives(tmp_path, None, KILLS - KILLS // 2, random.Random(1))


def test_random_kills_on_a_standalone_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as url:
        lives(tmp_path, url, KILLS // 2, random.Random(2))


def lives(folder: Path, url: str | None, kills: int, dice: random.Random) -> None:
    world = World(folder / "weir")
    if url is not None:
        world.environment = {"WEIR_MASTER": url}
    victims = ["driver", "worker", "client", "executor" if url is not None else "jvm"]
    happened = dict.fromkeys(victims, 0)
    open_: list[str] = []  # who comes next; who was not there is tried again
    while sum(happened.values()) < kills:
        world.push(2)
        life = Life(world, folder / "cluster" if url is not None else None, folder / "driver.log")
        while not life.is_over and sum(happened.values()) < kills:
            open_ = open_ or dice.sample(victims, len(victims))
            if life.kill(open_[-1], dice):
                happened[open_.pop()] += 1
        life.end()
        world.check()
    last = world.driver()
    said, _ = last.communicate(timeout=WAIT_S)
    assert last.returncode == 0, said
    world.check_complete()
    print(f"{sum(happened.values())} kills: {happened}; {world.batches} batches of {sum(COUNTS.values())} rows")
    assert max(happened.values()) - min(happened.values()) <= 1, (
        "each kind of process was killed as often as the others"
    )
