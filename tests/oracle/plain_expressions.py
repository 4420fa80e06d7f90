"""A plain twin of the vectorised evaluator: one row at a time, in Python's exact numbers.

Values are int, float, Decimal, str, bool, date, and int µs for timestamps and intervals; None is NULL. Written
from docs/semantics.md, not from the evaluator: numbers are compared as fractions, decimals computed in a
context that never rounds, LIKE matched by recursion over characters.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from tests.oracle import plain_decimals, plain_functions
from weir.algebra.nodes import (
    And,
    Arithmetic,
    Call,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Param,
    walk,
)
from weir.algebra.schema import DataType, Kind

DAY_US = 86_400_000_000
_WIDE = Context(prec=1_500, Emax=10**6, Emin=-(10**6))


def value(e: Expression, row: Mapping[str, Any], constants: Mapping[str, Any]) -> Any:
    """The value of `e` for one row."""
    match e:
        case ColumnRef():
            return row[e.name]
        case Param():
            return constants[e.name]
        case Literal():
            return e.value
        case And():
            parts = [value(a, row, constants) for a in e.args]
            return False if False in parts else None if None in parts else True
        case Or():
            parts = [value(a, row, constants) for a in e.args]
            return True if True in parts else None if None in parts else False
        case Not():
            inner = value(e.arg, row, constants)
            return None if inner is None else not inner
        case IsNull():
            return value(e.arg, row, constants) is None
        case Like():
            text, pattern = value(e.arg, row, constants), value(e.pattern, row, constants)
            return None if text is None or pattern is None else _like(text, _tokens(pattern))
        case Comparison():
            return _compare(e, value(e.left, row, constants), value(e.right, row, constants))
        case Arithmetic():
            return _arithmetic(e, value(e.left, row, constants), value(e.right, row, constants))
        case Negate():
            inner = value(e.arg, row, constants)
            return None if inner is None else _fit(-inner if e.type.kind is Kind.DOUBLE else _minus(inner), e.type)
        case Call():
            return _call(e, [value(a, row, constants) for a in e.args])
        case Cast():
            return _cast(value(e.arg, row, constants), e.arg.type, e.type)
    raise AssertionError(e)


def _call(e: Call, args: list[Any]) -> Any:
    if e.function == "nullif":
        equal = _compare(Comparison("=", e.args[0], e.args[1]), *args)
        return None if equal else args[0]
    if e.function in plain_functions.OF_TIMES:
        args = [plain_functions.instant(_us(x)) if k == len(args) - 1 else x for k, x in enumerate(args)]
    if e.type.kind is Kind.STRING:
        found = plain_functions.value(e.function, args, str.encode)
    else:
        found = plain_functions.value(e.function, args, _rank)
    if isinstance(found, dt.datetime):
        return (found - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return _fit(found, e.type) if found is not None and e.type.is_numeric else found


def _us(x: Any) -> int | None:
    return _days(x) * DAY_US if isinstance(x, dt.date) else x


def _minus(number: Any) -> Any:
    return _WIDE.minus(number) if isinstance(number, Decimal) else -number


def _fit(number: Any, type_: DataType) -> Any:
    """`number` if the type can hold it, else NULL."""
    if type_.kind is Kind.DOUBLE:
        return number
    if type_.kind is Kind.DECIMAL:
        scaled = _WIDE.scaleb(Decimal(number), type_.scale)
        assert scaled == int(scaled), (number, type_)
        return Decimal(number) if scaled.copy_abs() < 10**type_.precision else None
    if type_.kind is Kind.INT:
        return number if -(2**31) <= number < 2**31 else None
    if type_.kind is Kind.DATE:
        return number
    return number if abs(number) < 2**63 else None


def _float(number: Any) -> float:
    return float(number)  # correctly rounded for int and Decimal


def _days(day: dt.date) -> int:
    return (day - dt.date(1970, 1, 1)).days


def _arithmetic(e: Arithmetic, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    kind = e.type.kind
    if kind is Kind.DOUBLE:
        return _double_arithmetic(e.op, _float(a), _float(b))
    if kind is Kind.DATE:
        day, length = (a, b) if isinstance(a, dt.date) else (b, a)
        if length % DAY_US:
            return None
        return day + dt.timedelta(days=length // DAY_US * (1 if e.op == "+" else -1))
    if kind in (Kind.TIMESTAMP, Kind.INTERVAL):
        a, b = (_days(x) * DAY_US if isinstance(x, dt.date) else x for x in (a, b))
    elif isinstance(a, dt.date):
        a, b = _days(a), _days(b)
    if kind is Kind.DECIMAL:
        return plain_decimals.value_of(e.op, a, b, (e.type.precision, e.type.scale))
    if e.op == "%":
        if b == 0:
            return None
        return _fit(abs(a) % abs(b) * (-1 if a < 0 else 1), e.type)
    return _fit({"+": a + b, "-": a - b, "*": a * b}[e.op], e.type)


def _double_arithmetic(op: str, a: float, b: float) -> float | None:
    if op in ("/", "%") and b == 0:
        return None
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if op == "/":
        return a / b
    if math.isnan(a) or math.isnan(b) or math.isinf(a):
        return math.nan
    return math.fmod(a, b)


def _number(x: Any) -> Fraction | float:
    """An exact number; the doubles that are none stay floats."""
    if isinstance(x, dt.date):
        return Fraction(_days(x) * DAY_US)
    if isinstance(x, float) and not math.isfinite(x):
        return x
    return Fraction(x)


def _rank(x: Any) -> tuple[int, Any]:
    """Sorts as the language orders: −∞, numbers, +∞, NaN."""
    number = _number(x)
    if isinstance(number, Fraction):
        return (1, number)
    return (3, 0) if math.isnan(number) else (2, 0) if number > 0 else (0, 0)


def is_constant(e: Expression) -> bool:
    return not any(isinstance(n, ColumnRef) for n in walk(e))


def _compare(e: Comparison, a: Any, b: Any) -> bool | None:
    if a is None or b is None:
        return None
    kinds = (e.left.type.kind, e.right.type.kind)
    if kinds[0] is Kind.STRING:
        x: Any = a.encode()
        y: Any = b.encode()
    elif kinds[0] is Kind.BOOLEAN:
        x, y = a, b
    else:
        if Kind.DOUBLE in kinds:
            other = 1 - kinds.index(Kind.DOUBLE) if kinds[0] is not kinds[1] else None
            sides = (e.left, e.right)
            exact = other is not None and not is_constant(sides[other]) and is_constant(sides[1 - other])
            if not exact:
                a, b = _float(a), _float(b)
        x, y = _rank(a), _rank(b)
    return {"=": x == y, "<>": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[e.op]


def _tokens(pattern: str) -> list[tuple[str, str]]:
    tokens, i = [], 0
    while i < len(pattern):
        if pattern[i] == "\\" and i + 1 < len(pattern):
            tokens.append(("one", pattern[i + 1]))
            i += 2
            continue
        kind = {"%": "run", "_": "any"}.get(pattern[i], "one")
        tokens.append((kind, pattern[i]))
        i += 1
    return tokens


def _like(text: str, tokens: list[tuple[str, str]]) -> bool:
    if not tokens:
        return text == ""
    kind, character = tokens[0]
    if kind == "run":
        return any(_like(text[i:], tokens[1:]) for i in range(len(text) + 1))
    return text != "" and (kind == "any" or text[0] == character) and _like(text[1:], tokens[1:])


def _cast(x: Any, source: DataType, target: DataType) -> Any:
    """The casts whose meaning needs no text."""
    if x is None:
        return None
    if source.kind is target.kind and source.kind is not Kind.DECIMAL:
        return x
    if target.kind is Kind.BOOLEAN:
        return x != 0
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE:
        return dt.date(1970, 1, 1) + dt.timedelta(days=x // DAY_US)
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        return _days(x) * DAY_US
    if source.kind is Kind.BOOLEAN:
        x = int(x)
    if target.kind is Kind.DOUBLE:
        return _float(x)
    if isinstance(x, float) and not math.isfinite(x):
        return None
    if target.kind is Kind.DECIMAL:
        digits = Decimal(repr(x)) if isinstance(x, float) else Decimal(x)
        whole = _WIDE.scaleb(digits, target.scale).to_integral_value(ROUND_HALF_UP, _WIDE)
        return _fit(_WIDE.scaleb(whole, -target.scale), target)
    return _fit(int(Decimal(x).to_integral_value(ROUND_DOWN, _WIDE)), target)
