"""Making the source known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir.errors import FeedError
from weir.feeds.spark_source import WeirSource
from weir.runtime.session import active, check_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_source(spark: SparkSession) -> None:
    """Have a session know `spark.read.format("weir")` and `spark.readStream.format("weir")`.

    A session knows them by itself if the Python of its workers (`PYSPARK_PYTHON`, else `python3`) has Weir, as it does
    in one of `weir.configure`, and in an environment that is activated. Otherwise call this once. On this machine the
    session's workers get the Python of this process.
    """
    if not hasattr(spark, "_jvm"):
        raise FeedError(
            "the session is a remote one (Spark Connect), expected a classic one",
            hint="call it where the session's driver runs, or install Weir in the driver's Python",
        )
    check_workers(spark)
    with active(spark):
        spark.dataSource.register(WeirSource)
