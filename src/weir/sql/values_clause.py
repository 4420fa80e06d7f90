"""VALUES in FROM: rows that stand in the query itself."""

from __future__ import annotations

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Expression, Node
from weir.algebra.schema import Column
from weir.sql import types
from weir.sql.expressions import Expressions
from weir.sql.scope import Scope


def values(e: Expressions, node: exp.Values) -> tuple[Node, tuple[Column, ...]]:
    """VALUES (…), (…): a SELECT without FROM for each row, in the types that hold all of them."""
    rows = [list(r.expressions) if isinstance(r, exp.Tuple) else [r] for r in node.expressions]
    if any(len(row) != len(rows[0]) for row in rows):
        raise e.fail("the rows of VALUES have equally many values", node)
    kept = e.enter(Scope(), exp.Select())
    columns: list[list[Expression]] = []
    for k in range(len(rows[0])):
        column = [e.lower(row[k]) for row in rows]
        try:
            columns.append(types.alike(column))
        except types.MismatchError as wrong:
            raise e.fail(f"column {k + 1} of VALUES: {wrong}", node, wrong.hint) from None
    e.leave(kept)
    names = [f"col{k + 1}" for k in range(len(columns))]
    made: list[Node] = [
        nodes.Project(nodes.OneRow(), tuple(zip(names, row, strict=True))) for row in zip(*columns, strict=True)
    ]
    return nodes.together(made), tuple(Column(n, c[0].type) for n, c in zip(names, columns, strict=True))
