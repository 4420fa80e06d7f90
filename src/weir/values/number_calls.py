"""Vectorised functions of numbers.

Real functions are NumPy's, within a unit in the last place of Java's; what Spark answers with NULL (a logarithm of 0)
is NULL here. Rounding to places goes through the shortest digits of a double, one value at a time, as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from weir.algebra.number_functions import rounded
from weir.algebra.schema import BIGINT, DOUBLE, DataType, Kind
from weir.values.arithmetic import arithmetic, one_by_one
from weir.values.columns import Bools, Doubles, Ints, Operand, as_stored, both_valid, in_range, to_double, without
from weir.values.evaluations import Evaluation, chosen, mapped, size_of, spread, strict

_TWO_TO_63 = 2.0**63
_WIDE = Context(prec=100)
_DEGREE = 0.017453292519943295  # Java multiplies by these, and does not divide
_RADIAN = 57.29577951308232


def _absolute(args: Sequence[Operand], type_: DataType) -> Operand:
    arg = args[0]
    values = np.abs(arg.values)
    valid = arg.valid if arg.kind is Kind.DOUBLE else in_range(values, arg.valid, type_)
    return Operand(values, valid, type_, arg.constant)


def _made_whole(of_doubles: Callable[[Any], Any], of_units: Callable[[Any, int], Any]) -> Evaluation:
    """A number as a whole one; a double that becomes a bigint is NULL where it does not fit, and so is NaN."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        (arg,) = args
        if arg.kind is Kind.DECIMAL:
            units = of_units(arg.values, 10**arg.type.scale) if arg.type.scale else arg.values
            valid = in_range(units, arg.valid, type_)
            return Operand(as_stored(units, valid, type_), valid, type_, arg.constant)
        if arg.kind is not Kind.DOUBLE:
            return Operand(arg.values, arg.valid, type_, arg.constant)
        whole = of_doubles(arg.values)
        if type_.kind is Kind.DOUBLE:
            return Operand(whole, arg.valid, type_, arg.constant)
        outside = ~(np.abs(whole) < _TWO_TO_63)
        return Operand(np.where(outside, 0.0, whole).astype(np.int64), without(arg.valid, outside), type_, arg.constant)

    return evaluated


def _half_up(values: Any) -> Any:
    size = np.abs(values)
    whole = np.floor(size)
    return np.copysign(whole + (size - whole >= 0.5), values)  # what is infinite or NaN stays so


def _half_up_units(units: Any, unit: int) -> Any:
    size = np.abs(units)
    whole, rest = size // unit, size % unit
    return np.sign(units) * (whole + np.where(rest * 2 >= unit, 1, 0))


def _round(mode: str) -> Evaluation:
    """round(x, n): whole numbers are exact in their own units, doubles are rounded as their text is."""
    exact = mapped(lambda x, places=0: rounded(x, places, mode))
    fast = _made_whole(_half_up, _half_up_units)

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        return fast(args, type_) if len(args) == 1 and mode == ROUND_HALF_UP else exact(args, type_)

    return evaluated


def _real(values: Callable[..., Any], bad: Callable[..., Bools] | None = None) -> Evaluation:
    """A function of doubles; NULL where `bad` says so."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        size = size_of(args)
        doubles = [arg.values for arg in args]
        found = np.asarray(values(*doubles), np.float64)
        valid = both_valid(*(arg if arg.valid is None else spread(arg, size) for arg in args))
        if bad is not None:
            valid = without(valid, np.broadcast_to(bad(*doubles), len(found)))
        return Operand(found, valid, type_, all(arg.constant for arg in args))

    return evaluated


def _not_positive(x: Doubles, *_: Doubles) -> Bools:
    return x <= 0


def _power(x: Doubles, y: Doubles) -> Doubles:
    """As Java has it: 1 to the power of NaN or infinity is NaN."""
    x, y = np.broadcast_arrays(x, y)
    found = np.where((np.abs(x) == 1) & ~np.isfinite(y), np.nan, np.power(x, y))
    root = y == 0.5  # NumPy takes the square root, which knows −0.0 and −∞ otherwise
    return np.where(root & (x == 0), 0.0, np.where(root & (x == -np.inf), np.inf, found))


def _pmod(args: Sequence[Operand], type_: DataType) -> Operand:
    """The remainder that is not negative where the divisor is positive."""
    size = size_of(args)
    left, right = (spread(arg, size) for arg in args)
    if type_.kind is Kind.DECIMAL:
        units, gone = one_by_one("pmod", left, right, type_)
        valid = without(both_valid(left, right), gone)
        return Operand(as_stored(units, valid, type_), valid, type_, left.constant and right.constant)
    rest = arithmetic("%", left, right, type_)
    again = arithmetic("%", arithmetic("+", rest, right, type_), right, type_)
    return chosen(np.asarray(rest.values < 0), again, rest)


def _div(args: Sequence[Operand], type_: DataType) -> Operand:
    """The whole part of a quotient, towards zero."""
    left, right = args
    size = size_of(args)
    if Kind.DECIMAL in (left.kind, right.kind):
        return mapped(_whole_quotient)(args, type_)
    a, b = left.values, right.values
    zero = np.broadcast_to(b == 0, size)
    b = np.where(b == 0, 1, b)
    found = (a - np.fmod(a, b)) // b
    valid = both_valid(*(arg if arg.valid is None else spread(arg, size) for arg in args))
    return Operand(found, in_range(found, without(valid, zero), BIGINT), type_, left.constant and right.constant)


def _whole_quotient(a: Decimal | int, b: Decimal | int) -> object:
    return None if not b else int(_WIDE.divide_int(Decimal(a), Decimal(b)))


def _isnan(args: Sequence[Operand], type_: DataType) -> Operand:
    (arg,) = args
    found = np.isnan(arg.values.astype(np.float64))
    return Operand(found if arg.valid is None else found & arg.valid, None, type_, arg.constant)


def _nanvl(args: Sequence[Operand], type_: DataType) -> Operand:
    left, right = (Operand(a.values.astype(np.float64), a.valid, DOUBLE, a.constant) for a in args)
    found = chosen(np.isnan(left.values) & (True if left.valid is None else left.valid), right, left)
    return Operand(found.values, found.valid, type_, all(arg.constant for arg in args))


def _bits(of_ints: Callable[..., Ints]) -> Evaluation:
    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        found = strict(lambda *operands: of_ints(*(o.values for o in operands)))(args, type_)
        return Operand(found.values, in_range(found.values, found.valid, type_), type_, found.constant)

    return evaluated


def _shift(shifted: Callable[[Ints, Ints, int], Ints]) -> Evaluation:
    """By the count's lowest bits, within 32 or 64 bits, as Java shifts."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        bits = 32 if type_.kind is Kind.INT else 64
        found = strict(lambda x, count: _wrapped(shifted(x.values, count.values & (bits - 1), bits), bits))(args, type_)
        return Operand(found.values, in_range(found.values, found.valid, type_), type_, found.constant)

    return evaluated


def _wrapped(values: Ints, bits: int) -> Ints:
    return values.astype(np.int32).astype(np.int64) if bits == 32 else values


def _unsigned(x: Ints, count: Ints, bits: int) -> Ints:
    kept = x & 0xFFFFFFFF if bits == 32 else x
    found: Ints = (kept.view(np.uint64) >> count.astype(np.uint64)).view(np.int64)
    return found


NUMBER_CALLS: dict[str, Evaluation] = {
    "abs": _absolute,
    "sign": strict(lambda x: np.sign(to_double(x))),
    "floor": _made_whole(np.floor, lambda units, unit: units // unit),
    "ceil": _made_whole(np.ceil, lambda units, unit: -(-units // unit)),
    "round": _round(ROUND_HALF_UP),
    "bround": _round(ROUND_HALF_EVEN),
    "sqrt": _real(np.sqrt),
    "cbrt": _real(np.cbrt),
    "exp": _real(np.exp),
    "expm1": _real(np.expm1),
    "ln": _real(np.log, _not_positive),
    "log10": _real(np.log10, _not_positive),
    "log2": _real(lambda x: np.log(x) / np.log(2.0), _not_positive),
    "log1p": _real(np.log1p, lambda x: x <= -1),
    "log": _real(lambda base, x: np.log(x) / np.log(base), lambda base, x: (base <= 0) | (x <= 0)),
    "sin": _real(np.sin),
    "cos": _real(np.cos),
    "tan": _real(np.tan),
    "cot": _real(lambda x: 1 / np.tan(x)),
    "sec": _real(lambda x: 1 / np.cos(x)),
    "csc": _real(lambda x: 1 / np.sin(x)),
    "asin": _real(np.arcsin),
    "acos": _real(np.arccos),
    "atan": _real(np.arctan),
    "sinh": _real(np.sinh),
    "cosh": _real(np.cosh),
    "tanh": _real(np.tanh),
    "asinh": _real(np.arcsinh),
    "acosh": _real(np.arccosh),
    "atanh": _real(np.arctanh),
    "degrees": _real(lambda x: x * _RADIAN),
    "radians": _real(lambda x: x * _DEGREE),
    "rint": _real(np.rint),
    "power": _real(_power),
    "atan2": _real(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
    "hypot": _real(np.hypot),
    "pmod": _pmod,
    "div": _div,
    "isnan": _isnan,
    "nanvl": _nanvl,
    "bitand": _bits(np.bitwise_and),
    "bitor": _bits(np.bitwise_or),
    "bitxor": _bits(np.bitwise_xor),
    "bitnot": _bits(np.bitwise_not),
    "shiftleft": _shift(lambda x, count, _: np.left_shift(x, count)),
    "shiftright": _shift(lambda x, count, _: np.right_shift(x, count)),
    "shiftrightunsigned": _shift(_unsigned),
}
