"""Calibration of selections: what a batch costs the grid and a sweep (`weir.index.by_batch`).

Whole batches are measured, not events: a sweep has no cost of an event by itself. Boxes are intervals of uniform
numbers; some ask for a second attribute too, so that candidates are checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from weir.index import by_batch, sweep
from weir.index.box_tables import BoxTable, Matches, OverBudget, check_events, frozen
from weir.index.by_batch import Load
from weir.index.grid import GridIndex, Plan
from weir.index.histograms import Floats
from weir.runtime.fits import Fit, fit_each

_DOMAIN = 10**9
_EVERYTHING = 1 << 40  # no budget
_PAIRS_MAX = 4_000_000  # of a batch that is measured
_REPEATS = 3  # the fastest counts


class BatchWorkload(NamedTuple):
    """Standing boxes; batches of several sizes meet them."""

    n_boxes: int
    swept: int  # boxes that contain an event's first attribute
    second: float  # share of events that satisfy a box's second constraint; 1 if there is none


_KINDS = tuple(product((1, 10, 100), (1.0, 0.5, 0.01)))
FULL = tuple(BatchWorkload(n, *kind) for n, kind in product((3_000, 30_000, 300_000), _KINDS))
QUICK = tuple(BatchWorkload(n, *kind) for n, kind in product((2_000, 40_000), _KINDS[::2]))
BATCHES = (300, 3_000, 30_000, 300_000)  # events


def calibrate(
    shapes: Sequence[BatchWorkload], batches: Sequence[int] = BATCHES, progress: Callable[[str], None] | None = None
) -> Fit:
    """The weights of both ways."""
    values: list[Floats] = []
    costs: list[list[float]] = []
    for number, shape in enumerate(shapes):
        if progress is not None:
            progress(f"batches {number + 1} of {len(shapes)}: {shape.n_boxes:,} queries")
        for load, cost in measured(shape, batches, number):
            values.append(by_batch.terms(load))
            costs.append(cost)
    return fit_each(np.stack(values), np.array(costs), by_batch.NAMES, by_batch.TERMS)


def measured(shape: BatchWorkload, batches: Sequence[int], seed: int) -> list[tuple[Load, list[float]]]:
    """For each batch its load, and what it costs either way, in ns."""
    rng = np.random.default_rng(seed)
    table, n_attributes = draw(shape, rng), 1 if shape.second == 1.0 else 2
    plan = Plan.of(table, shape.n_boxes, n_attributes, None)
    grid = GridIndex.planned(plan, shape.n_boxes, n_attributes)
    chosen = sweep.choose(plan.table, n_attributes, plan.known.selectivity)
    expected = by_batch.expected_load(plan, grid, chosen)
    swept = frozen(sweep.lay_out(plan.table, chosen.attribute))
    muted = np.zeros(shape.n_boxes, dtype=np.uint8)
    found = []
    for n_events in batches:
        if n_events * shape.swept > _PAIRS_MAX:
            continue
        keys, muted = check_events(
            rng.integers(0, _DOMAIN, (n_attributes, n_events)), muted, shape.n_boxes, n_attributes
        )
        load = expected._replace(swept=sweep.candidates_of(swept, keys), n_events=n_events)
        by_grid = _ns(lambda: grid.search(keys, muted, _EVERYTHING))  # noqa: B023 - called at once
        by_sweep = _ns(lambda: sweep.sweep(swept, keys, muted, _EVERYTHING))  # noqa: B023
        found.append((load, [by_grid, by_sweep]))
    return found


def draw(shape: BatchWorkload, rng: np.random.Generator) -> BoxTable:
    """Boxes with one interval or two."""
    n = shape.n_boxes
    widths = [np.minimum(rng.exponential(shape.swept / n, n), 1.0)]
    if shape.second < 1.0:
        widths.append(np.full(n, shape.second))
    width = (np.stack(widths, axis=1) * _DOMAIN).astype(np.int64)
    lo = (rng.random(width.shape) * (_DOMAIN - width)).astype(np.int64)
    attributes = np.broadcast_to(np.arange(width.shape[1], dtype=np.int32), width.shape)
    offsets = np.arange(n + 1, dtype=np.int64) * width.shape[1]
    return BoxTable(
        np.arange(n, dtype=np.int32), offsets, attributes.reshape(-1), lo.reshape(-1), (lo + width).reshape(-1)
    )


def _ns(search: Callable[[], Matches | OverBudget]) -> float:
    best = np.inf
    for _ in range(_REPEATS):
        begun = time.thread_time_ns()
        search()
        best = min(best, time.thread_time_ns() - begun)
    return max(float(best), 1.0)
