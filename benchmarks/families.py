"""What a join family costs a batch though nothing matches: tiny batches before 1, 10, 30, 90 … families of 200 queries.

python -m benchmarks.families [--families 1,10,30,90,300] [--batches 20] [--quick]

On Spark, with a trigger of 0 seconds, over an inbox that has all batches before the run begins; the median of the last
half. A family is a pair of columns whose equality connects two streams. Rows have keys that never meet, but values that
queries ask for, so that every family has to look for partners.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import weir
from weir.runtime.session import local_session

if TYPE_CHECKING:
    from weir.api import Weir

COLUMNS = 20  # of each stream: as many pairs of them as its square
QUERIES = 200  # of a family
ROWS = 5  # of each stream in a batch
WANTED_MS = 1.0
KEPT = "1 hour"


def opened(folder: str, n_families: int) -> Weir:
    """A weir with so many families of joins of `r` and `s`."""
    w = weir.open(folder, settings={"slices": 2, "batch_rows_max": 2 * ROWS})
    columns = ", ".join(f"k{n} bigint" for n in range(COLUMNS))
    for name in ("r", "s"):
        w.stream(name, f"{columns}, v bigint, ts timestamp", time="ts", keep=KEPT)
    least = np.arange(QUERIES)
    for n in range(n_families):
        own, other = divmod(n, COLUMNS)
        w.register_many(
            f"SELECT r.v FROM r JOIN s ON r.k{own} = s.k{other} WHERE r.v BETWEEN :lo AND :hi",
            pa.table({"lo": least, "hi": least + 1}),
        )
    return w


def rows(batch: int, stream: int) -> pa.Table:
    """Rows with keys that no other row has."""
    first = (2 * batch + stream) * ROWS * COLUMNS
    keys = first + np.arange(ROWS * COLUMNS).reshape(COLUMNS, ROWS)
    stamps = pa.array(np.full(ROWS, time.time_ns() // 1_000), pa.timestamp("us", "UTC"))
    return pa.table({**{f"k{n}": keys[n] for n in range(COLUMNS)}, "v": np.arange(ROWS), "ts": stamps})


def batch_ms(n_families: int, batches: int) -> float:
    """The median time between the ends of the last half of the batches."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        w = opened(folder, n_families)
        for batch in range(batches):
            for stream, name in enumerate(("r", "s")):
                w.push(name, rows(batch, stream))
        run = w.run(trigger="0 seconds")
        ends: list[float] = []
        while len(ends) < batches:
            ends += [time.perf_counter()] * (run.progress().batches - len(ends))
            run.wait(0.002)
        assert run.progress().pairs == 0, "nothing matches"
        run.stop()
    return statistics.median(np.diff(ends[batches // 2 :])) * 1e3


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Measure each number of families, print a table, and write bench-results/families.json."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--families", default="1,10,30,90,300")
    arguments.add_argument("--batches", type=int, default=20)
    arguments.add_argument("--quick", action="store_true", help="smoke size: figures mean nothing")
    args = arguments.parse_args(argv)
    sizes, batches = ([1, 3], 4) if args.quick else ([int(n) for n in args.families.split(",")], args.batches)
    local_session(cores=2)
    found: list[dict[str, Any]] = []
    say(f"families | ms a batch | ms a family (≤ {WANTED_MS:g})")
    for n in sizes:
        took = batch_ms(n, batches)
        each = (took - found[0]["batch_ms"]) / (n - found[0]["families"]) if found else 0.0
        found.append({"families": n, "batch_ms": took, "ms_a_family": each})
        say(f"{n:8,} | {took:10.0f} | {each:.2f}")
    results = Path("bench-results")
    results.mkdir(exist_ok=True)
    (results / "families.json").write_text(json.dumps(found, indent=2))
    return found


if __name__ == "__main__":
    main()
