"""Scalar functions of dates and instants, all of them UTC: their types, and for a few their values for constants.

Those without a value stay as they are when their arguments are constants, and are evaluated with the rows.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from weir.algebra import schema
from weir.algebra.order import UnfoldedError
from weir.algebra.signatures import (
    CONDITION,
    DAY,
    FIXED_TEXT,
    MOMENT,
    NUMBER,
    TEXT,
    TIME,
    WHOLE,
    WORD,
    Signature,
    Taken,
    Takes,
    always,
)
from weir.algebra.time_patterns import formatting_fault, parsing_fault

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def _moment(time: Any) -> dt.datetime:
    try:
        if isinstance(time, dt.date):
            return dt.datetime(time.year, time.month, time.day)
        return _EPOCH + dt.timedelta(microseconds=time)
    except OverflowError:
        raise UnfoldedError from None


def _part(name: str) -> Callable[[Any], object]:
    return lambda time: getattr(_moment(time), name)


UNITS = {  # of date_trunc, by Spark's words for them
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
    **{unit: unit for unit in ("quarter", "week", "hour", "minute", "second", "millisecond", "microsecond")},
}
ADDED = frozenset(  # units of dateadd and datediff
    ["year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second", "millisecond", "microsecond"]
)
# What extract and date_part read, by Spark's words.
PARTS = {
    **dict.fromkeys(["year", "y", "years", "yr", "yrs"], "year"),
    **dict.fromkeys(["quarter", "qtr"], "quarter"),
    **dict.fromkeys(["month", "mon", "mons", "months"], "month"),
    **dict.fromkeys(["week", "w", "weeks"], "weekofyear"),
    **dict.fromkeys(["day", "d", "days"], "day"),
    **dict.fromkeys(["dayofweek", "dow"], "dayofweek"),
    **dict.fromkeys(["dayofweek_iso", "dow_iso"], "dayofweek_iso"),
    "doy": "dayofyear",
    "yearofweek": "yearofweek",
    **dict.fromkeys(["hour", "h", "hours", "hr", "hrs"], "hour"),
    **dict.fromkeys(["minute", "m", "min", "mins", "minutes"], "minute"),
    **dict.fromkeys(["second", "s", "sec", "seconds", "secs"], "extract_second"),
}


def _date_trunc(unit: str, time: Any) -> object:
    moment, word = _moment(time), UNITS.get(unit.lower())
    midnight = dt.datetime(moment.year, moment.month, moment.day)
    if word is None:
        return None
    if word in ("year", "quarter", "month"):
        month = {"year": 1, "quarter": (moment.month - 1) // 3 * 3 + 1, "month": moment.month}[word]
        found = dt.datetime(moment.year, month, 1)
    elif word in ("week", "day"):
        try:
            found = midnight - dt.timedelta(days=midnight.weekday() if word == "week" else 0)
        except OverflowError:
            raise UnfoldedError from None
    else:
        found = moment - (moment - midnight) % dt.timedelta(**{word + "s": 1})
    return (found - _EPOCH) // _MICROSECOND


def _extracted(part: str) -> Callable[[Sequence[str]], str]:
    return lambda parts: f"extract({part} FROM {parts[0]})"


def _zone(name: str) -> dt.tzinfo | None:
    """A zone by its name or its distance from UTC; None if there is no such zone."""
    found = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{2}):(\d{2})", name)
    if found is not None:
        minutes = 60 * int(found[2]) + int(found[3])
        sign = 1 if found[1] == "+" else -1
        return None if minutes > 18 * 60 else dt.timezone(sign * dt.timedelta(minutes=minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _zone_checked(args: Sequence[Any]) -> str:
    if not args or args[0] is None:
        return ""
    return "" if _zone(str(args[0])) is not None else "there is no such time zone"


def _distance(time: int, zone: str, *, local: bool) -> int | None:
    """How far the zone is from UTC at an instant, or at a local time, in microseconds; of years 1 to 9999."""
    known = _zone(zone)
    if known is None:
        return None
    try:
        moment = _EPOCH + _MICROSECOND * time
        aware = moment.replace(tzinfo=known) if local else moment.replace(tzinfo=dt.UTC).astimezone(known)
        found = aware.utcoffset()
    except OverflowError:
        return None
    return None if found is None else found // _MICROSECOND


def _from_utc(time: int, zone: str) -> int | None:
    distance = _distance(time, zone, local=False)
    return None if distance is None else time + distance


def _to_utc(time: int, zone: str) -> int | None:
    distance = _distance(time, zone, local=True)
    return None if distance is None else time - distance


def _unit_checked(args: Sequence[Any]) -> str:
    unit = str(args[0])
    known = "year, quarter, month, week, day, hour, minute, second, millisecond, microsecond"
    return "" if unit.lower() in ADDED else f"there is no unit '{unit}' ({known})"


def _formatting_checked(args: Sequence[Any]) -> str:
    return "" if args[0] is None else formatting_fault(str(args[0]))


def _parsing_checked(args: Sequence[Any]) -> str:
    return "" if args[0] is None else parsing_fault(str(args[0]))


_NUMBERS = NUMBER.kinds or frozenset()
_SECONDS = Taken("a number", frozenset(), schema.decimal(16, 6), _NUMBERS)
_ROUNDED = CONDITION
_INT, _BIGINT, _STRING = (always(t) for t in (schema.INT, schema.BIGINT, schema.STRING))
_DATE, _TIMESTAMP = always(schema.DATE), always(schema.TIMESTAMP)

TIMES = (
    *(Signature(part, Takes((TIME,)), _INT, _part(part)) for part in ("year", "month")),
    Signature("day", Takes((TIME,)), _INT, _part("day"), also=("dayofmonth",)),
    *(Signature(part, Takes((MOMENT,)), _INT, _part(part)) for part in ("hour", "minute", "second")),
    Signature("quarter", Takes((DAY,)), _INT),
    Signature("weekofyear", Takes((DAY,)), _INT),
    Signature("dayofweek", Takes((DAY,)), _INT),
    Signature("weekday", Takes((DAY,)), _INT),
    Signature("dayofyear", Takes((DAY,)), _INT),
    *(
        Signature(name, Takes((DAY,)), _INT, written=_extracted(word), is_syntax=True)
        for name, word in (("dayofweek_iso", "DOW_ISO"), ("yearofweek", "YEAROFWEEK"))
    ),
    Signature(
        "extract_second",
        Takes((MOMENT,)),
        always(schema.decimal(8, 6)),
        written=_extracted("SECOND"),
        is_syntax=True,
    ),
    Signature("dayname", Takes((DAY,)), _STRING),
    Signature("monthname", Takes((DAY,)), _STRING),
    Signature("date_trunc", Takes((TEXT, MOMENT)), _TIMESTAMP, _date_trunc),
    Signature("trunc", Takes((DAY, TEXT)), _DATE),
    Signature("last_day", Takes((DAY,)), _DATE),
    Signature("next_day", Takes((DAY, TEXT)), _DATE),
    Signature("add_months", Takes((DAY, WHOLE)), _DATE),
    Signature("months_between", Takes((MOMENT, MOMENT), (_ROUNDED,)), always(schema.DOUBLE)),
    Signature("date_add", Takes((DAY, WHOLE)), _DATE),
    Signature("date_sub", Takes((DAY, WHOLE)), _DATE),
    Signature("datediff", Takes((DAY, DAY)), _INT, also=("date_diff",)),
    Signature("timestampadd", Takes((WORD, WHOLE, MOMENT)), _TIMESTAMP, checked=_unit_checked),
    Signature("timestampdiff", Takes((WORD, MOMENT, MOMENT)), _BIGINT, checked=_unit_checked),
    Signature("to_timestamp", Takes((TEXT, FIXED_TEXT)), _TIMESTAMP, checked=_parsing_checked),
    Signature("from_utc_timestamp", Takes((MOMENT, FIXED_TEXT)), _TIMESTAMP, _from_utc, checked=_zone_checked),
    Signature("to_utc_timestamp", Takes((MOMENT, FIXED_TEXT)), _TIMESTAMP, _to_utc, checked=_zone_checked),
    Signature("date_format", Takes((MOMENT, FIXED_TEXT)), _STRING, checked=_formatting_checked),
    Signature("timestamp_seconds", Takes((NUMBER,)), _TIMESTAMP),
    Signature("timestamp_millis", Takes((WHOLE,)), _TIMESTAMP),
    Signature("timestamp_micros", Takes((WHOLE,)), _TIMESTAMP),
    Signature("unix_seconds", Takes((MOMENT,)), _BIGINT),
    Signature("unix_timestamp", Takes((MOMENT,)), _BIGINT),
    Signature("unix_millis", Takes((MOMENT,)), _BIGINT),
    Signature("unix_micros", Takes((MOMENT,)), _BIGINT),
    Signature("unix_date", Takes((DAY,)), _INT),
    Signature("date_from_unix_date", Takes((WHOLE,)), _DATE),
    Signature("make_date", Takes((WHOLE, WHOLE, WHOLE)), _DATE),
    Signature("make_timestamp", Takes((WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, _SECONDS)), _TIMESTAMP),
    Signature("make_dt_interval", Takes((), (WHOLE, WHOLE, WHOLE, _SECONDS)), always(schema.INTERVAL)),
)
