"""Partner rows that are not a file: a task makes them of row files when an event may meet them, and keeps them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, walk
from weir.algebra.schema import Stream
from weir.families.contract import Form, Needs, NewRows
from weir.runtime.opened import made_of
from weir.store.files import Files
from weir.store.row_files import read_table, times_us


class LooseRows(NamedTuple):
    """The rows of some row files, in the order of their ids."""

    files: tuple[tuple[str, int], ...]  # path, id of the first row


RowsFile = str | LooseRows  # partner rows: a cache file, or what it would be made of


def partner_rows(
    files: Files, form: Form, family: Any, side: int, stream: Stream, needs: Needs, rows: LooseRows
) -> tuple[Any, int]:
    """Rows as a form's families meet them, and how many there are."""
    expressions = form.columns_of_rows(family, side, needs)
    names = {c.name for e in expressions for c in walk(e) if isinstance(c, ColumnRef)} | {stream.time}
    tables = []
    for path, _ in rows.files:
        table = made_of(files, path, partial(read_table, files, path), "rows")
        tables.append(table.select([name for name in table.column_names if name in names]))  # no payload is copied
    ids = [
        np.arange(first, first + t.num_rows, dtype=np.int64) for t, (_, first) in zip(tables, rows.files, strict=True)
    ]
    table = pa.concat_tables(tables).combine_chunks()
    new = NewRows(table, np.concatenate(ids), times_us(table, stream).to_numpy())
    return form.build_rows(family, side, new, needs), len(table)
