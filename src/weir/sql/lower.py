"""Syntax tree and schemas → algebra: `lower`.

With sql/expressions.py this is the only place that says "not part of the language".

One SELECT becomes Project, or GroupBy, over a Join of its sources (the WHERE and all ON conditions are one
predicate), or over a Select of its only source (sql/from_clause.py); DISTINCT, the set operations and ORDER BY stand
above. Source occurrences are numbered over the whole query, and columns refer to those numbers, so aliases are
gone after this. A name of WITH and a view are lowered anew wherever they are used. Output names are unique.

Invariant: a `Query` that comes back type-checks; every node knows its type. Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.fold import fold_one
from weir.algebra.nodes import Aggregate, ColumnRef, Direction, Expression, Node, Query, Scan, WindowCall, walk
from weir.algebra.rebuild import columns_inside, scans
from weir.algebra.schema import BIGINT, INTERVAL, NULL, TIMESTAMP, Catalog, Column, DataType, Kind, Table
from weir.errors import did_you_mean
from weir.settings import Settings
from weir.sql import types
from weir.sql.expressions import Expressions
from weir.sql.from_clause import FromClause, columns_named
from weir.sql.generators import generator, is_generator
from weir.sql.grouping_sets import Keys, expanded, is_grouping, keys_of
from weir.sql.language import LANGUAGE
from weir.sql.parse import Parsed, parse
from weir.sql.position import refuse
from weir.sql.refusals import REFUSED_CLAUSES
from weir.sql.scope import NameFaultError, Scope, Source
from weir.sql.stretches import Stretch
from weir.sql.time_windows import calls_in, is_session, time_window
from weir.sql.types import TAKE_A_PART
from weir.sql.windows import Edge, WindowClause

SOURCES_MAX = 1_000  # of one query, with its names of WITH and views written out
NAMES_DEEP_MAX = 64  # how many names of WITH and views may stand for one another
_FRAME_LEVELS = 20  # more than there are between a statement and its expressions, and inside a column
_ENDING = frozenset({"order", "limit", "offset", "with_"})  # parts that any statement may have
_SELECT_PARTS = _ENDING | {
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "qualify",
    "distinct",
    "windows",
    "laterals",
}


def lower(parsed: Parsed, catalog: Catalog, param_types: Mapping[str, DataType] | None = None) -> Query:
    """The typed query; everything that does not fit the schemas or the language is a RegisterError."""
    return _Lowering(parsed, catalog, param_types or {}).query()


@dataclass(frozen=True)
class _With:
    """What a name of WITH stands for, and the names that its text may use."""

    query: exp.Expr
    names: Mapping[str, _With]
    columns: tuple[exp.Identifier, ...]
    outer: Scope | None  # of the query around a subquery that has the WITH


class _Lowering:
    def __init__(self, parsed: Parsed, catalog: Catalog, param_types: Mapping[str, DataType]) -> None:
        self.parsed = parsed
        self.catalog = catalog
        self.numbered = 0
        self.deep = 0  # names of WITH and views that are being written out
        self.named: Mapping[str, _With] = {}
        starts = dict(zip(parsed.params, parsed.param_starts, strict=True))
        self.expressions = Expressions(LANGUAGE, parsed.text, starts, param_types, parsed.depth_max, parsed.lists)
        self.expressions.subquery = self._subquery
        self.fail = self.expressions.fail

    def query(self) -> Query:
        self._check_depth()
        root, output = self._statement(self.parsed.ast, 0, None)
        sources = scans(root)
        if not sources:
            raise self.fail("a standing query reads at least one stream", self.parsed.ast, "add FROM")
        return Query(root, sources, output, self.parsed.text)

    def _check_depth(self) -> None:
        """Long chains of one operator are deep trees; they are measured with a loop before anything descends."""
        if self.parsed.words + _FRAME_LEVELS <= self.parsed.depth_max:
            return  # every level but a few around the whole and in each name has a word of its own
        stack: list[tuple[exp.Expr, int]] = [(self.parsed.ast, 0)]
        while stack:
            node, level = stack.pop()
            if level > self.parsed.depth_max:
                raise self.fail(
                    f"an expression nests more than {self.parsed.depth_max} levels deep",
                    next((n for n in node.walk() if n.meta.get("start") is not None), node),
                    "split it, or raise the setting sql_depth_max",
                )
            for child in node.iter_expressions():
                flat = isinstance(node, (exp.Paren, exp.Subquery, exp.Alias)) or (
                    isinstance(node, (exp.And, exp.Or)) and type(child) in (type(node), exp.Paren)
                )
                stack.append((child, level + (0 if flat else 1)))

    # Statements and set operations.

    def _statement(self, node: exp.Expr, level: int, outer: Scope | None) -> tuple[Node, tuple[Column, ...]]:
        around: list[exp.Expr] = []
        while isinstance(node, (exp.Subquery, exp.Paren)):
            self.only(node, {"this"} | _ENDING)
            around.append(node)
            node = node.this
        if level > self.parsed.depth_max:
            raise self.fail(
                f"set operations nest more than {self.parsed.depth_max} levels deep", node, "split the query"
            )
        before = self.named
        for clause in around:
            self._with(clause, outer)
        if isinstance(node, exp.Select):
            root, output = self._select(node, outer)
        elif isinstance(node, exp.SetOperation):
            root, output = self._set_operation(node, level, outer)
        else:
            raise self.fail(
                "this is no query",
                node,
                "a standing query is one SELECT, or several joined by UNION, EXCEPT or INTERSECT",
            )
        for clause in reversed(around):
            root = self._ordered(clause, root, output)
        self.named = before
        return root, output

    def _with(self, node: exp.Expr, outer: Scope | None) -> None:
        """Have the names of a WITH clause mean what it says, from here on."""
        clause = node.args.get("with_")
        if clause is None:
            return
        if clause.args.get("recursive"):
            raise self.fail("WITH RECURSIVE is not part of the language", clause, "write the steps out")
        for one in clause.expressions:
            self.only(one, {"this", "alias"})
            alias = one.args["alias"]
            self.only(alias, {"this", "columns"})
            known = _With(one.this, self.named, tuple(alias.args.get("columns") or ()), outer)
            self.named = {**self.named, alias.name.lower(): known}

    def _set_operation(
        self, node: exp.SetOperation, level: int, outer: Scope | None
    ) -> tuple[Node, tuple[Column, ...]]:
        self.only(node, {"this", "expression", "distinct"} | _ENDING)
        before = self.named
        self._with(node, outer)
        kind = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}[type(node)]
        left, left_output = self._statement(node.this, level + 1, outer)
        right, right_output = self._statement(node.expression, level + 1, outer)
        if len(left_output) != len(right_output):
            raise self.fail(
                f"{kind.upper()} takes queries with equally many columns, "
                f"got {len(left_output)} and {len(right_output)}",
                node.expression,
            )
        output: list[Column] = []
        for i, (a, b) in enumerate(zip(left_output, right_output, strict=True)):
            type_ = types.united(*(NULL if _is_null(side, i) else c.type for side, c in ((left, a), (right, b))))
            type_ = a.type if type_ == NULL else type_
            if type_ is None:
                raise self.fail(
                    f"column {i + 1} of {kind.upper()} is {a.type} ('{a.name}') on the left and {b.type} ('{b.name}') "
                    "on the right",
                    node.expression,
                    _conversion(a, b),
                )
            output.append(Column(a.name, type_))
        wanted = [c.type for c in output]
        all_ = not node.args.get("distinct")
        if kind != "union" or not all_:
            self._check_scalars(kind.upper(), output, node)
        operands = [self._cast_output(side, wanted) for side in (left, right)]
        root: Node = nodes.SetOperation(kind, all_, *operands)
        root = self._ordered(node, root, tuple(output))
        self.named = before
        return root, tuple(output)

    def _check_ordered(self, type_: DataType, item: exp.Expr) -> None:
        if type_.kind is Kind.PAYLOAD:
            raise self.fail(f"ORDER BY does not take {type_}", item.this, TAKE_A_PART)

    def _all_places(self, columns: Sequence[Column], order: exp.Expr | None) -> tuple[tuple[int, Direction], ...]:
        """ORDER BY ALL: by every column, from left to right."""
        assert order is not None
        for column in columns:
            self._check_ordered(column.type, order.expressions[0])
        return tuple((place, direction_of(order.expressions[0])) for place in range(len(columns)))

    def _check_scalars(self, word: str, columns: Sequence[Column], node: exp.Expr) -> None:
        """Rows with payloads are not compared."""
        payload = next((c for c in columns if c.type.kind is Kind.PAYLOAD), None)
        if payload is not None:
            raise self.fail(f"{word} does not compare '{payload.name}' ({payload.type})", node, TAKE_A_PART)

    def only(self, node: exp.Expr, allowed: frozenset[str] | set[str]) -> None:
        """Refuse every clause of a node that is not on the list."""
        for name, value in node.args.items():
            if value is None or value is False or value == [] or name in allowed:
                continue
            what, hint = REFUSED_CLAUSES.get(name, (name.strip("_").replace("_", " ").upper(), "see docs/language.md"))
            at = value if isinstance(value, exp.Expr) else value[0] if isinstance(value, list) else node
            raise self.fail(f"{what} is not part of the language", at if isinstance(at, exp.Expr) else node, hint)

    def _ordered(self, node: exp.Expr, root: Node, output: tuple[Column, ...]) -> Node:
        """ORDER BY, LIMIT and OFFSET over a whole answer: by names and places of its columns."""
        order = node.args.get("order")
        keys: list[tuple[int, Direction]] = []
        if _is_all(order):
            return self._cut(node, root, self._all_places(output, order), 0)
        for item in order.expressions if order is not None else ():
            place = self._place(item.this, [c.name for c in output])
            if place is None:
                raise self.fail(
                    "ORDER BY of several queries takes columns of the answer",
                    item.this,
                    f"columns: {', '.join(c.name for c in output)}",
                )
            self._check_ordered(output[place].type, item)
            keys.append((place, direction_of(item)))
        return self._cut(node, root, tuple(keys), 0)

    def _place(self, node: exp.Expr, names: Sequence[str]) -> int | None:
        """The column of an answer that an item of ORDER BY names or counts."""
        if isinstance(node, exp.Literal) and not node.is_string:
            if not (node.this.isascii() and node.this.isdigit()) or not 1 <= int(node.this[:9]) <= len(names):
                raise self.fail(
                    f"ORDER BY {node.this[:20]} points at no column of the answer (1 to {len(names)})", node
                )
            return int(node.this) - 1
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.table:
            folded = [n.lower() for n in names]
            if folded.count(node.name.lower()) == 1:
                return folded.index(node.name.lower())
        return None

    def _cut(self, node: exp.Expr, root: Node, keys: tuple[tuple[int, Direction], ...], hidden: int) -> Node:
        limit, offset = (self._count(node, name) for name in ("limit", "offset"))
        if not keys and limit is None and offset is None:
            return root
        return nodes.Ordered(root, keys, limit, offset, hidden)

    def _count(self, node: exp.Expr, clause: str) -> nodes.Literal | nodes.Param | None:
        given = node.args.get(clause)
        if given is None:
            return None
        if not isinstance(given, (exp.Limit, exp.Offset)):
            raise self.fail("FETCH is not part of the language", given, "write LIMIT")
        self.only(given, {"expression"})
        if isinstance(given.expression, exp.Column) and given.expression.name.lower() == "all":
            return None
        e = self.expressions.lower(given.expression, BIGINT)
        if types.is_open(e):
            e = types.with_type(e, BIGINT)
        whole = isinstance(e, (nodes.Literal, nodes.Param)) and e.type.kind in types.WHOLE
        if not whole or (isinstance(e, nodes.Literal) and (not isinstance(e.value, int) or e.value < 0)):
            raise self.fail(f"{clause.upper()} takes a number of rows", given, f"write {clause.upper()} 10")
        assert isinstance(e, (nodes.Literal, nodes.Param))
        return replace(e, type=BIGINT)

    # SELECT.

    def _select(self, node: exp.Select, outer: Scope | None) -> tuple[Node, tuple[Column, ...]]:
        self.only(node, _SELECT_PARTS)
        before = self.named
        self._with(node, outer)
        scope = Scope(outer=outer)
        kept = self.expressions.enter(scope, node)
        if node.args.get("from_") is None:
            inputs: tuple[Node, ...] = (nodes.OneRow(),)
            conditions: list[Expression] = []
        else:
            inputs, conditions = FromClause(self, scope).lower(node)
        where = node.args.get("where")
        if where is not None:
            condition = self.expressions.condition(where.this, "WHERE")
            FromClause(self, scope).refuse_aggregates(condition, where, "WHERE")
            conditions.append(condition)
        window = next(calls_in(node), None)
        if window is not None:
            stretch = time_window(self.expressions, window, self.number)
            self._refuse_other_windows(node, window)
            self.expressions.stretch = Stretch(window.name.lower(), stretch.begin, stretch.end)
            inputs, conditions = (*inputs, *stretch.sources), [*conditions, *stretch.conditions]
        predicate = fold_one(nodes.conjunction(conditions)) if conditions else None
        child: Node
        if len(inputs) > 1:
            child = nodes.Join(inputs, predicate)
        else:
            child = inputs[0] if predicate is None else nodes.Select(inputs[0], predicate)
        columns = self._select_list(node, scope)
        keys, hidden = self._order_keys(node, columns)
        qualify = node.args.get("qualify")
        if qualify is None:
            root = self._grouped(node, child, columns, hidden)
        else:
            root = self._qualified(node, child, columns, [*hidden, self._qualification(qualify, columns)])
        distinct = node.args.get("distinct")
        if distinct is not None:
            self.only(distinct, set())
            self._check_scalars("SELECT DISTINCT", [Column(name, e.type) for name, e in columns], node)
            if hidden:
                raise self.fail(
                    "ORDER BY of SELECT DISTINCT takes columns of the answer", node.args["order"], "add it to the list"
                )
            root = nodes.Distinct(root)
        root = self._cut(node, root, keys, len(hidden))
        self.expressions.leave(kept)
        self.named = before
        return root, tuple(Column(name, e.type) for name, e in columns)

    def _qualification(self, qualify: exp.Expr, columns: Sequence[tuple[str, Expression]]) -> Expression:
        """The condition of QUALIFY, which may use names of the select list."""
        self.expressions.aliases = {name.lower(): e for name, e in columns}
        condition = self.expressions.condition(qualify.this, "QUALIFY")
        self.expressions.aliases = {}
        return condition

    def _qualified(
        self, node: exp.Select, child: Node, columns: Sequence[tuple[str, Expression]], hidden: Sequence[Expression]
    ) -> Node:
        """QUALIFY is a condition around a query in FROM; it is the last of the hidden columns."""
        inner = self._grouped(node, child, columns, hidden)
        source = self.number()
        derived = nodes.Derived(source, inner, f"_q{source}", columns_named(inner))
        refs = [ColumnRef(source, c.name, c.type) for c in derived.columns]
        return nodes.Project(nodes.Select(derived, refs[-1]), tuple((ref.name, ref) for ref in refs[:-1]))

    def _refuse_other_windows(self, node: exp.Select, window: exp.Anonymous) -> None:
        for other in calls_in(node):
            if other != window:
                raise self.fail("a SELECT has one window()", other, "put the other one into a query in FROM")

    def _order_keys(
        self, node: exp.Select, columns: Sequence[tuple[str, Expression]]
    ) -> tuple[tuple[tuple[int, Direction], ...], list[Expression]]:
        """Each item of ORDER BY as a column of the answer, or as one that is not shown."""
        order = node.args.get("order")
        keys: list[tuple[int, Direction]] = []
        hidden: list[Expression] = []
        shown = [e for _, e in columns]
        if _is_all(order):
            return self._all_places([Column(name, e.type) for name, e in columns], order), []
        self.expressions.aliases = {name.lower(): e for name, e in columns}
        self.expressions.aliases_first = True
        for item in order.expressions if order is not None else ():
            place = self._place(item.this, [name for name, _ in columns])
            if place is None:
                e = self.expressions.value(item.this)
                if isinstance(e, nodes.Literal):
                    continue  # the same for every row
                everything = [*shown, *hidden]
                if e not in everything:
                    hidden.append(e)
                    everything.append(e)
                place = everything.index(e)
            self._check_ordered([*shown, *hidden][place].type, item)
            keys.append((place, direction_of(item)))
        self.expressions.aliases, self.expressions.aliases_first = {}, False
        return tuple(keys), hidden

    # Sources.

    def number(self) -> int:
        """A new source's number.

        A name that is used twice is written out twice, so a short text of names over names may be a giant.
        """
        self.numbered += 1
        if self.numbered > SOURCES_MAX:
            raise self.fail(
                f"the query reads more than {SOURCES_MAX:,} sources, its names of WITH and views written out",
                self.parsed.ast,
                "use fewer names twice, or split the query",
            )
        return self.numbered - 1

    def relation(self, node: exp.Table) -> Source | None:
        """The stream or table that a name in FROM means; None: it is a name of WITH, or a view."""
        if node.name.lower() in self.named:
            return None
        relation = self.catalog.relation(node.name)
        own = self.parsed.window_of(node)
        if relation is None and node.name.lower() in self.catalog.views:
            if own is not None:
                raise refuse(self.parsed.text, f"'{node.name}' is a view and has no window", own.start, "leave it out")
            return None
        if relation is None:
            catalog = self.catalog
            known = [r.name for of in (catalog.streams, catalog.tables, catalog.views) for r in of.values()]
            shown = ", ".join(known[:40]) or "none are defined yet"
            raise self.fail(
                f"there is no stream or table '{node.name}' ({shown})", node, did_you_mean(node.name, known)
            )
        is_table = isinstance(relation, Table)
        if is_table and own is not None:
            raise refuse(self.parsed.text, f"'{relation.name}' is a table and has no window", own.start, "leave it out")
        clause = None if is_table else own or self.parsed.window
        alias, window = node.alias or relation.name, self._window(clause)
        if isinstance(relation, Table):
            scan = Scan(self.number(), relation.name, True, alias, window, is_retroactive=relation.retroactive)
        else:
            scan = Scan(self.number(), relation.name, False, alias, window, relation.time)
        return Source(scan, relation)

    def answer(self, node: exp.Expr, outer: Scope | None) -> tuple[Node, tuple[Column, ...]]:
        """A query in FROM, or the one that a name of WITH means."""
        if isinstance(node, exp.Values):
            return self._values(node)
        if not isinstance(node, exp.Table):
            assert isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation))
            inner = node.copy()
            for part in ("alias", "joins"):
                inner.set(part, None)
            return self._statement(inner, 1, outer)
        if self.deep == NAMES_DEEP_MAX:
            raise self.fail(
                f"more than {NAMES_DEEP_MAX} names of WITH and views stand for one another", node, "split the query"
            )
        self.deep += 1
        try:
            return self._named(node)
        finally:
            self.deep -= 1

    def _named(self, node: exp.Table) -> tuple[Node, tuple[Column, ...]]:
        """What a name of WITH, or else a view, stands for."""
        if node.name.lower() not in self.named:
            return self._view(node)
        known = self.named[node.name.lower()]
        before, self.named = self.named, known.names
        root, output = self._statement(known.query, 1, known.outer)
        self.named = before
        if known.columns:
            if len(known.columns) != len(output):
                raise self.fail(f"{len(known.columns)} names for {len(output)} columns", known.columns[0])
            output = tuple(Column(n.name, c.type) for n, c in zip(known.columns, output, strict=True))
        return root, output

    def _values(self, node: exp.Values) -> tuple[Node, tuple[Column, ...]]:
        """VALUES (…), (…): a SELECT without FROM for each row, in the types that hold all of them."""
        rows = [list(r.expressions) if isinstance(r, exp.Tuple) else [r] for r in node.expressions]
        if any(len(row) != len(rows[0]) for row in rows):
            raise self.fail("the rows of VALUES have equally many values", node)
        kept = self.expressions.enter(Scope(), exp.Select())
        columns: list[list[Expression]] = []
        for k in range(len(rows[0])):
            values = [self.expressions.lower(row[k]) for row in rows]
            try:
                columns.append(types.alike(values))
            except types.MismatchError as e:
                raise self.fail(f"column {k + 1} of VALUES: {e}", node, e.hint) from None
        self.expressions.leave(kept)
        names = [f"col{k + 1}" for k in range(len(columns))]
        made: list[Node] = [
            nodes.Project(nodes.OneRow(), tuple(zip(names, row, strict=True))) for row in zip(*columns, strict=True)
        ]
        return nodes.together(made), tuple(Column(n, c[0].type) for n, c in zip(names, columns, strict=True))

    def _view(self, node: exp.Table) -> tuple[Node, tuple[Column, ...]]:
        """The query of a view; a window around it is that of its streams which have none of their own."""
        view = self.catalog.views[node.name.lower()]
        parsed = parse(view.sql, Settings())
        inner = _Lowering(replace(parsed, window=parsed.window or self.parsed.window), self.catalog, {})
        inner.numbered, inner.deep = self.numbered, self.deep
        found = inner._statement(parsed.ast, 0, None)
        self.numbered = inner.numbered
        return found

    def _subquery(self, node: exp.Expr) -> tuple[Node, tuple[Column, ...]]:
        """A query inside an expression; it may look at the columns of the query at hand."""
        return self._statement(node, 1, self.expressions.scope)

    # Windows.

    def _window(self, clause: WindowClause | None) -> nodes.Window:
        if clause is None:
            return nodes.Window()
        if clause.rows_param is not None:
            return nodes.Window(rows=nodes.Param(clause.rows_param, BIGINT))
        if clause.rows is not None:
            return nodes.Window(rows=nodes.Literal(clause.rows, BIGINT))
        return nodes.Window(_bound(clause.begin), _bound(clause.end))

    # The select list.

    def _select_list(self, node: exp.Select, scope: Scope) -> list[tuple[str, Expression]]:
        if not node.expressions:
            raise self.fail("SELECT lists no columns", node, "write SELECT *")
        listed: list[tuple[str, Expression, bool]] = []  # name, value, whether the name was chosen
        for item in node.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                listed += [(name, e, False) for name, e in self._starred(item, scope)]
                continue
            if isinstance(item, exp.Aliases):
                raise self.fail("several aliases for one expression", item, "give each expression one alias")
            inner = item.this if isinstance(item, exp.Alias) else item
            self.expressions.aliases = {name.lower(): e for name, e, chosen in listed if chosen}
            e = generator(self.expressions, inner) or self.expressions.value(inner)
            if e.type.kind is Kind.INTERVAL:
                raise self.fail(
                    "an interval cannot be a column of the answer", inner, "return both times and subtract them later"
                )
            alias = item.alias if isinstance(item, exp.Alias) else ""
            if alias and any(chosen and alias.lower() == name.lower() for name, _, chosen in listed):
                raise self.fail(f"two columns of the answer are called '{alias}'", item.args["alias"], "rename one")
            stretch = self.expressions.stretch
            own = stretch.word if stretch is not None and e == stretch.whole else _default_name(e, len(listed))
            if is_generator(e):
                own = "col"
                if any(is_generator(other) for _, other, _ in listed):
                    raise self.fail("a SELECT has one explode()", inner, "put the other one into a query in FROM")
            listed.append((alias or own, e, bool(alias)))
        self.expressions.aliases = {}
        return _unique(listed)

    def _starred(self, item: exp.Expr, scope: Scope) -> list[tuple[str, Expression]]:
        star = item if isinstance(item, exp.Star) else item.this
        self.only(star, {"except_"})
        found: list[tuple[str, Expression]]
        if isinstance(item, exp.Star):
            if not scope.sources:
                raise self.fail("* needs FROM", item, "name a stream")
            found = scope.star()
        else:
            try:
                source = scope.source(item.args["table"].name)
            except NameFaultError as e:
                raise self.fail(str(e), item, e.hint) from None
            found = scope.star_of(source)
        for name in star.args.get("except_") or ():
            found = self._left_out(name, found)
        if not found:
            raise self.fail("* EXCEPT leaves out all columns", item)
        return found

    def _left_out(self, name: exp.Expr, found: list[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
        """The columns of * without one that EXCEPT names."""
        kept = [(n, e) for n, e in found if n.lower() != name.name.lower()]
        if len(kept) == len(found) or (isinstance(name, exp.Column) and name.table):
            known = [n for n, _ in found]
            hint = did_you_mean(name.name, known) or f"columns: {', '.join(known[:40])}"
            raise self.fail(f"* EXCEPT names '{name.name}', which is no column of *", name, hint)
        if len(kept) < len(found) - 1:
            raise self.fail(f"* EXCEPT: column '{name.name}' is ambiguous", name)
        return kept

    # Groups.

    def _grouped(
        self, node: exp.Select, child: Node, columns: Sequence[tuple[str, Expression]], hidden: Sequence[Expression]
    ) -> Node:
        """The answer before it is sorted; what it is sorted by and not shown are its last columns."""
        group, having = node.args.get("group"), node.args.get("having")
        all_columns = (*columns, *((f"_order{k}", e) for k, e in enumerate(hidden)))
        has_aggregate = any(isinstance(p, Aggregate) for _, e in all_columns for p in walk(e))
        self._refuse_generator(node, all_columns, group is not None or has_aggregate or having is not None)
        if group is None:
            self._refuse_session(node)
        if group is None and not has_aggregate and having is None:
            return nodes.Project(child, all_columns)
        given = self._keys(group, node, columns) if group is not None else Keys(())
        keys = given.keys
        condition: Expression | None = None
        if having is not None:
            self.expressions.aliases = {name.lower(): e for name, e in columns}
            condition = self.expressions.condition(having.this, "HAVING")
            self.expressions.aliases = {}
            if any(isinstance(p, WindowCall) and not is_session(p) for p in walk(condition)):
                raise self.fail(
                    "a window function cannot be used in HAVING", having, "put the query into FROM and use WHERE"
                )
            self._check_grouped(condition, keys, having)
        beside = node.args.get("order") or node.args.get("qualify")  # what the hidden columns are of
        items = [*_items(node, columns), *([beside] * len(hidden) if beside is not None else [])]
        for (_, e), item in zip(all_columns, items, strict=True):
            self._check_grouped(e, keys, item)
        over_groups = [(e, item) for (_, e), item in zip(all_columns, items, strict=True)]
        over_groups += [] if condition is None else [(condition, having)]
        if given.sets is None:
            self._refuse_grouping(over_groups)
            return nodes.GroupBy(child, keys, all_columns, condition)
        sets = expanded(self.expressions, given, child, over_groups, self.number())
        put = tuple((name, sets.of(e)) for name, e in all_columns)
        return nodes.GroupBy(sets.child, sets.keys, put, None if condition is None else sets.of(condition))

    def _refuse_generator(self, node: exp.Select, columns: Sequence[tuple[str, Expression]], has_groups: bool) -> None:
        """explode() stands in a select list without groups and window functions."""
        if not any(is_generator(part) for _, e in columns for part in walk(e)):
            return
        others = any(isinstance(part, WindowCall) for _, e in columns for part in walk(e))
        nested = any(is_generator(part) and part is not e for _, e in columns for part in walk(e))
        if has_groups or others or nested:
            hint = "put explode() into a query in FROM, or write LATERAL VIEW explode(…) t AS x"
            raise self.fail("explode() stands alone in a select list of rows", node, hint)

    def _refuse_session(self, node: exp.Select) -> None:
        stretch = self.expressions.stretch
        if stretch is not None and is_session(stretch.begin):
            raise self.fail("session_window() is a key of GROUP BY", next(calls_in(node)), "add GROUP BY")

    def _refuse_grouping(self, over_groups: Sequence[tuple[Expression, exp.Expr]]) -> None:
        for e, item in over_groups:
            call = next((p for p in walk(e) if isinstance(p, Aggregate) and is_grouping(p)), None)
            if call is not None:
                hint = "write GROUP BY ROLLUP(…), CUBE(…) or GROUPING SETS (…)"
                raise self.fail(f"{call.function}() needs sets of keys", item, hint)

    def _keys(self, group: exp.Expr, node: exp.Select, columns: Sequence[tuple[str, Expression]]) -> Keys:
        stretch = self.expressions.stretch
        if group.args.get("all") is True:
            self.only(group, {"all"})
            whole = None if stretch is None else stretch.whole
            shown = [stretch.begin if stretch is not None and e == whole else e for _, e in columns]
            found = tuple(e for e in shown if not any(isinstance(p, (Aggregate, WindowCall)) for p in walk(e)))
            for key in found:
                self._check_key(key, group)
            keys = Keys(found)
        else:
            self.only(group, {"expressions", "grouping_sets", "rollup", "cube"})
            self.expressions.aliases = {name.lower(): e for name, e in columns}
            keys = keys_of(self.expressions, group, lambda item: self._key(item, columns))
            self.expressions.aliases = {}
        if stretch is None or not is_session(stretch.begin):
            return keys
        if stretch.begin not in keys.keys:
            raise self.fail("session_window() is a key of GROUP BY", group, "add it there")
        if keys.sets is not None:
            raise self.fail("session_window() beside ROLLUP, CUBE or GROUPING SETS is not part of the language", group)
        place = keys.keys.index(stretch.begin) + 1
        return Keys((*keys.keys[:place], stretch.end, *keys.keys[place:]))

    def _key(self, item: exp.Expr, columns: Sequence[tuple[str, Expression]]) -> Expression:
        stretch = self.expressions.stretch
        if isinstance(item, exp.Literal) and not item.is_string:
            if not (item.this.isascii() and item.this.isdigit()) or not 1 <= int(item.this[:9]) <= len(columns):
                raise self.fail(
                    f"GROUP BY {item.this[:20]} points at no column of the answer (1 to {len(columns)})", item
                )
            key = columns[int(item.this) - 1][1]
        elif stretch is not None and isinstance(item, exp.Anonymous) and item.name.lower() == stretch.word:
            return stretch.begin
        else:
            key = self.expressions.value(item)
        if stretch is not None and key == stretch.whole:
            return stretch.begin
        if any(isinstance(p, (Aggregate, WindowCall)) for p in walk(key)):
            raise self.fail("GROUP BY cannot hold an aggregate", item, "use HAVING for conditions on groups")
        self._check_key(key, item)
        return key

    def _check_key(self, key: Expression, item: exp.Expr) -> None:
        if key.type.kind is Kind.INTERVAL:
            raise self.fail("GROUP BY does not take an interval", item)
        if key.type.kind is Kind.PAYLOAD:
            raise self.fail(f"GROUP BY does not take {key.type}", item, TAKE_A_PART)

    def _check_grouped(self, e: Expression, keys: tuple[Expression, ...], at: exp.Expr) -> None:
        own = {s.scan.source for s in self.expressions.scope.sources}
        stack = [e]
        while stack:
            part = stack.pop()
            if part in keys or isinstance(part, Aggregate):
                continue
            if isinstance(part, ColumnRef) and part.source in own:
                raise self.fail(
                    f"column '{part.name}' is neither in GROUP BY nor in an aggregate",
                    _column_in(at, part.name),
                    f"add it to GROUP BY, or write max({part.name})",
                )
            if isinstance(part, nodes.Subquery):
                stack.extend(ref for ref in columns_inside(part.query) if ref.source in own)
            stack.extend(reversed(nodes.children(part)))

    def _cast_output(self, node: Node, wanted: list[DataType]) -> Node:
        """The same rows in the wanted types; casts that may make rows equal go above what compares them."""
        have = [c.type for c in columns_named(node)]
        if have == wanted:
            return node
        if isinstance(node, (nodes.Project, nodes.GroupBy)):
            columns = tuple(
                (name, e if e.type == t else types.cast(e, t))
                for (name, e), t in zip(node.columns, wanted, strict=True)
            )
            return replace(node, columns=columns)
        if all(types.is_injective(a, b) for a, b in zip(have, wanted, strict=True)):
            if isinstance(node, nodes.Distinct):
                return replace(node, child=self._cast_output(node.child, wanted))
            if isinstance(node, nodes.SetOperation):
                left, right = (self._cast_output(side, wanted) for side in (node.left, node.right))
                return replace(node, left=left, right=right)
        source = self.number()
        derived = nodes.Derived(source, node, f"_q{source}", columns_named(node))
        refs = (ColumnRef(source, c.name, c.type) for c in derived.columns)
        shown = tuple((e.name, e if e.type == t else types.cast(e, t)) for e, t in zip(refs, wanted, strict=True))
        return nodes.Project(derived, shown)


def _is_all(order: exp.Expr | None) -> bool:
    """ORDER BY ALL, where ALL is a word of its own and no column."""
    return order is not None and len(order.expressions) == 1 and isinstance(order.expressions[0].this, exp.Var)


def direction_of(item: exp.Expr) -> Direction:
    """How an item of ORDER BY sorts: Spark's NULLs come first ascending, and last descending."""
    descending = bool(item.args.get("desc"))
    given = item.args.get("nulls_first")
    return Direction(descending, (not descending) if given is None else bool(given))


def _bound(edge: Edge | None) -> nodes.Bound | None:
    if edge is None:
        return None
    type_ = INTERVAL if edge.relative else TIMESTAMP
    if edge.param is not None:
        return nodes.Bound(edge.relative, nodes.Param(edge.param, type_, edge.unit_us))
    return nodes.Bound(edge.relative, nodes.Literal(edge.offset_us, type_))


def _default_name(e: Expression, place: int) -> str:
    """The name of a column without an alias; it may not depend on constants, or shapes would."""
    if isinstance(e, (ColumnRef, nodes.Field)):
        return e.name
    if isinstance(e, Aggregate) and e.filter is None:
        if not e.args:
            return "count(*)"
        if len(e.args) == 1 and isinstance(e.args[0], ColumnRef):
            return f"{e.function}({'DISTINCT ' if e.distinct else ''}{e.args[0].name})"
    return f"_c{place}"


def _unique(listed: Sequence[tuple[str, Expression, bool]]) -> list[tuple[str, Expression]]:
    """Columns with names of their own: a name that nobody chose becomes `name_2`, `name_3`, … where it is taken."""
    taken = {name.lower() for name, _, chosen in listed if chosen}
    columns: list[tuple[str, Expression]] = []
    for name, e, chosen in listed:
        free, n = name, 1
        while not chosen and free.lower() in taken:
            n += 1
            free = f"{name}_{n}"
        taken.add(free.lower())
        columns.append((free, e))
    return columns


def _items(node: exp.Select, columns: Sequence[object]) -> list[exp.Expr]:
    """For each output column the select-list item it came from (a star stands for several)."""
    if len(node.expressions) == len(columns):
        return list(node.expressions)
    return [node] * len(columns)


def _column_in(node: exp.Expr, name: str) -> exp.Expr:
    return next((c for c in node.find_all(exp.Column) if c.name.lower() == name.lower()), node)


def _is_null(node: Node, place: int) -> bool:
    """Whether a column of an answer is NULL alone, which has no type of its own."""
    if not isinstance(node, (nodes.Project, nodes.GroupBy)):
        return False
    e = node.columns[place][1]
    return isinstance(e, nodes.Literal) and e.value is None


def _conversion(a: Column, b: Column) -> str:
    """How two columns of a set operation could be brought together."""
    if not (a.type.is_numeric and b.type.is_numeric):
        return "list columns of the same types in the same order"
    narrow = b if a.type.kind is Kind.DOUBLE else a
    return f"convert explicitly: CAST({narrow.name} AS double)"
