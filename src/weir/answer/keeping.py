"""How the answers of a shape are kept up to date: what is remembered from batch to batch, and what that costs.

There are four ways. All give the same answers, and the first that fits is taken, since it looks at least:

    rows      the results that are shown are the answer. Each comes once and goes once.
    sums      groups are added up (`weir.answer.additive_groups`), and answers are made of the sums.
    longest   results that others outlive are forgotten (`weir.answer.outlived`), and answers are made of the rest.
    results   answers are made anew of all results, of the queries for which one came or went. Of cores that are the
              same for all queries (`weir.answer.common_cores`) there is one copy.

The first three need ends that are known when results come (WKS or WK below the finish, UPA 5.2): each result waits for
its end in a buffer cut by that. Below the fourth results may end at any moment (STR).

Costs are counted as in UPA 5.4.1, in results that a batch looks at for one query: λ come, as many go, N are shown, and
n are what is left of these N in the state.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import DataType, called
from weir.answer import slot_marks
from weir.answer.additive_groups import HOW_MANY, Additive, added
from weir.answer.additive_groups import additive as additive_groups
from weir.answer.common_cores import common_cores, fixed_constants
from weir.answer.outlived import Outliving, outliving
from weir.errors import RegisterError
from weir.plan.cores import Cores
from weir.plan.finishes import CoreRows
from weir.plan.maintenance import Upkeep, shape_name, upkeep_of
from weir.plan.registration import Planned
from weir.store.files import Files
from weir.store.maintained import FROM, SLOT, TO, Run, ShapeRuns, read_run
from weir.store.query_groups import KeptAs


@dataclass(frozen=True)
class Keeping:
    """What is remembered of a shape."""

    are_rows: bool = False  # whether the results that are shown are the answers
    additive: Additive | None = None  # else its groups, if they are added up …
    outliving: Outliving | None = None  # … or how its results outlive each other, if they do
    common: frozenset[int] = frozenset()  # cores whose results are kept once for all queries

    @property
    def counts(self) -> Additive | None:
        """What is added up as results come and go: of rows, how many a query has."""
        return HOW_MANY if self.are_rows else self.additive

    @property
    def way(self) -> str:
        """One of the four."""
        if self.are_rows:
            return "rows"
        if self.additive is not None:
            return "sums"
        return "results" if self.outliving is None else "longest"


def cannot_be_kept(planned: Planned) -> str | None:
    """Why every batch cannot bring the answers of such queries up to date; None if it can."""
    parts = planned.classified.parts
    return upkeep_of(planned).refusal or (None if parts is None else slot_marks.refusal(parts.finish))


def kept_with(planned: Planned, text: str, types: tuple[DataType, ...], constants: pa.Table) -> KeptAs:
    """With which queries the answers of some are kept; a RegisterError if they cannot be."""
    refusal = cannot_be_kept(planned)
    if refusal is not None:
        hint = "register it without kept=True: its answer is computed when it is asked for"
        raise RegisterError(f"the query's answer cannot be kept: {refusal}", hint=hint)
    parts = planned.classified.parts
    assert parts is not None, "it has been planned"
    fixed = fixed_constants(parts, constants)
    return KeptAs(shape_name(text, types, fixed), tuple(fixed))


def keeping_of(parts: Cores, upkeep: Upkeep, fixed: Collection[str] = ()) -> Keeping:
    """How the answers of a shape are kept; `fixed` are constants that are the same for all of its queries."""
    if _ends_at_any_moment(parts, upkeep) is not None:
        return Keeping(common=common_cores(parts, fixed) if len(parts.cores) > 1 else frozenset())
    if parts.finish == CoreRows(0):
        return Keeping(are_rows=True)
    columns = parts.cores[0].output
    sums = additive_groups(parts.finish, columns)
    return Keeping(additive=sums, outliving=None if sums else outliving(parts.finish, columns))


def _ends_at_any_moment(parts: Cores, upkeep: Upkeep) -> str | None:
    """Why what becomes of a result is not known when it comes; None if it is."""
    if upkeep.moved_by:
        return f"when results end is up to what comes ({', '.join(sorted(map(called, upkeep.moved_by)))})"
    if len(parts.cores) > 1:
        return f"what becomes of a result depends on those of the other cores (it has {len(parts.cores)})"
    return None


# ── for people ──


class Sizes(NamedTuple):
    """What is known of one query, in results."""

    arriving: float  # λ, in a batch
    shown: int  # N, in its windows
    remembered: int  # n, what is left of these in the state: groups, or results that are not outlived


_WAYS = {
    "rows": "rows: its results are its answer; each comes once and goes once",
    "sums": "sums: results are added to groups when they come, and taken away when they are over",
    "longest": "longest: its results without those that others outlive",
    "results": "results: all in its windows, of which the answer is made anew when one comes or goes",
}
_COSTS = {"rows": "2 λ", "sums": "2 λ + n", "longest": "2 λ + n", "results": "2 λ + N"}


def way_text(keeping: Keeping, parts: Cores, upkeep: Upkeep) -> str:
    """What is remembered, and why no less."""
    said = _WAYS[keeping.way]
    if keeping.way in ("rows", "sums"):
        return said
    why = _ends_at_any_moment(parts, upkeep) or "not all of what the finish counts can be added up exactly"
    said = f"{said} (no sums: {why})"
    if keeping.common:
        cores = ", ".join(str(core) for core in sorted(keeping.common))
        said += f"; of core {cores} one copy serves all queries of this shape"
    return said


def cost_text(keeping: Keeping, sizes: Sizes) -> str:
    """How many results a batch looks at, and how many it would by results."""
    chosen = 2 * sizes.arriving + (0 if keeping.are_rows else sizes.remembered)
    said = f"{chosen:,.1f} results a batch ({_COSTS[keeping.way]}): λ = {sizes.arriving:,.1f} come and go, "
    said += f"N = {sizes.shown:,} are shown"
    if keeping.way == "results":
        return said
    if not keeping.are_rows:
        said += f", n = {sizes.remembered:,} are remembered"
    anew = 2 * sizes.arriving + sizes.shown
    return f"{said}; rejected: {anew:,.1f} by results ({_COSTS['results']})"


def sizes_of(keeping: Keeping, files: Files, shape: ShapeRuns, slot: int, now_us: int, step_us: float) -> Sizes:
    """What a part knows of one query; `step_us` is the time from one batch to the next."""
    ends = np.concatenate([np.empty(0, np.int64), *_ends(files, shape, slot, now_us)])
    shown = len(ends)
    left = int(ends.max() - now_us) if shown else 0  # how long the newest result stays
    arriving = shown * min(1.0, step_us / left) if left else 0.0
    if keeping.additive is None:
        return Sizes(arriving, shown, shown)
    sums = [(_about(read_run(files, run), slot), 1) for run in shape.sums]
    return Sizes(arriving, shown, added(keeping.additive, sums, is_whole=True).num_rows if sums else 0)


def _ends(files: Files, shape: ShapeRuns, slot: int, now_us: int) -> list[np.ndarray]:
    """Of the results of a query that are shown, when each is over."""
    return [_shown(_about(read_run(files, run), slot), run, now_us) for of in shape.results for run in of]


def _shown(mine: pa.Table, run: Run, now_us: int) -> np.ndarray:
    ends: np.ndarray = mine.column(TO).to_numpy()
    shown = ends >= max(now_us + 1, run.first_us)
    if FROM in mine.column_names:
        shown &= mine.column(FROM).to_numpy() <= now_us
    return ends[shown]


def _about(table: pa.Table, slot: int) -> pa.Table:
    return table.filter(pc.equal(table.column(SLOT), slot))
