"""Streaming DataFrames that users give: what Weir can take, and the names that their sources need.

All sources of a weir are read by one streaming query, whose checkpoint outlives any of them. So each source has a name,
by which Spark finds its offsets again: the one that the user gave it, else the stream's. And none may keep state of its
own: what an aggregation, a join of two streams or a deduplication remembers is tied to its place in the plan, which
changes with every stream that comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir.errors import StreamError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATEFUL = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "LocalLimit",
        "Sort",
        "TransformWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
        "Window",
    }
)
_NAMED = "HasStreamingSourceIdentifyingName"  # the trait of sources that have a name


def check_frame(frame: Any, name: str, what: str = "stream") -> None:
    """StreamError unless the DataFrame can feed a stream, or a table (`what`)."""
    if not getattr(frame, "isStreaming", False):
        raise StreamError(
            f"the DataFrame given for {what} '{name}' is not streaming, expected one from spark.readStream",
            hint="read it with spark.readStream…, or define columns and push its rows",
        )
    if not hasattr(frame, "_jdf"):
        raise StreamError(
            f"the DataFrame given for {what} '{name}' is of a remote session (Spark Connect), expected a classic one",
            hint="run the job in a process with a session of its own: SparkSession.builder.master(…)",
        )
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        kind = str(node.nodeName())
        if node.isStreaming() and (kind in STATEFUL or (kind == "Join" and _is_of_streams(node))):
            does = "joins two streams" if kind == "Join" else f"keeps state ({kind})"
            raise StreamError(
                f"the DataFrame given for {what} '{name}' {does}, which cannot be part of Weir's own query",
                hint="give Weir the rows as they come, and write the aggregation or join as a standing query; or run "
                "it as a query of its own, into a table or topic, and read that",
            )


def with_names(frame: DataFrame, stream: str) -> DataFrame:
    """The same DataFrame, in which every source has a name: its own, or the stream's."""
    from pyspark.sql import DataFrame

    jvm: Any = frame.sparkSession._jvm
    names = iter([stream, *(f"{stream}_{k}" for k in range(2, 1000))])
    plan = _named(frame._jdf.queryExecution().analyzed(), names, jvm)
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(frame.sparkSession._jsparkSession, plan)
    return DataFrame(made, frame.sparkSession)


def _named(node: Any, names: Iterator[str], jvm: Any) -> Any:
    if _has_name(node):
        name = next(names)
        if node.sourceIdentifyingName().getClass().getSimpleName().startswith("Unassigned"):
            return node.withSourceIdentifyingName(jvm.org.apache.spark.sql.catalyst.streaming.UserProvided(name))
        return node
    inputs = _children(node)
    if not inputs:
        return node
    return node.withNewChildren(jvm.PythonUtils.toSeq([_named(child, names, jvm) for child in inputs]))


def _has_name(node: Any) -> bool:
    return any(str(trait.getSimpleName()) == _NAMED for trait in node.getClass().getInterfaces())


def _is_of_streams(join: Any) -> bool:
    return all(side.isStreaming() for side in _children(join))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _children(plan):
        yield from _nodes(child)


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(k) for k in range(children.size())]
