"""`explain`: the plan with its update patterns, and what becomes of the query in this weir."""

from __future__ import annotations

import contextlib
import json

from weir.answer.fetch import Standing, StandingCore, kept_answer, kept_shape
from weir.answer.keeping import cannot_be_kept, cost_text, keeping_of, sizes_of, way_text
from weir.answer.kept_rows import KeptRows
from weir.answer.recompute import COMBINATIONS_MAX, recompute
from weir.answer.views import View
from weir.answer.window import EVERYTHING, Cut
from weir.errors import StoreError
from weir.families.forms import form_named
from weir.plan.classify import classify
from weir.plan.explain import explain
from weir.plan.maintenance import upkeep_of
from weir.plan.registration import Planned
from weir.settings import Settings
from weir.store import caches
from weir.store.arrays import read_arrays
from weir.store.catalog import CatalogLog
from weir.store.files import Files
from weir.store.state import State

SAMPLE_FILES = 2  # the newest row files, over which expected matches are estimated …
SAMPLE_JOIN_ROWS = 5_000  # … and of these the newest rows of each source, for a join
SAMPLE_BATCHES = 16  # the newest row files, that say how far batches are apart


def describe(planned: Planned, standing: Standing | None, files: Files, state: State) -> str:
    """The text of `explain` for a standing query, or for one that is not registered."""
    catalog = CatalogLog(files).read()
    # One that is not registered is described with its own constants, not with its shape's parameters.
    classified = planned.classified if standing else classify(planned.query, catalog, Settings(), refuse=False)
    constants = None if standing is None else standing.constants
    details: dict[str, object] = {}
    for number, (form, seen) in enumerate(zip(classified.forms, classified.seen, strict=True)):
        said = seen.describe(constants)
        if seen.is_matched:
            said["reached through"] = _reached(form, seen.family.name, files)
        if form_named(form).strategies:
            said["strategies"] = _choices(seen.family.name, files)
        if standing is not None:
            said["expected matches"] = _expected(standing.cores[number], files, state)
            said["state"] = _state(standing.cores[number], state)
        several = f"core {number}, " if len(classified.seen) > 1 else ""
        details |= {f"{several}{what}": value for what, value in said.items()}
    details["kept"] = _kept(planned, standing, files, state)
    details |= _keeping(planned, standing, files, state)
    return explain(planned.query, catalog, classified, details)


def _kept(planned: Planned, standing: Standing | None, files: Files, state: State) -> str:
    """Whether the answer is brought up to date by every batch."""
    if standing is None:
        refusal = cannot_be_kept(planned)
        return "can be (kept=True)" if refusal is None else f"cannot be: {refusal}"
    if standing.kept_as is None:
        return "no: it is computed when it is asked for"
    lost = state.given_up.get(standing.id)
    if lost is not None:
        return f"given up in batch {lost[0]}, computed when it is asked for: {lost[1]}"
    if kept_answer(standing, files, state) is None:
        return "from its first batch on"
    part = next(part for part in state.kept.values() if standing.id % part.of == part.part)
    count = len(part.files)
    return f"yes: part {part.part + 1} of {part.of}, in {count} file{'' if count == 1 else 's'}"


def _keeping(planned: Planned, standing: Standing | None, files: Files, state: State) -> dict[str, object]:
    """How a kept answer is brought up to date, and what that costs a batch, by what the running weir knows."""
    parts, upkeep = planned.classified.parts, upkeep_of(planned)
    if parts is None or upkeep.refusal is not None or (standing is not None and standing.kept_as is None):
        return {}
    fixed = () if standing is None or standing.kept_as is None else standing.kept_as.fixed
    keeping = keeping_of(parts, upkeep, fixed)
    said: dict[str, object] = {"kept as": way_text(keeping, parts, upkeep)}
    shape = None if standing is None else kept_shape(standing, files, state)
    if standing is None or shape is None or state.now_us is None:
        return said
    sizes = sizes_of(keeping, files, shape, standing.id, state.now_us, _step_us(standing, state))
    return said | {"kept at": cost_text(keeping, sizes)}


def _step_us(standing: Standing, state: State) -> float:
    """The time from one batch to the next, by the newest rows of the query's streams."""
    steps = [0.0]
    for stream in {stream.name for core in standing.cores for stream in core.streams}:
        rows = state.row_files(stream)
        if len(rows.paths) and rows.batch[-1] > rows.batch[first := max(0, len(rows.paths) - SAMPLE_BATCHES)]:
            steps.append((rows.t_max_us[-1] - rows.t_max_us[first]) / (rows.batch[-1] - rows.batch[first]))
    return max(steps)


def _reached(form: str, family: str, files: Files) -> str:
    """By which attributes the queries of the family are reached, as the running job last indexed them."""
    newest = sorted(files.list(caches.segment_folder(form, family)), key=lambda entry: -entry.mtime_s)
    for entry in newest:
        if entry.path.rpartition("/")[2].startswith("main-"):
            with contextlib.suppress(StoreError):
                return form_named(form).open(*read_arrays(files, entry.path)).reached
    return "not indexed yet"


def _choices(family: str, files: Files) -> str:
    """How many events of the family each strategy processed, as the running job last wrote it down."""
    for _, parts in caches.load(files, "choices"):
        counts = json.loads(parts[0]).get(family)
        if counts:
            shown = [f"{name} {count:,}" for name, count in dict(counts).items() if count]
            return "chosen for every event; so far " + (", ".join(shown) or "none had partners")
    return "chosen for every event"


def _expected(core: StandingCore, files: Files, state: State) -> str:
    """The share of recent rows, or pairs of rows, that the query matches, counted over the newest row files."""
    if len(core.streams) > 2 or not core.seen.is_matched:
        return "not estimated"
    cut = EVERYTHING if len(core.streams) == 1 else Cut(None, EVERYTHING.end_us, SAMPLE_JOIN_ROWS)
    views = [View(KeptRows(files, s, state, state.last).newest(SAMPLE_FILES), cut) for s in core.streams]
    rows = [int((view.kept.end_rows - view.kept.first_rows).sum()) for view in views]
    if not all(rows):
        return "unknown: no rows are kept yet"
    ids = recompute(core.condition, core.constants, views, apart=core.apart)
    assert ids is not None, "there was no limit"
    found = len(ids[0])
    if len(core.streams) == 1:
        return f"{found:,} of the newest {rows[0]:,} rows ({found / rows[0]:.4%})"
    first, second = (min(count, SAMPLE_JOIN_ROWS) for count in rows)
    return f"{found:,} pairs of the newest {first:,} × {second:,} rows ({found / first / second:.4%})"


def _state(core: StandingCore, state: State) -> str:
    if not core.seen.is_matched:
        return (
            "nothing is kept: it is evaluated over the kept rows at every fetch, within "
            f"{COMBINATIONS_MAX:,} combinations of rows, and does not reach a sink"
        )
    if core.id in state.demoted:
        return f"demoted in batch {state.demoted[core.id]}: recomputed at fetch"
    quarantined = state.quarantined.get(core.id)
    if quarantined is not None:
        return f"quarantined in batch {quarantined[0]}: recomputed at fetch. {quarantined[1]}"
    first = state.matched_since(core.id, core.registry_number)
    if first is None:
        return "waits for its first batch; rows that are there are evaluated at fetch"
    return f"materialised since batch {first}; older rows are evaluated at the first fetch"
