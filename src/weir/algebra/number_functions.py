"""Scalar functions of numbers: their types, and their values for constants.

Functions of real numbers (sqrt, sin, …) have no value here: a call of constants stays as it is and is evaluated with
the rows, so that there is one implementation of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

from weir.algebra import decimals, schema
from weir.algebra.decimals import DIGITS_MAX
from weir.algebra.schema import DataType, Kind
from weir.algebra.signatures import (
    DOUBLE,
    FIXED_WHOLE,
    NARROW_WHOLE,
    NUMBER,
    OPERAND,
    SIZED,
    WHOLE,
    Signature,
    Takes,
    always,
    first,
    whole,
)

if TYPE_CHECKING:
    from weir.algebra.nodes import Expression

_BIGINT_MAX = 2**63 - 1
_WIDE = Context(prec=400)


def _widened(types: Sequence[DataType]) -> DataType:
    return schema.BIGINT if types[0].kind is Kind.INT else types[0]


def _whole_number(types: Sequence[DataType]) -> DataType:
    return _rounded(types[0]) if types[0].kind is Kind.DECIMAL else schema.BIGINT


def _rounded(type_: DataType) -> DataType:
    """A decimal without its digits behind the point may have one more in front."""
    return schema.decimal(type_.precision - type_.scale + 1, 0) if type_.scale else type_


def _rounded_to(args: Sequence[Expression]) -> DataType:
    """The type of round(x, n): a decimal keeps at most n digits behind the point, and may have one more in front."""
    type_ = args[0].type
    if type_.kind is not Kind.DECIMAL:
        return type_
    places = (getattr(args[1], "value", 0) or 0) if len(args) > 1 else 0
    front = type_.precision - type_.scale + 1
    if places < 0:
        return schema.decimal(min(max(front, 1 - places), DIGITS_MAX), 0)
    scale = min(type_.scale, places)
    return schema.decimal(min(front + scale, DIGITS_MAX), scale)


def _remainder(types: Sequence[DataType]) -> DataType:
    if all(t == schema.FLOAT for t in types):
        return schema.FLOAT
    if Kind.DECIMAL in (t.kind for t in types) and Kind.DOUBLE not in (t.kind for t in types):
        return decimals.result("%", types[0], types[1])
    return schema.BIGINT if all(t.kind in (Kind.INT, Kind.BIGINT) for t in types) else schema.DOUBLE


def _shifted(types: Sequence[DataType]) -> DataType:
    return whole(types[:1])


def _absolute(x: Any) -> object:
    return x.copy_abs() if isinstance(x, Decimal) else abs(x)


def _sign(x: Any) -> object:
    return math.nan if x != x else float((x > 0) - (x < 0))


def _integral(rounding: str) -> Callable[[Any], object]:
    def rounded(x: Any) -> object:
        if isinstance(x, Decimal):
            return x.to_integral_value(rounding, _WIDE)
        if isinstance(x, float) and not math.isfinite(x):
            return None
        found = math.floor(x) if rounding == ROUND_FLOOR else math.ceil(x)
        return found if abs(found) <= _BIGINT_MAX else None

    return rounded


def _round(x: Any, places: int = 0) -> object:
    return rounded(x, places, ROUND_HALF_UP)


def _bround(x: Any, places: int = 0) -> object:
    return rounded(x, places, ROUND_HALF_EVEN)


def rounded(x: Any, places: int, rounding: str) -> object:
    """x to so many places, from the shortest digits that a double has, as Spark writes it."""
    if isinstance(x, float):
        if not math.isfinite(x) or places > 400:
            return x
        if places < -400:
            return 0.0
        if not places and rounding == ROUND_HALF_UP:
            size = math.floor(abs(x))
            return math.copysign(float(size + (abs(x) - size >= 0.5)), x)
        return float(Decimal(repr(x)).quantize(Decimal(1).scaleb(-places), rounding, _WIDE))
    if isinstance(x, int):
        if places >= 0:
            return x
        if places < -30:
            return 0
        return int(Decimal(x).quantize(Decimal(1).scaleb(-places), rounding, _WIDE))
    if places < -60:
        return Decimal(0)
    kept = x.quantize(Decimal(1).scaleb(-places), rounding, _WIDE) if places < -x.as_tuple().exponent else x
    return kept.quantize(Decimal(1), context=_WIDE) if places < 0 else kept


def _width_bucket(x: float, low: float, high: float, count: int) -> object:
    """The number of the bucket, of `count` equal ones between the bounds, that x is in; 0 and count + 1 are outside."""
    if count <= 0 or count >= _BIGINT_MAX or math.isnan(x) or low == high:
        return None
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    lower, upper = min(low, high), max(low, high)
    if low < high:
        if x < lower:
            return 0
        if x >= upper:
            return count + 1
        return int(count * (x - lower) / (upper - lower)) + 1
    if x > upper:
        return 0
    if x <= lower:
        return count + 1
    return int(count * (upper - x) / (upper - lower)) + 1


def _factorial(n: int) -> object:
    return math.factorial(n) if 0 <= n <= 20 else None


def _binary(n: int) -> object:
    return format(n & (2**64 - 1), "b")


_DOUBLE, _BOOLEAN, _BIGINT = (always(t) for t in (schema.DOUBLE, schema.BOOLEAN, schema.BIGINT))
_REAL = (
    "sqrt cbrt exp expm1 ln log10 log2 log1p sin cos tan cot sec csc asin acos atan sinh cosh tanh asinh acosh atanh "
    "degrees radians rint"
)

NUMBERS = (
    Signature("abs", Takes((SIZED,)), _widened, _absolute),
    Signature("sign", Takes((NUMBER,)), _DOUBLE, _sign, also=("signum",)),
    Signature("floor", Takes((NUMBER,)), _whole_number, _integral(ROUND_FLOOR)),
    Signature("ceil", Takes((NUMBER,)), _whole_number, _integral(ROUND_CEILING), also=("ceiling",)),
    Signature("round", Takes((NUMBER,), (FIXED_WHOLE,)), first, _round, sized=_rounded_to),
    Signature("bround", Takes((NUMBER,), (FIXED_WHOLE,)), first, _bround, sized=_rounded_to),
    *(Signature(name, Takes((DOUBLE,)), _DOUBLE) for name in _REAL.split()),
    Signature("log", Takes((DOUBLE, DOUBLE)), _DOUBLE),
    Signature("power", Takes((DOUBLE, DOUBLE)), _DOUBLE, also=("pow",)),
    Signature("atan2", Takes((DOUBLE, DOUBLE)), _DOUBLE),
    Signature("hypot", Takes((DOUBLE, DOUBLE)), _DOUBLE),
    Signature("pmod", Takes((OPERAND, OPERAND)), _remainder),
    Signature("div", Takes((NUMBER, NUMBER)), _BIGINT, written=lambda p: f"({p[0]} DIV {p[1]})"),
    Signature("isnan", Takes((DOUBLE,)), _BOOLEAN, lambda x: x is not None and x != x, sees_nulls=True),
    Signature("nanvl", Takes((DOUBLE, DOUBLE)), _DOUBLE, sees_nulls=True),
    Signature("width_bucket", Takes((DOUBLE, DOUBLE, DOUBLE, WHOLE)), _BIGINT, _width_bucket),
    Signature(
        "bitand", Takes((NARROW_WHOLE, NARROW_WHOLE)), whole, written=lambda p: f"({p[0]} & {p[1]})", is_syntax=True
    ),
    Signature(
        "bitor", Takes((NARROW_WHOLE, NARROW_WHOLE)), whole, written=lambda p: f"({p[0]} | {p[1]})", is_syntax=True
    ),
    Signature(
        "bitxor", Takes((NARROW_WHOLE, NARROW_WHOLE)), whole, written=lambda p: f"({p[0]} ^ {p[1]})", is_syntax=True
    ),
    Signature("bitnot", Takes((NARROW_WHOLE,)), whole, written=lambda p: f"(~({p[0]}))", is_syntax=True),
    Signature("shiftleft", Takes((NARROW_WHOLE, WHOLE)), _shifted),
    Signature("shiftright", Takes((NARROW_WHOLE, WHOLE)), _shifted),
    Signature("shiftrightunsigned", Takes((NARROW_WHOLE, WHOLE)), _shifted),
    Signature("bit_count", Takes((NARROW_WHOLE,)), always(schema.INT), lambda n: (n & (2**64 - 1)).bit_count()),
    Signature("factorial", Takes((WHOLE,)), _BIGINT, _factorial),
    Signature("bin", Takes((WHOLE,)), always(schema.STRING), _binary),
)
