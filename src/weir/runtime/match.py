"""The match job: one stage; each task runs its slice of the batch's new rows against all standing queries.

Shard the delta, share the rest: all tasks of a host map the same query segments (main and tail) and partner rows of
every family, and read only immutable files. A task writes one match file: for every event the affected cores, and for
joins the partner rows too. Volume is bounded: a task that exceeds its share of the budget writes no file, and reports
counts instead. A family that cannot be matched spoils nobody else's batch: its task goes on with the other families and
reports why. Only `weir.families` knows which forms of queries there are.

Joins, Δ(R ⋈ S) = ΔR ⋈ S + (R + ΔR) ⋈ ΔS: new rows of side 0 meet the old rows of side 1, new rows of side 1 the old
and the new ones of side 0. With more sides, new rows of one meet the old rows of all others and the new ones of the
sides before it. Each result is found once, whichever side came last, also within a batch and in a self-join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Stream
from weir.errors import StoreError
from weir.families.contract import Encounter, Needs, NewRows, QuerySegment, Results, Tuning
from weir.families.forms import form_named
from weir.index.box_tables import OverBudget
from weir.index.warm import ready
from weir.runtime import faults
from weir.runtime.loose_rows import RowsFile, partner_rows
from weir.runtime.opened import files_at, made_of, opened
from weir.runtime.reports import schema_of
from weir.store.arrays import read_arrays
from weir.store.files import Files
from weir.store.lifetimes import read_lifetimes
from weir.store.matches import NewPiece, write_matches
from weir.store.row_files import read_table, times_us

REPORT_DDL = (
    "slice int, path string, pairs bigint, events bigint, over_budget boolean, ids array<bigint>, "
    "counts array<bigint>, choices array<bigint>, failed array<bigint>, reasons array<string>"
)
REPORT = schema_of(REPORT_DDL)
COUNTED_MAX = 1 << 40  # the pairs of one query in a slice are counted up to here …
PAIRS_MAX = 1 << 62  # … and those of all its queries up to here
SPARSE_SHARE = 3  # events are listed when at most a third of them have results: an offset takes 8 bytes, an id 4 more
NOT_OF_QUERIES = (OSError, StoreError)  # a disk that is full, a file that is damaged: no query is to blame for it
REASON_MAX = 300  # characters
REPORTED_IDS_MAX = 100_000  # a slice that is over budget names at most so many queries to the driver, the heaviest


@dataclass(frozen=True)
class RowRange:
    """Some new rows of one file."""

    stream: str
    path: str
    start: int
    count: int
    first_row: int  # the row id at `start`


@dataclass(frozen=True)
class SegmentRef:
    """A query segment's file and, if any of its queries are dropped or demoted, the file of its muted slots."""

    path: str
    muted_path: str | None


@dataclass(frozen=True)
class FamilyTask:
    """One family: its query segments, and the partner rows that events of each side meet."""

    form: str
    name: str
    channel: str
    streams: tuple[Stream, ...]  # by side
    segments: tuple[SegmentRef, ...]
    partners: tuple[tuple[tuple[RowsFile, ...], ...], ...]  # by the events' side and then by the partners' side
    lifetimes: tuple[str | None, ...] = ()  # by side, of tables' changes: the file that says how long each holds
    family: Any = None  # what the form makes partner rows for …
    needs: tuple[Needs, ...] = ()  # … and what is asked of them, by side; for loose rows


@dataclass(frozen=True)
class MatchTask:
    """Everything the tasks need; travels to the workers."""

    location: str
    batch: int
    slices: tuple[tuple[RowRange, ...], ...]
    families: tuple[FamilyTask, ...]
    pairs_max: int  # of one slice
    heavy_min: int  # cores with at least this many results in a slice are reported
    tuning: Tuning
    kernels: tuple[str, ...] = ()  # kinds; on another machine than the driver's they may still be missing
    only_side: int | None = None  # of the events; None: every side whose stream they are of
    is_trial: bool = False  # only whether it can be matched is asked for: nothing is written


def reason_of(error: BaseException) -> str:
    """What failed, on one short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:REASON_MAX]


def _muted(files: Files, ref: SegmentRef, count: int) -> np.ndarray:
    if ref.muted_path is None:
        return np.zeros(count, np.uint8)
    return np.array(read_arrays(files, ref.muted_path)[0]["muted"])


class _Slice:
    """One slice being matched: what it has found, and how much of its budget is left."""

    def __init__(self, task: MatchTask, files: Files) -> None:
        self.task = task
        self.files = files
        self.pieces: list[NewPiece] = []
        self.pairs = 0
        self.over = False
        self.reported_max: int | None = REPORTED_IDS_MAX  # None: all, because they can only be demoted together
        # By family, events that each strategy processed.
        self.choices = [np.zeros(len(form_named(of.form).strategies), np.int64) for of in task.families]
        self.failed: dict[int, str] = {}  # by family, why it cannot be matched
        self._counts: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # by segment: its ids, results of each slot
        self._segments: dict[str, tuple[QuerySegment, np.ndarray]] = {}

    def match(self, rows: RowRange) -> None:
        """Match some new rows of one file with every family that reads their stream."""
        if not any(stream.name == rows.stream for of in self.task.families for stream in of.streams):
            return
        table = read_table(self.files, rows.path).slice(rows.start, rows.count)
        row_ids = np.arange(rows.first_row, rows.first_row + rows.count, dtype=np.int64)
        for number, of in enumerate(self.task.families):
            for side, stream in enumerate(of.streams):
                if side != (self.task.only_side if self.task.only_side is not None else side):
                    continue
                if stream.name == rows.stream and number not in self.failed:
                    new = NewRows(table, row_ids, times_us(table, stream).to_numpy())
                    try:
                        self._match(number, of, side, new)
                    except NOT_OF_QUERIES:
                        raise
                    except Exception as error:
                        self.failed[number] = reason_of(error)

    def _match(self, number: int, of: FamilyTask, side: int, new: NewRows) -> None:
        """Match new rows of one side with the partners they meet."""
        partners = [[self._rows_of(of, k, rows) for rows in met] for k, met in enumerate(of.partners[side])]
        lifetimes = [None if path is None else read_lifetimes(self.files, path) for path in of.lifetimes]
        for ref in of.segments:
            segment, muted = self._segment_of(of, ref)
            asked = Encounter(side, new, partners, muted, self._left, self.task.tuning, lifetimes)
            for found in segment.match(asked):
                if isinstance(found, OverBudget):
                    self._count(ref.path, segment.ids, found.counts)
                    self.over = True
                    self.reported_max = None if found.is_shared else self.reported_max
                    continue
                if found.choices is not None:
                    self.choices[number] += found.choices[: len(self.choices[number])]
                if len(found.slots):
                    self._count(ref.path, segment.ids, np.bincount(found.slots, minlength=len(segment.ids)))
                    if not self.over:
                        self.pieces.append(_piece(of.channel, side, new, segment.ids, found))

    def _left(self) -> int:
        """All ranges and segments of a slice share its budget; once it is spent, results are only counted."""
        return 0 if self.over else self.task.pairs_max - self.pairs

    def _count(self, path: str, ids: np.ndarray, new: np.ndarray) -> None:
        self.pairs += int(new.sum())
        counted = self._counts.get(path)
        self._counts[path] = (ids, np.minimum(new if counted is None else counted[1] + new, COUNTED_MAX))

    def _segment_of(self, of: FamilyTask, ref: SegmentRef) -> tuple[QuerySegment, np.ndarray]:
        if ref.path not in self._segments:
            form = form_named(of.form)
            segment = opened(self.files, ref.path, lambda: form.open(*read_arrays(self.files, ref.path)))
            self._segments[ref.path] = segment, _muted(self.files, ref, len(segment.ids))
        return self._segments[ref.path]

    def _rows_of(self, of: FamilyTask, side: int, rows: RowsFile) -> Any:
        """Partner rows of one side."""
        form = form_named(of.form)
        if isinstance(rows, str):
            return opened(self.files, rows, lambda: form.open_rows(*read_arrays(self.files, rows)))
        needs = of.needs[side]
        how = (of.form, of.name, side, rows, needs)
        return made_of(
            self.files,
            rows.files[0][0],
            lambda: partner_rows(self.files, form, of.family, side, of.streams[side], needs, rows)[0],
            how,
        )

    def heaviest(self, least: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids and pairs of the queries with at least `least` pairs, the heaviest first, up to `reported_max`."""
        ids, weights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for of_slot, counted in self._counts.values():
            slots = np.flatnonzero(counted >= least)
            ids.append(of_slot[slots])
            weights.append(counted[slots])
        all_ids, all_weights = np.concatenate(ids), np.concatenate(weights)
        order = np.lexsort((all_ids, -all_weights))[: self.reported_max]
        return all_ids[order], all_weights[order]


def _piece(channel: str, side: int, new: NewRows, ids: np.ndarray, found: Results) -> NewPiece:
    """Results as a match file has them; where all events are given, many without results are left out."""
    if found.events is not None:
        return NewPiece(channel, side, new.row_ids[found.events], found.offsets, ids, found.slots, found.partners)
    events, offsets = new.row_ids, found.offsets
    counts = np.diff(offsets)
    some = np.flatnonzero(counts)
    if SPARSE_SHARE * len(some) < len(events):
        events, offsets = events[some], np.concatenate([offsets[:1], offsets[1:][some]])
    return NewPiece(channel, side, events, offsets, ids, found.slots, found.partners)


def match_slice(task: MatchTask, number: int) -> dict[str, object]:
    """Match one slice and write its file; the report says where it is, or that it would be too large."""
    ready(task.kernels)
    files = files_at(task.location)
    found = _Slice(task, files)
    for rows in task.slices[number]:
        found.match(rows)
    faults.reach("match worker, mid-file")
    is_whole = not (found.over or found.failed or task.is_trial)
    path = write_matches(files, task.batch, found.pieces) if is_whole else None
    ids, weights = found.heaviest(1 if found.over else task.heavy_min)
    return {
        "slice": number,
        "path": path,
        "pairs": min(found.pairs, PAIRS_MAX),
        "events": sum(r.count for r in task.slices[number]),
        "over_budget": found.over,
        "ids": ids.tolist(),
        "counts": weights.tolist(),
        "choices": [int(n) for of in found.choices for n in of],
        "failed": list(found.failed),
        "reasons": list(found.failed.values()),
    }


def match_task(task: MatchTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` runs over slice numbers."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reports = [match_slice(task, int(n)) for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(reports, schema=REPORT)

    return run
