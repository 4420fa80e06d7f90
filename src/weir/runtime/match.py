"""The match job: one stage; each task runs its slice of the batch's new rows against all standing queries.

Shard the delta, share the rest: a task maps the query segments (main and tail) of its host and reads only
immutable files. It writes one match file: for every event the ascending list of affected query ids, as CSR.
Volume is bounded: a task counts, and reports instead of writing when its share of the budget is exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.families.selection import Segment
from weir.index.boxes import OverBudget
from weir.runtime import faults
from weir.store.arrays import read_arrays
from weir.store.files import Files, open_files
from weir.store.matches import Piece, write_matches
from weir.store.rows import read_table

REPORT_DDL = (
    "slice int, path string, pairs bigint, events bigint, over_budget boolean, ids array<bigint>, counts array<bigint>"
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
    ]
)
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
class MatchTask:
    """Everything the tasks need; travels to the workers."""

    location: str
    batch: int
    slices: tuple[tuple[RowRange, ...], ...]
    segments: Mapping[str, tuple[SegmentRef, ...]]  # by stream; ids ascend from one segment to the next
    pairs_max: int  # of one slice
    heavy_min: int  # queries with at least this many matches in a slice are reported


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


def _open(files: Files, ref: SegmentRef) -> tuple[Segment, np.ndarray]:
    segment = Segment.from_arrays(*read_arrays(files, ref.path))
    if ref.muted_path is None:
        return segment, np.zeros(len(segment.ids), np.uint8)
    return segment, np.array(read_arrays(files, ref.muted_path)[0]["muted"])


def match_slice(task: MatchTask, number: int) -> dict[str, object]:
    """Match one slice and write its file; the report says where it is, or that it would be too large."""
    files = open_files(task.location)
    opened: dict[str, list[tuple[Segment, np.ndarray]]] = {}
    pieces: list[Piece] = []
    counts: dict[tuple[str, int], np.ndarray] = {}  # by segment: matches of each slot
    pairs = 0
    over = False
    for rows in task.slices[number]:
        if rows.stream not in opened:
            opened[rows.stream] = [_open(files, ref) for ref in task.segments.get(rows.stream, ())]
        table = read_table(files, rows.path).slice(rows.start, rows.count)
        parts = []
        for k, (segment, muted) in enumerate(opened[rows.stream]):
            # All ranges and segments of a slice share its budget; once it is spent, matches are only counted.
            found = segment.match(table, muted, 0 if over else task.pairs_max - pairs)
            if isinstance(found, OverBudget):
                over, new = True, found.counts
            else:
                parts.append((found.offsets, segment.ids[found.slots]))
                new = np.bincount(found.slots, minlength=len(segment.ids))
            pairs += int(new.sum())
            key = (rows.stream, k)
            counts[key] = counts[key] + new if key in counts else new
        if parts and not over:
            pieces.append(Piece(rows.stream, rows.first_row, *merge(parts)))
    faults.reach("match worker, mid-file")
    path = None if over else write_matches(files, task.batch, pieces)
    ids, weights = _heaviest(opened, counts, 1 if over else task.heavy_min)
    return {
        "slice": number,
        "path": path,
        "pairs": pairs,
        "events": sum(r.count for r in task.slices[number]),
        "over_budget": over,
        "ids": ids.tolist(),
        "counts": weights.tolist(),
    }


def _heaviest(
    opened: Mapping[str, list[tuple[Segment, np.ndarray]]], counts: Mapping[tuple[str, int], np.ndarray], least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and matches of the queries with at least so many in this slice, the heaviest first; not too many of them."""
    ids, weights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for (stream, k), of_slot in counts.items():
        slots = np.flatnonzero(of_slot >= least)
        ids.append(opened[stream][k][0].ids[slots])
        weights.append(of_slot[slots])
    all_ids, all_weights = np.concatenate(ids), np.concatenate(weights)
    order = np.lexsort((all_ids, -all_weights))[:REPORTED_IDS_MAX]
    return all_ids[order], all_weights[order]


def match_task(task: MatchTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` runs over slice numbers."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reports = [match_slice(task, int(n)) for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(reports, schema=REPORT)

    return run
