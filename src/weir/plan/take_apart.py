"""A query, taken apart into cores and the finish over them.

A block (SELECT … FROM … WHERE … GROUP BY …) becomes, from inside out: the rows of FROM and WHERE
(`weir.plan.from_rows`), subqueries as columns beside them, groups, HAVING, window functions, the columns of the select
list. Sources that are streams and connected are one core; what needs only them goes into the core's projection.

A query that depends on rows around it (a subquery, or a lateral one in FROM) is evaluated for all of them at once: the
outer rows are numbered, joined with the inner ones by the conditions that hold columns of both, and grouped by number.
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
    Computed,
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
        return _of_both(node, self.answer(node.left), self.answer(node.right))

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
        args: list[ColumnRef] = []
        for arg in inner.args:
            rows, given = self.attached(rows, arg)
            args.append(ColumnRef(OWN, self.name("x"), arg.type))
            rows = Extended(rows, args[-1].name, qualified(given))
        values = output(inner.query)
        number: str | None = None
        if outer_refs(inner.query):
            rows = Numbered(rows, self.name("n"))
            found, number = self.dependent(inner.query, rows), rows.name
        else:
            found = self.answer(inner.query)
        columns = [ColumnRef(OWN, v, t) for v, t in zip(values, _types_of(inner.query), strict=True)]
        tests = tuple(Comparison("=", a, v) for a, v in zip(args, columns, strict=False))
        attached = Attached(rows, found, inner.kind, name, number, values[0], tests, Column(name, inner.type))
        return attached, ColumnRef(OWN, name, inner.type)

    def dependent(self, node: Node, outer: Numbered) -> Finish:
        number = outer.name
        shown = dict(zip(output(node), _types_of(node), strict=True))
        columns = [*((name, ColumnRef(OWN, name, type_)) for name, type_ in shown.items()), (number, _own(number))]
        if not outer_refs(node):  # the same for every row
            numbers = Computed(outer, ((number, _own(number)),))
            return Computed(Paired("inner", numbers, self.answer(node), None), tuple(columns))
        if isinstance(node, Distinct):
            return Once(self.dependent(node.child, outer))
        if isinstance(node, SetOperation):
            return _of_both(node, self.dependent(node.left, outer), self.dependent(node.right, outer))
        if isinstance(node, Ordered):
            rows = self.dependent(node.child, outer)
            if node.limit is not None or node.offset is not None:
                all_columns = dict(zip(output(node.child), _types_of(node.child), strict=True))
                rows = self._cut(node, rows, number, all_columns)
            return Computed(rows, tuple(columns))
        assert isinstance(node, (Project, GroupBy)), "an answer is made by these"
        return self._block_for(node, outer)

    def _block_for(self, node: Project | GroupBy, outer: Numbered) -> Finish:
        """A block for each row of `outer`."""
        sources, conditions = self.flat(node.child)
        tied = [source for source in sources if outer_refs(source)]
        free = [source for source in sources if source not in tied]
        own = {source.source for part in free for source in sources_in(part)}
        wanted = [e for _, e in node.columns]
        if isinstance(node, GroupBy):
            wanted += [*node.keys, *([] if node.having is None else [node.having])]
        inside = [c for c in conditions if free and sources_of(c) <= own]
        looking = [c for c in conditions if c not in inside]
        seen = [*refs_of([*wanted, *looking]), *(ref for part in tied for ref in outer_refs(part))]
        found = self.rows_of(free, inside, [ref for ref in dict.fromkeys(seen) if ref.source in own]) if free else None
        is_whole = isinstance(node, GroupBy) and not node.keys
        # Without keys there is a group for every outer row, also for one without inner rows.
        there = self.name("t") if is_whole else None
        if found is not None and not tied and not any(next(subqueries(c), None) for c in looking):
            condition = conjunction([qualified(c) for c in looking]) if looking else None
            found = found if there is None else Extended(found, there, Literal(True, BOOLEAN))
            rows: Finish = Paired("inner" if there is None else "left", outer, found, condition)
        else:
            rows = self._beside_tied(outer, found, own, tied, looking, wanted)
            if there is not None:
                again = self.name("n")
                numbers = {source.source for source in sources_in(node.child)}
                kept: list[tuple[str, Expression]] = [(there, Literal(True, BOOLEAN)), (again, _own(outer.name))]
                kept += [(spelt(ref.source, ref.name), ref) for ref in refs_of(wanted) if ref.source in numbers]
                inner = self.computed(rows, kept)
                same = Comparison("=", _own(outer.name), _own(again))
                rows = Paired("left", outer, inner, same)
        return self._projected(node, rows, (outer.name,), there)

    def _beside_tied(
        self,
        outer: Finish,
        found: Finish | None,
        own: set[int],
        tied: Sequence[Node],
        conditions: Sequence[Expression],
        wanted: Sequence[Expression],
    ) -> Finish:
        """The outer rows with the rows `found`, and with sources that look at them or at the outer rows."""
        rows = outer
        first = [part for part in tied if isinstance(part, Derived) and not own & _looked_at(part)]
        for one in first:
            rows = self.beside(rows, one)
        last = [part for part in tied if part not in first]
        of_last = {source.source for part in last for source in sources_in(part)}
        early = [c for c in conditions if next(subqueries(c), None) is None and not sources_of(c) & of_last]
        late = [c for c in conditions if c not in early]
        if found is not None:
            rows = Paired("inner", rows, found, conjunction([qualified(c) for c in early]) if early else None)
        else:
            late = [*early, *late]
        for part in last:
            if isinstance(part, Derived):
                rows = self.beside(rows, part)
            else:
                assert isinstance(part, OuterJoin), "only these look at the query around them"
                rows, late = self._outer_beside(rows, part, late, [*wanted, *late])
        for condition in late:
            rows, decided = self.attached(rows, condition)
            rows = Kept(rows, qualified(decided))
        return rows

    def _outer_beside(
        self, rows: Finish, node: OuterJoin, conditions: Sequence[Expression], wanted: Sequence[Expression]
    ) -> tuple[Finish, list[Expression]]:
        """The rows joined with an outer join that looks at them; the conditions that are left."""
        if node.kind not in ("left", "semi", "anti"):
            raise NoFinishError(f"a {node.kind.upper()} JOIN that looks at the query around it")
        right = {source.source for source in sources_in(node.right)}
        # What is not about the right side decides about rows of the left side.
        of_left = [c for c in conditions if next(subqueries(c), None) is None and not sources_of(c) & right]
        on = [] if node.predicate is None else [node.predicate]
        refs = refs_of([*wanted, *on])
        if isinstance(node.left, Derived) and outer_refs(node.left):
            rows = self.beside(rows, node.left)
            for c in of_left:
                rows = Kept(rows, qualified(c))
        elif outer_refs(node.left):
            if not isinstance(node.left, OuterJoin):
                raise NoFinishError("a join below an outer join that looks at the query around it")
            rows, of_left = self._outer_beside(rows, node.left, of_left, [*wanted, *on])
            for c in of_left:
                rows = Kept(rows, qualified(c))
        else:
            left = self.rows(node.left, [], refs)
            rows = Paired("inner", rows, left, conjunction([qualified(c) for c in of_left]) if of_left else None)
        condition = qualified(conjunction(on)) if on else None
        if isinstance(node.right, Derived) and outer_refs(node.right):
            if node.kind != "left":
                raise NoFinishError(f"a {node.kind.upper()} JOIN with a query that looks at the query around it")
            rows = self.beside(rows, node.right, node.kind, conjunction(on) if on else None)
        elif outer_refs(node.right):
            raise NoFinishError("a join below an outer join that looks at the query around it")
        else:
            rows = Paired(node.kind, rows, self.rows(node.right, [], refs), condition)
        return rows, [c for c in conditions if c not in of_left]

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


def _of_both(node: SetOperation, left: Finish, right: Finish) -> Finish:
    if node.kind != "union":
        return Compared(node.kind, node.all, left, right)
    inputs: tuple[Finish, ...] = ()
    for below in (left, right):
        inputs += below.inputs if isinstance(below, Together) else (below,)
    return Together(inputs) if node.all else Once(Together(inputs))


def _looked_at(node: Node) -> set[int]:
    return {ref.source for ref in outer_refs(node)}


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


def _types_of(node: Node) -> list[DataType]:
    """The types of an answer's columns, those that are shown."""
    shown = len(output(node))
    while not isinstance(node, (Project, GroupBy)):
        node = inputs(node)[0]
    return [e.type for _, e in node.columns[:shown]]
