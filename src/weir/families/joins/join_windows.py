"""Windows of a join: how far apart two rows may be so that some moment shows both.

With windows (τ + b0, τ + e0] and (τ + b1, τ + e1] rows at t0 and t1 are seen together at τ when

    t0 − e0 <= τ < t0 − b0   and   t1 − e1 <= τ < t1 − b1

and such a τ exists exactly if each lower end is below the other's upper one: b0 − e1 < t0 − t1 < e0 − b1. Pairs
further apart can never be in an answer and are not matched at all (DESIGN.md section 5). Times are whole microseconds,
so the open interval is a closed one. No begin is the stream's `keep` (none if rows are kept for ever), no end is τ
itself, a row count counts as all that is kept, and an edge that stands still bounds nothing: it does not move with τ.
The changes of a retroactive table are seen at every τ from their own time on. Whether a change of another table is seen
depends on the times of rows, which may lie after τ where windows do, and not on τ: `dated` says how.
Cost: a few passes of NumPy over the constants.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Bound, Param, Scan
from weir.algebra.schema import Stream, is_changes
from weir.boxes.bounds import Bools, Ints
from weir.index.keys import KEY_MAX, KEY_MIN

T = TypeVar("T", int, Ints)
_FAR_US = 1 << 61  # offsets beyond it count as this: 73,000 years, and differences of two still fit


class TimeBounds(NamedTuple):
    """For each query, closed bounds of t0 − t1; KEY_MIN and KEY_MAX where there is none."""

    lo: Ints
    hi: Ints


def seen_from(side: int, lo: T, hi: T) -> tuple[T, T]:
    """Bounds of t0 − t1 as bounds of an event's time less its partner's, when events are of `side`."""
    return (lo, hi) if side == 0 else (-hi, -lo)


class _Edge(NamedTuple):
    offset: Ints  # from τ
    bounded: Bools


def apart(scans: tuple[Scan, Scan], streams: tuple[Stream, Stream], constants: pa.Table) -> TimeBounds:
    """The bounds for every row of constants."""
    count = constants.num_rows
    begins = [_begin(scan, stream, constants) for scan, stream in zip(scans, streams, strict=True)]
    ends = [_end(scan, constants) for scan in scans]
    lo = begins[0].offset - ends[1].offset + 1
    hi = ends[0].offset - begins[1].offset - 1
    lo = np.where(begins[0].bounded & ends[1].bounded, lo, KEY_MIN)
    hi = np.where(ends[0].bounded & begins[1].bounded, hi, KEY_MAX)
    assert len(lo) == len(hi) == count
    return TimeBounds(lo, hi)


def dated(scans: tuple[Scan, Scan], bounds: TimeBounds) -> TimeBounds:
    """The bounds where a row of a stream meets versions of a table that began before it.

    It holds for a side that is a table's and not retroactive, if the other side's rows are those that it meets.
    """
    first, second = (is_changes(scan.relation) for scan in scans)
    if first and not second and not scans[0].is_retroactive:
        return TimeBounds(bounds.lo, np.minimum(bounds.hi, 0))
    if second and not first and not scans[1].is_retroactive:
        return TimeBounds(np.maximum(bounds.lo, 0), bounds.hi)
    return bounds


def _begin(scan: Scan, stream: Stream, constants: pa.Table) -> _Edge:
    window = scan.window
    if window.rows is None and window.begin is not None:
        return _edge(window.begin, constants)
    keep_us = stream.keep_us
    offset = np.full(constants.num_rows, 0 if keep_us is None else -min(keep_us, _FAR_US), np.int64)
    return _Edge(offset, np.full(constants.num_rows, keep_us is not None))


def _end(scan: Scan, constants: pa.Table) -> _Edge:
    window = scan.window
    if is_changes(scan.relation) and not scan.is_retroactive:
        return _Edge(np.zeros(constants.num_rows, np.int64), np.zeros(constants.num_rows, bool))
    if window.rows is None and window.end is not None:
        return _edge(window.end, constants)
    return _Edge(np.zeros(constants.num_rows, np.int64), np.ones(constants.num_rows, bool))


def _edge(bound: Bound, constants: pa.Table) -> _Edge:
    count = constants.num_rows
    if not bound.relative:
        return _Edge(np.zeros(count, np.int64), np.zeros(count, bool))
    if not isinstance(bound.offset_us, Param):
        assert isinstance(bound.offset_us.value, int), "an edge is a length of time"
        return _Edge(np.full(count, max(-_FAR_US, min(bound.offset_us.value, _FAR_US)), np.int64), np.ones(count, bool))
    column = constants.column(bound.offset_us.name).combine_chunks().cast(pa.int64())
    assert not column.null_count, "a window whose edge is NULL was refused"
    return _Edge(np.clip(column.to_numpy(), -_FAR_US, _FAR_US), np.ones(count, bool))
