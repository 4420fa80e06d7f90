"""The answers of many queries, as one fetch gives them: a table for each set of columns, and an answer for each id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from weir.answer.many_fetch import Found, by_query
from weir.errors import FetchError, WeirError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = "query"  # the first column of a table: whose row it is


class Answers(Mapping[int, pa.Table]):
    """The answers of many queries, all of the same moment.

    A mapping: `answers[id]` is what `query(id).fetch()` gives, and ids are in the order in which they were asked for,
    each once. Beside that `tables` has the rows of all of them, ready to be handed on: queries whose answers have the
    same columns share one table, by ascending id, with a column `query` before the others (`query_`, if they have a
    `query` of their own). `to_arrow`, `to_pandas`, `to_spark` and `reader` give that table where there is one only.

    A query that has no answer (a window that reaches below the rows that are kept, a subquery with two rows) does not
    keep the others from having one: its error is in `failed`, `answers[id]` raises it, and no row of it is in a table.
    """

    def __init__(self, ids: Sequence[int], found: Sequence[Found], session: Callable[[], SparkSession]) -> None:
        by_schema: dict[pa.Schema, list[Found]] = {}
        for one in found:
            by_schema.setdefault(one.table.schema, []).append(one)
        self.tables: tuple[pa.Table, ...] = tuple(_named(same) for same in by_schema.values())
        self.failed: dict[int, WeirError] = {id: error for one in found for id, error in one.failed.items()}
        self._ids = dict.fromkeys(ids)
        self._of_table = [np.sort(np.concatenate([one.ids for one in same])) for same in by_schema.values()]
        self._session = session

    def __getitem__(self, id: int) -> pa.Table:
        if id not in self._ids:
            raise KeyError(id)
        if id in self.failed:
            raise self.failed[id]
        whose = next(table for table, ids in zip(self.tables, self._of_table, strict=True) if _has(ids, id))
        begin, end = np.searchsorted(whose.column(0).to_numpy(), (id, id + 1))
        return whose.slice(begin, end - begin).remove_column(0)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        rows = sum(table.num_rows for table in self.tables)
        failed = f", {len(self.failed):,} of them failed" if self.failed else ""
        return f"<weir.Answers of {len(self):,} queries{failed}: {rows:,} rows>"

    def to_arrow(self) -> pa.Table:
        """The rows of all queries; a `FetchError` if their answers have different columns."""
        if len(self.tables) > 1:
            shown = "; ".join(", ".join(table.column_names[1:]) for table in self.tables[:3])
            raise FetchError(
                f"the answers have {len(self.tables):,} different sets of columns: {shown}",
                hint="`tables` has a table for each, `answers[id]` one for each query",
            )
        return self.tables[0] if self.tables else pa.schema([(QUERY, pa.int64())]).empty_table()

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_spark(self) -> DataFrame:
        """The same as a DataFrame of the weir's Spark session; a session is started if there is none."""
        return self._session().createDataFrame(self.to_arrow())

    def reader(self) -> pa.RecordBatchReader:
        """The same as a stream of Arrow record batches."""
        return self.to_arrow().to_reader()


def _named(found: Sequence[Found]) -> pa.Table:
    """The answers of queries with the same columns, in one table."""
    table = by_query(pa.concat_tables([one.table for one in found]))
    taken = {name.lower() for name in table.column_names[1:]}
    name = QUERY
    while name in taken:
        name += "_"
    return table.rename_columns([name, *table.column_names[1:]])


def _has(ids: npt.NDArray[np.int64], id: int) -> bool:
    at = int(np.searchsorted(ids, id))
    return at < len(ids) and int(ids[at]) == id
