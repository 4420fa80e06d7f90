"""The whole pipeline on Spark with select joins: W3 narrow over two streams, beside the kernels and two empty jobs.

100,000 rows of S are kept and the queries stand; then batches of rows of R arrive, each of which meets its partners.
What is counted are joined rows (event, partner, query), which is what a batch writes. No query is demoted, so that all
of them are matched in every batch.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import weir
from benchmarks.pipeline import SLICES, empty_batches, weir_batches
from benchmarks.workloads import JoinWorkload, w3_narrow
from weir.api import Weir
from weir.families.joins.join_segments import JoinSegment
from weir.families.joins.partner_rows import PartnerRows
from weir.index.box_tables import OverBudget
from weir.index.meeting.index_contract import Tuning
from weir.runtime.calibration import load
from weir.runtime.session import local_session
from weir.store.arrays import read_arrays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b WHERE r.a BETWEEN :a_lo AND :a_hi AND s.c BETWEEN :c_lo AND :c_hi"


def make(root: str, spark: SparkSession, rows_max: int) -> Weir:
    settings = {"batch_rows_max": rows_max, "slices": SLICES, "demote_pairs_min": 1 << 40}
    w = weir.open(root, spark=spark, settings=settings)
    w.stream("r", "b bigint, a bigint, ts timestamp", time="ts", keep="1 hour")
    w.stream("s", "b bigint, c bigint, ts timestamp", time="ts", keep="1 hour")
    return w


def stamped(**columns: np.ndarray) -> pa.Table:
    now_us = np.full(len(next(iter(columns.values()))), time.time_ns() // 1000)
    return pa.table({**columns, "ts": pa.array(now_us, pa.timestamp("us", "UTC"))})


def register(w: Weir, workload: JoinWorkload, first: pa.Table) -> float:
    """Seconds from the call of register_many until a batch has matched the new queries against the kept rows."""
    w.push("s", stamped(b=workload.row_keys, c=workload.row_values))
    w.run(available_now=True)
    w.push("r", first)
    started = time.perf_counter()
    w.register_many(TEXT, pa.table(workload.plane._asdict()))
    w.run(available_now=True)
    return time.perf_counter() - started


def kernels(w: Weir, table: pa.Table, repeat: int = 3) -> float:
    """Seconds for one batch by the kernels alone: two halves on two threads, joined rows written."""
    segments = [
        JoinSegment.from_arrays(*read_arrays(w.files, e.path))
        for e in w.files.list("cache/segments")
        if e.path.endswith(".seg")
    ]
    partners = [PartnerRows.from_arrays(*read_arrays(w.files, e.path)) for e in w.files.list("cache/partners")]
    costs = load(w.files)
    half = -(-table.num_rows // SLICES)
    parts = [table.slice(k * half, half).combine_chunks() for k in range(SLICES)]

    def one(part: pa.Table) -> int:
        total = 0
        times = part.column("ts").cast(pa.int64()).to_numpy()
        for s in segments:
            side = s.family.streams.index("r")
            for rows in (p for p in partners if p.side == 1 - side):
                muted = np.zeros(len(s.ids), np.uint8)
                found = s.match(side, part, times, rows, muted, 2**40, Tuning(costs=costs))
                assert not isinstance(found, OverBudget), "the budget is boundless"
                total += len(s.ids[found.slots])
        assert total > 0
        return total

    took = []
    with ThreadPoolExecutor(SLICES) as pool:
        for _ in range(repeat + 1):
            started = time.perf_counter()
            list(pool.map(one, parts))
            took.append(time.perf_counter() - started)
    return statistics.median(took[1:])


def measure(spark: SparkSession, n: int, rows: int, batches: int, seed: int = 1) -> dict[str, Any]:
    """All figures for one number of queries."""
    workload = w3_narrow(n, rows * batches, seed)
    root = tempfile.mkdtemp(prefix="weir-bench-")
    try:
        w = make(f"{root}/weir", spark, rows)
        register_s = register(w, workload, stamped(b=workload.keys[:1_000], a=workload.values[:1_000]))
        cuts = range(0, rows * batches, rows)
        full = [stamped(b=workload.keys[k : k + rows], a=workload.values[k : k + rows]) for k in cuts]
        weir_s, matches = weir_batches(w, full, "r")
        kernel_s = kernels(w, full[0])
        empty_s = empty_batches(spark, make(f"{root}/empty", spark, rows), full, "r")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {
        "queries": n,
        "kept_rows": len(workload.row_keys),
        "batch_rows": rows,
        "joined_rows_per_event": matches,
        "register_s": register_s,
        "batch_s": weir_s,
        "events_per_s": rows / weir_s,
        "kernel_s": kernel_s,
        "empty_jobs_s": empty_s,
        "ratio_full": weir_s / max(kernel_s, empty_s),
    }


def main(sizes: list[int], rows: int, batches: int, say: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Measure each size, print a table, and write bench-results/join-pipeline.json."""
    spark = local_session(cores=2)
    found = []
    say(f"pipeline, W3 narrow, {rows:,} rows a batch, 100,000 kept rows on the other side")
    say("queries | register s | batch ms | kernels ms | empty jobs ms | ratio (≤ 2) | events/s")
    for n in sizes:
        f = measure(spark, n, rows, batches)
        found.append(f)
        say(
            f"{n:>10,} | {f['register_s']:8.2f} | {f['batch_s'] * 1e3:8.0f} | {f['kernel_s'] * 1e3:8.0f} | "
            f"{f['empty_jobs_s'] * 1e3:8.0f} | {f['ratio_full']:6.2f} | "
            f"{f['events_per_s']:,.0f} ({f['joined_rows_per_event']:.1f} joined rows an event)"
        )
    results = Path("bench-results")
    results.mkdir(exist_ok=True)
    (results / "join-pipeline.json").write_text(json.dumps(found, indent=2))
    return found
