"""ORDER BY, LIMIT and OFFSET: the order of an answer, and how much of it is shown.

Of one SELECT, an item is a column of the answer or any other expression over its rows, which becomes a column that is
not shown. Of several queries together it is a column of their answer, by name or place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Direction, Expression, Node
from weir.algebra.schema import BIGINT, Column, DataType, Kind
from weir.sql import types
from weir.sql.expressions import Expressions
from weir.sql.types import TAKE_A_PART

Keys = tuple[tuple[int, Direction], ...]  # places of columns, and how each sorts


def order_of_rows(
    e: Expressions, node: exp.Select, columns: Sequence[tuple[str, Expression]]
) -> tuple[Keys, list[Expression]]:
    """Each item of a SELECT's ORDER BY as a column of the answer, or as one that is not shown."""
    order = node.args.get("order")
    keys: list[tuple[int, Direction]] = []
    hidden: list[Expression] = []
    shown = [value for _, value in columns]
    if _is_all(order):
        return _all_places(e, [Column(name, value.type) for name, value in columns], order), []
    e.aliases = {name.lower(): value for name, value in columns}
    e.aliases_first = True
    for item in order.expressions if order is not None else ():
        place = _place(e, item.this, [name for name, _ in columns])
        if place is None:
            value = e.value(item.this)
            if isinstance(value, nodes.Literal):
                continue  # the same for every row
            everything = [*shown, *hidden]
            if value not in everything:
                hidden.append(value)
                everything.append(value)
            place = everything.index(value)
        _check_ordered(e, [*shown, *hidden][place].type, item)
        keys.append((place, direction_of(item)))
    e.aliases, e.aliases_first = {}, False
    return tuple(keys), hidden


def ordered(e: Expressions, node: exp.Expr, root: Node, output: tuple[Column, ...]) -> Node:
    """A whole answer in the order that stands behind it, and cut: by names and places of its columns."""
    order = node.args.get("order")
    keys: list[tuple[int, Direction]] = []
    if _is_all(order):
        return cut(e, node, root, _all_places(e, output, order), 0)
    for item in order.expressions if order is not None else ():
        place = _place(e, item.this, [c.name for c in output])
        if place is None:
            raise e.fail(
                "ORDER BY of several queries takes columns of the answer",
                item.this,
                f"columns: {', '.join(c.name for c in output)}",
            )
        _check_ordered(e, output[place].type, item)
        keys.append((place, direction_of(item)))
    return cut(e, node, root, tuple(keys), 0)


def cut(e: Expressions, node: exp.Expr, root: Node, keys: Keys, hidden: int) -> Node:
    """Rows in the order of their keys, from OFFSET on at most LIMIT; the last `hidden` columns are not shown."""
    limit, offset = (_count(e, node, name) for name in ("limit", "offset"))
    if not keys and limit is None and offset is None:
        return root
    return nodes.Ordered(root, keys, limit, offset, hidden)


def direction_of(item: exp.Expr) -> Direction:
    """How an item of ORDER BY sorts: Spark's NULLs come first ascending, and last descending."""
    descending = bool(item.args.get("desc"))
    given = item.args.get("nulls_first")
    return Direction(descending, (not descending) if given is None else bool(given))


def _is_all(order: exp.Expr | None) -> bool:
    """ORDER BY ALL, where ALL is a word of its own and no column."""
    return order is not None and len(order.expressions) == 1 and isinstance(order.expressions[0].this, exp.Var)


def _all_places(e: Expressions, columns: Sequence[Column], order: exp.Expr | None) -> Keys:
    """ORDER BY ALL: by every column, from left to right."""
    assert order is not None
    for column in columns:
        _check_ordered(e, column.type, order.expressions[0])
    return tuple((place, direction_of(order.expressions[0])) for place in range(len(columns)))


def _place(e: Expressions, node: exp.Expr, names: Sequence[str]) -> int | None:
    """The column of an answer that an item of ORDER BY names or counts."""
    if isinstance(node, exp.Literal) and not node.is_string:
        if not (node.this.isascii() and node.this.isdigit()) or not 1 <= int(node.this[:9]) <= len(names):
            raise e.fail(f"ORDER BY {node.this[:20]} points at no column of the answer (1 to {len(names)})", node)
        return int(node.this) - 1
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.table:
        folded = [n.lower() for n in names]
        if folded.count(node.name.lower()) == 1:
            return folded.index(node.name.lower())
    return None


def _check_ordered(e: Expressions, type_: DataType, item: exp.Expr) -> None:
    if type_.kind is Kind.PAYLOAD:
        raise e.fail(f"ORDER BY does not take {type_}", item.this, TAKE_A_PART)


def _count(e: Expressions, node: exp.Expr, clause: str) -> nodes.Literal | nodes.Param | None:
    """The number of rows that LIMIT or OFFSET says."""
    given = node.args.get(clause)
    if given is None:
        return None
    if not isinstance(given, (exp.Limit, exp.Offset)):
        raise e.fail("FETCH is not part of the language", given, "write LIMIT")
    e.only(given, {"expression"})
    if isinstance(given.expression, exp.Column) and given.expression.name.lower() == "all":
        return None
    count = e.lower(given.expression, BIGINT)
    if types.is_open(count):
        count = types.with_type(count, BIGINT)
    whole = isinstance(count, (nodes.Literal, nodes.Param)) and count.type.kind in types.WHOLE
    if not whole or (isinstance(count, nodes.Literal) and (not isinstance(count.value, int) or count.value < 0)):
        raise e.fail(f"{clause.upper()} takes a number of rows", given, f"write {clause.upper()} 10")
    assert isinstance(count, (nodes.Literal, nodes.Param))
    return replace(count, type=BIGINT)
