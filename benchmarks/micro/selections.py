"""The kernels on W1 and W2, with peers beside them in one run.

    python -m benchmarks.micro.selections [--queries 1000,10000,100000,1000000] [--workload W1,W2]
                                          [--peers all|none|ncls,duckdb,…] [--batch N,N,…] [--seconds S]
                                          [--clock wall|processor] [--quick]

Queries and events are loaded before the clock starts; compile time is reported apart; each figure is the median of
three runs. Weir hands out the ids of all pairs, sorted by event and query: by the index that `strategy = auto` chooses,
and beside it by the grid and by a sweep alone, which it chooses between for each batch (a sweep where every query
constrains one attribute; elsewhere it is no match for a grid). A peer answers the same batch as Weir if it can do so in
`--seconds`, else as many of its first events as it can, and is compared with Weir on exactly those events; a peer of
one thread is compared with one thread of Weir. Every peer's number of pairs must be Weir's.
`--clock processor` counts seconds of processors, for a machine that does other work too; engines of their own process
cannot be measured so.
The table is printed as it grows and written as JSON to bench-results/.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.micro.timing import CLOCKS, events_within, rate, use
from benchmarks.peers.registry import NAMES, load
from benchmarks.peers.strategies import search_in_threads
from benchmarks.workloads import WORKLOADS, Workload
from weir.index.box_tables import Matches
from weir.index.strategies import STRATEGIES, Strategy, choose
from weir.index.warm import warm

BATCH = {"W1": 1_000_000, "W2": 200_000}  # events
WAYS = ("grid", "sweep")  # that are measured alone, too
QUICK_PEERS = tuple(name for name in NAMES if not name.startswith("spark"))

say = functools.partial(print, flush=True)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print and write; returns the rows of the table."""
    args = _arguments(argv)
    use(args.clock)
    say(f"kernels compiled or loaded in {warm(None, STRATEGIES):.1f} s; {platform.machine()}, {os.cpu_count()} cores")
    say("rates are events a second, medians of three; × is Weir's rate over the peer's on the same events and cores")
    rows: list[dict[str, Any]] = []
    for name in args.workload:
        for n_queries in args.queries:
            made = (WORKLOADS[name](n_queries, n, args.seed) for n in args.batch or (BATCH[name],))
            rows.extend(measure(workload, args.peers, args.seconds) for workload in made)
        for n_events in args.batch or (BATCH[name],):
            _say_scaling([row for row in rows if (row["workload"], row["batch_events"]) == (name, n_events)])
    where = Path("bench-results") / f"selections-{time.strftime('%Y%m%d-%H%M%S')}.json"
    where.parent.mkdir(exist_ok=True)
    where.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows}, indent=1))
    say(f"written to {where}")
    return rows


def measure(workload: Workload, peers: tuple[str, ...], seconds: float) -> dict[str, Any]:
    """One row: Weir and its peers on one workload."""
    begun = time.perf_counter()
    index = _build(choose(workload.table, workload.n_queries, workload.n_attributes), workload)
    build_s = time.perf_counter() - begun
    alone = {name: _build(name, workload) for name in (WAYS if workload.n_attributes == 1 else WAYS[:1])}
    found = _search(index, workload, workload.n_events, 1)[0]
    row: dict[str, Any] = {
        "workload": workload.name,
        "queries": workload.n_queries,
        "batch_events": workload.n_events,
        "matches_per_event": round(len(found.slots) / workload.n_events, 2),
        "bytes_per_query": round(index.nbytes / workload.n_queries, 1),
        "build_s": round(build_s, 2),
        "weir_1_thread": _rate(index, workload, 1),
        "weir_2_threads": _rate(index, workload, 2),
        "alone_1_thread": {name: _rate(one, workload, 1) for name, one in alone.items()},
        "ids_returned": True,
        "answer_sha256": hashlib.sha256(found.offsets.tobytes() + found.slots.tobytes()).hexdigest()[:16],
        "peers": {},
    }
    say(
        f"\n{row['workload']}  {row['queries']:,} queries, batch {row['batch_events']:,}, "
        f"{row['matches_per_event']} matches an event, {row['bytes_per_query']} bytes a query, "
        f"built in {row['build_s']} s"
    )
    say(f"  {'weir, 2 threads':18}{row['weir_2_threads']:>12,.0f}            ids   answer {row['answer_sha256']}")
    say(f"  {'weir, 1 thread':18}{row['weir_1_thread']:>12,.0f}            ids")
    for name, alone_rate in row["alone_1_thread"].items():
        say(f"  {f'{name}, 1 thread':18}{alone_rate:>12,.0f}            ids")
    for name in peers:
        peer = load(name)
        if workload.name in peer.workloads:
            row["peers"][name] = _measure_peer(index, alone, workload, found, name, seconds)
    return row


def _build(strategy: str, workload: Workload) -> Strategy:
    return STRATEGIES[strategy].build(workload.table, workload.n_queries, workload.n_attributes)


def _rate(index: Strategy, workload: Workload, threads: int) -> float:
    return rate(lambda: _search(index, workload, workload.n_events, threads), workload.n_events)


def _measure_peer(
    index: Strategy, alone: dict[str, Strategy], workload: Workload, found: Matches, name: str, seconds: float
) -> dict[str, Any]:
    peer = load(name)
    answer = peer.prepare(workload)
    n_events = events_within(answer, workload.n_events, seconds)
    pairs = answer(n_events)
    assert pairs == found.offsets[n_events], f"{name} found {pairs} pairs, Weir {found.offsets[n_events]}"
    peer_rate = rate(lambda: answer(n_events), n_events)
    weir_rate = rate(lambda: _search(index, workload, n_events, peer.threads), n_events)
    ratios = {
        way: round(rate(functools.partial(_search, one, workload, n_events, peer.threads), n_events) / peer_rate, 2)
        for way, one in alone.items()
    }
    result = {
        "events_per_s": peer_rate,
        "events": n_events,
        "threads": peer.threads,
        "ids_returned": peer.returns_ids,
        "weir_on_same_events": weir_rate,
        "ratio": round(weir_rate / peer_rate, 2),
        "ratios_alone": ratios,
    }
    kind = "ids  " if peer.returns_ids else "count"
    cores = f", {n_events:,} events, {peer.threads} thread{'s' if peer.threads > 1 else ''}"
    ways = ", ".join(f"{way} {ratio:,.2f}×" for way, ratio in ratios.items())
    say(f"  {name:18}{peer_rate:>12,.0f}{result['ratio']:>10,.2f}× {kind} {pairs:,} pairs agree{cores}; {ways}")
    return result


def _search(index: Strategy, workload: Workload, n_events: int, threads: int) -> list[Matches]:
    return search_in_threads(index, workload.keys[:, :n_events], workload.n_queries, threads)


def _say_scaling(rows: list[dict[str, Any]]) -> None:
    if len(rows) > 1:
        first, last = rows[0], rows[-1]
        ratio = last["weir_2_threads"] / first["weir_2_threads"]
        say(f"\n{first['workload']}: {last['queries']:,} against {first['queries']:,} queries: {ratio:.2f} of the rate")


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.micro.selections", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", default="1000,10000,100000,1000000")
    parser.add_argument("--workload", default="W1,W2")
    parser.add_argument("--peers", default=None, help="all, none, or names: " + ", ".join(NAMES))
    parser.add_argument("--batch", default="", help="events; by default 1,000,000 for W1 and 200,000 for W2")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long one run of a peer may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    if args.quick:
        args.batch, args.seconds, args.queries = args.batch or "2000", 0.2, "200,2000"
    args.batch = [int(n) for n in args.batch.split(",") if n]
    args.queries = [int(n) for n in args.queries.split(",")]
    args.workload = args.workload.split(",")
    if args.peers in (None, "all"):
        args.peers = QUICK_PEERS if args.quick and args.peers is None else NAMES
    else:
        args.peers = tuple(name for name in args.peers.split(",") if name != "none")
    unknown = [n for n in args.peers if n not in NAMES] + [w for w in args.workload if w not in WORKLOADS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; peers: {', '.join(NAMES)}; workloads: {', '.join(WORKLOADS)}")
    return args


if __name__ == "__main__":
    np.seterr(all="raise")
    main()
    sys.exit(0)
