"""SSI Fig. 18, 19, 20: routing by cost over the event selection rate, the share of queries that an event selects."""

from __future__ import annotations

import functools
import itertools

from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_least, at_most, by_size
from benchmarks.exhibits.ssi.ssi_12 import events, figures, fitted, queries, routed
from benchmarks.exhibits.ssi.workload import ALPHA
from weir.index.joins.join_index import JoinIndex


@functools.cache
def measured(size: Size) -> dict[str, Exhibit]:
    """Figures 18, 19 and 20: one set of queries and rows, R.A drawn so that more and more queries are selected."""
    n = by_size(size, smoke=2_000, quick=50_000, full=500_000)
    n_keys = by_size(size, smoke=100, quick=1_001, full=10_001)
    shares = by_size(
        size, smoke=(0.005, 0.03), quick=(0.0005, 0.002, 0.008, 0.02, 0.04), full=(0.0005, 0.002, 0.008, 0.02, 0.04)
    )
    n_events, repeats = by_size(size, smoke=(40, 1), quick=(600, 3), full=(1_000, 3))
    plane = queries(n, 18)
    index = JoinIndex.build(plane, alpha=ALPHA)
    found = [
        routed(events(plane, n, n_keys, n_events, 180 + k, selection_rate=share), fitted(size), repeats, index)
        for k, share in enumerate(shares)
    ]
    select_first = [r.events_per_s["select-first"] for r in found]
    chosen = [100 * r.chosen["select-first"] for r in found]
    return figures(
        ("ssi-18", "ssi-19", "ssi-20"),
        size,
        ("SSI 5.4, Fig. 18", "SSI 5.4, Fig. 19", "SSI 5.4, Fig. 20"),
        "the event selection rate",
        "% of queries that an event selects, mean",
        [100 * r.selected for r in found],
        found,
        (
            "Dynamic is ahead of every static strategy at every rate; select-first falls as events select more.",
            "Select-first is chosen very often when events select few queries, and less and less as they select more.",
            "The router often misses the optimum, and is far ahead of the static strategies nevertheless.",
        ),
        (
            at_least(
                "select-first: rate at the least over that at the greatest selection rate",
                select_first[0] / select_first[-1],
                3.0,
            ),
        ),
        (
            at_least(
                "select-first's share at the least selection rate, %",
                chosen[0],
                50.0,
                f"select-first really is the cheapest for {found[0].best['select-first']:.0%} of the events there",
            ),
            at_most("select-first's share at the greatest selection rate, %", chosen[-1], 20.0),
            at_most(
                "select-first: greatest rise between neighbours, %",
                max(b - a for a, b in itertools.pairwise(chosen)),
                2.0,
            ),
        ),
    )


def _run(name: str, size: Size) -> Exhibit:
    return measured(size)[name]


EXHIBITS: dict[str, Run] = {name: functools.partial(_run, name) for name in ("ssi-18", "ssi-19", "ssi-20")}
