"""Vectorised arithmetic: + − * / % and negation, over operands of `weir.values.columns`.

The result type decides how it is computed: BIGINT and DECIMAL on int64 with overflow detected and turned
into NULL, DOUBLE on float64, DATE in days, TIMESTAMP and INTERVAL in microseconds. Decimals of more digits than 64 bits
hold, and what is rounded (`weir.algebra.decimals`), are computed in Python's whole numbers. `/ 0` and `% 0` are NULL;
`%` has the dividend's sign. Nothing wraps around, and only doubles, quotients and what 38 digits do not hold are
rounded.

Detection is free when the extremes of the operands show that nothing can overflow (one pass for minimum and
maximum); otherwise sums are checked by signs and products by dividing back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weir.algebra.decimals import CALCULATIONS, KEY_DIGITS_MAX, digits_of, is_wide
from weir.algebra.schema import DOUBLE, DataType, Kind
from weir.values.columns import (
    DAY_US,
    Bools,
    Doubles,
    Ints,
    Operand,
    as_stored,
    both_valid,
    in_range,
    in_single,
    null_operand,
    to_double,
    without,
)

_BIGINT_MAX = 2**63 - 1
_BIGINT_MIN = np.iinfo(np.int64).min


def arithmetic(op: str, left: Operand, right: Operand, type_: DataType) -> Operand:
    """`left op right`, of type `type_` as the algebra says."""
    if Kind.NULL in (left.kind, right.kind):
        return null_operand(type_)
    constant = left.constant and right.constant
    valid = both_valid(left, right)
    with np.errstate(all="ignore"):  # NULL places hold anything, and NaN and infinities are values here
        if type_.kind is Kind.DOUBLE:
            values, valid = _doubles(op, left, right, valid)
            # Two floats have less than half the bits of a double, so rounding twice gives what rounding once does.
            return Operand(in_single(values, type_), valid, type_, constant)
        if type_.kind is Kind.DECIMAL and not _is_short(op, left.type, right.type, type_):
            values, valid = _decimals(op, left, right, type_, valid)
            return Operand(values, valid, type_, constant)
        if op == "*":
            values, bad = _product(left.values, right.values)
        elif op == "%":
            values, bad = _remainder(left, right)
        else:
            assert op in ("+", "-"), f"{op} of {left.type} and {right.type} is not {type_}"
            a, bad_a = _in_unit(left, type_)
            b, bad_b = _in_unit(right, type_)
            values, bad = _sum(a, b) if op == "+" else _difference(a, b)
            bad = bad | bad_a | bad_b
        valid = valid if bad is _NEVER else without(valid, bad)
        if constant and type_.kind is Kind.BIGINT:  # the least bigint has no key, but constants need none
            return Operand(values, valid, type_, constant)
        return Operand(values, in_range(values, valid, type_), type_, constant)


def _is_short(op: str, left: DataType, right: DataType, type_: DataType) -> bool:
    """Whether decimals are calculated in 64 bits without being rounded."""
    if is_wide(left) or is_wide(right) or op == "/" or (op == "*" and is_wide(type_)):
        return False
    if op == "%":  # both operands in units of the result
        return all(p - s + type_.scale <= KEY_DIGITS_MAX for p, s in (digits_of(left), digits_of(right)))
    return not is_wide(type_)


def _decimals(op: str, left: Operand, right: Operand, type_: DataType, valid: Bools | None) -> tuple[Any, Bools | None]:
    """Decimals in Python's whole numbers: a few operations of NumPy on objects; one value at a time where it rounds."""
    s1, s2 = _scale(left.type), _scale(right.type)
    natural = s1 + s2 if op == "*" else max(s1, s2)
    if op in ("+", "-", "*") and type_.scale == natural:
        a, b = left.values.astype(object), right.values.astype(object)
        if op == "*":
            values = a * b
        else:
            a, b = a * 10 ** (natural - s1), b * 10 ** (natural - s2)
            values = a + b if op == "+" else a - b
        valid = in_range(values, valid, type_)
    else:
        values, gone = one_by_one(op, left, right, type_)
        valid = without(valid, gone)
    return as_stored(values, valid, type_), valid


def one_by_one(op: str, left: Operand, right: Operand, type_: DataType) -> tuple[Any, Bools]:
    """`weir.algebra.decimals` for each pair of values; and where it has no result."""
    calculate, s1, s2 = CALCULATIONS[op], _scale(left.type), _scale(right.type)
    pairs = zip(*(values.tolist() for values in np.broadcast_arrays(left.values, right.values)), strict=True)
    found = [calculate(a, s1, b, s2, type_) for a, b in pairs]
    gone = np.array([units is None for units in found], bool)
    return np.array([0 if units is None else units for units in found], object), gone


def negate(arg: Operand, type_: DataType) -> Operand:
    values: Any = -arg.values
    if arg.kind in (Kind.DOUBLE, Kind.NULL):
        return Operand(values, arg.valid, type_, arg.constant)
    return Operand(values, in_range(values, arg.valid, type_), type_, arg.constant)


def threshold(op: str, left: Operand, right: Operand) -> Operand:
    """The least double c for which `left op right + c` is true; op is < or <=.

    It is −inf if every finite c makes it true, and infinite or NaN, which is above all, if none does. right + c is
    rounded, so c is not left − right: it lies about half a unit in the last place of `left` beside it. That is the
    first guess. Trying its neighbours corrects it, and where it is still wrong c is found by bisection.
    """
    x, y = np.broadcast_arrays(to_double(left), to_double(right))
    with np.errstate(all="ignore"):
        half = (np.nextafter(x, np.inf if op == "<" else -np.inf) - x) / 2
        c = (x - y) + half
        for _ in range(2):
            c = np.where(_reaches(op, x, y, c), c, np.nextafter(c, np.inf))
        for _ in range(2):
            less = np.nextafter(c, -np.inf)
            c = np.where(_reaches(op, x, y, less), less, c)
        is_least = _reaches(op, x, y, c) & ~_reaches(op, x, y, np.nextafter(c, -np.inf))
        wrong = np.flatnonzero(~is_least)
        if len(wrong):
            x, y = x[wrong], y[wrong]
            is_true = np.isnan(y) & ((op == "<=") | ~np.isnan(x)) | _reaches(op, x, y, np.zeros(1))
            whatever_c = np.isnan(x) | ~np.isfinite(y)
            c[wrong] = np.where(whatever_c, np.where(is_true, -np.inf, np.nan), _halved(op, x, y))
    return Operand(c, both_valid(left, right), DOUBLE, left.constant and right.constant)


def _reaches(op: str, x: Doubles, y: Doubles, c: Doubles) -> Bools:
    return np.asarray(y + c > x if op == "<" else y + c >= x)


def _halved(op: str, x: Doubles, y: Doubles) -> Doubles:
    """The same c, found by bisection between −∞ and +∞; +∞ if no finite c makes it true."""
    low, high = (np.full(len(x), end) for end in (-_INFINITY, _INFINITY))
    while (low + 1 < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        reached = _reaches(op, x, y, _of_bits(middle))
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return _of_bits(high)


def _of_bits(places: Ints) -> Doubles:
    """The doubles at these places in the order of all doubles; place 0 is 0.0."""
    return np.where(places < 0, -1.0, 1.0) * np.abs(places).view(np.float64)


_INFINITY = int(np.array([np.inf]).view(np.int64)[0])
_NEVER: Bools = np.zeros(1, bool)  # "nothing overflowed"; broadcasts


def _doubles(op: str, left: Operand, right: Operand, valid: Bools | None) -> tuple[np.ndarray, Bools | None]:
    a, b = to_double(left), to_double(right)
    if op == "+":
        return a + b, valid
    if op == "-":
        return a - b, valid
    if op == "*":
        return a * b, valid
    valid = without(valid, b == 0)
    return (a / b if op == "/" else np.fmod(a, b)), valid


def _remainder(left: Operand, right: Operand) -> tuple[Ints, Bools]:
    scale = max(_scale(left.type), _scale(right.type))
    (a, _), (b, _) = (_rescaled(arg.values, _NEVER, _scale(arg.type), scale) for arg in (left, right))
    zero = b == 0
    return np.fmod(a, np.where(zero, 1, b)), zero


def _scale(type_: DataType) -> int:
    return type_.scale if type_.kind is Kind.DECIMAL else 0


def _in_unit(operand: Operand, result: DataType) -> tuple[Ints, Bools]:
    """An operand of + or − in the unit of the result: its decimal scale, days, or microseconds."""
    kind = operand.kind
    if kind is Kind.DATE and result.kind in (Kind.TIMESTAMP, Kind.INTERVAL):
        return _product(operand.values, np.array([DAY_US]))
    if kind is Kind.INTERVAL and result.kind is Kind.DATE:
        return operand.values // DAY_US, operand.values % DAY_US != 0  # part of a day has no date
    return _rescaled(operand.values, _NEVER, _scale(operand.type), _scale(result))


def _rescaled(values: Ints, bad: Bools, scale: int, wanted: int) -> tuple[Ints, Bools]:
    assert wanted >= scale, "digits are dropped by CAST only"
    if wanted == scale:
        return values, bad
    scaled, too_large = _product(values, np.array([10 ** (wanted - scale)]))
    return scaled, bad | too_large


def _extremes(values: Ints) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def _sum(a: Ints, b: Ints) -> tuple[Ints, Bools]:
    values = a + b
    (a_min, a_max), (b_min, b_max) = _extremes(a), _extremes(b)
    if a_min + b_min >= -_BIGINT_MAX and a_max + b_max <= _BIGINT_MAX:
        return values, _NEVER
    return values, ((a ^ values) & (b ^ values)) < 0


def _difference(a: Ints, b: Ints) -> tuple[Ints, Bools]:
    values = a - b
    (a_min, a_max), (b_min, b_max) = _extremes(a), _extremes(b)
    if a_min - b_max >= -_BIGINT_MAX and a_max - b_min <= _BIGINT_MAX:
        return values, _NEVER
    return values, ((a ^ b) & (a ^ values)) < 0


def _product(a: Ints, b: Ints) -> tuple[Ints, Bools]:
    values = a * b
    largest = [max(abs(low), abs(high)) for low, high in (_extremes(a), _extremes(b))]
    if largest[0] * largest[1] <= _BIGINT_MAX:
        return values, _NEVER
    divisor = np.where(b == 0, 1, b)
    wrapped = (values // divisor != a) & (b != 0)
    return values, wrapped | ((a == _BIGINT_MIN) & (b == -1)) | ((b == _BIGINT_MIN) & (a == -1))
