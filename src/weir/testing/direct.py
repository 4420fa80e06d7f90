"""Both jobs of a batch without Spark: the same tasks, run in this process, over rows given in memory.

For tests that need thousands of batches: everything but Spark's scheduling is the real thing, down to row files,
segments, match files and the ledger. `DirectWeir` pairs it with a `Weir` for registering and fetching. A batch takes
the rows that it is given, and if wanted whatever was pushed to the inbox, tables' changes included; offsets are kept
beside the ledger, so that a batch that is run again takes the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from weir.api import Weir
from weir.runtime.ingest import IngestTask, ingest_task
from weir.runtime.intake import rows_for
from weir.runtime.jobs import TaskJobs
from weir.runtime.loop import Context, run_batch
from weir.runtime.maintain import maintain_part
from weir.runtime.match import MatchTask, match_slice
from weir.runtime.query_segments import QuerySegments
from weir.runtime.row_segments import PartnerSegments
from weir.runtime.sources import Reference, cut, struct_name
from weir.runtime.upkeep_tasks import UpkeepTask
from weir.store.catalog import CatalogLog
from weir.store.inbox import Inbox
from weir.store.ledger import Done, Ledger
from weir.store.registry import Registry
from weir.store.state import State

OFFSETS = "checkpoint/pushed"  # by batch, the first ticket that it leaves alone


class DirectJobs(TaskJobs):
    """Runs tasks one after the other."""

    def __init__(
        self,
        context: Context,
        segments: QuerySegments,
        partners: PartnerSegments,
        slices: int,
        rows: Sequence[tuple[str, pa.Table]],
        pushed: Sequence[Reference] = (),
    ) -> None:
        super().__init__(context, segments, partners, slices)
        self.rows = rows
        self.pushed = pushed

    def run_ingest(self, task: IngestTask) -> list[dict[str, Any]]:
        reports: list[dict[str, Any]] = []
        for number, batches in enumerate(self._slices()):
            for report in ingest_task(task)(iter(batches)):
                reports.extend({**r, "slice": number} for r in report.to_pylist())
        return reports

    def _slices(self) -> list[list[pa.RecordBatch]]:
        """What was pushed, then every stream's rows, cut into contiguous parts, one part a slice."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(self.slices)]
        for k, piece in enumerate(cut(self.pushed, self.slices)):
            parts[k].append(pa.record_batch({"ref": pa.array([asdict(ref) for ref in piece])}))
        for stream, table in self.rows:
            share = -(-table.num_rows // self.slices)
            for k in range(self.slices):
                part = table.slice(k * share, share).combine_chunks()
                if part.num_rows:
                    arrays = [c.chunk(0) for c in part.columns]
                    struct = pa.StructArray.from_arrays(arrays, fields=list(part.schema))
                    ref = pa.nulls(part.num_rows, pa.struct([("ticket", pa.int64())]))
                    columns = [ref, struct]
                    names = ["ref", struct_name(stream.lower())]
                    parts[k].append(pa.RecordBatch.from_arrays(columns, names=names))
        return [p for p in parts if p]

    def run_match(self, task: MatchTask) -> list[dict[str, Any]]:
        return [match_slice(task, k) for k in range(len(task.slices))]

    def run_upkeep(self, task: UpkeepTask) -> list[dict[str, Any]]:
        return [maintain_part(task, part) for parts in task.slices for part in parts]


class DirectWeir:
    """Drives a weir's batches in this process, with a clock that the test sets."""

    def __init__(self, weir: Weir, *, slices: int = 2, wall_us: int = 0, takes_pushes: bool = False) -> None:
        self.weir = weir
        self.takes_pushes = takes_pushes
        self.slices = slices
        self.wall_us = wall_us
        registry = Registry(weir.files)
        self.context = Context(
            files=weir.files,
            ledger=Ledger(weir.files),
            registry=registry,
            catalog_log=CatalogLog(weir.files),
            state=State(),
            settings=weir.settings,
            identity=weir.identity,
            wall_us=lambda: self.wall_us,
        )
        self.segments = QuerySegments(weir.files, registry, weir.settings)
        self.partners = PartnerSegments(weir.files, weir.settings)
        self.jobs: DirectJobs | None = None  # those of the last batch

    def batch(self, rows: Mapping[str, Any]) -> Done:
        """Run the next batch over rows by stream, and if this one takes pushes over those since the last one."""
        number = self.context.state.refresh(self.context.ledger) + 1
        catalog = self.weir.catalog
        given = [(name, rows_for(table, catalog.fed()[name.lower()])) for name, table in rows.items()]
        pushed = self._pushed(number) if self.takes_pushes else []
        self.jobs = DirectJobs(self.context, self.segments, self.partners, self.slices, given, pushed)
        return run_batch(self.context, number, self.jobs)

    def _pushed(self, batch: int) -> list[Reference]:
        """The pushes that a batch takes; which ones is written down, as Spark logs offsets."""
        files, inbox = self.weir.files, Inbox(self.weir.files)
        ends = {int(e.path.rpartition("/")[2]): e.path for e in files.list(OFFSETS)}
        before = max((n for n in ends if n < batch), default=-1)
        start = 0 if before < 0 else int(files.read(ends[before]) or b"")
        if batch in ends:
            end = int(files.read(ends[batch]) or b"")
        elif self.context.ledger.plan(batch) is not None:  # it was begun, and there was nothing to take
            end = start
        elif (end := inbox.next(start)) > start:
            files.create(f"{OFFSETS}/{batch:012d}", str(end).encode())
        tickets = [inbox.ticket(number) for number in range(start, end)]
        return [Reference(t.number, t.stream, t.path, 0, t.rows) for t in tickets if t is not None]
