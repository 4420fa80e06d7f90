"""The table of scalar functions: for each its names, what it takes, what type it gives, and its value for constants.

A row here and one in `weir.values.calls`, which evaluates columns, are all that a function needs: parsing, typing,
printing, walking, storing and indexing work from these. (The oracle has a translation of its own, and
docs/language.md a line; a test asks for all of them.)

Arguments are brought to the types that a function takes before anything is evaluated (`weir.sql.expressions`): those
that stand for one another (`VALUE`: the branches of CASE, the arguments of coalesce) have one type. A function of a
NULL is NULL, and neither `value` here nor the evaluation sees it, unless the row says `sees_nulls`.
Semantics are Spark's; where a value does not fit into a type the result is NULL, as it is for CAST.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any, NamedTuple

from weir.algebra import schema
from weir.algebra.order import UnfoldedError, order
from weir.algebra.schema import DataType, Kind

_BIGINT_MAX = 2**63 - 1
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_WIDE = Context(prec=100)


class Taken(NamedTuple):
    """What may stand as an argument."""

    words: str  # in an error
    kinds: frozenset[Kind] | None  # None: any
    untyped: DataType | None  # what a parameter or NULL is that stands there; None: what is asked of the whole call


_WHOLE = frozenset({Kind.INT, Kind.BIGINT})
_NUMBERS = _WHOLE | {Kind.DOUBLE, Kind.DECIMAL}
TEXT = Taken("a string", frozenset({Kind.STRING}), schema.STRING)
WHOLE = Taken("a whole number", _WHOLE, schema.BIGINT)
NUMBER = Taken("a number", _NUMBERS, None)
SIZED = Taken("a number or an interval", _NUMBERS | {Kind.INTERVAL}, None)
TIME = Taken("a date or a timestamp", frozenset({Kind.DATE, Kind.TIMESTAMP}), schema.TIMESTAMP)
MOMENT = Taken("a timestamp", frozenset({Kind.TIMESTAMP}), schema.TIMESTAMP)  # a date is its midnight
LIKE_ELEMENTS = Taken("a value", None, None)  # is compared with the elements of the argument before it
PAYLOAD = Taken("an array or a map", frozenset({Kind.PAYLOAD}), None)
CONDITION = Taken("a condition", frozenset({Kind.BOOLEAN}), schema.BOOLEAN)
ANY = Taken("a value", None, None)
VALUE = Taken("values of one type", None, None)  # stands for the others of the call, and has their type
MET = Taken("something to compare with", None, None)  # is compared with the argument before it


class Takes(NamedTuple):
    """The arguments: `needed`, then some or all of `optional`, or any number of `repeated` and then `last`."""

    needed: tuple[Taken, ...] = ()
    optional: tuple[Taken, ...] = ()
    repeated: tuple[Taken, ...] = ()
    last: tuple[Taken, ...] = ()

    def of(self, count: int) -> tuple[Taken, ...] | None:
        """What each of so many arguments is; None if there cannot be so many."""
        more = count - len(self.needed) - len(self.last)
        if more < 0 or (more > len(self.optional) and (not self.repeated or more % len(self.repeated))):
            return None
        between = self.repeated * (more // len(self.repeated)) if self.repeated else self.optional[:more]
        return (*self.needed, *between, *self.last)

    @property
    def count_text(self) -> str:
        """How many there are, for an error."""
        least, most = len(self.needed) + len(self.last), len(self.needed) + len(self.optional) + len(self.last)
        if self.repeated:
            return f"{least} or more arguments"
        many = str(least) if least == most else f"{least} or {most}"
        return f"{many} argument{'' if most == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    takes: Takes
    result: Callable[[Sequence[DataType]], DataType]  # of the arguments' types
    value: Callable[..., object]  # of constants, as `Literal.value` has them
    also: tuple[str, ...] = ()  # other names
    sees_nulls: bool = False  # it is asked also where arguments are NULL
    written: Callable[[Sequence[str]], str] | None = None  # how it is printed, if not as name(a, b)

    @property
    def shown(self) -> str:
        """Its name in an error."""
        return self.name.upper() if self.written else f"{self.name}()"


# What types come out.


def _always(type_: DataType) -> Callable[[Sequence[DataType]], DataType]:
    return lambda _: type_


def _first(types: Sequence[DataType]) -> DataType:
    return types[0]


def _last(types: Sequence[DataType]) -> DataType:
    return types[-1]


def _widened(types: Sequence[DataType]) -> DataType:
    return schema.BIGINT if types[0].kind is Kind.INT else types[0]


def _whole_number(types: Sequence[DataType]) -> DataType:
    return _rounded(types) if types[0].kind is Kind.DECIMAL else schema.BIGINT


def _rounded(types: Sequence[DataType]) -> DataType:
    """A decimal without its digits behind the point may have one more in front."""
    type_ = types[0]
    if type_.kind is not Kind.DECIMAL or not type_.scale:
        return type_
    return schema.decimal(type_.precision - type_.scale + 1, 0)


# Values of constants.


def _absolute(x: Any) -> object:
    return x.copy_abs() if isinstance(x, Decimal) else abs(x)


def _sign(x: Any) -> object:
    return math.nan if x != x else float((x > 0) - (x < 0))


def _integral(rounding: str) -> Callable[[Any], object]:
    def rounded(x: Any) -> object:
        if isinstance(x, Decimal):
            return x.to_integral_value(rounding, _WIDE)
        if isinstance(x, float) and not math.isfinite(x):
            return None
        whole = math.floor(x) if rounding == ROUND_FLOOR else math.ceil(x)
        return whole if abs(whole) <= _BIGINT_MAX else None

    return rounded


def _round(x: Any) -> object:
    if isinstance(x, Decimal):
        return x.to_integral_value(ROUND_HALF_UP, _WIDE)
    if isinstance(x, int) or not math.isfinite(x):
        return x
    whole = math.floor(abs(x))
    return math.copysign(float(whole + (abs(x) - whole >= 0.5)), x)


def _substring(text: str, start: int, length: int | None = None) -> object:
    begin = start - 1 if start > 0 else len(text) + start if start else 0
    end = len(text) if length is None else begin + length
    return text[max(begin, 0) : max(end, 0)]


def _replace(text: str, search: str, replacement: str = "") -> object:
    return text.replace(search, replacement) if search else text


def _coalesce(*values: object) -> object:
    return next((v for v in values if v is not None), None)


def _case(*parts: object) -> object:
    found = (value for condition, value in zip(parts[:-1:2], parts[1::2], strict=True) if condition)
    return next(found, parts[-1])


def _nullif(value: object, other: object) -> object:
    return None if value is None or (other is not None and order(value, other) == 0) else value


def _extreme(sign: int) -> Callable[..., object]:
    def found(*values: object) -> object:
        known = [v for v in values if v is not None]
        best = known[0] if known else None
        for v in known[1:]:
            best = v if order(v, best) * sign > 0 else best
        return best

    return found


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


def _no_constant(*_: object) -> object:
    raise UnfoldedError


def _written_case(parts: Sequence[str]) -> str:
    ways = zip(parts[:-1:2], parts[1::2], strict=True)
    return f"CASE {' '.join(f'WHEN {c} THEN {v}' for c, v in ways)} ELSE {parts[-1]} END"


_INT, _DOUBLE, _STRING = (_always(t) for t in (schema.INT, schema.DOUBLE, schema.STRING))

FUNCTIONS = (
    # numbers
    Signature("abs", Takes((SIZED,)), _widened, _absolute),
    Signature("sign", Takes((NUMBER,)), _DOUBLE, _sign, also=("signum",)),
    Signature("floor", Takes((NUMBER,)), _whole_number, _integral(ROUND_FLOOR)),
    Signature("ceil", Takes((NUMBER,)), _whole_number, _integral(ROUND_CEILING), also=("ceiling",)),
    Signature("round", Takes((NUMBER,)), _rounded, _round),
    # texts
    Signature("upper", Takes((TEXT,)), _STRING, str.upper, also=("ucase",)),
    Signature("lower", Takes((TEXT,)), _STRING, str.lower, also=("lcase",)),
    Signature("length", Takes((TEXT,)), _INT, len, also=("char_length", "character_length", "len")),
    Signature("trim", Takes((TEXT,)), _STRING, lambda text: text.strip(" ")),
    Signature("ltrim", Takes((TEXT,)), _STRING, lambda text: text.lstrip(" ")),
    Signature("rtrim", Takes((TEXT,)), _STRING, lambda text: text.rstrip(" ")),
    Signature("substring", Takes((TEXT, WHOLE), (WHOLE,)), _STRING, _substring, also=("substr",)),
    Signature("concat", Takes((TEXT,), repeated=(TEXT,)), _STRING, lambda *texts: "".join(texts)),
    Signature("replace", Takes((TEXT, TEXT), (TEXT,)), _STRING, _replace),
    # choices
    Signature(
        "coalesce", Takes((VALUE,), repeated=(VALUE,)), _last, _coalesce, also=("nvl", "ifnull"), sees_nulls=True
    ),
    Signature("nullif", Takes((ANY, MET)), _first, _nullif, sees_nulls=True),
    Signature("greatest", Takes((VALUE, VALUE), repeated=(VALUE,)), _last, _extreme(1), sees_nulls=True),
    Signature("least", Takes((VALUE, VALUE), repeated=(VALUE,)), _last, _extreme(-1), sees_nulls=True),
    Signature(
        "case",
        Takes((CONDITION, VALUE), repeated=(CONDITION, VALUE), last=(VALUE,)),
        _last,
        _case,
        sees_nulls=True,
        written=_written_case,
    ),
    # times
    *(Signature(part, Takes((TIME,)), _INT, _part(part)) for part in ("year", "month")),
    Signature("day", Takes((TIME,)), _INT, _part("day"), also=("dayofmonth",)),
    *(Signature(part, Takes((MOMENT,)), _INT, _part(part)) for part in ("hour", "minute", "second")),
    Signature("date_trunc", Takes((TEXT, MOMENT)), _always(schema.TIMESTAMP), _date_trunc),
    # payloads, of which there are no constants
    Signature("size", Takes((PAYLOAD,)), _INT, _no_constant, also=("cardinality",)),
    Signature("array_contains", Takes((PAYLOAD, LIKE_ELEMENTS)), _always(schema.BOOLEAN), _no_constant),
)

SIGNATURES = {f.name: f for f in FUNCTIONS}  # by the name that `Call.function` has
NAMED = {name: f for f in FUNCTIONS for name in (f.name, *f.also)}  # by every name that SQL may use
