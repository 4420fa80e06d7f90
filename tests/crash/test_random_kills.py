"""Random kills, half of them on a standalone cluster: drivers, executors, Python workers and clients die at any moment.

How many is said by WEIR_KILLS (100 in `make soak`). After every few, and at the end, every answer is the oracle's over
exactly the rows that were pushed: none is lost, none doubled.
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


def kill(pids: list[int], dice: random.Random) -> bool:
    """Kill one of them, if there is one."""
    if not pids:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(dice.choice(pids), signal.SIGKILL)
        return True
    return False


def test_random_kills_on_this_machine(tmp_path: Path) -> None:
    lives(tmp_path, None, KILLS - KILLS // 2, random.Random(1))


def test_random_kills_on_a_standalone_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as url:
        lives(tmp_path, url, KILLS // 2, random.Random(2))


def lives(folder: Path, url: str | None, kills: int, dice: random.Random) -> None:
    world = World(folder / "weir")
    work = folder / "cluster" if url is not None else None
    if url is not None:
        world.environment = {"WEIR_MASTER": url}
    happened: dict[str, int] = {}
    while sum(happened.values()) < kills:
        world.push(2)
        driver = world.driver()
        client = subprocess.Popen([sys.executable, "-c", CLIENT, str(world.folder), "90"], cwd=ROOT)
        victims = ["driver", "worker", "client", "executor" if url is not None else "jvm"]
        deadline = time.monotonic() + WAIT_S
        while driver.poll() is None and time.monotonic() < deadline:
            time.sleep(dice.uniform(0.2, 4))
            if driver.poll() is not None:
                break
            victim = dice.choice(victims)
            if victim == "driver":
                kill_all(driver)
                done = True
            elif victim == "worker":
                done = kill(workers_of(driver, work), dice)
            elif victim == "client":
                done = kill([client.pid] if client.poll() is None else [], dice)
            elif victim == "executor":
                done = kill(processes(EXECUTOR, folder / "cluster"), dice)
            else:
                with contextlib.suppress(AssertionError):
                    done = kill([jvm_of(driver)], dice)
            happened[victim] = happened.get(victim, 0) + done
        if driver.poll() is None:
            kill_all(driver)
        client.kill()
        client.wait()
        if driver.stdout is not None:
            driver.stdout.close()
        world.check()
    world.environment = {} if url is None else {"WEIR_MASTER": url}
    last = world.driver()
    said, _ = last.communicate(timeout=WAIT_S)
    assert last.returncode == 0, said
    world.check_complete()
    print(f"{sum(happened.values())} kills: {happened}; {world.batches} batches of {sum(COUNTS.values())} rows")
