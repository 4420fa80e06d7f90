"""Arithmetic of numbers, dates, timestamps and lengths of time: `calculation`, `negation`.

A parameter without a type takes it from the operand beside it. Months and years have no fixed length: a date or a
timestamp is moved by them by the calendar, with a function.
"""

from __future__ import annotations

import re

from sqlglot import exp

from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import Arithmetic, Call, Expression, Literal, Negate, Param
from weir.algebra.schema import BIGINT, DATE, DOUBLE, INTERVAL, STRING, TIMESTAMP, DataType, Kind
from weir.sql import literals, types
from weir.sql.arguments import call
from weir.sql.expressions import Expressions, Methods, bare

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_MONTHS = {"MONTH": 1, "YEAR": 12}


def _negate(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    if isinstance(node.this, exp.Literal) and node.this.is_number and node.this.this == str(-literals.INT64_MIN):
        return Literal(literals.INT64_MIN, BIGINT)  # its digits alone are beyond the bigints
    return negation(e, node.this, wanted)


def negation(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    """Minus a number or an interval."""
    operand = e.lower(node, wanted)
    if types.is_open(operand):
        if isinstance(operand, Param):
            raise e.untyped(operand.name)
        operand = types.with_type(operand, wanted or DOUBLE)
    if not (operand.type.is_numeric or operand.type.kind is Kind.INTERVAL):
        raise e.fail(f"'-' takes a number, got {types.described(operand)}", node, "leave the sign out")
    if isinstance(operand, Literal) and operand.value is not None:
        return literals.negate(operand)
    return Negate(operand, BIGINT if operand.type.kind is Kind.INT else operand.type)


def _arithmetic(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    return calculation(e, _OPERATORS[type(node)], node.this, node.expression, wanted)


def calculation(
    e: Expressions, op: str, left_node: exp.Expr, right_node: exp.Expr, wanted: DataType | None
) -> Expression:
    """`left op right`, for the operators and the functions that are called like them."""
    left_node, right_node = bare(left_node), bare(right_node)
    moved = _moved_by_months(e, op, left_node, right_node)
    if moved is not None:
        return moved
    # A bare parameter takes its type from the operand beside it, one further inside from what is wanted here.
    left = e.lower(left_node, None if isinstance(left_node, exp.Placeholder) else wanted)
    right = e.lower(right_node, None if isinstance(right_node, exp.Placeholder) else wanted)
    if types.is_open(left) and types.is_open(right):
        left = e.closed(left, wanted if wanted is not None and wanted.is_numeric else None)
    if types.is_open(left):
        left = e.closed(left, _partner(op, right.type, wanted, left=True))
    elif types.is_open(right):
        right = e.closed(right, _partner(op, left.type, wanted, left=False))
    if op in "+-" and left.type.kind is Kind.DATE and _counts_days(right):
        return Call("date_add" if op == "+" else "date_sub", (left, right), DATE)
    if op == "+" and right.type.kind is Kind.DATE and _counts_days(left):
        return Call("date_add", (right, left), DATE)
    left, right, type_ = types.arithmetic(op, left, right)
    return Arithmetic(op, left, right, type_)


def _moved_by_months(e: Expressions, op: str, left: exp.Expr, right: exp.Expr) -> Expression | None:
    """A date or a timestamp, months or years later or earlier; None if no such interval stands here."""
    if op == "+" and _months(left) is not None:
        left, right = right, left
    months = _months(right) if op in "+-" else None
    if months is None:
        return None
    time = e.lower(left, TIMESTAMP)
    count = Literal(months if op == "+" else -months, BIGINT)
    if time.type.kind is Kind.DATE:
        return call(e, SIGNATURES["add_months"], [time, count], left, DATE)
    if time.type == TIMESTAMP and not types.is_open(time):
        return call(e, SIGNATURES["timestampadd"], [Literal("month", STRING), count, time], left, TIMESTAMP)
    return None


def _months(node: exp.Expr) -> int | None:
    """How many months INTERVAL 1 YEAR 2 MONTHS has; None of what is no such interval."""
    node = bare(node)
    if isinstance(node, exp.Add) and isinstance(node.this, exp.Interval):
        parts = [_months(part) for part in (node.this, node.expression)]
        return None if None in parts else sum(part for part in parts if part is not None)
    if not isinstance(node, exp.Interval):
        return None
    count, sign = node.this, 1
    if isinstance(count, exp.Neg):
        count, sign = count.this, -1
    words = count.name.split() if isinstance(count, exp.Literal) else []
    if node.args.get("unit") is not None:
        words.append(node.args["unit"].name)
    total = 0
    for number, word in zip(words[::2], words[1::2], strict=False):
        size = _MONTHS.get(word.upper().removesuffix("S"))
        if size is None or not re.fullmatch(r"[+-]?\d{1,6}", number):
            return None
        total += sign * size * int(number)
    return total if words and len(words) % 2 == 0 else None


def _counts_days(e: Expression) -> bool:
    """Whether it is a number that moves a date; a parameter beside a date is a length of time."""
    return e.type.kind in types.WHOLE and not isinstance(e, Param)


def _partner(op: str, met: DataType, wanted: DataType | None, *, left: bool) -> DataType | None:
    """The type of a parameter that stands in arithmetic with a value of type `met`."""
    if met.kind in types.TIMES:
        if op == "-" and (left or (wanted is not None and wanted.kind is Kind.INTERVAL)):
            return TIMESTAMP
        return INTERVAL
    if met.kind is Kind.INTERVAL:
        return wanted if wanted is not None and wanted.kind in (*types.TIMES, Kind.INTERVAL) else None
    if wanted is not None and wanted.is_numeric:
        return types.slot_type(wanted)
    return types.slot_type(met)


ARITHMETIC: Methods = {exp.Neg: _negate, **dict.fromkeys(_OPERATORS, _arithmetic)}
