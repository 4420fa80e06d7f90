"""Calibration: what the terms of the cost model weigh on this machine (SSI, 4.1 and Table II).

Every strategy is run over a grid of synthetic workloads, with its cycles counted event by event, and the weights of
`weir.index.joins.join_costs` are fitted to them (`weir.runtime.fits`); those of band joins likewise, over workloads of
their own (`weir.runtime.band_calibration`), and those of selections for whole batches
(`weir.runtime.batch_calibration`). A fit is kept in a weir's cache with what it depends on: the sources of the kernels,
the processor and NumPy's major version. One that is damaged, or that another machine or other sources made, is ignored,
and the weights that come with Weir are used instead; so a wrong cache costs time and never a result.

Cost: one to two minutes, some seconds with `quick`. Calibrate on an idle machine: other programs would take the
processor's caches from the kernels.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from weir.errors import OpenError
from weir.index.bands import band_costs, band_strategies
from weir.index.box_tables import Int64s
from weir.index.histograms import Floats
from weir.index.jit import source_hash
from weir.index.joining.kinds import DEFAULT, make_costs
from weir.index.joins.join_costs import (
    HOTSPOT,
    N_STRATEGIES,
    N_TERMS,
    SELECT_FIRST,
    SSI,
    TERMS,
)
from weir.index.joins.join_index import JoinIndex
from weir.index.joins.join_strategies import NAMES
from weir.index.meeting.index_contract import Costs, Meeting, Tuning, plain_meeting
from weir.index.meeting.instructions import cycles as cycle_counter
from weir.index.meeting.planes import Plane, check
from weir.runtime import band_calibration, batch_calibration
from weir.runtime.fits import Bools, Fit, fit_each, least_squares, shown_columns
from weir.runtime.measuring import REPEATS, measured, run_ends, terms_in_estimates
from weir.store import caches
from weir.store.files import Files, open_files

KIND = "costs"  # of the cache document
VERSION = 3  # of its content; 1 has no band joins, 2 no selections: their weights are then those that come with Weir


class JoinWorkload(NamedTuple):
    """One synthetic workload."""

    n_boxes: int
    m_rows: int
    hot_share: float  # share of boxes in few wide clusters of c
    selection: float  # share of boxes whose a-interval contains an event, on average
    scattered_length: float  # mean length of scattered c-intervals, as a share of the domain
    apart: bool  # scattered c-intervals keep clear of the clusters; else they cut these into many small groups
    domain: int  # of a and c; a small one has few end points, so that codes leave no doubt


class Calibration(NamedTuple):
    """What is fitted."""

    joins: Fit
    bands: Fit
    batches: Fit

    @property
    def costs(self) -> Costs:
        return make_costs(self.joins.terms, self.bands.terms, self.batches.terms)

    def table(self) -> str:
        """All weights as text."""
        return (
            f"{self.joins.table()}\n\nband joins\n{self.bands.table()}\n\nbatches of selections\n{self.batches.table()}"
        )


# ── the command ──────────────────────────────────────────────────────────────────────────────────────


def main(location: str, quick: bool = False, progress: Callable[[str], None] | None = None) -> str:
    """Fit the weights for the weir at `location`, keep them there, and return them as a table."""
    files = open_files(location)
    if not files.exists("weir.json"):
        raise OpenError(f"'{location}' is not a weir", hint="make one with `weir stream FOLDER NAME COLUMNS --time …`")
    found = calibrate(progress, quick=quick)
    store(files, found)
    return found.table()


def calibrate(progress: Callable[[str], None] | None = None, *, quick: bool = False) -> Calibration:
    """Run every strategy over the grids of workloads and fit its weights."""
    values, ns = measure(QUICK if quick else FULL, 100 if quick else 200, progress)
    shapes = batch_calibration.QUICK if quick else batch_calibration.FULL
    batches = batch_calibration.calibrate(shapes, progress=progress)
    return Calibration(fit_terms(values, ns), calibrate_bands(progress, quick=quick), batches)


def calibrate_bands(progress: Callable[[str], None] | None = None, *, quick: bool = False) -> Fit:
    """The same for band joins alone."""
    shapes = band_calibration.QUICK if quick else band_calibration.FULL
    values, cycles = band_calibration.measure(shapes, 20 if quick else 40, progress)
    return fit_each(
        values,
        np.maximum(cycles * ns_per_cycle(), 1.0),
        band_strategies.NAMES[: band_costs.N_STRATEGIES],
        band_costs.TERMS,
    )


def store(files: Files, found: Calibration) -> None:
    """Keep weights with what they depend on. The newest are read first: their number is a time, which only grows."""
    document = {
        **_dependencies(),
        "version": VERSION,
        **_written(found.joins),
        "bands": _written(found.bands),
        "batches": _written(found.batches),
    }
    caches.save(files, KIND, int(time.time()), [json.dumps(document).encode()], ".json")


def _written(fit: Fit) -> dict[str, object]:
    return {"terms": fit.terms.tolist(), "samples": fit.samples, "errors": fit.errors.tolist()}


def load(files: Files) -> Costs:
    """The weights that were fitted on this machine for these kernels; those that come with Weir if there are none."""
    for _, parts in caches.load(files, KIND):
        found = _believed(parts)
        if found is not None:
            return found
    return DEFAULT


def _believed(parts: Sequence[bytes]) -> Costs | None:
    """The weights of a document that is about this machine and these kernels; None for any other."""
    try:
        document = json.loads(parts[0])
        version = document.get("version", 1)
        if version > VERSION or any(document[key] != value for key, value in _dependencies().items()):
            return None
        terms = np.array(document["terms"], dtype=np.float64)
        bands = np.array(document["bands"]["terms"], dtype=np.float64) if version > 1 else DEFAULT.bands
        batches = np.array(document["batches"]["terms"], dtype=np.float64) if version > 2 else DEFAULT.batches
    except (ValueError, TypeError, LookupError, AttributeError):  # whole, but not one of ours
        return None
    usable = all(
        table.shape == known.shape and bool(np.all(np.isfinite(table) & (table >= 0)))
        for table, known in zip((terms, bands, batches), DEFAULT, strict=True)
    )
    return make_costs(terms, bands, batches) if usable else None


def _dependencies() -> dict[str, str]:
    return {"sources": source_hash(), "cpu": cpu_model(), "numpy": np.__version__.partition(".")[0]}


def cpu_model() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────

_KINDS = (
    (0.0, 0.02, 1e-4, True, 1_000_000),
    (0.0, 0.1, 0.04, False, 10_000),
    (0.3, 0.1, 1e-3, False, 1_000_000),
    (0.8, 0.003, 1e-5, True, 1_000_000),
    (0.95, 0.03, 1e-2, False, 10_000),
    (0.9, 0.02, 1e-5, True, 1_000_000),
)
FULL = tuple(
    JoinWorkload(n_boxes, m_rows, *kind)
    for n_boxes, m_rows in (
        (1_000, 400_000),
        (10_000, 60_000),
        (30_000, 150_000),
        (100_000, 60_000),
        (200_000, 300_000),
    )
    for kind in _KINDS
)
QUICK = tuple(
    JoinWorkload(n_boxes, m_rows, *kind)
    for n_boxes, m_rows in ((2_000, 60_000), (20_000, 30_000), (80_000, 100_000))
    for kind in _KINDS[1:]
)


def measure(
    shapes: Sequence[JoinWorkload], n_events: int, progress: Callable[[str], None] | None = None
) -> tuple[Floats, Floats]:
    """Term values float64[sample, strategy, term] and costs in ns float64[sample, strategy] of events of all shapes."""
    values, cycles = measured(shapes, lambda shape, number: _measure(shape, n_events, number), "workload", progress)
    return values, np.maximum(cycles * ns_per_cycle(), 1.0)


def _measure(shape: JoinWorkload, n_events: int, seed: int) -> tuple[Floats, Floats]:
    plane, events = draw(shape, n_events, seed)
    index = JoinIndex.build(plane)
    cycles = np.full((n_events, N_STRATEGIES), np.inf)
    for _ in range(REPEATS):  # round and round, so that a slow moment of the machine meets all strategies
        for s, strategy in enumerate(NAMES):
            cycles[:, s] = np.minimum(cycles[:, s], index.cycles(events, strategy))
    return term_table(index, events), cycles


def term_table(index: JoinIndex, events: Meeting) -> Floats:
    """float64[event, strategy, term]: the term values as the router sees them, with what its histograms say.

    Weights fitted to estimates are not quite those of exact counts, but estimates are what the router multiplies.
    """
    return terms_in_estimates(
        lambda terms: index.estimates(events, Tuning(costs=make_costs(terms))), N_STRATEGIES, N_TERMS
    )


def ns_per_cycle(window_ns: int = 20_000_000) -> float:
    """How long a tick of the cycle counter lasts, by the clock."""
    begun_cycles, begun = cycle_counter(), time.perf_counter_ns()
    while time.perf_counter_ns() - begun < window_ns:
        pass
    ended_cycles, ended = cycle_counter(), time.perf_counter_ns()
    return (ended - begun) / (ended_cycles - begun_cycles)


def draw(shape: JoinWorkload, n_events: int, seed: int) -> tuple[Plane, Meeting]:
    """Boxes of which a share is clustered, runs of partners of very different lengths, and events."""
    random = np.random.default_rng(seed)
    n_hot = round(shape.n_boxes * shape.hot_share)
    spots = random.uniform(0, 0.5 * shape.domain, 8)
    length = random.choice((0.02, 0.004)) * shape.domain
    c_middle = np.concatenate(
        (
            random.normal(spots[random.integers(0, len(spots), n_hot)], 0.2 * length),
            random.uniform(0.55 * shape.domain if shape.apart else 0.0, shape.domain, shape.n_boxes - n_hot),
        )
    )
    c_length = np.concatenate(
        (
            random.normal(length, 0.2 * length, n_hot),
            random.exponential(shape.scattered_length * shape.domain, shape.n_boxes - n_hot),
        )
    )
    a_middle = random.normal(shape.domain / 2, shape.domain / 6, shape.n_boxes)
    a_length = random.normal(shape.selection * shape.domain, 0.2 * shape.selection * shape.domain, shape.n_boxes)
    mixed = random.permutation(shape.n_boxes)  # so that the number of a box says nothing about its cluster
    plane = check(Plane(*_intervals(a_middle, a_length), *_intervals(c_middle[mixed], c_length[mixed])))
    ends = run_ends(random, shape.m_rows)
    begins = np.concatenate(([0], ends[:-1]))
    run_of_place = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    values = random.integers(0, shape.domain, len(run_of_place))
    values = values[np.lexsort((values, run_of_place))]
    # No run occurs twice unless there are too few: a search codes a run's partners for the run's first event only.
    runs = np.resize(random.permutation(len(ends)), n_events)
    return plane, plain_meeting(random.integers(0, shape.domain, n_events), begins[runs], ends[runs], values)


def _intervals(middle: Floats, length: Floats) -> Iterator[Int64s]:
    half = np.maximum(length, 0.0) / 2
    yield (middle - half).astype(np.int64)
    yield (middle + half).astype(np.int64)


# ── fitting ──────────────────────────────────────────────────────────────────────────────────────────


def fit_terms(values: Floats, ns: Floats, columns: Bools | None = None) -> Fit:
    """Weights of all strategies, for the given columns, or if none are given for those that the measurements show.

    If none are given, hotspot has the weights of its two parts, ssi and select-first, each times a factor: it runs one
    after the other, and its own measurements alone cannot tell their many terms apart.
    """
    shape = (N_STRATEGIES, N_TERMS)
    terms, low, high = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    kept = np.zeros(shape, dtype=np.bool_)
    errors = np.zeros(N_STRATEGIES)
    for s in range(N_STRATEGIES):
        x, y = values[:, s], ns[:, s]
        if columns is None and s == HOTSPOT:
            parts = _parts(terms)
            factors, spread = np.zeros(len(parts)), np.zeros(len(parts))
            shown = shown_columns(x @ parts.T, y)
            factors[shown], spread[shown] = least_squares(x @ parts[shown].T, y)
            terms[s], low[s], high[s] = (
                factors @ parts,
                (factors - spread) @ _parts(low),
                (factors + spread) @ _parts(high),
            )
            kept[s] = terms[s] > 0
        else:
            kept[s] = shown_columns(x, y) if columns is None else columns[s]
            if not kept[s].any():
                continue
            weights, spread = least_squares(x[:, kept[s]], y)
            terms[s, kept[s]] = weights
            low[s, kept[s]], high[s, kept[s]] = weights - spread, weights + spread
        errors[s] = np.median(np.abs(x @ terms[s] - y) / y)
    return Fit(terms, low, high, kept, errors, len(ns), NAMES, TERMS)


def _parts(terms: Floats) -> Floats:
    """float64[3, term]: the parts of hotspot as weights of its terms. The parts are what every event costs, ssi on the
    hotspots, and select-first on the scattered boxes."""
    groups, lookups = dict(zip(TERMS, terms[SSI], strict=True)), dict(zip(TERMS, terms[SELECT_FIRST], strict=True))
    of_groups = {name: groups[name] for name in ("probes", "reached")}
    of_groups["visits"] = groups["visits"] + 4.0 * groups["turns"]  # log m' for a run of 15; a small part of the cost
    of_groups["touched"] = groups["touched"] + groups["doubted"] + groups["selected"]
    of_lookups = {name: lookups[name] for name in ("lookups", "turns", "coded", "unsure", "doubted")}
    of_lookups["selected"] = lookups["touched"]
    return np.array([[part.get(name, 0.0) for name in TERMS] for part in ({"event": 1.0}, of_groups, of_lookups)])
