"""Constant folding: an expression over literals only is the literal it evaluates to.

Folding never looks at a `Param`, and never drops an operand that is not constant (`FALSE AND x` stays), so two
queries that differ only in constants still have the same form after it. An expression whose value has no
literal of its type (an instant beyond 64 bits, a date after the year 9999) stays unfolded.
Semantics as in docs/language.md: overflow and division by zero are NULL, numbers compare exactly, logic is
three-valued. Cost: linear in the expression.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from weir.algebra import nodes
from weir.algebra.decimals import CALCULATIONS, number_of, units_of
from weir.algebra.functions import SIGNATURES
from weir.algebra.json_paths import json_part, steps_of
from weir.algebra.nodes import Expression, Literal
from weir.algebra.order import UnfoldedError, order
from weir.algebra.rebuild import rebuild
from weir.algebra.schema import BOOLEAN, STRING, DataType, Kind
from weir.algebra.single import single
from weir.errors import RegisterError, TooLargeError

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1
FOLDED_CHARS_MAX = 1 << 20  # of a constant that calls of constants make
_DAY_US = 86_400_000_000
_EPOCH_DAY = dt.date(1970, 1, 1)
_HALF_UP = Context(prec=400, rounding=ROUND_HALF_UP)
_TRUE, _FALSE, _UNKNOWN = Literal(True, BOOLEAN), Literal(False, BOOLEAN), Literal(None, BOOLEAN)


def fold(e: Expression) -> Expression:
    """The same expression with every constant part evaluated."""
    return rebuild(e, fold_one)


def fold_one(e: Expression) -> Expression:
    """The literal of an operator whose operands are all literals; anything else as it is."""
    operands = nodes.children(e)
    literals: list[Literal] = []
    for operand in operands:
        if not isinstance(operand, Literal):
            return e
        literals.append(operand)
    if not literals:
        return e
    try:
        return _value(e, literals)
    except UnfoldedError:
        return e


def _value(e: Expression, args: Sequence[Literal]) -> Expression:
    if isinstance(e, nodes.And):
        return _logic([a.value for a in args], absorbing=False)
    if isinstance(e, nodes.Or):
        return _logic([a.value for a in args], absorbing=True)
    if isinstance(e, nodes.IsNull):
        return _TRUE if args[0].value is None else _FALSE
    if isinstance(e, nodes.Call) and SIGNATURES[e.function].sees_nulls:
        return _called(e, args)
    if isinstance(e, (nodes.Aggregate, nodes.WindowCall, nodes.Subquery)):
        return e  # their value depends on rows, whatever their operands are
    if any(a.value is None for a in args):
        return Literal(None, e.type)
    if isinstance(e, nodes.JsonField):
        steps = steps_of(e.path)
        return Literal(None if steps is None else json_part(str(args[0].value), steps), STRING)
    if isinstance(e, nodes.Not):
        return _FALSE if args[0].value else _TRUE
    if isinstance(e, nodes.Like):
        return _TRUE if like(str(args[0].value), str(args[1].value)) else _FALSE
    if isinstance(e, nodes.Comparison):
        return _TRUE if compare(e.op, args[0], args[1]) else _FALSE
    if isinstance(e, nodes.Cast):
        return Literal(cast(args[0], e.type), e.type)
    if isinstance(e, nodes.Call):
        return _called(e, args)
    if isinstance(e, (nodes.Arithmetic, nodes.Negate)):
        found = _arithmetic(e, args)
        return Literal(single(found) if e.type.variant == "float" and isinstance(found, float) else found, e.type)
    return e


def _called(e: nodes.Call, args: Sequence[Literal]) -> Literal:
    value = SIGNATURES[e.function].value
    if value is None:
        raise UnfoldedError
    try:
        found = value(*(a.value for a in args))
    except TooLargeError as error:
        raise RegisterError(str(error).removeprefix(f"{error.stage}: ")) from error
    if isinstance(found, str) and len(found) > FOLDED_CHARS_MAX:
        raise RegisterError(
            f"{e.function}() makes a constant of {len(found):,} characters, at most {FOLDED_CHARS_MAX:,} are allowed"
        )
    if isinstance(found, int) and e.type.kind in (Kind.INT, Kind.BIGINT):
        limit = 1 << e.type.bits - 1
        found = found if -limit <= found < limit else None
    if isinstance(found, float) and e.type.variant == "float":
        found = single(found)
    if isinstance(found, Decimal) and found.copy_abs() >= Decimal(10) ** (e.type.precision - e.type.scale):
        found = None
    return Literal(found, e.type)


def _logic(values: Sequence[object], *, absorbing: bool) -> Literal:
    if any(v is absorbing for v in values):
        return _TRUE if absorbing else _FALSE
    if any(v is None for v in values):
        return _UNKNOWN
    return _FALSE if absorbing else _TRUE


def _arithmetic(e: nodes.Arithmetic | nodes.Negate, args: Sequence[Literal]) -> object:
    kind = e.type.kind
    if kind is Kind.DATE:
        return _moved_date(e, args)
    if kind is Kind.DECIMAL and isinstance(e, nodes.Arithmetic):
        return _decimal(e, args)
    values = [_number(a, e.type) for a in args]
    a = values[0]
    if isinstance(e, nodes.Negate):
        return _bounded(-a if not isinstance(a, Decimal) else a.copy_negate(), kind)
    b = values[1]
    assert not isinstance(a, Decimal)
    assert not isinstance(b, Decimal)
    if e.op in "/%":
        return None if b == 0 else _divided(e.op, a, b)
    return _bounded({"+": a + b, "-": a - b, "*": a * b}[e.op], kind)


def _decimal(e: nodes.Arithmetic, args: Sequence[Literal]) -> Decimal | None:
    scales = [a.type.scale for a in args]
    left, right = (units_of(Decimal(str(a.value)), scale) for a, scale in zip(args, scales, strict=True))
    units = CALCULATIONS[e.op](left, scales[0], right, scales[1], e.type)
    return None if units is None else number_of(units, e.type.scale)


def _divided(op: str, a: float, b: float) -> float | int:
    if op == "/":
        return float(a) / float(b)
    if isinstance(a, int) and isinstance(b, int):
        return int(math.copysign(1, a)) * (abs(a) % abs(b))  # the sign of the dividend
    return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else math.nan


def _number(a: Literal, wanted: DataType) -> int | float | Decimal:
    value = a.value
    assert isinstance(value, (int, float, Decimal))
    if wanted.kind is Kind.DOUBLE:
        return float(value)
    if wanted.kind is Kind.DECIMAL:
        return Decimal(value)
    return value


def _bounded(value: int | float | Decimal, kind: Kind) -> object:
    """NULL beyond 64 bits; an instant has no such NULL here and stays unfolded. −2^63 is reserved but for a bigint."""
    if not isinstance(value, int) or abs(value) <= INT64_MAX or (kind is Kind.BIGINT and value == -INT64_MAX - 1):
        return value
    if kind is Kind.TIMESTAMP:
        raise UnfoldedError
    return None


def _moved_date(e: nodes.Arithmetic | nodes.Negate, args: Sequence[Literal]) -> dt.date:
    day, length = args[0].value, args[1].value
    assert isinstance(e, nodes.Arithmetic)
    assert isinstance(day, dt.date)
    assert isinstance(length, int)
    if length % _DAY_US:
        raise UnfoldedError
    days = dt.timedelta(days=length // _DAY_US) if abs(length) < _DAY_US * 10**8 else None
    try:
        if days is None:
            raise UnfoldedError
        return day + days if e.op == "+" else day - days
    except OverflowError:
        raise UnfoldedError from None


def cast(a: Literal, wanted: DataType) -> object:
    """The value of a literal in another type; None where it does not fit."""
    value, kind = a.value, wanted.kind
    if kind is Kind.STRING and isinstance(value, str):
        return value.ljust(wanted.precision) if wanted.variant == "char" else value
    if a.type.kind is kind and kind not in (Kind.DECIMAL, Kind.INT, Kind.DOUBLE):
        return value
    if a.type.kind in (Kind.TIMESTAMP, Kind.INTERVAL) and kind is not Kind.DATE:
        raise UnfoldedError
    if kind is Kind.STRING:
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise UnfoldedError
    if kind is Kind.TIMESTAMP and isinstance(value, dt.date):
        return (value - _EPOCH_DAY).days * _DAY_US
    if kind is Kind.DATE and isinstance(value, int):
        try:
            return _EPOCH_DAY + dt.timedelta(days=value // _DAY_US)
        except OverflowError:
            raise UnfoldedError from None
    if not isinstance(value, (int, float, Decimal)):
        raise UnfoldedError
    if kind is Kind.DOUBLE:
        return single(value) if wanted.variant else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if kind in (Kind.INT, Kind.BIGINT):
        whole = int(value)  # towards zero
        if kind is Kind.BIGINT:
            return whole if abs(whole) <= INT64_MAX else None  # −2^63 is reserved
        limit = 1 << wanted.bits - 1
        return whole if -limit <= whole < limit else None
    if kind is Kind.DECIMAL:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)  # by its digits, as in Spark
        rounded = exact.quantize(Decimal(1).scaleb(-wanted.scale), context=_HALF_UP)
        return rounded if rounded.copy_abs() < Decimal(10) ** (wanted.precision - wanted.scale) else None
    raise UnfoldedError


def compare(op: str, left: Literal, right: Literal) -> bool:
    """A comparison of two literals that are not NULL, exact for numbers of any two types."""
    found = order(left.value, right.value)
    return {"=": found == 0, "<>": found != 0, "<": found < 0, "<=": found <= 0, ">": found > 0, ">=": found >= 0}[op]


def like(text: str, pattern: str) -> bool:
    """SQL LIKE over the whole string: % any run, _ any one character, \\ takes the next one literally.

    Greedy with one way back, to the last %: at most |text| · |pattern| steps, whatever the pattern.
    """
    parts = _like_parts(pattern)
    at = place = 0
    back_place, back_at = -1, 0  # behind the last %, and where its run ends for now
    while at < len(text):
        part = parts[place] if place < len(parts) else None
        if part == (False, "%"):
            back_place, back_at = place + 1, at
            place += 1
        elif part == (False, "_") or (part is not None and part[0] and part[1] == text[at]):
            at += 1
            place += 1
        elif back_place >= 0:
            back_at += 1
            at, place = back_at, back_place
        else:
            return False
    return all(part == (False, "%") for part in parts[place:])


def _like_parts(pattern: str) -> list[tuple[bool, str]]:
    """(is it meant literally, character) for each character of a pattern."""
    parts: list[tuple[bool, str]] = []
    escaped = False
    for c in pattern:
        if escaped or c not in "%_\\":
            parts.append((True, c))
            escaped = False
        elif c == "\\":
            escaped = True
        else:
            parts.append((False, c))
    if escaped:
        parts.append((True, "\\"))
    return parts
