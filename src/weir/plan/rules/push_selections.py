"""Move every condition on one source to that source, below the join.

    (trade ⋈ weather) WHERE trade.area = weather.area AND trade.price < 5
        →  (σ price < 5 (trade)) ⋈ weather ON trade.area = weather.area

Inner joins only exist, so this is always right. What is left in the join are conditions that need several sources, and
conditions on none. A condition TRUE disappears.
"""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.nodes import (
    And,
    ColumnRef,
    Expression,
    Join,
    Literal,
    Node,
    Query,
    Scan,
    Select,
    conjunction,
    walk,
)
from weir.algebra.rebuild import rebuild_node


def push_selections(query: Query) -> Query:
    """Each conjunct stands as low as the columns it needs allow."""
    return replace(query, root=rebuild_node(query.root, _push))


def _push(node: Node) -> Node:
    if isinstance(node, Select) and _is_true(node.predicate):
        return node.child
    if not isinstance(node, Join) or node.predicate is None:
        return node
    local: dict[int, list[Expression]] = {}
    shared: list[Expression] = []
    for term in node.predicate.args if isinstance(node.predicate, And) else (node.predicate,):
        sources = {part.source for part in walk(term) if isinstance(part, ColumnRef)}
        if len(sources) == 1:
            local.setdefault(sources.pop(), []).append(term)
        elif not _is_true(term):
            shared.append(term)
    children = tuple(_selected(child, local) for child in node.children)
    return Join(children, conjunction(shared) if shared else None)


def _selected(child: Node, local: dict[int, list[Expression]]) -> Node:
    if isinstance(child, Scan) and child.source in local:
        return Select(child, conjunction(local[child.source]))
    if isinstance(child, Select) and isinstance(child.child, Scan) and child.child.source in local:
        return Select(child.child, conjunction([child.predicate, *local[child.child.source]]))
    return child


def _is_true(e: Expression) -> bool:
    return isinstance(e, Literal) and e.value is True
