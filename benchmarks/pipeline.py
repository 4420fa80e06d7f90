"""The whole pipeline on Spark: source, two jobs, ledger; beside the kernels alone and the same two jobs doing nothing.

For W1 at each number of queries: `register_many` until the queries match, batches of 200,000 rows, and batches of one
row. The empty jobs run through the same source, with as many tasks, in the same session: what remains is Weir's own.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import weir
from weir.api import Weir
from weir.families.selections.selection_family import Segment
from weir.runtime.session import for_starting, local_session
from weir.runtime.sources import unite
from weir.store.arrays import read_arrays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DOMAIN = 1_000_000_000
SLICES = 2


def queries(n: int, random: np.random.Generator) -> pa.Table:
    """W1: 70 % of midpoints in 50 normal hot spots, 30 % uniform; mean width 10·D/N."""
    spots = random.uniform(0, DOMAIN, 50)
    middle = np.where(
        random.random(n) < 0.7,
        random.normal(spots[random.integers(0, 50, n)], DOMAIN / 500),
        random.uniform(0, DOMAIN, n),
    )
    width = random.exponential(10 * DOMAIN / n, n)
    return pa.table({"lo": (middle - width / 2).astype(np.int64), "hi": (middle + width / 2).astype(np.int64)})


def events(n: int, random: np.random.Generator) -> pa.Table:
    now_us = time.time_ns() // 1000
    return pa.table({"a": random.integers(0, DOMAIN, n), "ts": pa.array(np.full(n, now_us), pa.timestamp("us", "UTC"))})


def make(root: str, spark: SparkSession, rows_max: int) -> Weir:
    w = weir.open(root, spark=spark, settings={"batch_rows_max": rows_max, "slices": SLICES})
    w.stream("ev", "a bigint, ts timestamp", time="ts", keep="1 hour")
    return w


def register(w: Weir, n: int, random: np.random.Generator, rows: int = 1_000) -> float:
    """Seconds from the call of register_many until a batch has matched the new queries."""
    wishes = queries(n, random)
    w.push("ev", events(rows, random))
    started = time.perf_counter()
    w.register_many("SELECT * FROM ev WHERE a BETWEEN :lo AND :hi", wishes)
    w.run(available_now=True)
    return time.perf_counter() - started


def weir_batches(w: Weir, tables: list[pa.Table], stream: str = "ev") -> tuple[float, float]:
    """(seconds a batch end to end, matches an event) over batches that are there before the run starts."""
    for table in tables:
        w.push(stream, table)
    run = w.run(trigger="0 seconds")
    while run.progress().batches < 2:
        run.wait(0.01)
    started, before = time.perf_counter(), run.progress().batches
    total = sum(t.num_rows for t in tables)
    while run.progress().events < total:
        run.wait(0.01)
    elapsed = time.perf_counter() - started
    figures = run.progress()
    run.stop()
    return elapsed / (figures.batches - before), figures.pairs / figures.events


def empty_batches(spark: SparkSession, w: Weir, tables: list[pa.Table], stream: str = "ev") -> float:
    """Seconds a batch of the same source and two jobs that do nothing."""
    for table in tables:
        w.push(stream, table)
    ends: list[float] = []

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": pa.array([sum(1 for _ in batches)], pa.int64())})

    def batch(frame: DataFrame, _: int) -> None:
        frame.mapInArrow(nothing, "n bigint").collect()
        spark.range(0, SLICES, 1, SLICES).mapInArrow(nothing, "n bigint").collect()
        ends.append(time.perf_counter())

    with for_starting(spark):
        frame = unite(spark, w.files.location, {}, slices=SLICES, rows_max=w.settings.batch_rows_max)
        query = (
            frame.writeStream.foreachBatch(batch)
            .option("checkpointLocation", f"{w.files.location}/empty-checkpoint")
            .trigger(processingTime="0 seconds")
            .start()
        )
    while len(ends) < len(tables):
        query.awaitTermination(0.01)
    query.stop()
    return statistics.mean(b - a for a, b in itertools.pairwise(ends[1:]))


def kernels(w: Weir, table: pa.Table, repeat: int = 3) -> float:
    """Seconds for one batch by the kernels alone: two halves on two threads, ids written."""
    paths = [e.path for e in w.files.list("cache/segments") if e.path.endswith(".seg")]
    assert paths, "the job has built segments"
    segments = [Segment.from_arrays(*read_arrays(w.files, p)) for p in paths]
    half = -(-table.num_rows // SLICES)
    parts = [table.slice(k * half, half).combine_chunks() for k in range(SLICES)]

    def one(part: pa.Table) -> int:
        total = 0
        for s in segments:
            found = s.match(part, np.zeros(len(s.ids), np.uint8), 2**40)
            total += len(s.ids[found.slots])  # type: ignore[union-attr]  # the budget is boundless
        return total

    times = []
    with ThreadPoolExecutor(SLICES) as pool:
        for _ in range(repeat + 1):
            started = time.perf_counter()
            list(pool.map(one, parts))
            times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def measure(spark: SparkSession, n: int, rows: int, batches: int, seed: int = 1) -> dict[str, Any]:
    """All figures for one number of queries."""
    random = np.random.default_rng(seed)
    root = tempfile.mkdtemp(prefix="weir-bench-")
    try:
        w = make(f"{root}/weir", spark, rows)
        register_s = register(w, n, random)
        full = [events(rows, random) for _ in range(batches)]
        weir_s, matches = weir_batches(w, full)
        kernel_s = kernels(w, full[0])
        empty_s = empty_batches(spark, make(f"{root}/empty", spark, rows), full)
        tiny = [events(1, random) for _ in range(batches)]
        w_tiny = make(f"{root}/tiny", spark, 1)
        register(w_tiny, 1000, random, rows=1)
        tiny_s, _ = weir_batches(w_tiny, tiny)
        tiny_empty_s = empty_batches(spark, make(f"{root}/tiny-empty", spark, 1), tiny)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {
        "queries": n,
        "batch_rows": rows,
        "matches_per_event": matches,
        "register_s": register_s,
        "batch_s": weir_s,
        "events_per_s": rows / weir_s,
        "kernel_s": kernel_s,
        "empty_jobs_s": empty_s,
        "ratio_full": weir_s / max(kernel_s, empty_s),
        "tiny_s": tiny_s,
        "tiny_empty_s": tiny_empty_s,
        "ratio_tiny": tiny_s / tiny_empty_s,
    }


def main(sizes: list[int], rows: int, batches: int, say: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Measure each size, print a table, and write bench-results/pipeline.json."""
    spark = local_session(cores=2)
    found = []
    say(f"pipeline, W1, {rows:,} rows a batch")
    say("queries | register s | batch ms | kernels ms | empty jobs ms | ratio (≤ 2) | tiny (≤ 1.5) | events/s")
    for n in sizes:
        f = measure(spark, n, rows, batches)
        found.append(f)
        say(
            f"{n:>10,} | {f['register_s']:8.2f} | {f['batch_s'] * 1e3:8.0f} | {f['kernel_s'] * 1e3:8.0f} | "
            f"{f['empty_jobs_s'] * 1e3:8.0f} | {f['ratio_full']:6.2f} | {f['ratio_tiny']:6.2f} | "
            f"{f['events_per_s']:,.0f} ({f['matches_per_event']:.1f} matches an event)"
        )
    results = Path("bench-results")
    results.mkdir(exist_ok=True)
    (results / "pipeline.json").write_text(json.dumps(found, indent=2))
    return found
