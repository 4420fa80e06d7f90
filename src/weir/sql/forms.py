"""Functions and operators with a syntax, an order of arguments or a meaning of their own, and what they are lowered to.

`FORMS` are called by name, `SYNTAX` has a class of sqlglot's. Each is made of functions of the table, of casts and of
conditions; none has an evaluation of its own. The time of the answer, `current_timestamp()`, is the parameter
`NOW`, which is no slot of any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.fold import fold_one
from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import Arithmetic, Call, Cast, ColumnRef, Expression, IsNull, Like, Literal, Not, Param
from weir.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, DataType, Kind
from weir.algebra.time_functions import PARTS
from weir.errors import did_you_mean
from weir.sql import types
from weir.sql.arguments import call, text_operand
from weir.sql.arithmetic import calculation, negation
from weir.sql.casts import cast
from weir.sql.conditions import aligned, like
from weir.sql.expressions import Expressions, Methods

Arguments = Sequence[exp.Expr]
Form = Callable[[Expressions, Arguments, exp.Expr, DataType | None], Expression]

NOW = nodes.NOW
_SECONDS_PATTERN = "yyyy-MM-dd HH:mm:ss"
_CAST_NAMES = [
    "int",
    "bigint",
    "double",
    "string",
    "boolean",
    "date",
    "timestamp",
    "decimal",
    "float",
    "tinyint",
    "smallint",
    "binary",
]
_BITS: dict[type[exp.Expr], str] = {exp.BitwiseAnd: "bitand", exp.BitwiseOr: "bitor", exp.BitwiseXor: "bitxor"}
_SHIFTS: dict[type[exp.Expr], str] = {exp.BitwiseLeftShift: "shiftleft", exp.BitwiseRightShift: "shiftright"}
_ONE_LEVEL = (*_BITS, *_SHIFTS, exp.DPipe)  # sqlglot reads these from left to right, Spark each with its own rank


def _counted(e: Expressions, args: Arguments, node: exp.Expr, least: int, most: int | None = None) -> None:
    most = least if most is None else most
    if not least <= len(args) <= most:
        many = (
            "no"
            if not most
            else str(least)
            if least == most
            else f"{least} to {most}"
            if most > least + 1
            else f"{least} or {most}"
        )
        raise e.fail(f"{e.word(node)}() takes {many} argument{'' if most == 1 else 's'}, got {len(args)}", node)


def _called(e: Expressions, name: str, args: Sequence[exp.Expr | Expression], node: exp.Expr) -> Expression:
    return call(e, SIGNATURES[name], args, node, None)


# Called by name.


def _to_char(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    """Of a time it is date_format."""
    _counted(e, args, node, 2)
    time = e.value(args[0])
    if time.type.kind not in types.TIMES:
        raise e.fail(f"{e.word(node)}() takes a date or a timestamp, got {types.described(time)}", node)
    return _called(e, "date_format", [time, args[1]], node)


def _typeof(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    """The type of what has one for certain: a column, a part of a payload, a cast."""
    _counted(e, args, node, 1)
    of = e.value(args[0])
    if not isinstance(of, (ColumnRef, Cast, nodes.Field, nodes.Element)) or (
        of.type.kind is Kind.STRING and of.type.variant
    ):
        raise e.fail("typeof() takes a column or a CAST", node, "numbers are wider here than in Spark")
    return Literal(str(of.type), STRING)


def _operator(op: str) -> Form:
    def form(e: Expressions, args: Arguments, node: exp.Expr, wanted: DataType | None) -> Expression:
        _counted(e, args, node, 2)
        return calculation(e, op, args[0], args[1], wanted)

    return form


def _negative(e: Expressions, args: Arguments, node: exp.Expr, wanted: DataType | None) -> Expression:
    _counted(e, args, node, 1)
    return negation(e, args[0], wanted)


def _positive(e: Expressions, args: Arguments, node: exp.Expr, wanted: DataType | None) -> Expression:
    _counted(e, args, node, 1)
    return e.lower(args[0], wanted)


def _null_test(negated: bool) -> Form:
    def form(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
        _counted(e, args, node, 1)
        found = IsNull(e.typed(args[0], BOOLEAN))
        return Not(found) if negated else found

    return form


def _nvl2(e: Expressions, args: Arguments, node: exp.Expr, wanted: DataType | None) -> Expression:
    _counted(e, args, node, 3)
    return call(e, SIGNATURES["case"], [Not(IsNull(e.typed(args[0], BOOLEAN))), args[1], args[2]], node, wanted)


def _zero(name: str) -> Form:
    def form(e: Expressions, args: Arguments, node: exp.Expr, wanted: DataType | None) -> Expression:
        _counted(e, args, node, 1)
        return call(e, SIGNATURES[name], [args[0], Literal(0, BIGINT)], node, wanted)

    return form


def _decode(e: Expressions, args: Arguments, node: exp.Expr, wanted: DataType | None) -> Expression:
    """decode(x, a, v, b, w, …, otherwise): NULL meets NULL, unlike in CASE."""
    if len(args) < 3:
        raise e.fail(f"decode() takes a value, and pairs of what it meets and what it becomes, got {len(args)}", node)
    if any(isinstance(part, (exp.Case, exp.Anonymous)) for part in args[0].walk()):
        raise e.fail("decode() compares a column or a plain expression", args[0], "write CASE x WHEN a THEN …")
    pairs = args[1 : len(args) - len(args) % 2 + 1]
    parts: list[exp.Expr | Expression | None] = []
    for met, value in zip(pairs[::2], pairs[1::2], strict=False):
        parts += [_called(e, "equal_null", [args[0], met], node), value]
    parts.append(args[-1] if len(args) % 2 == 0 else None)
    return call(e, SIGNATURES["case"], parts, node, wanted)


def _log(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    _counted(e, args, node, 1, 2)
    return _called(e, "ln" if len(args) == 1 else "log", args, node)


def _constant(value: float) -> Form:
    def form(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
        _counted(e, args, node, 0)
        return Literal(value, DOUBLE)

    return form


def _swapped(name: str) -> Form:
    """ltrim('x', s), with the characters first."""

    def form(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
        _counted(e, args, node, 1, 2)
        return _called(e, name, args[::-1], node)

    return form


def _now(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    _counted(e, args, node, 0)
    return NOW


def _today(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    _counted(e, args, node, 0)
    return Cast(NOW, DATE)


def _cast_to(name: str) -> Form:
    def form(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
        _counted(e, args, node, 1)
        return cast(e, args[0], types.named({"STRING": "TEXT"}.get(name.upper(), name.upper()), []), node)

    return form


def _read_time(type_: DataType) -> Form:
    """to_date and to_timestamp; a pattern is for texts only."""

    def form(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
        _counted(e, args, node, 1, 2)
        if len(args) == 1:
            return cast(e, args[0], type_, node)
        arg = e.typed(args[0], STRING)
        if arg.type.kind in types.TIMES:
            return arg if arg.type == type_ else fold_one(Cast(arg, type_))
        moment = _called(e, "to_timestamp", [arg, args[1]], node)
        return moment if type_ == TIMESTAMP else fold_one(Cast(moment, type_))

    return form


def _unix_timestamp(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    _counted(e, args, node, 0, 2)
    if not args:
        return Call("unix_timestamp", (NOW,), BIGINT)
    arg = e.typed(args[0], STRING)
    if arg.type.kind is Kind.STRING:
        pattern = args[1] if len(args) > 1 else Literal(_SECONDS_PATTERN, STRING)
        arg = _called(e, "to_timestamp", [arg, pattern], node)
    return _called(e, "unix_timestamp", [arg], node)


def _from_unixtime(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    _counted(e, args, node, 1, 2)
    count = e.typed(args[0], BIGINT)
    if not count.type.is_numeric:
        raise e.fail(f"from_unixtime() takes a number, got {types.described(count)}", node)
    count = count if count.type.kind in types.WHOLE else fold_one(Cast(count, BIGINT))
    pattern = args[1] if len(args) > 1 else Literal(_SECONDS_PATTERN, STRING)
    return _called(e, "date_format", [_called(e, "timestamp_seconds", [count], node), pattern], node)


def _by_count(of_two: str, of_three: str) -> Form:
    """date_add(d, n) and date_add(unit, n, t) are two functions."""

    def form(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
        _counted(e, args, node, 2, 3)
        return _called(e, of_two if len(args) == 2 else of_three, args, node)

    return form


def _date_part(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    _counted(e, args, node, 2)
    if not (isinstance(args[0], exp.Literal) and args[0].is_string):
        raise e.fail(f"{e.word(node)}() takes the name of a part in quotes", args[0], "write date_part('year', ts)")
    return _part(e, args[0].name, args[1], node)


def _part(e: Expressions, name: str, time: exp.Expr, node: exp.Expr) -> Expression:
    part = PARTS.get(name.lower())
    if part is None:
        hint = (
            did_you_mean(name, PARTS) or "parts: year, quarter, month, week, day, dayofweek, doy, hour, minute, second"
        )
        raise e.fail(f"a time has no part '{name}'", node, hint)
    return _called(e, part, [time], node)


def _make_interval(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
    """make_interval(years, months, weeks, days, hours, minutes, seconds): years and months have no fixed length."""
    _counted(e, args, node, 0, 7)
    for arg in args[:2]:
        if not (isinstance(arg, exp.Literal) and arg.name == "0"):
            raise e.fail("an interval of years or months has no fixed length", arg, "write 0 there, or use add_months")
    rest = [*args[2:], *[exp.Literal.number(0)] * (7 - max(len(args), 2))]
    week = calculation(e, "*", rest[0], exp.Literal.number(7), None)
    left, right, type_ = types.arithmetic("+", e.typed(rest[1], BIGINT), fold_one(week))
    return _called(e, "make_dt_interval", [fold_one(Arithmetic("+", left, right, type_)), *rest[2:]], node)


def _like_form(ignores_case: bool) -> Form:
    def form(e: Expressions, args: Arguments, node: exp.Expr, _: DataType | None) -> Expression:
        _counted(e, args, node, 2, 3)
        return _liked(e, args[0], args[1], args[2] if len(args) > 2 else None, ignores_case, node)

    return form


# With a syntax of their own.


def _extract(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return _part(e, node.this.name, node.expression, node)


def _trim(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    if node.args.get("collation") is not None:
        raise e.fail("TRIM with a collation is not part of the language", node)
    return _called(e, name, [node.this] if node.expression is None else [node.this, node.expression], node)


def _given(node: exp.Expr, *names: str) -> list[exp.Expr]:
    return [node.args[name] for name in names if node.args.get(name) is not None]


def _overlay(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return _called(e, "overlay", _given(node, "this", "expression", "from_", "for_"), node)


def _regexp(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return _called(e, "regexp_like", [node.this, node.expression], node)


def _ilike(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    found = _liked(e, node.this, node.expression, None, True, node)
    return Not(found) if node.args.get("negate") else found


def _escape(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    like = node.this
    if not isinstance(like, (exp.Like, exp.ILike)):
        raise e.fail("ESCAPE stands behind LIKE", node)
    found = _liked(e, like.this, like.expression, node.expression, isinstance(like, exp.ILike), node)
    return Not(found) if like.args.get("negate") else found


def _liked(
    e: Expressions, text: exp.Expr, pattern: exp.Expr, escape: exp.Expr | None, ignores_case: bool, node: exp.Expr
) -> Expression:
    """LIKE with another escape character, or of both sides in lower case: the pattern is a constant of the text."""
    if escape is None and not ignores_case:
        return like(e, text, pattern, node)
    wanted = e.lower(pattern, STRING)
    if not isinstance(wanted, Literal) or not isinstance(wanted.value, str):
        what = "ILIKE" if ignores_case else "LIKE with ESCAPE"
        raise e.fail(f"the pattern of {what} must be a quoted text", pattern, "write ILIKE 'a%'")
    words = wanted.value
    if escape is not None:
        mark = e.lower(escape, STRING)
        if not isinstance(mark, Literal) or not isinstance(mark.value, str) or len(mark.value) != 1:
            raise e.fail("the escape character is one quoted character", escape, "write '!'")
        escaped = _escaped(words, mark.value)
        if escaped is None:
            raise e.fail(f"'{mark.value}' stands before %, _ or itself only", pattern, "double it")
        words = escaped
    arg = _called(e, "lower", [text], node) if ignores_case else text_operand(e, text, "LIKE", node)
    return fold_one(Like(arg, Literal(words.lower() if ignores_case else words, STRING)))


def _escaped(pattern: str, mark: str) -> str | None:
    """A pattern with the backslash as its escape character."""
    out, at = [], 0
    while at < len(pattern):
        c = pattern[at]
        at += 1
        if c == mark:
            following = pattern[at : at + 1]
            if not following or following not in ("%", "_", mark):
                return None
            out.append("\\" + following if following in "%_\\" else following)
            at += 1
        else:
            out.append("\\\\" if c == "\\" else c)
    return "".join(out)


def _whole_division(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    sides = [e.typed(side, BIGINT) for side in (node.this, node.expression)]
    for side in sides:
        if not side.type.is_numeric or side.type.kind is Kind.DOUBLE:
            raise e.fail(
                f"DIV takes whole numbers and decimals, got {types.described(side)}", node, "CAST it to bigint"
            )
    return _called(e, "div", sides, node)


def _bits(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    for side in (node.this, node.expression):
        if isinstance(side, _ONE_LEVEL) and type(side) is not type(node):
            raise e.fail("operators on bits rank differently from one another", node, "write parentheses")
    name = _BITS.get(type(node)) or _SHIFTS[type(node)]
    return _called(e, name, [node.this, node.expression], node)


def _bit_not(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return _called(e, "bitnot", [node.this], node)


def _null_safe(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    """a <=> b: written out where both sides are plain, so that an index can use it."""
    left, right = aligned(e, node.this, node.expression)
    found: Expression
    if all(isinstance(side, (ColumnRef, Literal, Param)) for side in (left, right)):
        equal = nodes.Comparison("=", left, right)
        known = [fold_one(Not(fold_one(IsNull(side)))) for side in (left, right)]
        both = nodes.conjunction([fold_one(IsNull(side)) for side in (left, right)])
        found = fold_one(nodes.disjunction([fold_one(nodes.And((*known, fold_one(equal)))), fold_one(both)]))
    else:
        found = fold_one(Call("equal_null", (left, right), BOOLEAN))
    return Not(found) if isinstance(node, exp.NullSafeNEQ) else found


def _current_timestamp(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    if node.this is not None:
        raise e.fail("current_timestamp() takes no arguments", node)
    return NOW


def _current_date(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    return Cast(NOW, DATE)


FORMS: dict[str, Form] = {
    "mod": _operator("%"),
    **{f"try_{name}": _operator(op) for name, op in (("add", "+"), ("subtract", "-"), ("multiply", "*"))},
    "try_divide": _operator("/"),
    "try_mod": _operator("%"),
    "negative": _negative,
    "positive": _positive,
    "isnull": _null_test(False),
    "isnotnull": _null_test(True),
    "nvl2": _nvl2,
    "zeroifnull": _zero("coalesce"),
    "nullifzero": _zero("nullif"),
    "decode": _decode,
    "log": _log,
    "pi": _constant(3.141592653589793),
    "e": _constant(2.718281828459045),
    **dict.fromkeys(("now", "current_timestamp"), _now),
    **dict.fromkeys(("current_date", "curdate"), _today),
    **{name: _cast_to(name) for name in _CAST_NAMES},
    **dict.fromkeys(("to_date", "try_to_date"), _read_time(DATE)),
    **dict.fromkeys(("to_timestamp", "try_to_timestamp", "to_timestamp_ltz"), _read_time(TIMESTAMP)),
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp"), _unix_timestamp),
    "from_unixtime": _from_unixtime,
    **dict.fromkeys(("to_char", "to_varchar"), _to_char),
    "typeof": _typeof,
    **dict.fromkeys(("date_add", "dateadd"), _by_count("date_add", "timestampadd")),
    **dict.fromkeys(("date_diff", "datediff"), _by_count("datediff", "timestampdiff")),
    **dict.fromkeys(("date_part", "datepart"), _date_part),
    "make_interval": _make_interval,
    "ltrim": _swapped("ltrim"),
    "rtrim": _swapped("rtrim"),
    "like": _like_form(False),
    "ilike": _like_form(True),
}

SYNTAX: Methods = {
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Overlay: _overlay,
    exp.RegexpLike: _regexp,
    exp.ILike: _ilike,
    exp.Escape: _escape,
    exp.IntDiv: _whole_division,
    **dict.fromkeys((*_BITS, *_SHIFTS), _bits),
    exp.BitwiseNot: _bit_not,
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _null_safe),
    exp.CurrentTimestamp: _current_timestamp,
    exp.CurrentDate: _current_date,
}
