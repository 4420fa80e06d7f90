"""How long each change of a table holds: until the next change of its key.

The changes of a key, by time and then by arrival, follow each other: each holds from its time to that of the next one,
[from, to), the last one without end. Of changes with one time the last counts; the others hold for no time at all.

Which changes hold when follows from the changes of the batches up to one. A change that comes later, dated earlier,
ends and begins others, as of its own batch on: the past *as known then* stays what it was.

Cost: for n changes a sort, O(n log n), and a hash of every key, some 0.3 µs each; for m more after that, a look at the
n keys and a sort of the changes whose keys change again, a third of it. Histories are kept of the last `HISTORIES_MAX`
states of tables, 16 bytes a change beside the mapped files.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import CHANGE_DELETES, ENDLESS_US, Table
from weir.store.arrays import is_whole
from weir.store.files import Files, short_name
from weir.store.lifetimes import Lifetimes, save_lifetimes
from weir.store.mapped import Mapped
from weir.store.row_files import read_table, times_us
from weir.store.state import State

LIFETIMES = "cache/partners/lifetimes"  # goes with the rows that are joined
HISTORIES_MAX = 16
CHUNKS_MAX = 64  # above that, columns are copied into one
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class History:
    """All changes of a table up to some file, in order of arrival, and how long each holds."""

    changes: pa.Table
    lifetimes: Lifetimes  # of a change that deletes its key: none


def history_of(files: Files, table: Table, paths: Sequence[str]) -> History:
    """The history that these files make; there is at least one."""
    return _histories.get(files, paths[-1], lambda: _grown(files, table, paths), table)


def paths_of(table: Table, state: State, batch: int) -> tuple[str, ...]:
    """The files with the changes of batches <= `batch`."""
    found = state.row_files(table.changes.name)
    return found.paths[: int(np.searchsorted(found.batch, batch, side="right"))]


def lifetimes_file(files: Files, table: Table, paths: Sequence[str]) -> str:
    """The cache file that says how long the changes of these files hold; it is written if it is not there."""
    digest = hashlib.sha256(paths[-1].encode()).hexdigest()[:12]  # names of files are unique
    path = f"{LIFETIMES}/{short_name(table.changes.name)}-{digest}.rows"
    if not is_whole(files, path):
        save_lifetimes(files, path, history_of(files, table, paths).lifetimes)
    return path


def _grown(files: Files, table: Table, paths: Sequence[str]) -> History:
    """The history of these files, from the longest one that is known and that they continue."""
    count, path = _longest.get((files, table), (0, ""))
    if 0 < count < len(paths) and paths[count - 1] == path:
        made = _continued(history_of(files, table, paths[:count]), _read(files, paths[count:]), table)
    else:
        changes = _read(files, paths)
        since = _times(changes, table)
        made = _history(changes, since, _ends(_numbered(changes, table.key), since), table)
    with _lock:
        if len(paths) > _longest.get((files, table), (0, ""))[0]:
            _longest.pop((files, table), None)
            _longest[files, table] = (len(paths), paths[-1])
            while len(_longest) > HISTORIES_MAX:
                _longest.pop(next(iter(_longest)))
    return made


def _continued(before: History, new: pa.Table, table: Table) -> History:
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
    known_since, until = before.lifetimes.since, before.lifetimes.until.copy()
    some = pa.concat_tables([before.changes.select(table.key).take(pa.array(again)), new.select(table.key)])
    ends = _ends(_numbered(some, table.key), np.concatenate([known_since[again], since]))
    until[again] = ends[: len(again)]
    changes = few_chunks(pa.concat_tables([before.changes, new]))
    return _history(changes, np.concatenate([known_since, since]), np.concatenate([until, ends[len(again) :]]), table)


def _history(changes: pa.Table, since: Longs, until: Longs, table: Table) -> History:
    deletes = changes.column(CHANGE_DELETES).to_numpy()
    return History(changes, Lifetimes(since, np.where(deletes, since, until), table.retroactive))


def _ends(keys: Longs, since: Longs) -> Longs:
    """Until when changes hold, given their keys as numbers and since when they do, in order of arrival."""
    order = np.lexsort((since, keys))  # it is stable: changes with one key and time stay in order of arrival
    until = np.full(len(order), ENDLESS_US, np.int64)
    has_next = keys[order[1:]] == keys[order[:-1]]
    until[order[:-1][has_next]] = since[order[1:][has_next]]
    return until


def _read(files: Files, paths: Sequence[str]) -> pa.Table:
    return few_chunks(pa.concat_tables([read_table(files, path) for path in paths]))


def few_chunks(rows: pa.Table) -> pa.Table:
    return rows.combine_chunks() if rows.column(0).num_chunks > CHUNKS_MAX else rows


def _times(changes: pa.Table, table: Table) -> Longs:
    return np.asarray(times_us(changes, table.changes), np.int64)


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


_histories: Mapped[History] = Mapped(HISTORIES_MAX)
_longest: dict[tuple[Files, Table], tuple[int, str]] = {}  # how many files the longest known history has, the last one
_lock = threading.Lock()  # over these
