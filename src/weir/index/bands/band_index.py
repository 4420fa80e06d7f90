"""The band-join index: boxes over an attribute of the event and a difference, and the ways to find the affected ones.

Seen from an event, a box is [a_lo, a_hi] × [lo, hi]: its own attribute a, and the difference d that it has with a
partner (SSI, 3.1, with local selections, which the paper does not have). A box is affected when it contains a and some
partner's d. What the strategies are is said in `weir.index.bands.band_strategies`, how the router compares them in
`band_costs`. Boxes are in classes by the widths of their intervals, so that a few wide ones do not make partners look
at all narrow ones.

Size: 56 bytes a box and 16 more if any box constrains a, beside the plane; about 12 more for the lists by a.
"""

from __future__ import annotations

import itertools
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np

from weir.index.bands.band_costs import BandDescription, prepare
from weir.index.bands.band_layout import SHORT, WIDE, Bands
from weir.index.bands.band_strategies import STRATEGIES, WEIGHTS, BandSearch, sample
from weir.index.box_tables import Int32s, Int64s, frozen
from weir.index.flat_arrays import flat, restored
from weir.index.histograms import Floats
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.collector import CollectedIndex, Events
from weir.index.meeting.index_contract import Indexing, Meeting, Tuning
from weir.index.meeting.partner_runs import ladder
from weir.index.meeting.planes import Plane, check
from weir.index.stabbing import Partition, canonical, is_hot

_CELLS_MIN = 32  # fewer cells of a would leave out too little
_BOXES_PER_CELL, _CELLS_PER_INTERVAL = 8, 2


class _Structures(NamedTuple):
    plane: Plane
    bands: Bands


class BandIndex(CollectedIndex):
    """All strategies over one plane whose c is a difference."""

    kind = "band"
    rows = STRATEGIES
    aliases = MappingProxyType(
        {"vanilla": "query-outer", "join-first": "data-outer", "sweep": "merge", "partial": "auto"}
    )

    def __init__(self, plane: Plane, bands: Bands) -> None:
        super().__init__(frozen(plane), (1 << len(STRATEGIES)) - 1)
        self._bands = frozen(bands)
        self._silent = False

    @classmethod
    def build(cls, plane: Plane, *, is_double: bool, alpha: float = 0.001) -> Self:
        """The index of a plane; `is_double` says how the keys of differences are read as numbers."""
        plane = check(plane)
        width = _widths(plane.c_lo, plane.c_hi)
        class_of_box = _class_of(width)
        order = np.lexsort((plane.c_lo, class_of_box))
        lo, hi = plane.c_lo[order], plane.c_hi[order]
        constrained = bool(np.any(plane.a_lo > NULL_KEY) or np.any(plane.a_hi < KEY_MAX))
        kept = order if constrained else order[:0]
        marks, cells, entries = _cells(plane.a_lo[kept], plane.a_hi[kept])
        numbers, first = np.unique(class_of_box[order], return_index=True)
        classes = np.append(first, len(lo)).astype(np.int64)
        numbers_of_lo = _hints(lo) if is_double else np.where(lo == KEY_MIN, -np.inf, lo.astype(np.float64))
        ladders = [ladder(numbers_of_lo[i:j]) for i, j in itertools.pairwise(classes.tolist())]
        partition = canonical(lo, hi)
        groups = _grouped(partition, lo, hi)
        sizes = np.diff(groups[0])
        hot = is_hot(partition, alpha)
        return cls(
            plane,
            Bands(
                lo,
                hi,
                _hints(lo).view(np.int64) if is_double else _masks(lo, hi),
                order.astype(np.int32),
                np.stack((lo, np.minimum(width[order], WIDE) << 32 | order), axis=1).reshape(-1),
                plane.a_lo[kept],
                plane.a_hi[kept],
                marks,
                cells,
                entries,
                classes,
                np.array([width[order][class_of_box[order] == k].max() for k in numbers], np.int64),
                np.concatenate([np.empty(0, np.int32), *(steps for steps, _ in ladders)]),
                np.cumsum([0, *(len(steps) for steps, _ in ladders)]).astype(np.int64),
                np.array([scale for _, scale in ladders]).reshape(-1, 2),
                *groups,
                np.arange(len(sizes), dtype=np.int32),
                np.flatnonzero(hot).astype(np.int32),
                np.flatnonzero(~hot[partition.group_of_interval]).astype(np.int32),
            ),
        )

    @classmethod
    def over(cls, plane: Plane, how: Indexing) -> Self:
        return cls.build(plane, is_double=how.is_double, alpha=how.alpha)

    def arrays(self) -> dict[str, np.ndarray]:
        return flat(_Structures(self.plane, self._bands))

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(*restored(_Structures, arrays))

    def silent(self) -> BandIndex:
        """The same, but ssi and hotspot only find their stretches of boxes: for measuring what finding costs."""
        made = BandIndex(self.plane, self._bands)
        made._silent = True
        return made

    def _searched(self, meeting: Meeting, tuning: Tuning) -> BandSearch:
        weights = WEIGHTS if tuning.costs is None else tuning.costs.bands
        b, run = self._bands, meeting.run
        touched, stabbed = np.zeros(len(b.longest)), np.zeros(len(b.longest))
        sample(b, Events(meeting.a, meeting.begin, meeting.end), meeting.offset, run, touched, stabbed)
        known = BandDescription(
            float(len(b.lo)),
            float(len(b.scattered)),
            float(len(b.points)),
            float(len(b.hot)),
            np.diff(b.classes).astype(np.float64),
            touched,
            stabbed,
        )
        prepared = prepare(weights, known, is_double=run.is_double, has_units=bool(run.units[1]))
        return BandSearch(b, run, meeting.offset, prepared, self._silent)


def _widths(lo: Int64s, hi: Int64s) -> Int64s:
    """hi − lo in keys; an interval with an open end, or one too long for int64, is as long as any."""
    with np.errstate(over="ignore"):
        width = hi - lo
    return np.where((lo == KEY_MIN) | (hi == KEY_MAX) | (width < 0), KEY_MAX, width)


def _class_of(width: Int64s) -> Int64s:
    """Classes whose widths differ by a factor of four at most."""
    return (np.log2(width.astype(np.float64) + 1.0) / 2.0).astype(np.int64)


def _hints(lo: Int64s) -> Floats:
    """Keys of doubles as numbers; an open end is −inf, NaN is beyond everything."""
    bits = np.where(lo < 0, lo ^ KEY_MAX, lo)
    with np.errstate(invalid="ignore"):
        numbers = np.where(lo == KEY_MIN, -np.inf, bits.view(np.float64))
    return np.where(np.isnan(numbers), np.inf, numbers)


def _cells(a_lo: Int64s, a_hi: Int64s) -> tuple[Int64s, Int32s, Int32s]:
    """Marks, offsets and entries of cells over a, about as long as two intervals; none if these are long."""
    nothing = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
    ends = np.unique(np.concatenate([a_lo[a_lo > KEY_MIN], a_hi[a_hi < KEY_MAX]]))
    if len(ends) < _CELLS_MIN:
        return nothing
    spans = np.searchsorted(ends, a_hi, side="right") - np.searchsorted(ends, a_lo)
    share = float(spans.mean()) / len(ends)
    n_cells = int(min(len(a_lo) / _BOXES_PER_CELL, _CELLS_PER_INTERVAL / max(share, 1e-9), len(ends)))
    if n_cells < _CELLS_MIN:
        return nothing
    marks = ends[np.linspace(0, len(ends) - 1, n_cells).astype(np.int64)]
    first, last = np.searchsorted(marks, a_lo, side="right"), np.searchsorted(marks, a_hi, side="right")
    counts = last - first + 1
    place = np.repeat(np.arange(len(a_lo)), counts)
    cell = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(len(place))
    order = np.argsort(cell, kind="stable")
    offsets = np.searchsorted(cell[order], np.arange(n_cells + 2))
    return marks, offsets.astype(np.int32), place[order].astype(np.int32)


def _masks(lo: Int64s, hi: Int64s) -> Int64s:
    """A bit for each number of an interval, from the lowest on; 0 for a long one."""
    width = _widths(lo, hi)
    return np.where(width < SHORT, (np.int64(2) << np.minimum(width, SHORT)) - 1, 0)


def _grouped(partition: Partition, lo: Int64s, hi: Int64s) -> tuple[Int64s, Int32s, Int32s, Int64s, Int64s, Int64s]:
    """Offsets of groups, their boxes in both orders, points, least lo and greatest hi."""
    group = partition.group_of_interval
    offsets = np.zeros(len(partition.points) + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=len(partition.points)), out=offsets[1:])
    low = np.lexsort((lo, group)).astype(np.int32)
    high = np.lexsort((~hi, group)).astype(np.int32)  # ~x is −x − 1, which is there for every x
    return offsets, low, high, partition.points, lo[low[offsets[:-1]]], hi[high[offsets[:-1]]]
