"""CSJQ 4.1: the average response time of a tuple, for naive and PDFA on both indexes, on queries of Table 1.

A tuple is filtered when the queries of all its join results are found; finding the join results themselves is left out,
as the paper's hash join is next to nothing. Both ways of an index are the same call, with and without steps: the first
step has the attributes of the arriving stream, the second those of all others.

The paper does not say how many join results a tuple has where it varies something else. We take RESULTS.

Time is the processor's, so that waiting for a processor that does other work does not count. Repetitions go round over
all workloads of an exhibit and within them over all ways, block of tuples by block, so that a slow moment of the
machine meets all of them; of each block the lower quartile of its repetitions counts. Before anything is timed every
way searches once: kernels are compiled, memory is warm, and all must have found the same queries.

Why an exhibit differs is told by what the searches look at (`Looks`): nodes of the tree, counted on some tuples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.exhibits.csjq.looks import Looks, looks
from benchmarks.exhibits.exhibit import Check, Number, Size, at_least, by_size
from benchmarks.workloads import BoxWorkload
from weir.index.box_tables import Matches
from weir.index.trees.grid_file import GridFileIndex
from weir.index.trees.rtree import TreeIndex
from weir.index.trees.tree_index import BoxTree

RESULTS = 10  # join results of a tuple, where they are not what varies
BLOCK = 5_000  # join results of one call: a call costs 0.2 ms by itself, which should not count
SAMPLED = 200  # tuples whose queries after the first step are counted
_ANY = 1 << 50  # a budget of pairs that is never reached

NOTE = (
    "Mean processor time to find the queries of all join results of a tuple, one thread. "
    f"{RESULTS} join results a tuple unless said otherwise: the paper does not say how many it had. Repetitions "
    "alternate between the ways; all were checked to find the same queries. MLGF: multilevel grid file over points in "
    "2d dimensions."
)


INDEXES: dict[str, type[BoxTree]] = {"rtree": TreeIndex, "grid-file": GridFileIndex}


class Way(NamedTuple):
    """An index and how it is searched."""

    strategy: str
    n_steps: int = 1  # 1: naive; 2: PDFA as in the paper; more: a step for each stream, as far as there are streams


WAYS = {
    "R-tree": Way("rtree"),
    "R-tree PDFA": Way("rtree", 2),
    "MLGF": Way("grid-file"),
    "MLGF PDFA": Way("grid-file", 2),
}
GAINS = (("R-tree", "R-tree PDFA"), ("MLGF", "MLGF PDFA"))  # naive and PDFA


class Times(NamedTuple):
    """What one workload costs each way."""

    us: dict[str, float]  # microseconds a tuple, by way
    matches: float  # pairs of join result and query, a tuple
    left: float  # queries that the first step leaves for a tuple, on average
    n_results: int  # join results of a tuple
    looks: dict[str, Looks]  # by index


class _Trial(NamedTuple):
    workload: BoxWorkload
    indexes: dict[str, BoxTree]
    found: Matches
    looks: dict[str, Looks]
    spent: dict[str, np.ndarray]  # by way, float64[repeats, blocks]: seconds


def sizes(size: Size) -> tuple[int, int, int]:
    """Table 1's number of queries, tuples that are filtered, and repetitions."""
    return by_size(size, smoke=(300, 4, 2), quick=(50_000, 200, 4), full=(100_000, 1_000, 3))


def measure(workloads: Sequence[BoxWorkload], repeats: int, ways: Mapping[str, Way] = WAYS) -> list[Times]:
    """Times of all ways on all tuples of each workload."""
    trials = []
    for w in workloads:
        used = sorted({way.strategy for way in ways.values()})
        indexes: dict[str, BoxTree] = {name: INDEXES[name].build(w.table, w.n_queries, w.n_attributes) for name in used}
        spent = {name: np.empty((repeats, len(_blocks(w)))) for name in ways}
        seen = {name: looks(index, w) for name, index in indexes.items()}
        trials.append(_Trial(w, indexes, _agreed(indexes, w, ways), seen, spent))
    for k in range(repeats):
        for trial in trials:
            for block, events in enumerate(_blocks(trial.workload)):
                for name, way in ways.items():
                    begun = time.thread_time()
                    search(trial.indexes, trial.workload, way, events)
                    trial.spent[name][k, block] = time.thread_time() - begun
    return [_times(trial) for trial in trials]


def _blocks(workload: BoxWorkload) -> list[slice]:
    """The tuples of each call."""
    n = max(BLOCK // workload.n_results, 1)
    return [slice(first, first + n) for first in range(0, workload.n_events, n)]


def search(indexes: Mapping[str, BoxTree], workload: BoxWorkload, way: Way, events: slice) -> Matches:
    """The queries of the join results of some tuples."""
    n = workload.n_results
    keys = np.ascontiguousarray(workload.keys[:, events.start * n : events.stop * n])
    muted = np.zeros(workload.n_queries, dtype=np.uint8)
    found = indexes[way.strategy].search(keys, muted, _ANY, steps(workload, way))
    assert isinstance(found, Matches), "the budget is boundless"
    return found


def steps(workload: BoxWorkload, way: Way) -> tuple[tuple[int, ...], ...]:
    """The attributes of each step: the first streams' by themselves, all that remain in the last. None if naive."""
    if way.n_steps == 1:
        return ()
    streams = workload.steps
    n_single = min(way.n_steps, len(streams)) - 1
    return (*streams[:n_single], tuple(a for stream in streams[n_single:] for a in stream))


def columns(times: Sequence[Times], ways: Mapping[str, Way] = WAYS) -> dict[str, list[Number]]:
    """The times by way, one value for each workload."""
    return {name: [t.us[name] for t in times] for name in ways}


def gain(times: Times, slow: str, fast: str) -> float:
    """How many times as long one way takes as another."""
    return times.us[slow] / times.us[fast]


def gains(times: Sequence[Times]) -> dict[str, list[Number]]:
    """Naive over PDFA, for both indexes."""
    return {f"{naive} / {pdfa}": [gain(t, naive, pdfa) for t in times] for naive, pdfa in GAINS}


def leads(times: Sequence[Times]) -> dict[str, list[Number]]:
    """R-tree over MLGF, naive and PDFA."""
    return {f"{tree} / {grid}": [gain(t, tree, grid) for t in times] for tree, grid in zip(*GAINS, strict=True)}


def counted(times: Sequence[Times]) -> dict[str, list[Number]]:
    """What the times are for: columns of the page's table."""
    return {"queries after the first step": [t.left for t in times], "matches a tuple": [t.matches for t in times]}


def pdfa_wins(times: Sequence[Times]) -> list[Check]:
    """Check that PDFA is faster at every place, on both indexes."""
    found = []
    for naive, pdfa in GAINS:
        least = min(times, key=lambda t: gain(t, naive, pdfa))
        what = f"least gain of {pdfa} over naive"
        found.append(at_least(what, gain(least, naive, pdfa), 1.0, why_steps(least, WAYS[pdfa].strategy)))
    return found


def why_steps(times: Times, strategy: str) -> str:
    """What naive and PDFA look at."""
    seen, n = times.looks[strategy], times.n_results
    return (
        f"one search by all dimensions looks at {seen.naive:,.0f} of {seen.nodes:,} nodes; the first step, by those of "
        f"the arriving stream alone, at {seen.first:,.0f}, and it leaves {seen.marked:,.0f} leaves to look at again "
        f"for each of {n} join results: {seen.first + n * seen.marked:,.0f} looks against {n * seen.naive:,.0f}"
    )


def why_lead(times: Times) -> str:
    """What naive searches of both indexes look at."""
    tree, grid = times.looks["rtree"], times.looks["grid-file"]
    return (
        f"a search by all dimensions looks at {tree.naive:,.0f} of {tree.nodes:,} nodes of the R-tree, which is tiled "
        f"in bulk and whose bounds are as tight as the boxes allow, and at {grid.naive:,.0f} of {grid.nodes:,} of the "
        "grid file, whose bounds are the least lower and greatest upper ends of a region of points"
    )


def _times(trial: _Trial) -> Times:
    w = trial.workload
    typical = {name: float(np.quantile(runs, 0.25, axis=0).sum()) for name, runs in trial.spent.items()}
    us = {name: 1e6 * took / w.n_events for name, took in typical.items()}
    return Times(us, len(trial.found.slots) / w.n_events, _left(w), w.n_results, trial.looks)


def _left(workload: BoxWorkload) -> float:
    """Queries that contain a tuple by its own attributes, from the definition."""
    n, own = workload.n_queries, workload.streams[0]
    lo = workload.table.constraint_lo.reshape(n, workload.n_attributes)[:, :own]
    hi = workload.table.constraint_hi.reshape(n, workload.n_attributes)[:, :own]
    tuples = workload.keys[:own, :: workload.n_results][:, :SAMPLED].T
    return float(np.mean([((lo <= row) & (row <= hi)).all(axis=1).sum() for row in tuples]))


def _agreed(indexes: Mapping[str, BoxTree], workload: BoxWorkload, ways: Mapping[str, Way]) -> Matches:
    """What every way finds; that they differ would be a mistake of ours."""
    agreed: Matches | None = None
    for name, way in ways.items():
        found = search(indexes, workload, way, slice(0, workload.n_events))
        if agreed is not None:
            same = np.array_equal(agreed.offsets, found.offsets) and np.array_equal(agreed.slots, found.slots)
            assert same, f"{name} finds other queries than {next(iter(ways))}"
        agreed = found
    assert agreed is not None, "no way was named"
    return agreed
