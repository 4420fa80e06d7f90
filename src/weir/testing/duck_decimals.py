"""Decimals of the language in DuckDB: their types, and what its own DECIMAL(38) cannot do.

Written from docs/language.md with Python's `decimal`, and in no line shared with `weir.algebra.decimals`. DuckDB raises
an error where a product or a sum leaves 38 digits, and divides doubles; so results of many digits come from functions
in Python, which get the numbers as texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from weir.algebra.schema import DataType, decimal

DIGITS_MAX = 38
_EXACT = Context(prec=1_000, rounding=ROUND_HALF_UP)
_JAVA = Context(prec=39, rounding=ROUND_HALF_UP)  # a product is rounded to so many digits, a quotient to so many places
_PLACES = Decimal(1).scaleb(-39)


def adjusted(precision: int, scale: int) -> DataType:
    """More than 38 digits: those behind the point are given up, but for six of them."""
    if precision > DIGITS_MAX:
        scale = max(DIGITS_MAX - (precision - scale), min(scale, 6))
    return decimal(min(precision, DIGITS_MAX), scale)


def widest(digits: Sequence[tuple[int, int]]) -> DataType:
    """One type for all: those in front of the point are kept first."""
    front, scale = max(p - s for p, s in digits), max(s for _, s in digits)
    front = min(front, DIGITS_MAX)
    scale = min(scale, DIGITS_MAX - front)
    return decimal(front + scale, scale)


def calculated_type(op: str, left: tuple[int, int], right: tuple[int, int]) -> DataType:
    """The type of `left op right`, by precisions and scales."""
    (p1, s1), (p2, s2) = left, right
    if op == "*":
        return adjusted(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(6, s1 + p2 + 1)
        return adjusted(p1 - s1 + s2 + scale, scale)
    front = min(p1 - s1, p2 - s2) if op == "%" else max(p1 - s1, p2 - s2) + 1
    return adjusted(front + max(s1, s2), max(s1, s2))


def calculated(op: str, left: str, right: str, type_: DataType) -> str:
    """SQL of `left op right`, of which both are SQL."""
    texts = f"CAST({left} AS VARCHAR), CAST({right} AS VARCHAR)"
    return _made(f"weir_decimal('{op}', {texts}, {type_.precision}, {type_.scale})", type_)


def compared(op: str, left: str, right: str) -> str:
    """SQL of a comparison of numbers of any scales."""
    return f"(weir_order(CAST({left} AS VARCHAR), CAST({right} AS VARCHAR)) {op} 0)"


def added(texts: str, type_: DataType) -> str:
    """SQL of the sum of a list of texts."""
    return _made(f"weir_sum({texts}, {type_.precision}, {type_.scale})", type_)


def averaged(texts: str, type_: DataType) -> str:
    """SQL of the average of a list of texts."""
    total = f"weir_sum({texts}, 900, 100)"
    return _made(f"weir_decimal('/', {total}, CAST(len({texts}) AS VARCHAR), {type_.precision}, {type_.scale})", type_)


def double(sql: str) -> str:
    """SQL of the nearest double of a decimal; DuckDB's own cast rounds twice."""
    return f"CAST(CAST({sql} AS VARCHAR) AS DOUBLE)"


def _made(sql: str, type_: DataType) -> str:
    return f"CAST({sql} AS DECIMAL({type_.precision},{type_.scale}))"


def add_functions(connection: Any) -> None:  # DuckDB's own type is known only when it is installed
    """The functions that the SQL above calls."""
    kinds: tuple[tuple[str, Any, list[str], str], ...] = (
        ("weir_decimal", _calculate, ["VARCHAR", "VARCHAR", "VARCHAR", "INTEGER", "INTEGER"], "VARCHAR"),
        ("weir_order", _order, ["VARCHAR", "VARCHAR"], "INTEGER"),
        ("weir_sum", _sum, ["VARCHAR[]", "INTEGER", "INTEGER"], "VARCHAR"),
    )
    for name, function, takes, gives in kinds:
        connection.create_function(name, function, takes, gives, null_handling="special")


def _calculate(op: str, a: str | None, b: str | None, precision: int, scale: int) -> str | None:
    if a is None or b is None:
        return None
    x, y = Decimal(a), Decimal(b)
    if op in "/%" and not y:
        return None
    if op == "/":
        found = _EXACT.divide(x, y).quantize(_PLACES, context=_EXACT)
    elif op == "*":
        found = _JAVA.multiply(x, y)
    else:
        found = {"+": _EXACT.add, "-": _EXACT.subtract, "%": _EXACT.remainder}[op](x, y)
    return _fitted(found, precision, scale)


def _fitted(number: Decimal, precision: int, scale: int) -> str | None:
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return f"{rounded:f}" if rounded.copy_abs() < Decimal(10) ** (precision - scale) else None


def _order(a: str | None, b: str | None) -> int | None:
    if a is None or b is None:
        return None
    x, y = Decimal(a), Decimal(b)
    return (x > y) - (x < y)


def _sum(texts: list[str] | None, precision: int, scale: int) -> str | None:
    if not texts:
        return None
    total = Decimal(0)
    for text in texts:
        total = _EXACT.add(total, Decimal(text))
    return _fitted(total, precision, scale)
