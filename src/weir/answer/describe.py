"""`explain`: the plan with its update patterns, and what becomes of the query in this weir."""

from __future__ import annotations

from weir.answer.fetch import Standing
from weir.answer.recompute import recompute
from weir.answer.rows import KeptRows
from weir.answer.window import Cut
from weir.families import selection
from weir.families.parts import parts_of
from weir.plan.explain import explain
from weir.plan.registration import Registration
from weir.store.catalog import CatalogLog
from weir.store.files import Files
from weir.store.state import State

SAMPLE_FILES = 2  # the newest row files, over which expected matches are estimated


def describe(planned: Registration, standing: Standing | None, files: Files, state: State) -> str:
    """The text of `explain` for a standing query, or for one that is not registered."""
    catalog = CatalogLog(files).read()
    details: dict[str, object] = {}
    if planned.classified.family == selection.name:
        constants = None if standing is None else standing.constants
        details.update(selection.describe(planned.query, constants, planned.stream))
    if standing is not None:
        details["expected matches"] = _expected(standing, files, state)
        details["state"] = _state(standing, state)
    return explain(planned.query, catalog, planned.classified, details)


def _expected(standing: Standing, files: Files, state: State) -> str:
    """The share of recent rows that the query matches, counted over the newest row files."""
    kept = KeptRows(files, standing.stream, state, state.last)
    newest = kept.newest(SAMPLE_FILES)
    rows = int((newest.end_rows - newest.first_rows).sum())
    if not rows:
        return "unknown: no rows are kept yet"
    _, predicate, _ = parts_of(standing.query)
    found = len(recompute(predicate, standing.constants, newest, Cut(None, 2**62, None)))
    return f"{found:,} of the newest {rows:,} rows ({found / rows:.4%})"


def _state(standing: Standing, state: State) -> str:
    if standing.id in state.demoted:
        return f"demoted in batch {state.demoted[standing.id]}: recomputed at fetch"
    first = state.active_from(standing.registry_number)
    if first is None:
        return "waits for its first batch; rows that are there are evaluated at fetch"
    return f"materialised since batch {first}; older rows are evaluated at the first fetch"
