"""The forms of queries, in the order in which they are asked: the first that takes a core runs it.

A form is a module or object with what `weir.families.contract.Form` says; a new one is one file and one entry here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from weir.algebra.nodes import Query
from weir.algebra.schema import Catalog, Stream
from weir.errors import OpenError
from weir.families.contract import Form, Seen
from weir.families.joins import join_form
from weir.families.many import many_form
from weir.families.selections import selection_form
from weir.index.joining.kinds import SELECT_STRATEGIES
from weir.index.strategies import STRATEGIES
from weir.settings import Settings

FORMS: list[Form] = [selection_form, join_form, many_form]


@dataclass(frozen=True)
class TakenForm:
    """The form that takes a core and how it sees it, or nothing; and why earlier ones refused."""

    form: str  # "" if none takes it
    seen: Seen | None
    refusals: tuple[tuple[str, str], ...]  # (form, reason)


def take(core: Query, catalog: Catalog) -> TakenForm:
    """The first form that takes a core."""
    streams = tuple(catalog.side(scan.relation) for scan in core.sources if catalog.has_side(scan.relation))
    return _take(core, streams, tuple(form.name for form in FORMS))


@lru_cache(maxsize=4096)
def _take(core: Query, streams: tuple[Stream, ...], forms: tuple[str, ...]) -> TakenForm:
    """As `take`, cached: a core is seen when it is registered, in batches, and when it is fetched.

    `forms` is only part of the cache's key.
    """
    catalog = Catalog({s.name.lower(): s for s in streams})
    refusals: list[tuple[str, str]] = []
    for form in FORMS:
        reason = form.refusal(core, catalog)
        if reason is None:
            return TakenForm(form.name, form.see(core, catalog), tuple(refusals))
        refusals.append((form.name, reason))
    return TakenForm("", None, tuple(refusals))


def with_known_strategies(settings: Settings) -> Settings:
    """The same settings; a strategy that no index has is an error."""
    known = {"strategy": ("auto", *STRATEGIES), "join_strategy": ("auto", *SELECT_STRATEGIES)}
    for name, names in known.items():
        given = getattr(settings, name)
        if given not in names:
            raise OpenError(f"setting '{name}' is one of {', '.join(names)}, got {given!r}")
    return settings


def form_named(name: str) -> Form:
    """The form that a stored document or a task names."""
    return next(form for form in FORMS if form.name == name)
