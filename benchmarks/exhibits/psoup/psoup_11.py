"""PSoup Fig. 11: a new join query over old data, with its hybrid structs probing one by one or as one composite tuple.

Workloads are named by the shared factor, then the hybrids' own ones. The paper says that its legend reads
RELOP2/RELOP3, but its text calls the one with the shared equality (RELOP3) Eq/Ineq, and only so do its reasons fit; we
follow the text.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.exhibits.exhibit import Check, Exhibit, Number, Run, Size, at_least, at_most, by_size
from benchmarks.exhibits.psoup.probes import EQ, FLIPPED, GE, GT, LE, LT, PROBES, Factors, Ordered, ordered, spent
from benchmarks.exhibits.psoup.workload import draw_constants, draw_values
from benchmarks.exhibits.ssi.rates import typical
from weir.index.box_tables import Int64s
from weir.runtime.calibration import ns_per_cycle

INEQUALITIES = (LT, LE, GT, GE)
SHARED_OPS = {"Eq/Ineq": (EQ,), "Ineq/Eq": INEQUALITIES, "Ineq/Ineq": INEQUALITIES}  # RELOP3
OWN_OPS = {"Eq/Ineq": INEQUALITIES, "Ineq/Eq": (EQ,), "Ineq/Ineq": INEQUALITIES}  # RELOP2
ABOUT_TWO = (1.5, 3.0)


class Query(NamedTuple):
    """(R.a relops[0] c1) AND (R.a relops[1] S.b) AND (S.b relops[2] c2)."""

    relops: tuple[int, int, int]
    c1: int
    c2: int


class Cost(NamedTuple):
    """What one workload costs at one size of the windows."""

    us: dict[str, float]  # by probe: µs a query, rows handed out
    finding_us: dict[str, float]  # the same with rows only counted
    hybrids: float  # a query
    pairs: float  # a query


def draw_queries(workload: str, n: int, random: np.random.Generator) -> list[Query]:
    """Queries of a workload; where an operator is an inequality, each of the four as often."""
    relops = (random.choice(ops, n) for ops in (INEQUALITIES, OWN_OPS[workload], SHARED_OPS[workload]))
    c1, c2 = draw_constants(n, random), draw_constants(n, random)
    return [
        Query((int(first), int(own), int(shared)), int(x), int(y))
        for first, own, shared, x, y in zip(*relops, c1, c2, strict=True)
    ]


def hybrids(query: Query, a: Int64s) -> Factors:
    """What the probe of R leaves, whose rows have `a`, ascending."""
    op, c = query.relops[0], query.c1
    begin = int(np.searchsorted(a, c, side="left" if op == GE else "right")) if op in (GT, GE) else 0
    end = int(np.searchsorted(a, c, side="left" if op == LT else "right")) if op in (LT, LE) else len(a)
    return Factors(np.ascontiguousarray(a[begin:end]), FLIPPED[query.relops[1]], query.relops[2], query.c2)


def measure(data: Ordered, factors: Sequence[Factors], repeats: int) -> Cost:
    """All probes on all queries, round and round; all must find the same rows."""
    n = len(factors)
    cycles = {(name, silent): np.empty((repeats, n)) for name in PROBES for silent in (False, True)}
    n_hybrids = n_pairs = 0
    for q, of in enumerate(factors):
        offsets = {name: np.zeros(len(of.a) + 1, np.int64) for name in PROBES}
        spent(PROBES[0], data, of, offsets[PROBES[0]], np.empty(0, np.int32), silent=True)
        found = int(offsets[PROBES[0]][-1])
        items = {name: np.empty(found, np.int32) for name in PROBES}
        for k in range(-1, repeats):  # the first time touches the memory, and does not count
            for name, silent in cycles if k % 2 else reversed(cycles):
                took = spent(name, data, of, offsets[name], items[name], silent=silent)
                if k >= 0:
                    cycles[name, silent][k, q] = took
        for name in PROBES[1:]:
            same = np.array_equal(offsets[name], offsets[PROBES[0]]) and np.array_equal(items[name], items[PROBES[0]])
            assert same, f"{name} finds other rows than {PROBES[0]}"
        n_hybrids, n_pairs = n_hybrids + len(of.a), n_pairs + found
    return Cost(_us(cycles, silent=False), _us(cycles, silent=True), n_hybrids / n, n_pairs / n)


def _us(cycles: dict[tuple[str, bool], npt.NDArray[np.float64]], *, silent: bool) -> dict[str, float]:
    tick_us = ns_per_cycle() / 1e3
    return {name: typical(cycles[name, silent]) * tick_us for name in PROBES}


def run(size: Size) -> Exhibit:
    """µs of step 5 for windows of 128 rows and more."""
    windows = by_size(
        size, smoke=(128, 256), quick=tuple(2**k for k in range(7, 13)), full=tuple(2**k for k in range(7, 15))
    )
    n_queries, repeats = by_size(size, smoke=(3, 2), quick=(60, 9), full=(100, 9))
    costs: dict[str, list[Cost]] = {}
    for number, workload in enumerate(OWN_OPS):
        queries = draw_queries(workload, n_queries, np.random.default_rng(number))
        for window in windows:
            random = np.random.default_rng(window)
            a, data = np.sort(draw_values(window, random)), ordered(draw_values(window, random))
            costs.setdefault(workload, []).append(measure(data, [hybrids(q, a) for q in queries], repeats))
    sort_us = _sort_us(round(costs["Eq/Ineq"][-1].hybrids), repeats)
    series: dict[str, list[Number]] = {
        f"{workload} {probe}": [cost.us[probe] for cost in of]
        for workload, of in costs.items()
        for probe in ("separate", "composite")
    }
    gains = {workload: [_gain(cost.us) for cost in of] for workload, of in costs.items()}
    sharing = [_gain(cost.us, "shared once") for cost in costs["Eq/Ineq"]]
    table: dict[str, list[Number]] = {f"{workload}, separate / composite": [*gain] for workload, gain in gains.items()}
    table |= {f"{workload}, rows counted only": [_gain(c.finding_us) for c in of] for workload, of in costs.items()}
    table["Eq/Ineq, separate / shared once"] = [*sharing]
    table |= {f"pairs of {workload}": [cost.pairs for cost in of] for workload, of in costs.items()}
    return Exhibit(
        name="psoup-11",
        title="A new join query's probes, as composite tuples or separate",
        section="PSoup 5.4.2, Fig. 11",
        claim=(
            "A composite tuple is about twice as fast as separate hybrid structs where the shared factor is an "
            "equality and their own are inequalities (Eq/Ineq), ahead the other way round (Ineq/Eq), and no gain where "
            "all are inequalities."
        ),
        size=size,
        x_label="rows in each window",
        x=windows,
        series=series,
        unit="µs a query",
        log_x=True,
        log_y=True,
        checks=(
            _about_two(
                "Eq/Ineq: separate over composite, mean over windows",
                gains["Eq/Ineq"],
                _merged(costs["Eq/Ineq"], sharing),
            ),
            _about_two("Eq/Ineq: separate over the shared factor applied once, without the merge", sharing),
            at_least("Ineq/Eq: separate over composite, at every window", min(gains["Ineq/Eq"]), 1.1),
            at_most("Ineq/Ineq: separate over composite at the largest window", gains["Ineq/Ineq"][-1], 1.1),
            at_most(
                "Ineq/Ineq: separate over composite, mean over windows",
                _mean(gains["Ineq/Ineq"]),
                1.1,
                _handed_out(costs["Ineq/Ineq"]),
            ),
        ),
        table=table,
        notes=(
            f"Step 5 alone, as in the paper: hybrids are there, rows of S are handed out for each, the structure of "
            f"results is not touched. Means of {n_queries} queries, cycles inside the kernel, of each the lower "
            f"quartile of {repeats} repetitions; all probes were checked to find the same rows.",
            "Windows are those of Table 1, from its least on; the text does not name the x axis of the figure. "
            "Workloads are named by the shared factor, then the own one, as the text has it (the legend is said to be "
            "the other way round).",
            "S is a sorted array instead of a red-black tree, and R is probed through an index too, so hybrids come "
            f"in order and the merge needs no sort. If they did not, sorting them would take {sort_us:.0f} µs a query "
            f"at the largest window, where separate probes of Eq/Ineq take {costs['Eq/Ineq'][-1].us['separate']:.0f} "
            f"and composite ones {costs['Eq/Ineq'][-1].us['composite']:.0f}.",
            "A new join query of Weir is answered over old rows in this way (`answer/recompute`): conditions on one "
            "side are applied once to the rows of that side, and equalities are joined by sorting.",
        ),
    )


def _sort_us(n: int, repeats: int) -> float:
    """What it takes to find the order of n hybrids."""
    a = draw_values(n, np.random.default_rng(0))
    took = []
    for _ in range(repeats):
        begun = time.perf_counter()
        np.argsort(a)
        took.append(time.perf_counter() - begun)
    return 1e6 * min(took)


def _gain(us: dict[str, float], probe: str = "composite") -> float:
    return us["separate"] / us[probe]


def _mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _about_two(what: str, ratios: Sequence[float], reason: str = "") -> Check:
    least, most = ABOUT_TWO
    found = _mean(ratios)
    return Check(f"{what} ({least:g} to {most:g})", least <= found <= most, f"{found:.2f}", reason)


def _merged(costs: Sequence[Cost], sharing: Sequence[float]) -> str:
    last = costs[-1]
    each = {probe: 1e3 * last.finding_us[probe] / last.hybrids for probe in PROBES}
    return (
        f"applying the shared factor once is worth {_mean(sharing):.1f} by itself; the merge comes on top: a hybrid's "
        f"own factor is a step of {each['composite']:.1f} ns instead of a search ({each['shared once']:.1f} ns, with "
        f"the shared one {each['separate']:.1f})"
    )


def _handed_out(costs: Sequence[Cost]) -> str:
    first, last = ((100 * cost.finding_us["separate"] / cost.us["separate"], cost) for cost in (costs[0], costs[-1]))
    return (
        f"handing out the rows costs the same in both, and finding them, which a merge of sorted sides does for "
        f"inequalities too, is {first[0]:.0f} % of the time at {first[1].pairs:,.0f} pairs a query and {last[0]:.0f} % "
        f"at {last[1].pairs:,.0f}"
    )


EXHIBITS: dict[str, Run] = {"psoup-11": run}
