"""UNION, EXCEPT and INTERSECT: two answers as one, in types that hold both: `combined`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import ColumnRef, Node
from weir.algebra.schema import NULL, Column, DataType, Kind
from weir.sql import types
from weir.sql.derived import columns_named, nameless
from weir.sql.expressions import Expressions
from weir.sql.types import TAKE_A_PART

_KINDS: dict[type[exp.Expr], str] = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}
_Answer = tuple[Node, tuple[Column, ...]]


def combined(
    e: Expressions, node: exp.SetOperation, left: _Answer, right: _Answer, number: Callable[[], int]
) -> _Answer:
    """The answer of a set operation over two answers."""
    kind = _KINDS[type(node)]
    if len(left[1]) != len(right[1]):
        raise e.fail(
            f"{kind.upper()} takes queries with equally many columns, got {len(left[1])} and {len(right[1])}",
            node.expression,
        )
    output: list[Column] = []
    for i, (a, b) in enumerate(zip(left[1], right[1], strict=True)):
        type_ = types.united(*(NULL if _is_null(side, i) else c.type for side, c in ((left[0], a), (right[0], b))))
        type_ = a.type if type_ == NULL else type_
        if type_ is None:
            raise e.fail(
                f"column {i + 1} of {kind.upper()} is {a.type} ('{a.name}') on the left and {b.type} ('{b.name}') "
                "on the right",
                node.expression,
                _conversion(a, b),
            )
        output.append(Column(a.name, type_))
    wanted = [c.type for c in output]
    all_ = not node.args.get("distinct")
    if kind != "union" or not all_:
        check_comparable(e, kind.upper(), output, node)
    operands = [_in_types(side, wanted, number) for side, _ in (left, right)]
    return nodes.SetOperation(kind, all_, *operands), tuple(output)


def check_comparable(e: Expressions, word: str, columns: Sequence[Column], node: exp.Expr) -> None:
    """Rows with payloads are not compared."""
    payload = next((c for c in columns if c.type.kind is Kind.PAYLOAD), None)
    if payload is not None:
        raise e.fail(f"{word} does not compare '{payload.name}' ({payload.type})", node, TAKE_A_PART)


def _in_types(node: Node, wanted: list[DataType], number: Callable[[], int]) -> Node:
    """The same rows in the wanted types; casts that may make rows equal go above what compares them."""
    have = [c.type for c in columns_named(node)]
    if have == wanted:
        return node
    if isinstance(node, (nodes.Project, nodes.GroupBy)):
        columns = tuple(
            (name, e if e.type == t else types.cast(e, t)) for (name, e), t in zip(node.columns, wanted, strict=True)
        )
        return replace(node, columns=columns)
    if all(types.is_injective(a, b) for a, b in zip(have, wanted, strict=True)):
        if isinstance(node, nodes.Distinct):
            return replace(node, child=_in_types(node.child, wanted, number))
        if isinstance(node, nodes.SetOperation):
            left, right = (_in_types(side, wanted, number) for side in (node.left, node.right))
            return replace(node, left=left, right=right)
    derived = nameless(node, number)
    refs = (ColumnRef(derived.source, c.name, c.type) for c in derived.columns)
    shown = tuple((e.name, e if e.type == t else types.cast(e, t)) for e, t in zip(refs, wanted, strict=True))
    return nodes.Project(derived, shown)


def _is_null(node: Node, place: int) -> bool:
    """Whether a column of an answer is NULL alone, which has no type of its own."""
    if not isinstance(node, (nodes.Project, nodes.GroupBy)):
        return False
    e = node.columns[place][1]
    return isinstance(e, nodes.Literal) and e.value is None


def _conversion(a: Column, b: Column) -> str:
    """How two columns of a set operation could be brought together."""
    if not (a.type.is_numeric and b.type.is_numeric):
        return "list columns of the same types in the same order"
    narrow = b if a.type.kind is Kind.DOUBLE else a
    return f"convert explicitly: CAST({narrow.name} AS double)"
