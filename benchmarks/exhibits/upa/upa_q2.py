"""UPA Figs. 11 to 14: time and space of duplicate elimination, on the source and on pairs of source and destination."""

from __future__ import annotations

from benchmarks.exhibits.exhibit import Check, Exhibit, Number, Run, Size, at_least, by_size
from benchmarks.exhibits.upa.connections import NOTE, connections
from benchmarks.exhibits.upa.costs_of import Cost, Way, columns, measure, needed, times_as_much
from benchmarks.exhibits.upa.queries import query_2
from weir.operators import layout
from weir.operators.physical import Parameters

SOURCES = 2_000
NAMES = ("NT", "DIRECT", "UPA")
SLOT_BYTES = 8 * (layout.ROW + 2)  # what a stored tuple takes in a plan whose widest tuple has two attributes
DIRECT_TUPLES_MAX = 25_000  # of a window: beyond, filling DIRECT's buffers with pairs takes minutes
STATE_NOTE = (
    "The output state of the duplicate elimination is the result in all systems. The window that NT stores holds what "
    "the projection keeps; a stored tuple takes as many bytes in all systems, and auxiliary tuples of δ* count."
)
HASHED = (
    "all three look a value up by a hash, where the paper's lists are scanned; then what NT does more is to store the "
    "window and the input, and a second delta for each tuple"
)


def costs_of(size: Size, *, pairs: bool) -> tuple[tuple[int, ...], list[dict[str, Cost]]]:
    windows = by_size(
        size,
        smoke=(100, 200),
        quick=(2_000, 10_000, 20_000, 100_000),
        full=(2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000),
    )
    costs = []
    for window in windows:
        plan = query_2(window, pairs=pairs)
        is_small = size == "full" or not pairs or window <= DIRECT_TUPLES_MAX
        ways = {
            "NT": Way(plan, "NT"),
            "DIRECT": Way(plan, "DIRECT"),
            "UPA": Way(plan, "UPA"),
            "UPA(50)": Way(plan, "UPA", Parameters(partitions=50)),
        }
        if not is_small:
            del ways["DIRECT"]
        costs.append(measure(ways, connections(needed(window, 1), 1, SOURCES), window))
    return windows, costs


def _times(name: str, figure: str, size: Size, *, pairs: bool, claim: str) -> Exhibit:
    windows, costs = costs_of(size, pairs=pairs)
    over_nt, over_direct = (times_as_much(costs, other, "UPA") for other in ("NT", "DIRECT"))
    checks = (
        (
            Check(
                "NT over UPA at the largest window (1.4 to 4)",
                1.4 <= over_nt[-1] <= 4,
                f"{over_nt[-1]:.2f}",
                _walks(costs[-1]),
            ),
            at_least(
                "DIRECT over NT at the largest window with both", over_direct[-1] / over_nt[len(over_direct) - 1], 2
            ),
        )
        if pairs
        else (
            at_least("NT over UPA at the largest window", over_nt[-1], 8, HASHED),
            at_least("DIRECT over UPA at the largest window", over_direct[-1], 8),
        )
    )
    return Exhibit(
        name=name,
        title="Duplicate elimination on " + ("source and destination" if pairs else "the source"),
        section=f"UPA 6.3, {figure}",
        claim=claim,
        size=size,
        x_label="window, time units",
        x=windows,
        series=columns(costs, NAMES, "ms"),
        unit="ms/1000 tuples",
        log_x=True,
        log_y=True,
        checks=(at_least("NT over UPA, least over windows", min(over_nt), 1.2, _walks(costs[-1])), *checks),
        table=_table(costs),
        notes=(NOTE, STATE_NOTE),
    )


def _table(costs: list[dict[str, Cost]]) -> dict[str, list[Number]]:
    found: dict[str, list[Number]] = {"results": [of["UPA"].results for of in costs]}
    for other in ("NT", "DIRECT"):
        found[f"{other} / UPA"] = [of[other].ms / of["UPA"].ms if other in of else None for of in costs]
    found["NT / UPA(50)"] = [*times_as_much(costs, "NT", "UPA(50)")]
    for other in (*NAMES, "UPA(50)"):
        found[f"walked, {other}"] = columns(costs, (other,), "walked")[other]
    return found


def _walks(of: dict[str, Cost]) -> str:
    """Why ten partitions are not enough."""
    ten, fifty = of["UPA"], of["UPA(50)"]
    return (
        f"a tuple that follows one of the same value goes into the middle of a sorted partition: {ten.walked:,.0f} "
        f"tuples are walked for an arrival with 10 partitions of {ten.results:,} results and {fifty.walked:,.0f} with "
        f"50, where NT takes {of['NT'].ms / fifty.ms:.1f} × as long as UPA; NT finds tuples by hash"
    )


def _space(name: str, figure: str, size: Size, *, pairs: bool, claim: str) -> Exhibit:
    windows, costs = costs_of(size, pairs=pairs)
    over_nt, over_direct = (times_as_much(costs, other, "UPA", "stored") for other in ("NT", "DIRECT"))
    least = 3 if pairs else 30
    kilobytes = {
        other: [None if stored is None else stored * SLOT_BYTES / 1e3 for stored in values]
        for other, values in columns(costs, NAMES, "stored").items()
    }
    table: dict[str, list[Number]] = {"results": [of["UPA"].results for of in costs]}
    for other in NAMES:
        table[f"stored tuples, {other}"] = columns(costs, (other,), "stored")[other]
    table["NT / UPA"] = [*over_nt]
    return Exhibit(
        name=name,
        title="Space of duplicate elimination on " + ("source and destination" if pairs else "the source"),
        section=f"UPA 6.3, {figure}",
        claim=claim,
        size=size,
        x_label="window, time units",
        x=windows,
        series=kilobytes,
        unit="KB",
        log_x=True,
        log_y=True,
        checks=(
            at_least("NT over UPA at the largest window", over_nt[-1], least),
            at_least(
                "DIRECT over UPA at the largest window with both",
                over_direct[-1],
                1.5 if pairs else 15,
                "DIRECT stores the input once and UPA two tuples a value",
            ),
            at_least("NT over UPA, least over windows", min(over_nt), 1.0),
        ),
        table=table,
        notes=(NOTE, STATE_NOTE, f"A stored tuple takes {SLOT_BYTES} bytes: eight numbers beside its row."),
    )


def run_11(size: Size) -> Exhibit:
    """Time, on the source."""
    claim = "With a small result UPA is about an order faster than NT and DIRECT."
    return _times("upa-11", "Fig. 11", size, pairs=False, claim=claim)


def run_12(size: Size) -> Exhibit:
    """Time, on pairs."""
    claim = "With ten times the results UPA is about twice as fast as NT, and DIRECT falls behind."
    return _times("upa-12", "Fig. 12", size, pairs=True, claim=claim)


def run_13(size: Size) -> Exhibit:
    """Space, on the source."""
    claim = "With a small result UPA stores up to two orders less than NT and DIRECT."
    return _space("upa-13", "Fig. 13", size, pairs=False, claim=claim)


def run_14(size: Size) -> Exhibit:
    """Space, on pairs."""
    claim = "With ten times the results UPA still stores clearly less."
    return _space("upa-14", "Fig. 14", size, pairs=True, claim=claim)


EXHIBITS: dict[str, Run] = {"upa-11": run_11, "upa-12": run_12, "upa-13": run_13, "upa-14": run_14}
