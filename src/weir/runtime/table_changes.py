"""Tables as users say them: a definition, rows to put in, keys to take out; what is stored are changes.

A change has the table's columns, says whether it deletes its key, and, if the table has no time of its own, gets its
time from the batch that takes it. Everything is checked here, before anything is stored, so that no change is late: a
table that lost one would be wrong for ever.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import CHANGE_DELETES, CHANGE_TIME, ENDLESS_US, Column, Kind, Table
from weir.errors import PushError, StreamError, did_you_mean
from weir.runtime.intake import Keys, expect_name, expect_text, parse_columns, rows_for, time_column
from weir.store.row_files import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL, Kind.STRING, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
RESERVED = -(2**63)
PUTS, TAKES = ("upsert", "insert", "update"), "delete"  # what a column of operations says
_PLAIN = (str, bytes, int, float, Decimal, dt.date)
_PLAIN_LISTS = (Sequence, np.ndarray, pa.Array, pa.ChunkedArray, pd.Series)


def defined_table(
    name: str,
    source: str | DataFrame,
    key: str | Sequence[str],
    time: str | None,
    retroactive: bool,
    operation: str | None,
) -> Table:
    """A table's definition, checked."""
    expect_name(name, "table", StreamError)
    is_pushed = isinstance(source, str) or not hasattr(source, "isStreaming")
    if is_pushed:
        expect_text(source, f"the columns of table '{name}'", StreamError)
        if operation is not None:
            raise StreamError(f"table '{name}' has an operation, expected none", hint="say upsert or delete")
        parsed = parse_columns(str(source), name)
    else:
        parsed = _columns_of(name, source, operation)
    if not isinstance(retroactive, bool):
        raise StreamError(f"retroactive of table '{name}' is {retroactive!r}, expected True or False")
    timed = None if time is None else time_column(name, parsed, time, "table")
    given = [key] if isinstance(key, str) else key
    if not isinstance(given, Sequence) or not given:
        raise StreamError(f"the key of table '{name}' is {key!r}, expected the name of a column, or several")
    keys = [_key_column(name, parsed, one) for one in given]
    if len(set(keys)) < len(keys):
        raise StreamError(f"the key of table '{name}' names a column twice: {', '.join(k.name for k in keys)}")
    if timed in keys:
        raise StreamError(
            f"column '{time}' of table '{name}' is its time and in its key",
            hint="the key says which row, the time since when it is as it is",
        )
    for column in keys if timed is None else (*keys, timed):
        if column.is_optional:
            what = "the time" if column is timed else "a key"
            raise StreamError(
                f"column '{column.name}' is {what} of table '{name}', and rows may do without it",
                hint=f"write `{column.name} {column.type}`",
            )
    spelt = None if timed is None else timed.name
    return Table(name, parsed, tuple(k.name for k in keys), spelt, retroactive, "push" if is_pushed else "spark")


def _columns_of(name: str, frame: Any, operation: str | None) -> tuple[Column, ...]:
    """The columns of a table that a streaming DataFrame changes: all but the operation."""
    from weir.runtime.frames import check_frame
    from weir.runtime.sources import columns_of

    check_frame(frame, name, "table")
    columns = columns_of(frame, f"table '{name}'")
    if operation is None:
        return columns
    expect_text(operation, f"operation of table '{name}'", StreamError)
    found = next((c for c in columns if c.name.lower() == operation.lower()), None)
    if found is None or found.type.kind is not Kind.STRING:
        what = "is not in" if found is None else f"is {found.type}, expected string, in"
        names = [c.name for c in columns]
        raise StreamError(
            f"operation column '{operation}' {what} the DataFrame given for table '{name}' ({', '.join(names)})",
            hint=did_you_mean(operation, names) or f"it says {', '.join(PUTS)} or {TAKES} for each row",
        )
    return tuple(c for c in columns if c is not found)


def changes_frame(table: Table, frame: DataFrame, operation: str | None) -> DataFrame:
    """A user's DataFrame as changes; an operation that nobody knows is NULL, which is set aside when it comes."""
    from pyspark.sql import functions as F  # noqa: N812  # the customary name

    deletes = F.lit(False)
    if operation is not None:
        said = F.lower(F.trim(F.col(f"`{operation}`")))
        deletes = F.when(said.isin(*PUTS), F.lit(False)).when(said == TAKES, F.lit(True))
    own = [deletes.alias(CHANGE_DELETES)]
    if table.time is None:
        own.append(F.lit(None).cast("timestamp").alias(CHANGE_TIME))
    return frame.select(*(F.col(f"`{c.name}`") for c in table.columns), *own)


def _key_column(name: str, columns: Sequence[Column], key: object) -> Column:
    expect_text(key, f"a key of table '{name}'", StreamError)
    assert isinstance(key, str)
    found = next((c for c in columns if c.name.lower() == key.lower()), None)
    if found is None:
        names = [c.name for c in columns]
        raise StreamError(
            f"key column '{key}' is not in table '{name}' ({', '.join(names)})", hint=did_you_mean(key, names)
        )
    if found.type.kind not in KEYS:
        raise StreamError(
            f"key column '{found.name}' of table '{name}' is {found.type}, expected a type whose values can be compared"
        )
    return found


def upserts(table: Table, given: Any) -> pa.Table:
    """Rows to put in, as changes."""
    return _changes(table, rows_for(given, table), deletes=False)


def deletions(table: Table, given: Any) -> pa.Table:
    """Keys to take out, as changes."""
    named = (*table.key, table.time)
    keys = Keys(table.name, tuple(c for c in table.columns if c.name in named), table.key, table.time)
    if isinstance(given, _PLAIN):
        given = [given]
    is_plain = isinstance(given, _PLAIN_LISTS) and len(given) > 0 and not any(isinstance(one, Mapping) for one in given)
    if is_plain and len(keys.columns) == 1:
        given = {table.key[0]: given}
    elif is_plain:
        names = " and ".join(c.name for c in keys.columns)
        raise PushError(f"the keys of table '{table.name}' are plain values, expected rows of {names}")
    return _changes(table, rows_for(given, keys), deletes=True)


def _changes(table: Table, rows: pa.Table, *, deletes: bool) -> pa.Table:
    """Rows with the columns of changes."""
    for column in table.columns:
        if column.name in rows.column_names:
            _check(table, column, rows.column(column.name))
    schema = arrow_schema(table.changes.columns)
    of_change = {CHANGE_DELETES: pa.repeat(pa.scalar(deletes), rows.num_rows)}
    columns = {name: rows.column(name) for name in rows.column_names} | of_change
    return pa.table([columns.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in schema], schema=schema)


def _check(table: Table, column: Column, values: pa.ChunkedArray) -> None:
    """A PushError if a change would have to be refused later."""
    is_time = column.name == table.time
    if values.null_count and (is_time or column.name in table.key):
        row = pc.index(values.is_null(), True).as_py()
        what = "its time" if is_time else "in its key"
        raise PushError(
            f"column '{column.name}' of table '{table.name}' is NULL in row {row} (counted from 0), and is {what}",
            hint="nothing was taken",
        )
    if column.type.kind not in (Kind.BIGINT, Kind.TIMESTAMP) or len(values) == values.null_count:
        return
    low, high = (int(v.cast(pa.int64()).as_py()) for v in pc.min_max(values).values())
    if low == RESERVED:
        raise PushError(f"column '{column.name}' of table '{table.name}' has the reserved value −2^63")
    if is_time and not -ENDLESS_US < low <= high < ENDLESS_US:
        raise PushError(f"column '{column.name}' of table '{table.name}' has a time more than 70,000 years away")
