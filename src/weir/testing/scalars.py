"""Scalar expressions of a parsed query as DuckDB SQL, typed by the language's rules.

Every place where DuckDB's meaning differs from the language's is spelt out here instead of trusted:
numbers are compared exactly (through DECIMAL(38, s), or for a double constant by fractions computed here), integer
arithmetic runs in HUGEINT and overflows to NULL, `/` of whole numbers divides doubles, a zero divisor gives NULL,
decimals are those of `weir.testing.duck_decimals`, CAST cuts off towards zero, intervals are plain microseconds.
Taken over from DuckDB because it agrees: three-valued logic, NaN equal to itself and above +infinity, −0.0 = 0.0,
strings by bytes, LIKE by characters.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction

from sqlglot import exp

from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    Kind,
)
from weir.testing import payloads
from weir.testing.constants import (
    DAY_US,
    TIMES,
    UNITS_US,
    WHOLE,
    WHOLE_DIGITS,
    Scalar,
    constant,
    date_of_text,
    duck_type,
    instant_of_text,
    named_type,
    number,
    parameter,
)
from weir.testing.duck_aggregates import CALL_TREES, Place, aggregate, call_of, narrowed
from weir.testing.duck_calls import Tools, function
from weir.testing.duck_decimals import DIGITS_MAX, calculated, calculated_type, compared, double
from weir.testing.duck_sets import KeySets
from weir.testing.duck_spans import is_span_call
from weir.testing.duck_windows import ordering, over
from weir.testing.scopes import field

_EXACT = Context(prec=60)
_BEYOND_FLOATS = "CAST('3.4028235677973366e38' AS DOUBLE)"  # from here on the nearest float is infinite
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Words = dict[type[exp.Expr], str]
_COMPARISONS: _Words = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: _Words = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}

_TAIL = frozenset({"order", "limit", "offset"})
# The parts of a node beside `this` and `expression` that the oracle looks at.
_PARTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Literal: frozenset({"is_string"}),
    exp.Div: frozenset({"safe", "typed"}),
    exp.Column: frozenset({"table", "db", "catalog"}),
    exp.Interval: frozenset({"unit"}),
    exp.Between: frozenset({"low", "high"}),
    exp.In: frozenset({"expressions", "query"}),
    exp.Like: frozenset({"negate"}),
    exp.Anonymous: frozenset({"expressions"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Bracket: frozenset({"expressions"}),
    exp.Case: frozenset({"ifs", "default"}),
    exp.If: frozenset({"true", "false"}),
    exp.Cast: frozenset({"to"}),
    exp.TryCast: frozenset({"to"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.Select: _TAIL
    | {"expressions", "from_", "joins", "where", "group", "having", "distinct", "qualify", "windows", "with_"},
    exp.Union: _TAIL | {"distinct", "with_"},
    exp.Except: _TAIL | {"distinct", "with_"},
    exp.Intersect: _TAIL | {"distinct", "with_"},
    exp.Subquery: _TAIL | {"alias", "with_", "joins"},
    exp.Join: frozenset({"on", "using", "kind", "side", "method"}),
    exp.Table: frozenset({"alias", "joins"}),
    exp.Lateral: frozenset({"alias"}),
    exp.Star: frozenset({"except_"}),
    exp.Group: frozenset({"expressions", "all", "grouping_sets", "rollup", "cube"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"alias"}),
    exp.Order: frozenset({"expressions"}),
    exp.Tuple: frozenset({"expressions"}),
    exp.Alias: frozenset({"alias"}),
}


_CHECKED_ELSEWHERE = (*CALL_TREES, exp.Window)


def known_parts(e: exp.Expr) -> None:
    """AssertionError when the parser says something that would be passed over, such as a negation it tucked away."""
    known = _PARTS.get(type(e), frozenset()) | {"this", "expression"}
    extra = [name for name, part in e.args.items() if part not in (None, False, []) and name not in known]
    assert not extra, f"the oracle does not know {', '.join(extra)} of {type(e).__name__}: {e.sql('spark')}"


class Scalars:
    """Translates expressions. `column` finds a column, `compute` runs a SQL expression without columns.

    `subquery` translates a query in an expression to SQL whose columns are c0, c1, …, of these types; `named` are the
    windows of the WINDOW clause; `name` makes a name that nothing else has.
    """

    def __init__(
        self,
        column: Callable[[exp.Column], Scalar],
        params: Mapping[str, object],
        compute: Callable[[str], object],
        subquery: Callable[[exp.Expr], tuple[str, list[DataType]]] | None = None,
        named: Mapping[str, exp.Window] | None = None,
        name: Callable[[str], str] = str,
    ) -> None:
        self.column = column
        self.params = params
        self.compute = compute
        self.subquery = subquery
        self.named = named or {}
        self.name = name
        self.span: Scalar | None = None  # what window(ts, …) is here
        self.span_parts: Sequence[tuple[str, Scalar]] = ()
        self.sets: KeySets | None = None  # of the keys of GROUP BY
        self._methods: dict[type[exp.Expr], Callable[[exp.Expr], Scalar]] = {
            exp.Paren: lambda e: self.translate(e.this),
            exp.Column: self._column,
            exp.Literal: lambda e: constant(e.this) if e.is_string else number(e.this),
            exp.Null: lambda _: constant(None),
            exp.Boolean: lambda e: constant(bool(e.this)),
            exp.Placeholder: lambda e: parameter(self.params[e.name]),
            exp.Interval: self._interval,
            exp.And: self._connective,
            exp.Or: self._connective,
            exp.Not: self._not,
            exp.Is: self._is_null,
            exp.Between: self._between,
            exp.In: self._in,
            exp.Like: self._like,
            exp.Neg: self._negate,
            exp.Anonymous: self._function,
            exp.Bracket: lambda e: payloads.element(self.translate(e.this), self.translate(e.expressions[0]).value),
            exp.DPipe: lambda e: self._called("concat", [self.translate(e.this), self.translate(e.expression)]),
            exp.Case: self._case,
            exp.If: self._if,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            **dict.fromkeys(_COMPARISONS, self._comparison),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
            **dict.fromkeys(CALL_TREES, self._aggregate),
            exp.Filter: self._filtered,
            exp.Window: self._windowed,
            exp.Subquery: self._scalar_query,
            exp.Exists: self._exists,
            exp.Dot: lambda e: field(self.translate(e.this), e.expression.name),
        }

    def translate(self, e: exp.Expr) -> Scalar:
        """The SQL and type of any expression of the grammar."""
        method = self._methods.get(type(e))
        assert method is not None, f"the oracle does not know {type(e).__name__}: {e.sql('spark')}"
        if not isinstance(e, _CHECKED_ELSEWHERE):
            known_parts(e)
        return method(e)

    def condition(self, e: exp.Expr) -> Scalar:
        """A boolean expression; an untyped NULL is an unknown truth value."""
        found = self.translate(e)
        if found.type == NULL:
            return Scalar("CAST(NULL AS BOOLEAN)", BOOLEAN, True)
        assert found.type == BOOLEAN, f"a condition is boolean, got {found.type}: {e.sql('spark')}"
        return found

    def _column(self, e: exp.Expr) -> Scalar:
        assert isinstance(e, exp.Column)
        if self.span is not None and not e.table and e.name.lower() in ("window", "session_window"):
            return self.span
        return self.column(e)

    def _interval(self, e: exp.Expr) -> Scalar:
        count, unit = e.this, e.args.get("unit")
        while isinstance(count, exp.Paren):
            count = count.this
        if isinstance(count, exp.Placeholder):
            assert unit is not None, "an interval parameter needs a unit"
            given = parameter(self.params[count.name])
            return given if given.type in (INTERVAL, NULL) else in_seconds(given, _unit_us(unit.name))
        sign = 1
        if isinstance(count, exp.Neg):
            sign, count = -1, count.this
        words = count.name.split() + ([unit.name] if unit is not None else [])
        total = sum(int(Decimal(n) * _unit_us(word)) for n, word in zip(words[::2], words[1::2], strict=True))
        return constant(dt.timedelta(microseconds=sign * total))

    # logic

    def _connective(self, e: exp.Expr) -> Scalar:
        assert isinstance(e, (exp.And, exp.Or))
        parts = [self.condition(part) for part in e.flatten()]
        word = " AND " if isinstance(e, exp.And) else " OR "
        return Scalar(f"({word.join(p.sql for p in parts)})", BOOLEAN, all(p.constant for p in parts))

    def _not(self, e: exp.Expr) -> Scalar:
        arg = self.condition(e.this)
        return Scalar(f"(NOT {arg.sql})", BOOLEAN, arg.constant)

    def _is_null(self, e: exp.Expr) -> Scalar:
        assert isinstance(e.expression, exp.Null), "IS takes NULL"
        arg = self.translate(e.this)
        return Scalar(f"({arg.sql} IS NULL)", BOOLEAN, arg.constant)

    def _between(self, e: exp.Expr) -> Scalar:
        arg, low, high = (self.translate(e.args[k]) for k in ("this", "low", "high"))
        parts = compare(">=", arg, low, self.compute), compare("<=", arg, high, self.compute)
        return Scalar(f"({parts[0].sql} AND {parts[1].sql})", BOOLEAN, parts[0].constant and parts[1].constant)

    def _in(self, e: exp.Expr) -> Scalar:
        if e.args.get("query") is not None:
            return self._in_query(e)
        arg = self.translate(e.this)
        items = [item for x in e.expressions for item in self._items(x)]
        parts = [compare("=", arg, item, self.compute) for item in items]
        return Scalar(f"({' OR '.join(p.sql for p in parts)})", BOOLEAN, all(p.constant for p in parts))

    def _items(self, e: exp.Expr) -> list[Scalar]:
        """What stands behind IN: a value, or a list of them."""
        given = self.params.get(e.name) if isinstance(e, exp.Placeholder) else None
        if isinstance(given, tuple):  # constants of the text
            return [constant(text) if is_text else number(text) for is_text, text in given]
        return [parameter(item) for item in given] if isinstance(given, list) else [self.translate(e)]

    def _like(self, e: exp.Expr) -> Scalar:
        arg, pattern = self.translate(e.this), self.translate(e.expression)
        word = "NOT LIKE" if e.args.get("negate") else "LIKE"
        sql = f"(CAST({arg.sql} AS VARCHAR) {word} CAST({pattern.sql} AS VARCHAR) ESCAPE '\\')"
        return Scalar(sql, BOOLEAN, arg.constant and pattern.constant)

    def _comparison(self, e: exp.Expr) -> Scalar:
        return compare(_COMPARISONS[type(e)], self.translate(e.this), self.translate(e.expression), self.compute)

    # numbers and times

    def _arithmetic(self, e: exp.Expr) -> Scalar:
        return arithmetic(_ARITHMETIC[type(e)], self._operand(e.this), self._operand(e.expression))

    def _operand(self, e: exp.Expr) -> Scalar:
        """What is made of whole constants alone is one, whose own digits count beside a decimal."""
        found = self.translate(e)
        if not found.constant or found.origin or found.type != BIGINT or e.find(exp.Placeholder, exp.Cast) is not None:
            return found
        value = self.compute(found.sql)
        return found if value is None else replace(found, origin="literal", value=value)

    def _negate(self, e: exp.Expr) -> Scalar:
        if isinstance(e.this, exp.Literal) and e.this.is_number and e.this.this == str(2**63):
            return constant(-(2**63), BIGINT)
        arg = self.translate(e.this)
        if arg.origin == "literal" and isinstance(arg.value, (int, float, Decimal, dt.timedelta)):
            # copy_negate and not a minus sign, which would round to 28 digits
            value = arg.value.copy_negate() if isinstance(arg.value, Decimal) else -arg.value
            return constant(value, arg.type)
        if arg.type.kind in (Kind.DOUBLE, Kind.DECIMAL, Kind.NULL):
            return Scalar(f"(-{arg.sql})", arg.type, arg.constant)
        type_ = INTERVAL if arg.type == INTERVAL else BIGINT
        return Scalar(narrowed(f"(-CAST({arg.sql} AS HUGEINT))"), type_, arg.constant)

    def _function(self, e: exp.Expr) -> Scalar:
        if call_of(e) is not None:
            return self._aggregate(e)
        if is_span_call(e):
            assert self.span is not None, f"{e.sql('spark')} cannot stand here"
            return self.span
        if e.name.lower() in ("grouping", "grouping_id"):
            return self._grouping(e)
        if e.name.lower() in payloads.FUNCTIONS:
            return payloads.function(e.name.lower(), [self.translate(arg) for arg in e.expressions])
        return self._called(e.name, [self.translate(arg) for arg in e.expressions])

    def _grouping(self, e: exp.Expr) -> Scalar:
        """DuckDB's grouping() makes a number of the bits of several keys, as grouping_id() does."""
        assert self.sets is not None, "grouping() belongs to sets of keys"
        keys = ", ".join(self.translate(key).sql for key in e.expressions or self.sets.keys)
        type_ = TINYINT if e.name.lower() == "grouping" else BIGINT
        return Scalar(f"CAST(grouping({keys}) AS {duck_type(type_)})", type_)

    def _called(self, name: str, args: list[Scalar]) -> Scalar:
        lent = Tools(lambda op, a, b: compare(op, a, b, self.compute), cast, _meeting, _digits)
        return function(name, args, lent)

    def _case(self, e: exp.Expr) -> Scalar:
        args: list[Scalar] = []
        for way in e.args["ifs"]:
            known_parts(way)
            if e.this is None:
                args.append(self.condition(way.this))
            else:
                args.append(compare("=", self.translate(e.this), self.translate(way.this), self.compute))
            args.append(self.translate(way.args["true"]))
        default = e.args.get("default")
        return self._called("case", [*args, constant(None) if default is None else self.translate(default)])

    def _if(self, e: exp.Expr) -> Scalar:
        return self._called("case", [self.condition(e.this), *(self.translate(e.args[k]) for k in ("true", "false"))])

    def _cast(self, e: exp.Expr) -> Scalar:
        arg, wanted = self.translate(e.this), named_type(e.args["to"])
        if arg.origin == "literal" and isinstance(arg.value, str) and wanted != STRING:
            arg = _read_text(arg.value, wanted)
        return cast(arg, wanted)

    # aggregates, window functions, queries

    def _aggregate(self, e: exp.Expr, filter_: str = "", over_: str = "") -> Scalar:
        call = call_of(e)
        assert call is not None, f"the oracle does not know {type(e).__name__}: {e.sql('spark')}"

        def order(keys: Sequence[exp.Ordered]) -> str:
            return ordering(keys, self.translate)

        return aggregate(call, Place(self.translate, self.condition, order, filter_, over_))

    def _filtered(self, e: exp.Expr, over_: str = "") -> Scalar:
        return self._aggregate(e.this, self.condition(e.expression.this).sql, over_)

    def _windowed(self, e: exp.Expr) -> Scalar:
        assert isinstance(e, exp.Window)
        rows = over(e, self.named, self.translate)
        return self._filtered(e.this, rows) if isinstance(e.this, exp.Filter) else self._aggregate(e.this, "", rows)

    def _query(self, e: exp.Expr) -> tuple[str, list[DataType]]:
        assert self.subquery is not None, f"no query can stand here: {e.sql('spark')}"
        return self.subquery(e)

    def _scalar_query(self, e: exp.Expr) -> Scalar:
        sql, (type_,) = self._query(e)
        return Scalar(f"({sql})", type_)

    def _exists(self, e: exp.Expr) -> Scalar:
        return Scalar(f"EXISTS ({self._query(e.this)[0]})", BOOLEAN)

    def _in_query(self, e: exp.Expr) -> Scalar:
        """TRUE if a row is equal, else unknown if one may be, else FALSE."""
        wanted = [self.translate(v) for v in (e.this.expressions if isinstance(e.this, exp.Tuple) else [e.this])]
        sql, types = self._query(e.args["query"])
        name = self.name("i")
        columns = [Scalar(f"{name}.c{i}", type_) for i, type_ in enumerate(types)]
        pairs = zip(wanted, columns, strict=True)
        equal = " AND ".join(compare("=", a, b, self.compute).sql for a, b in pairs)
        rows = f"SELECT 1 FROM ({sql}) AS {name} WHERE"
        ways = f"WHEN EXISTS ({rows} {equal}) THEN TRUE WHEN EXISTS ({rows} ({equal}) IS NULL) THEN NULL"
        return Scalar(f"(CASE {ways} ELSE FALSE END)", BOOLEAN)


def _unit_us(word: str) -> int:
    return UNITS_US.get(word.upper()) or UNITS_US[word.upper().removesuffix("S")]


def in_seconds(given: Scalar, unit_us: int = 1_000_000) -> Scalar:
    """A number given where a length of time is wanted."""
    assert isinstance(given.value, (int, float, Decimal)), f"a length of time is wanted, got {given.value!r}"
    return constant(dt.timedelta(microseconds=int(Decimal(given.value) * unit_us)))


def as_double(s: Scalar) -> str:
    """The nearest double."""
    return double(s.sql) if s.type.kind is Kind.DECIMAL else f"CAST({s.sql} AS DOUBLE)"


def as_timestamp(s: Scalar) -> str:
    """A date is the instant of its midnight, UTC."""
    return f"CAST({s.sql} AS TIMESTAMP)"


# Comparisons


def compare(op: str, left: Scalar, right: Scalar, compute: Callable[[str], object]) -> Scalar:
    """`left op right`, mathematically exact."""
    both = left.constant and right.constant
    if NULL in (left.type, right.type):
        return Scalar("CAST(NULL AS BOOLEAN)", BOOLEAN, both)
    left, right = _meeting(left, right.type), _meeting(right, left.type)
    if left.type.is_numeric and right.type.is_numeric:
        return Scalar(_compare_numbers(op, left, right, compute), BOOLEAN, both)
    if left.type.kind in TIMES and right.type.kind in TIMES:
        return Scalar(f"({as_timestamp(left)} {op} {as_timestamp(right)})", BOOLEAN, both)
    assert left.type.kind is right.type.kind, f"{left.type} and {right.type} are not compared"
    if _fills_up(left, right) or _fills_up(right, left):
        longest = f"CAST(greatest(length({left.sql}), length({right.sql})) AS INTEGER)"
        return Scalar(f"(rpad({left.sql}, {longest}, ' ') {op} rpad({right.sql}, {longest}, ' '))", BOOLEAN, both)
    return Scalar(f"({left.sql} {op} {right.sql})", BOOLEAN, both)


def _fills_up(s: Scalar, other: Scalar) -> bool:
    """A char meets a constant or another char: the shorter of the two gets blanks at its end."""
    return s.type.variant == "char" and (bool(other.origin) or other.type.variant == "char")


def _meeting(s: Scalar, other: DataType) -> Scalar:
    """A constant in the type of what it meets: a text as a time, a number given as a length of time."""
    if s.origin and isinstance(s.value, str) and other.kind in TIMES:
        return constant(date_of_text(s.value) if other == DATE else instant_of_text(s.value))
    if s.origin == "param" and s.type.is_numeric and other == INTERVAL:
        return in_seconds(s) if s.value is not None else constant(None, INTERVAL)
    return s


def _compare_numbers(op: str, left: Scalar, right: Scalar, compute: Callable[[str], object]) -> str:
    if Kind.DOUBLE not in (left.type.kind, right.type.kind):
        sides = _digits(left), _digits(right)
        scale = max(s for _, s in sides)
        if max(p - s for p, s in sides) + scale > DIGITS_MAX:
            return compared(op, left.sql, right.sql)
        wide = f"DECIMAL(38,{scale})"
        return f"(CAST({left.sql} AS {wide}) {op} CAST({right.sql} AS {wide}))"
    for value, bound, way in ((left, right, op), (right, left, _MIRRORED[op])):
        is_exact = value.type.kind is not Kind.DOUBLE and not value.constant
        if bound.type.kind is Kind.DOUBLE and bound.constant and is_exact:
            threshold = compute(as_double(bound))
            assert threshold is None or isinstance(threshold, float)
            return _against_double(way, value, threshold)
    return f"({as_double(left)} {op} {as_double(right)})"


def _against_double(op: str, value: Scalar, threshold: float | None) -> str:
    """An integer or decimal against a double constant: as fractions, because either cast could round."""
    if threshold is None:
        return "CAST(NULL AS BOOLEAN)"
    wide = f"CAST({value.sql} AS DECIMAL(38,{value.scale}))"
    if math.isfinite(threshold):
        units = Fraction(threshold) * 10**value.scale
        if abs(units) < 10**38 - 1:
            whole = math.floor(units)
            bound = f"CAST('{Decimal(whole).scaleb(-value.scale, _EXACT):f}' AS DECIMAL(38,{value.scale}))"
            if units == whole:
                return f"({wide} {op} {bound})"
            if op not in ("=", "<>"):
                return f"({wide} {'<=' if op in ('<', '<=') else '>'} {bound})"
            return _known(value, op == "<>")
    below = not threshold < 0  # NaN and +infinity are above all numbers
    return _known(value, op == "<>" or (op in ("<", "<=") if below else op in (">", ">=")))


def _known(value: Scalar, truth: bool) -> str:
    """A comparison whose outcome does not depend on the value, unless that is NULL."""
    return f"(CASE WHEN {value.sql} IS NOT NULL THEN {truth} END)"


# Arithmetic


def arithmetic(op: str, left: Scalar, right: Scalar) -> Scalar:
    """`left op right` by the language's types; NULL on overflow and for a divisor of zero."""
    both = left.constant and right.constant
    if left.type == NULL:
        left = constant(None, right.type if right.type.is_numeric else INTERVAL)
    if right.type == NULL:
        right = constant(None, left.type if left.type.is_numeric else INTERVAL)
    sql, type_ = (_numbers if left.type.is_numeric and right.type.is_numeric else _times)(op, left, right)
    return Scalar(sql, type_, both)


def _numbers(op: str, left: Scalar, right: Scalar) -> tuple[str, DataType]:
    kinds = {left.type.kind, right.type.kind}
    if left.type == right.type == FLOAT and op != "/":
        return (f"({left.sql} % nullif({right.sql}, 0))" if op == "%" else f"({left.sql} {op} {right.sql})"), FLOAT
    if Kind.DOUBLE in kinds or (op == "/" and Kind.DECIMAL not in kinds):
        return _doubles(op, left, right), DOUBLE
    if Kind.DECIMAL not in kinds:
        if op == "%":
            return f"(CAST({left.sql} AS BIGINT) % nullif(CAST({right.sql} AS BIGINT), 0))", BIGINT
        sql = f"(CAST({left.sql} AS HUGEINT) {op} CAST({right.sql} AS HUGEINT))"
        return (f"TRY_CAST({sql} AS BIGINT)" if left.constant and right.constant else narrowed(sql)), BIGINT
    type_ = calculated_type(op, _digits(left), _digits(right))
    return calculated(op, left.sql, right.sql, type_), type_


def _digits(s: Scalar) -> tuple[int, int]:
    """Precision and scale of an operand beside a decimal; a whole literal has just its own digits."""
    if s.type.kind is Kind.DECIMAL:
        return s.type.precision, s.type.scale
    if s.origin == "literal" and isinstance(s.value, int):
        return len(str(abs(s.value))), 0
    return WHOLE_DIGITS[str(s.type)], 0


def _doubles(op: str, left: Scalar, right: Scalar) -> str:
    a, b = as_double(left), as_double(right)
    return f"({a} {op} nullif({b}, CAST(0 AS DOUBLE)))" if op in "/%" else f"({a} {op} {b})"


def _times(op: str, left: Scalar, right: Scalar) -> tuple[str, DataType]:
    if right.origin == "param" and right.type.is_numeric:
        right = in_seconds(right) if right.value is not None else constant(None, INTERVAL)
    a, b = left.type, right.type
    if a == INTERVAL and b == INTERVAL:
        return narrowed(f"(CAST({left.sql} AS HUGEINT) {op} CAST({right.sql} AS HUGEINT))"), INTERVAL
    if a == INTERVAL:
        assert op == "+", "an interval minus a time means nothing"
        return _times(op, right, left)
    if b == INTERVAL and a == DATE:
        days = f"CAST(({right.sql}) // {DAY_US} AS INTEGER)"
        return f"(CASE WHEN ({right.sql}) % {DAY_US} = 0 THEN {left.sql} {op} {days} END)", DATE
    if b == INTERVAL:
        return f"make_timestamp(epoch_us({left.sql}) {op} ({right.sql}))", a
    assert op == "-", f"{a} {op} {b} means nothing"
    right = _meeting(right, TIMESTAMP)
    return f"(epoch_us({as_timestamp(left)}) - epoch_us({as_timestamp(right)}))", INTERVAL


# CAST


def cast(arg: Scalar, wanted: DataType) -> Scalar:
    """NULL for a value that does not fit; towards zero to whole numbers, half away from zero to decimals."""
    if arg.type == wanted:
        return arg
    if arg.type.kind is Kind.DOUBLE and wanted.kind in WHOLE:
        sql = f"TRY_CAST(trunc({as_double(arg)}) AS {duck_type(wanted)})"
    elif arg.type.kind is Kind.DECIMAL and wanted.kind in WHOLE:
        sql = f"TRY_CAST(trunc(CAST({arg.sql} AS DECIMAL(38,{arg.scale}))) AS {duck_type(wanted)})"
    elif wanted == DOUBLE:
        sql = as_double(arg)
    elif wanted == FLOAT and arg.type.kind is Kind.DECIMAL:
        sql = f"CAST(CAST({arg.sql} AS VARCHAR) AS FLOAT)"
    elif wanted == FLOAT and arg.type.kind is Kind.DOUBLE:
        d = as_double(arg)
        far = f"isfinite({d}) AND abs({d}) >= {_BEYOND_FLOATS}"
        sql = f"(CASE WHEN {far} THEN CAST(if({d} > 0, 'inf', '-inf') AS FLOAT) ELSE CAST({d} AS FLOAT) END)"
    elif arg.type.kind is Kind.DOUBLE and wanted.kind is Kind.DECIMAL:
        sql = f"TRY_CAST(CAST({arg.sql} AS VARCHAR) AS {duck_type(wanted)})"  # by its shortest digits
    else:
        sql = f"TRY_CAST({arg.sql} AS {duck_type(wanted)})"
    if wanted == BIGINT:
        sql = f"nullif({sql}, CAST(-9223372036854775808 AS BIGINT))"
    return Scalar(sql, wanted, arg.constant)


def _read_text(text: str, wanted: DataType) -> Scalar:
    """A quoted constant that is cast to something else, read as a literal of that type."""
    if wanted.kind in TIMES:
        return constant(date_of_text(text) if wanted == DATE else instant_of_text(text))
    folded = text.strip().lower()
    if wanted == BOOLEAN:
        return constant(folded == "true")
    if folded.lstrip("-") in ("nan", "inf", "infinity"):
        return constant(float(folded))
    return number(text.strip())
