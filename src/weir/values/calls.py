"""Vectorised scalar functions: how each row of `weir.algebra.functions` evaluates over operands of columns.

A function gets its operands and the type of its result. All have as many values or one, which stands for all; what
stands where a value is NULL means nothing. A *strict* function gives values only, and its result is NULL where one of
the operands is; the others (CASE, coalesce, greatest, …) are made of `_chosen`, one of two operands for each row.

Cost: some passes of NumPy or Arrow. Texts that are not ASCII change case one distinct text at a time, because Unicode's
rules look at whole words ('ß' becomes 'SS', a Σ at the end of a word ς); so does `replace` with distinct patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.functions import SIGNATURES, UNITS
from weir.algebra.schema import STRING, TIMESTAMP, DataType, Kind
from weir.store.row_files import arrow_type
from weir.values import payloads
from weir.values.columns import (
    DAY_US,
    IN_ARROW,
    Bools,
    Ints,
    Operand,
    both_valid,
    column_operand,
    distinct_rows,
    in_range,
    null_operand,
    without,
)
from weir.values.comparisons import compare

Evaluation = Callable[[Sequence[Operand], DataType], Operand]
Values = Callable[..., Any]  # of operands, and of the result's type by name: the values that come out

_TWO_TO_63 = 2.0**63
_HOUR_US = 3_600_000_000
_CLOCK_US = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": _HOUR_US}


def call(function: str, args: Sequence[Operand], type_: DataType) -> Operand:
    """The function of the operands, of type `type_` as the algebra says."""
    if not SIGNATURES[function].sees_nulls and any(arg.kind is Kind.NULL for arg in args):
        return null_operand(type_)
    with np.errstate(all="ignore"):  # NULL places hold anything
        return EVALUATIONS[function](args, type_)


def _count(args: Sequence[Operand]) -> int:
    """How many values the result has: a single value stands for all."""
    return next((len(arg.values) for arg in args if len(arg.values) != 1), 1)


def _spread(arg: Operand, count: int) -> Operand:
    """An operand with as many values."""
    if len(arg.values) == count:
        return arg
    at = np.zeros(count, np.int64)
    values = arg.values.take(pa.array(at)) if arg.kind in IN_ARROW else arg.values[at]
    return Operand(values, None if arg.valid is None else arg.valid[at], arg.type, arg.constant)


def _strict(values: Values) -> Evaluation:
    """A function that is NULL exactly where an operand is; its values are numbers, or texts in an Arrow array."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        count, constant = _count(args), all(arg.constant for arg in args)
        found = values(*args)
        if type_.kind is Kind.STRING:
            return _texts(found, constant)
        valid = both_valid(*(arg if arg.valid is None else _spread(arg, count) for arg in args))
        return Operand(found, valid, type_, constant)

    return evaluated


def _texts(values: pa.Array, constant: bool) -> Operand:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    valid = None if values.null_count == 0 else values.is_valid().to_numpy(zero_copy_only=False)
    return Operand(values, valid, STRING, constant)


# Numbers.


def _absolute(args: Sequence[Operand], type_: DataType) -> Operand:
    arg = args[0]
    values = np.abs(arg.values)
    valid = arg.valid if arg.kind is Kind.DOUBLE else in_range(values, arg.valid, type_)
    return Operand(values, valid, type_, arg.constant)


def _rounded(of_doubles: Callable[[Any], Any], of_units: Callable[[Ints, int], Ints]) -> Evaluation:
    """A number as a whole one; a double that becomes a bigint is NULL where it does not fit, and so is NaN."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        (arg,) = args
        if arg.kind is Kind.DECIMAL:
            return Operand(of_units(arg.values, 10**arg.type.scale), arg.valid, type_, arg.constant)
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


def _half_up_units(units: Ints, unit: int) -> Ints:
    whole, rest = np.divmod(np.abs(units), unit)
    signed: Ints = np.sign(units) * (whole + (rest * 2 >= unit))
    return signed


# Texts.


def _cased(ascii_case: Callable[[Any], Any], case: Callable[[str], str]) -> Values:
    def values(text: Operand) -> pa.Array:
        if pc.all(pc.string_is_ascii(text.values)).as_py() is not False:
            return ascii_case(text.values)
        encoded = text.values.dictionary_encode()
        changed = [None if word is None else case(word) for word in encoded.dictionary.to_pylist()]
        return pa.array(changed, pa.string()).take(encoded.indices)

    return values


def _length(text: Operand) -> Ints:
    counts: Ints = pc.utf8_length(text.values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return counts


def _substring(text: Operand, start: Operand, length: Operand | None = None) -> pa.Array:
    """By the bytes at which characters begin; the rows are cut out of one buffer."""
    given = [text, start] if length is None else [text, start, length]
    count = _count(given)
    text, start, *more = (_spread(arg, count) for arg in given)
    valid = both_valid(text, start, *more)
    offsets, octets = _bytes(text.values)
    begins = np.flatnonzero((octets & 0xC0) != 0x80)  # of characters
    firsts = np.searchsorted(begins, offsets)  # by text, the number of its first character
    begins = np.append(begins, len(octets))
    counts = np.diff(firsts)
    at = start.values
    begin = np.where(at > 0, at - 1, np.where(at < 0, counts + at, 0))
    end = counts
    if more:  # begin + length, which is cut where the sum might overflow
        wanted = np.maximum(more[0].values, 0)
        begin = np.minimum(begin, counts)
        end = begin + np.where(begin < 0, wanted, np.minimum(wanted, counts))
    begin = np.clip(begin, 0, counts)
    end = np.maximum(begin, np.clip(end, 0, counts))
    begin, end = begins[firsts[:-1] + begin], begins[firsts[:-1] + end]
    sizes = end - begin
    cut = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=cut[1:])
    kept = octets[np.repeat(begin - cut[:-1], sizes) + np.arange(cut[-1])]
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(count, pa.py_buffer(cut), pa.py_buffer(kept), validity)


def _bytes(texts: pa.Array) -> tuple[Ints, np.ndarray]:
    """Where the texts begin and end, and their bytes."""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return places - places[0], octets[places[0] : places[-1]]


def _concat(*texts: Operand) -> pa.Array:
    count = _count(texts)
    return pc.binary_join_element_wise(*(_spread(text, count).values for text in texts), "")


def _replace(text: Operand, search: Operand, replacement: Operand | None = None) -> pa.Array:
    patterns = [search, replacement or Operand(pa.array([""]), None, STRING, True)]
    return _by_pattern(text, patterns, lambda part, texts: _replaced(part.values, *texts))


def _by_pattern(arg: Operand, patterns: Sequence[Operand], values: Callable[..., pa.Array]) -> pa.Array:
    """What texts that are usually constants make of an operand: once for each distinct combination of them."""
    count = _count([arg, *patterns])
    columns = [p.values for p in patterns]
    if all(len(column) == 1 for column in columns):
        return values(arg, [column[0].as_py() for column in columns])
    arg, *spread = (_spread(o, count) for o in (arg, *patterns))
    firsts, which = distinct_rows([p.values for p in spread])
    rows = [np.flatnonzero(which == k) for k in range(len(firsts))]
    parts = []
    for first, at in zip(firsts, rows, strict=True):
        chosen = arg.values.take(pa.array(at)) if arg.kind is Kind.STRING else arg.values[at]
        parts.append(values(Operand(chosen, None, arg.type, False), [p.values[first].as_py() for p in spread]))
    if not parts:
        return values(arg, [None for _ in patterns])
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows))))


def _replaced(texts: pa.Array, search: str | None, replacement: str | None) -> pa.Array:
    if search is None or replacement is None:
        return pa.nulls(len(texts), pa.string())
    return pc.replace_substring(texts, pattern=search, replacement=replacement) if search else texts


# Choices.


def _chosen(mask: Bools, then: Operand, other: Operand) -> Operand:
    """For each row `then` where the mask is set, else `other`; both are of one type."""
    count = max(_count([then, other]), len(mask)) if min(len(then.values), len(other.values), len(mask)) else 0
    mask = mask if len(mask) == count else np.repeat(mask, count)
    then, other = _spread(then, count), _spread(other, count)
    if other.kind in IN_ARROW:
        chosen = pc.if_else(pa.array(mask), then.values, other.values)
        return replace(_texts(chosen, False), type=other.type)
    valid = None
    if then.valid is not None or other.valid is not None:
        known = [np.ones(count, bool) if arg.valid is None else arg.valid for arg in (then, other)]
        valid = np.where(mask, *known)
    return Operand(np.where(mask, then.values, other.values), valid, other.type, False)


def _true(condition: Operand) -> Bools:
    values: Bools = condition.values.astype(bool)
    return values if condition.valid is None else values & condition.valid


def _known(arg: Operand) -> Bools:
    return np.ones(len(arg.values), bool) if arg.valid is None else arg.valid


def _choice(choose: Callable[[Sequence[Operand]], Operand]) -> Evaluation:
    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        found = choose(args)
        return Operand(found.values, found.valid, type_, all(arg.constant for arg in args))

    return evaluated


def _case(args: Sequence[Operand]) -> Operand:
    found = args[-1]
    for condition, value in zip(reversed(args[:-1:2]), reversed(args[1::2]), strict=True):
        found = _chosen(_true(condition), value, found)
    return found


def _coalesce(args: Sequence[Operand]) -> Operand:
    return reduce(lambda rest, arg: _chosen(_known(arg), arg, rest), reversed(args[:-1]), args[-1])


def _nullif(args: Sequence[Operand]) -> Operand:
    value, other = args
    return _chosen(_true(compare("=", value, other)), null_operand(value.type), value)


def _extreme(op: str, args: Sequence[Operand]) -> Operand:
    def better(best: Operand, arg: Operand) -> Operand:
        # What is compared are values, as rows have them: nothing here is a constant that others adapt to.
        count = _count([best, arg])
        best, arg = (_spread(o, count) for o in (best, arg))
        plain = [Operand(o.values, o.valid, o.type, False) for o in (arg, best)]
        return _chosen(_known(arg) & (~_known(best) | _true(compare(op, *plain))), arg, best)

    return reduce(better, args[1:], args[0])


# Times.


def _days(time: Operand) -> Ints:
    values: Ints = time.values
    return values if time.kind is Kind.DATE else values // DAY_US


def _calendar(time: Operand, unit: str) -> Ints:
    """Whole years, months or days since 1970, of the proleptic Gregorian calendar."""
    found: Ints = _days(time).astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)
    return found


def _year(time: Operand) -> Ints:
    return 1970 + _calendar(time, "Y")


def _month(time: Operand) -> Ints:
    return 1 + _calendar(time, "M") % 12


def _day(time: Operand) -> Ints:
    days = _days(time).astype("datetime64[D]")
    since: Ints = (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
    return 1 + since


def _clock(unit_us: int, most: int) -> Values:
    return lambda time: time.values // unit_us % most


def _date_trunc(args: Sequence[Operand], type_: DataType) -> Operand:
    unit, time = args
    found = _by_pattern(time, [unit], lambda part, words: _truncated(part, words[0]))
    made = column_operand(found, type_, constant=unit.constant and time.constant)
    time = _spread(time, len(made.values)) if time.valid is not None else time
    return Operand(made.values, both_valid(made, time), type_, made.constant)


def _truncated(time: Operand, word: str | None) -> pa.Array:
    unit = None if word is None else UNITS.get(word.lower())
    values: Ints = time.values
    if unit is None:
        return pa.nulls(len(values), arrow_type(TIMESTAMP))
    if unit in _CLOCK_US:
        values = values - values % _CLOCK_US[unit]
    else:
        days = _days(time)
        if unit == "week":
            days = days - (days + 3) % 7  # 1970 began on a Thursday
        elif unit != "day":
            months = _calendar(time, "M")
            months -= months % {"year": 12, "quarter": 3, "month": 1}[unit]
            days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        values = days * DAY_US
    return pa.array(values).cast(arrow_type(TIMESTAMP))


EVALUATIONS: dict[str, Evaluation] = {
    "size": payloads.size,
    "array_contains": payloads.array_contains,
    "abs": _absolute,
    "sign": _strict(lambda x: np.sign(x.values).astype(np.float64)),
    "floor": _rounded(np.floor, lambda units, unit: units // unit),
    "ceil": _rounded(np.ceil, lambda units, unit: -(-units // unit)),
    "round": _rounded(_half_up, _half_up_units),
    "upper": _strict(_cased(pc.ascii_upper, str.upper)),
    "lower": _strict(_cased(pc.ascii_lower, str.lower)),
    "length": _strict(_length),
    "trim": _strict(lambda text: pc.utf8_trim(text.values, characters=" ")),
    "ltrim": _strict(lambda text: pc.utf8_ltrim(text.values, characters=" ")),
    "rtrim": _strict(lambda text: pc.utf8_rtrim(text.values, characters=" ")),
    "substring": _strict(_substring),
    "concat": _strict(_concat),
    "replace": _strict(_replace),
    "coalesce": _choice(_coalesce),
    "nullif": _choice(_nullif),
    "greatest": _choice(partial(_extreme, ">")),
    "least": _choice(partial(_extreme, "<")),
    "case": _choice(_case),
    "year": _strict(_year),
    "month": _strict(_month),
    "day": _strict(_day),
    "hour": _strict(_clock(_HOUR_US, 24)),
    "minute": _strict(_clock(60_000_000, 60)),
    "second": _strict(_clock(1_000_000, 60)),
    "date_trunc": _date_trunc,
}
