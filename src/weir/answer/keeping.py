"""How the answers of a shape are kept up to date: what is remembered from batch to batch, and what that costs.

There are four ways. Each that fits gives the same answers; the first that fits is taken, since it looks at least:

    rows      the results that are shown are the answer. Each comes once and goes once.
    longest   of results that others outlive none is kept (`weir.answer.outlived`), and answers are made of the rest.
    sums      groups are added up (`weir.answer.additive_groups`), and answers are made of the sums.
    results   answers are made anew of all results, of the queries for which one came or went.

The first three need ends that are known when results come (WKS or WK below the finish, UPA 5.2), so that each can wait
for its end in a buffer cut by that. Below the fourth results may end at any moment (STR).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from weir.answer.additive_groups import HOW_MANY, Additive, additive
from weir.answer.outlived import Outliving, outliving
from weir.plan.cores import Cores
from weir.plan.finishes import CoreRows
from weir.plan.maintenance import Upkeep


class Sizes(NamedTuple):
    """What is known of one query, in results."""

    arriving: float  # λ, in a batch
    shown: int  # N, in its windows
    remembered: int  # what is left of them in the state: groups, or results that are not outlived


@dataclass(frozen=True)
class Keeping:
    """What is remembered of a shape."""

    are_rows: bool
    additive: Additive | None = None
    outliving: Outliving | None = None

    @property
    def counts(self) -> Additive | None:
        """What is added up as results come and go: of rows, how many a query has."""
        return HOW_MANY if self.are_rows else self.additive

    @property
    def way(self) -> str:
        """What of the results is remembered, for people."""
        if self.are_rows:
            return "rows"
        return "longest" if self.outliving is not None else "results" if self.additive is None else "sums"


_WAYS = {
    "rows": "its results are its answer; each comes once and goes once",
    "longest": "its results without those that others outlive",
    "sums": "groups, to which results are added when they come, and from which they are taken when they are over",
    "results": "all results in its windows, of which the answer is made when one comes or goes",
}
_FORMULAS = {"rows": "2 λ", "longest": "λ + n", "sums": "2 λ + n", "results": "λ + N"}


def keeping_of(parts: Cores, upkeep: Upkeep) -> Keeping:
    """How the answers of a shape are kept."""
    if upkeep.moved_by or len(parts.cores) > 1:
        return Keeping(are_rows=False)
    if parts.finish == CoreRows(0):
        return Keeping(are_rows=True)
    columns = parts.cores[0].output
    longest = outliving(parts.finish, columns)
    return Keeping(False, None if longest else additive(parts.finish, columns), longest)


def way_text(keeping: Keeping) -> str:
    """What is remembered, for people."""
    return f"{keeping.way}: {_WAYS[keeping.way]}"


def cost_text(keeping: Keeping, sizes: Sizes) -> str:
    """How many results are looked at in a batch, and how many if all were."""
    costs = {
        "rows": 2 * sizes.arriving,
        "longest": sizes.arriving + sizes.remembered,
        "sums": 2 * sizes.arriving + sizes.remembered,
        "results": sizes.arriving + sizes.shown,
    }
    said = f"{costs[keeping.way]:,.1f} results looked at in a batch ({_FORMULAS[keeping.way]}"
    said += f"; λ = {sizes.arriving:,.1f} come, N = {sizes.shown:,} are shown, n = {sizes.remembered:,} are remembered)"
    if keeping.way == "results":
        return said
    return f"{said}; by results it would be {costs['results']:,.1f} ({_FORMULAS['results']})"
