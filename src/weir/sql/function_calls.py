"""Functions as they are called by name, `||`, and CASE.

Most names have one signature each (`algebra/functions`). Here are those of which it takes more to say what is called:
names that texts and arrays share, functions of payloads, aggregates, and the word of a window.
"""

from __future__ import annotations

from sqlglot import exp

from weir.algebra.aggregates import AGGREGATE_NAMES
from weir.algebra.array_functions import BOTH, GENERATORS
from weir.algebra.functions import NAMED, SIGNATURES
from weir.algebra.nodes import Call, ColumnRef, Comparison, Expression, Field, Literal
from weir.algebra.schema import BIGINT, STRING, DataType, Kind
from weir.sql import payloads
from weir.sql.arguments import Argument, call
from weir.sql.conditions import compare
from weir.sql.expressions import Expressions, Methods
from weir.sql.forms import FORMS
from weir.sql.grouping_sets import GROUPING, grouping_call
from weir.sql.row_sets import aggregate

_RANKED_WITH_TEXTS = (exp.Add, exp.Sub, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)


def _function(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    name = node.name.lower()
    if name in payloads.OTHERS:
        return payloads.other(name, [e.value(arg) for arg in node.expressions])
    if e.stretch is not None and name == e.stretch.word:
        return e.stretch.whole
    if name in GENERATORS:
        raise e.fail(f"{name}() stands alone in a select list", node, "put it into a query in FROM")
    if name in GROUPING:
        return grouping_call(e, node)
    if name in BOTH and node.expressions:
        return _text_or_array(e, node, wanted)
    if name == "struct":
        return _struct(e, node)
    if name == "concat_ws":
        return _joined_with(e, node, wanted)
    form, signature = FORMS.get(name), NAMED.get(name)
    if form is not None:
        return form(e, node.expressions, node, wanted)
    if signature is None and name in AGGREGATE_NAMES:
        return aggregate(e, node)
    if signature is None:
        raise e.refused(node)
    return call(e, signature, node.expressions, node, wanted)


def _text_or_array(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    """reverse and concat take texts or arrays."""
    name = node.name.lower()
    first = e.lower(node.expressions[0], STRING)
    if first.type.kind is Kind.PAYLOAD:
        return call(e, SIGNATURES[BOTH[name]], [first, *node.expressions[1:]], node, None)
    return call(e, SIGNATURES[name], node.expressions, node, wanted)


def _joined_with(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    """concat_ws takes texts, and arrays of texts, whose elements stand for themselves."""
    args: list[Argument] = list(node.expressions)
    for place, part in enumerate(node.expressions):
        array = e.lower(part, STRING) if place else None
        if array is None or array.type.variant != "array":
            continue
        joined = call(e, SIGNATURES["array_join"], [array, node.expressions[0]], node, None)
        known = call(e, SIGNATURES["array_compact"], [array], node, None)
        count = call(e, SIGNATURES["array_size"], [known], node, None)
        some = Comparison(">", count, Literal(0, BIGINT))
        args[place] = Call("case", (some, joined, Literal(None, STRING)), STRING)
    return call(e, SIGNATURES["concat_ws"], args, node, wanted)


def _struct(e: Expressions, node: exp.Expr) -> Expression:
    """struct(a, x AS b, c + 1) is named_struct('a', a, 'b', x, 'col3', c + 1)."""
    if not node.expressions:
        raise e.fail("struct() takes 1 or more arguments, got 0", node)
    args: list[Expression] = []
    for place, part in enumerate(node.expressions):
        value = e.value(part.this if isinstance(part, exp.Alias) else part)
        own = value.name if isinstance(value, (ColumnRef, Field)) else f"col{place + 1}"
        args += [Literal(part.alias if isinstance(part, exp.Alias) else own, STRING), value]
    return call(e, SIGNATURES["named_struct"], args, node, None)


def _joined_texts(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    """`a || b || c`; sqlglot nests it to the left."""
    parts: list[exp.Expr] = []
    part: exp.Expr = node
    while isinstance(part, exp.DPipe):
        for side in (part.expression, part.this):
            if isinstance(side, _RANKED_WITH_TEXTS):
                raise e.fail("|| and other operators rank differently elsewhere", side, "write parentheses")
        parts.append(part.expression)
        part = part.this
    return call(e, SIGNATURES["concat"], [part, *reversed(parts)], node, None)


def _if(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    if node.args.get("false") is None:
        raise e.fail("if() takes 3 arguments", node, "write if(condition, value, otherwise)")
    return call(e, SIGNATURES["case"], [node.this, node.args["true"], node.args["false"]], node, wanted)


def _case(e: Expressions, node: exp.Expr, wanted: DataType | None) -> Expression:
    """Both forms; in CASE x WHEN a THEN …, x is compared with each a, and written out once for each."""
    args: list[Argument] = []
    if node.this is not None and node.this.find(exp.Case, exp.If) is not None:
        # An x with a CASE in it would multiply; it is one operand of a function of its own.
        args.append(node.this)
        for way in node.args["ifs"]:
            args += [way.this, way.args["true"]]
        return call(e, SIGNATURES["case_of"], [*args, node.args.get("default")], node, wanted)
    for way in node.args["ifs"]:
        args.append(way.this if node.this is None else compare(e, "=", node.this, way.this))
        args.append(way.args["true"])
    return call(e, SIGNATURES["case"], [*args, node.args.get("default")], node, wanted)


FUNCTION_CALLS: Methods = {exp.Anonymous: _function, exp.DPipe: _joined_texts, exp.If: _if, exp.Case: _case}
