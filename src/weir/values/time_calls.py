"""Vectorised functions of dates (days since 1970) and instants (microseconds), all UTC.

The calendar is NumPy's proleptic Gregorian one, which is Spark's. A result beyond the dates or instants is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import EXACT, is_wide
from weir.algebra.schema import DATE, TIMESTAMP, DataType, Kind
from weir.algebra.time_functions import UNITS
from weir.algebra.time_patterns import MONTHS, WEEKDAYS, Part, parsed_us, parts_of
from weir.store.row_files import arrow_type
from weir.values.columns import DAY_US, Bools, Ints, Operand, both_valid, column_operand, in_range, without
from weir.values.evaluations import Evaluation, Values, by_pattern, mapped, size_of, spread, strict
from weir.values.text_casts import digits

_HOUR_US = 3_600_000_000
_SECOND_US = 1_000_000
_CLOCK_US = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": _HOUR_US}
_FIXED_US = {**_CLOCK_US, "day": DAY_US, "dayofyear": DAY_US, "week": 7 * DAY_US}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_YEARS_MAX = 6_000_000  # beyond all dates of 32 bits
_MONTH_SECONDS = 31 * 86_400
_WEEKDAYS = {name: k for k, day in enumerate(WEEKDAYS) for name in (day[:2].lower(), day[:3].lower(), day.lower())}


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
    return _to_unit(_truncated, time, unit, type_)


def _to_unit(
    truncated: Callable[[Operand, str | None], pa.Array], time: Operand, unit: Operand, type_: DataType
) -> Operand:
    """Times cut down to the units that a column of words names."""
    found = by_pattern(time, [unit], lambda part, words: truncated(part, words[0]))
    made = column_operand(found, type_, constant=unit.constant and time.constant)
    time = spread(time, len(made.values)) if time.valid is not None else time
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


def _of_months(months: Ints) -> Ints:
    """The first day of months since 1970."""
    found: Ints = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return found


def _first_of_year(days: Ints) -> Ints:
    found: Ints = days.astype("datetime64[D]").astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    return found


def _thursday(time: Operand) -> Ints:
    """The Thursday of the week, whose year the week belongs to (ISO 8601)."""
    days = _days(time)
    return days - (days + 3) % 7 + 3


def _week(time: Operand) -> Ints:
    thursday = _thursday(time)
    return (thursday - _first_of_year(thursday)) // 7 + 1


def _year_of_week(time: Operand) -> Ints:
    found: Ints = 1970 + _thursday(time).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64)
    return found


def _named(names: Sequence[str], place: Callable[[Operand], Ints]) -> Values:
    short = pa.array([name[:3] for name in names])

    def values(time: Operand) -> pa.Array:
        return short.take(pa.array(place(time), mask=None if time.valid is None else ~time.valid))

    return values


def _dates(days_of: Callable[..., Any]) -> Evaluation:
    """A date of the operands' days and numbers; NULL beyond the dates, or where the second thing it gives is set."""
    return _times(days_of, DATE)


def _times(values_of: Callable[..., Any], type_: DataType) -> Evaluation:
    def evaluated(args: Sequence[Operand], _type: DataType) -> Operand:
        size = size_of(args)
        wide = [spread(arg, size) for arg in args]
        found = values_of(*wide)
        values, bad = found if isinstance(found, tuple) else (found, np.zeros(1, bool))
        valid = without(both_valid(*wide), np.broadcast_to(bad, size))
        return Operand(values, in_range(values, valid, type_), type_, all(arg.constant for arg in args))

    return evaluated


def _clipped(arg: Operand, limit: int) -> tuple[Ints, Bools]:
    """Numbers that calculations cannot overflow with, and where they were larger."""
    return np.clip(arg.values, -limit, limit), np.abs(arg.values) > limit


def _add_days(sign: int) -> Callable[..., Any]:
    def days_of(time: Operand, count: Operand) -> tuple[Ints, Bools]:
        more, bad = _clipped(count, 2**33)
        return time.values + sign * more, bad

    return days_of


def _moved(days: Ints, count: Ints) -> Ints:
    """Days, some months later: the same day of the month, or its last one."""
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    day = days - _of_months(months)
    firsts = _of_months(months + count)
    last = _of_months(months + count + 1) - firsts - 1
    moved: Ints = firsts + np.minimum(day, last)
    return moved


def _add_months(time: Operand, count: Operand) -> tuple[Ints, Bools]:
    more, bad = _clipped(count, 12 * _YEARS_MAX)
    return _moved(time.values, more), bad


def _last_day(time: Operand) -> Ints:
    return _of_months(_calendar(time, "M") + 1) - 1


def _next_day(args: Sequence[Operand], type_: DataType) -> Operand:
    names = args[1].values.to_pylist()
    wanted = np.array([-1 if name is None else _WEEKDAYS.get(name.strip(" ").lower(), -1) for name in names])
    size = size_of(args)
    time, wanted = spread(args[0], size), np.broadcast_to(wanted, size)
    days = time.values + 1 + (wanted - time.values - 4) % 7
    valid = without(time.valid, wanted < 0)
    return Operand(days, in_range(days, valid, type_), type_, all(arg.constant for arg in args))


def _trunc(args: Sequence[Operand], type_: DataType) -> Operand:
    time, unit = args
    return _to_unit(_truncated_day, time, unit, type_)


def _truncated_day(time: Operand, word: str | None) -> pa.Array:
    unit = None if word is None else UNITS.get(word.lower())
    if unit not in ("year", "quarter", "month", "week"):
        return pa.nulls(len(time.values), pa.date32())
    moments = Operand(time.values * DAY_US, None, TIMESTAMP, False)
    return _truncated(moments, unit).cast(pa.date32())


def _split(time: Operand) -> tuple[Ints, Ints, Ints, Bools]:
    """Months since 1970, the day of the month, seconds of the day, and whether it is the month's last day."""
    months, days = _calendar(time, "M"), _days(time)
    return months, _day(time), time.values // _SECOND_US % 86_400, days == _of_months(months + 1) - 1


def _months_between(args: Sequence[Operand], type_: DataType) -> Operand:
    def values(one: Operand, other: Operand, rounded: Operand | None = None) -> Any:
        size = size_of([one, other, *args[2:]])
        one, other = spread(one, size), spread(other, size)
        (months, day, seconds, is_last), (months2, day2, seconds2, is_last2) = _split(one), _split(other)
        whole = (months - months2).astype(np.float64)
        rest = ((day - day2) * 86_400 + seconds - seconds2) / float(_MONTH_SECONDS)
        exact = whole + rest
        near = np.floor(exact * 1e8 + 0.5) / 1e8
        found = near if rounded is None else np.where(rounded.values, near, exact)
        return np.where((day == day2) | (is_last & is_last2), whole, found)

    return strict(values)(args, type_)


def _timestampadd(args: Sequence[Operand], type_: DataType) -> Operand:
    unit, count, time = args
    word = unit.values[0].as_py().lower()

    def moments(count: Operand, time: Operand) -> tuple[Ints, Bools]:
        if word in _MONTHS:
            more, bad = _clipped(count, _YEARS_MAX * 12)
            days, bad_days = _moved(time.values // DAY_US, more * _MONTHS[word]), bad
            clipped = np.clip(days, -(2**63) // DAY_US + 2, 2**63 // DAY_US - 2)
            return clipped * DAY_US + time.values % DAY_US, bad_days | (clipped != days)
        more, bad = _clipped(count, 2**62 // _FIXED_US[word])
        found = time.values + more * _FIXED_US[word]
        return found, bad | ((time.values ^ found) & (more ^ found) < 0)

    return _times(moments, TIMESTAMP)([count, time], type_)


def _timestampdiff(args: Sequence[Operand], type_: DataType) -> Operand:
    unit, *times = args
    word = unit.values[0].as_py().lower()

    def values(start: Operand, end: Operand) -> Ints:
        size = size_of([start, end])
        start, end = spread(start, size), spread(end, size)
        if word not in _MONTHS:
            difference = end.values - start.values
            quotient: Ints = np.abs(difference) // _FIXED_US[word] * np.sign(difference)
            return quotient
        days, clock = [time.values // DAY_US for time in (start, end)], [time.values % DAY_US for time in (start, end)]
        # Java first moves the end to the start's time of the day, towards the start.
        later, earlier = (days[1] > days[0]) & (clock[1] < clock[0]), (days[1] < days[0]) & (clock[1] > clock[0])
        days[1] = days[1] - later + earlier
        packed = [_calendar(o, "M") * 32 + _day(o) for o in (Operand(d, None, DATE, False) for d in days)]
        difference = packed[1] - packed[0]
        whole: Ints = np.abs(difference) // 32 * np.sign(difference)
        found: Ints = np.abs(whole) // _MONTHS[word] * np.sign(whole)
        return found

    return strict(values)(times, type_)


def _to_timestamp(args: Sequence[Operand], type_: DataType) -> Operand:
    pattern = args[1].values[0].as_py()
    return mapped(lambda text: parsed_us(text, pattern))([args[0]], type_)


def _date_format(time: Operand, pattern: Operand) -> pa.Array:
    """Each letter is a column of texts; they are joined."""
    parts = [_written(time, part) for part in parts_of(pattern.values[0].as_py())]
    found = pc.binary_join_element_wise(*parts, "") if len(parts) > 1 else parts[0] if parts else pa.scalar("")
    if isinstance(found, pa.Scalar):
        found = pa.repeat(found, len(time.values))
    if time.valid is None:
        return found
    return pc.if_else(pa.array(np.broadcast_to(time.valid, len(found))), found, pa.scalar(None, pa.string()))


def _written(time: Operand, part: Part) -> Any:
    letter, count = part.letter, part.times
    if not letter:
        return pa.scalar(part.text)
    if letter == "E":
        names = pa.array(WEEKDAYS if count == 4 else [day[:3] for day in WEEKDAYS])
        return names.take(pa.array((_days(time) + 3) % 7))
    if letter == "M" and count > 2:
        return pa.array(MONTHS if count == 4 else [m[:3] for m in MONTHS]).take(pa.array(_calendar(time, "M") % 12))
    if letter == "a":
        return pa.array(["AM", "PM"]).take(pa.array(time.values // (12 * _HOUR_US) % 2))
    if letter == "y":
        return _written_year(_year(time), count)
    hour = time.values // _HOUR_US % 24
    numbers: dict[str, Callable[[], Ints]] = {
        "M": lambda: _month(time),
        "d": lambda: _day(time),
        "H": lambda: hour,
        "h": lambda: (hour + 11) % 12 + 1,
        "m": lambda: time.values // 60_000_000 % 60,
        "s": lambda: time.values // _SECOND_US % 60,
        "S": lambda: time.values % _SECOND_US * 1_000 // 10 ** (9 - count),
    }
    return digits(numbers[letter](), count)


def _written_year(years: Ints, count: int) -> pa.Array:
    """Years before 1 are 0, −1, …; more than four digits have a sign."""
    if count == 2:
        return digits(np.abs(years) % 100, 2)
    sign = pc.if_else(pa.array(years < 0), "-", pc.if_else(pa.array(years > 9999), "+", ""))
    return pc.binary_join_element_wise(sign, digits(np.abs(years), 4), "")


def _timestamp_seconds(args: Sequence[Operand], type_: DataType) -> Operand:
    (arg,) = args
    if arg.kind is Kind.DOUBLE:
        scaled = np.trunc(arg.values * _SECOND_US)
        # Spark stops at the last instant; the first one is reserved.
        bad = ~np.isfinite(arg.values) | (scaled <= -(2.0**63))
        last = scaled >= 2.0**63
        found = np.where(last, 2**63 - 1, np.where(bad | last, 0, scaled).astype(np.int64))
        return Operand(found, without(arg.valid, bad), type_, arg.constant)
    scale = arg.type.scale if arg.kind is Kind.DECIMAL else 0
    if scale > 6 or is_wide(arg.type):
        return mapped(_microseconds)([arg], type_)
    return _scaled(10 ** (6 - scale))(args, type_)


def _microseconds(seconds: Decimal) -> object:
    """Spark has no value for what is finer than a microsecond."""
    found = EXACT.multiply(seconds, Decimal(_SECOND_US))
    return int(found) if found == found.to_integral_value() and found.copy_abs() < 2**63 else None


def _scaled(unit: int) -> Evaluation:
    def moments(count: Operand) -> tuple[Ints, Bools]:
        number, bad = _clipped(count, (2**63 - 1) // unit)
        return number * unit, bad

    return _times(moments, TIMESTAMP)


def _valid_date(year: Operand, month: Operand, day: Operand) -> tuple[Ints, Bools]:
    years, bad = _clipped(year, _YEARS_MAX)
    months = (years - 1970) * 12 + np.clip(month.values, 1, 12) - 1
    firsts = _of_months(months)
    bad |= (month.values < 1) | (month.values > 12) | (day.values < 1)
    bad |= day.values > _of_months(months + 1) - firsts
    return firsts + np.clip(day.values, 1, 31) - 1, bad


def _make_timestamp(*parts: Operand) -> tuple[Ints, Bools]:
    """The seconds are a decimal(16,6), and 60 without a fraction is the next minute."""
    days, bad = _valid_date(*parts[:3])
    hour, minute, second = (part.values for part in parts[3:])
    bad |= (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59) | (second < 0) | (second > 60 * _SECOND_US)
    clipped = np.clip(days, -(2**63) // DAY_US + 2, 2**63 // DAY_US - 2)
    clock = np.clip(hour, 0, 23) * _HOUR_US + np.clip(minute, 0, 59) * 60_000_000 + np.clip(second, 0, 60 * _SECOND_US)
    return clipped * DAY_US + clock, bad | (clipped != days)


def _make_dt_interval(args: Sequence[Operand], type_: DataType) -> Operand:
    def length(*parts: Operand) -> tuple[Ints, Bools]:
        total, bad = np.zeros(1, np.int64), np.zeros(1, bool)
        for part, unit in zip(parts, (DAY_US, _HOUR_US, 60_000_000, 1), strict=False):
            number, outside = _clipped(part, (2**61 - 1) // unit)
            total, bad = total + number * unit, bad | outside
        return total, bad

    if not args:
        return Operand(np.zeros(1, np.int64), None, type_, True)
    return _times(length, type_)(args, type_)


TIME_CALLS: dict[str, Evaluation] = {
    "year": strict(_year),
    "month": strict(_month),
    "day": strict(_day),
    "hour": strict(_clock(_HOUR_US, 24)),
    "minute": strict(_clock(60_000_000, 60)),
    "second": strict(_clock(1_000_000, 60)),
    "quarter": strict(lambda time: _calendar(time, "M") % 12 // 3 + 1),
    "weekofyear": strict(_week),
    "yearofweek": strict(_year_of_week),
    "dayofweek": strict(lambda time: (_days(time) + 4) % 7 + 1),
    "dayofweek_iso": strict(lambda time: (_days(time) + 3) % 7 + 1),
    "weekday": strict(lambda time: (_days(time) + 3) % 7),
    "dayofyear": strict(lambda time: _days(time) - _first_of_year(_days(time)) + 1),
    "extract_second": strict(lambda time: time.values % 60_000_000),
    "dayname": strict(_named(WEEKDAYS, lambda time: (_days(time) + 3) % 7)),
    "monthname": strict(_named(MONTHS, lambda time: _calendar(time, "M") % 12)),
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "last_day": _dates(_last_day),
    "next_day": _next_day,
    "add_months": _dates(_add_months),
    "months_between": _months_between,
    "date_add": _dates(_add_days(1)),
    "date_sub": _dates(_add_days(-1)),
    "datediff": strict(lambda end, start: end.values - start.values),
    "timestampadd": _timestampadd,
    "timestampdiff": _timestampdiff,
    "to_timestamp": _to_timestamp,
    "date_format": strict(_date_format),
    "timestamp_seconds": _timestamp_seconds,
    "timestamp_millis": _scaled(1_000),
    "timestamp_micros": _scaled(1),
    "unix_seconds": strict(lambda time: time.values // _SECOND_US),
    "unix_timestamp": strict(lambda time: (time.values - np.fmod(time.values, _SECOND_US)) // _SECOND_US),
    "unix_millis": strict(lambda time: time.values // 1_000),
    "unix_micros": strict(lambda time: time.values),
    "unix_date": strict(lambda time: time.values),
    "date_from_unix_date": _dates(lambda count: _clipped(count, 2**33)),
    "make_date": _dates(_valid_date),
    "make_timestamp": _times(_make_timestamp, TIMESTAMP),
    "make_dt_interval": _make_dt_interval,
}
