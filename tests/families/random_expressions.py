"""Seeded random expressions over one stream with a column or two of every type, and rows full of nasty values."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from tests.oracle import plain_decimals
from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import (
    And,
    Arithmetic,
    Call,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Param,
)
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Column,
    DataType,
    Kind,
    Stream,
    decimal,
)
from weir.store.row_files import arrow_schema, arrow_type

COLUMNS: dict[str, DataType] = {
    "i": INT,
    "i2": INT,
    "b": BIGINT,
    "b2": BIGINT,
    "d": DOUBLE,
    "d2": DOUBLE,
    "m": decimal(9, 2),
    "m2": decimal(18, 6),
    "m3": decimal(4, 4),
    "w": decimal(38, 10),
    "w2": decimal(24, 0),
    "w3": decimal(38, 38),
    "s": STRING,
    "s2": STRING,
    "f": BOOLEAN,
    "day": DATE,
    "day2": DATE,
    "t": TIMESTAMP,
    "t2": TIMESTAMP,
}
STREAM = Stream("trade", tuple(Column(n, t) for n, t in COLUMNS.items()), time="t", keep_us=None)
WIDE = (decimal(38, 2), decimal(22, 4), decimal(38, 0))
EXACT = Context(prec=100)
OPS = ("=", "<>", "<", "<=", ">", ">=")
DAY_US = 86_400_000_000
NOW_US = 1_704_067_200_000_000

# Unscaled decimals of more than 53 bits whose nearest double is missed by rounding them before the division.
TWICE_ROUNDED = (
    (805_038_215_132_204_600, 18),
    (-296_145_364_979_798_901, 18),
    (189_844_464_659_950_140, 17),
    (-457_997_856_692_147_526, 9),
    (15_132_835_678_806_443, 9),
)

_INTS = [*range(-6, 7), 41, 42, 2**31 - 1, -(2**31), 2**24 + 1]
_BIGINTS = [
    *range(-6, 7),
    2**53,
    2**53 + 1,
    2**53 + 2,
    -(2**53) - 1,
    2**63 - 1,
    -(2**63) + 1,
    2**62,
    3_037_000_500,
    10**18,
]
_DOUBLES = [
    *(k / 2 for k in range(-10, 11)), 0.1, 0.3, 5.5, -0.0, math.nan, math.inf, -math.inf, 2.0**53, 2.0**63, -(2.0**63),
    9.2e18, 1e300, -1e300, 5e-324, 1.0000000000000002, 0.05, 5.499999999999999, 1e18, 0.99, 1e-6,
]  # fmt: skip
_STRINGS = [
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "b",
    "a%c",
    "a_c",
    "a\\c",
    "é",
    "日本",
    "\U0010ffff",
    "a\U0010ffff",
    "Z",
    "a\nc",
    "\x7f",
    "a¿",
    " aB ",
]
_PATTERNS = [
    "%", "a%", "ab%", "%c", "a_c", "%b%", "a\\%c", "a\\_%", "abc", "", "_", "é%", "a\\\\c", "a%c", "\x7f%", "a¿%",
    "%%", "\U0010ffff%", "a\U0010ffff%", "a.c", "_%", "日_", "\\a%",
]  # fmt: skip
_INTERVALS = [0, 1, -1, 1_000_000, 3_600_000_000, DAY_US, -DAY_US, 7 * DAY_US, 5]


def pool(type_: DataType) -> Sequence[Any]:
    """Values of a type, as `Literal.value` gives them."""
    match type_.kind:
        case Kind.INT:
            return _INTS
        case Kind.BIGINT:
            return _BIGINTS
        case Kind.DOUBLE:
            return _DOUBLES
        case Kind.STRING:
            return _STRINGS
        case Kind.BOOLEAN:
            return [True, False]
        case Kind.DATE:
            return [dt.date(2024, 1, 1) + dt.timedelta(days=k) for k in range(-4, 5)] + [dt.date(1969, 12, 31)]
        case Kind.TIMESTAMP:
            return [NOW_US + k * DAY_US // 2 for k in range(-5, 6)] + [NOW_US + 1, 0, -1, -(10**15) - 7]
        case Kind.INTERVAL:
            return _INTERVALS
        case Kind.DECIMAL:
            top = 10**type_.precision - 1
            units = [k * 10**type_.scale // 2 for k in range(-10, 11)] + [1, -1, 549, 550, 551, top, -top, top - 1]
            if type_.precision > 18:
                units += [2**63, -(2**63), 2**63 - 1, 2**64 + 1, 2**53 + 1, 10**18, 10**19 + 1]
            return [Decimal(u).scaleb(-type_.scale, EXACT) for u in units if abs(u) <= top]
    raise AssertionError(type_)


def random_rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows as Python values; timestamps in µs."""
    return [{n: None if rng.random() < 0.12 else rng.choice(pool(t)) for n, t in COLUMNS.items()} for _ in range(count)]


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns = {n: to_arrow([row[n] for row in rows], t) for n, t in COLUMNS.items()}
    return pa.table(columns, schema=arrow_schema(STREAM.columns))


def to_arrow(values: Sequence[Any], type_: DataType) -> pa.Array:
    if type_.kind is Kind.TIMESTAMP:
        return pa.array(values, pa.int64()).cast(arrow_type(type_))
    return pa.array(values, arrow_type(type_))


def from_arrow(array: pa.Array, type_: DataType) -> list[Any]:
    if type_.kind is Kind.TIMESTAMP:
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped
    return array.to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped


def same(a: Any, b: Any) -> bool:
    """Equality of two values, of NaN with itself, with NULL apart from all."""
    if a is None or b is None:
        return a is b
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b)


def arithmetic_type(op: str, a: DataType, b: DataType) -> DataType:
    """The result type of numeric arithmetic, by the language's rules."""
    whole = (Kind.INT, Kind.BIGINT)
    are_whole = a.kind in whole and b.kind in whole
    if Kind.DOUBLE in (a.kind, b.kind) or (op == "/" and are_whole):
        return DOUBLE
    if are_whole:
        return BIGINT
    digits = [((10 if t.kind is Kind.INT else 20), 0) if t.kind in whole else (t.precision, t.scale) for t in (a, b)]
    return decimal(*plain_decimals.type_of(op, *digits))


class Writer:
    """Writes random expressions. With `params`, constants become params c0, c1, … whose types are recorded."""

    def __init__(self, rng: random.Random, *, params: bool = False, null_share: float = 0.05) -> None:
        self.rng = rng
        self.params = params
        self.null_share = null_share
        self.types: dict[str, DataType] = {}
        self._pools: dict[str, Sequence[Any] | None] = {}

    def constant(self, type_: DataType, values: Sequence[Any] | None = None) -> Literal | Param:
        if self.params and self.rng.random() < 0.8:
            name = f"c{len(self.types)}"
            self.types[name] = type_
            self._pools[name] = values
            return Param(name, type_)
        return Literal(self.value(type_, values), type_)

    def value(self, type_: DataType, values: Sequence[Any] | None = None) -> Any:
        return None if self.rng.random() < self.null_share else self.rng.choice(values or pool(type_))

    def constants(self) -> dict[str, Any]:
        """One row of values for the params used so far."""
        return {n: self.value(t, self._pools[n]) for n, t in self.types.items()}

    def column(self, *kinds: Kind) -> ColumnRef:
        name = self.rng.choice([n for n, t in COLUMNS.items() if t.kind in kinds])
        return ColumnRef(0, name, COLUMNS[name])

    def number_type(self) -> DataType:
        return self.rng.choice(
            [INT, BIGINT, DOUBLE, decimal(9, 2), decimal(3, 1), decimal(18, 9), decimal(2, 0), *WIDE]
        )

    def number(self, depth: int) -> Expression:
        rng = self.rng
        numeric = (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)
        if depth <= 0 or rng.random() < 0.3:
            return self.column(*numeric) if rng.random() < 0.75 else self.constant(self.number_type())
        choice = rng.random()
        if choice < 0.75:
            a, b = self.number(depth - 1), self.number(depth - 1)
            op = rng.choice("+-*/%")
            return Arithmetic(op, a, b, arithmetic_type(op, a.type, b.type))
        arg = self.number(depth - 1)
        if choice < 0.85:
            return Negate(arg, arg.type)
        if choice < 0.93:
            return self.number_call(arg)
        return Cast(arg, self.number_type())

    def called(self, function: str, *args: Expression) -> Expression:
        """A call, of the type that the table of functions says."""
        return Call(function, args, SIGNATURES[function].type_of(args))

    def number_call(self, arg: Expression) -> Expression:
        function = self.rng.choice(
            ("abs", "abs", "sign", "floor", "ceil", "round", "coalesce", "greatest", "least", "case")
        )
        if function in ("coalesce", "greatest", "least"):
            others = [Cast(self.number(1), arg.type) for _ in range(self.rng.choice((1, 1, 2)))]
            return self.called(function, arg, *others)
        if function == "case":
            return self.called("case", self.atom(), arg, self.constant(arg.type))
        return self.called(function, arg)

    def text(self, depth: int) -> Expression:
        """A text made of texts and places."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.2:
            return self.column(Kind.STRING) if rng.random() < 0.8 else self.constant(STRING)
        arg = self.text(depth - 1)
        function = rng.choice(("upper", "lower", "trim", "ltrim", "rtrim", "substring", "concat", "replace", "choice"))
        if function == "substring":
            places = [self.place() for _ in range(rng.choice((1, 2)))]
            return self.called(function, arg, *places)
        if function in ("concat", "replace"):
            return self.called(function, arg, *(self.text(depth - 1) for _ in range(rng.choice((1, 2)))))
        if function == "choice":
            other = self.text(depth - 1)
            function = rng.choice(("coalesce", "nullif", "greatest", "least", "case"))
            return self.called(function, *([self.atom()] if function == "case" else []), arg, other)
        return self.called(function, arg)

    def place(self) -> Expression:
        values = (0, 1, 2, 3, -1, -2, -9, 2**31, 2**63 - 1, -(2**63) + 1)
        return self.column(Kind.INT) if self.rng.random() < 0.3 else self.constant(BIGINT, values)

    def of_time(self) -> Expression:
        """A part of a time, or what it is truncated to."""
        time = self.column(Kind.TIMESTAMP) if self.rng.random() < 0.7 else Cast(self.column(Kind.DATE), TIMESTAMP)
        if self.rng.random() < 0.4:
            units = ("year", "quarter", "month", "WEEK", "day", "hour", "minute", "second", "millisecond", "dd", "x")
            return self.called("date_trunc", self.constant(STRING, units), time)
        function = self.rng.choice(("year", "month", "day", "hour", "minute", "second"))
        of_date = function in ("year", "month", "day") and self.rng.random() < 0.4
        return self.called(function, self.column(Kind.DATE) if of_date else time)

    def temporal(self, depth: int) -> Expression:
        rng = self.rng
        kind = rng.choice([DATE, TIMESTAMP])
        if depth <= 0 or rng.random() < 0.5:
            return self.column(kind.kind) if rng.random() < 0.8 else self.constant(kind)
        choice = rng.random()
        if choice < 0.5:
            lengths = [k for k in _INTERVALS if k % DAY_US == 0] if kind is DATE else None
            arg = self.column(kind.kind)
            return Arithmetic(rng.choice("+-"), arg, self.constant(INTERVAL, lengths), kind)
        if choice < 0.8:
            return Cast(self.column(kind.kind), TIMESTAMP if kind is DATE else DATE)
        a, b = self.column(Kind.TIMESTAMP), self.column(Kind.TIMESTAMP)
        return Arithmetic("-", a, b if rng.random() < 0.5 else self.constant(TIMESTAMP), INTERVAL)

    def predicate(self, depth: int) -> Expression:
        rng = self.rng
        if depth > 0 and rng.random() < 0.6:
            choice = rng.random()
            if choice < 0.2:
                return Not(self.predicate(depth - 1))
            args = tuple(self.predicate(depth - 1) for _ in range(rng.choice([2, 2, 2, 3])))
            return And(args) if choice < 0.65 else Or(args)
        return self.atom()

    def atom(self) -> Expression:
        rng = self.rng
        choice = rng.random()
        op = rng.choice(OPS)
        if choice < 0.35:
            sides: list[Expression] = [
                self.column(Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL),
                self.constant(self.number_type()),
            ]
        elif choice < 0.5:
            sides = [self.number(rng.randint(0, 2)), self.number(rng.randint(0, 1))]
        elif choice < 0.53:
            sides = [self.called("length", self.text(1)), self.constant(INT, (0, 1, 2, 3))]
        elif choice < 0.56:
            a = self.of_time()
            sides = [a, self.constant(a.type, (0, 1, 12, 1970, 2024) if a.type is INT else None)]
        elif choice < 0.65:
            sides = [
                self.column(Kind.STRING) if rng.random() < 0.8 else self.text(1),
                self.constant(STRING) if rng.random() < 0.8 else self.column(Kind.STRING),
            ]
        elif choice < 0.75:
            a = self.temporal(1)
            same_family = [INTERVAL] if a.type.kind is Kind.INTERVAL else [DATE, TIMESTAMP]
            sides = [a, self.constant(rng.choice(same_family))]
        elif choice < 0.8:
            sides = [self.column(Kind.BOOLEAN), self.constant(BOOLEAN)]
        elif choice < 0.88:
            return Like(self.column(Kind.STRING), self.constant(STRING, _PATTERNS))
        elif choice < 0.94:
            kinds = {t.kind for t in COLUMNS.values()}
            return IsNull(self.column(*kinds) if rng.random() < 0.7 else self.number(1))
        elif choice < 0.98:
            return self.column(Kind.BOOLEAN)
        else:
            return self.constant(BOOLEAN)
        if rng.random() < 0.3:
            sides.reverse()
        return Comparison(op, sides[0], sides[1])
