"""Which families run a query: the first form that takes a core runs it, and the reasons of earlier ones are kept.

`classify` knows no form by name: each says itself what it refuses and why. A query is refused here if no form takes one
of its cores, or if no finish can do the rest; the message names the part that stands in the way. So is a window that
its stream cannot fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from weir.algebra.nodes import (
    NOW,
    Expression,
    GroupBy,
    Join,
    Node,
    Project,
    Query,
    Scan,
    Select,
    SetOperation,
    walk,
)
from weir.algebra.rebuild import inputs, map_expressions, scans
from weir.algebra.schema import Catalog
from weir.errors import RegisterError
from weir.families.contract import Seen
from weir.families.forms import FORMS, take
from weir.plan.cores import Cores, NoFinishError, cores_of
from weir.plan.window_limits import check_window
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.sql.position import keyword_start, start_of
from weir.sql.position import refuse as refusal_at

_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_TIMED = (
    "current_timestamp() changes with every answer, and rows are matched as they come; "
    "write a window, as BEGIN NOW - INTERVAL 5 MINUTES END NOW"
)
_EXECUTED = (
    "selections over one stream and joins of up to six can, DISTINCT and UNION of them too: "
    "SELECT … FROM a WHERE …, SELECT … FROM a JOIN b ON a.x = b.y WHERE …"
)


@dataclass(frozen=True)
class Classified:
    """A query's cores and finish, how each core is seen by the form that runs it, and why earlier forms refused."""

    parts: Cores | None  # None: no finish does what it asks for
    seen: tuple[Seen, ...]  # by core, if all of them are taken
    forms: tuple[str, ...]  # by core, the name of its form
    refusals: tuple[tuple[str, str], ...]  # (form, reason)

    @property
    def family(self) -> str:
        """The forms that run it, for people; "" when it cannot be run."""
        return ", ".join(dict.fromkeys(self.forms))


def classify(query: Query, catalog: Catalog, settings: Settings, *, refuse: bool = True) -> Classified:
    """How the query is run; RegisterError if it cannot be, unless `refuse` is false."""
    found = _classified(query, catalog)
    if refuse:
        if not found.seen:
            raise refused(query, found.refusals)
        check_windows(query, catalog, settings)
    return found


def _classified(query: Query, catalog: Catalog) -> Classified:
    try:
        parts = cores_of(query)
    except NoFinishError as missing:
        return Classified(None, (), (), tuple((form.name, str(missing)) for form in FORMS))
    if any(_asks_the_time(core.root) for core in parts.cores):
        return Classified(parts, (), (), tuple((form.name, _TIMED) for form in FORMS))
    taken = [take(core, catalog) for core in parts.cores]
    refusals = tuple(dict.fromkeys(pair for one in taken for pair in one.refusals))
    seen = tuple(one.seen for one in taken if one.seen is not None)
    if len(seen) < len(taken):
        return Classified(parts, (), (), next(one.refusals for one in taken if one.seen is None))
    return Classified(parts, seen, tuple(one.form for one in taken), refusals)


def _asks_the_time(root: Node) -> bool:
    found: list[Expression] = []

    def look(e: Expression) -> Expression:
        found.extend(part for part in walk(e) if part == NOW)
        return e

    map_expressions(root, look)
    return bool(found)


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
    """What stands in the way of a query, in words, and the keywords to look for in its text."""
    node = _obstacle(query.root) or query.root
    if isinstance(node, SetOperation):
        return f"{node.kind.upper()}{' ALL' if node.all else ''}", (node.kind.upper(), "MINUS")
    if isinstance(node, GroupBy):
        return ("GROUP BY", ("GROUP BY",)) if node.keys else ("an aggregate over all rows", _AGGREGATES)
    assert isinstance(node, Project)
    child = node.child.child if isinstance(node.child, Select) else node.child
    if isinstance(child, Join):
        names = ", ".join(f"'{s.relation}'" for s in scans(child))
        return f"a join of {len(child.children)} sources ({names})", ("FROM",)
    assert isinstance(child, Scan)
    if child.is_table:
        return f"a query of the table '{child.relation}' alone", ("FROM",)
    return f"this query of '{child.relation}'", ("SELECT",)


def _obstacle(node: Node) -> Node | None:
    """The first part below that may be what cannot be executed; None if there are only selections over streams."""
    if isinstance(node, GroupBy) or (isinstance(node, SetOperation) and node.kind != "union"):
        return node
    if isinstance(node, Project):
        return node if any(scan.is_table for scan in scans(node)) or isinstance(node.child, Join) else None
    return next((found for child in inputs(node) if (found := _obstacle(child)) is not None), None)


def refused(query: Query, refusals: Sequence[tuple[str, str]]) -> RegisterError:
    """The error for a query that no family takes."""
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
