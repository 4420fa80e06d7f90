"""The two jobs of a batch, as the protocol asks for them: building tasks, running them on Spark, reading reports.

What a task does is in `ingest` and `match`; here is only what the driver does around them, so that the same
tasks can also be run without Spark (`weir.testing.direct`).
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weir.algebra.schema import Catalog
from weir.errors import RunError
from weir.families.contract import Tuning
from weir.families.forms import form_named
from weir.runtime import ingest, match
from weir.runtime.ingest import IngestTask, ingest_task
from weir.runtime.loop import Context, IngestReport, MatchReport, SliceRows
from weir.runtime.match import FamilyTask, MatchTask, RowRange, match_task
from weir.runtime.query_segments import FamilyRef, QuerySegments
from weir.runtime.row_segments import PartnerRefs, PartnerSegments
from weir.store.ledger import MatchFile, Plan, RowFile

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


class _DamagedError(Exception):
    """A cache file was deleted or damaged while tasks were reading it."""


class TaskJobs(ABC):
    """The driver's side of both jobs; how tasks are run is left open."""

    ingest_ms = 0.0
    match_ms = 0.0

    def __init__(self, context: Context, segments: QuerySegments, partners: PartnerSegments, slices: int) -> None:
        self.context = context
        self.segments = segments
        self.partners = partners
        self.slices = slices
        self.choices: dict[str, dict[str, int]] = {}  # by family with strategies: events that each processed

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
        if not slices:
            return MatchReport((), 0, {})
        try:
            reports = self._run_once(plan, rows, catalog, demoted, slices)
        except _DamagedError:
            # Somebody deleted or damaged the cache while tasks were reading it: build it again, once.
            try:
                reports = self._run_once(plan, rows, catalog, demoted, slices)
            except _DamagedError as again:
                raise RunError(
                    f"files under cache/ were deleted or damaged twice while batch {plan.batch} was reading them",
                    hint="is another driver or a clean-up job at work on this folder? stop it, and run again",
                ) from again
        reports.sort(key=lambda r: int(r["slice"]))
        heavy: dict[int, int] = {}
        for r in reports:
            for id, count in zip(r["ids"], r["counts"], strict=True):
                heavy[id] = heavy.get(id, 0) + count
        over = any(r["over_budget"] for r in reports)
        files = () if over else tuple(MatchFile(r["path"], r["slice"], r["pairs"], r["events"]) for r in reports)
        self.match_ms = (time.perf_counter() - started) * 1e3
        return MatchReport(files, sum(r["pairs"] for r in reports), heavy, over)

    def _run_once(
        self,
        plan: Plan,
        rows: tuple[RowFile, ...],
        catalog: Catalog,
        demoted: np.ndarray,
        slices: tuple[tuple[RowRange, ...], ...],
    ) -> list[dict[str, Any]]:
        """Prepare what tasks read, and run them; _DamagedError when a cache was deleted or damaged meanwhile."""
        prepared = self.segments.prepare(plan.registry, demoted, catalog)
        arriving = {f.stream for f in rows}
        met: list[tuple[FamilyRef, PartnerRefs]] = []
        self.partners.retain(prepared.families)
        try:
            for of in prepared.families:
                if not arriving.isdisjoint(of.family.streams):
                    streams = [catalog.streams[name.lower()] for name in of.family.streams]
                    met.append((of, self.partners.prepare(of, streams, self.context.state, rows)))
            if not met:
                return []
            task = self._match_task(plan, rows, slices, met, catalog)
            reports = self.run_match(task)
            self.choices = _choices(task, reports)
            return reports
        except Exception as error:
            whole = self.segments.are_whole(prepared) and all(self.partners.are_whole(p) for _, p in met)
            if whole:
                raise
            self.segments.forget_damaged(prepared)
            for _, found in met:
                self.partners.forget_damaged(found)
            raise _DamagedError from error
        finally:
            for _, found in met:
                self.partners.forget(found)

    def _match_task(
        self,
        plan: Plan,
        rows: tuple[RowFile, ...],
        slices: tuple[tuple[RowRange, ...], ...],
        met: Sequence[tuple[FamilyRef, PartnerRefs]],
        catalog: Catalog,
    ) -> MatchTask:
        settings = self.context.settings
        rows_count = sum(f.count for f in rows)
        families = []
        for of, found in met:
            streams = tuple(catalog.streams[name.lower()] for name in of.family.streams)
            partners = tuple(found.met(side) for side in range(len(streams)))
            families.append(FamilyTask(of.form, of.family.name, of.family.channel, streams, of.segments, partners))
        return MatchTask(
            location=self.context.files.location,
            batch=plan.batch,
            slices=slices,
            families=tuple(families),
            pairs_max=max(1, settings.pairs_per_batch_max // len(slices)),
            # Half of an even share, so that a query that is heavy over all slices is named even if these differ.
            heavy_min=max(1, int(max(settings.demote_pairs_min, settings.demote_share * rows_count) / len(slices) / 2)),
            tuning=Tuning(settings.join_strategy, self.partners.costs),
            kernels=self.segments.kernels(plan.registry, catalog),
        )


def _choices(task: MatchTask, reports: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """For each family, how many events each of its strategies processed, over all slices."""
    counted = np.array([r["choices"] for r in reports], np.int64).sum(axis=0)
    found, start = {}, 0
    for of in task.families:
        names = form_named(of.form).strategies
        if names:
            found[of.name] = dict(zip(names, counted[start : start + len(names)].tolist(), strict=True))
        start += len(names)
    return found


class SparkJobs(TaskJobs):
    """Both jobs on Spark: one stage each, no shuffle."""

    def __init__(
        self,
        session: SparkSession,
        frame: DataFrame,
        context: Context,
        segments: QuerySegments,
        partners: PartnerSegments,
        slices: int,
    ) -> None:
        super().__init__(context, segments, partners, slices)
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
