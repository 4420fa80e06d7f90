"""The kept rows of one stream as a reader sees them: by row id, and by time.

Row files are immutable and their ids ascend, so a row id leads to its file by binary search. Only files whose
time range meets the cut are ever opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import lru_cache

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Stream
from weir.answer.window import Cut
from weir.store.files import Files
from weir.store.rows import arrow_schema, read_table, times_us
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

    def take(self, rows: np.ndarray, cut: Cut) -> tuple[np.ndarray, pa.Table]:
        """Of these ascending row ids those inside the cut, with their rows in the same order."""
        parts: list[pa.Table] = []
        kept: list[np.ndarray] = []
        if len(rows):
            seen = np.flatnonzero(self._seen(cut))
            starts = np.searchsorted(rows, self.first_rows[seen])
            stops = np.searchsorted(rows, self.end_rows[seen])
            for k, a, b in zip(seen, starts, stops, strict=True):
                if a == b:
                    continue
                table, times = _load(self.files, self.paths[k], self.stream)
                at = rows[a:b] - self.first_rows[k]
                at = at[self.inside(cut, times[at])]
                if len(at):
                    kept.append(at + self.first_rows[k])
                    parts.append(table.take(pa.array(at)))
        if not parts:
            return np.empty(0, np.int64), arrow_schema(self.stream.columns).empty_table()
        return np.concatenate(kept), pa.concat_tables(parts).combine_chunks()


@lru_cache(maxsize=4096)
def _load(files: Files, path: str, stream: Stream) -> tuple[pa.Table, np.ndarray]:
    """A mapped row file and its times; files are immutable, so what was mapped once stays right."""
    table = read_table(files, path)
    return table, times_us(table, stream).to_numpy()
