"""Rows by their ids: where the rows of one stream are, in a form that travels to the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.algebra.schema import CHANGE_DELETES, CHANGE_TIME, Column, Stream
from weir.store.ascending import numbered
from weir.store.files import Files
from weir.store.lifetimes import Lifetimes
from weir.store.row_files import arrow_schema, read_table


@dataclass(frozen=True)
class RowPlaces:
    """Where the rows of one stream are: its row files by ascending first row id. Travels to the workers."""

    stream: Stream
    paths: tuple[str, ...]
    first_rows: np.ndarray  # int64[files]
    end_rows: np.ndarray  # int64[files]
    new_from: int = 0  # the first row of the batch, or where it would be
    lifetimes: str | Lifetimes | None = None  # of a table's changes: how long each holds as of the batch, or the file

    @property
    def columns(self) -> list[Column]:
        """The columns that users have given it."""
        return [c for c in self.stream.columns if c.name not in (CHANGE_DELETES, CHANGE_TIME)]

    @property
    def has_new(self) -> bool:
        """Whether the batch brought rows."""
        return bool(len(self.end_rows)) and int(self.end_rows[-1]) > self.new_from

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows are there."""
        at = np.searchsorted(self.first_rows, rows, side="right") - 1
        found: np.ndarray = rows < np.append(self.end_rows, -1)[at]  # before the first file: the −1
        return found

    def ids(self, first: int = 0) -> np.ndarray:
        """The rows that are there, from an id on, ascending."""
        ranges = zip(self.first_rows.tolist(), self.end_rows.tolist(), strict=True)
        return np.concatenate([np.empty(0, np.int64), *(np.arange(max(a, first), b) for a, b in ranges if b > first)])

    def take(
        self, files: Files, rows: np.ndarray, opened: dict[str, pa.Table], names: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows with these ids, in this order, or some columns of them; all NULL where a row is gone."""
        distinct, position = numbered(rows)
        starts, stops = np.searchsorted(distinct, self.first_rows), np.searchsorted(distinct, self.end_rows)
        wanted = [c.name for c in self.stream.columns] if names is None else list(names)
        tables = [arrow_schema(self.stream.columns).empty_table().select(wanted)]
        place = np.full(len(distinct), -1, np.int64)  # where each is in all tables together
        count = 0
        for k in np.flatnonzero(stops > starts):
            path = self.paths[k]
            if path not in opened:
                opened[path] = read_table(files, path)
            here = slice(starts[k], stops[k])
            tables.append(opened[path].select(wanted).take(pa.array(distinct[here] - self.first_rows[k])))
            place[here] = np.arange(count, count + stops[k] - starts[k])
            count += int(stops[k] - starts[k])
        whole = pa.concat_tables(tables).combine_chunks()
        return whole.take(pa.array(place[position], mask=place[position] < 0)).combine_chunks()
