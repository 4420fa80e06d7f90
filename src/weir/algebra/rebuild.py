"""Taking expressions and trees apart and putting them together again.

`rebuild` applies a function to every part of an expression, operands first; `rebuild_node` does the same for a
relational tree. Parts that come back unchanged are kept, not copied, so an unchanged expression is the same object.
Recursion is as deep as the expression nests, which `lower` limits (settings.sql_depth_max).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from weir.algebra import nodes
from weir.algebra.nodes import Expression, Node, children, walk, with_children

Rewrite = Callable[[Expression], Expression]


def rebuild(e: Expression, change: Rewrite) -> Expression:
    """`change` applied to every part, operands before what they are operands of."""
    before = children(e)
    if not before:
        return change(e)
    after = tuple([rebuild(c, change) for c in before])
    for a, b in zip(after, before, strict=True):
        if a is not b:
            return change(with_children(e, after))
    return change(e)


def rebuild_node(node: Node, change: Callable[[Node], Node]) -> Node:
    """`change` applied to every operator of a tree, inputs first."""
    if isinstance(node, (nodes.Select, nodes.Project, nodes.Distinct, nodes.GroupBy, nodes.Ordered, nodes.Derived)):
        child = rebuild_node(node.child, change)
        return change(node if child is node.child else replace(node, child=child))
    if isinstance(node, nodes.Join):
        inputs = tuple([rebuild_node(c, change) for c in node.children])
        same = all(a is b for a, b in zip(inputs, node.children, strict=True))
        return change(node if same else replace(node, children=inputs))
    if isinstance(node, (nodes.SetOperation, nodes.OuterJoin)):
        left, right = rebuild_node(node.left, change), rebuild_node(node.right, change)
        same = left is node.left and right is node.right
        return change(node if same else replace(node, left=left, right=right))
    return change(node)


def map_expressions(node: Node, change: Rewrite) -> Node:
    """`change` applied to each whole expression that an operator of the tree holds."""

    def visit(n: Node) -> Node:
        if not isinstance(n, nodes.GroupBy):
            return _with_row_expressions(n, change)
        return replace(
            n,
            keys=tuple(change(k) for k in n.keys),
            columns=tuple((name, change(e)) for name, e in n.columns),
            having=None if n.having is None else change(n.having),
        )

    return rebuild_node(node, visit)


def map_row_expressions(node: Node, change: Rewrite) -> Node:
    """`change` applied to each whole expression over rows: conditions of selections and joins, projected columns.

    Group-bys are left alone: a rewritten column might no longer contain the keys that it is made of.
    """

    return rebuild_node(node, lambda n: _with_row_expressions(n, change))


def _with_row_expressions(n: Node, change: Rewrite) -> Node:
    if isinstance(n, nodes.Select):
        return replace(n, predicate=change(n.predicate))
    if isinstance(n, (nodes.Join, nodes.OuterJoin)):
        return n if n.predicate is None else replace(n, predicate=change(n.predicate))
    if isinstance(n, nodes.Project):
        return replace(n, columns=tuple((name, change(e)) for name, e in n.columns))
    return n


def inputs(node: Node) -> tuple[Node, ...]:
    """The direct inputs of an operator, but for queries inside its expressions."""
    if isinstance(node, (nodes.Select, nodes.Project, nodes.Distinct, nodes.GroupBy, nodes.Ordered, nodes.Derived)):
        return (node.child,)
    if isinstance(node, nodes.Join):
        return node.children
    if isinstance(node, (nodes.SetOperation, nodes.OuterJoin)):
        return (node.left, node.right)
    return ()


def row_expressions(node: Node) -> tuple[Expression, ...]:
    """The whole expressions that an operator holds, in the order of SQL."""
    if isinstance(node, nodes.Select):
        return (node.predicate,)
    if isinstance(node, (nodes.Join, nodes.OuterJoin)):
        return () if node.predicate is None else (node.predicate,)
    if isinstance(node, nodes.Project):
        return tuple(e for _, e in node.columns)
    if isinstance(node, nodes.GroupBy):
        return (*(e for _, e in node.columns), *node.keys, *(() if node.having is None else (node.having,)))
    return ()


def subqueries(e: Expression) -> Iterator[nodes.Subquery]:
    """The queries inside an expression, but not those inside them."""
    return (part for part in walk(e) if isinstance(part, nodes.Subquery))


def columns_inside(node: Node) -> Iterator[nodes.ColumnRef]:
    """Every column that occurs in a tree, also in the queries inside its expressions."""
    for child in inputs(node):
        yield from columns_inside(child)
    for e in row_expressions(node):
        for part in walk(e):
            if isinstance(part, nodes.ColumnRef):
                yield part
            elif isinstance(part, nodes.Subquery):
                yield from columns_inside(part.query)


def rebuild_inside(e: Expression, change: Rewrite) -> Expression:
    """As `rebuild`, and inside the queries of the expression too."""

    def visit(part: Expression) -> Expression:
        if isinstance(part, nodes.Subquery):
            part = replace(part, query=map_expressions(part.query, lambda inner: rebuild_inside(inner, change)))
        return change(part)

    return rebuild(e, visit)


def sources_in(node: Node) -> Iterator[nodes.Scan | nodes.Derived]:
    """Every source below and inside expressions: inputs from left to right, then expressions; a derived one last."""
    for child in inputs(node):
        yield from sources_in(child)
    for e in row_expressions(node):
        for inner in subqueries(e):
            yield from sources_in(inner.query)
    if isinstance(node, (nodes.Scan, nodes.Derived)):
        yield node


def scans(node: Node) -> tuple[nodes.Scan, ...]:
    """Every source occurrence below, from left to right."""
    return tuple(source for source in sources_in(node) if isinstance(source, nodes.Scan))
