"""The kept rows of one stream as a reader sees them: by row id, and by time.

Row files are immutable and their ids ascend, so a row id leads to its file by binary search. Only files whose
time range meets the cut are ever opened, and if a file lies wholly inside the cut its times are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Stream
from weir.answer.window import Cut
from weir.store.ascending import NONE, distinct
from weir.store.files import Files
from weir.store.mapped import Mapped
from weir.store.row_files import arrow_schema, read_table, times_us
from weir.store.state import State

FILES_MAX = 16_384  # that a process has mapped
STRETCH_BYTES = 16 << 20  # of small files that are looked at together
SPARE_ROWS_MAX = 4_096  # between rows of a file that are wanted: to copy them costs less than to take rows out of it …
SPARE_BYTES_MAX = 1 << 17  # … unless they are wide


class KeptRows:
    """The rows of `stream` in batches <= `upto`."""

    def __init__(self, files: Files, stream: Stream, state: State, upto: int) -> None:
        self.files = files
        self.stream = stream
        found = state.row_files(stream.name)
        n = int(np.searchsorted(found.batch, upto, side="right"))  # row ids ascend with batches
        self.paths = found.paths[:n]
        self.batches = found.batch[:n]
        self.first_rows = found.first_row[:n]
        self.end_rows = found.first_row[:n] + found.count[:n]
        self.t_min = found.t_min_us[:n]
        self.t_max = found.t_max_us[:n]

    def newest(self, count: int) -> KeptRows:
        """Only the last `count` files."""
        few = copy(self)
        few.paths, few.batches = self.paths[-count:], self.batches[-count:]
        few.first_rows, few.end_rows = self.first_rows[-count:], self.end_rows[-count:]
        few.t_min, few.t_max = self.t_min[-count:], self.t_max[-count:]
        return few

    def _seen(self, cut: Cut) -> np.ndarray:
        """Which files may hold rows of the cut."""
        seen = self.t_min <= cut.end_us
        if cut.begin_us is not None:
            seen &= self.t_max > cut.begin_us
        return seen

    def scan(self, cut: Cut, *, batches_below: int | None = None) -> Iterator[tuple[int, pa.Table, np.ndarray]]:
        """All files that may hold rows of the cut, by stretches: (its first row id, its table, its times in µs).

        Neighbours that are small are one stretch, so that thousands of files are not looked at one by one.
        """
        seen = self._seen(cut)
        if batches_below is not None:
            seen &= self.batches < batches_below
        some: list[_RowFile] = []
        begin = end = size = 0
        for k in np.flatnonzero(seen).tolist():
            one = _rows(self.files, self.paths[k])
            size += one.size
            if some and (self.first_rows[k] != end or size > STRETCH_BYTES):
                yield begin, *_side_by_side(some, self.stream)
                some, size = [], one.size
            if not some:
                begin = int(self.first_rows[k])
            end = int(self.end_rows[k])
            some.append(one)
        if some:
            yield begin, *_side_by_side(some, self.stream)

    def inside(self, cut: Cut, times: np.ndarray) -> np.ndarray:
        mask = times <= cut.end_us
        if cut.begin_us is not None:
            mask &= times > cut.begin_us
        return np.asarray(mask)

    def last_rows_of(self, cut: Cut) -> np.ndarray:
        """Row ids of the last `rows_max` rows of the cut in (time, row id) order, ascending."""
        return np.sort(self.last_rows_in_order(cut))

    def last_rows_in_order(self, cut: Cut) -> np.ndarray:
        """Row ids of the last `rows_max` rows of the cut, in (time, row id) order."""
        assert cut.rows_max is not None
        ids, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for first_row, _, t in self.scan(cut):
            at = np.flatnonzero(self.inside(cut, t))
            ids.append(at + first_row)
            times.append(t[at])
        all_ids, all_times = np.concatenate(ids), np.concatenate(times)
        order = np.lexsort((all_ids, all_times))[max(0, len(all_ids) - cut.rows_max) :]
        return np.asarray(all_ids[order])

    def within(self, rows: np.ndarray, cut: Cut) -> np.ndarray:
        """Those of these ascending row ids that are kept and whose times lie inside the cut."""
        file = self.files_of(rows)
        there = file >= 0
        there[there] = self._seen(cut)[file[there]]
        whole = self.t_max <= cut.end_us
        if cut.begin_us is not None:
            whole &= self.t_min > cut.begin_us
        unsure = np.flatnonzero(there & ~whole[file]) if len(whole) else NONE
        for k in distinct(file[unsure]).tolist():
            mine = unsure[slice(*np.searchsorted(file[unsure], (k, k + 1)))]
            times = _rows(self.files, self.paths[k]).times(self.stream)
            there[mine] = self.inside(cut, times[rows[mine] - self.first_rows[k]])
        return rows[there]

    def files_of(self, rows: np.ndarray) -> np.ndarray:
        """For each row, in any order, the place of its file; −1 if that has expired."""
        at = np.searchsorted(self.first_rows, rows, side="right") - 1
        there = at >= 0
        there[there] = rows[there] < self.end_rows[at[there]]
        return np.where(there, at, -1)

    def read(self, rows: np.ndarray, names: Sequence[str]) -> pa.Table:
        """Some columns of these ascending kept rows, in the same order."""
        starts, stops = self._spans(rows)
        held = np.flatnonzero(stops > starts)
        if not len(held):
            return arrow_schema(self.stream.columns).empty_table().select(names)
        starts, counts = starts[held], (stops - starts)[held]
        place = rows - np.repeat(self.first_rows[held], counts)  # in its file, and at the end in all parts together
        first, length = place[starts], place[starts + counts - 1] - place[starts] + 1
        tables = [_rows(self.files, self.paths[k]).table.select(names) for k in held.tolist()]
        wide = [SPARE_BYTES_MAX * max(1, table.num_rows) // max(1, table.nbytes) for table in tables]
        for k in np.flatnonzero(length - counts > np.minimum(SPARE_ROWS_MAX, wide)).tolist():
            mine = slice(int(starts[k]), int(starts[k] + counts[k]))
            tables[k] = tables[k].take(pa.array(place[mine]))
            place[mine], first[k], length[k] = np.arange(counts[k]), 0, counts[k]
        parts = [table.slice(*of) for table, *of in zip(tables, first.tolist(), length.tolist(), strict=True)]
        whole = pa.concat_tables(parts)
        if whole.num_rows > len(rows):
            whole = whole.take(pa.array(place + np.repeat(np.cumsum(length) - length - first, counts)))
        return whole.combine_chunks()

    def times(self, rows: np.ndarray) -> np.ndarray:
        """The times in µs of these ascending kept rows."""
        return np.asarray(times_us(self.read(rows, [self.stream.time]), self.stream))

    def _spans(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each file, where its rows begin and end among ascending row ids."""
        return np.searchsorted(rows, self.first_rows), np.searchsorted(rows, self.end_rows)


class _RowFile:
    """A mapped row file."""

    __slots__ = ("_size", "_times", "table")

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._times: np.ndarray | None = None
        self._size: int | None = None

    @property
    def size(self) -> int:
        """Bytes; looked up when they are first asked for."""
        if self._size is None:
            self._size = self.table.nbytes
        return self._size

    def times(self, stream: Stream) -> np.ndarray:
        """The times of its rows in µs; looked up when they are first asked for."""
        if self._times is None:
            self._times = np.asarray(times_us(self.table, stream).to_numpy())
        return self._times


_mapped: Mapped[_RowFile] = Mapped(FILES_MAX)


def _rows(files: Files, path: str) -> _RowFile:
    """Files are immutable, so what was mapped once stays right."""
    return _mapped.get(files, path, lambda: _RowFile(read_table(files, path)))


def _side_by_side(some: Sequence[_RowFile], stream: Stream) -> tuple[pa.Table, np.ndarray]:
    """The rows of neighbouring files, and their times."""
    return pa.concat_tables([one.table for one in some]), np.concatenate([one.times(stream) for one in some])
