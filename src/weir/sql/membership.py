"""IN: `x IN (1, 2)`, `(x, y) IN ((1, 2), (3, 4))`, and lists of any length.

Short lists are written out as equalities; long ones and list parameters are sets (`sql/sets`).
"""

from __future__ import annotations

from sqlglot import exp

from weir.algebra.nodes import Expression, Literal, conjunction, disjunction
from weir.algebra.schema import STRING, DataType, Kind
from weir.sql import types
from weir.sql.conditions import compare
from weir.sql.constants import number
from weir.sql.expressions import Expressions, Methods, bare
from weir.sql.sets import SMALL, list_parameter, long_lists
from weir.sql.subqueries import in_query


def _in(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    if node.args.get("query") is not None:
        return in_query(e, node)
    if isinstance(bare(node.this), exp.Tuple):
        return _in_tuples(e, node)
    if not node.expressions or any(node.args.get(k) for k in ("unnest", "field")):
        raise e.fail("IN takes a list of values", node, "write it as a join if the values are in a stream")
    lists = [v for v in node.expressions if _is_list(e, v)]
    if not lists and len(node.expressions) <= SMALL:
        return disjunction([compare(e, "=", node.this, v) for v in node.expressions])
    rest = [v for v in node.expressions if not _is_list(e, v)]
    arg = e.lower(node.this)
    if types.is_constant(arg):
        raise e.fail("IN of a long list takes a column or an expression of columns", node, "write it the other way")
    found: list[Expression] = []
    for v in lists:
        if v.name in e.lists:
            found += long_lists(arg, [_constant(e, node, *of) for of in e.lists[v.name]])
        else:
            found.append(list_parameter(arg, v.name, e.param_types[v.name]))
    if len(rest) > SMALL:
        lowered = [(v, e.lower(v, arg.type)) for v in rest]
        constants = [value for _, value in lowered if isinstance(value, Literal)]
        if len(constants) > SMALL:
            found += long_lists(arg, constants)
            rest = [v for v, value in lowered if not isinstance(value, Literal)]
    return disjunction([*found, *(compare(e, "=", node.this, v) for v in rest)])


def _in_tuples(e: Expressions, node: exp.Expr) -> Expression:
    """(a, b) IN ((1, 2), (3, 4))"""
    sides = bare(node.this).expressions
    ways: list[Expression] = []
    for item in node.expressions:
        values = item.expressions if isinstance(item, exp.Tuple) else ()
        if len(values) != len(sides):
            raise e.fail(f"IN compares {len(sides)} values with {len(values) or 1}", item)
        ways.append(conjunction([compare(e, "=", a, b) for a, b in zip(sides, values, strict=True)]))
    return disjunction(ways)


def _is_list(e: Expressions, node: exp.Expr) -> bool:
    if not isinstance(node, exp.Placeholder):
        return False
    given = e.param_types.get(node.name)
    return node.name in e.lists or (given is not None and given.kind is Kind.LIST)


def _constant(e: Expressions, node: exp.Expr, is_text: bool, text: str) -> Literal:
    return Literal(text, STRING) if is_text else number(e, text, node)


MEMBERSHIP: Methods = {exp.In: _in}
