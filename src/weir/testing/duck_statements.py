"""Whole queries in the oracle: WITH, set operations, SELECT with all its clauses, ORDER BY, LIMIT and OFFSET.

A SELECT's keys of order are columns of their own beside the ones that are shown, and a query around it sorts and cuts:
names in ORDER BY are columns of the answer first, of the sources second. A query in an expression is translated with
the scope around it, so that names which it has not are found there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from weir.algebra.schema import DOUBLE, NULL, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType, Kind
from weir.testing.constants import TIMES, WHOLE, WHOLE_DIGITS, Scalar, duck_type, wider
from weir.testing.duck_aggregates import call_of, is_aggregate
from weir.testing.duck_decimals import widest
from weir.testing.duck_sets import KeySets, sets_of
from weir.testing.duck_sources import Env, Given, OutputColumn, Sources, Statement
from weir.testing.duck_spans import (
    is_session_call,
    is_span_call,
    keys_beside,
    span_call,
    spanned,
    with_sessions,
    with_spans,
)
from weir.testing.duck_windows import direction
from weir.testing.scalars import Scalars, known_parts
from weir.testing.scopes import Joined, Named, OracleScope

_WORDS = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}


class _Key(NamedTuple):
    """A key of ORDER BY: SQL over the columns of the SELECT, and its direction."""

    sql: str
    direction: str


class Statements:
    """Translates queries; what they have in common is in `given`."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.sources = Sources(
            given,
            self.statement,
            lambda e, scope, env: self.scalars(scope, env).condition(e).sql,
            lambda inside: Statements(inside).statement(inside.parsed.ast, None, {}),
        )

    def scalars(self, scope: OracleScope, env: Env, named: Mapping[str, exp.Window] | None = None) -> Scalars:
        def subquery(node: exp.Expr) -> tuple[str, list[DataType]]:
            found = self.statement(node, scope, env)
            return found.sql, [c.type for c in found.columns]

        return Scalars(scope.column, self.given.params, self.given.compute, subquery, named or {}, self.given.name)

    def statement(self, node: exp.Expr, outer: OracleScope | None, env: Env) -> Statement:
        known_parts(node)
        with_ = node.args.get("with_")
        if with_ is not None:
            env = self._with(with_, outer, env)
        if isinstance(node, exp.Select):
            return self._select(node, outer, env)
        if isinstance(node, (exp.Subquery, exp.Paren)):
            found = self.statement(node.this, outer, env)
        else:
            assert isinstance(node, exp.SetOperation), f"the oracle does not know {type(node).__name__}"
            found = self._set_operation(node, outer, env)
        return self._sorted(node, found, env)

    def _with(self, with_: exp.With, outer: OracleScope | None, env: Env) -> Env:
        known_parts(with_)
        defined = dict(env)
        for cte in with_.expressions:
            known_parts(cte)
            found = self.statement(cte.this, outer, defined)
            name = self.given.name("q")
            self.given.ctes.append(f"{name} AS ({found.sql})")
            names = [c.name for c in cte.args["alias"].args.get("columns") or []] or [c.name for c in found.columns]
            columns = [OutputColumn(n, c.type) for n, c in zip(names, found.columns, strict=True)]
            defined[cte.alias.lower()] = (name, columns)
        return defined

    def _set_operation(self, node: exp.SetOperation, outer: OracleScope | None, env: Env) -> Statement:
        word = _WORDS[type(node)] + ("" if node.args.get("distinct") else " ALL")
        left, right = self.statement(node.this, outer, env), self.statement(node.expression, outer, env)
        columns = [
            OutputColumn(a.name, _united(a.type, b.type)) for a, b in zip(left.columns, right.columns, strict=True)
        ]
        operands = [_retyped(found.sql, columns) for found in (left, right)]
        return Statement(f"({operands[0]}) {word} ({operands[1]})", columns)

    def _sorted(self, node: exp.Expr, found: Statement, env: Env) -> Statement:
        """ORDER BY, LIMIT and OFFSET of what is no SELECT itself: only columns of the answer have names."""
        if not any(node.args.get(k) for k in ("order", "limit", "offset")):
            return found
        name = self.given.name("t")
        shown = tuple((c.name, Scalar(f"{name}.c{i}", c.type)) for i, c in enumerate(found.columns))
        scalars = self.scalars(OracleScope(Joined("", (), shown)), env)
        keys = []
        for ordered in _order(node):
            place = _place(ordered.this)
            sql = f"{name}.c{place}" if place is not None else scalars.translate(ordered.this).sql
            keys.append(_Key(sql, direction(ordered)))
        listed = ", ".join(f"c{i}" for i in range(len(found.columns)))
        return Statement(f"SELECT {listed} FROM ({found.sql}) AS {name}{self._tail(node, keys)}", found.columns)

    def _tail(self, node: exp.Expr, keys: Sequence[_Key]) -> str:
        sql = " ORDER BY " + ", ".join(f"({k.sql}){k.direction}" for k in keys) if keys else ""
        scalars = Scalars(OracleScope(Joined("", (), ())).column, self.given.params, self.given.compute)
        for word in ("limit", "offset"):
            clause = node.args.get(word)
            if clause is not None and clause.expression.name.upper() != "ALL":
                known_parts(clause)
                sql += f" {word.upper()} {scalars.translate(clause.expression).sql}"
        return sql

    # SELECT

    def _select(self, node: exp.Select, outer: OracleScope | None, env: Env) -> Statement:
        joined = self.sources.joined(node, outer, env)
        call = span_call(node)
        if call is not None:
            before = self.scalars(OracleScope(joined, outer), env)
            name = self.given.name("x")
            if is_session_call(call):
                where = before.condition(node.args["where"].this).sql if node.args.get("where") else "TRUE"
                joined = with_sessions(joined, call, keys_beside(node), where, before.translate, name)
            else:
                joined = with_spans(joined, call, before.translate, name)
        scope = OracleScope(joined, outer)
        scalars = self.scalars(scope, env, {w.name.lower(): w for w in node.args.get("windows") or []})
        if call is not None:
            scalars.span = spanned(joined.sources[-1])
            scalars.span_parts = joined.sources[-1].columns
        for clause in (node.args[k] for k in ("group", "distinct") if node.args.get(k) is not None):
            known_parts(clause)
        sql = f" FROM {joined.sql}" if joined.sql else ""
        if node.args.get("where") is not None:
            sql += f" WHERE {scalars.condition(node.args['where'].this).sql}"
        scalars.sets = sets_of(node)
        items, parts = self._items(node, scope, scalars)
        if scalars.sets is not None:
            sql += f" GROUP BY {self._sets(scalars.sets, items, scalars)}"
        elif node.args.get("group") is not None:
            keys = self._keys(node, items, parts, scalars)
            if scalars.span is not None and f"({scalars.span.sql})" in keys:
                keys += [column.sql for _, column in joined.sources[-1].columns]  # window.start and window.end
            sql += f" GROUP BY {', '.join(keys)}" if keys else ""
        if scalars.sets is not None:  # without rows there are no groups, not even for the empty set
            kept = [] if node.args.get("having") is None else [scalars.condition(node.args["having"].this).sql]
            sql += f" HAVING {' AND '.join(['count(*) > 0', *kept])}"
        for word in ("having", "qualify"):
            if node.args.get(word) is not None and not (word == "having" and scalars.sets is not None):
                sql += f" {word.upper()} {scalars.condition(node.args[word].this).sql}"
        columns = [OutputColumn(name, item.type) for name, item in items]
        listed = [f"{item.sql} AS c{i}" for i, (_, item) in enumerate(items)]
        distinct = node.args.get("distinct") is not None
        if not any(node.args.get(k) for k in ("order", "limit", "offset")):
            return Statement(f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(listed)}{sql}", columns)
        keys_of_order = []
        for k, ordered in enumerate(_order(node)):
            found = self._order_key(ordered.this, items, scope, scalars)
            if isinstance(found, int):
                keys_of_order.append(_Key(f"c{found}", direction(ordered)))
                continue
            assert not distinct, f"ORDER BY {ordered.sql('spark')} of a DISTINCT is no column of the answer"
            listed.append(f"{found.sql} AS o{k}")
            keys_of_order.append(_Key(f"o{k}", direction(ordered)))
        inner = f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(listed)}{sql}"
        shown = ", ".join(f"c{i}" for i in range(len(columns)))
        tail = self._tail(node, keys_of_order)
        return Statement(f"SELECT {shown} FROM ({inner}) AS {self.given.name('t')}{tail}", columns)

    def _order_key(self, key: exp.Expr, items: Sequence[Named], scope: OracleScope, scalars: Scalars) -> int | Scalar:
        """The place of a column of the answer, or an expression over the sources (and the names of the answer)."""
        place = _place(key)
        if place is not None:
            return place
        if isinstance(key, exp.Column) and not key.table:
            named = [i for i, (name, _) in enumerate(items) if name.lower() == key.name.lower()]
            if named:
                return named[0]
        before, scope.joined = scope.joined, _renamed(scope.joined, items)
        try:
            found = scalars.translate(key)
        finally:
            scope.joined = before
        same = [i for i, (_, item) in enumerate(items) if item.sql == found.sql]
        return same[0] if same else found

    def _keys(
        self, node: exp.Select, items: Sequence[Named], parts: Sequence[exp.Expr | None], scalars: Scalars
    ) -> list[str]:
        group = node.args["group"]
        if group.args.get("all"):
            keys = [item.sql for (_, item), part in zip(items, parts, strict=True) if not _aggregates(part)]
        else:
            keys = []
            for key in group.expressions:
                place = _place(key)
                keys.append(items[place][1].sql if place is not None else scalars.translate(key).sql)
        return [f"({key})" for key in keys]  # in brackets, a constant is no position in the select list

    def _sets(self, sets: KeySets, items: Sequence[Named], scalars: Scalars) -> str:
        """Every set of keys, written out."""

        def key(part: exp.Expr) -> str:
            place = _place(part)
            if place is not None:
                return items[place][1].sql
            named = [item for name, item in items if isinstance(part, exp.Column) and name.lower() == part.name.lower()]
            return named[0].sql if named and not sets.is_column(part, scalars.column) else scalars.translate(part).sql

        spans = [] if scalars.span is None else [scalars.span.sql]
        written = []
        for one in sets.sets:
            keys = [key(part) for part in one]
            if set(keys) & set(spans):  # window.start and window.end
                keys += [column.sql for _, column in scalars.span_parts]
            written.append(f"({', '.join(keys)})")
        return f"GROUPING SETS ({', '.join(written)})"

    def _items(
        self, node: exp.Select, scope: OracleScope, scalars: Scalars
    ) -> tuple[list[Named], list[exp.Expr | None]]:
        """The columns of the answer, and the expressions behind them; those of a star have none."""
        items: list[Named] = []
        parts: list[exp.Expr | None] = []
        for i, item in enumerate(node.expressions):
            found: list[Named]
            if isinstance(item, exp.Star):
                known_parts(item)
                found = _without(item, scope.joined.shown)
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                source = scope.source(item.table)
                assert source is not None, f"there is no source {item.table}"
                found = _without(item.this, scope.joined.star_of(source))
            elif isinstance(item, exp.Alias):
                known_parts(item)
                found = [(item.alias, scalars.translate(item.this))]
                scope.aliases.setdefault(item.alias.lower(), found[0][1])
            else:
                name = item.name if isinstance(item, exp.Column) or is_span_call(item) else f"_c{i}"
                found = [(name, scalars.translate(item))]
            items += found
            parts += [item if len(found) == 1 and not item.is_star else None] * len(found)
        return items, parts


def _without(star: exp.Expr, columns: Sequence[Named]) -> list[Named]:
    """The columns of * without those that EXCEPT names."""
    gone = {name.name.lower() for name in star.args.get("except_") or []}
    return [(name, scalar) for name, scalar in columns if name.lower() not in gone]


def _order(node: exp.Expr) -> list[exp.Ordered]:
    order = node.args.get("order")
    if order is None:
        return []
    known_parts(order)
    keys: list[exp.Ordered] = order.expressions
    return keys


def _place(key: exp.Expr) -> int | None:
    """The place of a column of the answer that a number names, from 0."""
    return int(key.this) - 1 if isinstance(key, exp.Literal) and not key.is_string else None


def _renamed(joined: Joined, items: Sequence[Named]) -> Joined:
    """Where names of the answer come first."""
    names = {name.lower() for name, _ in items}
    rest = [(n, s) for n, s in joined.shown if n.lower() not in names]
    return Joined(joined.sql, joined.sources, (*items, *rest))


def _aggregates(e: exp.Expr | None) -> bool:
    """Whether an item of the select list has an aggregate that is not over a window."""
    if e is None or isinstance(e, (exp.Window, exp.Subquery)):
        return False
    call = call_of(e)
    if call is not None and is_aggregate(call):
        return True
    return any(_aggregates(part) for part in e.iter_expressions())


def _united(left: DataType, right: DataType) -> DataType:
    """The type of a column of a set operation."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left.kind in WHOLE and right.kind in WHOLE:
        return wider([left, right])
    if left.kind in TIMES and right.kind in TIMES:
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    if left.kind is right.kind is Kind.STRING:
        return STRING
    assert left.is_numeric, f"{left} and {right} do not unite"
    assert right.is_numeric, f"{left} and {right} do not unite"
    if Kind.DOUBLE in (left.kind, right.kind):
        return DOUBLE
    digits = [(t.precision, t.scale) if t.kind is Kind.DECIMAL else (WHOLE_DIGITS[str(t)], 0) for t in (left, right)]
    return widest(digits)


def _retyped(sql: str, columns: Sequence[OutputColumn]) -> str:
    casts = ", ".join(
        f"c{i}" if c.type.kind is Kind.PAYLOAD else f"CAST(c{i} AS {duck_type(c.type)}) AS c{i}"
        for i, c in enumerate(columns)
    )
    return f"SELECT {casts} FROM ({sql})"
