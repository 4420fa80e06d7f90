"""An answer as a source of the query around it: its columns, and its rows under a name that no text has."""

from __future__ import annotations

from collections.abc import Callable

from weir.algebra import nodes
from weir.algebra.nodes import Derived, Node
from weir.algebra.schema import Column


def columns_named(node: Node) -> tuple[Column, ...]:
    """The columns of an answer, by name and type."""
    if isinstance(node, (nodes.Project, nodes.GroupBy)):
        return tuple(Column(name, e.type) for name, e in node.columns)
    if isinstance(node, nodes.Distinct):
        return columns_named(node.child)
    if isinstance(node, nodes.Ordered):
        shown = columns_named(node.child)
        return shown[: len(shown) - node.hidden]
    assert isinstance(node, nodes.SetOperation), "an answer is made by these"
    return columns_named(node.left)


def nameless(node: Node, number: Callable[[], int]) -> Derived:
    """The rows of an answer; `number` gives a new source's number."""
    source = number()
    return Derived(source, node, f"_q{source}", columns_named(node))
