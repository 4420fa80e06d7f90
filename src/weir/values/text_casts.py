"""Vectorised CAST to and from texts, as Spark reads and writes them (a text that Spark calls malformed becomes NULL).

Plain numbers, dates and instants are read by Arrow, all rows at once; the rarer ways to write one (an exponent, a zone,
one digit for a month) are read one distinct text at a time. A double is written as Java writes it: with the fewest
digits that tell it apart, and an exponent below 0.001 and from ten million on.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import EXACT, is_wide
from weir.algebra.schema import BIGINT, STRING, DataType, Kind
from weir.algebra.single import single
from weir.algebra.time_patterns import days_of
from weir.store.row_files import arrow_type
from weir.values.columns import DAY_US, Bools, Ints, Operand, column_operand, in_range, to_arrow

_SECOND_US = 1_000_000
_BLANKS = "".join(map(chr, (*range(33), 127)))  # what Spark trims: blanks and control characters
_WIDE = Context(prec=400, rounding=ROUND_HALF_UP)
_YEARS_MAX = 294_300  # of instants within 64 bits

_FRACTION = 18  # digits behind the point that are read with all rows at once
_NOTHING = r"^\b$"  # no text is like this
_WHOLE = r"^[+-]?[0-9]+$"
_PLAIN = {
    Kind.INT: _WHOLE,
    Kind.BIGINT: _WHOLE,
    Kind.DECIMAL: r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$",
    Kind.DOUBLE: r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
    Kind.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    Kind.TIMESTAMP: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z?)?$",
}
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")  # any alphabet's digits, as in Java
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2})(?::?([0-9]{2}))?)?")


# To texts.


def to_text(arg: Operand) -> Operand:
    """`CAST(arg AS string)`."""
    array = to_arrow(replace(arg, constant=False), len(arg.values))  # a table of constants has as many as its rows
    if arg.kind is Kind.DOUBLE:
        text = pa.array(
            [None if x is None else java_text(x, is_single=arg.type.variant == "float") for x in array.to_pylist()],
            pa.string(),
        )
    elif arg.kind is Kind.DECIMAL:
        text = _decimal_text(arg)
    elif arg.kind is Kind.TIMESTAMP:
        text = _known_only(_timestamp_text(arg.values), arg)
    elif arg.kind is Kind.DATE:
        text = _known_only(date_text(arg.values), arg)
    else:
        text = array.cast(pa.string())
    return Operand(text, arg.valid, STRING, arg.constant)


def java_text(x: float, *, is_single: bool = False) -> str:
    """A double in the words of Java's Double.toString; a 32-bit float in those of Float.toString."""
    if not math.isfinite(x):
        return "NaN" if x != x else "Infinity" if x > 0 else "-Infinity"
    if x == 0 or 1e-3 <= abs(x) < 1e7:
        return _shortest(x, is_single)
    shortest, _, exponent = f"{Decimal(_shortest(x, is_single)).normalize():e}".lower().partition("e")
    if "." not in shortest:
        two = f"{x:.1e}".partition("e")[0]  # Java writes two digits, the nearest ones (4.9E-324)
        again = single(float(f"{two}e{exponent}")) if is_single else float(f"{two}e{exponent}")
        shortest = two if again == x else shortest + ".0"
    return f"{shortest}E{int(exponent)}"


def _shortest(x: float, is_single: bool) -> str:
    """The fewest digits that tell it apart."""
    return str(np.float32(x)) if is_single else repr(x)


def _known_only(text: pa.Array, arg: Operand) -> pa.Array:
    return text if arg.valid is None else pc.if_else(pa.array(arg.valid), text, pa.scalar(None, pa.string()))


def digits(numbers: Ints, width: int) -> pa.Array:
    """Whole numbers with at least so many digits."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=width, padding="0")


def date_text(days: Ints) -> pa.Array:
    """Dates by ISO 8601; years of more than four digits have a sign."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = 1970 + dates.astype("datetime64[Y]").astype(np.int64)
    day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    sign = pc.if_else(pa.array(years < 0), "-", pc.if_else(pa.array(years > 9999), "+", ""))
    written = pc.binary_join_element_wise(sign, digits(np.abs(years), 4), "")
    return pc.binary_join_element_wise(written, digits(months.astype(np.int64) % 12 + 1, 2), digits(day, 2), "-")


def _timestamp_text(moments: Ints) -> pa.Array:
    """To the second, and what is finer without trailing zeros."""
    clock = moments // _SECOND_US % 86_400
    time = pc.binary_join_element_wise(
        digits(clock // 3_600, 2), digits(clock // 60 % 60, 2), digits(clock % 60, 2), ":"
    )
    whole = pc.binary_join_element_wise(date_text(moments // DAY_US), time, " ")
    fraction = digits(moments % _SECOND_US, 6)
    finer = pc.binary_join_element_wise(whole, pc.utf8_rtrim(fraction, characters="0"), ".")
    return pc.if_else(pa.array(moments % _SECOND_US != 0), finer, whole)


def _decimal_text(arg: Operand) -> pa.Array:
    """Plain digits: Arrow itself writes small decimals with an exponent."""
    scale, size = arg.type.scale, len(arg.values)
    if is_wide(arg.type):
        known = np.ones(size, bool) if arg.valid is None else arg.valid
        units = zip(arg.values.tolist(), known.tolist(), strict=True)
        return pa.array([_plain_text(n, scale) if ok else None for n, ok in units], pa.string())
    valid = pa.array(np.ones(size, bool) if arg.valid is None else arg.valid)
    unsigned = np.abs(arg.values)
    sign = pc.if_else(pa.array(np.asarray(arg.values < 0)), "-", "")
    whole = pa.array(unsigned // 10**scale).cast(pa.string())
    text = pc.binary_join_element_wise(sign, whole, "")
    if scale:
        text = pc.binary_join_element_wise(text, digits(unsigned % 10**scale, scale), ".")
    return pc.if_else(valid, text, pa.scalar(None, pa.string()))


def _plain_text(units: int, scale: int) -> str:
    text = str(abs(units)).rjust(scale + 1, "0")
    front = ("-" if units < 0 else "") + text[: len(text) - scale]
    return f"{front}.{text[len(text) - scale :]}" if scale else front


# From texts.


def from_text(arg: Operand, type_: DataType) -> Operand:
    """`CAST(arg AS type_)` of texts."""
    kind = type_.kind
    text = pc.utf8_trim(arg.values, characters=_BLANKS)
    if kind is Kind.BOOLEAN:
        return _boolean(text, type_, arg)
    plain = pc.match_substring_regex(text, pattern=_NOTHING if _one_by_one(type_) else _PLAIN[kind])
    bulk = _BULK[kind](pc.if_else(plain, text, pa.scalar(None, pa.string())), type_, arg.constant)
    other = pc.and_(pc.invert(plain), pc.greater(pc.binary_length(text), 0)).fill_null(False)
    if kind in (Kind.INT, Kind.BIGINT) or not pc.any(other).as_py():
        return bulk
    rows = np.flatnonzero(other.to_numpy(zero_copy_only=False))
    encoded = text.take(pa.array(rows)).dictionary_encode()
    read = [_SINGLE[kind](word, type_) for word in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy()
    known = np.array([value is not None for value in read], bool)
    values = bulk.values.copy()
    values[rows] = np.array([0 if v is None else v for v in read], values.dtype)[codes]
    valid = np.ones(len(values), bool) if bulk.valid is None else bulk.valid.copy()
    valid[rows] = known[codes]
    return Operand(values, valid, type_, arg.constant)


def _one_by_one(type_: DataType) -> bool:
    """Decimals with more digits than numbers are read with at once."""
    return is_wide(type_) or (type_.kind is Kind.DECIMAL and type_.scale >= _FRACTION)


def _boolean(text: pa.Array, type_: DataType, arg: Operand) -> Operand:
    lower = pc.ascii_lower(text)
    true = pc.is_in(lower, pa.array(["t", "true", "y", "yes", "1"]))
    false = pc.is_in(lower, pa.array(["f", "false", "n", "no", "0"]))
    read = pc.if_else(true, True, pc.if_else(false, False, pa.scalar(None, pa.bool_())))
    return column_operand(read, type_, constant=arg.constant)


def _double_column(text: pa.Array, type_: DataType, constant: bool) -> Operand:
    return column_operand(text.cast(arrow_type(type_)), type_, constant=constant)


def _number_column(text: pa.Array, type_: DataType, constant: bool) -> Operand:
    """Numbers read from their integer digits and the first 18 after the point, so that no text is too long."""
    if _one_by_one(type_):
        return column_operand(pa.nulls(len(text), arrow_type(type_)), type_, constant=constant)
    negative = _known(pc.starts_with(text, pattern="-"))
    bare = pc.replace_substring_regex(text, pattern="^[+-]?0*", replacement="")
    front = pc.replace_substring_regex(bare, pattern=r"\.[0-9]*$", replacement="")
    too_long = pc.greater(pc.utf8_length(front), 19)
    front = pc.if_else(too_long, pa.scalar(None, pa.string()), pc.utf8_lpad(front, width=1, padding="0"))
    whole = front.cast(pa.decimal128(38, 0))
    whole = pc.if_else(pc.greater(whole, pa.scalar(2**63 - 1, pa.decimal128(38, 0))), None, whole)
    units = column_operand(whole.cast(pa.int64()), BIGINT)
    if type_.kind is not Kind.DECIMAL:
        values = np.where(negative, -units.values, units.values)
        return Operand(values, in_range(values, units.valid, type_), type_, constant)
    point = pc.replace_substring_regex(bare, pattern=r"^[0-9]*\.?", replacement="")
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(point, width=_FRACTION, padding="0"), 0, _FRACTION)
    fraction = column_operand(padded.cast(pa.int64()), BIGINT).values
    cut, rest = np.divmod(fraction, 10 ** (_FRACTION - type_.scale))
    cut = cut + (rest * 2 >= 10 ** (_FRACTION - type_.scale))
    fits = units.values <= (2**63 - 1) // 10**type_.scale - 1
    valid = fits if units.valid is None else units.valid & fits
    values = np.where(fits, units.values, 0) * 10**type_.scale + cut
    values = np.where(negative, -values, values)
    return Operand(values, in_range(values, valid, type_), type_, constant)


def _known(found: pa.Array) -> Bools:
    return found.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow is untyped


def _date_column(text: pa.Array, type_: DataType, constant: bool) -> Operand:
    """As `strptime` reads 30 February as 1 March, each date is written again and compared with its text."""
    parsed = pc.strptime(text, format="%Y-%m-%d", unit="s", error_is_null=True)
    back = pc.strftime(parsed, format="%Y-%m-%d").cast(pa.string())
    return column_operand(pc.if_else(pc.equal(back, text), parsed, None).cast(pa.date32()), type_, constant=constant)


def _timestamp_column(text: pa.Array, type_: DataType, constant: bool) -> Operand:
    text = pc.replace_substring_regex(
        pc.replace_substring(text, pattern="T", replacement=" "), pattern="Z$", replacement=""
    )
    has_clock = pc.greater(pc.utf8_length(text), 10)
    text = pc.if_else(has_clock, text, pc.binary_join_element_wise(text, "00:00:00", " "))
    whole = pc.utf8_slice_codeunits(text, 0, 19)
    parsed = pc.strptime(whole, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)
    back = pc.strftime(parsed, format="%Y-%m-%d %H:%M:%S").cast(pa.string())
    seconds = pc.if_else(pc.equal(back, whole), parsed, None).cast(pa.int64())
    fraction = pc.utf8_rpad(pc.utf8_slice_codeunits(text, 20, 26), width=6, padding="0").cast(pa.int64())
    moments = (
        pc.add(pc.multiply(seconds, _SECOND_US), fraction).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    )
    return column_operand(moments, type_, constant=constant)


def _double_of(text: str, type_: DataType) -> float | None:
    bare = text[:-1] if text[-1] in "dDfF" else text
    if _DOUBLE.fullmatch(bare):
        double = float(bare)
        # Beyond these sizes a float is zero or infinite.
        exact = Decimal(bare) if type_.variant and 1e-60 < abs(double) < 1e60 else double
        return single(exact) if type_.variant else double
    if _HEXADECIMAL.fullmatch(bare):
        try:
            return single(float.fromhex(bare)) if type_.variant else float.fromhex(bare)
        except OverflowError:
            return -math.inf if bare.startswith("-") else math.inf
    if text in ("+NaN", "-NaN"):
        return math.nan
    special = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
    word = text.lower()
    if word.lstrip("+-") == "nan" and word != "nan":
        return None
    size = special.get(word.removeprefix("+").removeprefix("-") if word[1:2] not in "+-" else "")
    return None if size is None else -size if word.startswith("-") else size


def _decimal_of(text: str, type_: DataType) -> int | None:
    """The unscaled number; exponents beyond a billion are not read."""
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        exact = Decimal(text)
        if exact.adjusted() > 40:
            return None if exact else 0
        scaled = int(exact.quantize(Decimal(1).scaleb(-type_.scale), context=_WIDE).scaleb(type_.scale, EXACT))
    except InvalidOperation:
        return 0
    return scaled if abs(scaled) < 10**type_.precision else None


def _date_of(text: str, _: DataType) -> int | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    sign, year, month, day = found.groups()
    return days_of(int(sign + year), int(month or 1), int(day or 1))


def _moment_of(text: str, type_: DataType) -> int | None:
    """The instant that a text writes; without a date (10:30) it would depend on the day of the answer, and is NULL."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, zone = found.groups()
    days = days_of(int(sign + year), int(month or 1), int(day or 1))
    clock = [int(part or 0) for part in (hour, minute, second)]
    if days is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 59 or abs(int(year)) > _YEARS_MAX:
        return None
    seconds = days * 86_400 + clock[0] * 3_600 + clock[1] * 60 + clock[2]
    ahead = 0 if zone is None else _ahead(zone.strip(), seconds)
    if ahead is not None and type_.variant:
        ahead = 0  # a time of a type that has no zone is what is written before it
    moment = None if ahead is None else (seconds - ahead) * _SECOND_US + int((fraction or "")[:6].ljust(6, "0"))
    return moment if moment is not None and abs(moment) < 2**63 else None


def _ahead(zone: str, seconds: int) -> int | None:
    """How many seconds a zone is ahead of UTC; the names of regions are those of the time zone database."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is not None:
        hours, minutes, rest = (int(part or 0) for part in found.groups()[1:])
        ahead = hours * 3_600 + minutes * 60 + rest
        if minutes > 59 or rest > 59 or ahead > 18 * 3_600:
            return None
        return ahead if found[1] == "+" else -ahead
    if "/" not in zone:
        return None
    try:
        local = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
        offset = local.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    except (OSError, ValueError, KeyError, OverflowError):
        return None
    return None if offset is None else int(offset.total_seconds())


_BULK: dict[Kind, Callable[[pa.Array, DataType, bool], Operand]] = {
    Kind.INT: _number_column,
    Kind.BIGINT: _number_column,
    Kind.DECIMAL: _number_column,
    Kind.DOUBLE: _double_column,
    Kind.DATE: _date_column,
    Kind.TIMESTAMP: _timestamp_column,
}
_SINGLE: dict[Kind, Callable[[str, DataType], int | float | None]] = {
    Kind.DECIMAL: _decimal_of,
    Kind.DOUBLE: _double_of,
    Kind.DATE: _date_of,
    Kind.TIMESTAMP: _moment_of,
}
