"""Band calibration: workloads over which the strategies of band joins are measured (SSI, 4.1, for 3.1).

They differ in what the terms of `weir.index.bands.band_costs` are made of: boxes, partners, widths, classes, stabbing
groups, whole numbers and doubles. Partners are one run that all events meet, with a ladder of either kind, or runs by
key of very different lengths, without. Events are in the order of what they bring to the difference, as those of a
batch are.

A strategy that would look at very many boxes for an event of a workload is left out there: nobody would choose it, and
it would take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from weir.index.bands.band_costs import DATA_OUTER, N_STRATEGIES, N_TERMS
from weir.index.bands.band_index import BandIndex
from weir.index.bands.band_strategies import NAMES
from weir.index.box_tables import Int64s
from weir.index.histograms import Floats
from weir.index.joining.kinds import DEFAULT, make_costs
from weir.index.keys import KEY_MAX, NULL_KEY, encode_doubles
from weir.index.meeting.index_contract import Meeting, Tuning, band_meeting
from weir.index.meeting.partner_runs import make_run
from weir.index.meeting.planes import Plane
from weir.runtime.measuring import REPEATS, measured, run_ends, terms_in_estimates

TOUCHED_MAX = 500_000  # boxes that data-outer may touch for an event


class BandWorkload(NamedTuple):
    """One synthetic workload."""

    n_boxes: int
    m_rows: int
    is_one: bool  # all events meet all rows; if not, there are runs by key
    width: float  # mean width of intervals, as a share of the reach of differences
    wide_share: float  # share of boxes that are a hundred times as wide
    clusters: int  # places around which intervals lie; 0: they lie anywhere
    hot_share: float  # share of boxes around these places, if there are any
    reach: int  # differences are between ± reach; a small one gives every number a cell
    is_double: bool


_KINDS = (
    (1e-5, 0.0, 0, 0.0, 1_000_000_000, False),
    (1e-4, 0.02, 20, 0.5, 40_000, False),
    (1e-3, 0.0, 50, 1.0, 1_000_000_000, True),
    (2e-6, 0.0, 0, 0.0, 500_000, False),
    (1e-5, 0.1, 8, 0.9, 1_000_000, True),
    (5e-3, 0.0, 200, 0.7, 100_000, False),
)
_FULL_SIZES = (
    (100, 20_000, False),
    (300, 20_000, True),
    (2_000, 300, True),
    (10_000, 30_000, False),
    (20_000, 4_000, True),
    (100_000, 60_000, False),
    (200_000, 1_000, True),
)
_QUICK_SIZES = ((1_000, 20_000, False), (3_000, 500, True), (30_000, 20_000, False), (30_000, 5_000, True))
FULL, QUICK = (
    tuple(BandWorkload(n_boxes, m_rows, is_one, *kind) for n_boxes, m_rows, is_one in sizes for kind in _KINDS)
    for sizes in (_FULL_SIZES, _QUICK_SIZES)
)


def measure(
    shapes: Sequence[BandWorkload], n_events: int, progress: Callable[[str], None] | None = None
) -> tuple[Floats, Floats]:
    """Term values float64[sample, strategy, term] and cycles float64[sample, strategy], NaN where not measured."""
    return measured(shapes, lambda shape, number: _measure(shape, n_events, number), "band workload", progress)


def _measure(shape: BandWorkload, n_events: int, seed: int) -> tuple[Floats, Floats]:
    plane, events = draw(shape, n_events, seed)
    index = BandIndex.build(plane, is_double=shape.is_double)
    values = term_table(index, events)
    cycles = np.full((len(events.a), N_STRATEGIES), np.inf)
    few = values[:, DATA_OUTER].max(axis=1) < TOUCHED_MAX
    for _ in range(REPEATS):  # round and round, so that a slow moment of the machine meets all strategies
        for s, strategy in enumerate(NAMES[:N_STRATEGIES]):
            which = np.flatnonzero(few) if s == DATA_OUTER else np.arange(len(few))
            spent = index.cycles(events.at(which), strategy)
            cycles[which, s] = np.minimum(cycles[which, s], spent)
    return values, np.where(np.isinf(cycles), np.nan, cycles)


def term_table(index: BandIndex, events: Meeting) -> Floats:
    """float64[event, strategy, term]: the term values as the router sees them."""

    def estimates(bands: Floats) -> Floats:
        return index.estimates(events, Tuning(costs=make_costs(DEFAULT.terms, bands)))

    return terms_in_estimates(estimates, N_STRATEGIES, N_TERMS)


def draw(shape: BandWorkload, n_events: int, seed: int) -> tuple[Plane, Meeting]:
    """Bands over differences, and events with their partners."""
    random = np.random.default_rng(seed)
    n = shape.n_boxes
    middle = random.uniform(-shape.reach, shape.reach, n)
    if shape.clusters:
        spots = random.uniform(-shape.reach, shape.reach, shape.clusters)
        near = random.normal(spots[random.integers(0, shape.clusters, n)], shape.width * shape.reach / 4)
        middle = np.where(random.random(n) < shape.hot_share, near, middle)
    width = np.abs(random.normal(1.0, 0.3, n)) * shape.width * shape.reach
    width *= np.where(random.random(n) < shape.wide_share, 100.0, 1.0)
    lo, hi = middle - width / 2, middle + width / 2
    if shape.is_one:
        begins, ends = np.zeros(1, np.int64), np.array([shape.m_rows])
    else:
        ends = run_ends(random, shape.m_rows)
        begins = np.concatenate(([0], ends[:-1]))
    run_of_place = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    rows = random.uniform(0, shape.reach, len(run_of_place))
    rows = rows[np.lexsort((rows, run_of_place))]
    offset = np.sort(random.uniform(0, shape.reach, n_events))
    met = random.integers(0, len(ends), n_events)
    a = np.zeros(n_events, np.int64)
    run = make_run(_raw(rows, shape.is_double), shape.is_double, is_one=shape.is_one)
    keys = (encode_doubles(end) if shape.is_double else end.astype(np.int64) for end in (lo, hi))
    plane = Plane(np.full(n, NULL_KEY), np.full(n, KEY_MAX), *keys)
    return plane, band_meeting(a, _raw(offset, shape.is_double), begins[met], ends[met], run)


def _raw(numbers: Floats, is_double: bool) -> Int64s:
    """Numbers as runs have them."""
    return numbers.view(np.int64) if is_double else numbers.astype(np.int64)
