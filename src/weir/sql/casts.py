"""CAST: `cast`. A constant is cast here and now, so a quoted one must be readable as what it becomes."""

from __future__ import annotations

from sqlglot import exp

from weir.algebra.fold import fold
from weir.algebra.nodes import Cast, Expression, Literal
from weir.algebra.schema import BIGINT, BOOLEAN, STRING, DataType, Kind
from weir.sql import literals, types
from weir.sql.expressions import Expressions, Methods

_TRUE_WORDS, _FALSE_WORDS = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_BEYOND_NUMBERS = ("nan", "inf", "infinity", "-inf", "-infinity")


def _cast(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    to = node.args["to"]
    assert isinstance(to, exp.DataType)
    return cast(e, node.this, types.named(to.this.name, [p.name for p in to.expressions]), node)


def cast(e: Expressions, node: exp.Expr, wanted: DataType, at: exp.Expr) -> Expression:
    """`CAST(node AS wanted)`."""
    arg = e.lower(node, None)
    if types.is_open(arg):
        return types.with_type(arg, wanted)
    if isinstance(arg, Literal) and isinstance(arg.value, str):
        return _text_as(e, arg.value, wanted, at)
    types.check_cast(arg, wanted)
    if isinstance(arg, Literal):
        return fold(Cast(arg, wanted))
    return arg if arg.type == wanted else Cast(arg, wanted)


def _text_as(e: Expressions, text: str, wanted: DataType, at: exp.Expr) -> Expression:
    """A quoted constant that is cast."""
    if wanted.kind is Kind.STRING:
        return Literal(text, STRING)
    if wanted.kind in types.TIMES:
        moment = types.fit(Literal(text, STRING), wanted)
        return Literal(moment.value, wanted) if isinstance(moment, Literal) else moment
    word = text.strip().lower()
    if wanted.kind is Kind.BOOLEAN and word in (*_TRUE_WORDS, *_FALSE_WORDS):
        return Literal(word in _TRUE_WORDS, BOOLEAN)
    if wanted.kind is Kind.DOUBLE and word in _BEYOND_NUMBERS:
        return Literal(float(word), wanted)
    constant = literals.number(text.strip()) if wanted.is_numeric else None
    if constant is None or (wanted.kind in types.WHOLE and constant.type != BIGINT):
        raise e.fail(f"'{text[:40]}' is no {wanted}", at, "write the constant without CAST")
    return fold(Cast(constant, wanted))


CASTS: Methods = {exp.Cast: _cast, exp.TryCast: _cast}
