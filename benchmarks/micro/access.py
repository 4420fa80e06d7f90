"""What it brings to choose access attributes by recent rows: event rates with and without a sample, side by side.

    python -m benchmarks.micro.access [--queries 1000000] [--events 100000] [--quick]

Boxes constrain five numbers, uniform, by intervals of one width. Events are
    uniform      where constants are: nothing is to be gained, and nothing must be lost
    skewed       of two numbers, all in a fiftieth of the range
    correlated   of two numbers, nearly equal; queries ask for what occurs, so their two intervals are nearly equal too
    empty        of one number, without a value in 98 of 100 rows
The sample is 4,096 rows that are not among the events. Both indexes must find the same pairs. Compile time is apart;
runs alternate, and each rate is the median of seven, by the time of one processor, so that others on the machine matter
little. The expected cost is what an index itself says of the sample, in candidates an event.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from typing import Any

import numpy as np

from weir.index.box_tables import BoxTable, Matches
from weir.index.grid import GridIndex
from weir.index.keys import NULL_KEY
from weir.index.samples import Sample
from weir.index.warm import warm

ATTRIBUTES = 5
DOMAIN = 10**6
SAMPLE_ROWS = 4_096
MATCHES = 2.0  # that an event has if all is uniform
ROUNDS = 7
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
    indexes: dict[str, GridIndex] = {}
    pairs, seconds = {}, {}
    for name, rows in (("constants", None), ("rows", sample)):
        begun = time.process_time()
        indexes[name] = GridIndex.build(table, n_queries, ATTRIBUTES, rows)
        row[f"build_s_{name}"] = round(time.process_time() - begun, 2)
        foreseen = indexes[name].foreseen(sample)
        row[f"cost_{name}"] = 0.0 if foreseen is None else round(foreseen.now, 1)
        seconds[name] = np.empty(ROUNDS)
    muted = np.zeros(n_queries, np.uint8)
    for turn in range(ROUNDS):
        for name, index in indexes.items():
            begun = time.process_time()
            found = index.search(events, muted, 1 << 40)
            seconds[name][turn] = time.process_time() - begun
            assert isinstance(found, Matches)
            pairs[name] = len(found.slots)
    assert pairs["constants"] == pairs["rows"], f"{kind}: {pairs}"
    for name in indexes:
        row[f"rate_{name}"] = n_events / max(float(np.median(seconds[name])), 1e-9)
    row["ratio"] = round(row["rate_rows"] / row["rate_constants"], 2)
    row["matches_per_event"] = round(pairs["rows"] / n_events, 2)
    say(f"{kind:11}{n_queries:>10,} queries, {row['matches_per_event']} matches an event: {row['ratio']}×")
    for name in indexes:
        rate, cost, build_s = (row[f"{what}_{name}"] for what in ("rate", "cost", "build_s"))
        say(f"    by {name:10}{rate:>10,.0f} events a second, expected cost {cost:>9,}, built in {build_s} s")
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
