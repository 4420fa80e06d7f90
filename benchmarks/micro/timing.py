"""How long something takes: medians of three, and batches cut to what a slow peer can answer in its time.

Time is the clock's, or that of this process' processors, all its threads together: on a machine that does other work
too, waiting for a processor does not count then, neither for Weir nor for an engine that works in this process.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable

from benchmarks.peers.peer import Answer

FIRST_TRY = 500  # events of a peer's first, untimed run
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}
_used = [CLOCKS["wall"]]


def use(clock: str) -> None:
    """Measure by this one of CLOCKS from here on."""
    _used[:] = [CLOCKS[clock]]


def seconds_of(run: Callable[[], object]) -> float:
    clock = _used[0]
    begun = clock()
    run()
    return clock() - begun


def rate(run: Callable[[], object], n_events: int) -> float:
    """Events a second: the median of three runs."""
    return n_events / statistics.median(seconds_of(run) for _ in range(3))


def events_within(answer: Answer, n_events: int, seconds: float, *, first: int = FIRST_TRY) -> int:
    """How many events of the batch a peer answers in about `seconds`; also its warm-up.

    A peer's time is taken to be a fixed part and a part for each event, from the last two tries (`first` events and two
    of them to begin with), so that one that takes long to begin is not held to a small batch: it may take up to three
    times as long.
    """
    n = min(first, n_events)
    answer(n)  # loads, plans, compiles
    before, took_before = min(2, n), seconds_of(functools.partial(answer, min(2, n)))
    while True:
        took = seconds_of(functools.partial(answer, n))
        each = max((took - took_before) / max(n - before, 1), 1e-9)
        fixed = max(took - each * n, 0.0)
        allowed = max(seconds, min(3 * fixed, 3 * seconds))
        wanted = min(n_events, int((allowed - fixed) / each), 10 * n)
        if wanted < 1.5 * n:
            return n
        before, took_before, n = n, took, wanted
