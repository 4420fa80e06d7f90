"""Where Spark looks for data sources by itself: packages that are called `pyspark_…` and have a `DefaultSource`."""

from weir.feeds.spark_source import WeirSource as DefaultSource

__all__ = ["DefaultSource"]
