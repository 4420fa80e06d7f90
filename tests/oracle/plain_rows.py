"""A plain twin of the selection semantics: one row at a time, in pure Python.

It evaluates WHERE, projection and the window of a query over one stream, straight from the syntax tree, on rows that
are dicts. NULL is None, NaN is a float, an instant or a length of time is whole microseconds, numbers are int,
float and Decimal and are compared as fractions. No NumPy, no DuckDB, no engine: it is what the oracle is held
against, and short enough to be checked by reading. Cost: rows × nodes of the query.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

from sqlglot import exp

from tests.oracle import plain_decimals, plain_functions
from weir.algebra.schema import DataType, Stream
from weir.sql.parse import Parsed

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY_US = 86_400_000_000
BIGINT_MAX = 2**63 - 1
EXACT = Context(prec=100)
UNITS_US = {"MICROSECOND": 1, "MILLISECOND": 10**3, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
UNITS_US |= {"DAY": DAY_US, "WEEK": 7 * DAY_US}
COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}

Row = Mapping[str, object]


class Type(NamedTuple):
    name: str  # int bigint double decimal string boolean date timestamp interval null
    precision: int = 0
    scale: int = 0
    variant: str = ""  # tinyint smallint float char timestamp_ntz: how a narrower type of that name is called


class Value(NamedTuple):
    type: Type
    value: object
    constant: bool
    literal: bool = False  # is a literal itself


NUMBERS = ("int", "bigint", "double", "decimal")
FLOAT, NTZ = Type("double", variant="float"), Type("timestamp", variant="timestamp_ntz")
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


def select(
    parsed: Parsed, params: Mapping[str, object], stream: Stream, rows: Sequence[Row], tau_us: int
) -> list[tuple[object, ...]]:
    """The answer of `SELECT … FROM stream WHERE …` at τ, in row order. Column names of rows are in lower case."""
    node = parsed.ast
    assert isinstance(node, exp.Select)
    rows = [{name: encoded(value) for name, value in row.items()} for row in rows]
    row_types = {c.name.lower(): column_type(c.type) for c in stream.columns}
    where = node.args.get("where")
    answer = []
    for row in window(parsed, params, stream, rows, tau_us):
        look = Evaluation(row, row_types, params)
        if where is not None and look.value(where.this).value is not True:
            continue
        out: list[object] = []
        for item in node.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                out += [decoded(row_types[c.name.lower()], row[c.name.lower()]) for c in stream.columns]
            else:
                found = look.value(item.this if isinstance(item, exp.Alias) else item)
                out.append(decoded(found.type, found.value))
        answer.append(tuple(out))
    return answer


def column_type(type_: DataType) -> Type:
    if type_.variant == "varchar":
        return Type("string")
    return Type(type_.kind.value, type_.precision, type_.scale, type_.variant)


def encoded(value: object) -> object:
    """Instants and lengths of time as microseconds, dates as days since the epoch; the rest as it is."""
    if isinstance(value, dt.datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    return value


def decoded(type_: Type, value: object) -> object:
    if value is not None and type_.name == "timestamp":
        return EPOCH + dt.timedelta(microseconds=value)
    if value is not None and type_.name == "date":
        return EPOCH.date() + dt.timedelta(days=value)
    return value


# Windows


def window(parsed: Parsed, params: Mapping[str, object], stream: Stream, rows: Sequence[Row], tau_us: int) -> list[Row]:
    clause = (parsed.source_windows[0].clause if parsed.source_windows else None) or parsed.window
    begin = -math.inf if stream.keep_us is None else tau_us - stream.keep_us
    end, last = tau_us, None
    if clause is not None:
        last = clause.rows if clause.rows_param is None else params[clause.rows_param]
        if clause.begin is not None:
            begin = edge(clause.begin, params, tau_us)
        if clause.end is not None:
            end = edge(clause.end, params, tau_us)
    inside = [(row[stream.time.lower()], i) for i, row in enumerate(rows) if begin < row[stream.time.lower()] <= end]
    if last is not None:
        inside = sorted(inside)[-last:]
    return [rows[i] for i in sorted(i for _, i in inside)]


def edge(given, params: Mapping[str, object], tau_us: int) -> int:
    offset = given.offset_us
    if given.param is not None:
        value = params[given.param]
        if isinstance(value, (int, float)):
            offset = int(value * given.unit_us)
        else:
            offset = encoded(value) * (1 if given.unit_us > 0 else -1)
    return offset + tau_us if given.relative else offset


# Expressions


class Evaluation:
    """The value of expressions for one row."""

    def __init__(self, row: Row, row_types: Mapping[str, Type], params: Mapping[str, object]) -> None:
        self.row, self.row_types, self.params = row, row_types, params

    def value(self, e: exp.Expr) -> Value:
        if isinstance(e, exp.Paren):
            return self.value(e.this)
        if isinstance(e, exp.Column):
            return Value(self.row_types[e.name.lower()], self.row[e.name.lower()], False)
        if isinstance(e, exp.Literal):
            return Value(Type("string"), e.this, True, True) if e.is_string else number(e.this)
        if isinstance(e, (exp.Null, exp.Boolean)):
            return Value(Type("null"), None, True) if isinstance(e, exp.Null) else boolean(bool(e.this), True)
        if isinstance(e, exp.Placeholder):
            return Value(type_of(self.params[e.name]), encoded(self.params[e.name]), True)
        if isinstance(e, exp.Interval):
            return Value(Type("interval"), int(e.this.name) * unit_us(e.args["unit"].name), True, True)
        if isinstance(e, (exp.And, exp.Or)):
            return self.connective(e)
        if isinstance(e, exp.Not):
            arg = self.value(e.this)
            return boolean(None if arg.value is None else not arg.value, arg.constant)
        if isinstance(e, exp.Is):
            arg = self.value(e.this)
            return boolean(arg.value is None, arg.constant)
        if isinstance(e, exp.Between):
            low = compare(">=", self.value(e.this), self.value(e.args["low"]))
            return conjunction([low, compare("<=", self.value(e.this), self.value(e.args["high"]))])
        if isinstance(e, exp.In):
            return disjunction([compare("=", self.value(e.this), self.value(x)) for x in e.expressions])
        if isinstance(e, exp.Like):
            found = like(self.value(e.this), self.value(e.expression))
            known = found.value is not None and bool(e.args.get("negate"))  # NOT LIKE
            return boolean(not found.value, found.constant) if known else found
        if type(e) in COMPARISONS:
            return compare(COMPARISONS[type(e)], self.value(e.this), self.value(e.expression))
        if type(e) in ARITHMETIC:
            return arithmetic(ARITHMETIC[type(e)], self.value(e.this), self.value(e.expression))
        if isinstance(e, exp.Neg):
            return self.negated(self.value(e.this))
        if isinstance(e, exp.Anonymous):
            return called(e.name, [self.value(arg) for arg in e.expressions])
        if isinstance(e, exp.DPipe):
            return called("concat", [self.value(e.this), self.value(e.expression)])
        if isinstance(e, (exp.Case, exp.If)):
            return self.case(e)
        assert isinstance(e, exp.Cast), f"the twin does not know {type(e).__name__}"
        return cast(self.value(e.this), e.args["to"])

    def connective(self, e: exp.And | exp.Or) -> Value:
        parts = [self.value(part) for part in e.flatten()]
        return conjunction(parts) if isinstance(e, exp.And) else disjunction(parts)

    def negated(self, arg: Value) -> Value:
        type_ = Type("bigint") if arg.type.name == "int" else arg.type
        if arg.value is None:
            return arg._replace(type=type_, literal=False)
        value = arg.value.copy_negate() if isinstance(arg.value, Decimal) else -arg.value
        return Value(type_, value, arg.constant, arg.literal)

    def case(self, e: exp.Case | exp.If) -> Value:
        ways = e.args["ifs"] if isinstance(e, exp.Case) else [e]
        other = e.args.get("default" if isinstance(e, exp.Case) else "false")
        parts = []
        for way in ways:
            tried = self.value(way.this)
            if isinstance(e, exp.Case) and e.this is not None:
                tried = compare("=", self.value(e.this), tried)
            parts += [tried, self.value(way.args["true"])]
        return called("case", [*parts, Value(Type("null"), None, True) if other is None else self.value(other)])


def called(name: str, args: Sequence[Value]) -> Value:
    """A function, by the types of the language."""
    name, constant = plain_functions.ALSO.get(name.lower(), name.lower()), all(a.constant for a in args)
    if name == "nullif":
        return args[0]._replace(value=None if compare("=", *args).value else args[0].value, constant=constant)
    if name in plain_functions.OF_TIMES:
        *words, time = args
        us = time.value if time.value is None or time.type.name != "date" else time.value * DAY_US
        found = plain_functions.value(name, [*(w.value for w in words), plain_functions.instant(us)], ordered)
        if name == "date_trunc":
            return Value(Type("timestamp"), None if found is None else encoded(found.replace(tzinfo=dt.UTC)), constant)
        return Value(Type("int"), found, constant)
    if name in plain_functions.OF_ONE_TYPE:
        values = args if name != "case" else [*args[1::2], args[-1]]
        type_ = one_type([v for v in values if v.type.name != "null"])
        brought = iter([None if v.value is None else in_type(v, type_) for v in values])
        is_value = [name != "case" or k % 2 == 1 or k == len(args) - 1 for k in range(len(args))]
        given = [next(brought) if is_value[k] else a.value for k, a in enumerate(args)]
        order = str.encode if type_.name == "string" else ordered
        return Value(type_, plain_functions.value(name, given, order), constant)
    found = plain_functions.value(name, [a.value for a in args], ordered)
    return Value(result_type(name, args[0].type), found, constant)


def result_type(name: str, of: Type) -> Type:
    if name in ("floor", "ceil", "round") and of.name == "decimal":
        more = 1 if of.scale or name == "round" else 0
        return Type("decimal", min(38, of.precision - of.scale + more), 0)
    if name == "abs":
        return Type("bigint") if of.name == "int" else of
    names = {"floor": "bigint", "ceil": "bigint", "sign": "double", "length": "int"}
    return of if name == "round" else Type(names.get(name, "string"))


def one_type(values: Sequence[Value]) -> Type:
    types, names = {v.type for v in values}, {v.type.name for v in values}
    if names == {"string"}:
        return Type("string")
    if len(types) == 1:
        return types.pop()
    if names <= {"date", "timestamp"}:
        return Type("timestamp") if Type("timestamp") in types else NTZ
    if names <= {"int", "bigint"}:
        return max(types, key=lambda t: DIGITS[t.variant or t.name])
    if "double" in names:
        return Type("double")
    return Type("decimal", *reduce(plain_decimals.widest, (digits(v) for v in values)))


def in_type(v: Value, type_: Type) -> object:
    if type_.name == "double":
        return float(v.value)
    if type_.name == "timestamp" and v.type.name == "date":
        return v.value * DAY_US
    if type_.name == "decimal":
        return plain_decimals.fitted(Fraction(v.value), (type_.precision, type_.scale))
    return v.value


def boolean(value: bool | None, constant: bool) -> Value:
    return Value(Type("boolean"), value, constant)


def conjunction(parts: Sequence[Value]) -> Value:
    values = [p.value for p in parts]
    return boolean(False if False in values else None if None in values else True, all(p.constant for p in parts))


def disjunction(parts: Sequence[Value]) -> Value:
    values = [p.value for p in parts]
    return boolean(True if True in values else None if None in values else False, all(p.constant for p in parts))


def unit_us(word: str) -> int:
    return UNITS_US.get(word.upper()) or UNITS_US[word.upper()[:-1]]


def number(text: str) -> Value:
    if "e" in text.lower():
        return Value(Type("double"), float(text), True, True)
    if "." not in text and int(text) < 2**63:
        return Value(Type("bigint"), int(text), True, True)
    value = Decimal(text)
    return Value(decimal_type(value), value, True, True)


def decimal_type(value: Decimal) -> Type:
    _, digits, exponent = value.as_tuple()
    return Type("decimal", max(len(digits), -exponent, 1), -exponent)


def type_of(value: object) -> Type:
    if isinstance(value, Decimal):
        return decimal_type(value)
    names = {bool: "boolean", int: "bigint", float: "double", str: "string", dt.datetime: "timestamp", dt.date: "date"}
    return Type({**names, dt.timedelta: "interval", type(None): "null"}[type(value)])


def compare(op: str, left: Value, right: Value) -> Value:
    constant = left.constant and right.constant
    if left.value is None or right.value is None:
        return boolean(None, constant)
    a, b = left.value, right.value
    if left.type.name in NUMBERS:
        if "double" in (left.type.name, right.type.name) and not (exactly(left, right) or exactly(right, left)):
            a, b = float(a), float(b)
        a, b = ordered(a), ordered(b)
    elif isinstance(a, str):
        for one, other in ((left, right), (right, left)):
            if one.type.variant == "char" and (other.constant or other.type.variant == "char"):
                a, b = a.ljust(len(b)), b.ljust(len(a))
        a, b = a.encode(), b.encode()
    elif left.type.name != right.type.name:
        a, b = (v.value * DAY_US if v.type.name == "date" else v.value for v in (left, right))
    outcomes = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return boolean(outcomes[op], constant)


def exactly(value: Value, bound: Value) -> bool:
    """A whole or decimal value against a double constant is compared without rounding either."""
    return value.type.name != "double" and not value.constant and bound.constant


def ordered(value: object) -> tuple[int, Fraction]:
    """Numbers in order: −infinity, all the finite ones, +infinity, NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return (2 if math.isnan(value) else 1 if value > 0 else -1, Fraction(0))
    return (0, Fraction(value))


def like(arg: Value, pattern: Value) -> Value:
    constant = arg.constant and pattern.constant
    if arg.value is None or pattern.value is None:
        return boolean(None, constant)
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(t) or re.escape(t[-1]) for t in re.findall(r"\\.|.", pattern.value, re.DOTALL))
    return boolean(re.fullmatch(regex, arg.value, re.DOTALL) is not None, constant)


def arithmetic(op: str, left: Value, right: Value) -> Value:
    constant = left.constant and right.constant
    kinds = {left.type.name, right.type.name}
    if not kinds <= set(NUMBERS):
        type_, value = times(op, left, right)
    elif left.type == right.type == FLOAT and op != "/":
        found = doubles(op, left.value, right.value)
        type_, value = FLOAT, None if found is None else single(found)
    elif "double" in kinds or (op == "/" and "decimal" not in kinds):
        type_, value = Type("double"), doubles(op, left.value, right.value)
    elif "decimal" in kinds:
        type_, value = decimals(op, left, right)
    else:
        type_, value = Type("bigint"), whole(op, left.value, right.value)
    return Value(type_, value, constant)


def single(value: float) -> float:
    """The nearest 32-bit float."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def whole(op: str, a: int | None, b: int | None) -> int | None:
    if a is None or b is None or (op == "%" and b == 0):
        return None
    if op == "%":
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    return value if abs(value) <= BIGINT_MAX else None


def doubles(op: str, left: object, right: object) -> float | None:
    if left is None or right is None:
        return None
    a, b = float(left), float(right)
    if op in "/%" and b == 0:
        return None
    if op == "%":
        return math.nan if math.isinf(a) or math.isnan(a) or math.isnan(b) else math.fmod(a, b)
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[op]()


def decimals(op: str, left: Value, right: Value) -> tuple[Type, object]:
    found = plain_decimals.type_of(op, digits(left), digits(right))
    type_ = Type("decimal", *found)
    if left.value is None or right.value is None:
        return type_, None
    return type_, plain_decimals.value_of(op, left.value, right.value, found)


def digits(v: Value) -> tuple[int, int]:
    if v.type.name == "decimal":
        return v.type.precision, v.type.scale
    if v.literal:
        return len(str(abs(v.value))), 0
    return DIGITS[v.type.variant or v.type.name], 0


def times(op: str, left: Value, right: Value) -> tuple[Type, int | None]:
    a, b = left.type.name, right.type.name
    sign = 1 if op == "+" else -1
    unknown = left.value is None or right.value is None
    if a == "date" and b == "interval":
        uneven = unknown or right.value % DAY_US
        return Type("date"), None if uneven else left.value + sign * right.value // DAY_US
    if b == "interval":
        return left.type, None if unknown else left.value + sign * right.value
    assert (a, b, op) == ("timestamp", "timestamp", "-"), f"the twin does not know {a} {op} {b}"
    return Type("interval"), None if unknown else left.value - right.value


def cast(arg: Value, to: exp.DataType) -> Value:
    name = {"TEXT": "string", "TIMESTAMPTZ": "timestamp"}.get(to.this.name, to.this.name.lower())
    type_ = Type(name, *(int(p.name) for p in to.expressions)) if name == "decimal" else Type(name)
    for of, variants in (("int", ("tinyint", "smallint")), ("double", ("float",)), ("timestamp", ("timestamp_ntz",))):
        if name in variants or name == variants[0].replace("_", ""):
            type_ = Type(of, variant=name if name in variants else variants[0])
    if arg.literal and isinstance(arg.value, str):
        moment = dt.datetime.fromisoformat(arg.value).replace(tzinfo=dt.UTC)
        return Value(type_, encoded(moment if type_.name == "timestamp" else moment.date()), True, True)
    value = arg.value
    if value is not None:
        value = converted(value, arg.type, type_)
    return Value(type_, value, arg.constant, arg.literal)


def converted(value: object, given: Type, wanted: Type) -> object:
    if wanted.name in ("int", "bigint"):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        bits = {"tinyint": 8, "smallint": 16, "int": 32}.get(wanted.variant or wanted.name)
        limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if bits else (-BIGINT_MAX, BIGINT_MAX)
        return int(value) if limits[0] <= int(value) <= limits[1] else None
    if wanted.name == "double":
        return single(float(value)) if wanted.variant else float(value)
    if wanted.name == "decimal":
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-wanted.scale), ROUND_HALF_UP, EXACT)
        return rounded if rounded.copy_abs() < Decimal(10) ** (wanted.precision - wanted.scale) else None
    if (given.name, wanted.name) == ("timestamp", "date"):
        return value // DAY_US
    if (given.name, wanted.name) == ("date", "timestamp"):
        return value * DAY_US
    return str(value) if wanted.name == "string" else value
