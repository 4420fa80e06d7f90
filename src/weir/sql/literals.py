"""The constants of the language: how a text becomes a number, a date, an instant or a length of time.

Numbers are exact: a whole number is BIGINT, one with a dot or beyond 64 bits is DECIMAL of exactly its digits when
these are at most 38, everything else (an exponent, more digits) is the nearest DOUBLE. Instants and lengths
are whole microseconds; a text that is finer than that is an error, never rounded. Each function returns None
for a text that is no such constant, so that the caller can say where it stands.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from fractions import Fraction

from weir.algebra.decimals import DIGITS_MAX
from weir.algebra.nodes import Literal
from weir.algebra.schema import BIGINT, DOUBLE, Kind, decimal

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
_BIGINT_CHARS = 18  # a number of at most so many digits is within 64 bits
SECOND_US = 1_000_000

UNITS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND_US,
    "MINUTE": 60 * SECOND_US,
    "HOUR": 3_600 * SECOND_US,
    "DAY": 86_400 * SECOND_US,
    "WEEK": 604_800 * SECOND_US,
}

# Lengths that differ from month to month have no place on a time axis of microseconds.
UNEVEN_UNITS = frozenset({"MONTH", "MONTHS", "QUARTER", "QUARTERS", "YEAR", "YEARS"})

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?\s*(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_COUNT_CHARS_MAX = 60  # of an interval's number; exact fractions of longer ones only cost time
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def unit_us(word: str) -> int | None:
    """Microseconds of an interval unit, singular or plural; None for an unknown word."""
    folded = word.upper()
    return UNITS_US.get(folded) or UNITS_US.get(folded.removesuffix("S"))


def number(text: str) -> Literal | None:
    """A numeric constant; None if the text is no number or lies beyond the doubles."""
    if len(text) <= _BIGINT_CHARS and text.isascii() and text.isdigit():
        return Literal(int(text), BIGINT)
    if not _NUMBER.fullmatch(text):
        return None
    if "e" not in text.lower():
        # int() refuses texts of thousands of digits, Decimal takes them all.
        value = Decimal(text)
        if "." not in text and INT64_MIN <= value <= INT64_MAX:
            return Literal(int(value), BIGINT)
        digits = value.as_tuple()
        assert isinstance(digits.exponent, int)
        scale = -digits.exponent
        precision = max(len(digits.digits), scale, 1)
        if precision <= DIGITS_MAX:
            return Literal(value, decimal(precision, scale))
    nearest = float(text)
    return Literal(nearest, DOUBLE) if math.isfinite(nearest) else None


def microseconds(count: str, unit: int) -> int | None:
    """`count` units in µs; None if that is no number, finer than a microsecond or beyond 64 bits."""
    if not _PLAIN.fullmatch(count) or len(count) > _COUNT_CHARS_MAX:
        return None
    exact = Fraction(count) * unit
    return int(exact) if exact.denominator == 1 and abs(exact) <= INT64_MAX else None


def date(text: str) -> dt.date | None:
    """`YYYY-MM-DD`."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    try:
        return dt.date(*(int(part) for part in found.groups()))
    except ValueError:
        return None


def timestamp(text: str, *, has_zone: bool = True) -> int | None:
    """`YYYY-MM-DD[ HH:MM[:SS[.ffffff]]][Z|+HH:MM]` in µs since the epoch; without a zone it is UTC.

    A time of a type that has no zone is what is written before it.
    """
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        moment = dt.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=dt.UTC
        )
    except ValueError:
        return None
    since = (moment - _EPOCH) // dt.timedelta(microseconds=1) + int((fraction or "").ljust(6, "0"))
    if zone is not None and has_zone and zone.upper() not in ("Z", "UTC"):
        ahead_min = int(zone[1:3]) * 60 + int(zone[-2:])
        since -= (1 if zone[0] == "+" else -1) * ahead_min * UNITS_US["MINUTE"]
    return since


def date_us(value: dt.date) -> int:
    """Midnight UTC of a date, in µs since the epoch."""
    return (value - _EPOCH.date()).days * UNITS_US["DAY"]


def negate(constant: Literal) -> Literal:
    """Minus a numeric or interval constant, of the same type."""
    assert constant.type.is_numeric or constant.type.kind is Kind.INTERVAL
    value = constant.value
    assert isinstance(value, (int, float, Decimal))
    if value == INT64_MIN and constant.type.kind is Kind.BIGINT:
        return Literal(None, constant.type)
    return Literal(value.copy_negate() if isinstance(value, Decimal) else -value, constant.type)
