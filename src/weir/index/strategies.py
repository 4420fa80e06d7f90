"""The strategies: ways to find the boxes that an event lies in, one contract, identical answers.

Checked by the contract battery in the tests: `search` returns for each event the ascending, unique, unmuted slots
that have a box containing it, or, over budget, the exact number of events of each slot; `arrays` and `from_arrays`
round-trip, also through read-only memory maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np

from weir.index.box_tables import BoxTable, Int64s, Matches, OverBudget, Uint8s
from weir.index.grid import GridIndex
from weir.index.predicate import PredicateIndex
from weir.index.scan import ScanIndex
from weir.index.trees.grid_file import GridFileIndex
from weir.index.trees.rtree import TreeIndex


class Strategy(Protocol):
    """An index over a box table."""

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int) -> Self: ...

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


STRATEGIES: dict[str, type[Strategy]] = {
    "grid": GridIndex,
    "predicate": PredicateIndex,
    "scan": ScanIndex,
    "rtree": TreeIndex,
    "grid-file": GridFileIndex,
}
