"""The versions of a table, read off its changes; nothing is rewritten when a table changes.

The changes of a key, by time and then by arrival, follow each other: each holds from its time to that of the next one,
[from, to), the last one without end. A deletion ends the version before it and is none itself. Of changes with one time
the last counts; the others hold for no time at all and are left out. So at each moment a key has at most one version.

Which versions there are follows from the changes of the batches up to one. A change that comes later, dated earlier,
ends and begins others, as of its own batch on: the past *as known then* stays what it was.

Cost: for n changes a sort, O(n log n), and a hash of every key, some 0.3 µs each; for m more after that, a look at the
n keys and a sort of the changes whose keys change again, a third of it. Histories are kept of the last `HISTORIES_MAX`
states of tables, 16 bytes a change beside the mapped files; results at most `KEPT_BYTES` in a process. They serve all
batches until the table changes again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import CHANGE_DELETES, ENDLESS_US, Table
from weir.store.files import Files
from weir.store.mapped import Mapped
from weir.store.row_files import arrow_schema, read_table, times_us
from weir.store.state import State

FROM_US, TO_US = "weir from us", "weir to us"  # columns of versions; no column of a table can clash: they have blanks
KEPT_BYTES = 256 << 20
HISTORIES_MAX = 16
CHUNKS_MAX = 64  # above that, columns are copied into one
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
        history = _history(files, table, paths)
        holds = (history.since < history.until) & ~history.changes.column(CHANGE_DELETES).to_numpy()
        rows = _few_chunks(history.changes.select([c.name for c in table.columns]).filter(pa.array(holds)))
        known = _as_versions(rows, history.since[holds], history.until[holds])
        _kept.put(key, known)
    return known


def shown_at(found: pa.Table, table: Table, tau_us: int) -> pa.Table:
    """The versions that the table itself shows at τ.

    A retroactive table is seen as of τ. One that is not shows what a row that comes next would meet.
    """
    at_us = tau_us if table.retroactive else tau_us + 1
    return found.filter(pa.array((_longs(found, FROM_US) <= at_us) & (at_us < _longs(found, TO_US))))


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


@dataclass(frozen=True, slots=True)
class _History:
    """All changes of a table up to some file, in order of arrival, and how long each holds."""

    changes: pa.Table
    since: Longs
    until: Longs


def _history(files: Files, table: Table, paths: Sequence[str]) -> _History:
    """The history that these files make."""
    return _histories.get(files, paths[-1], lambda: _grown(files, table, paths), table)


def _grown(files: Files, table: Table, paths: Sequence[str]) -> _History:
    """The history of these files, from the longest one that is known and that they continue."""
    count, path = _longest.get((files, table), (0, ""))
    if 0 < count < len(paths) and paths[count - 1] == path:
        made = _continued(_history(files, table, paths[:count]), _read(files, paths[count:]), table)
    else:
        changes = _read(files, paths)
        since = _times(changes, table)
        made = _History(changes, since, _ends(_numbered(changes, table.key), since))
    with _lock:
        if len(paths) > _longest.get((files, table), (0, ""))[0]:
            _longest.pop((files, table), None)
            _longest[files, table] = (len(paths), paths[-1])
            while len(_longest) > HISTORIES_MAX:
                _longest.pop(next(iter(_longest)))
    return made


def _continued(before: _History, new: pa.Table, table: Table) -> _History:
    """A history with more changes.

    Only those of keys that change again end otherwise than before. Looked for is each column of the key by itself,
    which may find other keys as well: all changes of a key are found or none, so these end where they ended.
    """
    found = np.ones(before.changes.num_rows, bool)
    for name in table.key:
        known, wanted = (_comparable(t.column(name)) for t in (before.changes, new))
        found &= pc.is_in(known, value_set=wanted.combine_chunks()).to_numpy()
    again = np.flatnonzero(found)
    since = _times(new, table)
    some = pa.concat_tables([before.changes.select(table.key).take(pa.array(again)), new.select(table.key)])
    ends = _ends(_numbered(some, table.key), np.concatenate([before.since[again], since]))
    until = before.until.copy()
    until[again] = ends[: len(again)]
    changes = _few_chunks(pa.concat_tables([before.changes, new]))
    return _History(changes, np.concatenate([before.since, since]), np.concatenate([until, ends[len(again) :]]))


def _ends(keys: Longs, since: Longs) -> Longs:
    """Until when changes hold, given their keys as numbers and since when they do, in order of arrival."""
    order = np.lexsort((since, keys))  # it is stable: changes with one key and time stay in order of arrival
    until = np.full(len(order), ENDLESS_US, np.int64)
    has_next = keys[order[1:]] == keys[order[:-1]]
    until[order[:-1][has_next]] = since[order[1:][has_next]]
    return until


def _read(files: Files, paths: Sequence[str]) -> pa.Table:
    return _few_chunks(pa.concat_tables([read_table(files, path) for path in paths]))


def _few_chunks(rows: pa.Table) -> pa.Table:
    return rows.combine_chunks() if rows.column(0).num_chunks > CHUNKS_MAX else rows


def _times(changes: pa.Table, table: Table) -> Longs:
    return np.asarray(times_us(changes, table.changes), np.int64)


def _as_versions(rows: pa.Table, since: Longs, until: Longs) -> pa.Table:
    return rows.append_column(FROM_US, pa.array(since)).append_column(TO_US, pa.array(until))


def _numbered(changes: pa.Table, key: Sequence[str]) -> Longs:
    """A number for each row's key: equal keys have equal ones."""
    numbers = None
    for name in key:
        encoded = _comparable(changes.column(name)).dictionary_encode()
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        if numbers is None:
            numbers = codes.astype(np.int64)
        else:
            _, numbers = np.unique(numbers * len(encoded.chunk(0).dictionary) + codes, return_inverse=True)
    assert numbers is not None, "a table has a key"
    return numbers


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of which equal ones are the same bits: −0.0 is 0.0, and all NaN are one."""
    if not pa.types.is_floating(values.type):
        return values
    plain = values.to_numpy() + 0.0
    return pa.chunked_array([np.where(np.isnan(plain), np.nan, plain).view(np.int64)])


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
_histories: Mapped[_History] = Mapped(HISTORIES_MAX)
_longest: dict[tuple[Files, Table], tuple[int, str]] = {}  # how many files the longest known history has, the last one
_lock = threading.Lock()  # over these
