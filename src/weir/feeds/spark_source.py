"""`spark.read.format("weir")` and `spark.readStream.format("weir")`.

Spark asks for everything in Python processes of its own: what there is to read when `load` is called, which parts it
has when a query is planned, and the rows of each part in the tasks. So what was found goes with the source from one
process to the next, and what is read is what was there at `load`. Of a stream the offsets are batches of the weir.

Spark imports this file in every session where Weir is installed (`pyspark_weir`), so it imports little itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from weir.feeds.contents import Content, Steps

BATCH_ROWS = 100_000  # that Spark gets at once


class Part(InputPartition):
    """What one task reads."""

    def __init__(self, of: Any) -> None:
        self.of = of


class WeirSource(DataSource):
    """A weir, as its options say: `path`, `what`, `query`, `stream`, `at`."""

    @classmethod
    def name(cls) -> str:
        return "weir"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        from weir.feeds.options import content_of

        self.content = content_of(self.options)
        return from_arrow_schema(self.content.schema)

    def reader(self, schema: StructType) -> WeirReader:
        content = self._content()
        if not hasattr(content, "parts"):
            raise self._refused("changes are read as a stream", "spark.readStream.format('weir'), or Query.changes")
        return WeirReader(content, schema)

    def streamReader(self, schema: StructType) -> WeirStreamReader:  # noqa: N802  # Spark's name
        content = self._content()
        if not hasattr(content, "steps"):
            what = self.options.get("what", "answers")
            raise self._refused(f"what={what} is no stream", "streams are what=changes, matches and streams")
        return WeirStreamReader(content, schema)

    def _content(self) -> Any:
        if not hasattr(self, "content"):
            raise self._refused("the source knows its columns", "leave out .schema(…)")
        return self.content

    def _refused(self, what: str, hint: str) -> Exception:
        from weir.errors import FeedError

        return FeedError(what, hint=hint)


def _batches(content: Content | Steps, columns: StructType, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a part, of the types that Spark will expect."""
    from pyspark.sql.pandas.types import to_arrow_schema

    assert isinstance(partition, Part)
    wanted = to_arrow_schema(columns, timezone="UTC")
    for table in content.read(partition.of):
        yield from table.cast(wanted).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


class WeirReader(DataSourceReader):
    """Reads what was there at `load`."""

    def __init__(self, content: Content, columns: StructType) -> None:
        self.content = content
        self.columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [Part(of) for of in self.content.parts()] or [Part([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self.content, self.columns, partition)


class WeirStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what came, batch by batch. Spark keeps the offsets: how far it has got (`weir.feeds.folder.Place`)."""

    def __init__(self, content: Steps, columns: StructType) -> None:
        self.content = content
        self.columns = columns
        self.end_of_run: dict[str, Any] | None = None  # with availableNow: no batch after this one is read

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        from weir.feeds.folder import START

        return START.said()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        self.end_of_run = self._newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        from weir.feeds.folder import Place, open_folder

        open_folder(self.content.location).require(Place(**start))
        newest = self.end_of_run or self._newest()
        return newest if newest["batch"] > start["batch"] else start

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return self._newest()

    def _newest(self) -> dict[str, Any]:
        from weir.feeds.folder import open_folder

        return open_folder(self.content.location).newest().said()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from weir.feeds.folder import Place, open_folder

        open_folder(self.content.location).require(Place(**end))
        return [Part(of) for of in self.content.steps(Place(**start), Place(**end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self.content, self.columns, partition)
