"""The scalar functions once more, one row at a time, for the plain twins: written from docs/language.md.

Values are those of Python; a time is a naive `datetime` in UTC. Numbers are rounded as fractions, texts walked by
character. `rank` orders values as the twin does that calls.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

OF_TIMES = ("year", "month", "day", "hour", "minute", "second", "date_trunc")  # the last argument is a time
OF_ONE_TYPE = ("coalesce", "greatest", "least", "case")
ALSO = {"nvl": "coalesce", "ifnull": "coalesce", "substr": "substring", "ceiling": "ceil", "char_length": "length"}
_UNITS = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
_FIELDS = ("year", "month", "day", "hour", "minute", "second", "microsecond")
_LEAST = {"month": 1, "day": 1}


def instant(us: int | None) -> dt.datetime | None:
    return None if us is None else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=us)


def value(name: str, args: Sequence[Any], rank: Callable[[Any], Any]) -> Any:
    """The function of the arguments; NULL of NULL but for the choices."""
    if name == "coalesce":
        return next((a for a in args if a is not None), None)
    if name == "case":
        for k in range(0, len(args) - 1, 2):
            if args[k] is True:
                return args[k + 1]
        return args[-1]
    if name in ("greatest", "least"):
        known = sorted((a for a in args if a is not None), key=rank, reverse=name == "greatest")
        return known[0] if known else None
    if any(a is None for a in args):
        return None
    if name == "date_trunc":
        return _date_trunc(args[0].lower(), args[1])
    if name in OF_TIMES:
        return getattr(args[0], name)
    return _OTHERS[name](*args)


def _date_trunc(unit: str, time: dt.datetime) -> dt.datetime | None:
    unit = _UNITS.get(unit, unit)
    if unit == "week":
        year, week, _ = time.isocalendar()
        return dt.datetime.fromisocalendar(year, week, 1)
    if unit == "quarter":
        return dt.datetime(time.year, (1, 4, 7, 10)[(time.month - 1) // 3], 1)
    if unit == "millisecond":
        return time.replace(microsecond=int(f"{time.microsecond:06d}"[:3]) * 1000)
    if unit not in _FIELDS:
        return None
    return time.replace(**{f: _LEAST.get(f, 0) for f in _FIELDS[_FIELDS.index(unit) + 1 :]})


def _absolute(x: Any) -> Any:
    return x.copy_abs() if isinstance(x, Decimal) else math.fabs(x) if isinstance(x, float) else max(x, -x)


def _is_odd(x: Any) -> bool:
    return isinstance(x, float) and not math.isfinite(x)


def _sign(x: Any) -> float:
    return math.nan if isinstance(x, float) and math.isnan(x) else 1.0 if x > 0 else -1.0 if x < 0 else 0.0


def _whole(nearest: Callable[[Fraction], int]) -> Callable[[Any], Any]:
    def whole(x: Any) -> Any:
        if _is_odd(x):
            return None
        found = nearest(Fraction(x))
        return Decimal(found) if isinstance(x, Decimal) else found if abs(found) < 2**63 else None

    return whole


def _round(x: Any) -> Any:
    if isinstance(x, int) or _is_odd(x):
        return x
    found = math.floor(abs(Fraction(x)) + Fraction(1, 2)) * (-1 if x < 0 else 1)
    return Decimal(found) if isinstance(x, Decimal) else float(found)


def _without_blanks(text: str, *, left: bool, right: bool) -> str:
    while left and text[:1] == " ":
        text = text[1:]
    while right and text[-1:] == " ":
        text = text[:-1]
    return text


def _substring(text: str, start: int, length: int | None = None) -> str:
    first = start if start > 0 else 1 if start == 0 else len(text) + 1 + start
    return "".join(c for k, c in enumerate(text, 1) if k >= first and (length is None or k < first + length))


def _replace(text: str, search: str, other: str = "") -> str:
    return other.join(text.split(search)) if search else text


_OTHERS: dict[str, Callable[..., Any]] = {
    "abs": _absolute,
    "sign": _sign,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _round,
    "upper": lambda text: text.upper(),
    "lower": lambda text: text.lower(),
    "length": lambda text: sum(1 for _ in text),
    "trim": lambda text: _without_blanks(text, left=True, right=True),
    "ltrim": lambda text: _without_blanks(text, left=True, right=False),
    "rtrim": lambda text: _without_blanks(text, left=False, right=True),
    "substring": _substring,
    "concat": lambda *texts: "".join(texts),
    "replace": _replace,
}
