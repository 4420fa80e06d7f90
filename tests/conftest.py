"""One Spark session for the whole run, and who runs what side by side; everything else is made by the tests."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tally import KEY, taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling
    from xdist.workermanage import WorkerController

HERE = Path(__file__).parent
ROOT = HERE.parent
SPARK = "the tests that share the Spark session"
OPERATORS = "the tests of operators, of which each worker would compile the one kernel that all of them run"
# What takes longest begins first, or it would be left alone at the end. Tests that kill processes or set up machines
# mostly wait.
LONGEST = (
    "crash/test_kill_matrix.py",
    SPARK,
    "test_pythons.py",
    OPERATORS,
    "answer/test_finish_sweep.py",
    "answer/test_wide_oracle.py",
    "runtime/test_quarantine.py",
    "answer/test_table_oracle.py",
    "answer/test_mixed_oracle.py",
    "runtime/test_kernels.py",
    "families/test_join_segments.py",
    "answer/test_oracle.py",
    "runtime/test_java.py",
    "runtime/test_coordinator.py",
    "index/test_three_ways.py",
    "answer/test_join_fetch.py",
    "testing/test_many_joins.py",
    "index/test_samples.py",
    "index/test_steps.py",
    "testing/test_wide.py",
    "answer/test_join_oracle.py",
)

# The JVMs of tests live for seconds: compile quickly rather than well, and leave the cores to Python.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Each file of a weir is synced before anything names it: a test writes thousands, and would wait for the disk most of
# its time. So temporary folders are in memory where it has room, and where programs may run from (some tests make one).
MEMORY, ROOM = Path("/dev/shm"), 4 << 30


def _has_room(folder: Path) -> bool:
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    about = os.statvfs(folder)
    return not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize >= ROOM


if _has_room(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from weir.runtime.session import local_session

    session = local_session(cores=2, app="weir tests")
    yield session
    session.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a test says of its comparisons goes into its report, which workers hand to the controller."""
    taken()
    yield
    if found := taken():
        item.user_properties.append((KEY, found))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many answers were compared with oracles, in tests that passed."""
    found: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for key, said in report.user_properties:
            if key == KEY:
                found.update(said)
    if found:
        terminalreporter.section(f"{found.total():,} comparisons with oracles")
        for what, count in found.most_common():
            terminalreporter.write_line(f"{count:9,}  {what}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """A file stays together, as `--dist loadfile` has it, but for its tests on Spark: all of these have one session."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: WorkerController) -> None:
            longest = next((scope for scope in LONGEST if scope in self.workqueue), None)
            if longest is not None:
                self.workqueue.move_to_end(longest, last=False)
            super()._assign_work_unit(node)

    return Scheduling(config, log)


def scope_of(test: str) -> str:
    """What one worker runs together with a test: the tests of its file, or all that share a session or a kernel."""
    file, _, name = test.partition("::")
    if name.partition("[")[0] in asking_for_spark(ROOT / file):
        return SPARK
    path = (ROOT / file).relative_to(HERE).as_posix()
    return OPERATORS if path.startswith("operators/") else path


@cache
def asking_for_spark(file: Path) -> frozenset[str]:
    """The functions of a file that take the session, or a fixture of the file that takes it."""
    functions = [part for part in ast.parse(file.read_text()).body if isinstance(part, ast.FunctionDef)]
    taking = {function.name: {argument.arg for argument in function.args.args} for function in functions}
    found = {"spark"}
    while more := {name for name, taken in taking.items() if taken & found} - found:
        found |= more
    return frozenset(found)
