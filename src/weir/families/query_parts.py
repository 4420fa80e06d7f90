"""The parts of a query without aggregates: its sources, a condition, a projection."""

from __future__ import annotations

from collections import Counter

from weir.algebra.nodes import ColumnRef, Expression, Join, Project, Query, Scan, Select, walk
from weir.index.strategies import MADE_OF

WIDE = 3  # columns of one source from which on a predicate is about many attributes


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


def join_of(query: Query) -> Join:
    """The join of a query that a family of joins takes."""
    assert isinstance(query.root, Project), "a join of streams is a projection"
    assert isinstance(query.root.child, Join), "of a join"
    return query.root.child


def condition_of(query: Query) -> Expression | None:
    """WHERE and ON together; None: every row, or every combination of rows."""
    root = query.root
    assert isinstance(root, Project), "it has no aggregates"
    return root.child.predicate if isinstance(root.child, (Join, Select)) else None


def width_of(predicate: Expression | None) -> int:
    """How many columns of one source a predicate looks at, at most."""
    columns = {(e.source, e.name) for e in walk(predicate) if isinstance(e, ColumnRef)} if predicate is not None else ()
    return max(Counter(source for source, _ in columns).values(), default=0)


def kernels_of(strategy: str, predicate: Expression | None) -> frozenset[str]:
    """The kernels that boxes of a predicate are searched with; a tree is chosen only if it has many attributes."""
    kinds = frozenset(MADE_OF.get("by-batch" if strategy == "auto" else strategy, (strategy,)))
    return kinds | {"rtree"} if strategy == "auto" and width_of(predicate) >= WIDE else kinds


def columns_of(query: Query) -> tuple[tuple[str, Expression], ...]:
    """The output columns."""
    assert isinstance(query.root, Project), "it has no aggregates"
    return query.root.columns
