"""The match job: one stage; each task runs its slice of the batch's new rows against all standing queries.

Shard the delta, share the rest: a task maps the query segments (main and tail) of its host and the partner rows of
join families, and reads only immutable files. It writes one match file: for every event the affected query ids, and
for joins the partner rows too. Volume is bounded: a task counts, and reports instead of writing when its share of the
budget is exceeded.

Joins, Δ(R ⋈ S) = ΔR ⋈ S + (R + ΔR) ⋈ ΔS: new rows of side 0 meet the old rows of side 1, new rows of side 1 the old
and the new ones of side 0. Of more sides, new rows of one meet the old rows of all others and the new ones of the sides
before it. Each result is found once, whichever side came last, also within a batch and in a self-join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Stream
from weir.families.join_matching import CHOICES, JoinMatches
from weir.families.join_segments import JoinSegment
from weir.families.many_rows import EventRows, ManyRows, Pool
from weir.families.many_segments import ManySegment
from weir.families.partner_rows import PartnerRows
from weir.families.selection import Segment
from weir.index.boxes import OverBudget
from weir.index.joins.costs import DEFAULT, Costs
from weir.index.warm import ready
from weir.runtime import faults
from weir.store.arrays import read_arrays
from weir.store.files import Files, open_files
from weir.store.matches import JoinPiece, Piece, write_matches
from weir.store.rows import read_table, times_us

REPORT_DDL = (
    "slice int, path string, pairs bigint, events bigint, over_budget boolean, ids array<bigint>, "
    "counts array<bigint>, choices array<bigint>"
)
REPORT = pa.schema(
    [
        ("slice", pa.int32()),
        ("path", pa.string()),
        ("pairs", pa.int64()),
        ("events", pa.int64()),
        ("over_budget", pa.bool_()),
        ("ids", pa.list_(pa.int64())),
        ("counts", pa.list_(pa.int64())),
        ("choices", pa.list_(pa.int64())),
    ]
)
S = TypeVar("S", JoinSegment, ManySegment)
P = TypeVar("P", PartnerRows, ManyRows)
COUNTED_MAX = 1 << 40  # pairs of one query in a slice …
PAIRS_MAX = 1 << 62  # … and of all of them: beyond that nobody counts
REPORTED_IDS_MAX = 100_000  # of a slice that is over budget, the heaviest queries that are named to the driver


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
class JoinTask:
    """One join family: its query segments, and the partner rows that events of each side meet."""

    streams: tuple[Stream, ...]  # by side
    name: str  # of the family
    channel: str
    segments: tuple[SegmentRef, ...]
    partners: tuple[tuple[tuple[str, ...], ...], ...]  # files, by the side of the events and then by their own
    is_many: bool = False  # of a family of joins of many streams


@dataclass(frozen=True)
class MatchTask:
    """Everything the tasks need; travels to the workers."""

    location: str
    batch: int
    slices: tuple[tuple[RowRange, ...], ...]
    segments: Mapping[str, tuple[SegmentRef, ...]]  # by stream; ids ascend from one segment to the next
    pairs_max: int  # of one slice
    heavy_min: int  # queries with at least this many matches in a slice are reported
    joins: tuple[JoinTask, ...] = ()
    join_strategy: str = "auto"
    costs: Costs = DEFAULT  # what the choice of a strategy goes by
    kernels: tuple[str, ...] = ()  # kinds; on another machine than the driver's they may still be missing


def merge(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Join CSR lists over the same events; every id of a later part is larger than those of an earlier one."""
    if len(parts) == 1:
        return parts[0]
    counts = [np.diff(offsets) for offsets, _ in parts]
    offsets = np.zeros(len(counts[0]) + 1, np.int64)
    np.cumsum(sum(counts), out=offsets[1:])
    items = np.empty(offsets[-1], np.int64)
    start = offsets[:-1].copy()
    for (part_offsets, part_items), count in zip(parts, counts, strict=True):
        shift = np.repeat(start - part_offsets[:-1], count)
        items[np.arange(len(part_items)) + shift] = part_items
        start += count
    return offsets, items


def _muted(files: Files, ref: SegmentRef, count: int) -> np.ndarray:
    if ref.muted_path is None:
        return np.zeros(count, np.uint8)
    return np.array(read_arrays(files, ref.muted_path)[0]["muted"])


class _Slice:
    """One slice being matched: what it has found, and how much of its budget is left."""

    def __init__(self, task: MatchTask, files: Files) -> None:
        self.task = task
        self.files = files
        self.pieces: list[Piece] = []
        self.joins: list[JoinPiece] = []
        self.pairs = 0
        self.over = False
        self.reported_max: int | None = REPORTED_IDS_MAX  # None: all, because they can only be demoted together
        self.choices = np.zeros((len(task.joins), len(CHOICES)), np.int64)  # events by family and strategy
        self._counts: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # by segment: its ids, pairs of each slot
        self._selections: dict[str, list[tuple[str, Segment, np.ndarray]]] = {}
        self._joins: dict[str, tuple[JoinSegment | ManySegment, np.ndarray]] = {}
        self._partners: dict[str, PartnerRows | ManyRows] = {}
        self._pools: dict[tuple[str, ...], Pool] = {}

    def match(self, rows: RowRange) -> None:
        table = read_table(self.files, rows.path).slice(rows.start, rows.count)
        self._match_selections(rows, table)
        for number, join in enumerate(self.task.joins):
            for side, stream in enumerate(join.streams):
                if stream.name != rows.stream:
                    continue
                if join.is_many:
                    self._match_many(join, side, rows, table)
                else:
                    self.choices[number] += self._match_join(join, side, rows, table)

    def _left(self) -> int:
        """All ranges and segments of a slice share its budget; once it is spent, matches are only counted."""
        return 0 if self.over else self.task.pairs_max - self.pairs

    def _match_selections(self, rows: RowRange, table: pa.Table) -> None:
        parts = []
        for path, segment, muted in self._selections_of(rows.stream):
            found = segment.match(table, muted, self._left())
            if isinstance(found, OverBudget):
                self._count(path, segment.ids, found.counts)
                self.over = True
            else:
                parts.append((found.offsets, segment.ids[found.slots]))
                self._count(path, segment.ids, np.bincount(found.slots, minlength=len(segment.ids)))
        if parts and not self.over:
            self.pieces.append(Piece(rows.stream, rows.first_row, *merge(parts)))

    def _match_join(self, join: JoinTask, side: int, rows: RowRange, table: pa.Table) -> np.ndarray:
        """Join new rows of one side with the partners they meet; returns the events that each strategy processed."""
        choices = np.zeros(len(CHOICES), np.int64)
        times = times_us(table, join.streams[side]).to_numpy()
        for ref in join.segments:
            segment, muted = self._join_of(ref, JoinSegment)
            for path in join.partners[side][1 - side]:
                found = segment.match(
                    side,
                    table,
                    times,
                    self._partners_of(path, PartnerRows),
                    muted,
                    self._left(),
                    costs=self.task.costs,
                    strategy=self.task.join_strategy,
                )
                if isinstance(found, JoinMatches):
                    choices += found.choices
                self._add(join, side, rows, ref.path, segment.ids, found)
        return choices

    def _match_many(self, join: JoinTask, side: int, rows: RowRange, table: pa.Table) -> None:
        """Join new rows of one side with the rows of all others that they meet."""
        pools = {s: self._pool_of(paths) for s, paths in enumerate(join.partners[side]) if s != side}
        row_ids = np.arange(rows.first_row, rows.first_row + rows.count, dtype=np.int64)
        events = EventRows(table, row_ids, times_us(table, join.streams[side]).to_numpy())
        for ref in join.segments:
            segment, muted = self._join_of(ref, ManySegment)
            found = segment.match(side, events, pools, muted, self._left())
            self._add(join, side, rows, ref.path, segment.ids, found)

    def _add(
        self,
        join: JoinTask,
        side: int,
        rows: RowRange,
        path: str,
        ids: np.ndarray,
        found: JoinMatches | OverBudget,
    ) -> None:
        """Keep what events of one side were joined with, if there is room for it."""
        if isinstance(found, OverBudget):
            self._count(path, ids, found.counts)
            self.over = True
            self.reported_max = None if found.is_shared else self.reported_max
        elif len(found.slots):
            self._count(path, ids, np.bincount(found.slots, minlength=len(ids)))
            if not self.over:
                events, items = found.events + rows.first_row, ids[found.slots]
                self.joins.append(JoinPiece(join.channel, side, events, found.offsets, items, found.partners))

    def _count(self, path: str, ids: np.ndarray, new: np.ndarray) -> None:
        self.pairs += int(new.sum())
        counted = self._counts.get(path)
        self._counts[path] = (ids, np.minimum(new if counted is None else counted[1] + new, COUNTED_MAX))

    def _selections_of(self, stream: str) -> list[tuple[str, Segment, np.ndarray]]:
        if stream not in self._selections:
            opened = []
            for ref in self.task.segments.get(stream, ()):
                segment = Segment.from_arrays(*read_arrays(self.files, ref.path))
                opened.append((ref.path, segment, _muted(self.files, ref, len(segment.ids))))
            self._selections[stream] = opened
        return self._selections[stream]

    def _join_of(self, ref: SegmentRef, kind: type[S]) -> tuple[S, np.ndarray]:
        if ref.path not in self._joins:
            segment = kind.from_arrays(*read_arrays(self.files, ref.path))
            self._joins[ref.path] = segment, _muted(self.files, ref, len(segment.ids))
        found, muted = self._joins[ref.path]
        assert isinstance(found, kind), f"{ref.path} is a {type(found).__name__}"
        return found, muted

    def _partners_of(self, path: str, kind: type[P]) -> P:
        if path not in self._partners:
            self._partners[path] = kind.from_arrays(*read_arrays(self.files, path))
        found = self._partners[path]
        assert isinstance(found, kind), f"{path} is a {type(found).__name__}"
        return found

    def _pool_of(self, paths: tuple[str, ...]) -> Pool:
        if paths not in self._pools:
            self._pools[paths] = Pool([self._partners_of(path, ManyRows) for path in paths])
        return self._pools[paths]

    def heaviest(self, least: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids and pairs of the queries with at least so many, the heaviest first; not too many of them."""
        ids, weights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for of_slot, counted in self._counts.values():
            slots = np.flatnonzero(counted >= least)
            ids.append(of_slot[slots])
            weights.append(counted[slots])
        all_ids, all_weights = np.concatenate(ids), np.concatenate(weights)
        order = np.lexsort((all_ids, -all_weights))[: self.reported_max]
        return all_ids[order], all_weights[order]


def match_slice(task: MatchTask, number: int) -> dict[str, object]:
    """Match one slice and write its file; the report says where it is, or that it would be too large."""
    ready(task.kernels)
    files = open_files(task.location)
    found = _Slice(task, files)
    for rows in task.slices[number]:
        found.match(rows)
    faults.reach("match worker, mid-file")
    path = None if found.over else write_matches(files, task.batch, found.pieces, found.joins)
    ids, weights = found.heaviest(1 if found.over else task.heavy_min)
    return {
        "slice": number,
        "path": path,
        "pairs": min(found.pairs, PAIRS_MAX),
        "events": sum(r.count for r in task.slices[number]),
        "over_budget": found.over,
        "ids": ids.tolist(),
        "counts": weights.tolist(),
        "choices": found.choices.ravel().tolist(),
    }


def match_task(task: MatchTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` runs over slice numbers."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reports = [match_slice(task, int(n)) for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(reports, schema=REPORT)

    return run
