"""The kernels of band joins on W4 with peers beside them in one run.

    python -m benchmarks.micro.bands [--queries 1000,…] [--peers all|none|scan,…] [--batch N] [--seconds S] [--quick]

As `benchmarks.micro.joins`: queries and kept rows are loaded before the clock starts, figures are medians of three,
Weir hands out the ids of the affected queries, ascending, and its clock covers the order of the batch and the ladder
over the rows. A peer answers
as many of the first events as it can in `--seconds` and is compared with Weir on exactly those. All strategies and the
scan must find the same ids on some events, the SQL engines as many result rows as there are on all of theirs.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.micro.joins import id_write_rates
from benchmarks.micro.timing import events_within, rate
from benchmarks.peers.bands import PEERS, BandPeer, joined_rows, scan
from benchmarks.workloads import BandWorkload, w4, w4_even
from weir.index.bands.band_index import BandIndex
from weir.index.bands.band_strategies import NAMES as STRATEGIES
from weir.index.box_tables import Matches
from weir.index.keys import KEY_MAX, NULL_KEY
from weir.index.meeting.index_contract import Tuning, band_meeting
from weir.index.meeting.partner_runs import make_run
from weir.index.meeting.planes import Plane

BATCH = 200_000
IDS_MAX = 100_000_000
EVEN_MATCHES = 75.0
_CHECKED = 100
_ANY = 1 << 50

say = functools.partial(print, flush=True)


class Standing:
    """The queries of a workload, indexed, and its kept rows."""

    def __init__(self, workload: BandWorkload) -> None:
        self.workload = workload
        n = workload.n_queries
        begun = time.perf_counter()
        plane = Plane(np.full(n, NULL_KEY), np.full(n, KEY_MAX), workload.lo, workload.hi)
        self.index = BandIndex.build(plane, is_double=False)
        self.build_s = time.perf_counter() - begun
        self.muted = np.zeros(n, dtype=np.uint8)
        self.choices = np.zeros(len(STRATEGIES), dtype=np.int64)

    def search(self, n_events: int, threads: int = 1, strategy: str = "auto", *, order: bool = True) -> list[Matches]:
        """The affected queries of the first events, by slices of the batch; in the order of b unless told otherwise."""
        run = make_run(self.workload.rows, False, is_one=True)
        cuts = np.linspace(0, n_events, threads + 1).astype(int)

        def one(edges: tuple[int, int]) -> tuple[Matches, np.ndarray]:
            b = self.workload.events[slice(*edges)]
            if order:
                b = np.sort(b)
            begin, end = np.zeros(len(b), np.int64), np.full(len(b), len(self.workload.rows))
            found = self.index.search(band_meeting(begin, b, begin, end, run), self.muted, _ANY, Tuning(strategy))
            assert isinstance(found.matches, Matches), "the budget is boundless"
            return found.matches, found.choices

        edges = list(itertools.pairwise(cuts.tolist()))
        if threads == 1:
            found = [one(edges[0])]
        else:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(one, edges))
        self.choices = sum((choices for _, choices in found), start=np.zeros(len(STRATEGIES), dtype=np.int64))
        return [matches for matches, _ in found]

    def ids(self, n_events: int, strategy: str = "auto") -> int:
        return sum(len(part.slots) for part in self.search(n_events, 2, strategy))

    def rate(self, n_events: int, threads: int, strategy: str = "auto") -> float:
        return rate(lambda: self.search(n_events, threads, strategy), n_events)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print and write; returns the rows of the table."""
    args = _arguments(argv)
    for strategy in ("auto", *STRATEGIES):
        Standing(w4(500, 50, rows=2_000)).search(50, 1, strategy)  # compile, or load
    say(f"band joins; {platform.machine()}, {os.cpu_count()} cores; rates are events a second, medians of three")
    writes = id_write_rates()
    rows = [measure(w4(n, _batch(n, args.batch), args.seed), args.peers, args.seconds, writes) for n in args.queries]
    even = [_even(n, args.batch or BATCH, args.seed) for n in args.even]
    if len(even) > 1:
        ratio = even[-1]["weir_2_threads"] / even[0]["weir_2_threads"]
        say(
            f"\nW4, {even[-1]['queries']:,} queries against {even[0]['queries']:,} that affect as many an event "
            f"({even[-1]['matches_per_event']} and {even[0]['matches_per_event']}): {ratio:.2f} of the rate"
        )
    where = Path("bench-results") / f"bands-{time.strftime('%Y%m%d-%H%M%S')}.json"
    where.parent.mkdir(exist_ok=True)
    where.write_text(json.dumps({"cores": os.cpu_count(), "id_writes": writes, "rows": rows, "even": even}, indent=1))
    say(f"written to {where}")
    return rows


def measure(workload: BandWorkload, peers: tuple[str, ...], seconds: float, writes: dict[str, float]) -> dict[str, Any]:
    """One row: Weir, its strategies one by one, and its peers on one workload."""
    standing = Standing(workload)
    n = workload.n_events
    checked = min(_CHECKED, n)
    [first] = standing.search(checked, order=False)
    row: dict[str, Any] = {
        "workload": workload.name,
        "queries": workload.n_queries,
        "batch_events": n,
        "kept_rows": len(workload.rows),
        "matches_per_event": round(standing.ids(n) / n, 2),
        "bytes_per_query": round(standing.index.nbytes / workload.n_queries, 1),
        "build_s": round(standing.build_s, 2),
        "strategies": {},
        "peers": {},
    }
    row["choices"] = {s: int(c) for s, c in zip(STRATEGIES, standing.choices, strict=True) if c}
    row["weir_1_thread"], row["weir_2_threads"] = (standing.rate(n, threads) for threads in (1, 2))
    row["ids_per_s"] = row["weir_2_threads"] * row["matches_per_event"]
    row["share_of_writes"] = {where: round(row["ids_per_s"] / most, 3) for where, most in writes.items()}
    say(
        f"\n{row['workload']}  {row['queries']:,} queries, batch {n:,}, {row['kept_rows']:,} kept rows, "
        f"{row['matches_per_event']} affected queries an event, {row['bytes_per_query']} bytes a query, "
        f"built in {row['build_s']} s; chosen: {row['choices']}"
    )
    say(
        f"  {'weir, 2 threads':18}{row['weir_2_threads']:>12,.0f}            ids   1 thread {row['weir_1_thread']:,.0f}"
    )
    shares = ", ".join(f"{100 * share:.0f} % of {where}" for where, share in row["share_of_writes"].items())
    say(f"  {'ids a second':18}{row['ids_per_s']:>12,.0f}            {shares}")
    for name in STRATEGIES:
        events = events_within(functools.partial(standing.ids, strategy=name), n, min(seconds, 0.5), first=5)
        [found] = standing.search(checked if name != "data-outer" else min(checked, 20), 1, name, order=False)
        assert np.array_equal(found.slots, first.slots[: len(found.slots)]), f"{name} finds other queries than auto"
        row["strategies"][name] = standing.rate(events, 2, name)
        say(f"  {name:18}{row['strategies'][name]:>12,.0f}            ids   {events:,} events")
    [parts] = scan(workload, checked, threads=1)
    assert np.array_equal(np.concatenate(parts), first.slots), "the scan finds other queries"
    for name in peers:
        row["peers"][name] = _measure_peer(standing, PEERS[name], seconds)
    return row


def _measure_peer(standing: Standing, peer: BandPeer, seconds: float) -> dict[str, Any]:
    workload = standing.workload
    answer = peer.prepare(workload)
    n_events = events_within(answer, workload.n_events, seconds, first=peer.first)
    pairs = answer(n_events)
    expected = standing.ids(n_events) if peer.returns_ids else joined_rows(workload, n_events)
    assert pairs == expected, f"{peer.name} found {pairs}, not {expected}"
    peer_rate = rate(lambda: answer(n_events), n_events)
    result = {
        "events_per_s": peer_rate,
        "events": n_events,
        "ratio": round(standing.rate(n_events, 2) / peer_rate, 2),
        "ratio_to_full_batch": round(standing.rate(workload.n_events, 2) / peer_rate, 2),
    }
    kind = "ids  " if peer.returns_ids else "count"
    say(
        f"  {peer.name:18}{peer_rate:>12,.1f}{result['ratio']:>10,.1f}× {kind} {pairs:,} agree, {n_events:,} events; "
        f"Weir's full batch {result['ratio_to_full_batch']:,.1f}×"
    )
    return result


def _even(n_queries: int, n_events: int, seed: int) -> dict[str, Any]:
    standing = Standing(w4_even(n_queries, n_events, min(EVEN_MATCHES, n_queries / 10), seed))
    return {
        "queries": n_queries,
        "matches_per_event": round(standing.ids(n_events) / n_events, 1),
        "weir_2_threads": standing.rate(n_events, 2),
    }


def _batch(n_queries: int, wanted: int) -> int:
    return max(min(wanted or BATCH, int(IDS_MAX / (0.19 * n_queries))), 100)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.micro.bands", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", default="1000,10000,100000")
    parser.add_argument("--peers", default=None, help="all, none, or names: " + ", ".join(PEERS))
    parser.add_argument("--batch", type=int, default=0, help=f"events; by default {BATCH:,}, fewer for many queries")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long one run of a peer may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    args.even = [1_000, 1_000_000]
    if args.quick:
        args.batch, args.seconds, args.queries, args.even = args.batch or 200, 0.05, "500", [200, 2_000]
        args.peers = args.peers or ",".join(name for name in PEERS if not name.startswith("spark"))
    args.queries = [int(n) for n in args.queries.split(",")]
    given = args.peers or "all"
    args.peers = tuple(PEERS) if given == "all" else tuple(name for name in given.split(",") if name != "none")
    unknown = [p for p in args.peers if p not in PEERS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; peers: {', '.join(PEERS)}")
    return args


if __name__ == "__main__":
    main()
    sys.exit(0)
