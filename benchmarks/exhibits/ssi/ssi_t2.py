"""SSI Table II: the weights of the paper's four cost formulas, fitted on this machine, with their 95 % intervals.

As in the paper queries and rows are varied independently, component costs are measured apart, and least squares give
the weights. The components: finding an event's run of partners, which is the same lookup for every strategy and gives
α·log|S|; and the rest, of which each strategy has its own formula, counted in cycles event by event.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from benchmarks.exhibits.exhibit import Check, Exhibit, Run, Size, by_size
from weir.index.box_tables import Int64s
from weir.index.joins.join_costs import HOTSPOT, JOIN_FIRST, N_STRATEGIES, N_TERMS, SELECT_FIRST, TERMS, VANILLA
from weir.index.meeting.partners import build_partners, locate
from weir.runtime.calibration import JoinWorkload, fit_terms, measure
from weir.runtime.fits import interval_of_slope

KEYS = 10_001  # values of the join attribute, as in Table I


class Parameter(NamedTuple):
    """One weight of the paper's table."""

    name: str
    strategy: int
    term: str  # of weir.index.joins.join_costs


PARAMETERS = (
    Parameter("δJ m'·√|Q|", JOIN_FIRST, "probes"),
    Parameter("βS log|Q|", SELECT_FIRST, "boxes"),
    Parameter("γS n'·log m'", SELECT_FIRST, "lookups"),
    Parameter("γV |Q|·log m'", VANILLA, "lookups"),
    Parameter("βH log|Qs|", HOTSPOT, "boxes"),
    Parameter("γH n\"·log m'", HOTSPOT, "lookups"),
    Parameter("δH Σ√|hotspot|", HOTSPOT, "probes"),
)
FOUR = {"join-first": JOIN_FIRST, "select-first": SELECT_FIRST, "vanilla": VANILLA, "hotspot": HOTSPOT}


def run(size: Size) -> Exhibit:
    """Fit the paper's formulas, and our own basis beside them."""
    counts = by_size(
        size, smoke=(1_000, 2_000), quick=(10_000, 30_000, 50_000), full=(100_000, 200_000, 300_000, 400_000, 500_000)
    )
    n_events = by_size(size, smoke=60, quick=300, full=1_000)
    kinds = (  # how clustered queries are and how many an event selects
        JoinWorkload(0, 0, 0.3, 0.05, 1e-4, False, 10**6),
        JoinWorkload(0, 0, 0.9, 0.02, 1e-5, True, 10**6),
    )
    shapes = [
        kinds[(i + k) % 2]._replace(n_boxes=n, m_rows=m) for i, n in enumerate(counts) for k, m in enumerate(counts)
    ]
    values, ns = measure(shapes, n_events)
    columns = np.zeros((N_STRATEGIES, N_TERMS), dtype=np.bool_)
    for p in PARAMETERS:
        columns[p.strategy, TERMS.index(p.term)] = True
    paper, ours = fit_terms(values, ns, columns), fit_terms(values, ns)
    alpha, alpha_low, alpha_high = _lookup(counts, by_size(size, smoke=2, quick=10, full=20))
    names, found, intervals = ["α log|S|"], [alpha], [(alpha_low, alpha_high)]
    for p in PARAMETERS:
        k = TERMS.index(p.term)
        names.append(p.name)
        found.append(float(paper.terms[p.strategy, k]))
        intervals.append((float(paper.low[p.strategy, k]), float(paper.high[p.strategy, k])))
    return Exhibit(
        name="ssi-t2",
        title="Weights of the cost model, with 95 % intervals",
        section="SSI 5.4, Table II",
        claim="Least squares fit all parameters of the four cost formulas, and every 95 % interval excludes 0.",
        size=size,
        x_label="parameter",
        x=names,
        series={"weight": found},
        unit="ns",
        log_y=True,
        intervals={"weight": intervals},
        checks=(
            *(
                Check(f"the interval of {name} excludes 0", low > 0, f"{value:.3g} in [{low:.3g}, {high:.3g}]")
                for name, value, (low, high) in zip(names, found, intervals, strict=True)
            ),
        ),
        table={"weight, ns": found, "low": [low for low, _ in intervals], "high": [high for _, high in intervals]},
        notes=(
            f"{len(shapes)} workloads of {n_events} events, queries and rows varied independently. α belongs to the "
            "lookup of an event's run of partners, which all strategies share.",
            "Median error of the fitted cost of an event, paper's formula and our basis: "
            + "; ".join(f"{name} {paper.errors[s]:.0%} and {ours.errors[s]:.0%}" for name, s in FOUR.items())
            + ".",
        ),
    )


def _lookup(counts: tuple[int, ...], repeats: int) -> tuple[float, float, float]:
    """α and its interval: ns to find an event's run, over log|S|."""
    random = np.random.default_rng(2)
    logs, ns = [], []
    for rows in counts:
        keys = np.rint(random.normal(KEYS / 2, KEYS / 10, rows)).astype(np.int64)
        partners = build_partners(keys, np.zeros(rows, dtype=np.int64))
        events: Int64s = random.integers(0, KEYS, 2_000)
        locate(partners, events)
        for _ in range(repeats):
            begun = time.perf_counter_ns()
            locate(partners, events)
            ns.append((time.perf_counter_ns() - begun) / len(events))
            logs.append(np.log2(1.0 + rows))
    return interval_of_slope(np.array(logs), np.array(ns))


EXHIBITS: dict[str, Run] = {"ssi-t2": run}
