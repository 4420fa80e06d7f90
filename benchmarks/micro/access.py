"""What it brings to choose access attributes by recent rows: event rates with and without a sample, side by side.

    python -m benchmarks.micro.access [--queries 1000000] [--events 100000] [--quick]

Boxes constrain five numbers, uniform, by intervals of one width. Events are
    uniform      where constants are: nothing is to be gained, and nothing must be lost
    skewed       of two numbers, all in a fiftieth of the range
    correlated   of two numbers, nearly equal; queries ask for what occurs, so their two intervals are nearly equal too
    empty        of one number, without a value in 98 of 100 rows
The sample is 4,096 rows that are not among the events. Both indexes must find the same pairs. Compile time is apart;
each rate is the median of three runs, on one thread.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from typing import Any

import numpy as np

from benchmarks.micro.timing import rate
from benchmarks.peers.strategies import search_in_threads
from weir.index.box_tables import BoxTable
from weir.index.keys import NULL_KEY
from weir.index.samples import Sample
from weir.index.strategies import STRATEGIES
from weir.index.warm import warm

ATTRIBUTES = 5
DOMAIN = 10**6
SAMPLE_ROWS = 4_096
MATCHES = 2.0  # that an event has if all is uniform
KINDS = ("uniform", "skewed", "correlated", "empty")

say = functools.partial(print, flush=True)


def draw(kind: str, n_queries: int, n_events: int, seed: int) -> tuple[BoxTable, np.ndarray, Sample]:
    """Queries, events and a sample of a kind."""
    rng = np.random.default_rng(seed)
    width = int(DOMAIN * (MATCHES / n_queries) ** (1 / ATTRIBUTES))
    lo = rng.integers(0, DOMAIN - width, (n_queries, ATTRIBUTES))
    rows = rng.integers(0, DOMAIN, (ATTRIBUTES, n_events + SAMPLE_ROWS))
    if kind == "skewed":
        rows[:2] = DOMAIN // 2 + rows[:2] // 50
    if kind == "correlated":
        lo[:, 1] = np.clip(lo[:, 0] + rng.integers(-width // 8, width // 8 + 1, n_queries), 0, DOMAIN - width)
        rows[1] = rows[0] + rng.integers(-width // 8, width // 8 + 1, rows.shape[1])
    if kind == "empty":
        rows[-1, rng.random(rows.shape[1]) < 0.98] = NULL_KEY
    offsets = np.arange(0, n_queries * ATTRIBUTES + 1, ATTRIBUTES, dtype=np.int64)
    attribute = np.tile(np.arange(ATTRIBUTES, dtype=np.int32), n_queries)
    table = BoxTable(np.arange(n_queries, dtype=np.int32), offsets, attribute, lo.reshape(-1), lo.reshape(-1) + width)
    sample = Sample(np.ascontiguousarray(rows[:, :SAMPLE_ROWS]), np.ones(ATTRIBUTES, np.bool_))
    return table, np.ascontiguousarray(rows[:, SAMPLE_ROWS:]), sample


def measure(kind: str, n_queries: int, n_events: int, seed: int) -> dict[str, Any]:
    """One line: both indexes on one workload."""
    table, events, sample = draw(kind, n_queries, n_events, seed)
    row: dict[str, Any] = {"kind": kind, "queries": n_queries}
    pairs = {}
    for name, rows in (("constants", None), ("rows", sample)):
        begun = time.perf_counter()
        index = STRATEGIES["grid"].build(table, n_queries, ATTRIBUTES, rows)
        row[f"build_s_{name}"] = round(time.perf_counter() - begun, 2)
        pairs[name] = len(search_in_threads(index, events, n_queries, 1)[0].slots)
        search = functools.partial(search_in_threads, index, events, n_queries, 1)
        row[f"rate_{name}"] = rate(search, n_events)
    assert pairs["constants"] == pairs["rows"], f"{kind}: {pairs}"
    row["ratio"] = round(row["rate_rows"] / row["rate_constants"], 2)
    row["matches_per_event"] = round(pairs["rows"] / n_events, 2)
    say(
        f"{kind:12}{n_queries:>10,} queries  {row['matches_per_event']:>6} matches an event  by constants "
        f"{row['rate_constants']:>10,.0f}  by rows {row['rate_rows']:>10,.0f} events a second  {row['ratio']:>6}×  "
        f"built in {row['build_s_constants']} s and {row['build_s_rows']} s"
    )
    return row


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Run and print; returns the lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.micro.access", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    if args.quick:
        args.queries, args.events = 2_000, 500
    say(f"kernels compiled or loaded in {warm(None, ['grid']):.1f} s")
    return [measure(kind, args.queries, args.events, args.seed) for kind in KINDS]


if __name__ == "__main__":
    main()
    sys.exit(0)
