"""Views: what may be one, and what stands in the way of dropping it.

A view is lowered where it is used (`weir.sql.lower`), so a standing query holds the text that the view had when the
query was registered, and does not depend on it. Other views do.
"""

from __future__ import annotations

from sqlglot import exp

from weir.algebra.schema import Catalog, View
from weir.errors import RegisterError, StreamError, did_you_mean
from weir.settings import Settings
from weir.sql.lower import lower
from weir.sql.parse import parse

NAME_MAX = 128  # characters


def defined_view(name: str, sql: str, catalog: Catalog, settings: Settings) -> View:
    """The view, if its name is free and its text is a query; StreamError, or the text's own RegisterError."""
    for what, given in (("the name of a view", name), ("the text of a view", sql)):
        if not isinstance(given, str):
            raise StreamError(f"{what} is a {type(given).__name__}, expected a text")
    if not name.isidentifier() or not name.isascii() or len(name) > NAME_MAX:
        raise StreamError(
            f"'{name}' is not a name of a view", hint=f"use letters, digits and underscores, at most {NAME_MAX}"
        )
    parsed = parse(sql, settings)
    if parsed.params:
        raise RegisterError(f"a view has no parameters, this one has :{parsed.params[0]}")
    if any(name.lower() == read.lower() for read in _names_in(sql, settings)) and name.lower() not in catalog.views:
        raise StreamError(f"view '{name}' reads '{name}'", hint="choose another name")
    lower(parsed, catalog)
    return View(name, sql)


def droppable_view(name: str, catalog: Catalog, settings: Settings) -> View:
    """The view of this name, if no other one reads it."""
    if not isinstance(name, str):
        raise StreamError(f"the name of a view is a {type(name).__name__}, expected a text")
    found = catalog.views.get(name.lower())
    if found is None:
        known = [view.name for view in catalog.views.values()]
        raise StreamError(
            f"there is no view '{name}'", hint=did_you_mean(name, known) or f"views: {', '.join(known) or 'none yet'}"
        )
    others = [v.name for v in catalog.views.values() if v is not found]
    readers = [other for other in others if name.lower() in _names_in(catalog.views[other.lower()].sql, settings)]
    if readers:
        raise StreamError(f"view '{found.name}' is read by {', '.join(readers)}", hint="drop them first")
    return found


def _names_in(sql: str, settings: Settings) -> set[str]:
    """What a text names in FROM, in lower case."""
    return {table.name.lower() for table in parse(sql, settings).ast.find_all(exp.Table)}
