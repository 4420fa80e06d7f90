"""The order of constants: how two values that are not NULL compare.

Numbers of any two types compare exactly; NaN equals itself and lies above everything; texts compare by their UTF-8
bytes.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal


class UnfoldedError(Exception):
    """A constant expression has no value that a literal could have, or none that is known here."""


def order(a: object, b: object) -> int:
    """Negative, 0 or positive as `a` is below, equal to or above `b`."""
    if isinstance(a, str) and isinstance(b, str):
        x, y = a.encode(), b.encode()
        return (x > y) - (x < y)
    if isinstance(a, dt.date) and isinstance(b, dt.date):
        return (a > b) - (a < b)
    if not isinstance(a, (int, float, Decimal)) or not isinstance(b, (int, float, Decimal)):
        raise UnfoldedError
    a_nan, b_nan = a != a, b != b
    if a_nan or b_nan:
        return int(a_nan) - int(b_nan)
    return (a > b) - (a < b)  # Python compares int, float and Decimal exactly
