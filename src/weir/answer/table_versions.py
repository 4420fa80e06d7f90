"""The versions of a table, read off its changes; nothing is rewritten when a table changes.

The changes of a key, by time and then by arrival, follow each other: each holds from its time to that of the next one,
[from, to), the last one without end. A deletion ends the version before it and is none itself. Of changes with one time
the last counts; the others hold for no time at all and are left out. So at each moment a key has at most one version.

Which versions there are follows from the changes of the batches up to one. A change that comes later, dated earlier,
ends and begins others, as of its own batch on: the past *as known then* stays what it was.

Cost: for n changes a sort, O(n log n), some 0.5 µs each, and reading them; results are kept in memory, at most
`KEPT_BYTES` in a process, and serve all batches until the table changes again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.schema import CHANGE_DELETES, ENDLESS_US, Table
from weir.store.files import Files
from weir.store.row_files import arrow_schema, read_table, times_us
from weir.store.state import State

FROM_US, TO_US = "weir from us", "weir to us"  # columns of versions; no column of a table can clash: they have blanks
KEPT_BYTES = 256 << 20
Longs = npt.NDArray[np.int64]


def versions(files: Files, table: Table, state: State, batch: int) -> pa.Table:
    """All versions that batches <= `batch` know, in order of arrival.

    The table's columns, and since when and until when each holds, in µs; without end is `ENDLESS_US`.
    """
    found = state.row_files(table.changes.name)
    paths = found.paths[: int(np.searchsorted(found.batch, batch, side="right"))]
    if not paths:
        return _as_versions(arrow_schema(table.columns).empty_table(), np.empty(0, np.int64), np.empty(0, np.int64))
    key = (files, table, paths[-1])  # names of files are unique, and which ones come before is fixed
    known = _kept.get(key)
    if known is None:
        known = _read(files, table, paths)
        _kept.put(key, known)
    return known


def shown_at(found: pa.Table, table: Table, tau_us: int) -> pa.Table:
    """The versions that the table itself shows at τ.

    A retroactive table is seen as of τ. One that is not shows what a row that comes next would meet.
    """
    at_us = tau_us if table.retroactive else tau_us + 1
    return found.filter(pa.array((_longs(found, FROM_US) <= at_us) & (at_us < _longs(found, TO_US))))


def met_by(found: pa.Table, rows: np.ndarray, row_times_us: np.ndarray) -> np.ndarray:
    """For pairs of a version (by its place) and the time of a row, whether the row meets it: from <= t < to."""
    return np.asarray((_longs(found, FROM_US)[rows] <= row_times_us) & (row_times_us < _longs(found, TO_US)[rows]))


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


def _read(files: Files, table: Table, paths: tuple[str, ...]) -> pa.Table:
    changes = pa.concat_tables([read_table(files, path) for path in paths])
    since = np.asarray(times_us(changes, table.changes), np.int64)
    keys = _numbered(changes, table.key)
    order = np.lexsort((since, keys))  # it is stable: changes with one key and time stay in order of arrival
    until = np.full(len(order), ENDLESS_US, np.int64)
    has_next = keys[order[1:]] == keys[order[:-1]]
    until[order[:-1][has_next]] = since[order[1:][has_next]]
    holds = (since < until) & ~changes.column(CHANGE_DELETES).to_numpy()
    rows = changes.select([c.name for c in table.columns]).filter(pa.array(holds)).combine_chunks()
    return _as_versions(rows, since[holds], until[holds])


def _as_versions(rows: pa.Table, since: Longs, until: Longs) -> pa.Table:
    return rows.append_column(FROM_US, pa.array(since)).append_column(TO_US, pa.array(until))


def _numbered(changes: pa.Table, key: tuple[str, ...]) -> Longs:
    """A number for each row's key: equal keys have equal ones."""
    numbers = None
    for name in key:
        values = changes.column(name)
        if pa.types.is_floating(values.type):  # −0.0 is 0.0, and all NaN are one
            plain = values.to_numpy() + 0.0
            values = pa.chunked_array([np.where(np.isnan(plain), np.nan, plain).view(np.int64)])
        encoded = values.dictionary_encode()
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        if numbers is None:
            numbers = codes.astype(np.int64)
        else:
            _, numbers = np.unique(numbers * len(encoded.chunk(0).dictionary) + codes, return_inverse=True)
    assert numbers is not None, "a table has a key"
    return numbers


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
