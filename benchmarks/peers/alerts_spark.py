"""Spark, local[2]: three ways to keep W6's alerts.

recomputed   the events of each batch are cached; each batch joins those of the whole window with the broadcast rules
             and counts. Spark plans a hash join on the key.
streaming    one streaming query: events joined with the broadcast rules, grouped by rule and window(ts, '5 minutes',
             step), with a watermark; state is Spark's own, in memory. An event is in as many windows as steps fit into
             one. The last whole window of each batch is the answer.
panes        what an expert may program who knows that the window moves by whole batches: counts by batch and rule are
             cached, and each batch adds up those of the window. It answers at the ends of panes only, and only counts
             and sums can be taken apart like that.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.alerts import WINDOW_US, Alerts
from benchmarks.peers.spark_joins import kept, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTS = 2


class RecomputedInSpark:
    """The window's events in memory, a frame a batch."""

    def __init__(self, alerts: Alerts) -> None:
        from pyspark.sql import functions as f

        self.alerts = alerts
        self.rules = f.broadcast(session().createDataFrame(alerts.rules))
        self.frames: list[DataFrame] = []

    def take(self, events: pa.Table) -> None:
        """The events of a batch come, and the oldest batch of a full window goes."""
        self.frames.append(self.made(kept(session().createDataFrame(events.select(["k", "v"])).coalesce(PARTS))))
        if len(self.frames) > self.alerts.window_batches:
            self.frames.pop(0).unpersist()

    def made(self, events: DataFrame) -> DataFrame:
        """What is remembered of a batch."""
        return events

    def matches(self, events: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        return events.withColumnRenamed("k", "key").join(
            self.rules, (f.col("key") == f.col("k")) & (f.col("v") > f.col("lo"))
        )

    def window(self) -> DataFrame:
        """The remembered batches of the window, in as many parts as there are cores."""
        whole = self.frames[0]
        for frame in self.frames[1:]:
            whole = whole.union(frame)
        return whole.coalesce(PARTS)

    def answers(self) -> pa.Table:
        """The alerts that show: `id` and `n`."""
        from pyspark.sql import functions as f

        counted = self.matches(self.window()).groupBy("id", f.col("n").alias("bound")).agg(f.count("*").alias("n"))
        return counted.where("n > bound").select("id", "n").toArrow()


class PanesInSpark(RecomputedInSpark):
    """Counts in memory, a frame a batch."""

    def made(self, events: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        counted = self.matches(events).groupBy("id", f.col("n").alias("bound")).agg(f.count("*").alias("counted"))
        found = kept(counted.coalesce(PARTS))
        events.unpersist()
        return found

    def answers(self) -> pa.Table:
        from pyspark.sql import functions as f

        counted = self.window().groupBy("id", "bound").agg(f.sum("counted").alias("n"))
        return counted.where("n > bound").select("id", "n").toArrow()


def streamed(alerts: Alerts, batches: int) -> tuple[list[float], pa.Table]:
    """Seconds of each batch of a streaming query over an empty state, and the answer after the last."""
    from pyspark.sql import functions as f

    spark = session()
    step = f"{alerts.step_us} microseconds"
    ends: list[float] = []
    found: list[pa.Table] = []

    def batch(frame: DataFrame, _: int) -> None:
        now_us = alerts.now_us(len(ends))
        shown = frame.where(f.unix_micros(f.col("window.end")) == now_us + 1).where("n > bound").select("id", "n")
        found[:] = [shown.toArrow()]
        ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        source = Path(folder) / "events"
        source.mkdir()
        for number in range(batches):
            pq.write_table(alerts.events(number), source / f"{number:06}.parquet")
        events = spark.readStream.schema("k bigint, v double, ts timestamp").option("maxFilesPerTrigger", 1)
        rules = f.broadcast(spark.createDataFrame(alerts.rules))
        matches = (
            events.parquet(str(source))
            .withColumnRenamed("k", "key")
            .withWatermark("ts", step)
            .join(rules, (f.col("key") == f.col("k")) & (f.col("v") > f.col("lo")))
        )
        windows = f.window("ts", f"{WINDOW_US} microseconds", step)
        counted = matches.groupBy(windows, "id", f.col("n").alias("bound")).agg(f.count("*").alias("n"))
        begun = time.perf_counter()
        query = (
            counted.writeStream.outputMode("update")
            .foreachBatch(batch)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    edges = [begun, *ends[:batches]]
    return [b - a for a, b in itertools.pairwise(edges)], found[0]
