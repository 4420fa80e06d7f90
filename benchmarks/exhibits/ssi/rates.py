"""Rates of the select-join strategies on one workload, with the cost of output left out alike for all.

The paper counts the events a second that a strategy handles, output excluded, since every strategy reports the same
affected queries. We read the cycle counter before and after each event inside the kernel (`JoinIndex.cycles`), where a
strategy appends the boxes it finds to a buffer: no sort, no allocation. From that we take off what appending as many
numbers costs by itself: a plain loop over the same list, one dependent store for each id, measured in the same
run on the same events. Whatever else a strategy does for a box that it reports (reading its bounds, looking into the
run of partners) stays in: that is identification.

Noise: repetitions go round over all workloads of an exhibit, and within them over all strategies, block of events by
block, so that a slow moment of the machine meets all of them. Of each event the lower quartile of its repetitions
counts (other processes only ever add to it; the median would do on a machine of our own), and the mean over events is
the strategy's cost. Before anything is timed every strategy searches once: kernels are compiled, memory is warm, and
all must have found the same boxes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from benchmarks.exhibits.exhibit import Number
from benchmarks.exhibits.ssi.workload import ALPHA, SelectJoins
from weir.index.box_tables import Int32s, Int64s, Matches
from weir.index.joins.join_index import JoinIndex
from weir.index.meeting.index_contract import Tuning
from weir.runtime.calibration import ns_per_cycle

BLOCK = 20  # events that one strategy handles before the next one has its turn
WARMING = 4  # times that an event comes in a row until its lists are taken to be in the cache
APPENDED = 1_000_000  # ids that are appended at least to find the cost of one

NOTE = (
    "Rates are of identification: cycles inside the kernel for each event, less the cost of appending as many ids in a "
    "plain loop (the same amount for every strategy, measured in the same run). Each event counts with the lower "
    "quartile of its repetitions, which alternate between strategies; all were checked to find the same queries."
)


class Rates(NamedTuple):
    """What one workload costs each strategy."""

    events_per_s: dict[str, float]  # by strategy, output left out
    with_output: dict[str, float]  # the same with the ids appended to a buffer
    reported: float  # affected boxes an event, on average
    append_ns: float  # what appending one id was found to cost


class _Trial(NamedTuple):
    """One workload with its index, and what was measured of it so far."""

    workload: SelectJoins
    searched: JoinIndex
    found: Matches
    spent: dict[str, npt.NDArray[np.float64]]  # by strategy, float64[repeats, e]: cycles
    appends: list[float]  # seconds to append an id, one for each repetition


def measure(
    workloads: Sequence[SelectJoins], strategies: Sequence[str], repeats: int, alpha: float = ALPHA
) -> list[Rates]:
    """Rates of the named strategies on all events of each workload."""
    trials = []
    for w in workloads:
        index = JoinIndex.build(w.plane, alpha=alpha, strategies=tuple(strategies))
        spent = {name: np.empty((repeats, len(w.a))) for name in strategies}
        trials.append(_Trial(w, index, _agreed(index, w, strategies), spent, []))
    for k in range(repeats):
        for trial in trials:
            w = trial.workload
            for first in range(0, len(w.a), BLOCK):
                block = slice(first, first + BLOCK)
                events = w.meeting.at(block)
                for name in strategies:
                    trial.spent[name][k, block] = trial.searched.cycles(events, name)
            trial.appends.append(append_seconds(trial.found, len(w.plane.a_lo)))
    tick_s = ns_per_cycle() / 1e9
    return [_rates(trial, tick_s) for trial in trials]


def _rates(trial: _Trial, tick_s: float) -> Rates:
    reported = float(np.diff(trial.found.offsets).mean())
    append_s = statistics.median(trial.appends)
    whole = {name: max(typical(runs), 1.0) * tick_s for name, runs in trial.spent.items()}
    return Rates(
        {name: 1.0 / max(took - reported * append_s, tick_s) for name, took in whole.items()},
        {name: 1.0 / took for name, took in whole.items()},
        reported,
        append_s * 1e9,
    )


def typical(runs: npt.NDArray[np.float64]) -> float:
    """The mean over events of the lower quartile over repetitions."""
    return float(np.quantile(runs, 0.25, axis=0).mean())


def warm_rate(workload: SelectJoins, strategy: str, repeats: int) -> float:
    """Events a second where each event comes a few times in a row and the last time counts: its lists are in the cache.

    Compared with the rate on different events this tells what a strategy spends on waiting for memory.
    """
    index = JoinIndex.build(workload.plane, strategies=(strategy,))
    events = workload.meeting.at(np.repeat(np.arange(len(workload.a)), WARMING))
    runs = [index.cycles(events, strategy)[WARMING - 1 :: WARMING] for _ in range(repeats)]
    return 1e9 / ns_per_cycle() / max(typical(np.stack(runs).astype(np.float64)), 1.0)


def columns(rates: Sequence[Rates], strategies: Sequence[str]) -> dict[str, list[Number]]:
    """The rates by strategy, one value for each workload."""
    return {name: [r.events_per_s[name] for r in rates] for name in strategies}


def _agreed(index: JoinIndex, workload: SelectJoins, strategies: Sequence[str]) -> Matches:
    """What every strategy finds; that they differ would be a mistake of ours."""
    muted = np.zeros(len(workload.plane.a_lo), dtype=np.uint8)
    agreed: Matches | None = None
    for name in strategies:
        found = index.search(workload.meeting, muted, 2**40, Tuning(name)).matches
        assert isinstance(found, Matches), "the budget is boundless"
        if agreed is not None:
            same = np.array_equal(agreed.offsets, found.offsets) and np.array_equal(agreed.slots, found.slots)
            assert same, f"{name} finds other boxes than {strategies[0]}"
        agreed = found
    assert agreed is not None, "no strategy was named"
    return agreed


def append_seconds(found: Matches, n_boxes: int) -> float:
    """Seconds to append one id, over all events of a search."""
    if not len(found.slots):
        return 0.0
    times = -(-APPENDED // len(found.slots))
    out = np.empty(n_boxes, dtype=np.int32)
    _append(found.offsets, found.slots, 1, out)  # compiles
    begun = time.perf_counter()
    total = _append(found.offsets, found.slots, times, out)
    took = time.perf_counter() - begun
    assert total == times * len(found.slots)
    return took / total


@numba.njit(nogil=True)  # not one of the library's kernels, so it is not among those that are warmed
def _append(offsets: Int64s, slots: Int32s, times: int, out: Int32s) -> int:
    """Append each event's ids to one buffer, as the strategies do.

    The place of the next id depends on the one before, as it does in a search; so this is no block copy.
    """
    total = 0
    for _ in range(times):
        for e in range(len(offsets) - 1):
            used = 0
            for i in range(offsets[e], offsets[e + 1]):
                out[used] = slots[i]
                used += 1 if slots[i] >= 0 else 0
            total += used
    return total
