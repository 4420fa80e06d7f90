"""Vectorised comparison and LIKE over operands of `weir.values.columns`.

Numbers compare exactly. A column of integers or decimals against a constant becomes one comparison of its
int64 values with a whole threshold, computed by Python's rationals without rounding (`x < 5.5` is `x <= 5`);
two such columns of different scale compare by quotient and remainder, so nothing overflows; wide ones hold Python's
whole numbers. Doubles follow
Spark's order: NaN equals NaN and is above +∞, −0.0 equals 0.0. A double column against a constant of another
type compares with the constant's nearest double; a double against an integer or decimal *column* casts the
latter, and two constants do likewise. Strings compare by their UTF-8 bytes.

The box templates of `weir.boxes.templates` reach the same answers by key intervals and share nothing with this
file: tests hold one against the other.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import BOOLEAN, DataType, Kind
from weir.values.columns import DAY_US, Bools, Doubles, Ints, Operand, both_valid, null_operand, to_double

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMPY: dict[str, Any] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARROW: dict[str, Any] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compare(op: str, left: Operand, right: Operand) -> Operand:
    """`left op right`; NULL where either is."""
    if Kind.NULL in (left.kind, right.kind):
        return null_operand(BOOLEAN)
    kinds = {left.kind, right.kind}
    if kinds == {Kind.STRING}:
        values = _strings(op, left, right)
    elif kinds == {Kind.BOOLEAN}:
        values = _NUMPY[op](left.values, right.values)
    elif Kind.DOUBLE in kinds and not _double_constant(left, right) and not _double_constant(right, left):
        values = _doubles(op, to_double(left), to_double(right))
    elif right.constant and not left.constant:
        values = _with_threshold(op, left.values, _threshold(right, left.type))
    elif left.constant and not right.constant:
        values = _with_threshold(MIRRORED[op], right.values, _threshold(left, right.type))
    else:
        values = _columns(op, left, right)
    return Operand(values, both_valid(left, right), BOOLEAN, left.constant and right.constant)


def _double_constant(column: Operand, constant: Operand) -> bool:
    """Whether this is an integer-like column against a double constant, which is compared exactly."""
    return column.kind is not Kind.DOUBLE and not column.constant and constant.constant and constant.kind is Kind.DOUBLE


def _doubles(op: str, a: Doubles, b: Doubles) -> Bools:
    if op in (">", ">="):
        return ~_doubles("<=" if op == ">" else "<", a, b)
    if op == "<>":
        return ~_doubles("=", a, b)
    with np.errstate(all="ignore"):
        plain: Bools = _NUMPY[op](a, b)
        if len(b) == 1 and not math.isnan(b[0]):
            return plain  # a NaN in `a` is neither below nor equal to a number, as it should be
        b_nan = np.isnan(b)
        if op == "<":
            return plain | (b_nan & ~np.isnan(a))
        return plain | (b_nan if op == "<=" else b_nan & np.isnan(a))


def _unit(type_: DataType) -> Fraction:
    """What 1 in `Operand.values` is worth, among types that compare with one another."""
    if type_.kind is Kind.DECIMAL:
        return Fraction(1, 10**type_.scale)
    return Fraction(DAY_US if type_.kind is Kind.DATE else 1)


def _threshold(constant: Operand, column_type: DataType) -> Fraction | float:
    """The constant in the units of the column; infinities and NaN stay floats."""
    value = constant.values[0]
    if constant.kind is not Kind.DOUBLE:
        return int(value) * _unit(constant.type) / _unit(column_type)
    if not math.isfinite(value):
        return float(value)
    return Fraction(float(value)) / _unit(column_type)


def _with_threshold(op: str, values: Ints, threshold: Fraction | float) -> Bools:
    if isinstance(threshold, float):  # above everything, or (−∞) below everything; never equal
        above = not threshold < 0
        return np.full(len(values), above if op in ("<", "<=") else op == "<>" or (not above and op != "="))
    whole = math.floor(threshold)
    if whole != threshold:
        if op in ("=", "<>"):
            return np.full(len(values), op == "<>")
        op = "<=" if op in ("<", "<=") else ">"
    # NumPy compares int64 with a Python integer of any size exactly.
    return _NUMPY[op](values, whole)  # type: ignore[no-any-return]  # the ufuncs are untyped


def _columns(op: str, left: Operand, right: Operand) -> Bools:
    ratio = _unit(left.type) / _unit(right.type)
    if ratio == 1:
        return _NUMPY[op](left.values, right.values)  # type: ignore[no-any-return]  # the ufuncs are untyped
    if ratio < 1:
        return _columns(MIRRORED[op], right, left)
    quotient, remainder = right.values // int(ratio), right.values % int(ratio)
    if op in ("=", "<>"):
        equal: Bools = (left.values == quotient) & (remainder == 0)
        return equal if op == "=" else ~equal
    if op in ("<", ">="):  # left·ratio < right is left < ⌈right / ratio⌉
        quotient = quotient + (remainder > 0)
    return _NUMPY[op](left.values, quotient)  # type: ignore[no-any-return]  # the ufuncs are untyped


def _strings(op: str, left: Operand, right: Operand) -> Bools:
    # A single value stands for all; a table of constants has as many as its queries.
    if len(left.values) == 1 and len(right.values) != 1:
        return _known_true(_ARROW[op](left.values[0], right.values))
    return _known_true(_ARROW[op](left.values, right.values[0] if len(right.values) == 1 else right.values))


def _known_true(found: pa.Array) -> Bools:
    if found.null_count:
        found = found.fill_null(False)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow is untyped


def like(arg: Operand, pattern: Operand) -> Operand:
    """`arg LIKE pattern` over whole strings, case sensitive."""
    if Kind.NULL in (arg.kind, pattern.kind):
        return null_operand(BOOLEAN)
    if len(pattern.values) != 1:  # a column of patterns: once for each distinct one
        return _like_each(arg, pattern)
    text = pattern.values[0].as_py()
    if text is None:
        return null_operand(BOOLEAN)
    return Operand(_known_true(_find_like(arg.values, text)), arg.valid, BOOLEAN, arg.constant)


def _like_each(arg: Operand, pattern: Operand) -> Operand:
    count = len(pattern.values)
    strings = arg.values if len(arg.values) == count else pa.repeat(arg.values[0], count)
    encoded = pattern.values.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    values = np.zeros(count, bool)
    texts = encoded.dictionary.to_pylist()
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(texts) + 1))
    for text, begin, end in zip(texts, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        at = order[begin:end]
        values[at] = _known_true(_find_like(strings.take(pa.array(at)), text))
    return Operand(values, both_valid(arg, pattern), BOOLEAN, arg.constant and pattern.constant)


def _find_like(strings: pa.Array, pattern: str) -> pa.Array:
    """Most patterns are a text that is equal, or stands at the start, at the end or anywhere: no regex."""
    core = re.fullmatch(r"(%*)([^%_\\]*)(%*)", pattern)
    if core is None:
        return pc.match_substring_regex(strings, pattern=_regex(pattern))
    before, text, after = core.groups()
    if not before and not after:
        return pc.equal(strings, text)
    if not before:
        return pc.starts_with(strings, pattern=text)
    return pc.match_substring(strings, pattern=text) if after or not text else pc.ends_with(strings, pattern=text)


def _regex(pattern: str) -> str:
    """The regular expression (RE2) of a LIKE pattern; `\\x` is x itself, also for a backslash at the end."""
    parts = []
    for token in re.findall(r"\\.|.", pattern, re.DOTALL):
        if token == "%":
            parts.append(".*")
        elif token == "_":
            parts.append(".")
        else:
            character = token[-1]
            plain = character.isalnum() or ord(character) >= 128
            parts.append(character if plain else f"\\x{{{ord(character):x}}}")
    return r"(?s)\A" + "".join(parts) + r"\z"
