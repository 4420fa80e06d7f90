"""Queries inside expressions: those that stand for a value, EXISTS, and IN.

`Expressions.subquery` lowers the query itself; it may look at the columns of the query around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from weir.algebra.nodes import ColumnRef, Expression, Literal, Ordered, Param, Subquery
from weir.algebra.schema import BOOLEAN, Column, DataType
from weir.sql import types
from weir.sql.expressions import Expressions, Methods, bare


def _scalar(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    query, output = e.subquery(node)
    _one_column(e, output, node)
    return Subquery("scalar", query, (), output[0].type)


def _one_column(e: Expressions, output: Sequence[Column], node: exp.Expr) -> None:
    if len(output) != 1:
        raise e.fail(f"a subquery that stands for a value has one column, this one has {len(output)}", node)


def _exists(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    inner = node.this
    if not isinstance(inner, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise e.refused(node)
    query, _output = e.subquery(inner)
    if isinstance(query, Ordered) and query.offset is None and _is_positive(query.limit):
        query = query.child  # whether there is a row does not depend on how many are shown
    return Subquery("exists", query, (), BOOLEAN)


def _is_positive(limit: Literal | Param | None) -> bool:
    return limit is None or (isinstance(limit, Literal) and isinstance(limit.value, int) and limit.value > 0)


def in_query(e: Expressions, node: exp.Expr) -> Expression:
    """x IN (SELECT …), (x, y) IN (SELECT …)."""
    arg = bare(node.this)
    given = arg.expressions if isinstance(arg, exp.Tuple) else [arg]
    query, output = e.subquery(node.args["query"])
    if len(given) == 1:
        _one_column(e, output, node.args["query"])
    if len(output) != len(given):
        raise e.fail(f"IN compares {len(given)} values with a subquery of {len(output)} columns", node.args["query"])
    args: list[Expression] = []
    for part, column in zip(given, output, strict=True):
        left = e.lower(part, column.type)
        aligned, _ = types.align(left, ColumnRef(-1, column.name, column.type))
        args.append(aligned)
    return Subquery("in", query, tuple(args), BOOLEAN)


SUBQUERIES: Methods = {exp.Subquery: _scalar, exp.Exists: _exists}
