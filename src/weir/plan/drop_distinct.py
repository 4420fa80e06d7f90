"""Take out duplicate eliminations that find nothing.

    SELECT DISTINCT area, count(*) … GROUP BY area  →  the same without DISTINCT
    SELECT DISTINCT a … UNION SELECT b …            →  SELECT a … UNION SELECT b …

A group-by has one row a group: with all keys among its columns no two rows are equal. UNION, EXCEPT and INTERSECT
without ALL eliminate duplicates of their own result, so duplicates in their inputs do not matter. Each DISTINCT
that goes keeps an edge's update pattern simple (UPA, section 5.4).
"""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.nodes import Distinct, GroupBy, Node, Query, SetOperation
from weir.algebra.rebuild import rebuild_node


def drop_distinct(query: Query) -> Query:
    """No DISTINCT over distinct rows, nor directly below a set operation that eliminates duplicates itself."""
    return replace(query, root=rebuild_node(query.root, _drop))


def _drop(node: Node) -> Node:
    if isinstance(node, Distinct) and _is_distinct(node.child):
        return node.child
    if isinstance(node, SetOperation) and not node.all:
        return replace(node, left=_bare(node.left), right=_bare(node.right))
    return node


def _is_distinct(node: Node) -> bool:
    if isinstance(node, GroupBy):
        shown = [e for _, e in node.columns]
        return all(k in shown for k in node.keys)
    return isinstance(node, Distinct) or (isinstance(node, SetOperation) and not node.all)


def _bare(node: Node) -> Node:
    return node.child if isinstance(node, Distinct) else node
