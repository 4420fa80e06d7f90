"""What users hand in, as Arrow: rows for `push`, constants for `register_many`, definitions for `stream`.

Everything is checked here, before anything is stored: a push is taken whole or refused whole, and the message
names the column, what was expected and what was found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.ddl import KNOWN, NAMES, TypeFaultError, read_type
from weir.algebra.schema import ENDLESS_US, FLOAT, Catalog, Column, DataType, Kind, Stream, Table
from weir.errors import PushError, QueryError, RunError, StreamError, WeirError, did_you_mean
from weir.runtime.payload_rows import PayloadFaultError, payload_array, takes
from weir.store.row_files import arrow_schema, arrow_type
from weir.store.texts import TooLongError, sized

_UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


NAME_MAX = 128  # characters of the name of a stream or table
_WORDS_OF_DDL = re.compile(r"'[^']*'|`[^`]*`|.", re.DOTALL)
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s+(?=\S)")
_REST = re.compile(r"(?:\s+(?P<null>null)|\s+default\s+(?P<default>'[^']*'|\S+))?\s*", re.IGNORECASE)
_WORDS = {"true": "True", "false": "False"}


def parse_columns(ddl: str, name: str) -> tuple[Column, ...]:
    """`name string, price double, …` as columns."""
    columns: list[Column] = []
    for part in _definitions(ddl):
        named = _NAME.match(part)
        type_, end = _type(part, named.end(), name, named[1]) if named is not None else (None, 0)
        rest = _REST.fullmatch(part, end)
        if named is None or type_ is None or rest is None:
            raise StreamError(
                f"column '{part.strip()}' of '{name}' is not `name type`, which `null` or `default value` may follow",
                hint=f"types: {KNOWN}",
            )
        default = _default(rest["default"], named[1], type_, name)
        columns.append(Column(named[1], type_, rest["null"] is not None or default is not None, default))
    folded = [c.name.lower() for c in columns]
    for c in folded:
        if folded.count(c) > 1:
            raise StreamError(f"column '{c}' occurs {folded.count(c)} times in '{name}', expected once")
    return tuple(columns)


def _definitions(ddl: str) -> list[str]:
    """What stands between commas that are neither in brackets nor in quotes."""
    parts, depth = [""], 0
    for word in _WORDS_OF_DDL.findall(ddl):
        depth += (word in "<(") - (word in ">)")
        if word == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += word
    return parts


# What reading a default may end with; OverflowError and what Decimal raises are ArithmeticErrors.
_NO_VALUE = (ValueError, SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError, pa.ArrowException)


def _default(text: str | None, column: str, type_: DataType, name: str) -> str | int | float | bool | None:
    """The value of a column that rows do without."""
    if text is None:
        return None
    try:
        if type_.kind is Kind.DECIMAL:  # all of its digits, which a float would not have
            default_scalar(text.strip("'"), type_)
            return text.strip("'")
        value: object = ast.literal_eval(_WORDS.get(text.lower(), text))
        if type_.kind is Kind.DOUBLE and isinstance(value, int):
            value = float(value)
        if not isinstance(value, str | int | float | bool):
            raise ValueError("it is no text, number or boolean")
        default_scalar(value, type_)
        if isinstance(value, bool) != (type_.kind is Kind.BOOLEAN):
            raise ValueError(f"it is {type(value).__name__}")
    except _NO_VALUE as wrong:
        raise StreamError(
            f"the default of column '{column}' of '{name}' is {text}, expected a {type_}: {wrong}",
            hint="write texts and times in quotes",
        ) from wrong
    return value


def _type(text: str, at: int, name: str, column: str) -> tuple[DataType, int]:
    try:
        return read_type(text, at)
    except TypeFaultError as wrong:
        of_decimal = wrong.word.lower().startswith("dec")
        raise StreamError(
            f"column '{column}' of '{name}' has type '{wrong.word}', expected {wrong}",
            hint="keep longer numbers as double or string" if of_decimal else did_you_mean(wrong.word, NAMES),
        ) from wrong


def check_advance(time_us: int, catalog: Catalog, wall_us: int) -> None:
    """Refuse a time that no row could have that comes at this moment of the wall clock: a clock never goes back."""
    if time_us <= -ENDLESS_US:
        raise PushError(f"the clock cannot be advanced to {time_us} µs: no row can have such a time")
    strictest = min(catalog.streams.values(), key=lambda stream: stream.future_us, default=None)
    if strictest is None:
        raise PushError("there is no stream yet whose clock could be advanced", hint="define one with weir.stream(…)")
    if time_us > wall_us + strictest.future_us:
        raise PushError(
            f"the clock cannot be advanced to {time_us} µs: that is {(time_us - wall_us) / 1e6:,.1f} s ahead of the "
            f"wall clock, and rows of stream '{strictest.name}' may be {strictest.future_us / 1e6:,.1f} s ahead",
            hint="give the time up to which all rows have come",
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


def expect_name(given: object, what: str, error: type[WeirError]) -> None:
    """Refuse what is no plain name."""
    expect_text(given, f"the name of a {what}", error)
    assert isinstance(given, str)
    if not given.isidentifier() or not given.isascii() or len(given) > NAME_MAX:
        raise error(f"'{given}' is not a {what} name", hint=f"use letters, digits and underscores, at most {NAME_MAX}")


def time_column(name: str, columns: Sequence[Column], time: str, what: str) -> Column:
    """The column that is named as the time of a stream or table."""
    expect_text(time, f"time of {what} '{name}'", StreamError)
    found = next((c for c in columns if c.name.lower() == time.lower()), None)
    names = [c.name for c in columns]
    if found is None:
        raise StreamError(
            f"time column '{time}' is not in {what} '{name}' ({', '.join(names)})", hint=did_you_mean(time, names)
        )
    if found.type.kind is not Kind.TIMESTAMP:
        raise StreamError(f"time column '{time}' of {what} '{name}' is {found.type}, expected timestamp")
    return found


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


def as_ids(given: object) -> npt.NDArray[np.int64]:
    """The ids of some queries, or of one: distinct, ascending."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        return np.array([as_id(given)], np.int64)
    if isinstance(given, np.ndarray) and given.dtype.kind == "i":
        return np.unique(given.astype(np.int64))
    return np.unique(np.array([as_id(id) for id in given], np.int64))


def check_trigger(given: object) -> None:
    """Refuse what Spark would not take as the time between two batches."""
    found = re.fullmatch(r"\s*\d+\s*([a-z]+?)s?\s*", given.lower()) if isinstance(given, str) else None
    if found is None or found[1] not in _UNITS_US:
        raise RunError(f"trigger is {given!r}, expected a length of time such as '1 second'")


def as_table(given: Any, what: str, error: type[WeirError], *, nan_is_null: bool = False) -> pa.Table:
    """Arrow tables and batches, pandas and Spark DataFrames, lists of dicts, dicts of lists.

    `nan_is_null`: of what is not Arrow's or Spark's, which tell the two apart.
    """
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    try:
        if isinstance(given, pd.DataFrame):
            table = pa.Table.from_pandas(given, preserve_index=False)
            return table if nan_is_null else _with_nan(table, given)
        if hasattr(given, "toArrow"):
            return given.toArrow()
        if hasattr(given, "__arrow_c_stream__"):
            return pa.table(given)
        if isinstance(given, Mapping):
            _expect_names(given, what, error)
            return pa.table({name: _column(values, nan_is_null) for name, values in given.items()})
        if (
            isinstance(given, Sequence)
            and not isinstance(given, str | bytes)
            and all(isinstance(r, Mapping) for r in given)
        ):
            names = list(dict.fromkeys(k for r in given for k in r))
            _expect_names(names, what, error)
            return pa.table({n: _column([r.get(n) for r in given], nan_is_null) for n in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as wrong:
        hint = (
            "write one row as [{…}], many as a list of dicts or a dict of lists" if isinstance(given, Mapping) else ""
        )
        raise error(f"{what} cannot be read as columns: {wrong}", hint=hint) from wrong
    raise error(
        f"{what} is a {type(given).__name__}, expected an Arrow table, a pandas or Spark DataFrame, a list of dicts or "
        "a dict of lists"
    )


def _column(values: Any, nan_is_null: bool) -> Any:
    """Values of Python; Arrow's own arrays say themselves what is NULL."""
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=nan_is_null)


def _with_nan(table: pa.Table, frame: pd.DataFrame) -> pa.Table:
    """A table made of a DataFrame, whose plain floats have NaN and no NULL."""
    for at, field in enumerate(table.schema):
        column = frame.iloc[:, at]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
            table = table.set_column(at, field, pa.array(column.to_numpy(), field.type, from_pandas=False))
    return table


@dataclass(frozen=True, slots=True)
class Keys(Table):
    """A table without the columns that a deletion does not name."""


def rows_for(given: Any, stream: Stream | Table, *, is_stamped: bool = False) -> pa.Table:
    """Rows with exactly the relation's columns and types; names in any case and order, optional ones may be missing.

    `is_stamped`: rows get their time when they arrive, so they need not bring one.
    """
    listed = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    table = _from_dicts(given, stream, is_stamped) if listed else _rows(_with_payloads(given, stream), stream)
    if not table.num_rows:
        return arrow_schema(stream.columns).empty_table()
    by_name = {n.lower(): n for n in table.column_names}
    names = ", ".join(c.name for c in stream.columns)
    for name in by_name:
        if stream.column(name) is None:
            raise PushError(
                f"column '{by_name[name]}' is not in {_named(stream)} ({names})",
                hint=did_you_mean(name, [c.name for c in stream.columns]),
            )
    if len(by_name) != table.num_columns:
        raise PushError(f"a column occurs twice in rows for {_named(stream)}")
    arrays = []
    missing = []
    for column in stream.columns:
        if column.name.lower() in by_name:
            arrays.append(_cast(table.column(by_name[column.name.lower()]), column, stream))
            continue
        arrays.append(_defaults(column, table.num_rows))
        if not column.is_optional and not (is_stamped and column.name == stream.time):
            missing.append(column)
    if missing:
        raise _missing(missing[0], stream)
    rows = pa.table(arrays, names=[c.name for c in stream.columns])
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid as wrong:  # texts that are no UTF-8, say: Arrow takes them, queries could not read them
        raise PushError(f"rows for {_named(stream)} are not valid: {wrong}", hint="nothing was taken") from wrong
    return rows


def _kind(relation: Stream | Table) -> str:
    return "table" if isinstance(relation, Table) else "stream"


def _with_payloads(given: Any, stream: Stream | Table) -> Any:
    """Columns, with Arrow's arrays where the stream has payloads: only the type says what a dict of Python is."""
    names = list(given) if isinstance(given, Mapping | pd.DataFrame) else []
    columns = {name: stream.column(name) for name in names if isinstance(name, str)}
    payloads = {name: c for name, c in columns.items() if c is not None and c.type.kind is Kind.PAYLOAD}
    made = {}
    for name, column in payloads.items():
        values = given[name]
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            made[name] = _payload(values.tolist() if isinstance(values, pd.Series) else values, column, stream)
    if not made:
        return given
    if isinstance(given, Mapping):
        return {name: made.get(name, given[name]) for name in names}
    table = _rows(given[[n for n in names if n not in made]], stream)
    for name, array in made.items():
        table = table.append_column(name, array)
    return table


def _payload(values: Sequence[Any], column: Column, stream: Stream | Table) -> pa.Array:
    try:
        return payload_array(values, column.type)
    except PayloadFaultError as wrong:
        raise PushError(
            f"column '{column.name}' of {_named(stream)} expects {column.type}: {wrong}", hint="nothing was taken"
        ) from wrong


def _named(relation: Stream | Table) -> str:
    return f"{'the keys of ' if isinstance(relation, Keys) else ''}{_kind(relation)} '{relation.name}'"


def _rows(given: Any, stream: Stream | Table) -> pa.Table:
    return as_table(given, f"rows for {_named(stream)}", PushError, nan_is_null=True)


def _missing(column: Column, stream: Stream | Table, row: int | None = None) -> PushError:
    what = "its time" if column.name == stream.time else f"which the {_kind(stream)} has"
    define = f", or define the column as `{column.name} {column.type} null` or with a default"
    must = isinstance(stream, Table) and column.name in (*stream.key, stream.time)
    return PushError(
        f"{'the rows' if row is None else f'row {row} (counted from 0)'} for {_named(stream)} "
        f"{'do' if row is None else 'does'} not have column '{column.name}', {what}",
        hint="give it" + ("" if must else f" (None is NULL){define}"),
    )


def _defaults(column: Column, count: int) -> pa.Array:
    wanted = arrow_type(column.type)
    if column.default is None:
        return pa.nulls(count, wanted)
    return pa.repeat(default_scalar(column.default, column.type), count)


def default_scalar(value: object, type_: DataType) -> pa.Scalar:
    """The value of a column that rows do without; times without a zone are UTC."""
    if type_.kind is Kind.TIMESTAMP and isinstance(value, str):
        return pa.scalar(value).cast(pa.timestamp("us")).cast(arrow_type(type_))
    if type_.kind is Kind.DECIMAL:
        return pa.scalar(Decimal(str(value))).cast(arrow_type(type_))
    if type_.kind is Kind.STRING:
        return sized(pa.array([value], pa.string()), type_)[0]
    return pa.scalar(value).cast(arrow_type(type_))


def _from_dicts(given: Sequence[Any], stream: Stream | Table, is_stamped: bool) -> pa.Table:
    if not all(isinstance(r, Mapping) for r in given):
        odd = next(r for r in given if not isinstance(r, Mapping))
        raise PushError(f"a row for {_named(stream)} is a {type(odd).__name__}, expected a dict")
    names = list(dict.fromkeys(k for r in given for k in r))
    _expect_names(names, f"rows for {_named(stream)}", PushError)
    arrays = []
    for name in names:
        column = stream.column(name)
        without = next((k for k, r in enumerate(given) if name not in r), None)
        may_lack = column is None or column.is_optional or (is_stamped and column.name == stream.time)
        if without is not None and column is not None and not may_lack:
            raise _missing(column, stream, without)
        # Inferred first, cast afterwards: Arrow would cut 1.5 down to 1 if it were told to make an int of it.
        try:
            if column is not None and column.type.kind is Kind.PAYLOAD:
                arrays.append(_payload([r.get(name) for r in given], column, stream))
                continue
            values = pa.array([r.get(name) for r in given], from_pandas=True)
            if without is not None and column is not None and column.default is not None:
                own = _cast(pa.chunked_array([values]), column, stream).combine_chunks()
                lacks = pa.array([name not in r for r in given])
                values = pc.if_else(lacks, _defaults(column, len(given)), own)
            arrays.append(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as wrong:
            expected = column.type if column else "one type"
            raise PushError(f"column '{name}' of {_named(stream)} expects {expected}: {wrong}") from wrong
    return pa.table(arrays, names=names) if names else pa.table({stream.columns[0].name: pa.nulls(len(given))})


def _cast(values: pa.ChunkedArray, column: Column, stream: Stream | Table) -> pa.ChunkedArray:
    """A cast that loses nothing: numbers to wider or equal ones, times to UTC."""
    wanted = arrow_type(column.type)
    have = values.type
    if have == wanted:
        return _sized(values, column, stream)
    expects = f"column '{column.name}' of {_named(stream)} expects {column.type}, got {have}"
    if not takes(column.type, have):
        raise PushError(expects, hint="cast the column before pushing; nothing was taken")
    try:
        found = values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as wrong:
        raise PushError(f"{expects}: {wrong}", hint="nothing was taken") from wrong
    if column.type == FLOAT and pc.any(pc.and_(pc.is_inf(found), pc.is_finite(values.cast(pa.float64())))).as_py():
        raise PushError(f"{expects}: a number is beyond the range of float", hint="nothing was taken")
    return _sized(found, column, stream)


def _sized(values: pa.ChunkedArray, column: Column, stream: Stream | Table) -> pa.ChunkedArray:
    """Texts of a char or varchar column, filled up or without blanks beyond its length; all else as it is."""
    try:
        return sized(values, column.type)
    except TooLongError as wrong:
        raise PushError(
            f"column '{column.name}' of {_named(stream)} expects {column.type}, got {wrong}",
            hint="cut it before pushing; nothing was taken",
        ) from wrong
