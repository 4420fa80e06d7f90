"""The kernels of window joins: what an event costs against the longest window, the queries and the joining rows.

    python -m benchmarks.micro.windows [--repeats N] [--events N] [--quick]

One of these is varied at a time, also stabbing groups and the share of queries in hotspots, over the workload of
`benchmarks.exhibits.ssi.windows`: Table I of SSI with times. For each strategy the table has microseconds an event,
output left out; ssi over join-first, with what both know of a run kept from events before (`kept`) and made for the
event (`first`), which is to be at most 1.1; and what the router takes, with how much longer that takes than the best.
All strategies must find the same queries. The table is printed as it grows and written as JSON to bench-results/.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exhibits.ssi.windows import ANY, NEW, measure_windows, with_windows
from benchmarks.exhibits.ssi.workload import clustered, table_one
from weir.index.windows.window_index import WindowIndex
from weir.index.windows.window_strategies import NAMES as STRATEGIES

SERIES = (*STRATEGIES, "join-first" + NEW, "ssi" + NEW)
RATIO_MAX = 1.1
QUERIES, JOINING, W_MAX, GROUPS = 10_000, 1_000, 0.5, 30  # of what is not varied

say = functools.partial(print, flush=True)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print and write; returns the rows of the table."""
    args = _arguments(argv)
    say(f"window joins; {platform.machine()}, {os.cpu_count()} cores; µs an event, output left out")
    say(f"{'':34}{'m_b':>7}{'listed':>8}{'found':>8}" + "".join(f"{name:>19}" for name in SERIES) + "   ssi/join-first")
    _measure({"queries": 100, "joining": 20, "w_max": W_MAX, "groups": 5, "hot": None}, args)  # compiles
    rows = []
    for what, values in args.varied.items():
        for value in values:
            row = _measure(args.base | {what: value}, args)
            rows.append({"varied": what} | row)
            say(_line(what, row))
    worst = max(max(row["ratio"].values()) for row in rows)
    say(f"ssi over join-first, the worst: {worst:.2f} (at most {RATIO_MAX})")
    where = Path("bench-results") / f"windows-{time.strftime('%Y%m%d-%H%M%S')}.json"
    where.parent.mkdir(exist_ok=True)
    where.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows}, indent=1))
    say(f"written to {where}")
    return rows


def _measure(what: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    joining = {"join_rate": what["joining"], "rows": args.kept_rows}
    if what["hot"] is None:
        joins = table_one(what["queries"], args.events, groups=what["groups"], **joining)
    else:
        joins = clustered(what["queries"], args.events, what["hot"], **joining)
    workload = with_windows(joins, what["w_max"])
    costs = measure_windows(workload, SERIES, args.repeats)
    index = WindowIndex.build(joins.plane, workload.ages)
    choices = index.search(workload.events, np.zeros(what["queries"], np.uint8), ANY).choices
    chosen = STRATEGIES[int(choices.argmax())]
    ratios = {said: costs.seconds["ssi" + of] / costs.seconds["join-first" + of] for said, of in _RUNS.items()}
    return what | {
        "joining_in_window": round(workload.joining, 1),
        "listed": round(costs.listed, 1),
        "found": round(costs.reported, 1),
        "us": {name: round(1e6 * seconds, 2) for name, seconds in costs.seconds.items()},
        "ratio": {said: round(ratio, 3) for said, ratio in ratios.items()},
        "chosen": chosen,
        "chosen_over_best": round(costs.seconds[chosen] / min(costs.seconds[name] for name in STRATEGIES), 2),
    }


_RUNS = {"kept": "", "first": NEW}


def _line(what: str, row: dict[str, Any]) -> str:
    said = f"{what} {row[what]:,}"
    took = "".join(f"{row['us'][name]:>19,.1f}" for name in SERIES)
    ratios = ", ".join(f"{said} {ratio:.2f}" for said, ratio in row["ratio"].items())
    numbers = f"{row['joining_in_window']:>7,.0f}{row['listed']:>8,.0f}{row['found']:>8,.0f}"
    return f"{said:34}{numbers}{took}   {ratios}; router: {row['chosen']}, {row['chosen_over_best']:.2f} of the best"


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.micro.windows", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    args.base = {"queries": QUERIES, "joining": JOINING, "w_max": W_MAX, "groups": GROUPS, "hot": None}
    args.kept_rows = 100_000
    args.varied = {
        "w_max": (0.001, 0.01, 0.1, 0.5, 1.0),
        "queries": (100, 1_000, 10_000, 100_000),
        "joining": (10, 100, 1_000, 10_000),
        "groups": (3, 30, 300, 3_000),
        "hot": (0.2, 0.5, 0.8, 1.0),
    }
    if args.quick:
        args.repeats, args.events, args.kept_rows = 2, 10, 1_000
        args.base |= {"queries": 300, "joining": 100, "groups": 5}
        args.varied = {"w_max": (0.1, 1.0), "queries": (100,), "joining": (20,), "groups": (20,), "hot": (0.5,)}
    return args


if __name__ == "__main__":
    main()
    sys.exit(0)
