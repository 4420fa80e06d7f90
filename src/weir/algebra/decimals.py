"""Decimals: how many digits a result has, and what it is, as Spark has it.

A decimal(p,s) is a whole number of units of 10^−s with at most p digits, p up to 38. The digits of a result follow from
those of the operands; where they would be more than 38, digits behind the point are given up, but not below six, and
then those in front: a result that needs more is NULL. Rounding is half away from zero. As Java's, a quotient is rounded
to 39 digits behind the point first, and a product to 39 digits.

Decimals of at most `KEY_DIGITS_MAX` digits fit into 64 bits; that bound is said here and nowhere else. Others are
*wide*: columns of them are kept as Python's whole numbers (`weir.values.columns`), and their keys come from
dictionaries, as those of texts do (`weir.index.digits`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal

from weir.algebra.schema import DataType, Kind, decimal

DIGITS_MAX = 38
KEY_DIGITS_MAX = 18
BIGINT_DIGITS = 20  # of a bigint beside a decimal, as Spark counts them
_WHOLE_DIGITS = {8: 3, 16: 5, 32: 10, 64: BIGINT_DIGITS}
_SCALE_KEPT = 6  # digits behind the point that are not given up
_ROUNDED_AT = DIGITS_MAX + 1
EXACT = Context(prec=400)  # more digits than any step has; the default context rounds to 28


def is_wide(type_: DataType) -> bool:
    """Whether values may have more digits than 64 bits hold."""
    return type_.kind is Kind.DECIMAL and type_.precision > KEY_DIGITS_MAX


def digits_of(type_: DataType) -> tuple[int, int]:
    """Precision and scale of a whole number or a decimal beside a decimal."""
    if type_.kind is Kind.DECIMAL:
        return type_.precision, type_.scale
    return _WHOLE_DIGITS[type_.bits], 0


def adjusted(precision: int, scale: int) -> DataType:
    """The type of a result that would have so many digits."""
    if precision <= DIGITS_MAX:
        return decimal(precision, scale)
    front = precision - scale
    return decimal(DIGITS_MAX, max(DIGITS_MAX - front, min(scale, _SCALE_KEPT)))


def bounded(precision: int, scale: int) -> DataType:
    """The same where Spark cuts both numbers off."""
    return decimal(min(precision, DIGITS_MAX), min(scale, DIGITS_MAX))


def wider(a: DataType, b: DataType) -> DataType:
    """The type that stands for both; digits in front of the point are kept before those behind it."""
    (p1, s1), (p2, s2) = digits_of(a), digits_of(b)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return decimal(min(precision, DIGITS_MAX), scale - min(scale, max(0, precision - DIGITS_MAX)))


def result(op: str, a: DataType, b: DataType) -> DataType:
    """The type of `a op b`; op is one of + - * / %."""
    (p1, s1), (p2, s2) = digits_of(a), digits_of(b)
    scale = max(s1, s2)
    if op == "*":
        return adjusted(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(_SCALE_KEPT, s1 + p2 + 1)
        return adjusted(p1 - s1 + s2 + scale, scale)
    if op == "%":
        return adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def total(type_: DataType) -> DataType:
    """The type of a sum of decimals."""
    return bounded(type_.precision + 10, type_.scale)


def average(type_: DataType) -> DataType:
    """The type of an average of decimals."""
    return bounded(type_.precision + 4, type_.scale + 4)


# Values, as numbers of units.


def units_of(value: Decimal | int, scale: int) -> int:
    """How many units of 10^−scale a number is, which is a whole number of them."""
    units = Decimal(value).scaleb(scale, EXACT)
    found = int(units)
    assert units == found, f"{value!r} has more than {scale} digits behind the point"
    return found


def number_of(units: int, scale: int) -> Decimal:
    """The number that so many units are."""
    return Decimal(units).scaleb(-scale, EXACT)


def rounded(units: int, divisor: int) -> int:
    """units / divisor (which is positive), half away from zero."""
    whole, rest = divmod(abs(units), divisor)
    whole += rest * 2 >= divisor
    return whole if units >= 0 else -whole


def fitted(units: int, scale: int, type_: DataType) -> int | None:
    """A number in units of its type; None where that has too few digits."""
    if type_.scale >= scale:
        found = units * 10 ** (type_.scale - scale)
    else:
        found = rounded(units, 10 ** (scale - type_.scale))
    return found if abs(found) < 10**type_.precision else None


def _sum(a: int, s1: int, b: int, s2: int, type_: DataType) -> int | None:
    scale = max(s1, s2)
    return fitted(a * 10 ** (scale - s1) + b * 10 ** (scale - s2), scale, type_)


def _product(a: int, s1: int, b: int, s2: int, type_: DataType) -> int | None:
    product = a * b
    more = len(str(abs(product))) - _ROUNDED_AT
    if more > 0:
        product = rounded(product, 10**more) * 10**more
    return fitted(product, s1 + s2, type_)


def _quotient(a: int, s1: int, b: int, s2: int, type_: DataType) -> int | None:
    if b == 0:
        return None
    signed = a if b > 0 else -a
    return fitted(rounded(signed * 10 ** (_ROUNDED_AT + s2 - s1), abs(b)), _ROUNDED_AT, type_)


def _remainder(a: int, s1: int, b: int, s2: int, type_: DataType) -> int | None:
    if b == 0:
        return None
    a, b, scale = _in_one_scale(a, s1, b, s2)
    return fitted(_rest(a, b), scale, type_)


def _positive_remainder(a: int, s1: int, b: int, s2: int, type_: DataType) -> int | None:
    """(a % b + b) % b where a % b is negative."""
    if b == 0:
        return None
    a, b, scale = _in_one_scale(a, s1, b, s2)
    rest = _rest(a, b)
    return fitted(_rest(rest + b, b) if rest < 0 else rest, scale, type_)


def _in_one_scale(a: int, s1: int, b: int, s2: int) -> tuple[int, int, int]:
    """The units of both in the larger scale, and that scale."""
    scale = max(s1, s2)
    return a * 10 ** (scale - s1), b * 10 ** (scale - s2), scale


def _rest(a: int, b: int) -> int:
    """a % b, with the sign of the dividend."""
    rest = abs(a) % abs(b)
    return rest if a >= 0 else -rest


# (units of a, its scale, units of b, its scale, type of the result) → units of the result; None is NULL.
CALCULATIONS: dict[str, Callable[[int, int, int, int, DataType], int | None]] = {
    "+": _sum,
    "-": lambda a, s1, b, s2, type_: _sum(a, s1, -b, s2, type_),
    "*": _product,
    "/": _quotient,
    "%": _remainder,
    "pmod": _positive_remainder,
}
