"""The parts of a selection: one stream, a predicate, a projection."""

from __future__ import annotations

from weir.algebra.nodes import Expression, Project, Query, Scan, Select


def parts_of(query: Query) -> tuple[Scan, Expression | None, tuple[tuple[str, Expression], ...]]:
    """Scan, predicate (None: every row) and output columns of a query that the selection family takes."""
    root = query.root
    assert isinstance(root, Project), "a selection is a projection"
    child = root.child
    if isinstance(child, Select):
        assert isinstance(child.child, Scan), "of one source"
        return child.child, child.predicate, root.columns
    assert isinstance(child, Scan), "of one source"
    return child, None, root.columns
