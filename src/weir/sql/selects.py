"""One SELECT → algebra: `lower_select`.

It becomes Project, or GroupBy, over a Join of its sources (the WHERE and all ON conditions are one predicate), or over
a Select of its only source; DISTINCT, ORDER BY and LIMIT stand above. Clauses are lowered in the order in which names
come to mean something: FROM, WHERE, the word of a window, the select list, and then what may use its aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.fold import fold_one
from weir.algebra.nodes import ColumnRef, Expression, Node
from weir.algebra.schema import Column
from weir.sql.derived import nameless
from weir.sql.expressions import Expressions
from weir.sql.from_clause import FromClause, Surroundings, refuse_aggregates
from weir.sql.group_clause import grouped
from weir.sql.order_clause import cut, order_of_rows
from weir.sql.scope import Scope
from weir.sql.select_list import select_list
from weir.sql.set_operations import check_comparable
from weir.sql.stretches import Stretch
from weir.sql.time_windows import calls_in, time_window


def lower_select(around: Surroundings, node: exp.Select, outer: Scope | None) -> tuple[Node, tuple[Column, ...]]:
    """The answer of a SELECT, and its columns; `outer` is the scope of a query around it that it may look at."""
    e = around.expressions
    scope = Scope(outer=outer)
    kept = e.enter(scope, node)
    if node.args.get("from_") is None:
        inputs: tuple[Node, ...] = (nodes.OneRow(),)
        conditions: list[Expression] = []
    else:
        inputs, conditions = FromClause(around, scope).lower(node)
    where = node.args.get("where")
    if where is not None:
        condition = e.condition(where.this, "WHERE")
        refuse_aggregates(e, condition, where, "WHERE")
        conditions.append(condition)
    window = next(calls_in(node), None)
    if window is not None:
        stretch = time_window(e, window, around.number)
        _refuse_other_windows(e, node, window)
        e.stretch = Stretch(window.name.lower(), stretch.begin, stretch.end)
        inputs, conditions = (*inputs, *stretch.sources), [*conditions, *stretch.conditions]
    child = _joined(inputs, conditions)
    columns = select_list(e, node)
    keys, hidden = order_of_rows(e, node, columns)
    qualify = node.args.get("qualify")
    if qualify is None:
        root = grouped(e, node, child, columns, hidden, around.number)
    else:
        with_condition = [*hidden, _qualification(e, qualify, columns)]
        root = _qualified(grouped(e, node, child, columns, with_condition, around.number), around.number)
    distinct = node.args.get("distinct")
    if distinct is not None:
        e.only(distinct, set())
        check_comparable(e, "SELECT DISTINCT", [Column(name, value.type) for name, value in columns], node)
        if hidden:
            raise e.fail(
                "ORDER BY of SELECT DISTINCT takes columns of the answer", node.args["order"], "add it to the list"
            )
        root = nodes.Distinct(root)
    root = cut(e, node, root, keys, len(hidden))
    e.leave(kept)
    return root, tuple(Column(name, value.type) for name, value in columns)


def _refuse_other_windows(e: Expressions, node: exp.Select, window: exp.Anonymous) -> None:
    for other in calls_in(node):
        if other != window:
            raise e.fail("a SELECT has one window()", other, "put the other one into a query in FROM")


def _joined(inputs: tuple[Node, ...], conditions: Sequence[Expression]) -> Node:
    predicate = fold_one(nodes.conjunction(conditions)) if conditions else None
    if len(inputs) > 1:
        return nodes.Join(inputs, predicate)
    return inputs[0] if predicate is None else nodes.Select(inputs[0], predicate)


def _qualification(e: Expressions, qualify: exp.Expr, columns: Sequence[tuple[str, Expression]]) -> Expression:
    """The condition of QUALIFY, which may use names of the select list."""
    e.aliases = {name.lower(): value for name, value in columns}
    condition = e.condition(qualify.this, "QUALIFY")
    e.aliases = {}
    return condition


def _qualified(inner: Node, number: Callable[[], int]) -> Node:
    """QUALIFY is a condition around a query in FROM; it is the last of the hidden columns."""
    derived = nameless(inner, number)
    refs = [ColumnRef(derived.source, c.name, c.type) for c in derived.columns]
    return nodes.Project(nodes.Select(derived, refs[-1]), tuple((ref.name, ref) for ref in refs[:-1]))
