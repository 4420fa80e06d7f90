"""Sources: the embedded one (`push`), and any streaming DataFrame, brought to one shape for one job.

The embedded source hands Spark *references* to pushed files, never their rows: Spark keeps the offsets and
the schedule, the ingest tasks map the files themselves. An offset is (ticket, row): everything before that
row of that ticket was taken, so one huge push can be spread over several batches. Changes of a table are not.
An advance of the clock comes as a reference too, to one row of the inbox's own stream.

All sources are united into one DataFrame: a struct column `ref` for references and one struct column a
Spark stream. Each source is named, which lets a stream be added to a running checkpoint later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from weir.algebra.ddl import KNOWN, TypeFaultError, read_type
from weir.algebra.schema import CHANGES, STRING, Column, DataType, array, is_changes, map_of, struct
from weir.errors import RunError, StreamError
from weir.runtime.frames import with_names
from weir.store.files import open_files
from weir.store.inbox import Inbox

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructField

REF_TYPE = "struct<ticket:bigint,stream:string,path:string,start:bigint,count:bigint>"
INBOX = "weir_inbox"


@dataclass(frozen=True)
class Reference:
    """Some rows of one pushed file."""

    ticket: int
    stream: str
    path: str
    start: int
    count: int


class Slice(InputPartition):
    """The references that one task reads, in arrival order."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self.references = tuple(references)


def cut(references: Sequence[Reference], parts: int) -> list[list[Reference]]:
    """Cut references into at most `parts` contiguous pieces with (nearly) equal numbers of rows."""
    total = sum(r.count for r in references)
    share = max(1, -(-total // max(1, parts)))
    pieces: list[list[Reference]] = [[]]
    room = share
    for r in references:
        start, left = r.start, r.count
        while left > 0:
            if room == 0:
                pieces.append([])
                room = share
            taken = min(left, room)
            pieces[-1].append(Reference(r.ticket, r.stream, r.path, start, taken))
            start, left, room = start + taken, left - taken, room - taken
    return [p for p in pieces if p]


class InboxReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets over the tickets of the inbox. Runs in a Python process beside the driver."""

    def __init__(self, location: str, slices: int, rows_max: int) -> None:
        self.location = location
        self.slices = slices
        self.rows_max = rows_max
        self.end_of_run: int | None = None  # with availableNow: the first ticket that this run leaves alone
        self._inbox: Inbox | None = None

    @property
    def inbox(self) -> Inbox:
        if self._inbox is None:
            self._inbox = Inbox(open_files(self.location))
        return self._inbox

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        return {"ticket": 0, "row": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        self.end_of_run = self.inbox.next(self.inbox.released())  # older tickets are gone

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        return ReadMaxRows(self.rows_max)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        rows_left = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if rows_left is None and not isinstance(limit, ReadAllAvailable):
            rows_left = self.rows_max
        ticket, row = first = start["ticket"], start["row"]
        while self.end_of_run is None or ticket < self.end_of_run:
            entry = self.inbox.ticket(ticket)
            if entry is None:
                self.inbox.require_there(ticket)
                break
            available = entry.rows - row
            if is_changes(entry.stream):  # whole, or batches would show half of what was said at once
                if rows_left is not None and available > rows_left and (ticket, row) != first:
                    break
                rows_left = None if rows_left is None else max(0, rows_left - available)
                ticket += 1
                continue
            if rows_left is not None and available > rows_left:
                return {"ticket": ticket, "row": row + rows_left}
            if rows_left is not None:
                rows_left -= available
            ticket, row = ticket + 1, 0
        return {"ticket": ticket, "row": row}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        references = []
        ticket, row = start["ticket"], start["row"]
        while (ticket, row) < (end["ticket"], end["row"]):
            entry = self.inbox.ticket(ticket)
            if entry is None:
                raise RunError(
                    f"pushed rows of ticket {ticket} are gone, though no batch has taken them",
                    hint="the checkpoint is older than the ledger; restore both from the same backup",
                )
            stop = end["row"] if ticket == end["ticket"] else entry.rows
            if stop > row:
                references.append(Reference(ticket, entry.stream, entry.path, row, stop - row))
            ticket, row = ticket + 1, 0
        return [Slice(piece) for piece in cut(references, self.slices)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        yield pa.record_batch(
            {
                "ticket": pa.array([r.ticket for r in partition.references], pa.int64()),
                "stream": pa.array([r.stream for r in partition.references], pa.string()),
                "path": pa.array([r.path for r in partition.references], pa.string()),
                "start": pa.array([r.start for r in partition.references], pa.int64()),
                "count": pa.array([r.count for r in partition.references], pa.int64()),
            }
        )


class InboxSource(DataSource):
    """`spark.readStream.format("weir_inbox")`."""

    @classmethod
    def name(cls) -> str:
        return INBOX

    def schema(self) -> str:
        return "ticket bigint, stream string, path string, start bigint, count bigint"

    def streamReader(self, schema: Any) -> InboxReader:  # noqa: N802  # Spark's name
        return InboxReader(self.options["location"], int(self.options["slices"]), int(self.options["rowsMax"]))


def struct_name(stream: str) -> str:
    """The struct column that carries a Spark stream's rows through the union."""
    return f"s_{stream.lower()}"


def unite(
    session: SparkSession,
    location: str,
    frames: Mapping[str, DataFrame],
    *,
    slices: int,
    rows_max: int,
) -> DataFrame:
    """One streaming DataFrame with every source in it."""
    from pyspark.sql import functions as F  # noqa: N812  # the customary name

    session.dataSource.register(InboxSource)
    inbox = (
        session.readStream.format(INBOX)
        .name(INBOX)
        .option("location", location)
        .option("slices", str(slices))
        .option("rowsMax", str(rows_max))
        .load()
    )
    names = sorted(frames)
    # Spark takes plain names only; a table's name is no stream's.
    frames = {name: with_names(frame, name.removesuffix(CHANGES)) for name, frame in frames.items()}
    empty = {n: F.lit(None).cast(frames[n].schema).alias(struct_name(n)) for n in names}
    columns = [F.struct("ticket", "stream", "path", "start", "count").alias("ref")]
    united = inbox.select(*columns, *(empty[n] for n in names))
    for n in names:
        own = F.struct(*(F.col(f"`{c}`") for c in frames[n].columns)).alias(struct_name(n))
        none = F.lit(None).cast(REF_TYPE).alias("ref")
        united = united.union(frames[n].select(none, *(own if m == n else empty[m] for m in names)))
    return united


def columns_of(frame: DataFrame, relation: str) -> tuple[Column, ...]:
    """The columns of a stream or table, read off a DataFrame's schema; what Weir does not know is refused.

    `relation` is what messages call it: "stream 'trade'".
    """
    for field in frame.schema.fields:
        if not re.fullmatch(r"[A-Za-z_]\w*", field.name):
            raise StreamError(
                f"column '{field.name}' of {relation} is not a plain name",
                hint="rename it with letters, digits and underscores before giving the DataFrame to Weir",
            )
    return tuple(Column(f.name, _type_of(f, relation)) for f in frame.schema.fields)


_SIZED_TEXT = "__CHAR_VARCHAR_TYPE_STRING"  # where a DataFrame keeps that a column of strings is a char or varchar


def _type_of(field: StructField, stream: str) -> DataType:
    try:
        found = _read(field.dataType, 0)
        return read_type(field.metadata[_SIZED_TEXT])[0] if _SIZED_TEXT in field.metadata and found == STRING else found
    except TypeFaultError as wrong:
        name = field.dataType.simpleString()
        raise StreamError(
            f"column '{field.name}' of stream '{stream}' has type {name}, expected one of {KNOWN}",
            hint="select or cast the columns that queries need before giving the DataFrame to Weir",
        ) from wrong


def _read(spark_type: SparkType, depth: int) -> DataType:
    """A type of Spark, which stands in so many others; names of fields may be any text, so they are not written."""
    from pyspark.sql import types

    if isinstance(spark_type, types.ArrayType):
        return array(_read(spark_type.elementType, depth + 1))
    if isinstance(spark_type, types.MapType):
        return map_of(_read(spark_type.keyType, depth + 1), _read(spark_type.valueType, depth + 1))
    if isinstance(spark_type, types.StructType):
        return struct(*((f.name, _read(f.dataType, depth + 1)) for f in spark_type.fields))
    name = spark_type.simpleString()
    found, end = read_type(name, depth=depth)
    if end < len(name):  # a string with a collation, say
        raise TypeFaultError(f"one of {KNOWN}", name)
    return found
