"""Measuring workloads, and what those of select joins and of bands have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from weir.index.box_tables import Int64s
from weir.index.histograms import Floats

RUN_MAX = 2_000  # longest run of partners by key
REPEATS = 5  # for each event the fastest repetition counts: the others were interrupted


class _Workload(Protocol):
    @property
    def n_boxes(self) -> int: ...

    @property
    def m_rows(self) -> int: ...


W = TypeVar("W", bound=_Workload)


def measured(
    shapes: Sequence[W],
    measure_one: Callable[[W, int], tuple[Floats, Floats]],
    what: str,
    progress: Callable[[str], None] | None,
) -> tuple[Floats, Floats]:
    """What `measure_one` gives for each workload and its number, put together: term values, and costs."""
    values, costs = [], []
    for number, shape in enumerate(shapes):
        if progress is not None:
            progress(f"{what} {number + 1} of {len(shapes)}: {shape.n_boxes:,} boxes, {shape.m_rows:,} rows")
        of_one, cost = measure_one(shape, number)
        values.append(of_one)
        costs.append(cost)
    return np.concatenate(values), np.concatenate(costs)


def terms_in_estimates(estimates: Callable[[Floats], Floats], n_strategies: int, n_terms: int) -> Floats:
    """float64[event, strategy, term]: the term values as the router sees them.

    `estimates` gives float64[event, strategy], the costs in ns for weights float64[strategy, term]. Where one term
    weighs 1 ns and all others nothing, the estimate is the term's value.
    """
    tables = []
    for k in range(n_terms):
        only = np.zeros((n_strategies, n_terms))
        only[:, k] = 1.0
        tables.append(estimates(only)[:, :n_strategies])
    return np.stack(tables, axis=2)


def run_ends(random: np.random.Generator, m_rows: int) -> Int64s:
    """The ends of runs of very different lengths: as many runs as so many rows hold, at least one."""
    ends = np.cumsum(np.exp(random.uniform(0.0, np.log(RUN_MAX), m_rows)).astype(np.int64))
    return ends[: max(int(np.searchsorted(ends, m_rows)), 1)]
