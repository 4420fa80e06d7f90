"""Update patterns: in what order the results on an edge come and go (UPA, sections 3.1 and 5.2).

    MONOTONIC  nothing ever expires            an unbounded stream, a landmark or a snapshot window
    WKS        weakest: first in, first out    a sliding window, and selections and projections of one
    WK         weak: not in order, but each result's end is known when it is made
    STR        strict: a result may end at any moment, which has to be told (a negative tuple)

The five rules of section 5.2, bottom-up: (1) selection, projection and a join with a non-retroactive table hand their
input's pattern on; (2) a merge-union has the worse of its inputs; (3) join, intersection and duplicate elimination
are STR if an input is, else WK; (4) group-by is always WK; (5) negation and a join with a retroactive table are
always STR. UPA leaves monotonic inputs out: here a join, union, intersection or DISTINCT of monotonic inputs
is monotonic (no result of it can end either). A row-count window is STR: when its rows leave depends on arrivals
(section 7). Which tables are retroactive the catalog says. Cost: linear in the plan.
"""

from __future__ import annotations

from collections.abc import Collection

from weir.algebra import nodes
from weir.algebra.nodes import Node, walk
from weir.algebra.rebuild import inputs, row_expressions
from weir.algebra.schema import Catalog
from weir.algebra.update_patterns import UpdatePattern


def pattern_of(node: Node, catalog: Catalog) -> UpdatePattern:
    """The pattern on the edge above a node."""
    if isinstance(node, nodes.Scan):
        return _leaf(node, catalog)
    below = [pattern_of(child, catalog) for child in inputs(node)]
    if _looks_around(node):
        return UpdatePattern.STR
    if isinstance(node, (nodes.Select, nodes.Project)):  # rule 1
        return below[0]
    if isinstance(node, nodes.GroupBy):  # rule 4
        return UpdatePattern.WK
    if isinstance(node, nodes.Distinct):  # rule 3
        return _weak(below)
    if isinstance(node, nodes.SetOperation):
        if node.kind == "except":  # rule 5
            return UpdatePattern.STR
        if node.kind == "intersect":  # rule 3
            return _weak(below)
        merged = max(below)  # rule 2
        return merged if node.all else _weak([merged])
    if isinstance(node, nodes.OneRow):
        return UpdatePattern.MONOTONIC
    if isinstance(node, nodes.Derived):
        return below[0]
    if isinstance(node, nodes.Ordered):  # what is cut off comes back when what is before it goes
        return below[0] if node.limit is None and node.offset is None else UpdatePattern.STR
    if isinstance(node, nodes.OuterJoin):  # a row without a partner is a negation
        return _weak(below) if node.kind == "semi" else UpdatePattern.STR
    assert isinstance(node, nodes.Join)
    return _join(node, catalog)


def _looks_around(node: Node) -> bool:
    """Whether what becomes of a row depends on other rows: on subqueries, or on a window function."""
    parts = (part for e in row_expressions(node) for part in walk(e))
    return any(isinstance(part, (nodes.Subquery, nodes.WindowCall)) for part in parts)


def _leaf(scan: nodes.Scan, catalog: Catalog) -> UpdatePattern:
    if scan.is_table:
        return UpdatePattern.STR  # read alone, a table may change in any way; a join decides for itself
    window = scan.window
    if window.rows is not None:
        return UpdatePattern.STR
    if window.begin is None:
        keep_us = catalog.streams[scan.relation.lower()].keep_us
        return UpdatePattern.MONOTONIC if keep_us is None else UpdatePattern.WKS
    return UpdatePattern.WKS if window.begin.relative else UpdatePattern.MONOTONIC


def _weak(below: Collection[UpdatePattern]) -> UpdatePattern:
    if max(below) is UpdatePattern.MONOTONIC:
        return UpdatePattern.MONOTONIC
    return max(*below, UpdatePattern.WK)


def _join(node: nodes.Join, catalog: Catalog) -> UpdatePattern:
    streams: list[UpdatePattern] = []
    for child in node.children:
        leaf = _only_scan(child)
        if leaf is not None and leaf.is_table:
            if catalog.tables[leaf.relation.lower()].retroactive:  # rule 5
                return UpdatePattern.STR
            continue  # rule 1: a non-retroactive table leaves the pattern as it is
        streams.append(pattern_of(child, catalog))
    if not streams:
        return UpdatePattern.STR
    return streams[0] if len(streams) == 1 else _weak(streams)  # rules 1 and 3


def _only_scan(node: Node) -> nodes.Scan | None:
    while isinstance(node, (nodes.Select, nodes.Project)):
        node = node.child
    return node if isinstance(node, nodes.Scan) else None
