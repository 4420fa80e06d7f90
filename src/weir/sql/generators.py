"""explode(array): a row for each element, in a select list or as LATERAL VIEW."""

from __future__ import annotations

from sqlglot import exp

from weir.algebra.array_functions import GENERATORS
from weir.algebra.functions import SIGNATURES
from weir.algebra.nodes import Call, Expression
from weir.sql.expressions import Expressions


def generator(expressions: Expressions, node: exp.Expr) -> Expression | None:
    """The call that stands alone in a select list; None if it is none of these."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in GENERATORS:
        return None
    name = node.name.lower()
    if len(node.expressions) != 1:
        raise expressions.fail(f"{name}() takes 1 argument, got {len(node.expressions)}", node)
    arg = expressions.value(node.expressions[0])
    if arg.type.variant != "array":
        raise expressions.fail(f"{name}() takes an array, got {arg.type}", node)
    return Call(name, (arg,), SIGNATURES[name].type_of([arg]))


def is_generator(e: Expression) -> bool:
    return isinstance(e, Call) and e.function in GENERATORS
