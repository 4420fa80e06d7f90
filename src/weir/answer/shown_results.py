"""When results of many queries are shown: from when until when, as their rows, windows and constants say.

A row at time t is in a window (τ + b, τ + e] while t − e <= τ < t − b, and in one with fixed edges always or never. A
result is shown while all its rows are (UPA 2.2). Two things are not known when a result is made, and are asked for
whenever it is to be shown: which rows are the last n of their stream, and how long versions of tables hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Bound, Literal, Param, Scan, Window
from weir.algebra.schema import Stream, is_changes
from weir.store.files import Files
from weir.store.lifetimes import Lifetimes, lifetimes_of
from weir.store.maintained import FROM, NEVER, SLOT, TO
from weir.store.row_files import read_table, times_us
from weir.store.row_places import RowPlaces

ROW_COLUMN = "row of "  # begins the names of columns with row ids
NEWEST = "newest us"  # of a result with a table beside streams: the newest time of its rows of streams
Longs = np.ndarray


class Sources(NamedTuple):
    """The sources of a core, and of some results the row ids of each."""

    scans: Sequence[Scan]
    streams: Sequence[Stream]
    rows: Sequence[Longs]

    def each(self) -> Iterator[tuple[Stream, Longs]]:
        return zip(self.streams, self.rows, strict=True)


class Moment(NamedTuple):
    """What results are shown at."""

    files: Files
    now_us: int
    places: Mapping[str, RowPlaces]  # by stream, as of the batch


class Span(NamedTuple):
    """Of some results: from when until when each is shown, and what else has to be known to show them."""

    begin: Longs
    end: Longs
    more: dict[str, Longs]


class Constants(NamedTuple):
    """The constants of some queries."""

    slots: Longs  # ascending
    table: pa.Table  # a row for each

    def column(self, name: str, of: Longs) -> Longs:
        """A constant that is a whole number, by result, for results of these queries."""
        values: Longs = self.table.column(name).combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
        if len(values) and bool((values == values[0]).all()):  # the queries of a shape mostly have one length of window
            return np.full(len(of), values[0])
        return values[np.searchsorted(self.slots, of)]


def row_column(source: int) -> str:
    """The column with the row ids of a source."""
    return f"{ROW_COLUMN}{source}"


def _time_column(source: int) -> str:
    return f"time of {source}"


def spans(sources: Sources, times: Sequence[Longs | None], slot: Longs, constants: Constants) -> Span:
    """From when until when results are shown; `times` by source, None for a table."""
    begin = np.full(len(slot), -NEVER, np.int64)
    end = np.full(len(slot), NEVER, np.int64)
    more = {row_column(k): rows for k, rows in enumerate(sources.rows)}
    newest = np.full(len(slot), -NEVER, np.int64)
    has_table = False
    for k, (scan, stream, t) in enumerate(zip(sources.scans, sources.streams, times, strict=True)):
        if t is None:
            has_table = True
            continue
        newest = np.maximum(newest, t)
        first, last = _span(scan.window, stream.keep_us, t, slot, constants)
        begin, end = np.maximum(begin, first), np.minimum(end, last)
        if scan.window.rows is not None:
            more[_time_column(k)] = t
    if has_table:
        more[NEWEST] = newest
    return Span(begin, end, more)


def _span(window: Window, keep_us: int | None, t: Longs, slot: Longs, constants: Constants) -> tuple[Longs, Longs]:
    """From when until when a window shows rows with these times."""
    kept = np.full(len(t), NEVER, np.int64) if keep_us is None else t + keep_us
    if window.rows is not None:
        return t, kept
    begin, end = t, kept
    if window.begin is not None:
        edge = _edge(window.begin, slot, constants)
        end = t - edge if window.begin.relative else np.where(edge < t, NEVER, -NEVER)
    if window.end is not None:
        edge = _edge(window.end, slot, constants)
        begin = t - edge if window.end.relative else np.where(t <= edge, t, NEVER)
    return begin, end


def _edge(bound: Bound, slot: Longs, constants: Constants) -> Longs:
    length: Longs = np.clip(_number(bound.offset_us, slot, constants), -NEVER, NEVER)
    return length


def _number(constant: Literal | Param, slot: Longs, constants: Constants) -> Longs:
    if isinstance(constant, Param):
        return constants.column(constant.name, slot)
    return np.full(len(slot), int(str(constant.value)), np.int64)


def shown_now(found: pa.Table, sources: Sources, constants: Constants, moment: Moment) -> Longs:
    """Which of some results are shown now."""
    shown = (found.column(FROM).to_numpy() <= moment.now_us) & (moment.now_us < found.column(TO).to_numpy())
    slot = found.column(SLOT).to_numpy()
    for k, (scan, stream) in enumerate(zip(sources.scans, sources.streams, strict=True)):
        rows = found.column(row_column(k)).to_numpy()
        if is_changes(stream.name):
            lifetimes = _lifetimes(moment, stream)
            if lifetimes.is_retroactive:
                shown &= lifetimes.hold_at(rows, moment.now_us)
            if NEWEST in found.column_names:
                shown &= lifetimes.meet(rows, found.column(NEWEST).to_numpy())
        elif scan.window.rows is not None:
            wanted = _number(scan.window.rows, slot, constants)
            shown &= _places_from_last(moment, stream, rows) < wanted
    return np.asarray(shown)


def _lifetimes(moment: Moment, stream: Stream) -> Lifetimes:
    path = moment.places[stream.name].lifetimes
    assert path is not None, "a result has a version, so the table has changes"
    return lifetimes_of(moment.files, path)


def _places_from_last(moment: Moment, stream: Stream, rows: Longs) -> Longs:
    """For each row how many rows of its stream come after it, in the order of times and then of arrival."""
    places = moment.places[stream.name]
    begin = -NEVER if stream.keep_us is None else moment.now_us - stream.keep_us
    ids, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for path, first in zip(places.paths, places.first_rows.tolist(), strict=True):
        t = times_us(read_table(moment.files, path), stream).to_numpy()
        inside = np.flatnonzero((t > begin) & (t <= moment.now_us))
        ids.append(inside + first)
        times.append(t[inside])
    all_ids, all_times = np.concatenate(ids), np.concatenate(times)
    order = np.lexsort((all_ids, all_times))
    after = np.empty(len(order), np.int64)
    after[order] = np.arange(len(order))[::-1]
    by_id = np.argsort(all_ids)
    at = np.searchsorted(all_ids[by_id], rows)
    there = (at < len(by_id)) & (all_ids[by_id[np.minimum(at, len(by_id) - 1)]] == rows) if len(by_id) else rows < 0
    return np.where(there, after[by_id[np.minimum(at, max(0, len(by_id) - 1))]] if len(by_id) else 0, NEVER)


def due_times(found: pa.Table, sources: Sources, moment: Moment) -> Longs:
    """When each of some results is shown or over next, after now; NEVER if nothing more is known to come."""
    now = moment.now_us
    begin, end = found.column(FROM).to_numpy(), found.column(TO).to_numpy()
    due = np.where(begin > now, begin, np.where(end > now, end, NEVER))
    for k, stream in enumerate(sources.streams):
        if is_changes(stream.name):
            lifetimes = _lifetimes(moment, stream)
            if lifetimes.is_retroactive:
                rows = found.column(row_column(k)).to_numpy()
                for edge in (lifetimes.since[rows], lifetimes.until[rows]):
                    due = np.where(edge > now, np.minimum(due, edge), due)
    return due
