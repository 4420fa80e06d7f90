"""Scalar functions in the oracle: each one as DuckDB SQL that says what the language means.

Written from docs/language.md. Where DuckDB has a function of the same name that differs (trim takes all
kinds of blanks, substring other starts, concat skips NULLs, date_trunc refuses unknown units), its meaning is spelt
out. upper and lower are DuckDB's, letter by letter: texts with 'ß' or a Σ at the end of a word are not for it.
`weir.testing.scalars` translates the arguments first, and hands over how it compares and casts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from weir.algebra import schema
from weir.algebra.schema import DataType, Kind, decimal
from weir.testing.constants import TIMES, WHOLE, Scalar, constant, duck_type, wider
from weir.testing.duck_decimals import DIGITS_MAX, double, widest

_NAN = "CAST('NaN' AS DOUBLE)"
_ROOM = 4_000_000_000  # longer than any text: substring's places beyond it are as good as it
_ALSO = {
    "signum": "sign",
    "ceiling": "ceil",
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "dayofmonth": "day",
}
_UNITS = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
_UNITS |= {u: u for u in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")}
_UNITS |= {"microsecond": "microsecond"}


class Tools(NamedTuple):
    """What the translation of expressions lends."""

    compare: Callable[[str, Scalar, Scalar], Scalar]
    cast: Callable[[Scalar, DataType], Scalar]
    meeting: Callable[[Scalar, DataType], Scalar]  # a constant in the type of what it meets
    digits: Callable[[Scalar], tuple[int, int]]  # precision and scale


def function(name: str, args: Sequence[Scalar], tools: Tools) -> Scalar:
    """The call of a function by any of its names."""
    name = _ALSO.get(name.lower(), name.lower())
    sql, type_ = _CALLS[name](list(args), tools)
    return Scalar(sql, schema.STRING if type_.kind is Kind.STRING else type_, all(a.constant for a in args))


_Call = Callable[[list[Scalar], Tools], tuple[str, DataType]]


def _text(s: Scalar) -> str:
    return f"CAST({s.sql} AS VARCHAR)"


def _double(s: Scalar) -> str:
    return double(s.sql) if s.type.kind is Kind.DECIMAL else f"CAST({s.sql} AS DOUBLE)"


def _absolute(args: list[Scalar], _: Tools) -> tuple[str, DataType]:
    type_ = schema.BIGINT if args[0].type.kind is Kind.INT else args[0].type
    return f"abs(CAST({args[0].sql} AS {duck_type(type_)}))", type_


def _sign(args: list[Scalar], _: Tools) -> tuple[str, DataType]:
    x = _double(args[0])
    ways = f"WHEN isnan({x}) THEN {_NAN} WHEN {x} > 0 THEN 1 WHEN {x} < 0 THEN -1 WHEN {x} = 0 THEN 0"
    return f"CAST(CASE {ways} END AS DOUBLE)", schema.DOUBLE


def _rounded(word: str) -> _Call:
    def call(args: list[Scalar], _: Tools) -> tuple[str, DataType]:
        (x,) = args
        if x.type.kind is Kind.DECIMAL:
            more = 1 if x.scale or word == "round" else 0
            type_ = decimal(min(x.type.precision - x.scale + more, DIGITS_MAX), 0)
            return f"TRY_CAST({word}(CAST({x.sql} AS DECIMAL(38,{x.scale}))) AS {duck_type(type_)})", type_
        if x.type.kind in WHOLE:
            type_ = x.type if word == "round" else schema.BIGINT
            return f"CAST({x.sql} AS {duck_type(type_)})", type_
        whole = f"{word}({_double(x)})"
        if word == "round":
            type_ = x.type if x.type.kind is Kind.DOUBLE else schema.DOUBLE
            return f"CAST({whole} AS {duck_type(type_)})", type_
        return f"nullif(TRY_CAST({whole} AS BIGINT), CAST(-9223372036854775808 AS BIGINT))", schema.BIGINT

    return call


def _root(args: list[Scalar], _: Tools) -> tuple[str, DataType]:
    """Of a negative number it is NaN; DuckDB raises an error."""
    x = _double(args[0])
    return f"CASE WHEN {x} < 0 THEN CAST('nan' AS DOUBLE) ELSE sqrt({x}) END", schema.DOUBLE


def _of_text(pattern: str, type_: DataType = schema.STRING) -> _Call:
    """`{}` stands for the text."""
    return lambda args, _: (pattern.format(_text(args[0])), type_)


def _substring(args: list[Scalar], _: Tools) -> tuple[str, DataType]:
    text, start = _text(args[0]), f"CAST({args[1].sql} AS HUGEINT)"
    begin = f"(CASE WHEN {start} > 0 THEN {start} - 1 WHEN {start} < 0 THEN length({text}) + {start} ELSE 0 END)"
    end = f"length({text})" if len(args) < 3 else f"({begin} + CAST({args[2].sql} AS HUGEINT))"
    first = f"CAST(least(greatest({begin}, 0), {_ROOM}) AS BIGINT)"
    count = f"CAST(least(greatest({end} - {first}, 0), {_ROOM}) AS BIGINT)"
    known = " AND ".join(f"{a.sql} IS NOT NULL" for a in args)
    return f"(CASE WHEN {known} THEN substring({text}, {first} + 1, {count}) END)", schema.STRING


def _concat(args: list[Scalar], _: Tools) -> tuple[str, DataType]:
    return "(" + " || ".join(_text(a) for a in args) + ")", schema.STRING


def _replace(args: list[Scalar], _: Tools) -> tuple[str, DataType]:
    text, search, other = (_text(a) for a in (*args, constant(""))[:3])
    ways = f"WHEN {other} IS NULL THEN NULL WHEN {search} = '' THEN {text}"
    return f"(CASE {ways} ELSE replace({text}, {search}, {other}) END)", schema.STRING


def _one_type(values: Sequence[Scalar], tools: Tools) -> tuple[list[str], DataType]:
    """Values that stand for one another, and the type that all of them have then."""
    times = [v.type for v in values if v.type.kind in TIMES]
    if times:
        values = [tools.meeting(v, schema.DATE if set(times) == {schema.DATE} else schema.TIMESTAMP) for v in values]
    known = [v for v in values if v.type != schema.NULL]
    kinds = {v.type.kind for v in known}
    if len({v.type for v in known}) == 1:
        type_ = known[0].type
    elif kinds <= set(TIMES):
        type_ = schema.TIMESTAMP if schema.TIMESTAMP in (v.type for v in known) else schema.TIMESTAMP_NTZ
    elif kinds == {Kind.STRING}:
        type_ = schema.STRING
    elif Kind.DOUBLE in kinds:
        type_ = schema.DOUBLE
    elif Kind.DECIMAL in kinds:
        type_ = widest([tools.digits(v) for v in known])
    else:
        assert kinds <= set(WHOLE), f"no type for {kinds}"
        type_ = wider([v.type for v in known])
    if type_ == schema.INTERVAL:
        return [v.sql for v in values], type_
    return [(constant(None, type_) if v.type == schema.NULL else tools.cast(v, type_)).sql for v in values], type_


def _alike(word: str) -> _Call:
    def call(args: list[Scalar], tools: Tools) -> tuple[str, DataType]:
        values, type_ = _one_type(args, tools)
        different = list(dict.fromkeys(values))  # DuckDB sometimes refuses a column that stands there three times
        return f"{word}({', '.join(different)})", type_

    return call


def _case(args: list[Scalar], tools: Tools) -> tuple[str, DataType]:
    values, type_ = _one_type([*args[1::2], args[-1]], tools)
    ways = " ".join(f"WHEN {c.sql} THEN {v}" for c, v in zip(args[:-1:2], values[:-1], strict=True))
    return f"(CASE {ways} ELSE {values[-1]} END)", type_


def _nullif(args: list[Scalar], tools: Tools) -> tuple[str, DataType]:
    value, other = args
    value = tools.meeting(value, other.type)
    equal = tools.compare("=", value, other).sql
    return f"(CASE WHEN {equal} THEN NULL ELSE {value.sql} END)", value.type


def _instant(s: Scalar, tools: Tools) -> str:
    return f"CAST({tools.meeting(s, schema.TIMESTAMP).sql} AS TIMESTAMP)"


def _part(word: str) -> _Call:
    return lambda args, tools: (f"CAST({word}({_instant(args[0], tools)}) AS INTEGER)", schema.INT)


def _date_trunc(args: list[Scalar], tools: Tools) -> tuple[str, DataType]:
    unit, time = _text(args[0]), _instant(args[1], tools)
    ways = " ".join(f"WHEN '{word}' THEN date_trunc('{duck}', {time})" for word, duck in _UNITS.items())
    return f"(CASE lower({unit}) {ways} END)", schema.TIMESTAMP


_CALLS: dict[str, _Call] = {
    "abs": _absolute,
    "sign": _sign,
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "round": _rounded("round"),
    "sqrt": _root,
    "upper": _of_text("upper({})"),
    "lower": _of_text("lower({})"),
    "length": _of_text("CAST(length({}) AS INTEGER)", schema.INT),
    "trim": _of_text("trim({}, ' ')"),
    "ltrim": _of_text("ltrim({}, ' ')"),
    "rtrim": _of_text("rtrim({}, ' ')"),
    "substring": _substring,
    "concat": _concat,
    "replace": _replace,
    "coalesce": _alike("coalesce"),
    "nullif": _nullif,
    "greatest": _alike("greatest"),
    "least": _alike("least"),
    "case": _case,
    **{word: _part(word) for word in ("year", "month", "day", "hour", "minute", "second")},
    "date_trunc": _date_trunc,
}
