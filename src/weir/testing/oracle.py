"""The oracle: answer(q, τ, N) computed by DuckDB from the raw rows.

`answer` takes the parsed text, registers for every source occurrence the contents of its window at τ as a common
table expression, and translates the syntax tree to DuckDB SQL (`weir.testing.scalars`). It shares with the engine the
parsed text and the names of types, nothing else: no algebra, no index, no evaluator. Window contents are

    (begin, end]          begin < t <= end, edges relative to τ or absolute; an edge that is NULL shows nothing
    [ROWS n]              the last n rows by (t, row id) of those with τ − keep < t <= τ
    no window             (τ − keep, τ], or everything up to τ when the stream is kept for ever
    a table               all its rows

Cost: one DuckDB query an answer, about 2 ms plus the work itself; the connection is opened once a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from weir.algebra.schema import BIGINT, Catalog, DataType, Kind, Stream, Table, decimal
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.sql.windows import WindowClause
from weir.testing.arrow_types import arrow_type
from weir.testing.constants import DIGITS_MAX, WHOLE, Scalar, duck_type
from weir.testing.scalars import Scalars, compare, known_parts
from weir.testing.scopes import OracleScope, OracleSource, quoted
from weir.testing.spans import span

_ROW = "weir row id"  # no column of a stream can clash with it: it has blanks
_local = threading.local()


def answer(
    query: str | Parsed,
    params: Mapping[str, object] | None,
    catalog: Catalog,
    rows: Mapping[str, pa.Table],
    tau_us: int,
    *,
    settings: Settings | None = None,
) -> pa.Table:
    """The one-time SQL of `query` over the windows' contents at τ.

    `rows` holds for each stream the accepted rows of the batches <= N in arrival order (the position is the row id)
    and for each table its rows, by lower-case name; one that is not there is empty. `params` are Python values
    or Arrow scalars. A NULL stands for a window edge as it does in SQL: it shows nothing.
    """
    parsed = parse(query, settings or Settings()) if isinstance(query, str) else query
    connection = _connection()
    translation = _Translation(parsed, params or {}, catalog, tau_us, lambda sql: _compute(connection, sql))
    sql, columns = translation.statement(parsed.ast)
    ctes = ", ".join(translation.ctes)
    registered = []
    try:
        for relation in translation.relations.values():
            connection.register(_raw_name(relation), _raw_rows(relation, rows.get(relation.name.lower())))
            registered.append(_raw_name(relation))
        try:
            found = connection.sql(f"WITH {ctes} {sql}").to_arrow_table()
        except Exception as e:
            raise AssertionError(f"DuckDB refuses WITH {ctes} {sql}\nwhich is {parsed.text}\nbecause {e}") from e
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
    return found


def _compute(connection: Any, sql: str) -> object:
    value: object = connection.sql(f"SELECT {sql}").fetchall()[0][0]
    return value


def _raw_name(relation: Stream | Table) -> str:
    return f"raw_{relation.name.lower()}"


def _raw_rows(relation: Stream | Table, rows: pa.Table | None) -> pa.Table:
    """The rows with naive timestamps (DuckDB's zoned ones drag in the session's zone) and their row ids."""
    arrays, names = [], []
    for column in relation.columns:
        type_ = arrow_type(column.type)
        array = pa.chunked_array([], type_) if rows is None else rows.column(column.name).cast(type_)
        arrays.append(array.cast(pa.timestamp("us")) if column.type.kind is Kind.TIMESTAMP else array)
        names.append(column.name)
    count = 0 if rows is None else rows.num_rows
    return pa.table([*arrays, pa.array(np.arange(count))], names=[*names, _ROW])


def _as_arrow(column: pa.ChunkedArray, type_: DataType) -> pa.ChunkedArray:
    if type_.kind is Kind.TIMESTAMP:
        return column.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return column.cast(arrow_type(type_))


@dataclass(frozen=True)
class _OutputColumn:
    name: str
    type: DataType


class _Translation:
    """One query on its way to DuckDB SQL; collects a common table expression for each source occurrence."""

    def __init__(
        self,
        parsed: Parsed,
        params: Mapping[str, object],
        catalog: Catalog,
        tau_us: int,
        compute: Callable[[str], object],
    ) -> None:
        self.parsed = parsed
        self.params = params
        self.catalog = catalog
        self.tau_us = tau_us
        self.compute = compute
        self.ctes: list[str] = []
        self.relations: dict[str, Stream | Table] = {}

    # statements

    def statement(self, node: exp.Expr) -> tuple[str, list[_OutputColumn]]:
        while isinstance(node, (exp.Subquery, exp.Paren)):
            known_parts(node)
            node = node.this
        known_parts(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        assert isinstance(node, exp.SetOperation), f"the oracle does not know {type(node).__name__}"
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(node)]
        word += "" if node.args.get("distinct") else " ALL"
        (left, left_columns), (right, right_columns) = self.statement(node.this), self.statement(node.expression)
        columns = [
            _OutputColumn(a.name, _united(a.type, b.type)) for a, b in zip(left_columns, right_columns, strict=True)
        ]
        operands = [_retyped(sql, columns) for sql in (left, right)]
        return f"({operands[0]}) {word} ({operands[1]})", columns

    def _select(self, node: exp.Select) -> tuple[str, list[_OutputColumn]]:
        joins = [*(node.args["from_"].this.args.get("joins") or []), *(node.args.get("joins") or [])]
        for clause in (*joins, *(node.args[k] for k in ("group", "distinct") if node.args.get(k) is not None)):
            known_parts(clause)
        sources = [self._source(node.args["from_"].this)]
        sources += [self._source(j.this, tuple(name.name for name in j.args.get("using") or [])) for j in joins]
        scope = OracleScope(sources)
        scalars = Scalars(scope.column, self.params, self.compute)
        conditions = [compare("=", left, right, self.compute).sql for left, right in scope.equal]
        conditions += [scalars.condition(j.args["on"]).sql for j in joins if j.args.get("on") is not None]
        if node.args.get("where") is not None:
            conditions.append(scalars.condition(node.args["where"].this).sql)
        items = self._items(node, scope, scalars)
        scope.aliases = {name.lower(): item for name, item in items}
        distinct = "DISTINCT " if node.args.get("distinct") is not None else ""
        listed = ", ".join(f"{item.sql} AS c{i}" for i, (_, item) in enumerate(items))
        sql = f"SELECT {distinct}{listed} FROM {', '.join(s.cte for s in sources)}"
        if conditions:
            sql += f" WHERE {' AND '.join(conditions)}"
        if node.args.get("group") is not None:
            sql += f" GROUP BY {', '.join(self._keys(node, items, scalars))}"
        if node.args.get("having") is not None:
            sql += f" HAVING {scalars.condition(node.args['having'].this).sql}"
        return sql, [_OutputColumn(name, item.type) for name, item in items]

    def _keys(self, node: exp.Select, items: Sequence[tuple[str, Scalar]], scalars: Scalars) -> list[str]:
        keys = []
        for key in node.args["group"].expressions:
            if isinstance(key, exp.Literal) and not key.is_string:
                keys.append(items[int(key.this) - 1][1].sql)
            else:
                keys.append(scalars.translate(key).sql)
        return [f"({key})" for key in keys]  # in brackets, a constant is no position in the select list

    def _items(self, node: exp.Select, scope: OracleScope, scalars: Scalars) -> list[tuple[str, Scalar]]:
        items: list[tuple[str, Scalar]] = []
        for i, item in enumerate(node.expressions):
            if isinstance(item, exp.Star):
                items += scope.star()
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                items += scope.source(item.table).columns()
            elif isinstance(item, exp.Alias):
                items.append((item.alias, scalars.translate(item.this)))
            else:
                items.append((item.name if isinstance(item, exp.Column) else f"_c{i}", scalars.translate(item)))
        return items

    # FROM and windows

    def _source(self, node: exp.Expr, using: tuple[str, ...] = ()) -> OracleSource:
        assert isinstance(node, exp.Table), f"the oracle does not know {type(node).__name__} in FROM"
        known_parts(node)
        relation = self.catalog.relation(node.name)
        assert relation is not None, f"there is no stream or table {node.name}"
        self.relations[relation.name.lower()] = relation
        cte = f"w{len(self.ctes)}"
        columns = ", ".join(quoted(c.name) for c in relation.columns)
        sql = f"SELECT {columns} FROM {_raw_name(relation)}"
        if isinstance(relation, Stream):
            sql += self._window(relation, self.parsed.window_of(node) or self.parsed.window)
        self.ctes.append(f"{cte} AS ({sql})")
        return OracleSource(node.alias or relation.name, relation, cte, using)

    def _window(self, stream: Stream, clause: WindowClause | None) -> str:
        shown = span(stream, clause, self.params, self.tau_us)
        if shown is None:
            return " WHERE FALSE"
        time = f"epoch_us({quoted(stream.time)})"
        lower = "" if shown.begin_us is None else f"{time} > {shown.begin_us} AND "
        last = "" if shown.rows is None else f" ORDER BY {time} DESC, {quoted(_ROW)} DESC LIMIT {shown.rows}"
        return f" WHERE {lower}{time} <= {shown.end_us}{last}"


def _united(left: DataType, right: DataType) -> DataType:
    """The type of a column of a set operation."""
    if left == right:
        return left
    if left.kind in WHOLE and right.kind in WHOLE:
        return BIGINT
    assert left.kind is Kind.DECIMAL, f"{left} and {right} do not unite"
    assert right.kind is Kind.DECIMAL, f"{left} and {right} do not unite"
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    assert precision <= DIGITS_MAX, f"{left} and {right} do not unite within {DIGITS_MAX} digits"
    return decimal(precision, scale)


def _retyped(sql: str, columns: Sequence[_OutputColumn]) -> str:
    casts = ", ".join(f"CAST(c{i} AS {duck_type(c.type)}) AS c{i}" for i, c in enumerate(columns))
    return f"SELECT {casts} FROM ({sql})"
