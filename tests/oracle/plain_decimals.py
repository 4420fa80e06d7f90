"""Decimals in fractions: what Spark makes of two of them, written down from its documentation and nothing else.

A type is a pair (precision, scale). A product is rounded to 39 digits and a quotient to 39 places first, as Java's are.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

Digits = tuple[int, int]


def type_of(op: str, left: Digits, right: Digits) -> Digits:
    """The digits of `left op right`."""
    (p1, s1), (p2, s2) = left, right
    if op == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif op == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = scale + (min(p1 - s1, p2 - s2) if op == "%" else max(p1 - s1, p2 - s2) + 1)
    if precision <= 38:
        return precision, scale
    return 38, max(38 - (precision - scale), min(scale, 6))


def widest(left: Digits, right: Digits) -> Digits:
    """What stands for both: digits in front are kept before those behind."""
    front, scale = max(left[0] - left[1], right[0] - right[1]), max(left[1], right[1])
    if front + scale > 38:
        scale = max(0, 38 - front)
    return min(38, front + scale), scale


def value_of(op: str, a: Decimal | int, b: Decimal | int, digits: Digits) -> Decimal | None:
    """The result in its type; None where it does not fit, or b is 0 and must not be."""
    x, y = Fraction(a), Fraction(b)
    if op in "/%" and not y:
        return None
    if op == "%":
        found = x - y * int(x / y)
    elif op == "/":
        found = rounded(x / y, 39)
    else:
        found = {"+": x + y, "-": x - y, "*": x * y}[op]
        if op == "*" and found:
            places = 39
            while abs(found) * Fraction(10) ** places >= 10**39:
                places -= 1
            while abs(found) * Fraction(10) ** (places + 1) < 10**39:
                places += 1
            found = rounded(found, places)
    return fitted(found, digits)


def fitted(number: Fraction, digits: Digits) -> Decimal | None:
    """A number in a type, halves away from zero."""
    precision, scale = digits
    units = rounded(number, scale) * 10**scale
    assert units.denominator == 1
    if abs(units) >= 10**precision:
        return None
    sign = 1 if units < 0 else 0
    return Decimal((sign, tuple(int(d) for d in str(abs(int(units)))), -scale))


def rounded(number: Fraction, places: int) -> Fraction:
    unit = Fraction(10) ** places
    whole = int(abs(number) * unit + Fraction(1, 2))
    return whole / unit if number >= 0 else -whole / unit
