"""Named crash points: where a test kills, stops or breaks a process; in production they do nothing.

`reach("plan created")` costs one comparison with None unless something is armed: from outside

    WEIR_FAULT="plan created"                     kill this process (SIGKILL) when it gets there
    WEIR_FAULT="match worker, mid-file@3:raise"   the third time this process gets there: raise Crash
    WEIR_FAULT_MARK=/path                         fire once over all processes: who makes it, fires and writes its id

with the actions kill, exit (code 17, no clean-up), raise and stop (SIGSTOP; SIGCONT goes on); or inside a
test with `arm(function)`, which is called with the name of every point. The store announces its points
through the same hook (`weir.store.files.reach`), since imports point one way.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from weir.errors import RunError, did_you_mean
from weir.store.files import on_reach, reach

POINTS: Mapping[str, str] = {
    "offsets logged": "Spark has logged the offsets of a batch and calls us; there is no plan",
    "plan created": "the plan is durable, no work was done",
    "ingest worker, mid-file": "an ingest task dies before its row file is whole",
    "row file written, task result lost": "an ingest task dies after its file, before its report arrives",
    "between ingest and match": "row files are durable, row ids are given out, nothing is matched",
    "match worker, mid-file": "a match task dies before its match file is whole",
    "kept state, mid-file": "an upkeep task dies before its file is whole",
    "mid-merge of kept state": "an upkeep task dies while it merges what it knows",
    "kept state written, task result lost": "an upkeep task dies after its file, before its report arrives",
    "all files written, not done": "every file of the batch is durable, the done document is not created",
    "done, Spark's commit missing": "the batch is done; Spark will replay it",
    "half a segment file": "a process dies while it writes a segment",
    "mid-compaction": "runs by query are half-way written",
    "mid-publication": "a published table is half-way written",
    "mid-release": "consumed tickets are written down as released, none is deleted",
    "mid-vacuum": "some of the removable files are gone",
}
ACTIONS = ("kill", "exit", "raise", "stop")
EXIT_CODE = 17


class Crash(BaseException):
    """What the action `raise` raises: no handler of errors may catch it, as none can catch a kill."""


@dataclass(slots=True)
class Fault:
    """One armed point."""

    point: str
    nth: int
    action: str
    mark: str | None = None
    seen: int = field(default=0)

    def __call__(self, point: str) -> None:
        if point != self.point:
            return
        self.seen += 1
        if self.seen == self.nth and self._is_first():
            _ACT[self.action](point)

    def _is_first(self) -> bool:
        if self.mark is None:
            return True
        with contextlib.suppress(FileExistsError), open(self.mark, "x") as mark:
            mark.write(str(os.getpid()))
            return True
        return False


def parse(text: str, mark: str | None = None) -> Fault:
    """`name[@nth][:action]` as a fault; a name that is no point is an error, or a test would test nothing."""
    rest, colon, action = text.rpartition(":")
    if not colon or action not in ACTIONS:
        rest, action = text, "kill"
    point, at, nth = rest.rpartition("@")
    if not at or not nth.isdigit():
        point, nth = rest, "1"
    if point not in POINTS:
        hint = did_you_mean(point, POINTS) or "points: " + "; ".join(POINTS)
        raise RunError(f"WEIR_FAULT names '{point}', which is no crash point", hint=hint)
    return Fault(point, int(nth), action, mark)


@contextlib.contextmanager
def arm(hook: Callable[[str], None]) -> Iterator[None]:
    """Call `hook` with the name of every point that is reached, inside this process and this block."""
    before = on_reach(hook)
    try:
        yield
    finally:
        on_reach(before)


def _kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exit(_: str) -> None:
    os._exit(EXIT_CODE)


def _raise(point: str) -> None:
    raise Crash(point)


def _stop(_: str) -> None:
    # To this thread: a signal to the process may be taken by another one, and this one would run on until it is.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


_ACT: Mapping[str, Callable[[str], None]] = {"kill": _kill, "exit": _exit, "raise": _raise, "stop": _stop}

if os.environ.get("WEIR_FAULT"):
    on_reach(parse(os.environ["WEIR_FAULT"], os.environ.get("WEIR_FAULT_MARK")))

__all__ = ["ACTIONS", "EXIT_CODE", "POINTS", "Crash", "Fault", "arm", "parse", "reach"]
