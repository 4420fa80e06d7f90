"""By batch: the grid or a sweep over the same boxes, whichever is expected to cost the batch less.

An event costs the grid the same in any batch; a sweep passes all boxes by once a batch, and then an event costs it
little. So a sweep pays from some number of events on, which grows with the boxes. What either costs is a sum of terms
(`TERMS`) with weights (`WEIGHTS`, ns). Of the terms, A, the number of boxes that contain an event's value of the swept
attribute, matters most; it is counted for some events of the very batch, by two searches each.

Where candidates are checked for other attributes, a sweep may have so many more of them than the grid that no batch is
large enough. Then there are no arrays for one. Both answer alike, so no answer depends on any of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weir.index import sweep
from weir.index.box_tables import BoxTable, Int64s, Matches, OverBudget, Uint8s, check_events, frozen, read_only
from weir.index.digests import Foreseen, Reached
from weir.index.flat_arrays import flat, restored
from weir.index.grid import GridIndex, Plan
from weir.index.samples import Sample
from weir.index.sweep import Chosen, Swept

Floats = npt.NDArray[np.float64]

NAMES = ("grid", "sweep")  # the ways: rows of WEIGHTS
TERMS = ("boxes", "met", "moved", "events", "pairs", "checked", "probes", "candidates")
WEIGHTS: Floats = read_only(
    np.array(
        [
            [0.0, 0.0, 0.0, 350.0, 0.0, 0.0, 0.0, 12.0],
            [2.8, 32.0, 0.0, 20.0, 0.6, 18.0, 0.0, 0.0],
        ]
    )
)
_USES = np.array([[0, 0, 0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1, 0, 0]], dtype=np.float64)  # terms of either way
_BITS_MAX = 30  # a sweep that does not pay for so many events never does


class Load(NamedTuple):
    """What a batch's cost follows from."""

    n_boxes: float
    is_checked: float  # 1 if candidates of a sweep are checked for other attributes, else 0
    n_probes: float  # of the grid
    candidates: float  # of an event in the grid, as it was planned
    swept: float  # boxes that contain an event's value of the swept attribute, on average
    n_events: float


def terms(load: Load) -> Floats:
    """float64[2, term]: what either way's weights are about."""
    met = min(load.n_boxes, load.n_events * load.swept)
    pairs = load.n_events * load.swept
    plain, checked = pairs * (1 - load.is_checked), pairs * load.is_checked
    each = [
        load.n_boxes,
        met,
        met * load.swept,
        load.n_events,
        plain,
        checked,
        load.n_events * load.n_probes,
        load.n_events * load.candidates,
    ]
    found: Floats = _USES * np.array(each)
    return found


def is_swept(load: Load, weights: Floats) -> bool:
    """Whether the batch costs a sweep less than the grid."""
    by_grid, by_sweep = (weights * terms(load)).sum(axis=1).tolist()
    return bool(by_sweep < by_grid)


def swept_from(load: Load, weights: Floats) -> int | None:
    """From about how many events on a batch like this one is swept; None: never."""
    sizes = [1 << k for k in range(_BITS_MAX)]
    return next((n for n in sizes if is_swept(load._replace(n_events=n), weights)), None)


def expected_load(plan: Plan, grid: GridIndex, chosen: Chosen) -> Load:
    """The load of a batch, of no events yet, as far as is known when an index is built."""
    is_checked = bool(np.any(plan.table.constraint_attribute != chosen.attribute))
    candidates = float(plan.chosen.selectivity.prod(axis=1).sum())
    return Load(len(plan.table.slot_of_box), is_checked, grid.probes_count, candidates, chosen.candidates, 0)


class ByBatchIndex:
    """Strategy "by-batch"."""

    takes_steps = False

    def __init__(
        self,
        grid: GridIndex,
        swept: Swept | None,
        expected: Load,
        n_slots: int,
        n_attributes: int,
        weights: Floats = WEIGHTS,
    ) -> None:
        self._grid = grid
        self._swept = swept  # frozen; None if no batch is worth a sweep
        self._expected = expected
        self._n_slots, self._n_attributes = n_slots, n_attributes
        self._weights = weights

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> Self:
        plan = Plan.of(table, n_slots, n_attributes, sample)
        grid = GridIndex.planned(plan, n_slots, n_attributes)
        chosen = sweep.choose(plan.table, n_attributes, plan.known.selectivity)
        expected = expected_load(plan, grid, chosen)
        pays = swept_from(expected, WEIGHTS) is not None
        swept = frozen(sweep.lay_out(plan.table, chosen.attribute)) if pays else None
        return cls(grid, swept, expected, n_slots, n_attributes)

    def weighed(self, weights: Floats) -> Self:
        """The same index; its batches are routed by these weights."""
        return type(self)(self._grid, self._swept, self._expected, self._n_slots, self._n_attributes, weights)

    def arrays(self) -> dict[str, np.ndarray]:
        found = {f"grid_{name}": array for name, array in self._grid.arrays().items()}
        if self._swept is not None:
            found |= flat(self._swept, "swept")
        found["expected"] = np.array(self._expected, dtype=np.float64)
        found["numbers"] = np.array([self._n_slots, self._n_attributes], dtype=np.int64)
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        parts = {name.removeprefix("grid_"): array for name, array in arrays.items() if name.startswith("grid_")}
        swept = frozen(restored(Swept, arrays, "swept")) if "swept_lo" in arrays else None
        n_slots, n_attributes = arrays["numbers"].tolist()
        return cls(GridIndex.from_arrays(parts), swept, Load(*arrays["expected"].tolist()), n_slots, n_attributes)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def reached(self) -> Reached:
        """Through which attributes its boxes are reached, and from how many rows on batches are swept."""
        reached = self._grid.reached
        if self._swept is None:
            return reached
        return reached._replace(swept=(int(self._swept.attribute[0]), swept_from(self._expected, self._weights) or 1))

    def foreseen(self, sample: Sample) -> Foreseen | None:
        """What rows like these cost in the grid, as it is built and if it were built for them."""
        return self._grid.foreseen(sample)

    def search(
        self, keys: Int64s, muted: Uint8s, pairs_max: int, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        keys, muted = check_events(keys, muted, self._n_slots, self._n_attributes)
        if self._swept is not None and self._is_swept(self._swept, keys):
            return sweep.sweep(self._swept, keys, muted, pairs_max)
        return self._grid.search(keys, muted, pairs_max)

    def _is_swept(self, swept: Swept, keys: Int64s) -> bool:
        """Whether a sweep costs less; events are asked for their candidates only if it did so without any."""
        load = self._expected._replace(swept=0.0, n_events=keys.shape[1])
        if not is_swept(load, self._weights):
            return False
        return is_swept(load._replace(swept=sweep.candidates_of(swept, keys)), self._weights)
