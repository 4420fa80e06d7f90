"""What `run(alerts=…)` gets: what came and went of kept answers in a batch, as a Spark DataFrame.

    query   the query's id
    came    whether the row came, or went
    row     the row of the answer as JSON, with the names of its columns

A row that changes is one that went and one that came. The frame is lazy; rows are read on the executors, from the files
that the batch wrote.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from weir.algebra.ddl import spark_type
from weir.algebra.schema import BIGINT, STRING, Column, DataType, Kind
from weir.runtime.loop import Context
from weir.runtime.maintain import CAME
from weir.store.data_files import batch_of_path
from weir.store.files import open_files
from weir.store.ledger import Done
from weir.store.maintained import SLOT, read_changes, shapes_with_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALERTS_DDL = "query bigint, came boolean, row string"


def changed_in(context: Context, done: Done) -> dict[str, list[str]]:
    """By shape, the files of a batch that say what came and went."""
    found: dict[str, list[str]] = {}
    for part in done.kept:
        if part.path and batch_of_path(part.path) == done.batch:  # else only its due time is new
            for shape in shapes_with_changes(context.files, part.path):
                found.setdefault(shape, []).append(part.path)
    return found


def alerts_frame(
    session: SparkSession, context: Context, changed: Mapping[str, Sequence[str]], outputs: Mapping[str, list[Column]]
) -> DataFrame:
    """What came and went, of shapes with these output columns."""
    alike: dict[tuple[Column, ...], list[tuple[str, str]]] = {}  # a frame for each list of columns, not for each shape
    for name, paths in changed.items():
        alike.setdefault(tuple(outputs[name]), []).extend((path, name) for path in paths)
    frames = [_of_columns(session, context, columns, found) for columns, found in alike.items()]
    if not frames:
        return session.createDataFrame([], ALERTS_DDL)
    return functools.reduce(lambda one, other: one.unionAll(other), frames)


def _of_columns(
    session: SparkSession, context: Context, output: Sequence[Column], found: Sequence[tuple[str, str]]
) -> DataFrame:
    """The changes of shapes with the same columns, each said by a file and the shape's name."""
    location = context.files.location

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = open_files(location)
        for batch in batches:
            for k in batch.column(0).to_pylist():
                table = read_changes(files, *found[k])
                assert table is not None, "the file said that there is one"
                columns = {"query": table.column(SLOT), "came": table.column(CAME)}
                rows = table.drop_columns([SLOT, CAME])
                for n, column in enumerate(rows.columns):
                    columns[f"v{n}"] = column.cast(pa.string()) if pa.types.is_null(column.type) else column
                yield from pa.table(columns).combine_chunks().to_batches()

    fields = "".join(f", v{n} {spark_type(_shown_as(c.type))}" for n, c in enumerate(output))
    numbers = session.range(0, len(found), 1, len({path for path, _ in found}))
    changes = numbers.mapInArrow(read, f"query bigint, came boolean{fields}")
    named = ", ".join(f"'{_escaped(c.name)}', v{n}" for n, c in enumerate(output))
    options = "map('ignoreNullFields', 'false')"
    return changes.selectExpr("query", "came", f"to_json(named_struct({named}), {options}) AS row")


def _shown_as(type: DataType) -> DataType:
    """A type that Spark has a value for: lengths of time are µs."""
    return {Kind.INTERVAL: BIGINT, Kind.NULL: STRING}.get(type.kind, type)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
