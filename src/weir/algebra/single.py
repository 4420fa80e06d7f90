"""Numbers as 32-bit floats: the nearest one, rounded once."""

from __future__ import annotations

import ctypes
import math
import struct
from decimal import Decimal
from fractions import Fraction


def single(value: int | float | Decimal) -> float:
    """The 32-bit float that is nearest to a number, infinite beyond their range; ties go to the even one.

    A double that had to be rounded is made odd first: then rounding it again cannot meet a tie that there was not.
    """
    double = float(value)
    if math.isfinite(double) and not isinstance(value, float) and Fraction(double) != value:
        towards = math.inf if Fraction(double) < value else -math.inf
        (bits,) = struct.unpack("<q", struct.pack("<d", double))
        double = double if bits & 1 else math.nextafter(double, towards)
    return ctypes.c_float(double).value
