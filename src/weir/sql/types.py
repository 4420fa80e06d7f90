"""The typing rules: what meets what in a comparison, and what arithmetic makes of it.

A constant takes the type of what it meets whenever that is exact (`align`); a column is never cast behind the
user's back, except a date that meets an instant (midnight UTC). Comparisons of numbers are mathematically exact.
Arithmetic: whole numbers give BIGINT (overflow is NULL), their quotients and everything with a DOUBLE give DOUBLE, two
floats a float, decimals with each other and with whole numbers a decimal (`weir.algebra.decimals`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal

from weir.algebra import decimals
from weir.algebra.decimals import DIGITS_MAX, KEY_DIGITS_MAX, is_wide
from weir.algebra.fold import fold_one
from weir.algebra.nodes import Call, Cast, Expression, Literal, Param
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
    Kind,
    decimal,
)
from weir.sql import literals
from weir.sql.literals import INT64_MAX

WHOLE = (Kind.INT, Kind.BIGINT)
TIMES = (Kind.DATE, Kind.TIMESTAMP)


class MismatchError(Exception):
    """Two types that do not go together; the caller adds the position."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def is_constant(e: Expression) -> bool:
    return isinstance(e, (Literal, Param))


def is_open(e: Expression) -> bool:
    """A parameter, or NULL, whose type is still to be found."""
    return is_constant(e) and e.type.kind is Kind.NULL


def slot_type(met: DataType) -> DataType:
    """The type of a constant that meets a value of type `met`: the widest that compares in the same way."""
    if met.kind is Kind.INT:
        return BIGINT
    if met.kind is Kind.DECIMAL:
        return decimal(DIGITS_MAX if is_wide(met) else KEY_DIGITS_MAX, met.scale)
    return met if met.variant == "char" else met.usual


def with_type(e: Expression, type_: DataType, unit_us: int | None = None) -> Expression:
    """An open constant, closed."""
    if isinstance(e, Literal):
        return Literal(None, type_)
    assert isinstance(e, Param)
    return Param(e.name, type_, e.unit_us if unit_us is None else unit_us)


def align(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Both sides of a comparison, with constants and dates adapted to the other side, or MismatchError."""
    _no_payloads(left, right)
    if is_open(left) and is_open(right):
        raise MismatchError(
            "the types of both sides are unknown" if _params(left, right) else "NULL is compared with NULL",
            "give a parameter a type: CAST(:name AS double)" if _params(left, right) else "write IS NULL",
        )
    if is_open(left):
        return with_type(left, slot_type(right.type)), right
    if is_open(right):
        return left, with_type(right, slot_type(left.type))
    if is_constant(right) and not is_constant(left):
        return _meet(left, right)
    if is_constant(left) and not is_constant(right):
        right, left = _meet(right, left)
        return left, right
    if is_constant(left) and isinstance(right, Literal):
        return _meet(left, right)
    if is_constant(right) and isinstance(left, Literal):
        right, left = _meet(right, left)
        return left, right
    left, right = _read(left, right), _read(right, left)
    _comparable(left, right)
    left, right = midnight(left, right.type), midnight(right, left.type)
    return filled_up(left, right.type), filled_up(right, left.type)


def filled_up(e: Expression, met: DataType) -> Expression:
    """A char that meets a longer one has as many blanks at its end."""
    if not e.type.variant == met.variant == "char" or e.type.precision >= met.precision:
        return e
    # CAST to a char would do so here, but not in the text of the query: there Spark takes it for a cast to string.
    return Call("rpad", (e, Literal(met.precision, BIGINT)), STRING)


def _read(text: Expression, other: Expression) -> Expression:
    """A text that meets something else is read as such, as in Spark: a whole number as bigint, others as double."""
    kind = other.type.kind
    if text.type.kind is not Kind.STRING or is_constant(text) or kind is Kind.STRING:
        return text
    if kind in WHOLE:
        return Cast(text, BIGINT)
    if other.type.is_numeric:
        return Cast(text, DOUBLE)
    return Cast(text, other.type) if kind in (Kind.BOOLEAN, *TIMES) else text


def _params(left: Expression, right: Expression) -> bool:
    return isinstance(left, Param) or isinstance(right, Param)


def _meet(value: Expression, constant: Expression) -> tuple[Expression, Expression]:
    value = _read(value, constant)
    fitted = fit(_number_in(constant, value.type), value.type)
    _comparable(value, fitted)
    return midnight(value, fitted.type), midnight(fitted, value.type)


TAKE_A_PART = "take a scalar out of it: x.field, x[0], x['key']"


def _number_in(constant: Expression, met: DataType) -> Expression:
    """A quoted number beside numbers is that number, where Spark reads it so."""
    if not isinstance(constant, Literal) or not isinstance(constant.value, str) or not met.is_numeric:
        return constant
    found = literals.number(constant.value.strip())
    if found is None or (met.kind in WHOLE and found.type.kind is not Kind.BIGINT):
        return constant
    return constant if met.kind is Kind.DECIMAL and found.type.kind is Kind.DOUBLE else found


def _comparable(left: Expression, right: Expression) -> None:
    a, b = left.type, right.type
    if a.kind is b.kind or (a.is_numeric and b.is_numeric) or (a.kind in TIMES and b.kind in TIMES):
        return
    raise MismatchError(f"{described(left)} cannot be compared with {described(right)}", _advice(left, right))


def _no_payloads(left: Expression, right: Expression) -> None:
    payload = next((e for e in (left, right) if e.type.kind is Kind.PAYLOAD), None)
    if payload is not None:
        raise MismatchError(f"{described(payload)} is not compared", TAKE_A_PART)


def described(e: Expression) -> str:
    """An operand in the words of an error message."""
    if isinstance(e, Literal):
        value = "NULL" if e.value is None else repr(e.value) if e.type == STRING else str(e.value)
        return f"{value[:40]} ({e.type})" if e.type.kind is not Kind.INTERVAL else "an interval"
    if isinstance(e, Param):
        return f":{e.name} ({e.type})"
    name = getattr(e, "name", None)
    return f"'{name}' ({e.type})" if isinstance(name, str) else f"an expression of type {e.type}"


def _advice(left: Expression, right: Expression) -> str:
    kinds = {left.type.kind, right.type.kind}
    constant = next((e for e in (right, left) if isinstance(e, Literal)), None)
    numeric = left.type.is_numeric or right.type.is_numeric
    if Kind.INTERVAL in kinds:
        return "write a length of time as INTERVAL 5 SECONDS"
    if Kind.TIMESTAMP in kinds:
        return "write a constant time as TIMESTAMP '2026-01-31 12:00:00'"
    if Kind.DATE in kinds:
        return "write a constant date as DATE '2026-01-31'"
    if Kind.BOOLEAN in kinds:
        return "write TRUE or FALSE"
    if numeric and constant is not None and constant.type == STRING and literals.number(str(constant.value).strip()):
        return f"write {str(constant.value).strip()} without quotation marks"
    if numeric and constant is not None and constant.type.is_numeric:
        return f"write '{constant.value}' with quotation marks"
    return "numbers and texts are not compared with one another"


def fit(constant: Expression, wanted: DataType) -> Expression:
    """A constant in the type of what it meets, where nothing is lost by it; otherwise as it is."""
    if isinstance(constant, Param):
        return Param(constant.name, _fitted_param(constant.type, wanted), constant.unit_us)
    assert isinstance(constant, Literal)
    value, kind = constant.value, constant.type.kind
    if value is None:
        return Literal(None, slot_type(wanted))
    if isinstance(value, str) and wanted.kind in TIMES:
        return _time_literal(value, wanted)
    if isinstance(value, str) and wanted.variant == "char":
        return Literal(value.rstrip(" ").ljust(wanted.precision), wanted)  # blanks at its end do not count
    if wanted.kind is Kind.TIMESTAMP and isinstance(value, dt.date):
        return Literal(literals.date_us(value), TIMESTAMP)
    if not (constant.type.is_numeric and wanted.is_numeric):
        return constant
    assert isinstance(value, (int, float, Decimal))
    if wanted.kind is Kind.DOUBLE:
        return Literal(float(value), DOUBLE)
    if kind is Kind.DOUBLE and not math.isfinite(value):
        return constant
    exact = Decimal(value)  # exact for whole numbers and doubles alike
    if wanted.kind in WHOLE:
        whole = -INT64_MAX <= exact <= INT64_MAX and exact == exact.to_integral_value()
        return Literal(int(exact), BIGINT) if whole else constant
    return _scaled(exact, slot_type(wanted)) or constant


def _scaled(exact: Decimal, type_: DataType) -> Literal | None:
    """A number as a decimal of the type, if that is exact."""
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent + type_.scale
    unscaled = int("".join(map(str, digits)))
    if shift > DIGITS_MAX or shift < -2_000 or (shift < 0 and unscaled % 10**-shift):
        return None if unscaled else Literal(Decimal(0).scaleb(-type_.scale), type_)
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    if unscaled >= 10**type_.precision:
        return None
    return Literal(Decimal((sign, tuple(map(int, str(unscaled))), -type_.scale)), type_)


def _time_literal(text: str, wanted: DataType) -> Literal:
    if wanted.kind is Kind.DATE:
        day = literals.date(text)
        if day is None:
            raise MismatchError(f"'{text[:40]}' is no date", "write DATE '2026-01-31'")
        return Literal(day, DATE)
    moment = literals.timestamp(text, has_zone=not wanted.variant)
    if moment is None:
        raise MismatchError(f"'{text[:40]}' is no timestamp", "write TIMESTAMP '2026-01-31 12:00:00'")
    return Literal(moment, TIMESTAMP)


def _fitted_param(given: DataType, wanted: DataType) -> DataType:
    if given.kind is Kind.STRING and (wanted.kind in TIMES or wanted.variant == "char"):
        return slot_type(wanted)
    if given.kind is Kind.DATE and wanted.kind is Kind.TIMESTAMP:
        return TIMESTAMP
    if given.is_numeric and wanted.kind is Kind.INTERVAL:
        return INTERVAL
    if given.is_numeric and wanted.kind is Kind.DOUBLE:
        return DOUBLE
    if given.kind is Kind.INT:
        given = BIGINT
    if given.kind is Kind.DECIMAL and wanted.kind is Kind.DECIMAL:
        slot = slot_type(wanted)
        holds = given.scale <= slot.scale and given.precision - given.scale + slot.scale <= slot.precision
        return slot if holds else given
    return given


def midnight(e: Expression, other: DataType) -> Expression:
    """A date that meets an instant is the instant of its midnight, UTC."""
    if e.type.kind is Kind.DATE and other.kind is Kind.TIMESTAMP:
        return fit(e, TIMESTAMP) if is_constant(e) else Cast(e, TIMESTAMP)
    return e


def arithmetic(op: str, left: Expression, right: Expression) -> tuple[Expression, Expression, DataType]:
    """Both operands, adapted, and the type of `left op right`, or MismatchError."""
    a, b = left.type, right.type
    if a.is_numeric and b.is_numeric:
        return _numbers(op, left, right)
    if op in "+-" and (a.kind in (*TIMES, Kind.INTERVAL) or b.kind in (*TIMES, Kind.INTERVAL)):
        return _times(op, left, right)
    raise MismatchError(
        f"'{op}' does not take {described(left)} and {described(right)}",
        "arithmetic takes numbers; + and - also take a time and an interval",
    )


def _numbers(op: str, left: Expression, right: Expression) -> tuple[Expression, Expression, DataType]:
    kinds = {left.type.kind, right.type.kind}
    if left.type == right.type == FLOAT and op != "/":
        return left, right, FLOAT
    if Kind.DOUBLE in kinds or (op == "/" and Kind.DECIMAL not in kinds):
        return _as_double(left), _as_double(right), DOUBLE
    if Kind.DECIMAL not in kinds:
        return _widened(left), _widened(right), BIGINT
    left, right = _as_decimal(left), _as_decimal(right)
    return left, right, decimals.result(op, left.type, right.type)


def alike(values: Sequence[Expression]) -> list[Expression]:
    """Values that stand for one another (the branches of CASE), all of one type, or MismatchError.

    The type holds all of them; a whole constant beside a decimal counts as its own digits.
    """
    values = list(values)
    times = {v.type.kind: v.type.usual for v in values if v.type.kind in TIMES}
    if times:
        time = times.get(Kind.TIMESTAMP, DATE)
        values = [fit(v, time) if is_constant(v) and v.type.kind is Kind.STRING else v for v in values]
    values = operands(values)
    known = [v for v in values if not is_open(v)]
    if not known:
        raise MismatchError("the type of the values is unknown", "give one a type: CAST(NULL AS double)")
    type_ = known[0].type
    for value in known[1:]:
        wider = _common(type_, value.type)
        if wider is None:
            raise MismatchError(f"{described(known[0])} and {described(value)} have no common type", "CAST one of them")
        type_ = wider
    return [_brought(v, type_) for v in values]


def operands(values: Sequence[Expression]) -> list[Expression]:
    """Values of which one may be a decimal: whole constants beside it are decimals of their own digits."""
    has_decimal = any(v.type.kind is Kind.DECIMAL for v in values)
    return [_as_decimal(v) for v in values] if has_decimal else list(values)


def _common(a: DataType, b: DataType) -> DataType | None:
    """The type that has the values of both."""
    if a == b and a.kind is not Kind.STRING:
        return a
    if a.kind is b.kind is Kind.STRING:
        return STRING
    if a.kind in TIMES and b.kind in TIMES:
        return TIMESTAMP if TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    if not (a.is_numeric and b.is_numeric):
        return None
    if Kind.DOUBLE in (a.kind, b.kind):
        return DOUBLE
    if Kind.DECIMAL not in (a.kind, b.kind):
        return max(a, b, key=lambda whole: whole.bits)
    return decimals.wider(a, b)


def _brought(e: Expression, type_: DataType) -> Expression:
    if e.type == type_:
        return e
    if is_open(e) or (isinstance(e, Literal) and e.value is None):
        return with_type(e, type_)
    return fold_one(Cast(e, type_))


def _as_double(e: Expression) -> Expression:
    return fit(e, DOUBLE) if is_constant(e) else e


def _widened(e: Expression) -> Expression:
    return fit(e, BIGINT) if is_constant(e) else e


def _as_decimal(e: Expression) -> Expression:
    """A whole constant beside a decimal is a decimal of exactly its digits; one that is cast has those of its type."""
    if isinstance(e, Literal) and e.type.kind is Kind.BIGINT and isinstance(e.value, int):
        return Literal(Decimal(e.value), decimal(len(str(abs(e.value))), 0))
    return e


def _times(op: str, left: Expression, right: Expression) -> tuple[Expression, Expression, DataType]:
    a, b = left.type.kind, right.type.kind
    if isinstance(right, Param) and right.type.is_numeric:
        right, b = Param(right.name, INTERVAL, right.unit_us), Kind.INTERVAL
    if a is Kind.INTERVAL and b is Kind.INTERVAL:
        return left, right, INTERVAL
    if a is Kind.INTERVAL and b in TIMES and op == "+":
        return _times(op, right, left)  # the time stands first
    if a in TIMES and b is Kind.INTERVAL:
        if a is Kind.DATE:
            if isinstance(right, Literal) and isinstance(right.value, int) and right.value % literals.UNITS_US["DAY"]:
                raise MismatchError("a date moves by whole days only", "CAST the date to timestamp first")
            return left, right, DATE
        return left, right, left.type
    if a in TIMES and op == "-":
        right = fit(right, TIMESTAMP) if is_constant(right) else right
        if right.type.kind in TIMES:
            return midnight(left, TIMESTAMP), midnight(right, TIMESTAMP), INTERVAL
    raise MismatchError(
        f"'{op}' does not take {described(left)} and {described(right)}",
        "a time takes ± INTERVAL 5 SECONDS, and a time minus a time is an interval",
    )


_NUMBERS = (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)
_CASTS: dict[Kind, tuple[Kind, ...]] = {
    **dict.fromkeys(_NUMBERS, (*_NUMBERS, Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP)),
    Kind.BOOLEAN: (Kind.BOOLEAN, *_NUMBERS, Kind.STRING),
    Kind.STRING: (*_NUMBERS, Kind.STRING, Kind.BOOLEAN, *TIMES),
    Kind.DATE: (*TIMES, Kind.STRING),
    Kind.TIMESTAMP: (*TIMES, *_NUMBERS, Kind.STRING),
    Kind.INTERVAL: (),
    Kind.PAYLOAD: (),
    Kind.NULL: tuple(Kind),
}


def check_cast(e: Expression, wanted: DataType) -> None:
    """MismatchError unless values of this type can be cast so; a value that does not fit becomes NULL."""
    if wanted.kind not in _CASTS[e.type.kind]:
        raise MismatchError(
            f"{described(e)} cannot be cast to {wanted}",
            f"{e.type.kind.value} casts to: {', '.join(k.value for k in _CASTS[e.type.kind]) or 'nothing'}",
        )


def united(left: DataType, right: DataType) -> DataType | None:
    """The one type of a column of UNION, EXCEPT or INTERSECT."""
    if left == right:
        return left
    if Kind.NULL in (left.kind, right.kind):
        return right if left.kind is Kind.NULL else left
    if left.kind in WHOLE and right.kind in WHOLE:
        return max(left, right, key=lambda whole: whole.bits)
    if left.kind is right.kind and left.kind is not Kind.PAYLOAD and (left.variant or right.variant):
        return left.usual
    if left.kind is Kind.DECIMAL and right.kind is Kind.DECIMAL:
        return decimals.wider(left, right)
    return _common(left, right)


def is_injective(have: DataType, wanted: DataType) -> bool:
    """Whether a cast keeps different values different."""
    if have == wanted or have.kind is Kind.NULL:
        return True
    if have.kind is Kind.DECIMAL and wanted.kind is Kind.DECIMAL:
        return wanted.scale >= have.scale and wanted.precision - wanted.scale >= have.precision - have.scale
    return (have.kind in WHOLE and wanted.kind in WHOLE) or (have.kind is wanted.kind and not wanted.variant)


def cast(e: Expression, wanted: DataType) -> Expression:
    """The expression in another type, carried out where it is a constant."""
    if isinstance(e, Literal) and e.value is None:
        return Literal(None, wanted)
    return fold_one(Cast(e, wanted))


NAMES = "tinyint, smallint, int, bigint, float, double, decimal(p,s), string, boolean, date, timestamp, timestamp_ntz"
_NAMED = {
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": STRING,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
}


def named(name: str, sizes: Sequence[str]) -> DataType:
    """The type that CAST names, in sqlglot's word for it, or MismatchError."""
    if name == "DECIMAL":
        digits = [int(s) if s.isascii() and s.isdigit() and len(s) < 9 else 0 for s in sizes] or [10]
        precision, scale = digits[0], digits[1] if len(digits) > 1 else 0
        if not (1 <= precision <= DIGITS_MAX and 0 <= scale <= precision):
            raise MismatchError(
                f"decimal({', '.join(sizes)}) is out of range", f"decimals have at most {DIGITS_MAX} digits"
            )
        return decimal(precision, scale)
    if name not in _NAMED or sizes:
        raise MismatchError(f"there is no type '{name.lower()}' here", f"types: {NAMES}")
    return _NAMED[name]
