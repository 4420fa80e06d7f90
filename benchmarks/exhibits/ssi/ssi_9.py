"""SSI Fig. 9: select joins over the share of queries that are in hotspots."""

from __future__ import annotations

import itertools

from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_least, at_most, by_size, relative, spread
from benchmarks.exhibits.ssi.rates import NOTE, columns, measure
from benchmarks.exhibits.ssi.workload import ALPHA, clustered, hotspot_share

STRATEGIES = ("select-first", "ssi", "hotspot", "sweep")


def run(size: Size) -> Exhibit:
    """Rates for 10 to 100 % of the queries in hotspots, α = 0.1 %."""
    n_queries = by_size(size, smoke=2_000, quick=50_000, full=500_000)
    targets = by_size(size, smoke=(0.1, 0.5, 1.0), quick=_tenths(), full=_tenths())
    n_events, repeats = by_size(size, smoke=(20, 2), quick=(100, 11), full=(300, 11))
    rows, join_rate = by_size(size, smoke=(2_000, 100), quick=(100_000, 1_000), full=(100_000, 1_000))
    alpha = by_size(size, smoke=0.02, quick=ALPHA, full=ALPHA)  # 2,000 queries have no groups of 0.1 %
    workloads = [clustered(n_queries, n_events, target, join_rate=join_rate, rows=rows) for target in targets]
    shares = [100 * hotspot_share(w.plane, alpha) for w in workloads]
    groups = [w.groups for w in workloads]
    rates = measure(workloads, STRATEGIES, repeats, alpha)
    series = columns(rates, STRATEGIES)
    hotspot = [r.events_per_s["hotspot"] for r in rates]
    select_first = [r.events_per_s["select-first"] for r in rates]
    ssi = [r.events_per_s["ssi"] for r in rates]
    ahead = [h / s for h, s in zip(hotspot, select_first, strict=True)]
    return Exhibit(
        name="ssi-9",
        title="Select joins over the share of queries in hotspots",
        section="SSI 5.1, Fig. 9",
        claim=(
            "The hotspot strategy improves steadily with the share of queries in hotspots and never collapses on "
            "scattered queries as SSI does; select-first behaves the same throughout; neither it nor SSI always wins."
        ),
        size=size,
        x_label="% of queries in hotspots (α = 0.1 %)",
        x=shares,
        series=series,
        unit="events/s",
        log_y=True,
        checks=(
            # Over select-first, which meets the same moments of the machine; 5 % is what is left of the noise.
            at_least(
                "hotspot over select-first: least ratio of neighbouring places, as the share grows",
                min(b / a for a, b in itertools.pairwise(ahead)),
                0.95,
            ),
            at_least("hotspot at the largest share over that at the smallest", hotspot[-1] / hotspot[0], 1.1),
            # Ahead by more than noise; the paper gives no figure for the collapse.
            at_least("hotspot over SSI at the smallest share", hotspot[0] / ssi[0], 1.1),
            # Probing the hotspots in vain costs something when nearly all queries are scattered.
            at_least("hotspot over select-first, at worst", min(ahead), 0.8),
            at_most("select-first: greatest over least rate", spread(select_first), 1.5),
            at_most("SSI over select-first at the smallest share", ssi[0] / select_first[0], 1.0),
            at_least("SSI over select-first at the largest share", ssi[-1] / select_first[-1], 1.0),
        ),
        table=relative(series, "select-first") | {"τ": groups, "reported an event": [r.reported for r in rates]},
        notes=(
            NOTE,
            f"{n_queries:,} queries, of which an event selects a tenth. Targets were 10 to 100 %; the queries at the "
            "tails of the hot region are in groups too small to be hotspots.",
            "`sweep` is our own strategy; the paper does not have it and no check is about it.",
        ),
    )


def _tenths() -> tuple[float, ...]:
    return tuple(k / 10 for k in range(1, 11))


EXHIBITS: dict[str, Run] = {"ssi-9": run}
