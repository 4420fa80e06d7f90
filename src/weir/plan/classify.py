"""Which families run a query: the first form that takes a core runs it, and the reasons of earlier ones are kept.

`classify` knows no form by name: each says itself what it refuses and why. A query is refused here if no form takes one
of its cores, or if no finish can do the rest; the message names the part that stands in the way. So is a window that
its stream cannot fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from weir.algebra.nodes import Query, Scan
from weir.algebra.schema import Catalog
from weir.errors import RegisterError
from weir.families.contract import Seen
from weir.families.forms import take
from weir.plan.cores import Cores, cores_of
from weir.plan.from_rows import NoFinishError
from weir.plan.window_limits import check_window
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.sql.position import keyword_start
from weir.sql.position import refuse as refusal_at

_EXECUTED = "docs/language.md says what is"


@dataclass(frozen=True)
class Classified:
    """A query's cores and finish, how each core is seen by the form that runs it, and why earlier forms refused."""

    parts: Cores | None  # None: no finish does what it asks for
    seen: tuple[Seen, ...]  # by core, if all of them are taken
    forms: tuple[str, ...]  # by core, the name of its form
    refusals: tuple[tuple[str, str], ...]  # (form, reason)

    @property
    def is_taken(self) -> bool:
        """Whether every core is taken; a query of tables alone has none."""
        return self.parts is not None and len(self.seen) == len(self.parts.cores)

    @property
    def family(self) -> str:
        """The forms that run it, for people; "" when it cannot be run."""
        return ", ".join(dict.fromkeys(self.forms))


def classify(query: Query, catalog: Catalog, settings: Settings, *, refuse: bool = True) -> Classified:
    """How the query is run; RegisterError if it cannot be, unless `refuse` is false."""
    found = _classified(query, catalog)
    if refuse:
        if not found.is_taken:
            raise refused(query, found.refusals)
        check_windows(query, catalog, settings)
    return found


def _classified(query: Query, catalog: Catalog) -> Classified:
    try:
        parts = cores_of(query)
    except NoFinishError as missing:
        return Classified(None, (), (), (("finish", str(missing)),))
    taken = [take(core, catalog) for core in parts.cores]
    refusals = tuple(dict.fromkeys(pair for one in taken for pair in one.refusals))
    seen = tuple(one.seen for one in taken if one.seen is not None)
    if len(seen) < len(taken):
        return Classified(parts, (), (), next(one.refusals for one in taken if one.seen is None))
    return Classified(parts, seen, tuple(one.form for one in taken), refusals)


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
    """The part of a query that no form takes, in words, and the keywords to look for in its text."""
    sources = query.sources
    if len(sources) > 1:
        names = ", ".join(f"'{s.relation}'" for s in sources)
        return f"a query of {len(sources)} sources ({names})", ("FROM",)
    return "this query", ("SELECT",)


def refused(query: Query, refusals: Sequence[tuple[str, str]]) -> RegisterError:
    """The error for a query that no family takes."""
    if [name for name, _ in refusals] == ["finish"]:
        reason = refusals[0][1]
        return refusal_at(query.text, f"{reason} cannot be executed", keyword_start(query.text, ("SELECT",)), _EXECUTED)
    part, keywords = part_of(query)
    by_reason: dict[str, list[str]] = {}
    for family, reason in refusals:
        by_reason.setdefault(reason, []).append(family)
    reasons = "; ".join(f"{', '.join(families)}: {reason}" for reason, families in by_reason.items())
    message = f"{part} cannot be executed yet ({reasons or 'no family is installed'})"
    return refusal_at(query.text, message, keyword_start(query.text, keywords), _EXECUTED)


def _window_start(parsed: Parsed, scan: Scan) -> int | None:
    named = (t for t in parsed.ast.find_all(exp.Table) if t.name.lower() == scan.relation.lower())
    windows = (parsed.window_of(t) for t in named if scan.alias in (t.alias, scan.relation))
    own = next((window for window in windows if window is not None), None)
    clause = own or parsed.window
    return None if clause is None else clause.start
