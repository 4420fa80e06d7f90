"""The versions of a table, read off its changes; nothing is rewritten when a table changes.

The changes of a key, by time and then by arrival, follow each other: each holds from its time to that of the next one,
[from, to), the last one without end. A deletion ends the version before it and is none itself. Of changes with one time
the last counts; the others hold for no time at all and are left out. So at each moment a key has at most one version.

How long changes hold says `weir.store.table_history`. Results are kept, at most `KEPT_BYTES` in a process; they serve
all batches until the table changes again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.schema import TIMESTAMP, Table
from weir.answer.kept_rows import KeptRows
from weir.answer.window import Cut
from weir.plan.finishes import Versions, spelt
from weir.plan.from_rows import LIFETIME
from weir.store.files import Files
from weir.store.lifetimes import Lifetimes
from weir.store.row_files import arrow_schema, arrow_type
from weir.store.state import State
from weir.store.table_history import few_chunks, history_of, paths_of

FROM_US, TO_US = "weir from us", "weir to us"  # columns of versions; no column of a table can clash: they have blanks
KEPT_BYTES = 256 << 20
Longs = npt.NDArray[np.int64]


def versions(files: Files, table: Table, state: State, batch: int) -> pa.Table:
    """All versions that batches <= `batch` know, in order of arrival."""
    return versions_in(files, table, paths_of(table, state, batch))


def versions_in(files: Files, table: Table, paths: Sequence[str]) -> pa.Table:
    """All versions that these files of changes make.

    The table's columns, and since when and until when each holds, in µs; without end is `ENDLESS_US`.
    """
    if not paths:
        return _as_versions(arrow_schema(table.columns).empty_table(), np.empty(0, np.int64), np.empty(0, np.int64))
    key = (files, table, paths[-1])  # names of files are unique, and which ones come before is fixed
    known = _kept.get(key)
    if known is None:
        history = history_of(files, table, paths)
        lifetimes, holds = history.lifetimes, history.lifetimes.hold()
        rows = few_chunks(history.changes.select([c.name for c in table.columns]).filter(pa.array(holds)))
        known = _as_versions(rows, lifetimes.since[holds], lifetimes.until[holds])
        _kept.put(key, known)
    return known


def shown_at(found: pa.Table, table: Table, tau_us: int) -> pa.Table:
    """The versions that the table itself shows at τ.

    A retroactive table is seen as of τ. One that is not shows what a row that comes next would meet.
    """
    at_us = tau_us if table.retroactive else tau_us + 1
    return found.filter(pa.array((_longs(found, FROM_US) <= at_us) & (at_us < _longs(found, TO_US))))


def seen_versions(found: pa.Table, table: Table, asked: Versions, tau_us: int) -> pa.Table:
    """The rows of a table for a finish: those that are shown at τ, or all with their lifetimes, to meet rows."""
    if not asked.has_lifetimes:
        found = shown_at(found, table, tau_us)
    columns = {spelt(asked.source, column.name): found.column(column.name) for column in asked.columns}
    for name, edge in zip(LIFETIME, (FROM_US, TO_US), strict=True):
        columns[spelt(asked.source, name)] = found.column(edge).cast(arrow_type(TIMESTAMP))
    return pa.table(columns)


def met_by(found: pa.Table, which: np.ndarray, row_times_us: np.ndarray) -> np.ndarray:
    """For pairs of a version (by its place) and the time of a row, whether the row meets it: from <= t < to."""
    return np.asarray((_longs(found, FROM_US)[which] <= row_times_us) & (row_times_us < _longs(found, TO_US)[which]))


def pairs_met(found: pa.Table, row_times_us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a row, given by its time, and a version that it meets: places of rows and of versions.

    By rows, then by versions. Cost: a sort of the rows, two searches a version, and the pairs.
    """
    order = np.argsort(row_times_us, kind="stable")
    times = row_times_us[order]
    first = np.searchsorted(times, _longs(found, FROM_US))
    counts = np.maximum(np.searchsorted(times, _longs(found, TO_US)) - first, 0)
    which = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = order[np.repeat(first, counts) + within]
    by_row = np.lexsort((which, rows))
    return rows[by_row], which[by_row]


def _longs(found: pa.Table, name: str) -> Longs:
    return np.asarray(found.column(name).to_numpy(), np.int64)


def _as_versions(rows: pa.Table, since: Longs, until: Longs) -> pa.Table:
    return rows.append_column(FROM_US, pa.array(since)).append_column(TO_US, pa.array(until))


class VersionRows(KeptRows):
    """The changes of a table in batches <= `upto` as rows of a stream, in one piece, and how long each holds."""

    def __init__(self, files: Files, table: Table, state: State, upto: int) -> None:
        super().__init__(files, table.changes, state, upto)
        nothing = np.empty(0, np.int64)
        self.changes = arrow_schema(self.stream.columns).empty_table()
        self.lifetimes = Lifetimes(nothing, nothing, table.retroactive)
        if self.paths:
            history = history_of(files, table, self.paths)
            self.changes, self.lifetimes = history.changes, history.lifetimes

    def scan(self, cut: Cut, *, batches_below: int | None = None) -> Iterator[tuple[int, pa.Table, np.ndarray]]:
        before = self.batches < (batches_below if batches_below is not None else self.batches.max(initial=0) + 1)
        count = int(self.end_rows[before].max(initial=0))
        yield 0, self.changes.slice(0, count), self.lifetimes.since[:count]

    def within(self, rows: np.ndarray, cut: Cut) -> np.ndarray:
        return rows

    def read(self, rows: np.ndarray, names: Sequence[str]) -> pa.Table:
        return self.changes.select(names).take(pa.array(rows)).combine_chunks()


class _Kept:
    """The results that were used last, within a number of bytes; the newest one stays whatever its size."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[tuple[Files, Table, str], pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: tuple[Files, Table, str]) -> pa.Table | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: tuple[Files, Table, str], found: pa.Table) -> None:
        with self._lock:
            if key not in self._entries:
                self._entries[key] = found
                self._bytes += found.nbytes
            while self._bytes > self._bytes_max and len(self._entries) > 1:
                self._bytes -= self._entries.popitem(last=False)[1].nbytes


_kept = _Kept(KEPT_BYTES)
