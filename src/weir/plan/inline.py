"""Queries in FROM that are select-join blocks themselves become part of the query around them.

    SELECT x.p FROM (SELECT a, b + 1 AS p FROM s WHERE c > 0) x WHERE x.p < 5
                                                   →  SELECT b + 1 FROM s WHERE c > 0 AND b + 1 < 5

Then their sources are joined by families and their conditions are in the index. That holds wherever the inner query is
joined by an inner join: each of its rows is there once, with its columns computed from it. Views and names of WITH are
such queries too.

One thing is not computed from an inner row alone: which version of a table it meets. That is the one of the newest row
beside the table, so a query that joins rows of streams with a table stays closed where further rows stand beside it.
"""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.nodes import (
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    GroupBy,
    Join,
    Node,
    Ordered,
    OuterJoin,
    Project,
    Scan,
    Select,
    SetOperation,
    Subquery,
    WindowCall,
    conjunction,
    walk,
)
from weir.algebra.rebuild import map_expressions, rebuild, rebuild_inside, scans

_Meaning = dict[tuple[int, str], Expression]  # what the columns of queries in FROM are


def inlined(node: Node) -> Node:
    """The same answer with such queries taken in, innermost first."""
    if isinstance(node, (Project, GroupBy)):
        return _block(node)
    if isinstance(node, (Distinct, Ordered, Derived)):
        return replace(node, child=inlined(node.child))
    if isinstance(node, (SetOperation, OuterJoin)):
        return replace(node, left=inlined(node.left), right=inlined(node.right))
    if isinstance(node, Select):
        return replace(node, child=inlined(node.child))
    if isinstance(node, Join):
        return replace(node, children=tuple(inlined(child) for child in node.children))
    return node


def _block(node: Project | GroupBy) -> Node:
    meaning: _Meaning = {}
    child = inlined(node.child)
    sources, conditions = _flat(child, meaning, _dated_inputs(child) <= 1)

    def settled(e: Expression) -> Expression:
        return rebuild_inside(e, lambda part: _meant(part, meaning)) if meaning else e

    whole = replace(node, child=_from(sources, conditions))
    return _with_subqueries(map_expressions(whole, settled) if meaning else whole)


def _meant(part: Expression, meaning: _Meaning) -> Expression:
    return meaning.get((part.source, part.name), part) if isinstance(part, ColumnRef) else part


def _flat(node: Node, meaning: _Meaning, is_alone: bool) -> tuple[list[Node], list[Expression]]:
    """The inputs of a FROM and its conditions; queries that can be taken in are opened.

    `is_alone`: rows of streams are in one of the inputs at most.
    """
    if isinstance(node, Select):
        sources, conditions = _flat(node.child, meaning, is_alone)
        return sources, [*conditions, node.predicate]
    if isinstance(node, Join):
        sources, conditions = [], []
        for child in node.children:
            more, also = _flat(child, meaning, is_alone)
            sources += more
            conditions += also
        return sources, conditions if node.predicate is None else [*conditions, node.predicate]
    if (
        isinstance(node, Derived)
        and isinstance(node.child, Project)
        and _is_open(node.child)
        and (is_alone or not _meets_versions(node.child.child))
    ):
        inner = node.child.child
        sources, conditions = _flat(inner, meaning, is_alone and _dated_inputs(inner) <= 1)
        for column, (_, e) in zip(node.columns, node.child.columns, strict=True):
            meaning[node.source, column.name] = rebuild(e, lambda part: _meant(part, meaning))
        return sources, conditions
    return [node], []


def _is_open(node: Project) -> bool:
    return not any(isinstance(part, (Subquery, WindowCall)) for _, e in node.columns for part in walk(e))


def _inputs(node: Node) -> list[Node]:
    """The inputs of a FROM."""
    if isinstance(node, Select):
        return _inputs(node.child)
    return [i for child in node.children for i in _inputs(child)] if isinstance(node, Join) else [node]


def _dated_inputs(node: Node) -> int:
    """How many inputs of a FROM have rows of streams, also of queries that may be opened."""
    count = 0
    for one in _inputs(node):
        if isinstance(one, Derived):
            inner = one.child
            count += isinstance(inner, Project) and _is_open(inner) and _dated_inputs(inner.child) > 0
        else:
            count += any(not scan.is_table for scan in scans(one))
    return count


def _meets_versions(node: Node) -> bool:
    """Whether a FROM joins rows of streams with a table of which they meet the versions of their times."""
    own = [one for one in _inputs(node) if isinstance(one, Scan)]
    return _dated_inputs(node) > 0 and any(scan.is_table and not scan.is_retroactive for scan in own)


def _from(sources: list[Node], conditions: list[Expression]) -> Node:
    predicate = conjunction(conditions) if conditions else None
    if len(sources) > 1:
        return Join(tuple(sources), predicate)
    return sources[0] if predicate is None else Select(sources[0], predicate)


def _with_subqueries(node: Node) -> Node:
    """The queries inside the expressions of a block, treated the same way."""

    def opened(part: Expression) -> Expression:
        return replace(part, query=inlined(part.query)) if isinstance(part, Subquery) else part

    return map_expressions(node, lambda e: rebuild(e, opened))
