"""SSI Fig. 10: band joins over the number of queries (a) and over the number of stabbing groups (b)."""

from __future__ import annotations

from benchmarks.exhibits.exhibit import (
    Exhibit,
    Number,
    Run,
    Size,
    at_least,
    at_most,
    by_size,
    relative,
    slope_within,
    spread,
)
from benchmarks.exhibits.ssi.bands import LADDER, BandRates, band_joins, measure_bands

STRATEGIES = ("ssi", "merge", "data-outer", "query-outer", LADDER)
NOTE = (
    "Rates are of identification: cycles inside the kernel for each event, less the cost of appending as many ids in a "
    "plain loop, but no less than a tenth of what was measured; of SSI, whose answer is stretches of its lists, the "
    "cycles of finding them. Each event counts with the lower quartile of its "
    "repetitions; all strategies were checked to find the same queries."
)
LADDER_NOTE = (
    f"`{LADDER}` is our own: cells and bits over the rows, made for a batch, lead each query to its first partner. No "
    "check is about it."
)


def run_a(size: Size) -> Exhibit:
    """Rates for 50 to 500,000 band joins; stabbing groups grow from about 10 to 60 as in the paper."""
    n_queries = by_size(
        size, smoke=(50, 200, 500), quick=(50, 500, 5_000, 50_000), full=(50, 500, 5_000, 50_000, 500_000)
    )
    groups = by_size(size, smoke=(5, 6, 7), quick=(10, 20, 35, 50), full=(10, 20, 35, 50, 60))
    rows = by_size(size, smoke=1_000, quick=20_000, full=100_000)
    n_events, repeats = by_size(size, smoke=(10, 2), quick=(20, 3), full=(50, 5))
    workloads = [band_joins(n, n_events, groups=g, rows=rows) for n, g in zip(n_queries, groups, strict=True)]
    rates = measure_bands(workloads, STRATEGIES, repeats)
    series = _columns(rates)
    ssi, others = series["ssi"], ("merge", "data-outer", "query-outer")
    ahead = min(_ratio(ssi[-1], series[name][-1]) for name in others)
    return Exhibit(
        name="ssi-10a",
        title="Band joins over the number of queries",
        section="SSI 5.2, Fig. 10(a)",
        claim=(
            "Band SSI is ahead of the others by orders of magnitude and loses at most a factor of about 3 while "
            "queries grow ten thousand times; query-outer collapses; merge is flat and then falls; data-outer is slow, "
            "but flat."
        ),
        size=size,
        x_label="queries",
        x=n_queries,
        series=series,
        unit="events/s",
        log_x=True,
        log_y=True,
        checks=(
            at_least("SSI over the best of the others at the most queries", ahead, 10.0, _AHEAD),
            at_most(
                "SSI's loss from the fewest to the most queries",
                _ratio(ssi[0], ssi[-1]),
                4.0,
                _lists(rates, [w.groups for w in workloads]),
            ),
            slope_within(
                "query-outer falls linearly over the last two decades",
                n_queries[-3:],
                series["query-outer"][-3:],
                -1.0,
                0.3,
            ),
            at_most("merge is flat over the first two sizes", _ratio(series["merge"][0], series["merge"][1]), 1.5),
            at_least("and has fallen at the most queries", _ratio(series["merge"][0], series["merge"][-1]), 1.15),
            at_most("data-outer is flat: its greatest over its least rate", spread(series["data-outer"]), 4.0, _OUTER),
        ),
        table=relative(series, "ssi")
        | {"reported an event": [r.reported for r in rates], "τ": [w.groups for w in workloads]},
        notes=(NOTE, LADDER_NOTE),
    )


def run_b(size: Size) -> Exhibit:
    """Rates for 10 to 5,000 stabbing groups at 100,000 band joins."""
    n_queries = by_size(size, smoke=1_000, quick=100_000, full=100_000)
    wanted = by_size(size, smoke=(5, 20, 80), quick=(10, 50, 250, 1_000, 5_000), full=(10, 50, 250, 1_000, 5_000))
    rows = by_size(size, smoke=1_000, quick=5_000, full=100_000)
    n_events, repeats = by_size(size, smoke=(10, 2), quick=(5, 3), full=(20, 3))
    workloads = [band_joins(n_queries, n_events, groups=g, rows=rows) for g in wanted]
    strategies = ("ssi", "merge", "data-outer", LADDER)
    rates = measure_bands(workloads, strategies, repeats)
    series = _columns(rates)
    groups = [w.groups for w in workloads]
    last = _ratio(series["ssi"][-1], max(v for name in ("merge", "data-outer") if (v := series[name][-1]) is not None))
    return Exhibit(
        name="ssi-10b",
        title="Band joins over the number of stabbing groups",
        section="SSI 5.2, Fig. 10(b)",
        claim=(
            "At 100,000 band joins SSI falls linearly with the number of stabbing groups and is still ahead at 5,000; "
            "merge and data-outer do not care."
        ),
        size=size,
        x_label="stabbing groups",
        x=groups,
        series=series,
        unit="events/s",
        log_x=True,
        log_y=True,
        checks=(
            slope_within(
                "SSI falls linearly over the last two decades", groups[-3:], series["ssi"][-3:], -1.0, 0.35, _BEYOND
            ),
            at_least("SSI over the better of merge and data-outer at the most groups", last, 1.0),
            at_most("merge does not care: its greatest over its least rate", spread(series["merge"]), 3.0, _OUTER),
        ),
        table=relative(series, "ssi") | {"reported an event": [r.reported for r in rates]},
        notes=(NOTE, LADDER_NOTE),
    )


_AHEAD = "merge walks two sorted arrays at a nanosecond or two a step, without a search"


def _lists(rates: list[BandRates], groups: list[int]) -> str:
    each = [1e9 / r.events_per_s["ssi"] / g for r, g in zip(rates, groups, strict=True)]
    return (
        f"there are {groups[-1] / groups[0]:.0f} times as many groups, and a group costs {each[-1]:.0f} ns instead of "
        f"{each[0]:.0f}: the searches in its lists are longer and leave the nearest cache"
    )


_BEYOND = (
    "a group whose point lies beyond all partners costs one comparison, and the lists of the others are the shorter, "
    "and the nearer in the cache, the more groups there are"
)
_OUTER = "each partner looks at the queries around it, which are the more the longer their ranges are"


def _columns(rates: list[BandRates]) -> dict[str, list[Number]]:
    return {name: [r.events_per_s[name] for r in rates] for name in rates[0].events_per_s}


def _ratio(first: Number, second: Number) -> float:
    assert first is not None
    assert second is not None
    return first / second


EXHIBITS: dict[str, Run] = {"ssi-10a": run_a, "ssi-10b": run_b}
