"""One form for queries that mean the same: the order of commutative parts, and of sources, is settled.

Within an expression: AND and OR are flat and their operands sorted; the operands of + and * are ordered; a
comparison has its constant on the right, else the lesser text on the left (`<` turns into `>`). Sorting is by text
with constants masked, so constants have no say. Sources are ordered by relation, form of window and conditions of
their own; those that are still alike (self-joins) by trying their orders and keeping the least text. Operands of a
chain of UNION or of INTERSECT are sorted when their column names agree.

Queries with anything else in them (subqueries, outer joins, window functions, ORDER BY) keep the order of their text:
only their sources are numbered.

Idempotent: a canonical query is its own canonical form, because every choice is the least text among the same
alternatives. Cost: n log n in the expression, times k! for k sources that are alike, at most `_ORDERS_MAX`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from weir.algebra import nodes
from weir.algebra.format import MaskedNames, conjuncts, expression_text, node_sql, output_names, window_text
from weir.algebra.nodes import Expression, Node, Scan, Window, walk
from weir.algebra.rebuild import (
    inputs,
    map_expressions,
    rebuild,
    rebuild_inside,
    rebuild_node,
    row_expressions,
    scans,
    sources_in,
)
from weir.algebra.schema import BOOLEAN, Column, DataType

_ORDERS_MAX = 120  # orders of sources that are alike; beyond it the order of the text stays
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def canonical(query: nodes.Query) -> nodes.Query:
    """The query in its one form; sources are called s0, s1, … in the order of its text."""
    return _renumbered(_ordered(query.root) if is_plain(query.root) else query.root, query)


def is_plain(node: Node) -> bool:
    """Whether a query has only selections, inner joins of streams and tables, groups and set operations."""
    if not isinstance(node, (Scan, nodes.Select, nodes.Project, nodes.Join, nodes.GroupBy, nodes.Distinct)):
        return isinstance(node, nodes.SetOperation) and is_plain(node.left) and is_plain(node.right)
    if isinstance(node, nodes.Distinct) and not isinstance(node.child, (nodes.Project, nodes.GroupBy)):
        return False
    parts = (part for e in row_expressions(node) for part in walk(e))
    if any(isinstance(part, (nodes.Subquery, nodes.WindowCall)) for part in parts):
        return False
    return all(is_plain(child) for child in inputs(node))


def _ordered(node: Node) -> Node:
    if isinstance(node, nodes.SetOperation):
        return _ordered_operands(replace(node, left=_ordered(node.left), right=_ordered(node.right)))
    if isinstance(node, nodes.Distinct):
        return replace(node, child=_ordered(node.child))
    assert isinstance(node, (nodes.Project, nodes.GroupBy))
    return _ordered_select(node)


# One SELECT.


def _ordered_select(node: nodes.Project | nodes.GroupBy) -> Node:
    """The least text over all orders of its sources."""
    orders = list(_orders(node.child))
    candidates = []
    for order in orders:
        names = MaskedNames((scan.source, f"s{i}") for i, scan in enumerate(order))
        candidate = _sorted_parts(node, order, names)
        if len(orders) == 1:
            return candidate
        candidates.append((node_sql(_masked(candidate), names), candidate))
    return min(candidates, key=lambda found: found[0])[1]


def _orders(child: Node) -> Iterator[tuple[Scan, ...]]:
    """Every order of the sources that sorts them by relation, window and conditions of their own."""
    sources = scans(child)
    seen = {scan.source: (scan.relation.lower(), window_text(_mask_window(scan.window))) for scan in sources}
    local = _local_texts(child) if len(set(seen.values())) < len(sources) else {}

    def signature(scan: Scan) -> tuple[str, str, list[str]]:
        return (*seen[scan.source], sorted(local.get(scan.source, [])))

    by_signature = sorted(sources, key=signature)
    groups = [list(g) for _, g in itertools.groupby(by_signature, key=signature)]
    count = 1
    for group in groups:
        for n in range(2, len(group) + 1):
            count *= n
    if count > _ORDERS_MAX:
        yield tuple(by_signature)
        return
    for choice in itertools.product(*(itertools.permutations(g) for g in groups)):
        yield tuple(itertools.chain.from_iterable(choice))


def _local_texts(child: Node) -> dict[int, list[str]]:
    """By source the conditions that are about it alone."""
    local: dict[int, list[str]] = {}
    for condition in conjuncts(child):
        sources = {p.source for p in walk(condition) if isinstance(p, nodes.ColumnRef)}
        if len(sources) == 1:
            names = MaskedNames({(source := sources.pop()): "s"})
            local.setdefault(source, []).append(expression_text(_settled(condition, names), names))
    return local


def _sorted_parts(
    node: nodes.Project | nodes.GroupBy, order: tuple[Scan, ...], names: MaskedNames
) -> nodes.Project | nodes.GroupBy:
    def one(e: Expression) -> Expression:
        return _settled(e, names)

    conditions = conjuncts(node.child)
    predicate = one(nodes.And(conditions) if len(conditions) > 1 else conditions[0]) if conditions else None
    child: Node
    if len(order) > 1:
        child = nodes.Join(order, predicate)
    else:
        child = order[0] if predicate is None else nodes.Select(order[0], predicate)
    columns = tuple((name, one(e)) for name, e in node.columns)
    if isinstance(node, nodes.Project):
        return nodes.Project(child, columns)
    keys = tuple(sorted(dict.fromkeys(one(k) for k in node.keys), key=lambda k: expression_text(k, names)))
    return nodes.GroupBy(child, keys, columns, None if node.having is None else one(node.having))


def _settled(e: Expression, names: MaskedNames) -> Expression:
    return rebuild(e, lambda part: _settle(part, names))


def _settle(e: Expression, names: MaskedNames) -> Expression:
    """One node whose operands are settled already."""
    if isinstance(e, (nodes.And, nodes.Or)):
        flat = nodes.conjunction(e.args) if isinstance(e, nodes.And) else nodes.disjunction(e.args)
        assert isinstance(flat, (nodes.And, nodes.Or)), "it has at least two operands"
        return replace(flat, args=tuple(sorted(flat.args, key=lambda a: expression_text(a, names))))
    if isinstance(e, nodes.Comparison):
        order = _order(e.left, e.right, names)
        if order > 0 or (order == 0 and e.op in (">", ">=")):
            return nodes.Comparison(_FLIPPED[e.op], e.right, e.left)
    if isinstance(e, nodes.Arithmetic) and e.op in "+*" and _commutes(e) and _order(e.left, e.right, names) > 0:
        return nodes.Arithmetic(e.op, e.right, e.left, e.type)
    return e


def _commutes(e: nodes.Arithmetic) -> bool:
    """Numbers do; a time and an interval keep their order."""
    return e.left.type.is_numeric and e.right.type.is_numeric


def _order(left: Expression, right: Expression, names: MaskedNames) -> int:
    """Constants come last, other operands in the order of their texts; positive if these are the wrong way round."""
    of_left, of_right = (isinstance(e, (nodes.Literal, nodes.Param)) for e in (left, right))
    if of_left or of_right:
        return of_left - of_right
    a, b = expression_text(left, names), expression_text(right, names)
    return (a > b) - (a < b)


# Constants have no say in any order.

_MASK = nodes.Param("c", BOOLEAN)


def _mask_one(e: Expression) -> Expression:
    return _MASK if isinstance(e, (nodes.Literal, nodes.Param)) else e


def _masked(node: Node) -> Node:
    masked = map_expressions(node, lambda e: rebuild(e, _mask_one))
    return rebuild_node(masked, lambda n: replace(n, window=_mask_window(n.window)) if isinstance(n, Scan) else n)


def _mask_window(window: Window) -> Window:
    return Window(
        None if window.begin is None else replace(window.begin, offset_us=_MASK),
        None if window.end is None else replace(window.end, offset_us=_MASK),
        None if window.rows is None else _MASK,
    )


# Set operations.


def _ordered_operands(node: nodes.SetOperation) -> Node:
    """A chain of one commutative operation, sorted by text, left-deep again."""
    if node.kind == "except":
        return node
    operands = _chain(node, node.kind, node.all)
    names = _column_names(operands[0])
    if any(_column_names(o) != names for o in operands):
        return node
    ordered = sorted(operands, key=_operand_text)
    result = ordered[0]
    for operand in ordered[1:]:
        result = nodes.SetOperation(node.kind, node.all, result, operand)
    return result


def _chain(node: Node, kind: str, all_: bool) -> list[Node]:
    if isinstance(node, nodes.SetOperation) and (node.kind, node.all) == (kind, all_):
        return [*_chain(node.left, kind, all_), *_chain(node.right, kind, all_)]
    return [node]


def _operand_text(node: Node) -> str:
    names = {scan.source: f"s{i}" for i, scan in enumerate(scans(node))}
    return node_sql(_masked(node), names)


def _column_names(node: Node) -> tuple[str, ...]:
    return tuple(output_names(node))


# Numbers and names of sources.


def _renumbered(root: Node, query: nodes.Query) -> nodes.Query:
    place = {source.source: i for i, source in enumerate(sources_in(root))}

    def column(e: Expression) -> Expression:
        if not isinstance(e, nodes.ColumnRef):
            return _numbered_query(e, source) if isinstance(e, nodes.Subquery) else e
        return replace(e, source=place[e.source])

    def source(n: Node) -> Node:
        return (
            replace(n, source=place[n.source], alias=f"s{place[n.source]}")
            if isinstance(n, (Scan, nodes.Derived))
            else n
        )

    root = rebuild_node(map_expressions(root, lambda e: rebuild_inside(e, column)), source)
    types: list[DataType] = [c.type for c in query.output]
    output = tuple(Column(n, t) for n, t in zip(_column_names(root), types, strict=True))
    return nodes.Query(root, scans(root), output, query.text)


def _numbered_query(e: nodes.Subquery, change: Callable[[Node], Node]) -> Expression:
    """A subquery whose sources are changed too; its expressions are changed before."""
    return replace(e, query=rebuild_node(e.query, change))
