"""The select list: the columns of an answer, by name and value.

Output names are unique: a name that nobody chose is counted on where it is taken. An alias may be used by the items
behind it, and by the clauses that stand behind the list.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from weir.algebra import nodes
from weir.algebra.nodes import Aggregate, ColumnRef, Expression
from weir.algebra.schema import Kind
from weir.errors import did_you_mean
from weir.sql.expressions import Expressions
from weir.sql.generators import generator, is_generator
from weir.sql.scope import NameFaultError


def select_list(e: Expressions, node: exp.Select) -> list[tuple[str, Expression]]:
    """The columns that a SELECT lists."""
    if not node.expressions:
        raise e.fail("SELECT lists no columns", node, "write SELECT *")
    listed: list[tuple[str, Expression, bool]] = []  # name, value, whether the name was chosen
    for item in node.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            listed += [(name, value, False) for name, value in _starred(e, item)]
            continue
        if isinstance(item, exp.Aliases):
            raise e.fail("several aliases for one expression", item, "give each expression one alias")
        inner = item.this if isinstance(item, exp.Alias) else item
        e.aliases = {name.lower(): value for name, value, chosen in listed if chosen}
        value = generator(e, inner) or e.value(inner)
        if value.type.kind is Kind.INTERVAL:
            raise e.fail(
                "an interval cannot be a column of the answer", inner, "return both times and subtract them later"
            )
        alias = item.alias if isinstance(item, exp.Alias) else ""
        if alias and any(chosen and alias.lower() == name.lower() for name, _, chosen in listed):
            raise e.fail(f"two columns of the answer are called '{alias}'", item.args["alias"], "rename one")
        own = e.stretch.word if e.stretch is not None and value == e.stretch.whole else _own_name(value, len(listed))
        if is_generator(value):
            own = "col"
            if any(is_generator(other) for _, other, _ in listed):
                raise e.fail("a SELECT has one explode()", inner, "put the other one into a query in FROM")
        listed.append((alias or own, value, bool(alias)))
    e.aliases = {}
    return _unique(listed)


def _starred(e: Expressions, item: exp.Expr) -> list[tuple[str, Expression]]:
    """What * or alias.* stands for."""
    star = item if isinstance(item, exp.Star) else item.this
    e.only(star, {"except_"})
    found: list[tuple[str, Expression]]
    if isinstance(item, exp.Star):
        if not e.scope.sources:
            raise e.fail("* needs FROM", item, "name a stream")
        found = e.scope.star()
    else:
        try:
            source = e.scope.source(item.args["table"].name)
        except NameFaultError as wrong:
            raise e.fail(str(wrong), item, wrong.hint) from None
        found = e.scope.star_of(source)
    for name in star.args.get("except_") or ():
        found = _left_out(e, name, found)
    if not found:
        raise e.fail("* EXCEPT leaves out all columns", item)
    return found


def _left_out(e: Expressions, name: exp.Expr, found: list[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """The columns of * without one that EXCEPT names."""
    kept = [(n, value) for n, value in found if n.lower() != name.name.lower()]
    if len(kept) == len(found) or (isinstance(name, exp.Column) and name.table):
        known = [n for n, _ in found]
        hint = did_you_mean(name.name, known) or f"columns: {', '.join(known[:40])}"
        raise e.fail(f"* EXCEPT names '{name.name}', which is no column of *", name, hint)
    if len(kept) < len(found) - 1:
        raise e.fail(f"* EXCEPT: column '{name.name}' is ambiguous", name)
    return kept


def _own_name(e: Expression, place: int) -> str:
    """The name of a column without an alias; it may not depend on constants, or shapes would."""
    if isinstance(e, (ColumnRef, nodes.Field)):
        return e.name
    if isinstance(e, Aggregate) and e.filter is None:
        if not e.args:
            return "count(*)"
        if len(e.args) == 1 and isinstance(e.args[0], ColumnRef):
            return f"{e.function}({'DISTINCT ' if e.distinct else ''}{e.args[0].name})"
    return f"_c{place}"


def _unique(listed: Sequence[tuple[str, Expression, bool]]) -> list[tuple[str, Expression]]:
    """Columns with names of their own: a name that nobody chose becomes `name_2`, `name_3`, … where it is taken."""
    taken = {name.lower() for name, _, chosen in listed if chosen}
    columns: list[tuple[str, Expression]] = []
    for name, e, chosen in listed:
        free, n = name, 1
        while not chosen and free.lower() in taken:
            n += 1
            free = f"{name}_{n}"
        taken.add(free.lower())
        columns.append((free, e))
    return columns
