"""Syntax tree and schemas → algebra: `lower`.

With sql/expressions.py this is the only place that says "not part of the language".

One SELECT becomes Project, or GroupBy, over a Join of its sources (the WHERE and all ON conditions are one
predicate), or over a Select of its only source; DISTINCT and the set operations stand above. Source occurrences
are numbered over the whole query in the order of the text, and columns refer to those numbers, so aliases are
gone after this. Output names are unique.

Invariant: a `Query` that comes back type-checks; every node knows its type. Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Aggregate, ColumnRef, Expression, Node, Query, Scan, walk
from weir.algebra.schema import BIGINT, INTERVAL, TIMESTAMP, Catalog, Column, DataType, Kind, Table
from weir.errors import did_you_mean
from weir.sql import types
from weir.sql.expressions import Expressions
from weir.sql.parse import Parsed
from weir.sql.position import refuse
from weir.sql.refusals import REFUSED_CLAUSES
from weir.sql.scope import NameFaultError, Scope, Source
from weir.sql.windows import Edge, WindowClause

_FRAME_LEVELS = 20  # more than there are between a statement and its expressions, and inside a column
_SELECT_PARTS = frozenset({"expressions", "from_", "joins", "where", "group", "having", "distinct"})


def lower(parsed: Parsed, catalog: Catalog, param_types: Mapping[str, DataType] | None = None) -> Query:
    """The typed query; everything that does not fit the schemas or the language is a RegisterError."""
    return _Lowering(parsed, catalog, param_types or {}).query()


class _Lowering:
    def __init__(self, parsed: Parsed, catalog: Catalog, param_types: Mapping[str, DataType]) -> None:
        self.parsed = parsed
        self.catalog = catalog
        self.sources: list[Scan] = []
        starts = dict(zip(parsed.params, parsed.param_starts, strict=True))
        self.expressions = Expressions(parsed.text, starts, param_types, parsed.depth_max)
        self.fail = self.expressions.fail

    def query(self) -> Query:
        self._check_depth()
        root, output = self._statement(self.parsed.ast, 0)
        return Query(root, tuple(self.sources), output, self.parsed.text)

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

    def _statement(self, node: exp.Expr, level: int) -> tuple[Node, tuple[Column, ...]]:
        while isinstance(node, (exp.Subquery, exp.Paren)):
            self._only(node, {"this"})
            node = node.this
        if level > self.parsed.depth_max:
            raise self.fail(
                f"set operations nest more than {self.parsed.depth_max} levels deep", node, "split the query"
            )
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, level)
        raise self.fail(
            f"{type(node).__name__.upper()} is not part of the language",
            node,
            "a standing query is one SELECT, or several joined by UNION, EXCEPT or INTERSECT",
        )

    def _set_operation(self, node: exp.SetOperation, level: int) -> tuple[Node, tuple[Column, ...]]:
        self._only(node, {"this", "expression", "distinct"})
        kind = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}[type(node)]
        left, left_output = self._statement(node.this, level + 1)
        right, right_output = self._statement(node.expression, level + 1)
        if len(left_output) != len(right_output):
            raise self.fail(
                f"{kind.upper()} takes queries with equally many columns, "
                f"got {len(left_output)} and {len(right_output)}",
                node.expression,
            )
        output: list[Column] = []
        for i, (a, b) in enumerate(zip(left_output, right_output, strict=True)):
            type_ = types.united(a.type, b.type)
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
        return nodes.SetOperation(kind, all_, _cast_output(left, wanted), _cast_output(right, wanted)), tuple(output)

    def _only(self, node: exp.Expr, allowed: frozenset[str] | set[str]) -> None:
        """Refuse every clause of a node that is not on the list."""
        for name, value in node.args.items():
            if value is None or value is False or value == [] or name in allowed:
                continue
            what, hint = REFUSED_CLAUSES.get(name, (name.strip("_").replace("_", " ").upper(), "see docs/language.md"))
            at = value if isinstance(value, exp.Expr) else value[0] if isinstance(value, list) else node
            raise self.fail(f"{what} is not part of the language", at if isinstance(at, exp.Expr) else node, hint)

    # SELECT.

    def _select(self, node: exp.Select) -> tuple[Node, tuple[Column, ...]]:
        self._only(node, _SELECT_PARTS)
        scope = Scope()
        self.expressions.scope = scope
        self.expressions.aliases = {}
        conditions = self._from(node, scope)
        where = node.args.get("where")
        if where is not None:
            condition = self.expressions.condition(where.this, "WHERE")
            self._no_aggregate(condition, where, "WHERE", "use HAVING for conditions on groups")
            conditions.append(condition)
        predicate = nodes.conjunction(conditions) if conditions else None
        scans = tuple(s.scan for s in scope.sources)
        child: Node
        if len(scans) > 1:
            child = nodes.Join(scans, predicate)
        else:
            child = scans[0] if predicate is None else nodes.Select(scans[0], predicate)
        columns = self._select_list(node, scope)
        root = self._grouped(node, child, columns)
        distinct = node.args.get("distinct")
        if distinct is not None:
            self._only(distinct, set())
            root = nodes.Distinct(root)
        return root, tuple(Column(name, e.type) for name, e in columns)

    def _from(self, node: exp.Select, scope: Scope) -> list[Expression]:
        """Fill the scope with the sources of FROM; the conditions of ON and USING."""
        from_ = node.args.get("from_")
        if from_ is None:
            raise self.fail("a standing query reads at least one stream", node, "add FROM")
        conditions: list[Expression] = []
        self._source(from_.this, scope)
        joins: list[exp.Join] = [*(from_.this.args.get("joins") or []), *(node.args.get("joins") or [])]
        for join in joins:
            kind = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).strip().upper()
            if kind not in ("", "INNER", "CROSS"):
                hint = "use JOIN … USING" if kind == "NATURAL" else "only inner joins are"
                raise self.fail(f"{kind} JOIN is not part of the language", join.this, hint)
            self._only(join, {"this", "on", "using", "kind", "method", "side"})
            self._source(join.this, scope)
            for inner in join.this.args.get("joins") or []:
                raise self.fail(
                    "a nested join is not part of the language", inner, "write ON directly behind each JOIN"
                )
            on, using = join.args.get("on"), join.args.get("using")
            if on is not None and not (isinstance(on, exp.Boolean) and on.this is True and not on.meta):
                condition = self.expressions.condition(on, "ON")
                self._no_aggregate(condition, on, "ON", "use HAVING for conditions on groups")
                conditions.append(condition)
            conditions.extend(self._using(name, scope) for name in using or [])
        return conditions

    def _source(self, node: exp.Expr, scope: Scope) -> None:
        if not isinstance(node, exp.Table):
            what = "a subquery" if isinstance(node, (exp.Subquery, exp.Select)) else type(node).__name__.upper()
            raise self.fail(f"{what} in FROM is not part of the language", node, "name streams and tables only")
        self._only(node, {"this", "alias", "joins"})
        if not isinstance(node.this, exp.Identifier):
            raise self.fail("a function in FROM is not part of the language", node, "name streams and tables only")
        alias = node.args.get("alias")
        if alias is not None:
            self._only(alias, {"this"})
        relation = self.catalog.relation(node.name)
        if relation is None:
            known = [s.name for s in self.catalog.streams.values()] + [t.name for t in self.catalog.tables.values()]
            shown = ", ".join(known[:40]) or "none are defined yet"
            raise self.fail(
                f"there is no stream or table '{node.name}' ({shown})", node, did_you_mean(node.name, known)
            )
        name = node.alias or relation.name
        if any(s.scan.alias.lower() == name.lower() for s in scope.sources):
            raise self.fail(f"two sources are called '{name}'", node, f"give one an alias: {relation.name} AS other")
        is_table = isinstance(relation, Table)
        own = self.parsed.window_of(node)
        if is_table and own is not None:
            raise refuse(self.parsed.text, f"'{relation.name}' is a table and has no window", own.start, "leave it out")
        clause = None if is_table else own or self.parsed.window
        scan = Scan(len(self.sources), relation.name, is_table, name, self._window(clause))
        self.sources.append(scan)
        scope.sources.append(Source(scan, relation))

    def _using(self, name: exp.Identifier, scope: Scope) -> Expression:
        column = name.name
        right = scope.sources[-1]
        found = right.relation.column(column)
        before = Scope(scope.sources[:-1], scope.merged)
        try:
            left = before.resolve(column)
            if found is None:
                right_only = Scope([right])
                right_only.resolve(column)
                raise AssertionError("a column that is not found cannot resolve")
            a, b = types.align(left, right.ref(found))
        except (NameFaultError, types.MismatchError) as e:
            raise self.fail(f"USING ({column}): {e}", name, e.hint) from None
        scope.merged.setdefault(column.lower(), [left.source]).append(right.scan.source)
        return nodes.Comparison("=", a, b)

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
                listed += [(c.name, c, False) for c in self._starred(item, scope)]
                continue
            if isinstance(item, exp.Aliases):
                raise self.fail("several aliases for one expression", item, "give each expression one alias")
            inner = item.this if isinstance(item, exp.Alias) else item
            e = self.expressions.value(inner)
            if e.type.kind is Kind.INTERVAL:
                raise self.fail(
                    "an interval cannot be a column of the answer", inner, "return both times and subtract them later"
                )
            alias = item.alias if isinstance(item, exp.Alias) else ""
            if alias and any(chosen and alias.lower() == name.lower() for name, _, chosen in listed):
                raise self.fail(f"two columns of the answer are called '{alias}'", item.args["alias"], "rename one")
            listed.append((alias or _default_name(e, len(listed)), e, bool(alias)))
        return _unique(listed)

    def _starred(self, item: exp.Expr, scope: Scope) -> list[ColumnRef]:
        star = item if isinstance(item, exp.Star) else item.this
        self._only(star, set())
        if isinstance(item, exp.Star):
            return scope.star()
        try:
            source = scope.source(item.args["table"].name)
        except NameFaultError as e:
            raise self.fail(str(e), item, e.hint) from None
        return [source.ref(c) for c in source.relation.columns]

    # Groups.

    def _grouped(self, node: exp.Select, child: Node, columns: Sequence[tuple[str, Expression]]) -> Node:
        group, having = node.args.get("group"), node.args.get("having")
        has_aggregate = any(isinstance(p, Aggregate) for _, e in columns for p in walk(e))
        if group is None and not has_aggregate and having is None:
            return nodes.Project(child, tuple(columns))
        keys = self._keys(group, node, columns) if group is not None else ()
        condition: Expression | None = None
        if having is not None:
            self.expressions.aliases = {name.lower(): e for name, e in columns}
            condition = self.expressions.condition(having.this, "HAVING")
            self.expressions.aliases = {}
            in_having = any(isinstance(p, Aggregate) for p in walk(condition))
            if group is None and not has_aggregate and not in_having:
                raise self.fail("HAVING needs GROUP BY or an aggregate", having, "use WHERE for conditions on rows")
            self._check_grouped(condition, keys, having)
        for (_, e), item in zip(columns, _items(node, columns), strict=True):
            self._check_grouped(e, keys, item)
        return nodes.GroupBy(child, keys, tuple(columns), condition)

    def _keys(
        self, group: exp.Expr, node: exp.Select, columns: Sequence[tuple[str, Expression]]
    ) -> tuple[Expression, ...]:
        self._only(group, {"expressions"})
        self.expressions.aliases = {name.lower(): e for name, e in columns}
        keys: list[Expression] = []
        for item in group.expressions:
            if isinstance(item, exp.Literal) and not item.is_string:
                if not (item.this.isascii() and item.this.isdigit()) or not 1 <= int(item.this[:9]) <= len(columns):
                    raise self.fail(
                        f"GROUP BY {item.this[:20]} points at no column of the answer (1 to {len(columns)})", item
                    )
                key = columns[int(item.this) - 1][1]
            else:
                key = self.expressions.value(item)
            if any(isinstance(p, Aggregate) for p in walk(key)):
                raise self.fail("GROUP BY cannot hold an aggregate", item, "use HAVING for conditions on groups")
            if key.type.kind is Kind.INTERVAL:
                raise self.fail("GROUP BY does not take an interval", item)
            if key not in keys:
                keys.append(key)
        self.expressions.aliases = {}
        return tuple(keys)

    def _check_grouped(self, e: Expression, keys: tuple[Expression, ...], at: exp.Expr) -> None:
        stack = [e]
        while stack:
            part = stack.pop()
            if part in keys or isinstance(part, Aggregate):
                continue
            if isinstance(part, ColumnRef):
                raise self.fail(
                    f"column '{part.name}' is neither in GROUP BY nor in an aggregate",
                    _column_in(at, part.name),
                    f"add it to GROUP BY, or write max({part.name})",
                )
            stack.extend(reversed(nodes.children(part)))

    def _no_aggregate(self, e: Expression, at: exp.Expr, clause: str, hint: str) -> None:
        found = next((p for p in walk(e) if isinstance(p, Aggregate)), None)
        if found is not None:
            node = next(at.find_all(exp.AggFunc), at)
            raise self.fail(f"{found.function}() cannot be used in {clause}", node, hint)


def _bound(edge: Edge | None) -> nodes.Bound | None:
    if edge is None:
        return None
    type_ = INTERVAL if edge.relative else TIMESTAMP
    if edge.param is not None:
        return nodes.Bound(edge.relative, nodes.Param(edge.param, type_, edge.unit_us))
    return nodes.Bound(edge.relative, nodes.Literal(edge.offset_us, type_))


def _default_name(e: Expression, place: int) -> str:
    """The name of a column without an alias; it may not depend on constants, or shapes would."""
    if isinstance(e, ColumnRef):
        return e.name
    if isinstance(e, Aggregate):
        if e.arg is None:
            return "count(*)"
        if isinstance(e.arg, ColumnRef):
            return f"{e.function}({'DISTINCT ' if e.distinct else ''}{e.arg.name})"
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


def _conversion(a: Column, b: Column) -> str:
    """How two columns of a set operation could be brought together."""
    if not (a.type.is_numeric and b.type.is_numeric):
        return "list columns of the same types in the same order"
    narrow = b if a.type.kind is Kind.DOUBLE else a
    return f"convert explicitly: CAST({narrow.name} AS double)"


def _cast_output(node: Node, wanted: list[DataType]) -> Node:
    """The same rows with columns in the wanted types (all such casts are one-to-one, so they may go below)."""
    if isinstance(node, (nodes.Project, nodes.GroupBy)):
        columns = tuple(
            (name, e if e.type == t else nodes.Cast(e, t)) for (name, e), t in zip(node.columns, wanted, strict=True)
        )
        return node if columns == node.columns else replace(node, columns=columns)
    if isinstance(node, nodes.Distinct):
        return replace(node, child=_cast_output(node.child, wanted))
    assert isinstance(node, nodes.SetOperation), "an answer is made by Project, GroupBy, Distinct or a set operation"
    return replace(node, left=_cast_output(node.left, wanted), right=_cast_output(node.right, wanted))
