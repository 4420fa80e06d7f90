"""Conditions: comparisons, AND, OR and NOT, BETWEEN, IS and LIKE.

BETWEEN is written out as two comparisons. Chains of AND and OR are flattened with a loop, so a list of thousands of
terms needs no deep stack.
"""

from __future__ import annotations

from sqlglot import exp

from weir.algebra.fold import fold_one
from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import (
    ColumnRef,
    Comparison,
    Expression,
    IsNull,
    Like,
    Literal,
    Not,
    Param,
    conjunction,
    disjunction,
)
from weir.algebra.schema import BOOLEAN, STRING, DataType, Kind
from weir.sql import types
from weir.sql.arguments import call, text_operand
from weir.sql.expressions import Expressions, Methods, bare
from weir.sql.types import MismatchError

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def _comparison(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return compare(e, _COMPARISONS[type(node)], node.this, node.expression)


def compare(e: Expressions, op: str, left_node: exp.Expr, right_node: exp.Expr) -> Expression:
    """`left op right`, with both sides brought to one type."""
    # The side without parameters goes first: its type is what a parameter in the other one may need.
    if e.params and left_node.find(exp.Placeholder) is not None and right_node.find(exp.Placeholder) is None:
        right = e.lower(right_node)
        left = e.lower(left_node, None if types.is_open(right) else right.type)
    else:
        left = e.lower(left_node)
        right = e.lower(right_node, None if types.is_open(left) else left.type)
    if all(types.is_open(side) and isinstance(side, Literal) for side in (left, right)):
        return Literal(None, BOOLEAN)
    try:
        left, right = types.align(left, right)
    except MismatchError as wrong:
        # A constant is more likely the mistake than a column.
        at = right_node if isinstance(right, Literal) else left_node
        raise e.fail(str(wrong), at, wrong.hint) from None
    return Comparison(op, left, right)


def aligned(e: Expressions, left_node: exp.Expr, right_node: exp.Expr) -> tuple[Expression, Expression]:
    """Both sides of <=> in one type; NULL <=> NULL has no type to find."""
    left, right = e.lower(left_node), e.lower(right_node)
    if types.is_open(left) and types.is_open(right):
        return types.with_type(left, BOOLEAN), types.with_type(right, BOOLEAN)
    return types.align(left, right)


def _not(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return Not(e.truth(e.lower(node.this, BOOLEAN), node.this, "NOT"))


def _connective(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    kind = type(node)
    terms: list[exp.Expr] = []
    stack: list[exp.Expr] = [node]
    while stack:
        part = bare(stack.pop())
        if isinstance(part, kind):
            stack.append(part.expression)
            stack.append(part.this)
        else:
            terms.append(part)
    word = "AND" if kind is exp.And else "OR"
    args = [e.truth(e.lower(t, BOOLEAN), t, word) for t in terms]
    return conjunction(args) if kind is exp.And else disjunction(args)


def _between(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    if node.args.get("symmetric"):
        raise e.fail("BETWEEN SYMMETRIC is not part of the language", node, "order the bounds")
    low = compare(e, ">=", node.this, node.args["low"])
    high = compare(e, "<=", node.this, node.args["high"])
    return conjunction([low, high])


def _is(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    if isinstance(node.expression, exp.Boolean):
        return _is_truth(e, node, bool(node.expression.this))
    if not isinstance(node.expression, exp.Null):
        raise e.fail("IS takes NULL, TRUE, FALSE or UNKNOWN", node, "write = or <=>")
    arg = e.lower(node.this)
    if types.is_open(arg):
        if isinstance(arg, Param):
            raise e.untyped(arg.name)
        arg = types.with_type(arg, BOOLEAN)
    return Not(IsNull(arg)) if node.args.get("negate") else IsNull(arg)


def _is_truth(e: Expressions, node: exp.Expr, wanted: bool) -> Expression:
    """x IS TRUE is never NULL; a plain column is written out, so that an index can use it."""
    arg = e.truth(e.lower(node.this, BOOLEAN), node.this, "IS TRUE")
    if isinstance(arg, ColumnRef):
        found = conjunction([arg if wanted else Not(arg), Not(IsNull(arg))])
    else:
        known = call(e, SIGNATURES["coalesce"], [arg, Literal(not wanted, BOOLEAN)], node, BOOLEAN)
        found = fold_one(known) if wanted else fold_one(Not(fold_one(known)))
    return Not(found) if node.args.get("negate") else found


def _like(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    found = like(e, node.this, node.expression, node)
    return Not(found) if node.args.get("negate") else found


def like(e: Expressions, text: exp.Expr, pattern_node: exp.Expr, node: exp.Expr) -> Expression:
    """`text LIKE pattern`."""
    arg = text_operand(e, text, "LIKE", node)
    pattern = e.typed(pattern_node, STRING)
    if isinstance(pattern, (Literal, Param)) and pattern.type.kind is Kind.STRING:
        return Like(arg, pattern)
    if isinstance(pattern, (Literal, Param)):
        raise e.fail("the pattern of LIKE is a text", node, "write LIKE 'a%'")
    return call(e, SIGNATURES["like_of"], [arg, pattern], node, BOOLEAN)


CONDITIONS: Methods = {
    exp.Not: _not,
    exp.And: _connective,
    exp.Or: _connective,
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    **dict.fromkeys(_COMPARISONS, _comparison),
}
