"""The two jobs of a batch, as the protocol asks for them: building tasks, running them on Spark, reading reports.

What a task does is in `ingest` and `match`; here is only what the driver does around them, so that the same
tasks can also be run without Spark (`weir.testing.direct`).
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weir import errors
from weir.algebra.schema import Catalog, is_changes
from weir.errors import DiskError, RunError
from weir.families.contract import Tuning
from weir.families.forms import form_named
from weir.runtime import ingest, maintain, match, upkeep
from weir.runtime.ingest import IngestTask, ingest_task, stamps_us
from weir.runtime.loop import Context, IngestReport, Matched, MatchReport, SliceRows, UpkeepReport, later
from weir.runtime.maintain import upkeep_task
from weir.runtime.match import NOT_OF_QUERIES, FamilyTask, MatchTask, RowRange, match_task, reason_of
from weir.runtime.quarantine import WORKER_DIED, NotMatchedError, culprits
from weir.runtime.query_segments import Failure, FamilyRef, Prepared, QuerySegments
from weir.runtime.recent_rows import RecentRows
from weir.runtime.row_segments import PartnerRefs, PartnerSegments
from weir.runtime.upkeep_tasks import UpkeepTask
from weir.store.arrays import delete_damaged
from weir.store.ledger import MatchFile, Plan, Quarantine, RowFile
from weir.store.range_map import ranges_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OWN_ERROR = re.compile(r"^weir\.errors\.(\w+): (.*)", re.MULTILINE)
ATTEMPTS = 3  # to match a batch, if families fail that then work alone


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


_Met = tuple[FamilyRef, PartnerRefs]


@dataclass(frozen=True)
class _Batch:
    """What a batch is matched with, whatever becomes of it."""

    plan: Plan
    rows: tuple[RowFile, ...]
    catalog: Catalog

    def concerns(self, of: FamilyRef) -> bool:
        return any(f.stream in of.family.streams for f in self.rows)


def _key(of: FamilyRef) -> tuple[str, str]:
    return of.form, of.family.name


class TaskJobs(ABC):
    """The driver's side of both jobs; how tasks are run is left open."""

    ingest_ms = 0.0
    match_ms = 0.0
    upkeep_ms = 0.0
    came = went = 0  # rows of kept answers

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
    def run_upkeep(self, task: UpkeepTask) -> list[dict[str, Any]]:
        """Run the upkeep task over its slices; one report a part."""

    @abstractmethod
    def run_match(self, task: MatchTask) -> list[dict[str, Any]]:
        """Run the match task over its slices; one report a slice."""

    def ingest(self, plan: Plan, catalog: Catalog) -> IngestReport:
        started = time.perf_counter()
        task = IngestTask(
            location=self.context.files.location,
            batch=plan.batch,
            streams=catalog.fed(),
            floors_us=plan.floors,
            wall_us=plan.wall_us,
            stamps_us=stamps_us(plan, catalog, self.context.identity.clock, self.context.state.now_us),
            dropped=frozenset(name.lower() for name in catalog.dropped),
            keys={table.changes.name: table.key for table in catalog.tables.values()},
        )
        by_slice: dict[int, list[SliceRows]] = {}
        ticket, now_us = 0, None
        for r in self.run_ingest(task):
            ticket, now_us = max(ticket, r["ticket"]), later(now_us, r["now_us"])
            rows = SliceRows(
                r["stream"], r["path"], r["count"], r["t_min"], r["t_max"], r["late_path"], json.loads(r["reasons"])
            )
            by_slice.setdefault(r["slice"], []).append(rows)
        self.ingest_ms = (time.perf_counter() - started) * 1e3
        return IngestReport(tuple(tuple(by_slice[k]) for k in sorted(by_slice)), ticket, now_us)

    def match(self, plan: Plan, rows: tuple[RowFile, ...], catalog: Catalog, demoted: np.ndarray) -> MatchReport:
        started = time.perf_counter()
        if not rows:
            return MatchReport((), 0, {})
        batch = _Batch(plan, rows, catalog)
        for _ in range(ATTEMPTS):
            reports, failures = self._run_whole(batch, demoted)
            if not failures:
                break
            quarantined = tuple(q for f in failures for q in self._blame(f, batch))
            if quarantined:
                return MatchReport((), 0, {}, quarantined=quarantined)
        else:  # each time something failed, and worked when it was tried again
            raise RunError(f"batch {plan.batch} failed {ATTEMPTS} times, for no query's fault: {failures[0].reason}")
        reports.sort(key=lambda r: int(r["slice"]))
        heavy: dict[int, int] = {}
        for r in reports:
            for id, count in zip(r["ids"], r["counts"], strict=True):
                heavy[id] = heavy.get(id, 0) + count
        over = any(r["over_budget"] for r in reports)
        files = () if over else tuple(MatchFile(r["path"], r["slice"], r["pairs"], r["events"]) for r in reports)
        self.match_ms = (time.perf_counter() - started) * 1e3
        return MatchReport(files, sum(r["pairs"] for r in reports), heavy, over)

    def maintain(self, matched: Matched) -> UpkeepReport:
        started = time.perf_counter()
        report = upkeep.maintain(self, matched)
        self.upkeep_ms = (time.perf_counter() - started) * 1e3
        return report

    def match_older(
        self, of: FamilyRef, events: Sequence[RowFile], matched: Matched
    ) -> tuple[list[str], dict[int, int]]:
        """Match rows of earlier batches, of a family's first side, with older ones of the others.

        The match files, or if that would be too much, the results of each core. What cannot be matched is raised.
        """
        batch = _Batch(matched.plan, tuple(events), matched.catalog)
        found = self.partners.prepare(of, matched.catalog, self.context.state, events)
        try:
            old = replace(found, passing=((),) * len(found.old))
            reports = self.run_match(replace(self._match_task(batch, [(of, old)]), only_side=0))
        finally:
            self.partners.forget(found)
        failed = next((why for r in reports for why in r["reasons"]), None)
        if failed is not None:
            raise NotMatchedError(failed)
        counts: dict[int, int] = {}
        for r in reports:
            for id, count in zip(r["ids"], r["counts"], strict=True):
                counts[id] = counts.get(id, 0) + count
        if any(r["over_budget"] for r in reports):
            return [], counts
        return [r["path"] for r in reports], {}

    def _run_whole(self, batch: _Batch, demoted: np.ndarray) -> tuple[list[dict[str, Any]], list[Failure]]:
        """As `_run_once`; if somebody deletes or damages the cache while tasks read it, it is built again, once."""
        try:
            return self._run_once(batch, demoted)
        except _DamagedError:
            try:
                return self._run_once(batch, demoted)
            except _DamagedError as again:
                raise RunError(
                    f"files under cache/ were deleted or damaged twice while batch {batch.plan.batch} was reading them",
                    hint="is another driver or a clean-up job at work on this folder? stop it, and run again",
                ) from again

    def _run_once(self, batch: _Batch, demoted: np.ndarray) -> tuple[list[dict[str, Any]], list[Failure]]:
        """Prepare what tasks read, and run them; reports, or what cannot be matched.

        _DamagedError: a cache was deleted or damaged meanwhile.
        """
        recent = RecentRows(self.context.files, self.context.state, batch.rows)
        prepared = self.segments.prepare(batch.plan.registry, demoted, batch.catalog, recent)
        failures = list(prepared.failures)
        met: list[_Met] = []
        self.partners.retain(prepared.families)
        try:
            for of in prepared.families:
                if batch.concerns(of):
                    try:
                        met.append((of, self._partners_of(of, batch)))
                    except NOT_OF_QUERIES:
                        raise
                    except Exception as error:
                        failures.append(self.segments.failure(_key(of), prepared.muted, reason_of(error)))
            if failures or not met:
                return [], failures
            task = self._match_task(batch, met)
            reports = self.run_match(task)
            failed = {n: why for r in reports for n, why in zip(r["failed"], r["reasons"], strict=True)}
            if failed:
                self._require_whole(prepared, met)  # a damaged file makes anything fail
            for number, reason in failed.items():
                failures.append(self.segments.failure(_key(met[number][0]), prepared.muted, reason))
            if not failures:
                self.choices = _choices(task, reports)
            return reports, failures
        except (_DamagedError, DiskError):
            raise
        except Exception as error:
            self._require_whole(prepared, met, error)
            if WORKER_DIED in str(error):
                failures = self._crashing(batch, met, prepared.muted)
                if failures:
                    return [], failures
            raise
        finally:
            for _, found in met:
                self.partners.forget(found)

    def _partners_of(self, of: FamilyRef, batch: _Batch) -> PartnerRefs:
        return self.partners.prepare(of, batch.catalog, self.context.state, batch.rows)

    def _require_whole(self, prepared: Prepared, met: Sequence[_Met], error: Exception | None = None) -> None:
        """_DamagedError unless all files that tasks read are whole; those that are not are deleted."""
        if delete_damaged(self.context.files, [*prepared.paths(), *(path for _, of in met for path in of.paths())]):
            raise _DamagedError from error

    # ── what cannot be matched ──

    def _blame(self, failure: Failure, batch: _Batch) -> list[Quarantine]:
        """The cores that make a family fail."""
        ids = failure.ids
        if failure.key is not None:
            ids = culprits(ids, lambda kept: self._works(failure, kept, batch))
        if not len(ids):
            return []
        self.segments.say(
            f"{len(ids):,} of {len(failure.ids):,} queries of one family cannot be matched, and are recomputed when "
            f"they are asked for: {failure.reason}"
        )
        return [Quarantine(first, count, failure.reason) for first, count in ranges_of(ids)]

    def _works(self, failure: Failure, kept: np.ndarray, batch: _Batch) -> bool:
        """Whether some cores of a family can be built and matched with this batch's rows; nothing is written."""
        try:
            with self.segments.trial(failure, kept, batch.plan.registry, batch.catalog) as of:
                if not batch.concerns(of):
                    return True
                found = self._partners_of(of, batch)
                try:
                    return self._is_matched(batch, [(of, found)])
                finally:
                    self.partners.forget(found)
        except NOT_OF_QUERIES:
            raise
        except Exception:  # whatever it is: the family failed with these cores
            return False

    def _is_matched(self, batch: _Batch, met: Sequence[_Met]) -> bool:
        task = self._match_task(batch, met, is_trial=True)
        reports = self.run_match(task) if task.slices else []
        return not any(r["failed"] for r in reports)

    def _crashing(self, batch: _Batch, met: Sequence[_Met], muted: np.ndarray) -> list[Failure]:
        """The families that end the process they are matched in; none if tasks fail without any family, too."""

        def survives(some: Sequence[_Met]) -> bool:
            try:
                return self._is_matched(batch, some)
            except Exception as error:
                if WORKER_DIED not in str(error):
                    raise
                return False

        if not survives([]):
            return []
        crashing = [of for of, found in met if not survives([(of, found)])]
        return [self.segments.failure(_key(of), muted, "it ends the process that matches it") for of in crashing]

    def _match_task(self, batch: _Batch, met: Sequence[_Met], *, is_trial: bool = False) -> MatchTask:
        settings = self.context.settings
        of_streams = [f for f in batch.rows if not is_changes(f.stream)]
        read = {name for of, _ in met for name in of.family.streams}
        slices = cut_rows(
            [*of_streams, *(f for f in batch.rows if is_changes(f.stream) and f.stream in read)], self.slices
        )
        share = settings.demote_share * sum(f.count for f in of_streams)
        families = []
        for of, found in met:
            streams = tuple(batch.catalog.side(name) for name in of.family.streams)
            partners = tuple(found.met(side) for side in range(len(streams)))
            names = of.form, of.family.name, of.family.channel
            families.append(FamilyTask(*names, streams, of.segments, partners, found.lifetimes, of.family, of.needs))
        return MatchTask(
            location=self.context.files.location,
            batch=batch.plan.batch,
            slices=slices,
            families=tuple(families),
            pairs_max=max(1, settings.pairs_per_batch_max // max(1, len(slices))),
            # Half of an even share, so that a query that is heavy over all slices is named even if these differ.
            heavy_min=max(1, int(max(settings.demote_pairs_min, share) / max(1, len(slices)) / 2)),
            tuning=Tuning(settings.join_strategy, self.partners.costs),
            kernels=self.segments.kernels(batch.plan.registry, batch.catalog),
            is_trial=is_trial,
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
        return _collected(frame.mapInArrow(ingest_task(task), ingest.REPORT_DDL))

    def run_match(self, task: MatchTask) -> list[dict[str, Any]]:
        n = len(task.slices)
        numbers = self.session.range(0, n, 1, n)
        return _collected(numbers.mapInArrow(match_task(task), match.REPORT_DDL))

    def run_upkeep(self, task: UpkeepTask) -> list[dict[str, Any]]:
        n = len(task.slices)
        numbers = self.session.range(0, n, 1, n)
        return _collected(numbers.mapInArrow(upkeep_task(task), maintain.REPORT_DDL))


def _collected(frame: DataFrame) -> list[dict[str, Any]]:
    """The reports of all tasks. An error of ours that made a task fail is raised as it was, not as Spark tells it."""
    try:
        return [r.asDict() for r in frame.collect()]
    except Exception as error:
        found = _OWN_ERROR.findall(str(error))
        kind = getattr(errors, found[-1][0], None) if found else None
        if kind is None:
            raise
        raise kind(found[-1][1].removeprefix(f"{kind.stage}: ")) from error
