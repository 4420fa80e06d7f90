"""Join results of many attributes (W5): Weir's strategies one by one, naive and PDFA, and peers in the same run.

    python -m benchmarks.micro.boxes [--queries 100000,1000000] [--results 1,5,50] [--law uniform,skewed,correlated]
                                     [--ways all|grid,rtree-pdfa,…] [--peers all|none|duckdb,…] [--batch N]
                                     [--seconds S] [--clock wall|processor] [--quick]

An event is a tuple that arrives, with its join results; an answer is the ids of the queries of each of these. Most ways
take each join result for an event of a selection; `pairs` is what joins of two do in production: the tuple meets its
partners, and pairs of queries and partners are found (`weir.index.joining`), by the strategy that costs least. All are
loaded before the clock starts; compile time is reported apart; each figure is the median of three runs. Slices of the
batch go to two threads, whole events each. A way or a peer that cannot answer the batch in `--seconds` answers as many
of its first events as it can, and a peer is compared with the best of Weir's ways on exactly those events. Every answer
is checked: the ids of all ways against the scan's on some events, the numbers of all peers on all of theirs.

On a machine that does other work too, `--clock processor` counts seconds of processors instead of the clock's; engines
that work in processes of their own, Spark, cannot be measured so.

Beside the rates: PDFA's gain over naive against the number of join results; how many queries a second each index
inserts and deletes; and the largest number of queries against the smallest that match as many an event.
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
from typing import Any, NamedTuple

import numpy as np

from benchmarks.micro.partial import Standing as Joined
from benchmarks.micro.timing import CLOCKS, events_within, rate, seconds_of, use
from benchmarks.peers.peer import BoxPeer
from benchmarks.peers.registry import BOX_NAMES, load_box
from benchmarks.workloads import LAWS, SELECTIVITY, BoxWorkload, w5, w5_even
from weir.index.box_tables import BoxTable, Matches
from weir.index.joining.pairs import Pairs
from weir.index.strategies import STRATEGIES
from weir.index.warm import warm

BATCH = 20_000  # join results
QUERIES = "100000,1000000"
RESULTS = "1,5,50"
USUAL_RESULTS = 5  # of the laws other than uniform, and where sizes are compared
QUICK_PEERS = tuple(name for name in BOX_NAMES if not name.startswith("spark"))
CHANGED = 10_000  # queries that are inserted and deleted
_CHECKED = 100  # join results whose ids are compared one by one
_ANY = 1 << 50  # a budget of pairs that is never reached

say = functools.partial(print, flush=True)


class Way(NamedTuple):
    """One way to find the queries of join results."""

    name: str
    strategy: str
    is_stepped: bool = False  # PDFA: what the tuple's own attributes found is shared by its join results
    is_paired: bool = False  # the tuple meets its partners, as in a join of two


WAYS = {
    way.name: way
    for strategy, index in STRATEGIES.items()
    for way in (Way(strategy, strategy), Way(f"{strategy}-pdfa", strategy, True))
    if index.takes_steps or not way.is_stepped
} | {"pairs": Way("pairs", "auto", is_paired=True)}
TREES = tuple(way.strategy for way in WAYS.values() if way.is_stepped)  # indexes that have both naive and PDFA


class Standing:
    """A table of queries with an index for each strategy, built when it is first asked for."""

    def __init__(self, workload: BoxWorkload, indexes: dict[str, Any] | None = None) -> None:
        self.workload = workload
        self.build_s: dict[str, float] = {}
        self._indexes: dict[str, Any] = indexes or {}
        self._joined: Joined | None = None
        self._muted = np.zeros(workload.n_queries, dtype=np.uint8)

    def index(self, strategy: str) -> Any:
        if strategy not in self._indexes:
            begun = time.perf_counter()
            w = self.workload
            self._indexes[strategy] = STRATEGIES[strategy].build(w.table, w.n_queries, w.n_attributes)
            self.build_s[strategy] = time.perf_counter() - begun
        return self._indexes[strategy]

    @property
    def joined(self) -> Joined:
        """The same queries as those of a join of two."""
        if self._joined is None:
            self._joined = Joined(self.workload)
        return self._joined

    def bytes_per_query(self, way: Way) -> float:
        return self.joined.bytes_in_all if way.is_paired else self.index(way.strategy).nbytes / self.workload.n_queries

    def built_in_s(self, way: Way) -> float:
        if way.is_paired:
            return self.joined.build_two_s + self.joined.build_partial_s
        return self.build_s[way.strategy]

    def meet(self, workload: BoxWorkload) -> None:
        """Go on with other tuples for the same queries."""
        assert np.array_equal(workload.table.constraint_lo, self.workload.table.constraint_lo), "other queries"
        self.workload = workload
        if self._joined is not None:
            self._joined.meet(workload)

    def search(self, way: Way, n_events: int, threads: int = 2) -> list[Matches | Pairs]:
        """The queries of the first events' join results, by slices of whole events."""
        w = self.workload
        cuts = np.linspace(0, n_events, threads + 1).astype(int).tolist()
        index: Any = self.joined if way.is_paired else self.index(way.strategy)
        steps = w.steps if way.is_stepped else ()

        def one(edges: tuple[int, int]) -> Matches | Pairs:
            first, stop = edges
            if way.is_paired:
                pairs: Pairs = index.pairs(way.strategy, stop, first)
                return pairs
            keys = np.ascontiguousarray(w.keys[:, first * w.n_results : stop * w.n_results])
            found = index.search(keys, self._muted, _ANY, steps)
            assert isinstance(found, Matches), "the budget is boundless"
            return found

        if threads == 1:
            return [one((0, cuts[-1]))]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(one, itertools.pairwise(cuts)))

    def pairs(self, way: Way, n_events: int, threads: int = 2) -> int:
        return sum(len(part.slots) for part in self.search(way, n_events, threads))

    def rate(self, way: Way, n_events: int, threads: int = 2) -> float:
        return rate(lambda: self.search(way, n_events, threads), n_events)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print and write; returns the rows of the table."""
    args = _arguments(argv)
    use(args.clock)
    say(f"kernels compiled or loaded in {_warm():.1f} s; {platform.machine()}, {os.cpu_count()} cores")
    second = "second of a processor" if args.clock == "processor" else "second"
    say(f"rates are events a {second}, medians of three, 2 threads; × is the best of Weir's ways over the peer")
    rows: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for law, n_queries in itertools.product(args.law, args.queries):
        results = args.results if law == "uniform" else [USUAL_RESULTS]
        standing: Standing | None = None
        for n_results in results:
            workload = w5(n_queries, _batch(args.batch, n_results), n_results, args.seed, law=law)
            if standing is None:
                standing = Standing(workload)
            standing.meet(workload)
            rows.append(measure(standing, args.ways, args.peers, args.seconds))
        assert standing is not None, "no number of join results"
        if law == "uniform":
            changed = [strategy for strategy in TREES if f"{strategy}-pdfa" in args.ways]
            changes += [_changes(standing, strategy, args.changed) for strategy in changed]
    _say_gains(rows)
    even = _even(args)
    where = Path("bench-results") / f"boxes-{time.strftime('%Y%m%d-%H%M%S')}.json"
    where.parent.mkdir(exist_ok=True)
    where.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows, "changes": changes, "even": even}, indent=1))
    say(f"written to {where}")
    return rows


def measure(standing: Standing, ways: tuple[str, ...], peers: tuple[str, ...], seconds: float) -> dict[str, Any]:
    """One row: Weir's ways and its peers on one workload."""
    workload = standing.workload
    checked = min(max(_CHECKED // workload.n_results, 1), workload.n_events)
    expected = _ids(standing, WAYS["scan"], checked)
    row: dict[str, Any] = {
        "workload": workload.name,
        "queries": workload.n_queries,
        "results_per_event": workload.n_results,
        "batch_events": workload.n_events,
        "answer_sha256": hashlib.sha256(expected[0].tobytes() + expected[1].tobytes()).hexdigest()[:16],
        "ways": {},
        "peers": {},
    }
    say(
        f"\n{row['workload']}  {row['queries']:,} queries, {row['results_per_event']} join results an event, batch "
        f"{row['batch_events']:,}, answer {row['answer_sha256']}"
    )
    for name in ways:
        row["ways"][name] = _measure_way(standing, WAYS[name], checked, expected, seconds)
    best = max(row["ways"], key=lambda name: row["ways"][name]["2_threads"])
    row["best"] = best
    n = row["ways"][best]["events"]
    row["matches_per_event"] = round(standing.pairs(WAYS[best], n) / n, 2)
    say(f"  best: {best}; {row['matches_per_event']} matches an event")
    for name in peers:
        row["peers"][name] = _measure_peer(standing, WAYS[best], load_box(name), seconds)
    _say_ratios(row)
    return row


def _measure_way(
    standing: Standing, way: Way, checked: int, expected: tuple[np.ndarray, np.ndarray], seconds: float
) -> dict[str, Any]:
    found = _ids(standing, way, checked)
    same = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert same, f"{way.name} finds other queries than the scan"
    answer = functools.partial(standing.pairs, way)
    events = events_within(answer, standing.workload.n_events, min(seconds, 0.5), first=checked)
    result: dict[str, Any] = {f"{threads}_threads": standing.rate(way, events, threads) for threads in (2, 1)}
    result["events"] = events
    result["bytes_per_query"] = round(standing.bytes_per_query(way), 1)
    result["build_s"] = round(standing.built_in_s(way), 2)
    each = 1e6 / result["2_threads"] / standing.workload.n_results
    say(
        f"  {way.name:18}{result['2_threads']:>12,.0f}            ids   1 thread {result['1_threads']:,.0f}; "
        f"{each:,.1f} µs a join result, {result['bytes_per_query']} bytes a query, built in {result['build_s']} s"
    )
    return result


def _measure_peer(standing: Standing, best: Way, peer: BoxPeer, seconds: float) -> dict[str, Any]:
    workload = standing.workload
    answer = peer.prepare(workload)
    n_events = events_within(answer, workload.n_events, seconds, first=max(20 // workload.n_results, 1))
    pairs, expected = answer(n_events), standing.pairs(best, n_events)
    assert pairs == expected, f"{peer.name} found {pairs}, not {expected}"
    peer_rate = rate(lambda: answer(n_events), n_events)
    weir_rate = standing.rate(best, n_events, peer.threads)
    result = {
        "events_per_s": peer_rate,
        "events": n_events,
        "threads": peer.threads,
        "ids_returned": peer.returns_ids,
        "weir_on_same_events": weir_rate,
        "ratio": round(weir_rate / peer_rate, 2),
    }
    say(f"  {peer.name:18}{peer_rate:>12,.1f}{result['ratio']:>10,.1f}× count {pairs:,} agree, {n_events:,} events")
    return result


def _say_ratios(row: dict[str, Any]) -> None:
    """What is asked of W5: the best way against the best engine and against the scan."""
    if "scan" in row["ways"]:
        row["ratio_to_scan"] = round(row["ways"][row["best"]]["2_threads"] / row["ways"]["scan"]["2_threads"], 1)
        say(f"  {row['ratio_to_scan']:,.1f} × the scan")
    if row["peers"]:
        engine = min(row["peers"], key=lambda name: row["peers"][name]["ratio"])
        row["ratio_to_best_engine"] = row["peers"][engine]["ratio"]
        say(f"  {row['ratio_to_best_engine']:,.1f} × the best engine ({engine})")


def _say_gains(rows: list[dict[str, Any]]) -> None:
    """PDFA over naive, by the number of join results."""
    for row, strategy in itertools.product(rows, TREES):
        if {strategy, f"{strategy}-pdfa"} <= set(row["ways"]):
            naive, stepped = (row["ways"][name]["1_threads"] for name in (strategy, f"{strategy}-pdfa"))
            gains = row.setdefault("gains", {})
            gains[strategy] = round(stepped / naive, 2)
    gained = [row for row in rows if "gains" in row]
    if gained:
        say("\nPDFA's gain over naive, one thread")
    for row in gained:
        gains = ", ".join(f"{strategy} {gain} ×" for strategy, gain in row["gains"].items())
        say(f"  {row['workload']}, {row['queries']:,} queries, {row['results_per_event']} join results: {gains}")


def _even(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The smallest and the largest number of queries with as many matches a join result, by each way."""
    found = []
    sizes = sorted({min(args.queries), max(args.queries)})
    for n_queries in sizes:
        n_events = _batch(args.batch, USUAL_RESULTS)
        standing = Standing(w5_even(n_queries, n_events, SELECTIVITY * sizes[0], USUAL_RESULTS, args.seed))
        rates = {}
        for name in args.ways:
            events = events_within(functools.partial(standing.pairs, WAYS[name]), n_events, 0.5, first=5)
            rates[name] = standing.rate(WAYS[name], events)
        best = max(rates, key=lambda name: rates[name])
        matches = standing.pairs(WAYS[best], n_events) / n_events
        found.append({"queries": n_queries, "matches_per_event": round(matches, 1), "rates": rates})
    if len(sizes) > 1:
        small, large = found
        say(
            f"\nW5, {large['queries']:,} queries against {small['queries']:,} that match as many an event "
            f"({large['matches_per_event']} and {small['matches_per_event']}), {USUAL_RESULTS} join results:"
        )
        best = max(large["rates"].values()) / max(small["rates"].values())
        say(f"  the best of each: {best:.2f} of the rate")
        for name in args.ways:
            say(f"  {name}: {large['rates'][name] / small['rates'][name]:.2f} of the rate")
    return found


def _changes(standing: Standing, strategy: str, changed: int) -> dict[str, Any]:
    """Queries that an index deletes and inserts a second: random ones go and come back, and it answers as before."""
    workload = standing.workload
    index: Any = STRATEGIES[strategy].build(workload.table, workload.n_queries, workload.n_attributes)
    some = Standing(workload, {strategy: index})
    n_events = max(_CHECKED // workload.n_results, 1)
    before = _ids(some, WAYS[strategy], n_events)
    chosen = np.sort(np.random.default_rng(1).choice(workload.n_queries, changed, replace=False)).astype(np.int32)
    deleted_s = seconds_of(lambda: index.delete(chosen))
    without = _ids(some, WAYS[strategy], n_events)
    assert not np.isin(without[1], chosen).any(), f"{strategy} finds queries that were deleted"
    inserted_s = seconds_of(lambda: index.insert(_part(workload.table, chosen)))
    after = _ids(some, WAYS[strategy], n_events)
    assert all(np.array_equal(a, b) for a, b in zip(after, before, strict=True)), f"{strategy} lost queries"
    found = {
        "index": strategy,
        "queries": workload.n_queries,
        "changed": changed,
        "inserts_per_s": changed / inserted_s,
        "deletes_per_s": changed / deleted_s,
        "rate_before": standing.rate(WAYS[strategy], n_events),
        "rate_after": some.rate(WAYS[strategy], n_events),
    }
    kept = found["rate_after"] / found["rate_before"]
    say(
        f"  {strategy}: {found['inserts_per_s']:,.0f} inserts and {found['deletes_per_s']:,.0f} deletes a second, "
        f"{changed:,} of {workload.n_queries:,} queries; then {kept:.2f} of the rate"
    )
    return found


def _part(table: BoxTable, chosen: np.ndarray) -> BoxTable:
    """The named boxes of a table in which all boxes have as many constraints."""
    width = len(table.constraint_lo) // len(table.slot_of_box)
    at = (chosen[:, None].astype(np.int64) * width + np.arange(width)).reshape(-1)
    return BoxTable(
        table.slot_of_box[chosen],
        np.arange(0, len(at) + 1, width, dtype=np.int64),
        table.constraint_attribute[at],
        table.constraint_lo[at],
        table.constraint_hi[at],
    )


def _ids(standing: Standing, way: Way, n_events: int) -> tuple[np.ndarray, np.ndarray]:
    if way.is_paired:
        return standing.joined.by_result(way.strategy, n_events)
    [found] = standing.search(way, n_events, threads=1)
    return found.offsets, found.slots


def _batch(wanted: int, n_results: int) -> int:
    """Events of a batch."""
    return max((wanted or BATCH) // n_results, 1)


def _warm() -> float:
    """Compile, or load, every kernel for the types that a search gives it."""
    took = warm(None, {*STRATEGIES, "joins", "pairs", "partial"})
    standing = Standing(w5(2_000, 20, 2))
    return took + seconds_of(lambda: [standing.search(way, 20, 1) for way in WAYS.values()])


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.micro.boxes", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", default=QUERIES)
    parser.add_argument("--results", default=RESULTS, help="join results an event")
    parser.add_argument("--law", default=",".join(LAWS), help="of values: " + ", ".join(LAWS))
    parser.add_argument("--ways", default="all", help="all, or names: " + ", ".join(WAYS))
    parser.add_argument("--peers", default=None, help="all, none, or names: " + ", ".join(BOX_NAMES))
    parser.add_argument("--batch", type=int, default=0, help=f"join results of a batch; by default {BATCH:,}")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long one run of a peer may take")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    args.changed = CHANGED
    if args.quick:
        args.batch, args.seconds, args.queries, args.results = args.batch or 200, 0.1, "500,5000", "1,5"
        args.changed = 100
    args.queries, args.results = ([int(n) for n in given.split(",")] for given in (args.queries, args.results))
    args.law = args.law.split(",")
    args.ways = tuple(WAYS) if args.ways == "all" else tuple(args.ways.split(","))
    if args.peers in (None, "all"):
        is_short = args.peers is None and (args.quick or args.clock == "processor")
        args.peers = QUICK_PEERS if is_short else BOX_NAMES
    else:
        args.peers = tuple(name for name in args.peers.split(",") if name != "none")
    unknown = [n for n in args.peers if n not in BOX_NAMES] + [w for w in args.ways if w not in WAYS]
    unknown += [law for law in args.law if law not in LAWS]
    if args.clock == "processor" and any(name not in QUICK_PEERS for name in args.peers):
        parser.error("Spark works in a process of its own, whose processors --clock processor does not see")
    if unknown:
        parser.error(
            f"unknown: {', '.join(unknown)}; ways: {', '.join(WAYS)}; peers: {', '.join(BOX_NAMES)}; "
            f"laws: {', '.join(LAWS)}"
        )
    return args


if __name__ == "__main__":
    main()
    sys.exit(0)
