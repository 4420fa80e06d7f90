"""SSI Fig. 15, 16, 17: routing by cost over the event join rate, the rows of S that join with an event."""

from __future__ import annotations

import functools
import itertools

from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_least, at_most, by_size, spread
from benchmarks.exhibits.ssi.ssi_12 import events, figures, fitted, queries, routed
from benchmarks.exhibits.ssi.workload import ALPHA
from weir.index.joins.join_index import JoinIndex


@functools.cache
def measured(size: Size) -> dict[str, Exhibit]:
    """Figures 15, 16 and 17: one set of queries and rows, R.B drawn so that more and more rows join."""
    n = by_size(size, smoke=2_000, quick=50_000, full=500_000)
    n_keys = by_size(size, smoke=100, quick=1_001, full=10_001)
    rates = by_size(size, smoke=(5.0, 30.0), quick=(3.0, 10.0, 30.0, 90.0, 150.0), full=(3.0, 10.0, 30.0, 90.0, 150.0))
    n_events, repeats = by_size(size, smoke=(40, 1), quick=(600, 3), full=(1_000, 3))
    plane = queries(n, 15)
    index = JoinIndex.build(plane, alpha=ALPHA)
    found = [
        routed(events(plane, n, n_keys, n_events, 150 + k, join_rate=rate), fitted(size), repeats, index)
        for k, rate in enumerate(rates)
    ]
    x = [r.partners for r in found]
    by_name = {name: [r.events_per_s[name] for r in found] for name in found[0].events_per_s}
    join_first = [100 * r.chosen["join-first"] for r in found]
    hotspot = [100 * r.chosen["hotspot"] for r in found]
    return figures(
        ("ssi-15", "ssi-16", "ssi-17"),
        size,
        ("SSI 5.4, Fig. 15", "SSI 5.4, Fig. 16", "SSI 5.4, Fig. 17"),
        "the event join rate",
        "rows that join with an event, mean",
        x,
        found,
        (
            "Dynamic is ahead of every static strategy; only join-first slows down as more rows join.",
            "Join-first loses its share to hotspot as more rows join.",
            "The router finds the optimum for a minority of events (35 %), and does well nevertheless.",
        ),
        (
            at_least(
                "join-first: rate at the least over that at the greatest join rate", *_fall(by_name["join-first"])
            ),
            # A binary search in a longer run takes a few steps more, so the others are not quite flat.
            at_most(
                "vanilla, select-first, hotspot: greatest over least rate",
                max(spread(by_name[name]) for name in ("vanilla", "select-first", "hotspot")),
                3.0,
                "it is hotspot that falls: a hotspot is passed over unless a partner lies within it, so the hotspots "
                "looked into and the queries touched there grow with the partners (terms `reached` and `touched`)",
            ),
        ),
        (
            at_least(
                "join-first's share at the least less that at the greatest join rate, %",
                join_first[0] - join_first[-1],
                1.0,
            ),
            at_most(
                "join-first: greatest rise between neighbours, %",
                max(b - a for a, b in itertools.pairwise(join_first)),
                2.0,
            ),
            at_least(
                "hotspot's share at the greatest less that at the least join rate, %", hotspot[-1] - hotspot[0], 1.0
            ),
        ),
    )


def _fall(rates: list[float]) -> tuple[float, float]:
    return rates[0] / rates[-1], 3.0


def _run(name: str, size: Size) -> Exhibit:
    return measured(size)[name]


EXHIBITS: dict[str, Run] = {name: functools.partial(_run, name) for name in ("ssi-15", "ssi-16", "ssi-17")}
