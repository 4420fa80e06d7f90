"""Random scalar expressions and predicates as SQL text, over given source occurrences.

Constants come from the pools that rows come from (`domains`), as literals or as `:parameters`. In
template mode nearly every constant becomes a parameter slot whose values are drawn later, one for each query.
Predicates nest AND, OR and NOT; their leaves take every comparison with every type, BETWEEN (also inverted, also
with NULL), IN, LIKE, IS NULL, bare booleans, column against column, and arithmetic over one or two columns.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from tests.generators import domains
from weir.algebra.schema import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Column,
    DataType,
    Kind,
    Stream,
    Table,
    array,
    decimal,
)

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
_PATTERNS = (
    "a%", "ab%", "%c", "%an%", "_b_", "_", "%", "", "a\\_c", "a\\%c", "%\\%%", "a_c", "日%", "_本%", "%😀%", "or%nge",
    "%b%",
)  # fmt: skip
_CASTS: dict[Kind, tuple[DataType, ...]] = {
    Kind.INT: (BIGINT, DOUBLE, decimal(9, 2), decimal(28, 9), STRING, TINYINT, FLOAT),
    Kind.BIGINT: (INT, DOUBLE, decimal(18, 3), SMALLINT, FLOAT),
    Kind.DOUBLE: (INT, BIGINT, FLOAT, SMALLINT),
    Kind.DECIMAL: (INT, BIGINT, DOUBLE, decimal(9, 1), decimal(38, 6), decimal(21, 3)),
    Kind.BOOLEAN: (INT, BIGINT),
    Kind.DATE: (TIMESTAMP,),
    Kind.TIMESTAMP: (DATE, TIMESTAMP_NTZ),
}
_GAPS = ("1 SECOND", "30 SECONDS", "5 MINUTE", "20 MINUTES", "1 HOUR", "2 DAY")


@dataclass(frozen=True)
class Source:
    """One occurrence of a stream or table in FROM."""

    alias: str
    relation: Stream | Table


@dataclass(frozen=True)
class Slot:
    """A parameter of a template: its name, its type, and the values it may take beside those of its type's pool."""

    name: str
    type: DataType
    choices: tuple[object, ...] = ()


@dataclass
class Phrases:
    """Writes text; keeps the parameters that the text mentions."""

    rng: random.Random
    sources: Sequence[Source]
    template: bool = False
    params: dict[str, object] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)

    # columns

    def columns(self, wanted: Callable[[DataType], bool] = lambda _: True) -> list[tuple[str, DataType]]:
        """(text, type) of every column in scope that is wanted."""
        named = [(self.name(s, c), c.type) for s in self.sources for c in s.relation.columns]
        return [(text, type_) for column in named for text, type_ in self.scalars(*column) if wanted(type_)]

    def scalars(self, text: str, type_: DataType) -> list[tuple[str, DataType]]:
        """What may be compared: the column itself, or parts of a payload."""
        if type_.kind is not Kind.PAYLOAD:
            return [(text, type_)]
        if type_.variant == "struct":
            return [found for name, part in type_.parts for found in self.scalars(f"{text}.{name}", part)]
        if type_.variant == "array":
            place = self.rng.choice((f"{text}[0]", f"{text}[1]", f"element_at({text}, -1)", f"get({text}, 2)"))
            found = self.scalars(place, type_.parts[0][1])
            return [*found, (f"size({text})", INT)] if self.rng.random() < 0.3 else found
        if type_.variant == "map":
            place = self.rng.choice((f"{text}['a']", f"{text}.b", f"element_at({text}, 'ab')", f"{text}['no']"))
            return self.scalars(place, type_.parts[1][1])
        return []

    def name(self, source: Source, column: Column) -> str:
        """A reference to a column; case does not matter, and a single source needs no qualifier."""
        text = column.name.upper() if self.rng.random() < 0.05 else column.name
        if len(self.sources) > 1 or self.rng.random() < 0.2:
            return f"{source.alias}.{text}"
        return text

    # constants

    def constant(self, type_: DataType) -> str:
        """A constant to be compared with something of this type; for a number possibly of another numeric type."""
        if type_.is_numeric and self.rng.random() < 0.25:
            type_ = self.rng.choice((INT, BIGINT, DOUBLE, decimal(6, 2), decimal(30, 5)))
        if self.template and self.rng.random() < 0.85:
            return self.slot(type_)
        value = self.value(type_)
        if isinstance(value, float) and not math.isfinite(value):
            return self.param(value)  # such doubles have no literal
        return self.param(value) if not self.template and self.rng.random() < 0.15 else literal(value, type_)

    def value(self, type_: DataType) -> object:
        """A value of the type's pool; now and then NULL, a special or an extreme one."""
        return random_value(self.rng, type_)

    def param(self, value: object) -> str:
        name = f"p{len(self.params) + len(self.slots)}"
        if self.template:
            self.slots.append(Slot(name, DOUBLE, (value,)))
        else:
            self.params[name] = value
        return f":{name}"

    def slot(self, type_: DataType, choices: tuple[object, ...] = ()) -> str:
        self.slots.append(Slot(f"p{len(self.slots)}", type_, choices))
        return f":{self.slots[-1].name}"

    # predicates

    def predicate(self, depth: int = 4) -> str:
        """AND, OR and NOT to the given depth."""
        roll = self.rng.random()
        if depth <= 1 or roll < 0.4:
            return self.leaf()
        if roll < 0.5:
            return f"NOT ({self.predicate(depth - 1)})"
        word = " AND " if roll < 0.72 else " OR "
        return word.join(f"({self.predicate(depth - 1)})" for _ in range(self.rng.choice((2, 2, 3))))

    def leaf(self) -> str:
        """One predicate without AND, OR or NOT outside it."""
        kinds: list[Callable[[], str]] = [self.comparison, self.comparison, self.comparison]
        types = {c.type.kind for s in self.sources for c in s.relation.columns}
        kinds += [self.between] if types != {Kind.BOOLEAN} else []
        kinds += [self.in_list, self.is_null, self.columns_compared]
        kinds += [self.cast_compared] if types != {Kind.STRING} else []
        kinds += [self.call_compared]
        if self.columns(lambda t: t.kind is Kind.STRING):
            kinds += [self.like, self.like]
        if self.columns(lambda t: t.kind is Kind.BOOLEAN):
            kinds.append(self.bare)
        if self.columns(lambda t: t.is_numeric):
            kinds += [self.arithmetic_compared, self.arithmetic_compared]
        if self.columns(lambda t: t.kind is Kind.TIMESTAMP):
            kinds.append(self.times_compared)
        if self.columns(lambda t: t.kind is Kind.DATE):
            kinds.append(self.dates_compared)
        if self.payloads():
            kinds += [self.payload_tested, self.payload_tested]
        return self.rng.choice(kinds)()

    def payloads(self) -> list[tuple[str, DataType]]:
        """(text, type) of every column that is no scalar."""
        return [
            (self.name(s, c), c.type) for s in self.sources for c in s.relation.columns if c.type.kind is Kind.PAYLOAD
        ]

    def payload_tested(self) -> str:
        """What is asked of a payload as a whole."""
        text, type_ = self.rng.choice(self.payloads())
        if type_ == array(INT) and self.rng.random() < 0.6:
            return f"array_contains({text}, {self.constant(INT)})"
        if type_.variant in ("array", "map") and self.rng.random() < 0.6:
            word = self.rng.choice(("size", "cardinality"))
            return f"{word}({text}) {self.rng.choice(OPERATORS)} {self.rng.randint(0, 3)}"
        return f"{text} IS {self.rng.choice(('', 'NOT '))}NULL"

    def comparison(self) -> str:
        text, type_ = self.rng.choice(self.columns())
        op = self.rng.choice(OPERATORS)
        constant = self.constant(type_)
        return f"{constant} {op} {text}" if self.rng.random() < 0.15 else f"{text} {op} {constant}"

    def between(self) -> str:
        text, type_ = self.rng.choice(self.columns(lambda t: t.kind is not Kind.BOOLEAN))
        word = "NOT BETWEEN" if self.rng.random() < 0.15 else "BETWEEN"
        if self.template or self.rng.random() < 0.3:
            return f"{text} {word} {self.constant(type_)} AND {self.constant(type_)}"  # inverted half of the time
        low, high = sorted((self.rng.choice(domains.ordinary(type_)) for _ in range(2)), key=sort_key)
        return f"{text} {word} {literal(low, type_)} AND {literal(high, type_)}"

    def in_list(self) -> str:
        text, type_ = self.rng.choice(self.columns())
        constants = [self.constant(type_) for _ in range(self.rng.randint(1, 5))]
        if self.rng.random() < 0.1:
            constants.append("NULL")
        word = "NOT IN" if self.rng.random() < 0.3 else "IN"
        return f"{text} {word} ({', '.join(constants)})"

    def is_null(self) -> str:
        text, _ = self.rng.choice(self.columns())
        return f"{text} IS {self.rng.choice(('', 'NOT '))}NULL"

    def like(self) -> str:
        text, _ = self.rng.choice(self.columns(lambda t: t.kind is Kind.STRING))
        word = "NOT LIKE" if self.rng.random() < 0.2 else "LIKE"
        if self.template and self.rng.random() < 0.7:
            return f"{text} {word} {self.slot(STRING, _PATTERNS)}"
        return f"{text} {word} {literal(self.rng.choice(_PATTERNS), STRING)}"

    def bare(self) -> str:
        return self.rng.choice(self.columns(lambda t: t.kind is Kind.BOOLEAN))[0]

    def columns_compared(self) -> str:
        left, type_ = self.rng.choice(self.columns())
        right, _ = self.rng.choice(self.columns(lambda t: comparable(type_, t)))
        return f"{left} {self.rng.choice(OPERATORS)} {right}"

    def cast_compared(self) -> str:
        text, type_ = self.rng.choice(self.columns(lambda t: t.kind is not Kind.STRING))
        wanted = self.rng.choice(_CASTS[type_.kind])
        return f"CAST({text} AS {wanted}) {self.rng.choice(OPERATORS)} {self.constant(wanted)}"

    def arithmetic_compared(self) -> str:
        text = self.arithmetic()
        op = self.rng.choice(OPERATORS)
        if self.rng.random() < 0.2:
            return f"{text} BETWEEN {self.constant(INT)} AND {self.constant(INT)}"
        if self.rng.random() < 0.15:
            return f"{text} {op} {self.rng.choice(self.columns(lambda t: t.is_numeric))[0]}"
        return f"{text} {op} {self.constant(self.rng.choice((INT, DOUBLE, decimal(6, 2))))}"

    def arithmetic(self) -> str:
        """A numeric expression over one or two columns."""
        numeric = self.columns(lambda t: t.is_numeric)
        left, type_ = self.rng.choice(numeric)
        roll = self.rng.random()
        if roll < 0.12:
            return self.rng.choice((f"abs({left})", f"-{left}", f"abs(-{left} - 1)"))
        right = self.rng.choice(numeric)[0] if roll < 0.5 else self.factor(type_)
        op = self.rng.choice("++--**/%")
        text = f"{left} {op} {right}"
        if roll > 0.85:
            return f"({text}) {self.rng.choice('+-*/%')} {self.factor(INT)}"
        return text

    def factor(self, type_: DataType) -> str:
        """A constant operand of arithmetic, in brackets if it is negative."""
        kind = self.rng.choice((INT, INT, type_ if type_.kind is not Kind.BIGINT else INT))
        text = literal(self.rng.choice(domains.ordinary(kind)), kind)
        return f"({text})" if text.startswith("-") else text

    def call_compared(self) -> str:
        """A function of columns and constants, against a constant; now and then asked for its NULLs."""
        text, type_ = self.call()
        roll = self.rng.random()
        if roll < 0.1:
            return f"{text} IS {self.rng.choice(('', 'NOT '))}NULL"
        if type_.kind is Kind.BOOLEAN and roll < 0.5:
            return text
        if type_.kind is Kind.STRING and roll < 0.3:
            return f"{text} LIKE {literal(self.rng.choice(_PATTERNS), STRING)}"
        return f"{text} {self.rng.choice(OPERATORS)} {self.constant(type_)}"

    def call(self) -> tuple[str, DataType]:
        """A function call and about its type: as far as constants to compare it with need it."""
        kinds: list[Callable[[], tuple[str, DataType]]] = [self.choice_call, self.choice_call]
        for wanted, call in (
            (lambda t: t.kind is Kind.STRING, self.text_call),
            (lambda t: t.is_numeric, self.number_call),
            (lambda t: t.kind in (Kind.DATE, Kind.TIMESTAMP), self.time_call),
        ):
            if self.columns(wanted):
                kinds.append(call)
        return self.rng.choice(kinds)()

    def number_call(self) -> tuple[str, DataType]:
        text, type_ = self.rng.choice(self.columns(lambda t: t.is_numeric))
        name = self.rng.choice(("abs", "sign", "floor", "ceil", "ceiling", "round", "round"))
        text = f"{text} / 4" if self.rng.random() < 0.2 else text
        return f"{name}({text})", type_ if name != "sign" else INT

    def text_call(self) -> tuple[str, DataType]:
        texts = [text for text, _ in self.columns(lambda t: t.kind is Kind.STRING)]
        s, other = self.rng.choice(texts), self.rng.choice(texts)
        roll = self.rng.randrange(9)
        if roll == 0:
            return f"length({s})", INT
        if roll < 3:
            places = [str(self.rng.randint(-4, 4)) for _ in range(self.rng.choice((1, 2)))]
            if self.template and self.rng.random() < 0.3:
                places[0] = self.slot(INT, (0, 1, 2, -1, -3, None))
            return f"{self.rng.choice(('substring', 'substr'))}({', '.join([s, *places])})", STRING
        if roll == 3:
            return f"concat({s}, {literal(self.rng.choice(domains.ordinary(STRING)), STRING)}, {other})", STRING
        if roll == 4:
            return f"{s} || {self.constant(STRING)}", STRING
        if roll == 5:
            search = literal(self.rng.choice(("a", "b", "ab", "", " ", "本")), STRING)
            new = "" if self.rng.random() < 0.3 else f", {literal(self.rng.choice(('', 'c', 'é')), STRING)}"
            return f"replace({s}, {search if self.rng.random() < 0.8 else other}{new})", STRING
        return f"{self.rng.choice(('upper', 'lower', 'trim', 'ltrim', 'rtrim'))}({s})", STRING

    def time_call(self) -> tuple[str, DataType]:
        text, _ = self.rng.choice(self.columns(lambda t: t.kind in (Kind.DATE, Kind.TIMESTAMP)))
        if self.rng.random() < 0.3:
            unit = self.rng.choice(
                ("year", "QUARTER", "month", "week", "day", "Hour", "minute", "second", "mm", "no unit")
            )
            return f"date_trunc('{unit}', {text})", TIMESTAMP
        return f"{self.rng.choice(('year', 'month', 'day', 'hour', 'minute', 'second'))}({text})", INT

    def choice_call(self) -> tuple[str, DataType]:
        """What chooses among values: columns and constants of one kind, so that all have a common type."""
        text, type_ = self.rng.choice(self.columns())
        alike = [c for c, t in self.columns(lambda t: comparable(type_, t))]

        def value() -> str:
            if self.rng.random() < 0.5:
                return self.rng.choice(alike)
            if type_.is_numeric:  # how many digits a parameter has is not seen in its value
                return literal(self.rng.choice((None, *domains.ordinary(type_))), type_)
            return self.constant(type_)

        roll = self.rng.randrange(7)
        if roll == 0:
            return f"{self.rng.choice(('coalesce', 'nvl', 'ifnull'))}({text}, {value()})", type_
        if roll == 1:
            return f"nullif({text}, {self.constant(type_)})", type_
        if roll == 2 and type_.kind is not Kind.BOOLEAN:
            return f"{self.rng.choice(('greatest', 'least'))}({text}, {value()}, {value()})", type_
        if roll == 3:
            return f"if({self.comparison()}, {text}, {value()})", type_
        if roll == 4:
            ways = " ".join(f"WHEN {self.constant(type_)} THEN {value()}" for _ in range(self.rng.choice((1, 2))))
            return f"CASE {text} {ways} ELSE {text} END", type_
        other = "" if self.rng.random() < 0.4 else f" ELSE {value()}"
        return f"CASE WHEN {self.comparison()} THEN {text} WHEN {self.is_null()} THEN {value()}{other} END", type_

    def times_compared(self) -> str:
        """Timestamps with intervals: shifted, or the gap between two of them."""
        times = self.columns(lambda t: t.kind is Kind.TIMESTAMP)
        left, right, gap = self.rng.choice(times)[0], self.rng.choice(times)[0], self.rng.choice(_GAPS)
        op, sign = self.rng.choice(OPERATORS[2:]), self.rng.choice("+-")
        if self.rng.random() < 0.35:
            return f"{left} - {right} {op} INTERVAL {gap}"
        if self.rng.random() < 0.5:
            return f"{left} {op} {right} {sign} INTERVAL {gap}"
        return f"{left} {sign} INTERVAL {gap} {op} {self.constant(TIMESTAMP)}"

    def dates_compared(self) -> str:
        text, type_ = self.rng.choice(self.columns(lambda t: t.kind is Kind.DATE))
        shift = f"{text} {self.rng.choice('+-')} INTERVAL {self.rng.randint(1, 9)} {self.rng.choice(('DAY', 'DAYS'))}"
        return f"{shift} {self.rng.choice(OPERATORS)} {self.constant(type_)}"


def comparable(a: DataType, b: DataType) -> bool:
    """Columns of these types may be compared with one another."""
    if Kind.PAYLOAD in (a.kind, b.kind):
        return False
    return a.kind is b.kind or (a.is_numeric and b.is_numeric)


def random_value(rng: random.Random, type_: DataType, *, nulls: float = 0.04, odd: float = 0.1) -> object:
    """A value of the type's pool: NULL with probability `nulls`, an extreme or special one with probability `odd`."""
    roll = rng.random()
    if roll < nulls:
        return None
    if roll < nulls + odd:
        return rng.choice(domains.extreme(type_) + domains.special(type_))
    return rng.choice(domains.ordinary(type_))


def literal(value: object, type_: DataType) -> str:
    """The SQL text of a value. A double gets an exponent, without which it would be a decimal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        text = repr(value).replace("e+", "e")
        return text if "e" in text else text + "e0"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.replace(tzinfo=None)}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    assert isinstance(value, int), (value, type_)
    return str(value)


def sort_key(value: object) -> tuple[int, object]:
    return (0, value.encode()) if isinstance(value, str) else (1, value)
