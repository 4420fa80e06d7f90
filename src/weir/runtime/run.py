"""The running job: a Structured Streaming query whose every micro-batch goes through `loop.run_batch`.

Spark numbers and starts the batches; the ledger says what they mean. Before it starts, a run compares the checkpoint
with the ledger: a deleted or older checkpoint would number its batches from somewhere else, and is refused.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weir.algebra.schema import is_changes
from weir.errors import DiskError, RunError, WeirError
from weir.index.warm import ready
from weir.runtime import faults
from weir.runtime.alerts_frame import alerts_frame, changed_in
from weir.runtime.housekeeping import Housekeeping
from weir.runtime.idle import IdleTicks
from weir.runtime.jobs import SparkJobs
from weir.runtime.loop import Context, run_batch
from weir.runtime.matches_frame import matches_frame
from weir.runtime.query_segments import QuerySegments
from weir.runtime.row_segments import PartnerSegments
from weir.runtime.session import for_starting
from weir.runtime.sources import unite
from weir.store import caches
from weir.store.catalog import CatalogLog
from weir.store.files import open_files, sync_folder
from weir.store.ledger import Done
from weir.store.registry import Registry
from weir.store.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from weir.api import Weir

CHECKPOINT = "checkpoint"
NO_SPACE = os.strerror(errno.ENOSPC)
COMMIT_WAIT_S = 10.0  # how long a stop waits for Spark's own commit of the last batch
CHOICES_EVERY = 16  # batches after which the counters of join strategies are kept for `explain`
KEPT_TICK_S = 1.0  # on the arrival clock an idle job looks so often whether a kept answer is due
COUNTED = ("events", "pairs", "late", "demoted", "quarantined", "came", "went", "given_up")  # of batches, added up
RECENT = 1_000  # batches whose figures are kept for `progress`


class _StoppingError(Exception):
    """A batch began while the run was being stopped; it is left for the next run."""


@dataclass(frozen=True)
class BatchFigures:
    """What one batch did."""

    batch: int  # its number
    events: int  # rows of streams taken
    pairs: int  # (event, query) matches
    late: int  # rows not taken
    demoted: int  # cores of queries that matched too much to be kept from here on
    quarantined: int  # cores of queries that could not be matched
    batch_ms: float  # from Spark's call to the commit
    ingest_ms: float  # the part of batch_ms in the job that writes the rows
    match_ms: float  # the part of batch_ms in the job that finds the matches
    upkeep_ms: float  # the part of batch_ms in which kept answers are brought up to date
    came: int  # rows that came to kept answers
    went: int  # rows that went from kept answers
    given_up: int  # kept queries whose answers are computed from here on


@dataclass(frozen=True)
class RunProgress:
    """Totals since the start, and how recent batches went."""

    batches: int  # batches that were done
    events: int  # rows of streams taken
    pairs: int  # (event, query) matches
    late: int  # rows not taken
    demoted: int  # cores of queries that matched too much
    quarantined: int  # cores of queries that could not be matched
    came: int  # rows that came to kept answers
    went: int  # rows that went from kept answers
    given_up: int  # kept queries whose answers could not be kept
    last_batch: BatchFigures | None  # None before the first
    batch_ms_p50: float  # median of the last thousand batches
    batch_ms_p99: float  # 99 % of them took no longer
    now_us: int | None  # the clock after the last batch; µs since the epoch
    late_rows: dict[str, dict[str, int]]  # by stream and reason, over the weir's whole life
    queries: int  # standing, as of the last batch
    housekeeping_error: str | None  # the last error of vacuum, compaction or an idle tick, which the job survives
    join_choices: dict[str, dict[str, int]]  # by join family: events that each strategy processed


class Run:
    """A job that runs, as `Weir.run` returns it; `stop`, `wait` and `progress` are what a user needs of it."""

    def __init__(
        self,
        weir: Weir,
        frames: Mapping[str, DataFrame],
        *,
        trigger: str,
        available_now: bool,
        sink: Callable[[DataFrame, int], None] | None,
        alerts: Callable[[DataFrame, int], None] | None,
        say: Callable[[str], None] | None,
    ) -> None:
        self._weir = weir
        self._frames = dict(frames)
        self._trigger = trigger
        self._available_now = available_now
        self._sink = sink
        self._alerts = alerts
        self._registry = Registry(weir.files)  # its own, because other threads register
        self._segments = QuerySegments(weir.files, self._registry, weir.settings, say)
        self._partners = PartnerSegments(weir.files, weir.settings, say)
        self._housekeeping = Housekeeping(weir.files, weir.settings, self._registry, self._segments.in_use)
        ticks = weir.identity.clock == "arrival" and not available_now  # the event clock stands still without rows
        always_s = weir.settings.idle_tick_s
        tick = self._tick if always_s else self._tick_if_due
        self._idle = IdleTicks((always_s or KEPT_TICK_S) if ticks else 0.0, tick, lambda: self.is_active)
        self._slices = weir.settings.slices or weir.spark.sparkContext.defaultParallelism
        self._checkpoint = weir.settings.checkpoint or f"{weir.files.location}/{CHECKPOINT}"
        self._lock = threading.RLock()
        self._query: StreamingQuery | None = None
        self._stopping = False
        self._refused = False  # a batch began while stopping, and was left for the next run
        self._in_batch: int | None = None  # the thread that works on a batch
        self._restarting = threading.Event()  # set while no restart is under way
        self._restarting.set()
        self._error: BaseException | None = None
        self._recent: deque[BatchFigures] = deque(maxlen=RECENT)
        self._late_rows: dict[str, dict[str, int]] = {}
        self._choices: dict[str, Counter[str]] = {}  # by join family: events that each strategy processed
        self._totals = dict.fromkeys(("batches", *COUNTED), 0)
        self._context = Context(
            files=weir.files,
            ledger=weir.ledger,
            registry=self._registry,
            catalog_log=CatalogLog(weir.files),
            state=State(),
            settings=weir.settings,
            identity=weir.identity,
            wall_us=lambda: time.time_ns() // 1_000,
        )

    # ── what a user calls ────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_active(self) -> bool:
        """Whether the job runs."""
        return self._query is not None and self._query.isActive

    def start(self) -> None:
        """Start, or go on after `stop`."""
        self._check_checkpoint()
        self._have_kernels()
        self._stopping = self._refused = False
        self._error = None
        weir = self._weir
        with for_starting(weir.spark):
            frame = unite(
                weir.spark,
                weir.files.location,
                self._frames,
                slices=self._slices,
                rows_max=weir.settings.batch_rows_max,
            )
            writer = (
                frame.writeStream.foreachBatch(self._batch)
                .queryName(f"weir {weir.identity.engine[:8]}")
                .option("checkpointLocation", self._checkpoint)
            )
            when = writer.trigger(
                **({"availableNow": True} if self._available_now else {"processingTime": self._trigger})
            )
            try:
                self._query = when.start()
            except Exception as failed:  # Py4J's, or one of the many that Spark has
                raise self._told(failed, "the streaming query cannot start") from failed
        self._idle.start()

    def _tick(self) -> None:
        """Have Spark make a batch though no data come: what moves with time alone is brought up to date by it."""
        self._weir.inbox.advance(None)

    def _tick_if_due(self) -> bool:
        """Do so if a kept answer changes by now, though nothing comes."""
        now_us = self._context.wall_us()
        is_due = any(part.due_us <= now_us for part in tuple(self._context.state.kept.values()))
        if is_due:
            self._tick()
        return is_due

    def _have_kernels(self) -> None:
        """Have the kernels that standing queries need compiled before there are workers, so that these only load them.

        If queries of another kind come later, the batch that sees them first compiles their kernels.
        """
        self._registry.refresh()
        ready(self._segments.kernels(None, self._context.catalog_log.read()), self._segments.say)

    def stop(self) -> None:
        """Finish the batch that is being worked on, then stop. An error of the job is raised here."""
        self._halt()
        self._housekeeping.close()
        self._raise()

    def _halt(self) -> None:
        """Stop the query between two batches.

        The lock is free when no batch is under way; a batch that starts after that refuses (it will be replayed),
        so that Spark never waits for us while we wait for Spark.
        """
        query = self._query
        if query is None:
            return
        if self._in_batch == threading.get_ident():
            raise RunError("a run cannot be stopped from its own sink", hint="stop it from another thread")
        self._idle.close()
        with self._lock:
            self._stopping = True
        try:
            give_up = time.monotonic() + COMMIT_WAIT_S
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < give_up:
                if _ended(query, 0.01):
                    break
            query.stop()
        except Exception:
            if self._error is None and not self._refused:  # our stopping must not hide a failure of Spark itself
                raise

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run ends by itself, or for `timeout_s`; True if it has ended.

        An error of the job is raised here.
        """
        while True:
            self._restarting.wait()
            query = self._query
            if query is None:
                return True
            try:
                ended = _ended(query, timeout_s) if timeout_s is not None else query.awaitTermination() is None
            except Exception as failed:
                if not self._refused:
                    with self._lock:
                        pass  # Spark may give up on a batch before we do; our own error says more than Spark's
                    self._idle.close()
                    self._housekeeping.close()
                    self._raise()
                    raise self._told(failed, "the streaming query failed") from failed
                ended = True
            self._restarting.wait()
            if query is self._query:  # not one that a restart replaced
                if ended:
                    self._idle.close()
                    self._housekeeping.close()
                return bool(ended)

    def _told(self, failed: Exception, what: str) -> WeirError:
        """An error of Spark's own as ours; a full disk is told as such, not as a page of Java."""
        if NO_SPACE in str(failed):
            hint = "free some space and run again; nothing is lost"
            return DiskError(f"Spark cannot write (its checkpoint is {self._checkpoint}): {NO_SPACE}", hint=hint)
        return RunError(f"{what}: {str(failed)[:2000]}")

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def progress(self) -> RunProgress:
        """Totals since the start, percentiles of recent batches, the clock, late rows, and what housekeeping said."""
        recent = list(self._recent)
        times = sorted(f.batch_ms for f in recent) or [0.0]
        state = self._context.state
        return RunProgress(
            **self._totals,
            last_batch=recent[-1] if recent else None,
            batch_ms_p50=times[len(times) // 2],
            batch_ms_p99=times[min(len(times) - 1, int(len(times) * 0.99))],
            now_us=state.now_us,
            late_rows=self._late_rows,
            queries=self._registry.queries - len(self._registry.dropped()),
            housekeeping_error=self._housekeeping.error or self._idle.error,
            join_choices=self._named_choices(),
        )

    def _named_choices(self) -> dict[str, dict[str, int]]:
        return {family: dict(of) for family, of in self._choices.items()}

    @property
    def recent(self) -> list[BatchFigures]:
        """The figures of the last batches, oldest first."""
        return list(self._recent)

    def add_frame(self, name: str, frame: DataFrame) -> None:
        """Take one more streaming DataFrame into the running job: stop between batches, go on with it."""
        self._restart(self._frames | {name: frame})

    def remove_frame(self, name: str) -> None:
        """Take a streaming DataFrame out of the running job: stop between batches, go on without it."""
        self._restart({n: frame for n, frame in self._frames.items() if n != name})

    def _restart(self, frames: dict[str, DataFrame]) -> None:
        self._restarting.clear()
        try:
            self._halt()
            self._raise()
            self._frames = frames
            self.start()
        finally:
            self._restarting.set()

    # ── one batch ────────────────────────────────────────────────────────────────────────────────────────────

    def _batch(self, frame: DataFrame, number: int) -> None:
        try:
            with self._lock:
                if self._stopping:
                    self._refused = True
                    raise _StoppingError
                self._in_batch = threading.get_ident()
                self._idle.batch_began()
                self._sync_offsets(number)
                faults.reach("offsets logged")
                started = time.perf_counter()
                jobs = SparkJobs(frame.sparkSession, frame, self._context, self._segments, self._partners, self._slices)
                done = run_batch(self._context, number, jobs)
                self._count(done, jobs, (time.perf_counter() - started) * 1e3)
                if self._sink is not None:
                    self._sink(matches_frame(frame.sparkSession, self._context, done, self._slices), number)
                if self._alerts is not None:
                    self._tell(self._alerts, frame.sparkSession, done, number)
                self._housekeeping.after(number)
                faults.reach("done, Spark's commit missing")
        except _StoppingError:
            raise
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._in_batch = None
            self._idle.batch_ended()

    def _tell(self, alerts: Callable[[DataFrame, int], None], session: SparkSession, done: Done, number: int) -> None:
        """Call the user's function if anything came or went."""
        changed = changed_in(self._context, done)
        if changed:
            catalog = self._context.catalog_log.read(self._context.state.catalog)
            kept = self._segments.kept
            shapes = {shape.name: shape for shape in kept.shapes(self._context.state.registry)}
            outputs = {name: list(kept.planned(shapes[name], catalog).planned.query.output) for name in changed}
            alerts(alerts_frame(session, self._context, changed, outputs), number)

    def _count(self, done: Done, jobs: SparkJobs, batch_ms: float) -> None:
        figures = BatchFigures(
            done.batch,
            sum(r.count for r in done.rows if not is_changes(r.stream)),
            sum(m.pairs for m in done.matches),
            sum(f.count for f in done.late),
            len(done.demoted),
            sum(q.count for q in done.quarantined),
            batch_ms,
            jobs.ingest_ms,
            jobs.match_ms,
            jobs.upkeep_ms,
            jobs.came,
            jobs.went,
            sum(q.count for q in done.given_up),
        )
        self._recent.append(figures)
        self._late_rows = {stream: dict(reasons) for stream, reasons in self._context.state.late.items()}
        self._totals["batches"] += 1
        for name in COUNTED:
            self._totals[name] += getattr(figures, name)
        for family, of in jobs.choices.items():
            self._choices.setdefault(family, Counter()).update(of)
        if jobs.choices and (self._totals["batches"] - 1) % CHOICES_EVERY == 0:  # for `explain`, in any process
            caches.save(self._weir.files, "choices", done.batch, [json.dumps(self._named_choices()).encode()])

    def _check_checkpoint(self) -> None:
        """Refuse a checkpoint that is not the ledger's: batch numbers would mean other rows."""
        last_done = self._weir.ledger.last_done()
        offsets = self._newest("offsets")
        commits = self._newest("commits")
        if offsets < 0 and last_done < 0:
            self._clean_checkpoint()
        if offsets < last_done:
            raise RunError(
                f"the ledger is at batch {last_done}, Spark's checkpoint at batch {offsets}: it is gone or older",
                hint=f"restore the folder {self._checkpoint}, or begin a new weir",
            )
        if commits > last_done:
            raise RunError(
                f"Spark's checkpoint has committed batch {commits}, the ledger only {last_done}: the ledger is older",
                hint="restore the ledger and the checkpoint from the same backup",
            )

        if self._weir.ledger.plan(last_done + 1) is not None and offsets == last_done:
            raise RunError(
                f"batch {last_done + 1} was planned, but Spark's checkpoint does not know it: it is gone or older",
                hint=f"restore the folder {self._checkpoint}, or begin a new weir",
            )

    def _clean_checkpoint(self) -> None:
        """Remove what a driver that died before its first batch left: Spark refuses to begin where anything is."""
        place = open_files(self._checkpoint)
        for log in ("offsets", "commits"):
            for entry in place.list(log):
                if not entry.path.rsplit("/", 1)[-1].isdigit():
                    place.delete(entry.path)

    def _sync_offsets(self, number: int) -> None:
        """Spark does not sync its offsets; a plan that survives a power cut must not outlive them."""
        local = Path(self._checkpoint.removeprefix("file://")) / "offsets" / str(number)
        if local.exists():
            handle = os.open(local, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            sync_folder(local.parent)

    def _newest(self, log: str) -> int:
        numbers = [-1]
        for entry in open_files(self._checkpoint).list(log):
            name = entry.path.rsplit("/", 1)[-1]
            if name.isdigit():
                numbers.append(int(name))
        return max(numbers)


def _ended(query: StreamingQuery, timeout_s: float) -> bool:
    return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # Spark takes fractions of a second
