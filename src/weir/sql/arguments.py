"""Arguments of functions, and the calls that they make: `call`.

A signature says what each argument is taken as. Arguments without a type get the one that is taken, constants are read
as it, values that a function compares or chooses from are brought to one type; whatever does not fit is refused by
the function's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from weir.algebra.fold import fold_one
from weir.algebra.nodes import Call, Cast, Expression, Literal, Param
from weir.algebra.schema import BIGINT, DATE, DOUBLE, INT, NULL, STRING, TIMESTAMP, DataType, Kind
from weir.algebra.signatures import HASHED, LIKE_ELEMENTS, MET, MET_FIRST, OPERAND, TEXT, VALUE, Signature, Taken
from weir.sql import payloads, types
from weir.sql.expressions import Expressions, bare

Argument = exp.Expr | Expression | None  # of a call: still to be lowered, lowered, or left out

_SHOWN: dict[type[exp.Expr], str] = {exp.RegexpLike: "RLIKE", exp.DPipe: "||", exp.Extract: "EXTRACT"}
_INT32_MAX = 2**31 - 1


def call(
    e: Expressions, signature: Signature, given: Sequence[Argument], node: exp.Expr, wanted: DataType | None
) -> Expression:
    """A function of arguments, which are brought to the types that it takes."""
    takes = signature.takes.of(len(given))
    shown = f"{e.word(node)}()" if isinstance(node, exp.Anonymous) else _SHOWN.get(type(node), signature.shown)
    if takes is None:
        raise e.fail(f"{shown} takes {signature.takes.count_text}, got {len(given)}", node)
    args: list[Expression] = []
    for taken, arg in zip(takes, given, strict=True):
        value = _lowered(e, arg, taken, wanted)
        if taken is MET:
            met, value = types.align(args[-1], value)
            args[-1] = met if types.is_constant(met) else args[-1]
        elif taken is MET_FIRST:
            met, value = types.align(args[0], value)
            if met != args[0]:
                raise e.fail("CASE compares values of several types", node, "CAST what it compares")
        elif taken not in (VALUE, LIKE_ELEMENTS):
            value = _fitted(e, shown, taken, value, arg if isinstance(arg, exp.Expr) else node, wanted)
        args.append(value)
    places = [k for k, taken in enumerate(takes) if taken is VALUE]
    if places:
        for k, value in zip(places, _alike(e, [args[k] for k in places], wanted), strict=True):
            args[k] = value
    if OPERAND in takes:
        args = types.operands(args)
    args = list(payloads.adapted(signature.name, args))
    type_ = signature.type_of(args)
    made = Call(signature.name, tuple(args), type_.usual if type_.kind is Kind.STRING else type_)
    return _checked(e, signature, shown, made, takes, node)


def text_operand(e: Expressions, node: exp.Expr, name: str, at: exp.Expr) -> Expression:
    """An operand of `name` that must be a text."""
    return _fitted(e, name, TEXT, e.lower(node, STRING), at, STRING)


def _lowered(e: Expressions, arg: Argument, taken: Taken, wanted: DataType | None) -> Expression:
    if arg is None:  # CASE without ELSE
        return Literal(None, NULL)
    if not isinstance(arg, exp.Expr):
        return arg
    arg = bare(arg)
    if taken.word and isinstance(arg, (exp.Column, exp.Var)) and not arg.args.get("table"):
        return Literal(arg.name.lower(), STRING)
    # A bare parameter takes its type from the values beside it.
    beside = taken in (VALUE, MET, LIKE_ELEMENTS) and isinstance(arg, exp.Placeholder)
    return e.lower(arg, None if beside else taken.untyped or wanted)


def _fitted(
    e: Expressions, name: str, taken: Taken, arg: Expression, node: exp.Expr, wanted: DataType | None
) -> Expression:
    """An argument in the type that it is taken as."""
    if types.is_open(arg):
        arg = e.closed(arg, taken.untyped or wanted)
    elif taken.untyped in (TIMESTAMP, DATE) and types.is_constant(arg):
        arg = types.fit(arg, taken.untyped)
    into = taken.into or taken.untyped
    if into is not None and arg.type.kind in taken.cast and arg.type != into:
        types.check_cast(arg, into)
        arg = types.fit(arg, DOUBLE) if into == DOUBLE and types.is_constant(arg) else arg
        arg = arg if arg.type == into else fold_one(Cast(arg, into))
    if arg.type.kind is Kind.PAYLOAD and taken is HASHED:
        raise e.fail(f"{name} does not take {types.described(arg)}", node, types.TAKE_A_PART)
    if taken.kinds and arg.type.kind not in taken.kinds:
        raise e.fail(f"{name} takes {taken.words}, got {types.described(arg)}", node)
    if taken.fixed and not isinstance(arg, Literal):
        raise e.fail(f"{name} takes {taken.words} that stands in the query itself", node, "write the constant out")
    if taken.narrow and isinstance(arg, Literal) and arg.type == BIGINT and isinstance(arg.value, int):
        return Literal(arg.value, INT) if -_INT32_MAX - 1 <= arg.value <= _INT32_MAX else arg
    return arg


def _alike(e: Expressions, values: list[Expression], wanted: DataType | None) -> list[Expression]:
    """Values that a function compares or chooses from, in one type."""
    if all(types.is_open(v) for v in values):
        param = next((v for v in values if isinstance(v, Param)), None)
        if wanted is not None:
            return [types.with_type(v, types.slot_type(wanted)) for v in values]
        if param is not None:
            raise e.untyped(param.name)
    return types.alike(values)


def _checked(
    e: Expressions, signature: Signature, shown: str, made: Call, takes: Sequence[Taken], node: exp.Expr
) -> Expression:
    """A call whose fixed constants are in order; one of them that is NULL makes it NULL."""
    fixed = [arg.value for arg, taken in zip(made.args, takes, strict=True) if taken.fixed and isinstance(arg, Literal)]
    if any(value is None for value in fixed):
        return Literal(None, made.type)
    fault = signature.checked(fixed) if signature.checked is not None and fixed else ""
    if fault:
        raise e.fail(f"{shown} does not take '{str(fixed[0])[:60]}': {fault}", node)
    return made
