"""A query, taken apart into cores and the finish over them.

A block (SELECT … FROM … WHERE … GROUP BY …) becomes, from inside out: the rows of FROM and WHERE
(`weir.plan.from_rows`), subqueries as columns beside them, groups, HAVING, window functions, the columns of the select
list. Sources that are streams and connected are one core; what needs only them goes into the core's projection.

A subquery that depends on the rows around it is evaluated for all of them at once: the outer rows are numbered, joined
with the inner ones by the conditions that hold columns of both, and grouped by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir.algebra.nodes import (
    SESSION_EDGES,
    Aggregate,
    Arithmetic,
    Call,
    ColumnRef,
    Comparison,
    Derived,
    Direction,
    Distinct,
    Expression,
    GroupBy,
    IsNull,
    Literal,
    Node,
    Ordered,
    OuterJoin,
    Project,
    SetOperation,
    Subquery,
    WindowCall,
    children,
    conjunction,
    disjunction,
    walk,
    with_children,
)
from weir.algebra.rebuild import inputs, map_expressions, rebuild, sources_in, subqueries
from weir.algebra.schema import BIGINT, BOOLEAN, INT, Column, DataType
from weir.plan.finishes import (
    OWN,
    Attached,
    Compared,
    Extended,
    Finish,
    Grouped,
    Kept,
    Numbered,
    Once,
    Paired,
    Sorted,
    Together,
    Windowed,
    qualified,
    spelt,
)
from weir.plan.from_rows import FromRows, NoFinishError, outer_refs, output, refs_of, sources_of

_Replaced = Mapping[Expression, Expression]


class Apart(FromRows):
    """Takes one query apart; cores are collected in the order in which they are met."""

    # Whole answers.

    def answer(self, node: Node) -> Finish:
        """Columns are called and ordered as the query has them."""
        if isinstance(node, Distinct):
            return Once(self.answer(node.child))
        if isinstance(node, SetOperation):
            return self._set_operation(node)
        if isinstance(node, Ordered):
            return self._sorted(node)
        assert isinstance(node, (Project, GroupBy)), "an answer is made by these"
        return self._block(node)

    def _set_operation(self, node: SetOperation) -> Finish:
        left, right = self.answer(node.left), self.answer(node.right)
        if node.kind != "union":
            return Compared(node.kind, node.all, left, right)
        inputs: tuple[Finish, ...] = ()
        for below in (left, right):
            inputs += below.inputs if isinstance(below, Together) else (below,)
        return Together(inputs) if node.all else Once(Together(inputs))

    def _sorted(self, node: Ordered) -> Finish:
        names = output(node.child)
        keys = tuple((names[place], direction) for place, direction in node.keys)
        return Sorted(self.answer(node.child), keys, node.limit, node.offset, names[: len(names) - node.hidden])

    def _block(self, node: Project | GroupBy) -> Finish:
        wanted = [e for _, e in node.columns]
        if isinstance(node, GroupBy):
            wanted += [*node.keys, *([] if node.having is None else [node.having])]
        rows = self.rows(node.child, [], wanted)
        return self._projected(node, rows, (), None)

    def _projected(self, node: Project | GroupBy, rows: Finish, carried: tuple[str, ...], there: str | None) -> Finish:
        """The columns of a block over the rows of its FROM, and behind them columns of the rows that are handed on."""
        columns = dict(node.columns)
        if isinstance(node, GroupBy):
            rows, columns = self._grouped(node, rows, carried, there)
        rows, columns = self._with_subqueries(rows, columns)
        rows, columns = self._with_windows(rows, columns, carried)
        return self.computed(rows, [*columns.items(), *((name, _own(name)) for name in carried)])

    # Columns.

    def _with_subqueries(self, rows: Finish, columns: Mapping[str, Expression]) -> tuple[Finish, dict[str, Expression]]:
        found: dict[str, Expression] = {}
        for name, e in columns.items():
            rows, found[name] = self.attached(rows, e)
        return rows, found

    def attached(self, rows: Finish, e: Expression) -> tuple[Finish, Expression]:
        """The rows with a column for each subquery of an expression, and the expression over these columns."""
        replaced: dict[Expression, Expression] = {}
        for inner in subqueries(e):
            if inner not in replaced:
                rows, replaced[inner] = self._attached(rows, inner)
        return rows, _put(e, replaced)

    def _with_windows(
        self, rows: Finish, columns: Mapping[str, Expression], carried: tuple[str, ...]
    ) -> tuple[Finish, dict[str, Expression]]:
        """The rows with a column for each window function; a subquery's are apart for each row around it."""
        calls = list(dict.fromkeys(p for e in columns.values() for p in walk(e) if isinstance(p, WindowCall)))
        if not calls:
            return rows, dict(columns)
        operands: dict[Expression, str] = {}

        def named(parts: Sequence[Expression]) -> tuple[Expression, ...]:
            return tuple(_own(operands.setdefault(e, self.name("v")), e) for e in parts)

        windows: list[tuple[str, WindowCall]] = []
        replaced: dict[Expression, Expression] = {}
        for call in calls:
            name = self.name("w")
            apart = (*named(call.partition), *(_own(c) for c in carried))
            windows.append((name, replace(call, args=named(call.args), partition=apart, order=named(call.order))))
            replaced[call] = _own(name, call)
        after = {name: _put_outermost(e, replaced) for name, e in columns.items()}
        made = {name for name, _ in windows}
        read = {
            spelt(part.source, part.name): part
            for e in after.values()
            for part in walk(e)
            if isinstance(part, ColumnRef) and part.name not in made
        }
        values = [(name, e) for e, name in operands.items()]
        below = self.computed(rows, [*read.items(), *values, *((name, _own(name)) for name in carried)])
        return Windowed(below, tuple(windows)), {name: qualified(e) for name, e in after.items()}

    # Groups.

    def _grouped(
        self, node: GroupBy, rows: Finish, carried: tuple[str, ...], there: str | None
    ) -> tuple[Finish, dict[str, Expression]]:
        """Groups that HAVING keeps, and the columns over them.

        With `carried` rows are grouped by these columns too; a row counts only where the column `there` is true.
        """
        parts = [e for _, e in node.columns] + ([] if node.having is None else [node.having])
        rows, replaced = self._before_groups(node, rows, parts)
        own = {source.source for source in sources_in(node.child)}
        around = [ref for ref in refs_of(parts) if ref.source not in own]  # of the row around, so one value a group
        keys: dict[Expression, str] = {}  # what stood in a query in FROM may have made two keys one
        for key in (*node.keys, *around):
            keys.setdefault(_put(key, replaced), self.name("k"))
        aggregates: dict[Expression, str] = {}
        for e in parts:
            for part in walk(e):
                if isinstance(part, Aggregate):
                    aggregates.setdefault(part, self.name("g"))
        values: dict[Expression, str] = {}
        computed = [(name, self._over_values(_put(a, replaced), values, there)) for a, name in aggregates.items()]
        edges = {name: self._session_edge(e, keys, carried, values) for e, name in keys.items() if _is_session(e)}
        columns = [(name, e) for e, name in keys.items() if name not in edges]
        columns += [(name, e) for e, name in values.items()]
        below = self.computed(rows, [*columns, *((name, _own(name)) for name in carried)])
        if edges:
            below = Windowed(below, tuple(edges.items()))
        grouped: Finish = Grouped(below, (*keys.values(), *carried), tuple(computed))
        known: dict[Expression, Expression] = {a: _own(name, a) for a, name in aggregates.items()}
        known |= {key: _own(keys[_put(key, replaced)], key) for key in (*node.keys, *around)}
        if node.having is not None:
            grouped, having = self.attached(grouped, _put_outermost(node.having, known))
            grouped = Kept(grouped, qualified(having))
        return grouped, {name: _put_outermost(e, known) for name, e in node.columns}

    def _session_edge(
        self, e: Expression, keys: Mapping[Expression, str], carried: tuple[str, ...], values: dict[Expression, str]
    ) -> WindowCall:
        """A session is among the rows that agree in all other keys."""
        assert isinstance(e, WindowCall)
        time = _own(values.setdefault(e.args[0], self.name("v")), e.args[0])
        others = (_own(name, key) for key, name in keys.items() if not _is_session(key))
        apart = (*others, *(_own(name) for name in carried))
        return replace(e, args=(time,), partition=apart, order=(time,), directions=(Direction(False, True),))

    def _before_groups(
        self, node: GroupBy, rows: Finish, parts: Sequence[Expression]
    ) -> tuple[Finish, dict[Expression, Expression]]:
        """Subqueries inside keys and inside aggregates are columns of the rows."""
        replaced: dict[Expression, Expression] = {}
        held = [*node.keys, *(a for e in parts for a in walk(e) if isinstance(a, Aggregate))]
        for inner in dict.fromkeys(s for e in held for s in subqueries(e)):
            rows, replaced[inner] = self._attached(rows, inner)
        return rows, replaced

    def _over_values(self, e: Expression, values: dict[Expression, str], there: str | None) -> Aggregate:
        """An aggregate whose operands are columns."""
        assert isinstance(e, Aggregate)
        condition = e.filter
        if there is not None:
            flag = ColumnRef(OWN, there, BOOLEAN)
            condition = flag if condition is None else conjunction([flag, condition])

        def named(part: Expression) -> Expression:
            return _own(values.setdefault(part, self.name("v")), part)

        return replace(
            e,
            args=tuple(named(a) for a in e.args),
            order=tuple(named(o) for o in e.order),
            filter=None if condition is None else named(condition),
        )

    # Subqueries.

    def _attached(self, rows: Finish, inner: Subquery) -> tuple[Finish, Expression]:
        """The rows with one more column: what the subquery is for each of them."""
        name = self.name("q")
        arg = self.name("x")
        if inner.arg is not None:
            rows, given = self.attached(rows, inner.arg)
            rows = Extended(rows, arg, qualified(given))
        if outer_refs(inner.query):
            rows, found, number, value = self._correlated(rows, inner)
        else:
            found, number, value = self.answer(inner.query), None, output(inner.query)[0]
        test = None
        if inner.arg is not None:
            column = ColumnRef(OWN, value, _type_of(inner.query))
            test = Comparison("=", ColumnRef(OWN, arg, inner.arg.type), column)
        attached = Attached(rows, found, inner.kind, name, number, value, test, Column(name, inner.type))
        return attached, ColumnRef(OWN, name, inner.type)

    def _correlated(self, rows: Finish, inner: Subquery) -> tuple[Finish, Finish, str, str]:
        """The outer rows, numbered; the inner ones for each of them; the columns with the number and the value."""
        node, distinct, cut = inner.query, False, None
        while isinstance(node, (Distinct, Ordered)):
            if isinstance(node, Ordered) and (node.limit is not None or node.offset is not None):
                if distinct or cut is not None:
                    raise NoFinishError("LIMIT below another part of a subquery that looks at the query around it")
                cut = node
            distinct |= isinstance(node, Distinct)
            node = node.child
        if distinct and cut is not None:
            raise NoFinishError("DISTINCT with LIMIT in a subquery that looks at the query around it")
        if not isinstance(node, (Project, GroupBy)):
            raise NoFinishError("a set operation in a subquery that looks at the query around it")
        number = self.name("n")
        outer = Numbered(rows, number)
        sources, conditions = self.flat(node.child)
        own = {source.source for source in sources_in(node.child)}
        for source in sources:
            if isinstance(source, (Derived, OuterJoin)) and outer_refs(source):
                raise NoFinishError("a subquery in FROM, or ON of an outer join, that looks at the query around it")
        looking = [c for c in conditions if not sources_of(c) <= own]
        if any(next(subqueries(c), None) is not None for c in looking):
            raise NoFinishError("a subquery inside a condition that looks at the query around it")
        wanted = [e for _, e in node.columns]
        if isinstance(node, GroupBy):
            wanted += [*node.keys, *([] if node.having is None else [node.having])]
        inside = [c for c in conditions if c not in looking]
        found = self.rows_of(sources, inside, [ref for ref in refs_of([*wanted, *looking]) if ref.source in own])
        condition = conjunction([qualified(c) for c in looking]) if looking else None
        there = None
        if isinstance(node, GroupBy) and not node.keys:
            # Without keys there is a group for every outer row, also for one without inner rows.
            there = self.name("t")
            found = Extended(found, there, Literal(True, BOOLEAN))
        kind = "inner" if there is None else "left"
        result = self._projected(node, Paired(kind, outer, found, condition), (number,), there)
        if distinct and inner.kind == "scalar":
            result = Once(result)
        if cut is not None:
            result = self._cut(
                cut, result, number, dict(zip(output(node), [e.type for _, e in node.columns], strict=True))
            )
        return outer, result, number, output(node)[0]

    def _cut(self, node: Ordered, rows: Finish, number: str, columns: Mapping[str, DataType]) -> Finish:
        """LIMIT and OFFSET for each row of the query around."""
        names = list(columns)
        order = tuple(ColumnRef(OWN, names[place], columns[names[place]]) for place, _ in node.keys)
        directions = tuple(direction for _, direction in node.keys)
        place = self.name("r")
        call = WindowCall("row_number", (), (_own(number),), order, directions, None, INT)
        nth = ColumnRef(OWN, place, INT)
        # A parameter may be NULL, and then says nothing.
        none = Literal(0, BIGINT)
        after: Expression = none if node.offset is None else Call("coalesce", (node.offset, none), BIGINT)
        conditions: list[Expression] = [] if node.offset is None else [Comparison(">", nth, after)]
        if node.limit is not None:
            within = Comparison("<=", nth, Arithmetic("+", node.limit, after, BIGINT))
            conditions.append(disjunction([IsNull(node.limit), within]))
        return Kept(Windowed(rows, ((place, call),)), conjunction(conditions))


def _is_session(e: Expression) -> bool:
    """Whether it is an edge of a session."""
    return isinstance(e, WindowCall) and e.function in SESSION_EDGES


def _own(name: str, e: Expression | None = None) -> ColumnRef:
    return ColumnRef(OWN, name, BIGINT if e is None else e.type)


def _put(e: Expression, replaced: _Replaced) -> Expression:
    """The expression with parts replaced, innermost first."""
    return rebuild(e, lambda part: replaced.get(part, part)) if replaced else e


def _put_outermost(e: Expression, replaced: _Replaced) -> Expression:
    """The same, outermost first: a key may hold another one.

    Inside a subquery stand aggregates and constants of its own: there only what is made of columns is meant.
    """
    if e in replaced:
        return replaced[e]
    if isinstance(e, Subquery):
        outer: _Replaced = {
            key: value for key, value in replaced.items() if not isinstance(key, Aggregate) and refs_of([key])
        }
        e = replace(e, query=map_expressions(e.query, lambda inner: _put_outermost(inner, outer)))
    parts = children(e)
    return with_children(e, tuple(_put_outermost(part, replaced) for part in parts)) if parts else e


def _type_of(node: Node) -> DataType:
    """The type of an answer's first column."""
    while not isinstance(node, (Project, GroupBy)):
        node = inputs(node)[0]
    return node.columns[0][1].type
