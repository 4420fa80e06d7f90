"""The rows of a FROM for which its conditions are true: cores over streams, and a finish that joins the rest with them.

Streams that conditions connect are one core, with every condition over them, and its families find the rows as they
come. So are tables that an equality connects with them: a core reads a table's changes, and whoever shows its results
looks at their lifetimes. Queries in FROM, other tables and outer joins are joined with the cores' results when an
answer is asked for; conditions go down to the input that they are about. A table that is not retroactive is joined
last: its version is the one that is valid at the time of the newest stream row beside it.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from weir.algebra.nodes import (
    NOW,
    And,
    Call,
    ColumnRef,
    Comparison,
    Derived,
    Distinct,
    Expression,
    GroupBy,
    Join,
    Literal,
    Node,
    Ordered,
    OuterJoin,
    Project,
    Query,
    Scan,
    Select,
    SetOperation,
    Subquery,
    conjunction,
    walk,
)
from weir.algebra.nodes import OneRow as NoFrom
from weir.algebra.rebuild import columns_inside, map_expressions, rebuild, rebuild_node, scans, sources_in, subqueries
from weir.algebra.schema import BIGINT, BOOLEAN, CHANGES, INTERVAL, TIMESTAMP, Column, Kind
from weir.boxes.attributes import params_of
from weir.families.joins.join_keys import has_keys
from weir.families.many.many_family import SOURCES_MAX
from weir.plan.finishes import (
    OWN,
    Computed,
    CoreRows,
    Finish,
    Kept,
    Numbered,
    OneRow,
    Paired,
    Versions,
    qualified,
    spelt,
)

NO_TIME = Literal(0, INTERVAL)
LIFETIME = ("valid from", "valid to")  # columns of a table's versions: no column of a user has a blank


class NoFinishError(Exception):
    """A query has a part that no finish can do; the text says why."""


def now_in(e: object) -> bool:
    """Whether an expression depends on τ."""
    return any(part == NOW for part in walk(e))  # type: ignore[arg-type]  # an Expression


def is_plain_from(node: Node) -> bool:
    """Whether there are only streams below, joined by inner joins, with conditions that a core can have."""
    if isinstance(node, Select):
        return is_plain_from(node.child) and is_core_condition(node.predicate)
    if isinstance(node, Join):
        own = node.predicate is None or is_core_condition(node.predicate)
        return own and len(node.children) <= SOURCES_MAX and all(is_plain_from(child) for child in node.children)
    return isinstance(node, Scan) and not node.is_table


def is_core_condition(e: Expression) -> bool:
    return next(subqueries(e), None) is None and not now_in(e)


def terms(e: Expression | None) -> list[Expression]:
    """The conditions of which all must be true."""
    if e is None:
        return []
    return [term for arg in e.args for term in terms(arg)] if isinstance(e, And) else [e]


def sources_of(e: Expression) -> set[int]:
    """The sources whose columns occur in it, also inside subqueries that look out."""
    found = {part.source for part in walk(e) if isinstance(part, ColumnRef)}
    for inner in subqueries(e):
        found |= {ref.source for ref in outer_refs(inner.query)}
    return found


def outer_refs(node: Node) -> list[ColumnRef]:
    """The columns in a subquery that belong to queries around it."""
    own = {source.source for source in sources_in(node)}
    return list(dict.fromkeys(ref for ref in columns_inside(node) if ref.source not in own))


def refs_of(expressions: Iterable[Expression]) -> list[ColumnRef]:
    """The columns that expressions read, also for the subqueries inside them."""
    found: dict[ColumnRef, None] = {}
    for e in expressions:
        for part in walk(e):
            if isinstance(part, ColumnRef) and part.source != OWN:
                found[part] = None
            elif isinstance(part, Subquery):
                found.update((ref, None) for ref in outer_refs(part.query) if ref.source != OWN)
    return list(found)


def _times_of(node: Node) -> list[ColumnRef]:
    """The times of the stream rows that a combination of rows is made of."""
    if isinstance(node, Scan):
        return [] if node.is_table else [ColumnRef(node.source, node.time, TIMESTAMP)]
    if isinstance(node, Select):
        return _times_of(node.child)
    if isinstance(node, Join):
        return [time for child in node.children for time in _times_of(child)]
    if isinstance(node, OuterJoin):
        right = [] if node.kind in ("semi", "anti") else _times_of(node.right)
        return [*_times_of(node.left), *right]
    return []


class FromRows(ABC):
    """Makes the rows of FROM; cores are collected in the order in which they are met."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.cores: list[Query] = []
        self._names = itertools.count()

    @abstractmethod
    def answer(self, node: Node) -> Finish:
        """A whole query; columns are called and ordered as it has them."""

    @abstractmethod
    def attached(self, rows: Finish, e: Expression) -> tuple[Finish, Expression]:
        """The rows with a column for each subquery of an expression, and the expression over these columns."""

    @abstractmethod
    def dependent(self, node: Node, outer: Numbered) -> Finish:
        """A query for each row of `outer`, whose columns it may look at: its columns, and the number of the row."""

    def name(self, word: str) -> str:
        """A name for a column that no other column has: no column of a user has a blank."""
        return f"{word} {next(self._names)}"

    def computed(self, rows: Finish, columns: Iterable[tuple[str, Expression]]) -> Finish:
        """Expressions over rows; over those of a core that nobody else reads they become its projection."""
        named = tuple({name: qualified(e) for name, e in columns}.items())
        named = named or ((self.name("row"), Literal(True, BOOLEAN)),)  # without columns there would be no rows
        if isinstance(rows, CoreRows) and rows.core == len(self.cores) - 1:
            core = self.cores[rows.core]
            assert isinstance(core.root, Project)
            known = {(OWN, name): e for name, e in core.root.columns}

            def meant(part: Expression) -> Expression:
                return known[part.source, part.name] if isinstance(part, ColumnRef) else part

            projected = tuple((name, rebuild(e, meant)) for name, e in named)
            self.cores[rows.core] = _query(replace(core.root, columns=projected), core.sources, self.text)
            return rows
        return Computed(rows, named)

    def rows(self, tree: Node, more: Sequence[Expression], wanted: Sequence[Expression]) -> Finish:
        """The rows of a FROM for which its conditions and more are true, with the columns that are wanted."""
        sources, conditions = self.flat(tree)
        own = {source.source for source in sources_in(tree)}
        return self.rows_of(sources, [*conditions, *more], [ref for ref in refs_of(wanted) if ref.source in own])

    def flat(self, node: Node) -> tuple[list[Node], list[Expression]]:
        """The inputs of an inner join, and all of its conditions."""
        if isinstance(node, Select):
            sources, conditions = self.flat(node.child)
            return sources, [*conditions, *terms(node.predicate)]
        if isinstance(node, Join):
            parts = [self.flat(child) for child in node.children]
            return [s for p in parts for s in p[0]], [*(c for p in parts for c in p[1]), *terms(node.predicate)]
        return [node], []

    def rows_of(self, sources: Sequence[Node], conditions: Sequence[Expression], wanted: Sequence[ColumnRef]) -> Finish:
        lateral = [s for s in sources if outer_refs(s)]
        if lateral:
            return self._beside_laterals(sources, lateral, conditions, wanted)
        first = [c for c in conditions if is_core_condition(c)]
        later = [c for c in conditions if not is_core_condition(c)]
        own = {source.source for node in sources for source in sources_in(node)}
        refs = list(dict.fromkeys([*wanted, *(ref for ref in refs_of(later) if ref.source in own)]))
        rows = self._joined(sources, first, refs)
        for condition in later:
            rows, decided = self.attached(rows, condition)
            rows = Kept(rows, qualified(decided))
        return rows

    def _beside_laterals(
        self,
        sources: Sequence[Node],
        lateral: Sequence[Node],
        conditions: Sequence[Expression],
        wanted: Sequence[ColumnRef],
    ) -> Finish:
        """Sources that look at others are evaluated for each row of those."""
        free = [s for s in sources if s not in lateral]
        own = {source.source for node in free for source in sources_in(node)}
        inside = [c for c in conditions if sources_of(c) <= own]
        later = [c for c in conditions if c not in inside]
        looked_at = [ref for node in lateral for ref in outer_refs(node)]
        refs = [ref for ref in dict.fromkeys([*wanted, *looked_at, *refs_of(later)]) if ref.source in own]
        rows = self.rows_of(free, inside, refs)
        for node in lateral:
            if not isinstance(node, Derived):
                raise NoFinishError("a join that looks at what is beside it")
            rows = self.beside(rows, node)
        for condition in later:
            rows, decided = self.attached(rows, condition)
            rows = Kept(rows, qualified(decided))
        return rows

    def beside(self, rows: Finish, node: Derived, kind: str = "inner", on: Expression | None = None) -> Finish:
        """The rows joined with a query that looks at them."""
        outer = Numbered(rows, self.name("n"))
        found = self.dependent(node.child, outer)
        again = self.name("n")
        inner = output(node.child)
        named = [
            (spelt(node.source, c.name), ColumnRef(OWN, n, c.type)) for n, c in zip(inner, node.columns, strict=True)
        ]
        numbered = ColumnRef(OWN, outer.name, BIGINT)
        same: Expression = Comparison("=", numbered, ColumnRef(OWN, again, BIGINT))
        condition = same if on is None else conjunction([same, qualified(on)])
        return Paired(kind, outer, Computed(found, (*named, (again, numbered))), condition)

    def _joined(self, sources: Sequence[Node], conditions: Sequence[Expression], wanted: Sequence[ColumnRef]) -> Finish:
        """Inputs of an inner join. Streams that conditions connect are a core; the rest is joined with them after."""
        times = [time for node in sources for time in _times_of(node)]
        units = _units(sources, conditions, len(times))
        dated = [unit for unit in units if _is_dated(unit) and times]
        units = [unit for unit in units if unit not in dated] + dated
        left = list(conditions)
        rows: Finish | None = None
        there: set[int] = set()
        while units:
            unit = _next(units, there, left)
            units.remove(unit)
            own = _numbers(unit)
            inside = [c for c in left if sources_of(c) <= own and (sources_of(c) or not there)]
            left = [c for c in left if c not in inside]
            between = [c for c in left if there and sources_of(c) <= there | own]
            waiting = [c for c in left if c not in between]
            needed = [*wanted, *refs_of([*between, *waiting]), *(times if dated else ())]
            columns = [ref for ref in dict.fromkeys(needed) if ref.source in own]
            found = self._unit(unit, inside, columns, unit in dated)
            if rows is None:
                rows = found
            else:
                if unit in dated:
                    between = [*between, _valid(unit[0], times)]
                rows = Paired("inner", rows, found, conjunction([qualified(c) for c in between]) if between else None)
            left = waiting
            there |= own
        assert rows is not None, "FROM has a source"
        return rows

    def _unit(
        self, unit: Sequence[Node], conditions: Sequence[Expression], wanted: Sequence[ColumnRef], dated: bool
    ) -> Finish:
        if isinstance(unit[0], Scan) and not unit[0].is_table:
            return self._core([s for s in unit if isinstance(s, Scan)], conditions, wanted)
        (node,) = unit
        if isinstance(node, OuterJoin):
            return self._outer(node, conditions, wanted)
        rows: Finish
        if isinstance(node, Scan):
            mentioned = dict.fromkeys([*wanted, *refs_of(conditions)])
            columns = tuple(Column(ref.name, ref.type) for ref in mentioned)
            rows = Versions(node.source, node.relation, columns, dated)
        elif isinstance(node, Derived):
            inner = output(node.child)
            refs = [ColumnRef(OWN, name, column.type) for name, column in zip(inner, node.columns, strict=True)]
            named = [(spelt(node.source, c.name), ref) for c, ref in zip(node.columns, refs, strict=True)]
            rows = self.computed(self.answer(node.child), named)
        else:
            assert isinstance(node, NoFrom), f"{type(node).__name__} in FROM"
            rows = OneRow()
        for condition in conditions:
            rows = Kept(rows, qualified(condition))
        return rows

    def _core(self, sources: Sequence[Scan], conditions: Sequence[Expression], wanted: Sequence[ColumnRef]) -> Finish:
        predicate = conjunction(list(conditions)) if conditions else None
        child: Node
        if len(sources) > 1:
            child = Join(tuple(_changes_of(s) if s.is_table else s for s in sources), predicate)
        else:
            child = sources[0] if predicate is None else Select(sources[0], predicate)
        columns: tuple[tuple[str, Expression], ...] = tuple((spelt(ref.source, ref.name), ref) for ref in wanted)
        columns = columns or ((self.name("row"), Literal(True, BOOLEAN)),)  # without columns there would be no rows
        self.cores.append(core_of(Project(child, columns), self.text))
        return CoreRows(len(self.cores) - 1)

    def _outer(self, node: OuterJoin, conditions: Sequence[Expression], wanted: Sequence[ColumnRef]) -> Finish:
        """An outer join; conditions go down to the side whose rows are there whatever the other side has."""
        if node.kind == "right" and _is_dated([node.left]):  # the version depends on the rows of the other side
            node = OuterJoin("left", node.right, node.left, node.predicate)
        _refuse_hidden_times(node)
        rows: Finish
        left, right = ({s.source for s in sources_in(side)} for side in (node.left, node.right))
        on = terms(node.predicate)
        keeps_left = node.kind not in ("right", "full")  # each of its rows meets what it would meet alone
        of_left = [c for c in conditions if sources_of(c) <= left and keeps_left]
        of_right = [c for c in conditions if sources_of(c) <= right and node.kind == "right"]
        after = [c for c in conditions if c not in of_left and c not in of_right]
        left_only = [c for c in on if sources_of(c) <= left and node.kind in ("right", "semi")]
        right_only = [c for c in on if sources_of(c) <= right and keeps_left]
        on = [c for c in on if c not in left_only and c not in right_only]
        looked_at = outer_refs(node.right)
        times = [*_times_of(node.left)] if _is_dated([node.right]) else []
        needed = list(dict.fromkeys([*wanted, *refs_of([*on, *after, *right_only]), *looked_at, *times]))
        first = self.rows(node.left, [*of_left, *left_only], needed)
        if looked_at:
            if not isinstance(node.right, Derived):
                raise NoFinishError("a join that looks at what is beside it")
            on = [*on, *right_only]
            rows = self.beside(first, node.right, node.kind, conjunction(on) if on else None)
            for c in after:
                rows = Kept(rows, qualified(c))
            return rows
        if times:
            assert isinstance(node.right, Scan)
            second = self._unit([node.right], [*of_right, *right_only], [r for r in needed if r.source in right], True)
            on = [*on, _valid(node.right, times)]
        else:
            second = self.rows(node.right, [*of_right, *right_only], needed)
        condition = conjunction([qualified(c) for c in on]) if on else None
        rows = Paired(node.kind, first, second, condition)
        for c in after:
            rows = Kept(rows, qualified(c))
        return rows


def core_of(node: Project, text: str) -> Query:
    """A block as a query of its own."""
    sources = scans(node)
    number_of = {scan.source: k for k, scan in enumerate(sources)}

    def renumber(e: Expression) -> Expression:
        return rebuild(e, lambda n: replace(n, source=number_of[n.source]) if isinstance(n, ColumnRef) else n)

    def renumber_scan(n: Node) -> Node:
        return replace(n, source=number_of[n.source]) if isinstance(n, Scan) else n

    root = rebuild_node(map_expressions(node, renumber), renumber_scan)
    assert isinstance(root, Project)
    return _query(root, scans(root), text)


def _query(root: Project, sources: tuple[Scan, ...], text: str) -> Query:
    return Query(root, sources, tuple(Column(name, e.type) for name, e in root.columns), text)


def _numbers(unit: Sequence[Node]) -> set[int]:
    return {source.source for node in unit for source in sources_in(node)}


def _refuse_hidden_times(node: OuterJoin) -> None:
    """A table meets rows at their times: outer joins that keep its own rows, or hide it in a query, have none."""
    keeps_right, keeps_left = node.kind in ("right", "full"), node.kind not in ("right",)
    for side, is_kept in ((node.left, keeps_left), (node.right, keeps_right)):
        other = node.right if side is node.left else node.left
        if not _times_of(other) and not any(isinstance(s, Derived) for s in sources_in(other)):
            continue  # tables among themselves are as of τ
        table = next((s for s in scans(side) if s.is_table and not s.is_retroactive), None)
        if table is None or _times_of(side):
            continue
        if is_kept and _is_dated([side]):
            raise NoFinishError(
                f"an outer join that keeps the rows of table '{table.relation}', which meets rows' times,"
            )
        if isinstance(side, Derived) and isinstance(side.child, Project):
            raise NoFinishError(f"table '{table.relation}' in a query of its own beside an outer join")


def _is_dated(unit: Sequence[Node]) -> bool:
    """Whether it is a table whose version depends on the rows that it meets."""
    return len(unit) == 1 and isinstance(unit[0], Scan) and unit[0].is_table and not unit[0].is_retroactive


def _units(sources: Sequence[Node], conditions: Sequence[Expression], times: int) -> list[list[Node]]:
    """Streams that conditions connect are one unit, of at most `SOURCES_MAX`; everything else is one by itself.

    Where all rows with times, so many as `times`, are of one unit, tables that equalities connect with it belong to it.
    """
    streams = [s for s in sources if isinstance(s, Scan) and not s.is_table]
    links = [found for c in conditions if len(found := sources_of(c)) == 2]
    units: list[list[Node]] = []
    waiting = list(streams)
    while waiting:
        unit = _reached([waiting.pop(0)], waiting, links)
        units.append([*sorted(unit, key=streams.index)])
    if len(units) == 1 and len(units[0]) == times:
        tables = [s for s in sources if isinstance(s, Scan) and s.is_table and _fits(s, streams)]
        units = [[*_reached(list(streams), tables, list(_equalities(conditions)))]]
    inside = [s for unit in units for s in unit]
    return units + [[s] for s in sources if s not in inside]


def _reached(unit: list[Scan], waiting: list[Scan], links: Sequence[set[int]]) -> list[Scan]:
    """A unit with what links connect with it, one by one; these wait no longer."""
    reached = _numbers(unit)
    while len(unit) < SOURCES_MAX:
        near = next((s for s in waiting if any(s.source in link and link & reached for link in links)), None)
        if near is None:
            break
        waiting.remove(near)
        unit.append(near)
        reached.add(near.source)
    return unit


def _equalities(conditions: Sequence[Expression]) -> Iterator[set[int]]:
    """The sources of each condition by whose values rows of two sources can be looked up from each other."""
    for term in conditions:
        if isinstance(term, Comparison) and term.op == "=" and not params_of(term):
            left, right = sources_of(term.left), sources_of(term.right)
            is_plain = not any(of.type.kind is Kind.PAYLOAD for of in walk(term) if isinstance(of, ColumnRef))
            is_between = len(left) == len(right) == 1 and left != right
            if is_between and is_plain and has_keys(term.left.type, term.right.type):
                yield left | right


def _fits(table: Scan, streams: Sequence[Scan]) -> bool:
    """Whether a version that ended before a row's time is never shown beside the row: no window ends after τ."""
    ends = [s.window.end for s in streams if s.window.rows is None and s.window.end is not None]
    return not table.is_retroactive or all(end.relative and end.offset_us == NO_TIME for end in ends)


def _changes_of(table: Scan) -> Scan:
    """A table as a side of a core."""
    return replace(table, relation=table.relation + CHANGES, is_table=False)


def _next(units: Sequence[list[Node]], there: set[int], conditions: Sequence[Expression]) -> list[Node]:
    """The unit to join next: the first that a condition connects with what is there."""
    for unit in units:
        own = _numbers(unit)
        if any((found := sources_of(c)) & own and found & there and found <= own | there for c in conditions):
            return unit
    return units[0]


def _valid(table: Node, times: Sequence[ColumnRef]) -> Expression:
    """The version of a table is the one that is valid at the time of the newest row."""
    assert isinstance(table, Scan)
    time: Expression = times[0] if len(times) == 1 else Call("greatest", tuple(times), TIMESTAMP)
    begin, end = (ColumnRef(table.source, name, TIMESTAMP) for name in LIFETIME)
    return conjunction([Comparison("<=", begin, time), Comparison("<", time, end)])


def output(node: Node) -> tuple[str, ...]:
    """All columns of an answer, those that are not shown too."""
    if isinstance(node, (Project, GroupBy)):
        return tuple(name for name, _ in node.columns)
    if isinstance(node, SetOperation):
        return output(node.left)
    assert isinstance(node, (Distinct, Ordered)), "an answer is made by these"
    names = output(node.child)
    return names[: len(names) - node.hidden] if isinstance(node, Ordered) else names
