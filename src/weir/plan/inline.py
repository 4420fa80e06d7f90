"""Queries in FROM that are select-join blocks themselves become part of the query around them.

    SELECT x.p FROM (SELECT a, b + 1 AS p FROM s WHERE c > 0) x WHERE x.p < 5
                                                   →  SELECT b + 1 FROM s WHERE c > 0 AND b + 1 < 5

Then their sources are joined by families and their conditions are in the index. That holds wherever the inner query is
joined by an inner join: each of its rows is there once, with its columns computed from it. Views and names of WITH are
such queries too.
"""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.array_functions import GENERATORS
from weir.algebra.nodes import (
    Call,
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
    Select,
    SetOperation,
    Subquery,
    WindowCall,
    conjunction,
    walk,
)
from weir.algebra.rebuild import map_expressions, rebuild, rebuild_inside

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
    sources, conditions = _flat(inlined(node.child), meaning)

    def settled(e: Expression) -> Expression:
        return rebuild_inside(e, lambda part: _meant(part, meaning)) if meaning else e

    whole = replace(node, child=_from(sources, conditions))
    return _with_subqueries(map_expressions(whole, settled) if meaning else whole)


def _meant(part: Expression, meaning: _Meaning) -> Expression:
    return meaning.get((part.source, part.name), part) if isinstance(part, ColumnRef) else part


def _flat(node: Node, meaning: _Meaning) -> tuple[list[Node], list[Expression]]:
    """The inputs of a FROM and its conditions; queries that can be taken in are opened."""
    if isinstance(node, Select):
        sources, conditions = _flat(node.child, meaning)
        return sources, [*conditions, node.predicate]
    if isinstance(node, Join):
        sources, conditions = [], []
        for child in node.children:
            more, also = _flat(child, meaning)
            sources += more
            conditions += also
        return sources, conditions if node.predicate is None else [*conditions, node.predicate]
    if isinstance(node, Derived) and isinstance(node.child, Project) and _is_open(node.child):
        sources, conditions = _flat(node.child.child, meaning)
        for column, (_, e) in zip(node.columns, node.child.columns, strict=True):
            meaning[node.source, column.name] = rebuild(e, lambda part: _meant(part, meaning))
        return sources, conditions
    return [node], []


def _is_open(node: Project) -> bool:
    parts = (part for _, e in node.columns for part in walk(e))
    return not any(isinstance(part, (Subquery, WindowCall)) or is_exploding(part) for part in parts)


def is_exploding(part: Expression) -> bool:
    """Whether it makes several rows of one."""
    return isinstance(part, Call) and part.function in GENERATORS


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
