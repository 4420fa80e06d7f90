"""What a plan costs each way: processor time for a thousand arrivals, and how many tuples are stored.

All ways of an exhibit get the same arrivals. First they are filled, until windows have been full for a while; then they
are measured in rounds, one way after the other in each round, so that a slow moment of the machine meets all of them;
the median of the rounds counts. A round is as long as two lazy expirations, or shorter where a way is so slow that it
would take seconds. Time is the processor's. After filling, all ways must show the same result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.exhibits.exhibit import Number
from benchmarks.exhibits.upa.connections import Connections
from weir.operators.execution import Counters, Execution
from weir.operators.physical import Kind, Parameters
from weir.operators.plans import PlanNode

FILLED = 1.15  # windows that pass before anything is measured
ROUND = 0.1  # of a window: two lazy expirations
ROUNDS = 3
LEAST = 3_000  # arrivals of a round, unless they take too long
TEN = Parameters(partitions=10)  # what the paper has where it says nothing else
BLOCK = 200  # arrivals between two looks at the clock
ROUND_S = 0.35  # after which a round ends


@dataclass(frozen=True)
class Way:
    """A plan and how it is executed."""

    plan: PlanNode
    kind: Kind
    parameters: Parameters = TEN
    is_view_eager: bool = True  # only while measured: filling a view takes long where each arrival scans it
    shows: str = "the query"  # ways that show the same are compared


class Cost(NamedTuple):
    """What one way costs over one window."""

    ms: float  # for 1,000 arrivals
    stored: float  # tuples, on average over the rounds
    results: int
    deltas: float  # an arrival, at nodes with state
    walked: float  # tuples looked at for an arrival
    premature: float  # share of a negation's results that it takes away before their time


def needed(window: int, n_links: int) -> int:
    """How many time units of connections `measure` takes."""
    return int(window * FILLED) + 2 + ROUNDS * max(int(ROUND * window), LEAST // n_links) + LEAST


def measure(ways: Mapping[str, Way], log: Connections, window: int) -> dict[str, Cost]:
    """The cost of each way over one log."""
    filled = int(np.searchsorted(log.times, int(window * FILLED)))
    n_links = int(log.links.max()) + 1
    running: dict[str, Execution] = {}
    shown: dict[str, np.ndarray] = {}
    for name, way in ways.items():
        execution = Execution(way.plan, way.kind, way.parameters)
        execution.push(log.times[:filled], log.links[:filled], log.rows[:filled])
        running[name] = execution
        rows = execution.rows()
        rows = rows[np.lexsort(rows.T)]
        same = shown.setdefault(way.shows, rows)
        assert np.array_equal(rows, same), f"{name} shows another result"
        if way.is_view_eager:
            execution.keep_view_eagerly()
    begun = {name: execution.counters() for name, execution in running.items()}
    at = dict.fromkeys(ways, filled)
    length = max(int(ROUND * window) * n_links, LEAST)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    stored: dict[str, list[int]] = {name: [] for name in ways}
    for k in range(ROUNDS):
        for name in sorted(ways, reverse=bool(k % 2)):
            seconds, at_end = _round(running[name], log, at[name], length)
            taken[name].append(1e6 * seconds / (at_end - at[name]))
            stored[name].append(running[name].stored)
            at[name] = at_end
    costs = {}
    for name, execution in running.items():
        n = at[name] - filled
        counted = Counters(*(b - a for a, b in zip(begun[name], execution.counters(), strict=True)))
        costs[name] = Cost(
            float(np.median(taken[name])),
            float(np.mean(stored[name])),
            len(execution.rows()),
            counted.deltas / n,
            counted.walked / n,
            counted.premature / counted.shown if counted.shown else 0.0,
        )
    return costs


def _round(execution: Execution, log: Connections, begin: int, length: int) -> tuple[float, int]:
    """Seconds of the processor for arrivals from `begin` on, and where they end."""
    at, seconds = begin, 0.0
    while at < begin + length and seconds < ROUND_S:
        end = min(at + BLOCK, begin + length)
        started = time.process_time()
        execution.push(log.times[at:end], log.links[at:end], log.rows[at:end])
        seconds += time.process_time() - started
        at = end
    return seconds, at


def columns(costs: Sequence[Mapping[str, Cost]], names: Sequence[str], figure: str) -> dict[str, list[Number]]:
    """One figure of each way, window by window; None where a way was not measured."""
    return {name: [getattr(of[name], figure) if name in of else None for of in costs] for name in names}


def times_as_much(costs: Sequence[Mapping[str, Cost]], name: str, base: str, figure: str = "ms") -> list[float]:
    """A figure of one way over that of another, at the windows where both were measured."""
    return [getattr(of[name], figure) / getattr(of[base], figure) for of in costs if name in of and base in of]
