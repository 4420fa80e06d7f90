"""Peers on W4, 2 threads each: a compiled scan, DuckDB (a range join, and binned by hand), Polars, Spark (binned).

The scan looks every query's band up in the sorted rows, for every event, and hands out ids. The others count the rows
(event, row, query) of the result, which spares them the duplicates' removal. Binned: each query is exploded into the
bins of the difference that it touches.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
import pyarrow as pa

from benchmarks.peers.peer import Answer
from benchmarks.workloads import BandWorkload


class BandPeer(NamedTuple):
    name: str
    returns_ids: bool
    prepare: Callable[[BandWorkload], Answer]
    first: int = 10  # events that it is tried with


@numba.njit(nogil=True)
def _scan(lo: Any, hi: Any, rows: Any, events: Any, first: int, out: Any, offsets: Any) -> int:
    n, used = len(lo), 0
    for e in range(first, len(events)):
        if len(out) - used < n:
            return e
        for i in range(n):
            low, high, least = 0, len(rows), lo[i] + events[e]
            while low < high:
                middle = (low + high) >> 1
                if rows[middle] < least:
                    low = middle + 1
                else:
                    high = middle
            if low < len(rows) and rows[low] <= hi[i] + events[e]:
                out[used] = i
                used += 1
        offsets[e + 1] = used
    return len(events)


@numba.njit(nogil=True)
def _joined_rows(lo: Any, hi: Any, rows: Any, events: Any) -> int:
    total = 0
    for e in range(len(events)):
        for i in range(len(lo)):
            first = np.searchsorted(rows, lo[i] + events[e])
            while first < len(rows) and rows[first] <= hi[i] + events[e]:
                total += 1
                first += 1
    return total


def joined_rows(workload: BandWorkload, n_events: int) -> int:
    """Rows (event, row, query) that the first events make."""
    return int(_joined_rows(workload.lo, workload.hi, workload.rows, workload.events[:n_events]))


def scan(workload: BandWorkload, n_events: int, threads: int = 2) -> list[list[np.ndarray]]:
    """The ids of each thread's slice of the events, in order."""
    cuts = np.linspace(0, n_events, threads + 1).astype(int)

    def one(edge: tuple[int, int]) -> list[np.ndarray]:
        events = workload.events[slice(*edge)]
        offsets, found, at = np.zeros(len(events) + 1, np.int64), [], 0
        while at < len(events):
            out = np.empty(max(1 << 22, 2 * workload.n_queries), np.int32)
            at = _scan(workload.lo, workload.hi, workload.rows, events, at, out, offsets)
            found.append(out[: offsets[at]])
        return found

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, itertools.pairwise(cuts.tolist())))


def _prepare_scan(workload: BandWorkload) -> Answer:
    return lambda n_events: sum(len(ids) for parts in scan(workload, n_events) for ids in parts)


def _tables(workload: BandWorkload) -> dict[str, pa.Table]:
    return {
        "events": pa.table({"event": np.arange(workload.n_events), "b": workload.events}),
        "kept": pa.table({"b": workload.rows}),
        "queries": pa.table({"query": np.arange(workload.n_queries), "lo": workload.lo, "hi": workload.hi}),
    }


def _bin_width(workload: BandWorkload) -> int:
    return max(int((workload.hi - workload.lo).mean()) + 1, 1)


def _prepare_duckdb(binned: bool, workload: BandWorkload) -> Answer:
    import duckdb

    database = duckdb.connect(config={"threads": 2})
    for name, table in _tables(workload).items():
        database.register(f"given_{name}", table)
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM given_{name}")
    width = _bin_width(workload)
    if binned:
        database.execute(
            "CREATE TABLE binned AS SELECT *, unnest(range("
            f"floor(lo / {width})::BIGINT, floor(hi / {width})::BIGINT + 1)) AS bin FROM queries"
        )
        text = (
            "SELECT count(*) FROM (SELECT s.b - e.b AS d, floor((s.b - e.b) / "
            f"{width})::BIGINT AS bin FROM batch e, kept s) p JOIN binned q ON p.bin = q.bin AND d BETWEEN lo AND hi"
        )
    else:
        text = (
            "SELECT count(*) FROM (SELECT lo + b AS least, hi + b AS most FROM batch, queries) q "
            "JOIN kept s ON s.b BETWEEN q.least AND q.most"
        )

    def answer(n_events: int) -> int:
        database.execute("CREATE OR REPLACE TABLE batch AS SELECT * FROM events WHERE event < ?", [n_events])
        row = database.execute(text).fetchone()
        assert row is not None
        return int(row[0])

    return answer


def _prepare_polars(workload: BandWorkload) -> Answer:
    import polars as pl

    tables = {name: pl.DataFrame(pl.from_arrow(table)) for name, table in _tables(workload).items()}
    kept = tables["kept"].rename({"b": "s_b"}).lazy()

    def answer(n_events: int) -> int:
        wanted = tables["events"].head(n_events).lazy().join(tables["queries"].lazy(), how="cross")
        bounds = wanted.select((pl.col("lo") + pl.col("b")).alias("least"), (pl.col("hi") + pl.col("b")).alias("most"))
        found = kept.join_where(bounds, pl.col("s_b") >= pl.col("least"), pl.col("s_b") <= pl.col("most"))
        return int(found.select(pl.len()).collect().item())

    return answer


def _prepare_spark(workload: BandWorkload) -> Answer:
    from pyspark.sql import functions as f

    from benchmarks.peers.spark_joins import session

    spark = session()
    width = _bin_width(workload)
    tables = {name: spark.createDataFrame(table) for name, table in _tables(workload).items()}
    bins = f.explode(f.sequence(f.floor(f.col("lo") / width), f.floor(f.col("hi") / width)))
    queries = tables["queries"].withColumn("bin", bins).cache()
    kept = tables["kept"].withColumnRenamed("b", "s_b").repartition(2).cache()
    queries.count(), kept.count()

    def answer(n_events: int) -> int:
        batch = tables["events"].where(f.col("event") < n_events)
        pairs = kept.crossJoin(f.broadcast(batch)).withColumn("d", f.col("s_b") - f.col("b"))
        pairs = pairs.withColumn("bin", f.floor(f.col("d") / width))
        found = pairs.join(f.broadcast(queries), "bin").where("d BETWEEN lo AND hi")
        return int(found.count())

    return answer


PEERS = {
    "scan": BandPeer("scan", True, _prepare_scan, 50),
    "polars": BandPeer("polars", False, _prepare_polars),
    "duckdb": BandPeer("duckdb", False, functools.partial(_prepare_duckdb, False)),
    "duckdb-binned": BandPeer("duckdb-binned", False, functools.partial(_prepare_duckdb, True)),
    "spark-binned": BandPeer("spark-binned", False, _prepare_spark),
}
