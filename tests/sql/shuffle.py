"""The same query, written differently: commutative parts in another order, sources in another order, other constants.

Works on the lowered query, where nothing is ambiguous; sql/canonical.py must undo all of it.
"""

from __future__ import annotations

import random
from dataclasses import replace

from weir.algebra.nodes import (
    And,
    Arithmetic,
    ColumnRef,
    Comparison,
    Expression,
    GroupBy,
    Join,
    Literal,
    Node,
    Or,
    Query,
    Scan,
    SetOperation,
    Window,
)
from weir.algebra.rebuild import map_expressions, rebuild, rebuild_node, scans
from weir.algebra.schema import Kind

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def reordered(query: Query, rng: random.Random) -> Query:
    """The same answer, another order of everything that commutes, sources renumbered."""
    root = map_expressions(query.root, lambda e: rebuild(e, lambda part: _reordered(part, rng)))
    root = rebuild_node(root, lambda n: _reordered_node(n, rng))
    place = {scan.source: i for i, scan in enumerate(scans(root))}

    def column(e: Expression) -> Expression:
        return replace(e, source=place[e.source]) if isinstance(e, ColumnRef) else e

    def scan(n: Node) -> Node:
        return replace(n, source=place[n.source], alias=f"x{place[n.source]}") if isinstance(n, Scan) else n

    root = rebuild_node(map_expressions(root, lambda e: rebuild(e, column)), scan)
    return replace(query, root=root, sources=scans(root))


def _reordered(e: Expression, rng: random.Random) -> Expression:
    if isinstance(e, (And, Or)):
        args = list(e.args)
        rng.shuffle(args)
        if len(args) > 2 and rng.random() < 0.3:  # parentheses that mean nothing
            return replace(e, args=(args[0], replace(e, args=tuple(args[1:]))))
        return replace(e, args=tuple(args))
    if rng.random() < 0.5:
        if isinstance(e, Comparison):
            return Comparison(_FLIPPED[e.op], e.right, e.left)
        if isinstance(e, Arithmetic) and e.op in "+*" and e.left.type.is_numeric and e.right.type.is_numeric:
            return replace(e, left=e.right, right=e.left)
    return e


def _reordered_node(node: Node, rng: random.Random) -> Node:
    if isinstance(node, Join):
        children = list(node.children)
        rng.shuffle(children)
        return replace(node, children=tuple(children))
    if isinstance(node, GroupBy):
        keys = list(node.keys)
        rng.shuffle(keys)
        return replace(node, keys=tuple(keys))
    same_names = isinstance(node, SetOperation) and _names(node.left) == _names(node.right)
    if isinstance(node, SetOperation) and node.kind != "except" and same_names and rng.random() < 0.5:
        return replace(node, left=node.right, right=node.left)
    return node


def _names(node: Node) -> tuple[str, ...]:
    while not hasattr(node, "columns"):
        node = node.left if isinstance(node, SetOperation) else node.child  # type: ignore[union-attr]  # no Scan or Join is met here
    return tuple(name for name, _ in node.columns)


def with_other_constants(query: Query, rng: random.Random) -> Query:
    """Every literal replaced by another one of its type, equal ones by equal ones (grouping keys must still match)."""
    known: dict[Literal, Literal] = {}

    def other(e: Expression) -> Expression:
        if isinstance(e, Literal):
            return known.setdefault(e, _other(e, rng))
        return e

    def window(node: Node) -> Node:
        if not isinstance(node, Scan):
            return node
        w = node.window
        begin = w.begin and replace(w.begin, offset_us=other(w.begin.offset_us))
        end = w.end and replace(w.end, offset_us=other(w.end.offset_us))
        rows = w.rows and other(w.rows)
        return replace(node, window=Window(begin, end, rows))  # type: ignore[arg-type]  # a literal stays one

    root = rebuild_node(map_expressions(query.root, lambda e: rebuild(e, other)), window)
    return replace(query, root=root, sources=scans(root))


def _other(constant: Literal, rng: random.Random) -> Literal:
    if rng.random() < 0.2:
        return Literal(None, constant.type)
    if constant.type.kind in (Kind.BIGINT, Kind.INT, Kind.INTERVAL, Kind.TIMESTAMP):
        return Literal(rng.randrange(1, 10**6), constant.type)
    if constant.type.kind is Kind.DOUBLE:
        return Literal(rng.random(), constant.type)
    if constant.type.kind is Kind.STRING:
        return Literal(rng.choice(["", "x", "it's", "%"]), constant.type)
    return constant
