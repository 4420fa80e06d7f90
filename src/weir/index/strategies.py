"""The strategies: ways to find the boxes that an event lies in, one contract, identical answers.

Checked by the contract battery in the tests: `search` returns for each event the ascending, unique, unmuted slots
that have a box containing it, or, over budget, the exact number of events of each slot; `arrays` and `from_arrays`
round-trip, also through read-only memory maps; whatever the sample of rows that an index is built with, it answers
alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np

from weir.index import access, ranks
from weir.index.box_tables import BoxTable, Int64s, Matches, OverBudget, Uint8s, check
from weir.index.by_batch import ByBatchIndex
from weir.index.digests import Foreseen, Reached
from weir.index.grid import GridIndex
from weir.index.histograms import Floats
from weir.index.predicate import PredicateIndex
from weir.index.samples import ROWS_MIN, Sample
from weir.index.scan import ScanIndex
from weir.index.sweep import SweepIndex
from weir.index.trees.grid_file import GridFileIndex
from weir.index.trees.rtree import TreeIndex
from weir.index.trees.tiling import expected_tiles
from weir.index.trees.tree_index import DIMS_MAX


class Strategy(Protocol):
    """An index over a box table."""

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> Self:
        """The index of a table; `sample` are recent rows, by which it may choose how boxes are reached."""
        ...

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self: ...

    def arrays(self) -> dict[str, np.ndarray]: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def takes_steps(self) -> bool:
        """Whether a search gains from steps."""
        ...

    def search(
        self, keys: Int64s, muted: Uint8s, pairs_max: int, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        """keys: int64[n_attributes, n_events], C-contiguous; muted: uint8[n_slots].

        `steps` are attributes that are looked at one group after the other: events that follow each other agree in
        those of the first steps. They change no answer, and a strategy need not make use of them.
        """
        ...


@runtime_checkable
class Choosing(Protocol):
    """An index that chooses through which attributes boxes are reached, and can tell whether it would choose again."""

    @property
    def reached(self) -> Reached: ...

    def foreseen(self, sample: Sample) -> Foreseen | None:
        """What rows like these cost, as it is built and if it were built for them; None if that cannot be told."""
        ...


@runtime_checkable
class Weighing(Protocol):
    """An index that chooses between ways to search a batch, by weights of what either costs."""

    def weighed(self, weights: Floats) -> Strategy:
        """The same index with other weights."""
        ...


TREE_LEAF_NS, GRID_CANDIDATE_NS, GRID_PROBE_NS = 90.0, 4.0, 30.0  # what an event spends on one of them
_BOXES_MIN = 4_096  # boxes from which on a tree may pay
_CLEARLY = 2.0
_FILLED = 0.25  # share of a tree's bounds that boxes must constrain, so that it is worth its memory


def choose(table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> str:
    """The strategy that is expected to cost an event least: by-batch, or rtree if no two attributes are selective.

    What is selective is measured over the sample's rows, if there is one.
    """
    n = len(table.slot_of_box)
    dims = min(n_attributes, DIMS_MAX)
    if n < _BOXES_MIN or len(table.constraint_attribute) < _FILLED * n * dims:
        return "by-batch"
    table = check(table, n_slots, n_attributes)
    space = ranks.build(table, n_attributes)
    lo, hi = ranks.rank_bounds(space, table)
    n_points = np.diff(space.point_offsets)
    share = access.selectivities(table.constraint_attribute, lo, hi, n_points)
    known = access.Estimates(share)
    if sample is not None and sample.rows_count >= ROWS_MIN:
        ranked = ranks.rank_rows(space, sample.keys)
        known = access.measured(table, lo, hi, n_points, ranked, sample.measured, share)
        share = known.selectivity
    reached = access.choose(table, lo, hi, n_points, known)
    candidates = float(reached.selectivity.prod(axis=1).sum())
    by_grid = GRID_PROBE_NS * len(reached.signatures) + GRID_CANDIDATE_NS * candidates
    width = 1.0 - np.bincount(table.constraint_attribute, weights=1.0 - share, minlength=n_attributes) / n
    by_tree = TREE_LEAF_NS * expected_tiles(np.sort(width)[:dims], n)
    return "rtree" if _CLEARLY * by_tree < by_grid else "by-batch"


STRATEGIES: dict[str, type[Strategy]] = {
    "grid": GridIndex,
    "predicate": PredicateIndex,
    "scan": ScanIndex,
    "sweep": SweepIndex,
    "by-batch": ByBatchIndex,
    "rtree": TreeIndex,
    "grid-file": GridFileIndex,
}
MADE_OF = {"by-batch": ("grid", "sweep")}  # a strategy that has no kernels of its own, and those whose it uses
