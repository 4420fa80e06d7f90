"""Which family runs a query: the first of FAMILIES that takes it; why the earlier ones did not is kept.

A family takes all queries of one form (selections over one stream, joins of two streams, …). `classify` knows no
family by name: each says itself what it refuses and why. What no family takes is refused here, in the words of the
part that stands in the way, and so is a window that its stream cannot fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from weir.algebra.nodes import Distinct, GroupBy, Join, Node, Project, Query, Scan, Select, SetOperation
from weir.algebra.schema import Catalog
from weir.errors import RegisterError
from weir.families.registry import FAMILIES
from weir.plan.windows import check_window
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.sql.position import keyword_start, start_of
from weir.sql.position import refuse as refusal_at

_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_EXECUTED = (
    "selections over one stream and joins of up to six can: "
    "SELECT … FROM a WHERE …, SELECT … FROM a JOIN b ON a.x = b.y WHERE …"
)


@dataclass(frozen=True, slots=True)
class Classified:
    """The family that runs a query ("" when none does) and why earlier ones refused it."""

    family: str
    refusals: tuple[tuple[str, str], ...]  # (family, reason)


def classify(query: Query, catalog: Catalog, settings: Settings, *, refuse: bool = True) -> Classified:
    """The first family that takes the query; RegisterError, unless told otherwise, if there is none."""
    refusals: list[tuple[str, str]] = []
    family = ""
    for candidate in FAMILIES:
        reason = candidate.refusal(query, catalog)
        if reason is None:
            family = candidate.name
            break
        refusals.append((candidate.name, reason))
    if refuse:
        if not family:
            raise refused(query, refusals)
        check_windows(query, catalog, settings)
    return Classified(family, tuple(refusals))


def check_windows(query: Query, catalog: Catalog, settings: Settings) -> None:
    """RegisterError unless every stream can fill its window; windows with parameters are checked with their values."""
    for scan in query.sources:
        if scan.is_table:
            continue
        stream = catalog.streams[scan.relation.lower()]
        try:
            check_window(scan.window, stream)
        except RegisterError:
            # Only now is it worth finding out where the window stands.
            parsed = parse(query.text, settings)
            check_window(scan.window, stream, text=query.text, start=_window_start(parsed, scan))
            raise


def part_of(query: Query) -> tuple[str, tuple[str, ...]]:
    """What makes a query more than a selection, in words, and the keywords to look for in its text."""
    node: Node = query.root
    if isinstance(node, SetOperation):
        return f"{node.kind.upper()}{' ALL' if node.all else ''}", (node.kind.upper(), "MINUS")
    if isinstance(node, Distinct):
        return "DISTINCT", ("DISTINCT",)
    if isinstance(node, GroupBy):
        return ("GROUP BY", ("GROUP BY",)) if node.keys else ("an aggregate over all rows", _AGGREGATES)
    assert isinstance(node, Project)
    child = node.child.child if isinstance(node.child, Select) else node.child
    if isinstance(child, Join):
        names = ", ".join(f"'{s.relation}'" for s in query.sources)
        return f"a join of {len(query.sources)} sources ({names})", ("FROM",)
    assert isinstance(child, Scan)
    if child.is_table:
        return f"a query of the table '{child.relation}' alone", ("FROM",)
    return f"this query of '{child.relation}'", ("SELECT",)


def refused(query: Query, refusals: Sequence[tuple[str, str]]) -> RegisterError:
    """What is said of a query that no family takes."""
    part, keywords = part_of(query)
    by_reason: dict[str, list[str]] = {}
    for family, reason in refusals:
        by_reason.setdefault(reason, []).append(family)
    reasons = "; ".join(f"{', '.join(families)}: {reason}" for reason, families in by_reason.items())
    message = f"{part} cannot be executed yet ({reasons or 'no family is installed'})"
    return refusal_at(query.text, message, keyword_start(query.text, keywords), _EXECUTED)


def _window_start(parsed: Parsed, scan: Scan) -> int | None:
    tables = sorted(parsed.ast.find_all(exp.Table), key=lambda t: start_of(t) or 0)
    own = parsed.window_of(tables[scan.source]) if scan.source < len(tables) else None
    clause = own or parsed.window
    return None if clause is None else clause.start
