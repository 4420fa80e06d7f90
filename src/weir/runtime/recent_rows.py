"""Recent rows: a few thousand of the newest rows of each stream, by which queries are indexed.

Rows are taken evenly from the newest row files: those of the batch at hand, which are written before anything is
matched, then those of the batches before. Which rows these are follows from the files alone, so an attempt that is
run again takes the same. Nothing depends on them but how quickly queries are found: a file that cannot be read is
left out, and whoever matches its rows says what is wrong with it.

Cost: mapping a few files, once a batch and only if somebody asks; a process reads a whole file when it first checks it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from weir.errors import StoreError
from weir.families.recent import Recent
from weir.store.files import Files
from weir.store.ledger import RowFile
from weir.store.row_files import read_table
from weir.store.state import State

ROWS = 4_096  # of a stream
FILES_MAX = 4  # that are read


class RecentRows:
    """The newest rows of each stream as of one batch."""

    def __init__(self, files: Files, state: State, new: Sequence[RowFile]) -> None:
        """`new` are the row files of the batch itself, which `state` does not know yet."""
        self._files = files
        self._state = state
        self._new = new
        self._read: dict[str, pa.Table | None] = {}

    def of(self, streams: Sequence[str]) -> Recent:
        """The newest rows of some streams; None for one that has none."""
        for name in streams:
            if name not in self._read:
                self._read[name] = self._newest(name)
        return [self._read[name] for name in streams]

    def _newest(self, stream: str) -> pa.Table | None:
        older = self._state.row_files(stream).paths
        paths = [*reversed([f.path for f in self._new if f.stream == stream]), *reversed(older)]
        tables: list[pa.Table] = []
        for path in paths[:FILES_MAX]:
            try:
                table = read_table(self._files, path)
            except (StoreError, OSError):
                continue
            if not tables or table.schema == tables[0].schema:
                tables.append(table)
            if sum(len(t) for t in tables) >= FILES_MAX * ROWS:
                break
        if not tables:
            return None
        rows = pa.concat_tables(tables)
        if len(rows) <= ROWS:
            return rows.combine_chunks()
        return rows.take(np.linspace(0, len(rows) - 1, ROWS).astype(np.int64)).combine_chunks()
