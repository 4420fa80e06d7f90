"""Spark, local[2]: the select join as a user would write it (a hash join, then a broadcast nested loop), and as an
expert would bin it: queries exploded into the bins of a that they touch, events joined with rows on b and with queries
on the bin, the bounds checked last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.peer import Answer, JoinPeer
from benchmarks.peers.select_join_tables import bin_widths, events_table, queries_table, rows_table
from benchmarks.peers.spark_joins import kept, session
from benchmarks.workloads import JoinWorkload

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _tables(workload: JoinWorkload) -> tuple[DataFrame, DataFrame, DataFrame]:
    make = session().createDataFrame
    return (
        kept(make(events_table(workload))),
        kept(make(rows_table(workload))),
        make(queries_table(workload)),
    )


def _within() -> Column:
    from pyspark.sql import functions as f

    return f.col("a").between(f.col("a_lo"), f.col("a_hi")) & f.col("c").between(f.col("c_lo"), f.col("c_hi"))


def prepare_nested(workload: JoinWorkload) -> Answer:
    from pyspark.sql import functions as f

    events, rows, queries = _tables(workload)
    queries = kept(queries)

    def answer(n_events: int) -> int:
        pairs = events.where(f.col("event") < n_events).join(rows, "b").repartition(2)
        return int(pairs.join(f.broadcast(queries), _within()).count())

    return answer


def prepare_binned(workload: JoinWorkload) -> Answer:
    from pyspark.sql import functions as f

    events, rows, queries = _tables(workload)
    width = bin_widths(workload)[0]
    first, last = (f.floor(f.col(name) / width).cast("long") for name in ("a_lo", "a_hi"))
    # In as many parts as there are cores, by bin, so that a batch does not shuffle the queries again.
    queries = kept(queries.withColumn("bin", f.explode(f.sequence(first, last))).repartition(2, "bin"))

    def answer(n_events: int) -> int:
        batch = events.where(f.col("event") < n_events).withColumn("bin", f.floor(f.col("a") / width).cast("long"))
        pairs = batch.join(rows, "b").hint("shuffle_hash")  # a hash of the batch, past which the queries stream
        return int(pairs.join(queries, (pairs["bin"] == queries["bin"]) & _within()).count())

    return answer


NESTED = JoinPeer("spark-nested", 2, False, True, prepare_nested, first=20)
BINNED = JoinPeer("spark-binned", 2, False, True, prepare_binned, first=300)
