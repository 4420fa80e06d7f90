"""Move NOT down to what it negates.

    NOT (a < 1 AND b = 2)  →  a >= 1 OR b <> 2        NOT NOT x  →  x

Right in three-valued logic (De Morgan holds, and a comparison and its opposite are unknown together) and for
NaN, which is ordered like any other number. NOT stays before LIKE, IS NULL, columns and parameters, and in group-bys,
whose columns must go on containing their keys.
"""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.nodes import And, Comparison, Expression, Not, Or, Query, conjunction, disjunction
from weir.algebra.rebuild import map_row_expressions, rebuild

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def push_negations(query: Query) -> Query:
    """No NOT above a comparison, AND, OR or another NOT."""
    return replace(query, root=map_row_expressions(query.root, lambda e: rebuild(e, _push)))


def _push(e: Expression) -> Expression:
    """Operands come first, so below a NOT everything is in place already."""
    return _negated(e.arg) if isinstance(e, Not) else e


def _negated(e: Expression) -> Expression:
    if isinstance(e, Not):
        return e.arg
    if isinstance(e, Comparison):
        return replace(e, op=_OPPOSITE[e.op])
    if isinstance(e, And):
        return disjunction([_negated(a) for a in e.args])
    if isinstance(e, Or):
        return conjunction([_negated(a) for a in e.args])
    return Not(e)
