"""Spark, local[2]: the range join that a user would write (a broadcast nested loop), and the one that an expert would
bin by hand.

Binned: the numbers are cut into bins about as wide as an interval, each query is exploded into the bins it touches, and
events join on the bin (and on categories, if the set has some) before the bounds are checked. In W2 every set of
attributes is a join of its own, as for the other engines; the nested loop takes all queries at once, with NULL for the
bounds that a query does not have.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.peers.peer import Answer, Peer
from benchmarks.peers.triples import Triple, events_table, split
from benchmarks.workloads import ATTRIBUTES, DOMAIN, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BINS_MAX = 1 << 20


@functools.cache
def session() -> SparkSession:
    """The session of all Spark peers, made when the first of them is prepared."""
    from pyspark.sql import SparkSession

    from weir.runtime.java import ensure_java

    ensure_java()
    made: SparkSession = (
        SparkSession.builder.master("local[2]")
        .appName("weir benchmark peers")
        .config("spark.driver.memory", "6g")  # a million queries are broadcast
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    return made


def _cached(table: pa.Table) -> DataFrame:
    frame = session().createDataFrame(table).cache()
    frame.count()
    return frame


def prepare_nested(workload: Workload) -> Answer:
    from pyspark.sql import functions as f

    events, queries = _cached(events_table(workload)), _cached(_wide(workload))
    within = f.lit(True)
    for name in ATTRIBUTES[: workload.n_attributes]:
        value, lo, hi = f.col(name), f.col(f"lo_{name}"), f.col(f"hi_{name}")
        held = value.between(lo, hi)
        within = within & (held if workload.n_attributes == 1 else (lo.isNull() | held))

    def answer(n_events: int) -> int:
        return int(events.where(f.col("event") < n_events).join(f.broadcast(queries), within).count())

    return answer


def _wide(workload: Workload) -> pa.Table:
    """One row a query, NULL where it has no bound."""
    table, n = workload.table, workload.n_queries
    query = np.repeat(np.arange(n), np.diff(table.constraint_offsets))
    columns: dict[str, pa.Array] = {"id": pa.array(np.arange(n, dtype=np.int32))}
    for a in range(workload.n_attributes):
        mine = table.constraint_attribute == a
        for side, bounds in (("lo", table.constraint_lo), ("hi", table.constraint_hi)):
            values, missing = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
            values[query[mine]], missing[query[mine]] = bounds[mine], False
            columns[f"{side}_{ATTRIBUTES[a]}"] = pa.array(values, mask=missing)
    return pa.table(columns)


def prepare_binned(workload: Workload) -> Answer:
    from pyspark.sql import functions as f

    events = _cached(events_table(workload))
    parts = [(part, *_binned(part)) for part in split(workload)]

    def answer(n_events: int) -> int:
        batch = events.where(f.col("event") < n_events)
        total = 0
        for part, width, queries in parts:
            on = [f.col(name) == f.col(f"eq_{i}") for i, name in enumerate(part.categories)]
            if width:
                on.append(f.floor(f.col(part.numbers[0]) / width).cast("long") == f.col("bin"))
            on += [f.col(name).between(f.col(f"lo_{i}"), f.col(f"hi_{i}")) for i, name in enumerate(part.numbers)]
            total += batch.join(queries, functools.reduce(lambda a, b: a & b, on)).count()
        return int(total)

    return answer


def _binned(part: Triple) -> tuple[int, DataFrame]:
    """The width of bins, 0 where the categories select enough, and the queries in their bins."""
    from pyspark.sql import functions as f

    queries = session().createDataFrame(part.queries)
    if len(part.categories) == 2:
        return 0, kept(queries)
    lengths = np.asarray(part.queries["hi_0"]) - np.asarray(part.queries["lo_0"])
    width = int(max(lengths.mean(), DOMAIN / _BINS_MAX, 1))
    first, last = f.floor(f.col("lo_0") / width), f.floor(f.col("hi_0") / width)
    return width, kept(queries.withColumn("bin", f.explode(f.sequence(first.cast("long"), last.cast("long")))))


def kept(frame: DataFrame) -> DataFrame:
    frame = frame.cache()
    frame.count()
    return frame


NESTED = Peer("spark-nested", ("W1", "W2"), 2, False, prepare_nested)
BINNED = Peer("spark-binned", ("W1", "W2"), 2, False, prepare_binned)
