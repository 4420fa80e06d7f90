"""SSI Fig. 8: select joins over the event selection rate (a) and over the event join rate (b)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.exhibits.exhibit import Exhibit, Number, Run, Size, at_most, by_size, relative, slope_within, spread
from benchmarks.exhibits.ssi.rates import NOTE, Rates, columns, measure
from benchmarks.exhibits.ssi.workload import table_one

STRATEGIES_A = ("select-first", "ssi")
STRATEGIES_B = ("vanilla", "join-first", "select-first", "ssi")
SELECTED_B = 250  # queries that an event selects in (b), as in Fig. 7(b)
INDIFFERENT = 2.0  # greatest over least rate of a strategy that does not care, over factors of a thousand of x


def run_a(size: Size) -> Exhibit:
    """Rates for 10 to 10,000 selected of 100,000 queries."""
    n_queries = by_size(size, smoke=1_000, quick=100_000, full=100_000)
    wanted = by_size(
        size, smoke=(5, 20, 100), quick=(10, 100, 1_000, 10_000), full=(10, 30, 100, 300, 1_000, 3_000, 10_000)
    )
    n_events, repeats = by_size(size, smoke=(20, 2), quick=(200, 11), full=(1_000, 11))
    rows, join_rate = by_size(size, smoke=(2_000, 100), quick=(100_000, 1_000), full=(100_000, 1_000))
    workloads = [
        table_one(n_queries, n_events, selection_rate=n / n_queries, join_rate=join_rate, rows=rows) for n in wanted
    ]
    selected = [float(w.selected.mean()) for w in workloads]
    rates = measure(workloads, STRATEGIES_A, repeats)
    series = columns(rates, STRATEGIES_A)
    return Exhibit(
        name="ssi-8a",
        title="Select joins over the event selection rate",
        section="SSI 5.1, Fig. 8(a)",
        claim="The rate of select-first falls linearly with the queries that an event selects; SSI does not care.",
        size=size,
        x_label="queries selected by an event",
        x=selected,
        series=series,
        unit="events/s",
        log_x=True,
        log_y=True,
        checks=(
            # Below a hundred queries the fixed cost of an event is as large as the work for them.
            slope_within(
                "select-first falls linearly from the second rate on",
                selected[1:],
                series["select-first"][1:],
                -1.0,
                0.25,
                _cheaper(selected, rates),
            ),
            at_most("SSI: greatest over least rate", spread(series["ssi"]), INDIFFERENT, _enumeration(rates)),
        ),
        table=relative(series, "ssi")
        | {
            "ssi / ssi at the least": [_over(v, series["ssi"][0]) for v in series["ssi"]],
            "reported an event": [r.reported for r in rates],
        },
        notes=(NOTE,),
    )


def run_b(size: Size) -> Exhibit:
    """Rates for 10 to 10,000 joining rows at 100,000 queries."""
    n_queries = by_size(size, smoke=1_000, quick=100_000, full=100_000)
    wanted = by_size(
        size, smoke=(5, 20, 100), quick=(10, 100, 1_000, 10_000), full=(1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
    )
    n_events, repeats = by_size(size, smoke=(20, 2), quick=(60, 11), full=(500, 11))
    rows = by_size(size, smoke=2_000, quick=100_000, full=100_000)
    selected = min(SELECTED_B, n_queries // 10)
    share = selected / n_queries
    workloads = [table_one(n_queries, n_events, selection_rate=share, join_rate=m, rows=rows) for m in wanted]
    joining = [float(w.joining.mean()) for w in workloads]
    rates = measure(workloads, STRATEGIES_B, repeats)
    series = columns(rates, STRATEGIES_B)
    reasons = {"vanilla": _searched(joining), "select-first": _searched(joining), "ssi": _passed_over(series["ssi"])}
    indifferent = [
        at_most(f"{name}: greatest over least rate", spread(series[name]), INDIFFERENT, reason)
        for name, reason in reasons.items()
    ]
    return Exhibit(
        name="ssi-8b",
        title="Select joins over the event join rate",
        section="SSI 5.1, Fig. 8(b)",
        claim="Only the rate of join-first falls with the rows that join with an event, and it falls linearly.",
        size=size,
        x_label="joining rows an event",
        x=joining,
        series=series,
        unit="events/s",
        log_x=True,
        log_y=True,
        checks=(
            slope_within("join-first falls linearly", joining, series["join-first"], -1.0, 0.25),
            *indifferent,
        ),
        table=relative(series, "ssi") | {"reported an event": [r.reported for r in rates]},
        notes=(NOTE, f"An event selects {selected} queries on average."),
    )


def _enumeration(rates: Sequence[Rates]) -> str:
    """Where the time of SSI goes that grows with the selected queries."""
    least, most = rates[0], rates[-1]
    each = (1e9 / most.events_per_s["ssi"] - 1e9 / least.events_per_s["ssi"]) / (most.reported - least.reported)
    return (
        f"nearly every selected query has a joining row in its range and is reported, and each report costs {each:.1f} "
        f"ns beyond the {most.append_ns:.1f} ns of appending it, as lists are read and tested entry by entry"
    )


def _cheaper(selected: Sequence[float], rates: Sequence[Rates]) -> str:
    """What a selected query costs select-first where they are few and where they are many."""
    few, many = (1e9 / rates[k].events_per_s["select-first"] / selected[k] for k in (1, -1))
    return (
        f"a selected query costs {few:.0f} ns at {selected[1]:,.0f} and {many:.0f} ns at {selected[-1]:,.0f}: the more "
        "are selected, the more of what they need has been brought into the cache for another"
    )


def _searched(joining: Sequence[float]) -> str:
    few, many = (math.log2(m) for m in (joining[0], joining[-1]))
    return (
        f"a search takes place in the event's own run, log m' steps: {few:.0f} at the fewest and {many:.0f} at the "
        f"most rows, where the run of {8 * joining[-1] / 1000:.0f} kB leaves the first cache; the paper's search in a "
        "B-tree of all rows takes as many steps at any join rate"
    )


def _passed_over(ssi: Sequence[Number]) -> str:
    return (
        "at the fewest rows it is faster, because a group without a joining row in its extent is passed over; from the "
        f"second rate on greatest over least is {spread(ssi[1:]):.2f}"
    )


def _over(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


EXHIBITS: dict[str, Run] = {"ssi-8a": run_a, "ssi-8b": run_b}
