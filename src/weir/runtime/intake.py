"""What users hand in, as Arrow: rows for `push`, constants for `register_many`, definitions for `stream`.

Everything is checked here, before anything is stored: a push is taken whole or refused whole, and the message
names the column, what was expected and what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Column,
    DataType,
    Kind,
    Stream,
    decimal,
)
from weir.errors import PushError, QueryError, RunError, StreamError, WeirError, did_you_mean
from weir.store.row_files import arrow_type

_TYPES = {
    "int": INT,
    "integer": INT,
    "bigint": BIGINT,
    "long": BIGINT,
    "double": DOUBLE,
    "string": STRING,
    "boolean": BOOLEAN,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
_KNOWN = "int, bigint, double, decimal(p,s) with p at most 18, string, boolean, date, timestamp"
_UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


def parse_columns(ddl: str, name: str) -> tuple[Column, ...]:
    """`name string, price double, …` as columns."""
    columns: list[Column] = []
    for part in re.split(r",(?![^(]*\))", ddl):
        found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s+([A-Za-z]+)\s*(?:\(\s*(\d+)\s*,\s*(\d+)\s*\))?\s*", part)
        if found is None:
            raise StreamError(f"column '{part.strip()}' of '{name}' is not `name type`", hint=f"types: {_KNOWN}")
        columns.append(Column(found[1], _type(found[2].lower(), found[3], found[4], name, found[1])))
    folded = [c.name.lower() for c in columns]
    for c in folded:
        if folded.count(c) > 1:
            raise StreamError(f"column '{c}' occurs {folded.count(c)} times in '{name}', expected once")
    return tuple(columns)


def _type(word: str, precision: str | None, scale: str | None, name: str, column: str) -> DataType:
    if word == "decimal" and precision is not None and scale is not None:
        if 1 <= int(precision) <= 18 and int(scale) <= int(precision):
            return decimal(int(precision), int(scale))
        raise StreamError(
            f"column '{column}' of '{name}' is decimal({precision},{scale}), expected a precision of 1 to 18 and a "
            "scale not above it",
            hint="keep wider numbers as double or string",
        )
    if word in _TYPES and precision is None:
        return _TYPES[word]
    raise StreamError(
        f"column '{column}' of '{name}' has type '{word}', expected one of {_KNOWN}", hint=did_you_mean(word, _TYPES)
    )


def parse_length(text: str | int | None, what: str, *, error: type[WeirError] = StreamError) -> int | None:
    """`'1 hour'`, `'90 seconds'`, `'forever'` (None), or a number of seconds, in µs."""
    if text is None or (isinstance(text, str) and text.strip().lower() == "forever"):
        return None
    if isinstance(text, int) and not isinstance(text, bool):
        length = text * 1_000_000
    else:
        found = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", str(text).lower())
        if found is None or found[2] not in _UNITS_US:
            raise error(
                f"{what} is {text!r}, expected a length of time such as '1 hour'",
                hint="units: " + ", ".join(_UNITS_US) + ", or 'forever'",
            )
        length = int(found[1]) * _UNITS_US[found[2]]
    if not 0 < length < 2**61:
        raise error(f"{what} is {text!r}, expected more than nothing and less than 70,000 years")
    return length


def expect_text(given: object, what: str, error: type[WeirError]) -> None:
    """Refuse what is no text."""
    if not isinstance(given, str):
        raise error(f"{what} is {given!r}, expected a text")


def _expect_names(names: Iterable[object], what: str, error: type[WeirError]) -> None:
    for name in names:
        expect_text(name, f"the name of a column in {what}", error)


def as_id(given: object) -> int:
    """The id of a query: a whole number."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise QueryError(f"{given!r} is not the id of a query, expected a whole number")
    if not -(2**62) < int(given) < 2**62:
        raise QueryError(f"there is no query {given}")
    return int(given)


def check_trigger(given: object) -> None:
    """Refuse what Spark would not take as the time between two batches."""
    found = re.fullmatch(r"\s*\d+\s*([a-z]+?)s?\s*", given.lower()) if isinstance(given, str) else None
    if found is None or found[1] not in _UNITS_US:
        raise RunError(f"trigger is {given!r}, expected a length of time such as '1 second'")


def as_table(given: Any, what: str, error: type[WeirError]) -> pa.Table:
    """Arrow tables and batches, pandas and Spark DataFrames, lists of dicts, dicts of lists."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    try:
        if isinstance(given, pd.DataFrame):
            return pa.Table.from_pandas(given, preserve_index=False)
        if hasattr(given, "toArrow"):
            return given.toArrow()
        if hasattr(given, "__arrow_c_stream__"):
            return pa.table(given)
        if isinstance(given, Mapping):
            _expect_names(given, what, error)
            return pa.table(dict(given))
        if (
            isinstance(given, Sequence)
            and not isinstance(given, str | bytes)
            and all(isinstance(r, Mapping) for r in given)
        ):
            names = list(dict.fromkeys(k for r in given for k in r))
            _expect_names(names, what, error)
            return pa.table({n: [r.get(n) for r in given] for n in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as wrong:
        hint = (
            "write one row as [{…}], many as a list of dicts or a dict of lists" if isinstance(given, Mapping) else ""
        )
        raise error(f"{what} cannot be read as columns: {wrong}", hint=hint) from wrong
    raise error(
        f"{what} is a {type(given).__name__}, expected an Arrow table, a pandas or Spark DataFrame, a list of dicts or "
        "a dict of lists"
    )


def rows_for(given: Any, stream: Stream) -> pa.Table:
    """Rows with exactly the stream's columns and types; names in any case and order, missing ones are NULL."""
    listed = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    table = _from_dicts(given, stream) if listed else as_table(given, f"rows for stream '{stream.name}'", PushError)
    by_name = {n.lower(): n for n in table.column_names}
    names = ", ".join(c.name for c in stream.columns)
    for name in by_name:
        if stream.column(name) is None:
            raise PushError(
                f"column '{by_name[name]}' is not in stream '{stream.name}' ({names})",
                hint=did_you_mean(name, [c.name for c in stream.columns]),
            )
    if len(by_name) != table.num_columns:
        raise PushError(f"a column occurs twice in rows for stream '{stream.name}'")
    arrays = []
    for column in stream.columns:
        wanted = arrow_type(column.type)
        if column.name.lower() not in by_name:
            arrays.append(pa.nulls(table.num_rows, wanted))
            continue
        values = table.column(by_name[column.name.lower()])
        arrays.append(_cast(values, column, stream))
    return pa.table(arrays, names=[c.name for c in stream.columns])


def _from_dicts(given: Sequence[Any], stream: Stream) -> pa.Table:
    if not all(isinstance(r, Mapping) for r in given):
        odd = next(r for r in given if not isinstance(r, Mapping))
        raise PushError(f"a row for stream '{stream.name}' is a {type(odd).__name__}, expected a dict")
    names = list(dict.fromkeys(k for r in given for k in r))
    _expect_names(names, f"rows for stream '{stream.name}'", PushError)
    arrays = []
    for name in names:
        # Inferred first, cast afterwards: Arrow would cut 1.5 down to 1 if it were told to make an int of it.
        try:
            arrays.append(pa.array([r.get(name) for r in given]))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as wrong:
            column = stream.column(name)
            expected = column.type if column else "one type"
            raise PushError(f"column '{name}' of stream '{stream.name}' expects {expected}: {wrong}") from wrong
    return pa.table(arrays, names=names) if names else pa.table({stream.columns[0].name: pa.nulls(len(given))})


def _cast(values: pa.ChunkedArray, column: Column, stream: Stream) -> pa.ChunkedArray:
    """A cast that loses nothing: numbers to wider or equal ones, times to UTC."""
    wanted = arrow_type(column.type)
    have = values.type
    if have == wanted:
        return values
    expects = f"column '{column.name}' of stream '{stream.name}' expects {column.type}, got {have}"
    number = pa.types.is_integer(have) or pa.types.is_floating(have) or pa.types.is_decimal(have)
    fits = (
        pa.types.is_null(have)
        or (column.type.is_numeric and number)
        or (column.type.kind is Kind.STRING and (pa.types.is_large_string(have) or pa.types.is_string_view(have)))
        or (column.type.kind is Kind.STRING and pa.types.is_dictionary(have))
        or (column.type.kind is Kind.TIMESTAMP and pa.types.is_timestamp(have))
        or (column.type.kind is Kind.DATE and pa.types.is_date(have))
    )
    if not fits:
        raise PushError(expects, hint="cast the column before pushing; nothing was taken")
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as wrong:
        raise PushError(f"{expects}: {wrong}", hint="nothing was taken") from wrong
