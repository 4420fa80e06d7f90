"""What fetching costs after thousands of batches, with a million standing queries: one query, and thousands at once.

    python -m benchmarks.micro.fetches [--queries 1000000] [--batches 3600] [--rows 1000] [--results 100]
                                       [--together 10000] [--folder DIR] [--clock wall|processor] [--quick]

Queries are ranges of prices, each of which matches `--results` of all rows; every row is in the window. The job's
housekeeping runs as in a job. Measured are

    cold              a new process: opening the weir and fetching one query; imports are not counted
    warm              the same process again: one query that it has just fetched
    another           the same process: queries that it has not fetched yet
    nothing new       `changes` with a token of now
    together          `--together` queries by one `fetch` of the weir, the first time and again
    one by one        as many single fetches, of which a sample is measured

All are medians; answers that were fetched together are held against single ones. With `--folder` the weir is built
there, or taken as it is if it is there already. On a machine that does other work too, `--clock processor` counts
seconds of processors instead of the clock's.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import weir
from benchmarks.micro.timing import CLOCKS, seconds_of, use
from weir.runtime.housekeeping import Housekeeping
from weir.store.core_runs import compact
from weir.testing.direct import DirectWeir

ROOT = Path(__file__).resolve().parent.parent.parent
START_US = 1_767_225_600_000_000
GROUPS = 10  # registrations
COLD = 7  # processes
SAMPLE = 200  # single fetches
TEXT = "SELECT name, price FROM trade WHERE price BETWEEN :lo AND :hi"
COLD_SCRIPT = """
import sys, time
import weir.api
clock = time.process_time if sys.argv[3] == "processor" else time.perf_counter
begun = clock()
w = weir.open(sys.argv[1], create=False)
opened = clock()
rows = w.query(int(sys.argv[2])).fetch().num_rows
print(opened - begun, clock() - begun, rows)
"""

say = functools.partial(print, flush=True)


def build(folder: Path, args: argparse.Namespace) -> None:
    """A weir with queries, and batches of rows of the last hour."""
    w = weir.open(folder)
    w.stream("trade", "name string, price double, ts timestamp", time="ts", keep="1 hour")
    rng = np.random.default_rng(1)
    width = args.results / (args.rows * args.batches)
    for part in np.array_split(rng.uniform(0, 1 - width, args.queries), min(GROUPS, args.queries)):
        w.register_many(TEXT, {"lo": part, "hi": part + width})
    driven = DirectWeir(w, slices=2, wall_us=START_US + 3_600_000_000)
    housekeeping = Housekeeping(w.files, w.settings, driven.context.registry)
    step_us = 3_599_000_000 // (args.rows * args.batches)
    begun = time.perf_counter()
    for batch in range(args.batches):
        times = START_US + step_us * (batch * args.rows + np.arange(args.rows))
        names = pa.array([f"n{k}" for k in range(200)]).take(pa.array(rng.integers(0, 200, args.rows)))
        rows = {"name": names, "price": rng.uniform(0, 1, args.rows), "ts": pa.array(times, pa.timestamp("us", "UTC"))}
        driven.batch({"trade": pa.table(rows)})
        housekeeping.after(batch)
        if (batch + 1) % 600 == 0:
            say(f"{batch + 1:,} batches in {time.perf_counter() - begun:,.0f} s")
    housekeeping.close()
    compact(w.files, driven.context.state, "trade")  # what fell due while the last turn was under way


def median_ms(run: Callable[[], object], rounds: int) -> float:
    return 1_000 * statistics.median(seconds_of(run) for _ in range(rounds))


def cold_ms(folder: Path, ids: np.ndarray, clock: str) -> dict[str, float]:
    """A new process for each query."""
    found = []
    for id in ids.tolist():
        command = [sys.executable, "-c", COLD_SCRIPT, str(folder), str(id), clock]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        found.append([float(part) for part in done.stdout.split()])
    opened, fetched, rows = zip(*found, strict=True)
    return {
        "open_ms": 1_000 * statistics.median(opened),
        "cold_ms": 1_000 * statistics.median(fetched),
        "rows": statistics.median(rows),
    }


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """All figures of one weir."""
    rng = np.random.default_rng(2)
    ids = rng.choice(args.queries, min(args.queries, args.together + args.sample + COLD), replace=False)
    few, others, together = ids[:COLD], ids[COLD : COLD + args.sample], ids[-args.together :]
    figures: dict[str, Any] = cold_ms(folder, few, args.clock)
    w = weir.open(folder, create=False)
    query = w.query(int(few[0]))
    query.fetch()
    figures["warm_ms"] = median_ms(query.fetch, args.sample)
    singles = iter(others.tolist())
    figures["another_ms"] = median_ms(lambda: w.query(next(singles)).fetch(), len(others))
    token = query.token()
    figures["nothing_ms"] = median_ms(lambda: query.changes(after=token), args.sample)
    figures["together_first_s"] = seconds_of(lambda: w.fetch(together))
    figures["together_s"] = median_ms(lambda: w.fetch(together), 3) / 1_000
    answers = w.fetch(together)
    figures["together_rows"] = answers.to_arrow().num_rows
    sample = [w.query(id) for id in together[: args.sample].tolist()]
    alone: list[pa.Table] = []
    seconds = seconds_of(lambda: alone.extend(one.fetch() for one in sample))
    figures["one_by_one_s"] = seconds / len(sample) * len(together)
    assert all(answers[one.id].equals(table) for one, table in zip(sample, alone, strict=True)), "answers differ"
    figures["ratio"] = figures["one_by_one_s"] / figures["together_s"]
    return figures


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run and print; returns the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.micro.fetches", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=3_600)
    parser.add_argument("--rows", type=int, default=1_000, help="of a batch")
    parser.add_argument("--results", type=int, default=100, help="rows that each query matches")
    parser.add_argument("--together", type=int, default=10_000)
    parser.add_argument("--sample", type=int, default=SAMPLE, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    if args.quick:
        args.queries, args.batches, args.rows, args.together, args.sample = 2_000, 30, 200, 500, 20
    use(args.clock)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary) / "weir"
        if not (folder / "weir.json").exists():
            build(folder, args)
        found = measure(folder, args)
    say(
        f"{args.queries:,} queries, {args.batches:,} batches of {args.rows:,} rows, one query has {found['rows']:,.0f} "
        f"results: cold {found['cold_ms']:.1f} ms ({found['open_ms']:.1f} ms of it to open), warm "
        f"{found['warm_ms']:.2f} ms, another query {found['another_ms']:.2f} ms, "
        f"nothing new {found['nothing_ms']:.3f} ms"
    )
    say(
        f"{args.together:,} queries with {found['together_rows']:,} rows: together {found['together_s']:.2f} s (the "
        f"first time {found['together_first_s']:.2f} s), one by one {found['one_by_one_s']:.1f} s "
        f"({found['ratio']:.0f}×)"
    )
    return found


if __name__ == "__main__":
    print(json.dumps(main()))
