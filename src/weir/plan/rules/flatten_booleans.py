"""Lay AND and OR flat, once each term, without the constants that decide nothing.

    a AND (b AND a) AND TRUE  →  a AND b        a OR TRUE  →  TRUE        a AND FALSE  →  FALSE

TRUE decides an OR and FALSE an AND whatever the rest is, NULL included; NULL decides nothing and stays.
"""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.nodes import And, Expression, Literal, Or, Query, conjunction, disjunction
from weir.algebra.rebuild import map_row_expressions, rebuild
from weir.algebra.schema import BOOLEAN


def flatten_booleans(query: Query) -> Query:
    """No AND directly below an AND, no OR below an OR, no term twice."""
    return replace(query, root=map_row_expressions(query.root, lambda e: rebuild(e, _flatten)))


def _flatten(e: Expression) -> Expression:
    if not isinstance(e, (And, Or)):
        return e
    deciding = isinstance(e, Or)
    flat = conjunction(e.args) if isinstance(e, And) else disjunction(e.args)
    assert isinstance(flat, (And, Or))
    terms = list(dict.fromkeys(flat.args))
    if any(_is(t, deciding) for t in terms):
        return Literal(deciding, BOOLEAN)
    rest = [t for t in terms if not _is(t, not deciding)]
    if not rest:
        return Literal(not deciding, BOOLEAN)
    return conjunction(rest) if isinstance(e, And) else disjunction(rest)


def _is(e: Expression, truth: bool) -> bool:
    return isinstance(e, Literal) and e.value is truth
