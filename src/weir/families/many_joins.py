"""Joins of three to six streams: connected by equalities, answered from the kept rows when they are asked for.

Nothing is matched while rows arrive. Of PSoup's choice between no, partial and complete materialisation these queries
get the first: their answer at τ is evaluated over the windows' rows at every fetch (`weir.answer.recompute`), so they
cost nothing in a batch, and their results do not reach a sink. Any condition, windows and projection; equalities
must connect all sources, because the others only filter what those let through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.algebra.format import expression_text
from weir.algebra.nodes import Comparison, Expression, Join, Project, Query, Scan
from weir.algebra.schema import Catalog, Stream
from weir.families import selection
from weir.families.attributes import sources_of
from weir.families.joins import terms_of

__all__ = ["SOURCES_MAX", "describe", "name", "refusal"]

name = "many-join"

SOURCES_MAX = 6


def refusal(query: Query, catalog: Catalog) -> str | None:
    """Why a query is no join of three to six streams that equalities connect; None if it is one."""
    root = query.root
    if not isinstance(root, Project):
        return selection.refusal(query, catalog)
    join = root.child
    if not isinstance(join, Join) or len(join.children) < 3:
        return "it reads fewer than three sources"
    if len(join.children) > SOURCES_MAX:
        return f"it joins {len(join.children)} sources, at most {SOURCES_MAX} are joined"
    for scan in join.children:
        assert isinstance(scan, Scan)
        if scan.is_table or scan.relation.lower() not in catalog.streams:
            return f"'{scan.relation}' is not a stream"
    names = {scan.source: scan.alias for scan in query.sources}
    reached = {min(names)}
    edges = [frozenset().union(*map(sources_of, (e.left, e.right))) for e in _equalities(join)]
    while grown := {s for edge in edges if edge & reached for s in edge} - reached:
        reached |= grown
    if len(reached) < len(names):
        apart = ", ".join(alias for source, alias in names.items() if source not in reached)
        return f"no equality connects {apart} with {', '.join(names[s] for s in sorted(reached))}"
    return None


def _equalities(join: Join) -> list[Comparison]:
    """The equalities of two sources that always hold."""
    found = []
    for term in () if join.predicate is None else terms_of(join.predicate, True):
        if isinstance(term, Comparison) and term.op == "=":
            left, right = sources_of(term.left), sources_of(term.right)
            if len(left) == len(right) == 1 and left != right:
                found.append(term)
    return found


def describe(query: Query, constants: Mapping[str, object] | None, streams: Sequence[Stream]) -> dict[str, object]:
    """For `explain`: what connects the sources."""
    assert isinstance(query.root, Project)
    assert isinstance(query.root.child, Join)
    names = {scan.source: scan.alias for scan in query.sources}
    equalities: list[Expression] = list(_equalities(query.root.child))
    return {"join keys": ", ".join(expression_text(e, names) for e in equalities)}
