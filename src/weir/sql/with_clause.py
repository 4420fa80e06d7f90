"""WITH: names for queries. The text behind a name may use the names before it, and is lowered wherever it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from weir.sql.expressions import Expressions
from weir.sql.scope import Scope


@dataclass(frozen=True)
class Named:
    """What a name of WITH stands for, and the names that its text may use."""

    query: exp.Expr
    names: Mapping[str, Named]
    columns: tuple[exp.Identifier, ...]
    outer: Scope | None  # of the query around a subquery that has the WITH


def names_of(e: Expressions, node: exp.Expr, known: Mapping[str, Named], outer: Scope | None) -> Mapping[str, Named]:
    """The names that a statement may use, which are its own and those known before it."""
    clause = node.args.get("with_")
    if clause is None:
        return known
    if clause.args.get("recursive"):
        raise e.fail("WITH RECURSIVE is not part of the language", clause, "write the steps out")
    for one in clause.expressions:
        e.only(one, {"this", "alias"})
        alias = one.args["alias"]
        e.only(alias, {"this", "columns"})
        named = Named(one.this, known, tuple(alias.args.get("columns") or ()), outer)
        known = {**known, alias.name.lower(): named}
    return known
