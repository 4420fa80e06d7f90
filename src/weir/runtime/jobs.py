"""The two jobs of a batch, as the protocol asks for them: building tasks, running them on Spark, reading reports.

What a task does is in `ingest` and `match`; here is only what the driver does around them, so that the same
tasks can also be run without Spark (`weir.testing.direct`).
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Catalog
from weir.runtime import ingest, match
from weir.runtime.ingest import IngestTask, ingest_task
from weir.runtime.loop import Context, IngestReport, MatchReport, SliceRows
from weir.runtime.match import MatchTask, RowRange, SegmentRef, match_task
from weir.runtime.segments import QuerySegments
from weir.store.files import open_files
from weir.store.ledger import Done, MatchFile, Plan, RowFile
from weir.store.matches import read_matches
from weir.store.rows import arrow_schema, read_table, times_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def cut_rows(files: Sequence[RowFile], slices: int) -> tuple[tuple[RowRange, ...], ...]:
    """Cut the new rows into at most `slices` contiguous pieces of (nearly) equal size."""
    total = sum(f.count for f in files)
    share = max(1, -(-total // max(1, slices)))
    pieces: list[list[RowRange]] = [[]]
    room = share
    for f in files:
        start = 0
        while start < f.count:
            if room == 0:
                pieces.append([])
                room = share
            taken = min(f.count - start, room)
            pieces[-1].append(RowRange(f.stream, f.path, start, taken, f.first_row + start))
            start, room = start + taken, room - taken
    return tuple(tuple(p) for p in pieces if p)


class TaskJobs(ABC):
    """The driver's side of both jobs; how tasks are run is left open."""

    ingest_ms = 0.0
    match_ms = 0.0

    def __init__(self, context: Context, segments: QuerySegments, slices: int) -> None:
        self.context = context
        self.segments = segments
        self.slices = slices

    @abstractmethod
    def run_ingest(self, task: IngestTask) -> list[dict[str, Any]]:
        """Run the ingest task over the batch; one report a slice and stream."""

    @abstractmethod
    def run_match(self, task: MatchTask) -> list[dict[str, Any]]:
        """Run the match task over its slices; one report a slice."""

    def ingest(self, plan: Plan, catalog: Catalog) -> IngestReport:
        started = time.perf_counter()
        task = IngestTask(
            location=self.context.files.location,
            batch=plan.batch,
            streams=dict(catalog.streams),
            floors_us=plan.floors,
            wall_us=plan.wall_us,
            stamp_us=plan.now_us if self.context.identity.clock == "arrival" else None,
        )
        by_slice: dict[int, list[SliceRows]] = {}
        ticket = 0
        for r in self.run_ingest(task):
            ticket = max(ticket, r["ticket"])
            rows = SliceRows(
                r["stream"], r["path"], r["count"], r["t_min"], r["t_max"], r["late_path"], json.loads(r["reasons"])
            )
            by_slice.setdefault(r["slice"], []).append(rows)
        self.ingest_ms = (time.perf_counter() - started) * 1e3
        return IngestReport(tuple(tuple(by_slice[k]) for k in sorted(by_slice)), ticket)

    def match(self, plan: Plan, rows: tuple[RowFile, ...], catalog: Catalog, demoted: np.ndarray) -> MatchReport:
        started = time.perf_counter()
        slices = cut_rows(rows, self.slices)
        segments = self.segments.prepare(plan.registry, demoted, catalog) if slices else {}
        if not any(segments.values()):
            return MatchReport((), 0, {})
        task = self._match_task(plan, rows, slices, segments)
        try:
            reports = self.run_match(task)
        except Exception:
            if self.segments.are_whole(segments):
                raise
            # Somebody deleted or damaged the cache while tasks were reading it: build it again, once.
            self.segments.forget_damaged(segments)
            reports = self.run_match(replace(task, segments=self.segments.prepare(plan.registry, demoted, catalog)))
        reports.sort(key=lambda r: int(r["slice"]))
        heavy: dict[int, int] = {}
        for r in reports:
            for id, count in zip(r["ids"], r["counts"], strict=True):
                heavy[id] = heavy.get(id, 0) + count
        over = any(r["over_budget"] for r in reports)
        files = () if over else tuple(MatchFile(r["path"], r["slice"], r["pairs"], r["events"]) for r in reports)
        self.match_ms = (time.perf_counter() - started) * 1e3
        return MatchReport(files, sum(r["pairs"] for r in reports), heavy, over)

    def _match_task(
        self,
        plan: Plan,
        rows: tuple[RowFile, ...],
        slices: tuple[tuple[RowRange, ...], ...],
        segments: Mapping[str, tuple[SegmentRef, ...]],
    ) -> MatchTask:
        settings = self.context.settings
        rows_count = sum(f.count for f in rows)
        return MatchTask(
            location=self.context.files.location,
            batch=plan.batch,
            slices=slices,
            segments=segments,
            pairs_max=max(1, settings.pairs_per_batch_max // len(slices)),
            # Half of an even share, so that a query that is heavy in all is named even if slices differ.
            heavy_min=max(1, int(max(settings.demote_pairs_min, settings.demote_share * rows_count) / len(slices) / 2)),
        )


class SparkJobs(TaskJobs):
    """Both jobs on Spark: one stage each, no shuffle."""

    def __init__(
        self, session: SparkSession, frame: DataFrame, context: Context, segments: QuerySegments, slices: int
    ) -> None:
        super().__init__(context, segments, slices)
        self.session = session
        self.frame = frame

    def run_ingest(self, task: IngestTask) -> list[dict[str, Any]]:
        # References come in as many slices as are wanted; partitions of users' sources do not. Coalescing joins
        # neighbours without a shuffle: order and content stay.
        frame = self.frame.coalesce(self.slices) if len(self.frame.columns) > 1 else self.frame
        return [r.asDict() for r in frame.mapInArrow(ingest_task(task), ingest.REPORT_DDL).collect()]

    def run_match(self, task: MatchTask) -> list[dict[str, Any]]:
        n = len(task.slices)
        numbers = self.session.range(0, n, 1, n)
        return [r.asDict() for r in numbers.mapInArrow(match_task(task), match.REPORT_DDL).collect()]


def matches_frame(session: SparkSession, context: Context, done: Done, slices: int) -> DataFrame:
    """The matches of a done batch with their rows: query, stream, row, time, and a struct for each stream.

    Lazy: nothing is read unless the sink asks. Rows of other streams are NULL.
    """
    catalog = context.catalog_log.read()
    streams = {s.name: s for s in catalog.streams.values() if any(r.stream == s.name for r in done.rows)}
    paths = [m.path for m in done.matches]
    row_files = done.rows
    location = context.files.location
    struct_types = {n: pa.struct(list(arrow_schema(s.columns))) for n, s in streams.items()}

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = open_files(location)
        for batch in batches:
            for k in batch.column(0).to_pylist():
                for piece in read_matches(files, paths[k]):
                    events = np.repeat(np.arange(len(piece.offsets) - 1), np.diff(piece.offsets))
                    rows = events + piece.first_row
                    stream = streams[piece.stream]
                    file = next(
                        f
                        for f in row_files
                        if f.stream == piece.stream and f.first_row <= piece.first_row < f.first_row + f.count
                    )
                    table = read_table(files, file.path).take(pa.array(rows - file.first_row)).combine_chunks()
                    columns = [
                        pa.array(piece.items),
                        pa.repeat(piece.stream, len(rows)),
                        pa.array(rows),
                        times_us(table, stream).cast(pa.timestamp("us", "UTC")),
                    ]
                    for name, struct in struct_types.items():
                        own = name == piece.stream
                        arrays = [c.chunk(0) if c.num_chunks else pa.nulls(0, c.type) for c in table.columns]
                        columns.append(
                            pa.StructArray.from_arrays(arrays, fields=list(struct))
                            if own
                            else pa.nulls(len(rows), struct)
                        )
                    names = ["query", "stream", "row", "time", *struct_types]
                    yield pa.RecordBatch.from_arrays(columns, names=names)

    structs = "".join(
        f", `{n}` struct<{','.join(f'`{c.name}`:{c.type}' for c in s.columns)}>" for n, s in streams.items()
    )
    ddl = f"query bigint, stream string, row bigint, time timestamp{structs}"
    n = max(1, min(slices, len(paths)))
    return session.range(0, len(paths), 1, n).mapInArrow(read, ddl)
