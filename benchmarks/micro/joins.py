"""The kernels of select joins on W3, broad and narrow, with peers beside them in one run.

    python -m benchmarks.micro.joins [--queries 10000,100000,1000000] [--case broad,narrow] [--peers all|none|scan,…]
                                     [--strategies all|auto|…] [--batch N] [--seconds S] [--quick]

Queries, kept rows and events are loaded before the clock starts; compile time is reported apart; each figure is the
median of three runs. Weir's clock covers the order of the batch, the lookup of every event's run of partners and the
search; it hands out the ids of all affected queries, each once an event, ascending. Threads take slices of the batch.
A peer answers the same batch if it can do so in `--seconds`, else as many of its first events as it can, and is
compared with Weir on exactly those events. Every answer is checked: the ids of all strategies against one another and
against the scan's on some events, the numbers of all peers on all of theirs.

Beside the rates: ids written a second as a share of what this machine writes when it does nothing else; what the order
of the batch brings over that of arrival; and a million queries against a thousand that affect as many an event.
The table is printed as it grows and written as JSON to bench-results/.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np

from benchmarks.micro.timing import events_within, rate, seconds_of
from benchmarks.peers.peer import JoinPeer
from benchmarks.peers.registry import JOIN_NAMES, load_join
from benchmarks.workloads import JOINS, JoinWorkload, w3_even
from weir.index.box_tables import Matches
from weir.index.joins.join_index import JoinIndex, batch_order
from weir.index.joins.join_strategies import NAMES as STRATEGIES
from weir.index.meeting.index_contract import Tuning, plain_meeting
from weir.index.meeting.partners import build_partners, locate

BATCH = 200_000  # events
IDS_MAX = 100_000_000  # a batch of broad queries is cut to about so many ids
BROAD_QUERIES_MAX = 100_000  # a million would be 54,000 ids an event
EVEN_MATCHES = 90.0  # affected queries an event when sizes are compared: what a million narrow ones give
QUICK_PEERS = tuple(name for name in JOIN_NAMES if not name.startswith("spark"))
_CHECKED = 300  # events whose ids are compared one by one
_ANY = 1 << 50  # a budget of pairs that is never reached

say = functools.partial(print, flush=True)


class Standing:
    """The queries of a workload, indexed, and its kept rows."""

    def __init__(self, workload: JoinWorkload, strategies: tuple[str, ...] = STRATEGIES) -> None:
        self.workload = workload
        begun = time.perf_counter()
        self.index = JoinIndex.build(workload.plane, strategies=strategies)
        self.build_s = time.perf_counter() - begun
        self.partners = build_partners(workload.row_keys, workload.row_values)
        self.muted = np.zeros(workload.n_queries, dtype=np.uint8)
        self.choices = np.zeros(len(STRATEGIES), dtype=np.int64)  # of the last search

    def search(self, n_events: int, threads: int = 1, strategy: str = "auto", *, order: bool = True) -> list[Matches]:
        """The affected queries of the first events, by slices of the batch."""
        cuts = np.linspace(0, n_events, threads + 1).astype(int)
        one = functools.partial(self._search, strategy, order)
        if threads == 1:
            found = [one((0, n_events))]
        else:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(one, itertools.pairwise(cuts.tolist())))
        self.choices = sum((choices for _, choices in found), start=np.zeros(len(STRATEGIES), dtype=np.int64))
        return [matches for matches, _ in found]

    def _search(self, strategy: str, order: bool, edges: tuple[int, int]) -> tuple[Matches, np.ndarray]:
        keys, a = self.workload.keys[slice(*edges)], self.workload.values[slice(*edges)]
        if order:
            permutation = batch_order(keys, a)
            keys, a = keys[permutation], a[permutation]
        begin, end = locate(self.partners, keys)
        meeting = plain_meeting(a, begin, end, self.partners.values)
        found = self.index.search(meeting, self.muted, _ANY, Tuning(strategy))
        assert isinstance(found.matches, Matches), "the budget is boundless"
        return found.matches, found.choices

    def pairs(self, n_events: int) -> int:
        return sum(len(part.slots) for part in self.search(n_events, 2))

    def rate(self, n_events: int, threads: int, strategy: str = "auto", *, order: bool = True) -> float:
        return rate(lambda: self.search(n_events, threads, strategy, order=order), n_events)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print and write; returns the rows of the table."""
    args = _arguments(argv)
    say(f"join kernels compiled or loaded in {_warm():.1f} s; {platform.machine()}, {os.cpu_count()} cores")
    writes = id_write_rates()
    say(
        "ids written a second by a plain loop, 2 threads: "
        + ", ".join(f"{k} {v / 1e9:.1f} G" for k, v in writes.items())
    )
    say("rates are events a second, medians of three; × is Weir's rate over the peer's on the same events and cores")
    rows: list[dict[str, Any]] = []
    for case in args.case:
        for n_queries in args.queries:
            if case == "broad" and n_queries > BROAD_QUERIES_MAX:
                continue
            name = f"W3 {case}"
            workload = JOINS[name](n_queries, _batch(case, n_queries, args.batch), args.seed)
            rows.append(measure(workload, args.strategies, args.peers, args.seconds, writes))
    even = [_even(n, args.batch or BATCH, args.seed) for n in args.even]
    if len(even) > 1:
        ratio = even[-1]["weir_2_threads"] / even[0]["weir_2_threads"]
        say(
            f"\nW3, {even[-1]['queries']:,} queries against {even[0]['queries']:,} that affect as many an event "
            f"({even[-1]['matches_per_event']} and {even[0]['matches_per_event']}): {ratio:.2f} of the rate"
        )
    where = Path("bench-results") / f"joins-{time.strftime('%Y%m%d-%H%M%S')}.json"
    where.parent.mkdir(exist_ok=True)
    where.write_text(json.dumps({"cores": os.cpu_count(), "id_writes": writes, "rows": rows, "even": even}, indent=1))
    say(f"written to {where}")
    return rows


def measure(
    workload: JoinWorkload,
    strategies: tuple[str, ...],
    peers: tuple[str, ...],
    seconds: float,
    writes: dict[str, float],
) -> dict[str, Any]:
    """One row: Weir, its strategies one by one, and its peers on one workload."""
    standing = Standing(workload)
    n = workload.n_events
    begin, end = locate(standing.partners, workload.keys)
    [found] = standing.search(n, order=False)
    digest = hashlib.sha256(found.offsets.tobytes() + found.slots.tobytes()).hexdigest()[:16]
    checked = min(_CHECKED, n)
    first = found.slots[: found.offsets[checked]].copy()
    row: dict[str, Any] = {
        "workload": workload.name,
        "queries": workload.n_queries,
        "batch_events": n,
        "kept_rows": len(workload.row_keys),
        "partners_per_event": round(float((end - begin).mean()), 1),
        "matches_per_event": round(len(found.slots) / n, 2),
        "bytes_per_query": round(standing.index.nbytes / workload.n_queries, 1),
        "bytes_per_query_sweep": round(Standing(workload, ("sweep",)).index.nbytes / workload.n_queries, 1),
        "build_s": round(standing.build_s, 2),
        "answer_sha256": digest,
        "ids_returned": True,
        "strategies": {},
        "peers": {},
    }
    del found
    row["choices"] = {s: int(c) for s, c in zip(STRATEGIES, standing.choices, strict=True) if c}
    row["weir_1_thread"], row["weir_2_threads"] = (standing.rate(n, threads) for threads in (1, 2))
    row["arrival_order_2_threads"] = standing.rate(n, 2, order=False)
    row["ids_per_s"] = row["weir_2_threads"] * row["matches_per_event"]
    row["share_of_writes"] = {where: round(row["ids_per_s"] / most, 3) for where, most in writes.items()}
    _say_weir(row)
    for name in strategies:
        took = functools.partial(_pairs_of, standing, name)
        events = events_within(took, n, min(seconds, 0.5), first=20)
        assert np.array_equal(_first_ids(standing, name, checked), first), f"{name} finds other queries than auto"
        rates = {f"{threads}_threads": standing.rate(events, threads, name) for threads in (1, 2)}
        row["strategies"][name] = {**rates, "events": events}
        say(f"  {name:18}{rates['2_threads']:>12,.0f}            ids   1 thread {rates['1_threads']:,.0f}")
    for name in peers:
        row["peers"][name] = _measure_peer(standing, load_join(name), seconds, first)
    return row


def _say_weir(row: dict[str, Any]) -> None:
    say(
        f"\n{row['workload']}  {row['queries']:,} queries, batch {row['batch_events']:,}, "
        f"{row['kept_rows']:,} kept rows, "
        f"{row['partners_per_event']} partners and {row['matches_per_event']} affected queries an event, "
        f"{row['bytes_per_query']} bytes a query ({row['bytes_per_query_sweep']} for sweep alone), "
        f"built in {row['build_s']} s; chosen: {row['choices']}"
    )
    shares = ", ".join(f"{100 * share:.0f} % of {where}" for where, share in row["share_of_writes"].items())
    say(f"  {'weir, 2 threads':18}{row['weir_2_threads']:>12,.0f}            ids   answer {row['answer_sha256']}")
    say(f"  {'weir, 1 thread':18}{row['weir_1_thread']:>12,.0f}            ids")
    say(f"  {'in arrival order':18}{row['arrival_order_2_threads']:>12,.0f}            ids   2 threads")
    say(f"  {'ids a second':18}{row['ids_per_s']:>12,.0f}            {shares}")


def _measure_peer(standing: Standing, peer: JoinPeer, seconds: float, first: np.ndarray) -> dict[str, Any]:
    workload = standing.workload
    answer = peer.prepare(workload)
    n_events = events_within(answer, workload.n_events, seconds, first=peer.first)
    pairs = answer(n_events)
    expected = _joined_rows(workload, n_events) if peer.counts_rows else standing.pairs(n_events)
    assert pairs == expected, f"{peer.name} found {pairs}, not {expected}"
    if peer.name == "scan":
        from benchmarks.peers.select_join_scan import scan

        [(_, buffers)] = scan(workload, min(_CHECKED, workload.n_events), threads=1)
        assert np.array_equal(np.concatenate(buffers), first), "the scan finds other queries"
    peer_rate = rate(lambda: answer(n_events), n_events)
    weir_rate = standing.rate(n_events, peer.threads)
    result = {
        "events_per_s": peer_rate,
        "events": n_events,
        "threads": peer.threads,
        "ids_returned": peer.returns_ids,
        "weir_on_same_events": weir_rate,
        "ratio": round(weir_rate / peer_rate, 2),
        "ratio_to_full_batch": round(standing.rate(workload.n_events, peer.threads) / peer_rate, 2),
    }
    kind = "ids  " if peer.returns_ids else "count"
    say(
        f"  {peer.name:18}{peer_rate:>12,.0f}{result['ratio']:>10,.1f}× {kind} {pairs:,} agree, {n_events:,} events; "
        f"Weir's full batch {result['ratio_to_full_batch']:,.1f}×"
    )
    return result


def _joined_rows(workload: JoinWorkload, n_events: int) -> int:
    from benchmarks.peers.select_join_scan import joined_rows

    return joined_rows(workload, n_events)


def _pairs_of(standing: Standing, strategy: str, n_events: int) -> int:
    return sum(len(part.slots) for part in standing.search(n_events, 1, strategy))


def _first_ids(standing: Standing, strategy: str, n_events: int) -> np.ndarray:
    [found] = standing.search(n_events, 1, strategy, order=False)
    return found.slots


def _even(n_queries: int, n_events: int, seed: int) -> dict[str, Any]:
    matches = min(EVEN_MATCHES, n_queries / 10)
    standing = Standing(w3_even(n_queries, n_events, matches, seed))
    return {
        "queries": n_queries,
        "matches_per_event": round(standing.pairs(n_events) / n_events, 1),
        "weir_2_threads": standing.rate(n_events, 2),
    }


def _batch(case: str, n_queries: int, wanted: int) -> int:
    most = int(IDS_MAX / (0.054 * n_queries)) if case == "broad" else BATCH
    return min(wanted or BATCH, most)


@numba.njit(nogil=True)
def _write_ids(out: Any, rounds: int) -> None:
    for r in range(rounds):
        for i in range(len(out)):
            out[i] = i + r


def id_write_rates(threads: int = 2) -> dict[str, float]:
    """int32 ids that `threads` loops write a second: to 256 MB, and to buffers that stay in a core's cache."""
    found = {}
    for where, size, rounds in (("256 MB", (256 << 20) // 4 // threads, 1), ("cache", (128 << 10) // 4, 2_000)):
        buffers = [np.zeros(size, dtype=np.int32) for _ in range(threads)]
        _write_ids(buffers[0], 1)
        with ThreadPoolExecutor(threads) as pool:

            def write() -> None:
                list(pool.map(lambda buffer: _write_ids(buffer, rounds), buffers))  # noqa: B023  # called at once

            write()
            found[where] = threads * size * rounds / min(seconds_of(write) for _ in range(5))
    return found


def _warm() -> float:
    """Compile, or load, every kernel for the types that a search gives it."""
    begun = time.perf_counter()
    standing = Standing(JOINS["W3 narrow"](2_000, 200, 1, rows=2_000))
    for strategy in ("auto", *STRATEGIES):
        standing.search(200, 1, strategy)
    return time.perf_counter() - begun


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.micro.joins", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", default="10000,100000,1000000")
    parser.add_argument("--case", default="broad,narrow")
    parser.add_argument("--strategies", default="all", help="all, none, or names: " + ", ".join(STRATEGIES))
    parser.add_argument("--peers", default=None, help="all, none, or names: " + ", ".join(JOIN_NAMES))
    parser.add_argument("--batch", type=int, default=0, help=f"events; by default {BATCH:,}, fewer for broad queries")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long one run of a peer may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    args.even = [1_000, max(1_000, *(int(n) for n in args.queries.split(",")))] if args.queries else []
    if args.quick:
        args.batch, args.seconds, args.queries, args.even = args.batch or 500, 0.1, "200,2000", [200, 2_000]
    args.queries = [int(n) for n in args.queries.split(",")]
    args.case = args.case.split(",")
    args.strategies = _chosen(args.strategies, STRATEGIES)
    args.peers = QUICK_PEERS if args.quick and args.peers is None else _chosen(args.peers or "all", JOIN_NAMES)
    unknown = [p for p in args.peers if p not in JOIN_NAMES] + [s for s in args.strategies if s not in STRATEGIES]
    unknown += [c for c in args.case if f"W3 {c}" not in JOINS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; peers: {', '.join(JOIN_NAMES)}; cases: broad, narrow")
    return args


def _chosen(given: str, every: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(every) if given == "all" else tuple(name for name in given.split(",") if name != "none")


if __name__ == "__main__":
    main()
    sys.exit(0)
