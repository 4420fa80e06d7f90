"""The oracle: answer(q, τ, N) computed by DuckDB from the raw rows.

`answer` takes the parsed text, registers for every source occurrence the contents of its window at τ
(`weir.testing.spans`) as a common table expression, and translates the syntax tree to DuckDB SQL: queries in
`duck_statements`, FROM in `duck_sources`, expressions in `scalars`, aggregates and window functions in
`duck_aggregates` and `duck_windows`.
It shares with the engine the parsed text and the names of types, nothing else: no algebra, no index, no evaluator.

Cost: one DuckDB query an answer, about 2 ms plus the work itself; the connection is opened once a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Catalog, DataType, Kind, Stream, Table
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.testing.arrow_types import arrow_type
from weir.testing.duck_decimals import add_functions
from weir.testing.duck_sources import ROW, Given, raw_name
from weir.testing.duck_statements import Statements

_local = threading.local()


def answer(
    query: str | Parsed,
    params: Mapping[str, object] | None,
    catalog: Catalog,
    rows: Mapping[str, pa.Table],
    tau_us: int,
    *,
    settings: Settings | None = None,
    views: Mapping[str, str] | None = None,
) -> pa.Table:
    """The one-time SQL of `query` over the windows' contents at τ.

    `rows` holds for each stream the accepted rows of the batches <= N in arrival order (the position is the row id)
    and for each table its rows, by lower-case name; one that is not there is empty. `params` are Python values
    or Arrow scalars. A NULL stands for a window edge as it does in SQL: it shows nothing. `views` are texts by
    lower-case name; streams in them that have no window there have that of the text around.
    """
    parsed = parse(query, settings or Settings()) if isinstance(query, str) else query
    connection = _connection()
    given = Given(
        parsed,
        {**(params or {}), **parsed.lists},
        catalog,
        tau_us,
        lambda sql: _compute(connection, sql),
        views=views or {},
    )
    sql, columns = Statements(given).statement(parsed.ast, None, {})
    ctes = f"WITH {', '.join(given.ctes)} " if given.ctes else ""
    registered = []
    try:
        for relation in given.relations.values():
            connection.register(raw_name(relation), _raw_rows(relation, rows.get(relation.name.lower())))
            registered.append(raw_name(relation))
        try:
            found = connection.sql(f"{ctes}{sql}").to_arrow_table()
        except Exception as e:
            raise AssertionError(f"DuckDB refuses {ctes}{sql}\nwhich is {parsed.text}\nbecause {e}") from e
    finally:
        for name in registered:
            connection.unregister(name)
    arrays = [_as_arrow(found.column(i), c.type) for i, c in enumerate(columns)]
    return pa.table(arrays, names=[c.name for c in columns])


def _connection() -> Any:  # DuckDB's own type is known only when it is installed
    found = getattr(_local, "connection", None)
    if found is None:
        try:
            import duckdb
        except ImportError as e:
            raise ImportError("weir.testing.answer needs DuckDB: pip install 'weir[testing]'") from e
        found = _local.connection = duckdb.connect(config={"threads": 1})
        add_functions(found)
    return found


def _compute(connection: Any, sql: str) -> object:
    value: object = connection.sql(f"SELECT {sql}").fetchall()[0][0]
    return value


def _raw_rows(relation: Stream | Table, rows: pa.Table | None) -> pa.Table:
    """The rows with naive timestamps (DuckDB's zoned ones drag in the session's zone) and their row ids."""
    arrays, names = [], []
    for column in relation.columns:
        type_ = arrow_type(column.type)
        array = pa.chunked_array([], type_) if rows is None else rows.column(column.name).cast(type_)
        arrays.append(array.cast(pa.timestamp("us")) if column.type.kind is Kind.TIMESTAMP else array)
        names.append(column.name)
    count = 0 if rows is None else rows.num_rows
    return pa.table([*arrays, pa.array(np.arange(count))], names=[*names, ROW])


def _as_arrow(column: pa.ChunkedArray, type_: DataType) -> pa.ChunkedArray:
    if type_.kind is Kind.TIMESTAMP:
        return column.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return column.cast(arrow_type(type_))
