"""Names in expressions → columns, names of the select list, edges of windows, and parts of payloads.

`a.b` may be the column b of a source a, the field b of a column a, or an edge of a window; `sql/scope` says which of
them there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from weir.algebra.nodes import Expression
from weir.algebra.schema import DataType
from weir.sql import payloads
from weir.sql.expressions import Expressions, Methods
from weir.sql.stretches import STRETCHES


def _column(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        raise e.refused(node.this)
    if node.args.get("join_mark"):
        raise e.fail(f"'{node.name}' has too many qualifiers", node, "write alias.column")
    if node.args.get("db") is not None:
        return _path(e, [part.name for part in node.parts])
    name, qualifier = node.name, node.table or None
    if e.stretch is not None and (qualifier or name).lower() == e.stretch.word:
        return e.stretch.part(name if qualifier else "")
    named = qualifier is None and name.lower() in e.aliases
    if named and (e.aliases_first or not e.scope.has(name)):
        return e.aliases[name.lower()]
    if qualifier is None or e.scope.is_source_of(qualifier, name) or not e.scope.has(qualifier):
        return e.scope.resolve(name, qualifier)
    return payloads.field(e.scope.resolve(qualifier), name)


def _path(e: Expressions, names: Sequence[str]) -> Expression:
    """`alias.column.field.field` or `column.field.field`."""
    is_field = e.scope.has(names[0]) and not e.scope.is_source_of(names[0], names[1])
    found: Expression = e.scope.resolve(names[0]) if is_field else e.scope.resolve(names[1], names[0])
    for name in names[1 if is_field else 2 :]:
        found = payloads.field(found, name)
    return found


def _dot(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() in STRETCHES:
        return _of_window(e, node, node.this)
    return payloads.field(e.lower(node.this), node.expression.name)


def _of_window(e: Expressions, node: exp.Expr, call: exp.Anonymous) -> Expression:
    """window(…).start"""
    if e.stretch is None or call.name.lower() != e.stretch.word:
        raise e.refused(node)
    return e.stretch.part(node.expression.name)


def _bracket(e: Expressions, node: exp.Expr, _: DataType | None) -> Expression:
    assert isinstance(node, exp.Bracket)
    return payloads.element(e.lower(node.this), e.lower(payloads.index_of(node)))


NAMES: Methods = {exp.Column: _column, exp.Dot: _dot, exp.Bracket: _bracket}
