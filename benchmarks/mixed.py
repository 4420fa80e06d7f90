"""One weir with queries of every form, beside a weir for each form alone: the whole pipeline on Spark.

    python -m benchmarks.mixed [--queries 200000] [--rows N] [--batches N] [--quick]

Five forms with a fifth of the queries each: selections, select joins, band joins with local ranges, window joins, joins
of three streams. 50,000 rows of each of two other streams are kept; then batches of rows of r arrive, which every form
reads. What is compared are the seconds of a batch: all forms together against the sum of the forms alone, and
against that sum with what a batch costs without any query counted once instead of five times. No query is demoted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import weir
from benchmarks.pipeline import SLICES, weir_batches
from weir.api import Weir
from weir.runtime.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_ROWS = 50_000
KEYS = 10_000
REACH = 1_000_000
TEXTS = {
    "selections": "SELECT r.a FROM r WHERE r.a BETWEEN :a_lo AND :a_hi AND r.v BETWEEN :v_lo AND :v_hi",
    "select joins": "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b "
    "WHERE r.a BETWEEN :a_lo AND :a_hi AND s.c BETWEEN :c_lo AND :c_hi",
    "band joins": "SELECT r.a, s.c FROM r, s WHERE s.v - r.v BETWEEN :d_lo AND :d_hi AND r.a BETWEEN :a_lo AND :a_hi",
    "window joins": "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b AND abs(r.ts - s.ts) <= :w "
    "WHERE r.a BETWEEN :a_lo AND :a_hi AND s.c BETWEEN :c_lo AND :c_hi",
    "three streams": "SELECT r.a, s.c, t.z FROM r JOIN s ON r.b = s.b JOIN t ON s.k = t.k "
    "WHERE r.a BETWEEN :a_lo AND :a_hi AND s.c BETWEEN :c_lo AND :c_hi AND t.z BETWEEN :z_lo AND :z_hi",
}
# The share of the reach that a range of each form has, by parameter: a row matches a few queries of each.
WIDTHS = {
    "selections": {"a": 0.01, "v": 0.01},
    "select joins": {"a": 0.005, "c": 0.005},
    "band joins": {"d": 0.00001, "a": 0.001},
    "window joins": {"a": 0.005, "c": 0.005},
    "three streams": {"a": 0.01, "c": 0.01, "z": 0.05},
}


def params(form: str, n: int, rng: np.random.Generator) -> pa.Table:
    """The constants of n queries of a form."""
    columns: dict[str, Any] = {}
    for name, share in WIDTHS[form].items():
        width = int(share * REACH)
        lo = rng.integers(-REACH if name == "d" else 0, REACH - width, n)
        columns |= {f"{name}_lo": lo, f"{name}_hi": lo + width}
    if form == "window joins":
        columns["w"] = pa.array((10 ** rng.uniform(4, 8, n)).astype(np.int64), pa.duration("us"))
    return pa.table(columns)


def rows(rng: np.random.Generator, count: int, **reach: int) -> pa.Table:
    """Rows with columns uniform on 0 … reach, of the last seconds."""
    now_us = time.time_ns() // 1000 - np.sort(rng.integers(0, 60_000_000, count))[::-1]
    made: dict[str, Any] = {name: rng.integers(0, most, count) for name, most in reach.items()}
    return pa.table(made | {"ts": pa.array(now_us, pa.timestamp("us", "UTC"))})


def measure(
    root: Path, spark: SparkSession, forms: list[str], n: int, batch_rows: int, batches: int
) -> tuple[float, float]:
    """(seconds a batch, matches an event) of a weir with n queries of each of some forms."""
    rng = np.random.default_rng(1)
    settings = {"batch_rows_max": batch_rows, "slices": SLICES, "demote_pairs_min": 1 << 40}
    w = weir.open(str(root), spark=spark, settings=settings)
    w.stream("r", "b bigint, a bigint, v bigint, ts timestamp", time="ts", keep="1 hour")
    w.stream("s", "b bigint, c bigint, v bigint, k bigint, ts timestamp", time="ts", keep="1 hour")
    w.stream("t", "k bigint, z bigint, ts timestamp", time="ts", keep="1 hour")
    kept = min(KEPT_ROWS, 10 * batch_rows)
    w.push("s", rows(rng, kept, b=KEYS, c=REACH, v=REACH, k=KEYS))
    w.push("t", rows(rng, kept, k=KEYS, z=REACH))
    w.run(available_now=True)
    for form in forms:
        w.register_many(TEXTS[form], params(form, n, rng))
    w.push("r", rows(rng, 100, b=KEYS, a=REACH, v=REACH))
    w.run(available_now=True)  # segments are built, kernels compiled
    made: Weir = w
    return weir_batches(made, [rows(rng, batch_rows, b=KEYS, a=REACH, v=REACH) for _ in range(batches)], "r")


def main(argv: list[str] | None = None, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Measure all forms together and each alone, print a table, and write bench-results/mixed.json."""
    parser = argparse.ArgumentParser(prog="benchmarks.mixed", description=__doc__)
    parser.add_argument("--queries", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=20_000, help="of a batch")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="smoke size; the figures mean nothing")
    args = parser.parse_args(argv)
    if args.quick:
        args.queries, args.rows, args.batches = 500, 500, 4
    spark = local_session(cores=2)
    found: dict[str, Any] = {}
    each = args.queries // len(TEXTS)
    say(f"{args.queries:,} queries of {len(TEXTS)} forms, {args.rows:,} rows a batch")
    say("weir | batch ms | matches an event")
    for name, forms in {"no query": [], **{form: [form] for form in TEXTS}, "all together": list(TEXTS)}.items():
        root = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        try:
            seconds, matches = measure(root / "weir", spark, forms, each, args.rows, args.batches)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        found[name] = {"batch_s": seconds, "matches": matches}
        say(f"{name} | {seconds * 1e3:.0f} | {matches:.1f}")
    alone = sum(found[form]["batch_s"] for form in TEXTS)
    bare = found["no query"]["batch_s"]
    found["ratio"] = found["all together"]["batch_s"] / alone
    found["ratio_bare_once"] = found["all together"]["batch_s"] / (alone - (len(TEXTS) - 1) * bare)
    say(f"all together / sum of the forms alone: {found['ratio']:.2f} (wanted ≤ 1.5)")
    say(f"the same with an empty batch counted once: {found['ratio_bare_once']:.2f}")
    results = Path("bench-results")
    results.mkdir(exist_ok=True)
    (results / "mixed.json").write_text(json.dumps(found, indent=2))
    return found


if __name__ == "__main__":
    main()
