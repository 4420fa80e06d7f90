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
from weir.store.files import Files
from weir.store.mapped import Mapped
from weir.store.row_files import arrow_schema, read_table, times_us
from weir.store.state import State


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
        """Every file that may hold rows of the cut: (its first row id, its table, its times in µs)."""
        seen = self._seen(cut)
        if batches_below is not None:
            seen &= self.batches < batches_below
        for k in np.flatnonzero(seen):
            table, times = _load(self.files, self.paths[k], self.stream)
            yield int(self.first_rows[k]), table, times

    def inside(self, cut: Cut, times: np.ndarray) -> np.ndarray:
        mask = times <= cut.end_us
        if cut.begin_us is not None:
            mask &= times > cut.begin_us
        return np.asarray(mask)

    def last_rows_of(self, cut: Cut) -> np.ndarray:
        """Row ids of the last `rows_max` rows of the cut in (time, row id) order, ascending."""
        assert cut.rows_max is not None
        ids, times = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for first_row, _, t in self.scan(cut):
            at = np.flatnonzero(self.inside(cut, t))
            ids.append(at + first_row)
            times.append(t[at])
        all_ids, all_times = np.concatenate(ids), np.concatenate(times)
        order = np.lexsort((all_ids, all_times))[max(0, len(all_ids) - cut.rows_max) :]
        return np.sort(all_ids[order])

    def within(self, rows: np.ndarray, cut: Cut) -> np.ndarray:
        """Those of these ascending row ids that are kept and whose times lie inside the cut."""
        starts, stops = self._spans(rows)
        whole = self.t_max <= cut.end_us
        if cut.begin_us is not None:
            whole &= self.t_min > cut.begin_us
        found = [np.empty(0, np.int64)]
        for k in np.flatnonzero(self._seen(cut) & (stops > starts)):
            some = rows[starts[k] : stops[k]]
            if not whole[k]:
                _, times = _load(self.files, self.paths[k], self.stream)
                some = some[self.inside(cut, times[some - self.first_rows[k]])]
            found.append(some)
        return np.concatenate(found)

    def read(self, rows: np.ndarray, names: Sequence[str]) -> pa.Table:
        """Some columns of these ascending kept rows, in the same order."""
        starts, stops = self._spans(rows)
        parts: list[pa.Table] = []
        for k in np.flatnonzero(stops > starts):
            table = _load(self.files, self.paths[k], self.stream)[0].select(names)
            if stops[k] - starts[k] < table.num_rows:
                table = table.take(pa.array(rows[starts[k] : stops[k]] - self.first_rows[k]))
            parts.append(table)
        if not parts:
            return arrow_schema(self.stream.columns).empty_table().select(names)
        return pa.concat_tables(parts).combine_chunks()

    def times(self, rows: np.ndarray) -> np.ndarray:
        """The times in µs of these ascending kept rows."""
        return np.asarray(times_us(self.read(rows, [self.stream.time]), self.stream))

    def _spans(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each file, where its rows begin and end among ascending row ids."""
        return np.searchsorted(rows, self.first_rows), np.searchsorted(rows, self.end_rows)


_mapped: Mapped[tuple[pa.Table, np.ndarray]] = Mapped(4096)


def _load(files: Files, path: str, stream: Stream) -> tuple[pa.Table, np.ndarray]:
    """A mapped row file and its times; files are immutable, so what was mapped once stays right."""

    def read() -> tuple[pa.Table, np.ndarray]:
        table = read_table(files, path)
        return table, times_us(table, stream).to_numpy()

    return _mapped.get(files, path, read, stream.time)
