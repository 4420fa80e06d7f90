"""The band-join index: boxes over an attribute of the event and a difference, and the ways to find the affected ones.

Seen from an event, a box is [a_lo, a_hi] × [lo, hi]: its own attribute a, and the difference d that it has with a
partner (SSI, 3.1, with local selections, which the paper does not have). A box is affected when it contains a and some
partner's d. The strategies give the same answer:

    query-outer   every box looks for its first partner: n searches, each one a few comparisons where there is a ladder
    data-outer    every partner looks for the boxes around its difference: m searches
    merge         boxes by lo and partners by d are merged: n + m steps
    ssi           boxes in stabbing groups; the two partners around a group's point decide for it: τ searches and k
    hotspot       ssi for groups of at least α·n boxes, query-outer for the rest
    select-first  the boxes listed in the cell of a look for their first partner; lists are there if a is selective

`auto` takes for each event the one whose estimate is least (`weir.index.bands.costs`). Boxes are in classes by the
widths of their intervals, so that a few wide ones do not make partners look at all narrow ones.

Size: 56 bytes a box and 16 more if any box constrains a, beside the plane; about 12 more for the lists by a.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, Self

import numpy as np

from weir.index.bands.costs import (
    NAMES,
    SELECT_FIRST,
    STRATEGIES,
    Description,
    cheapest,
    event_costs,
    prepare,
    selected_cost,
)
from weir.index.bands.layout import SHORT, WIDE, Bands, Meeting
from weir.index.bands.runs import Floats, Run, is_whole, ladder
from weir.index.bands.strategies import cell_of, sample, stab
from weir.index.boxes import Int32s, Int64s, OverBudget, Uint8s, frozen, read_only
from weir.index.jit import Scalar
from weir.index.joins.affected import OUTPUT_SLACK, Scratch, drop_muted, make_scratch, write_sorted
from weir.index.joins.costs import DEFAULT, Costs
from weir.index.joins.instructions import cycles
from weir.index.joins.lean import lean
from weir.index.joins.output import written
from weir.index.joins.planes import Plane, check
from weir.index.joins.search import Found
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.stabbing import Partition, canonical

_CELLS_MIN = 32  # fewer cells of a would leave out too little
_BOXES_PER_CELL, _CELLS_PER_INTERVAL = 8, 2


class Router(NamedTuple):
    """How the strategy of an event is chosen."""

    strategy: int  # this one for all events; −1: for each the one that is expected to be cheapest
    prepared: Floats  # of `weir.index.bands.costs`


class BandIndex:
    """All strategies over one plane whose c is a difference."""

    def __init__(self, plane: Plane, bands: Bands) -> None:
        self.plane = frozen(plane)
        self._bands = frozen(bands)

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
        hot = sizes >= alpha * len(lo)
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

    def arrays(self) -> dict[str, np.ndarray]:
        found = {f"plane_{name}": array for name, array in self.plane._asdict().items()}
        return found | {f"bands_{name}": array for name, array in self._bands._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(
            Plane(*(arrays[f"plane_{name}"] for name in Plane._fields)),
            Bands(*(arrays[f"bands_{name}"] for name in Bands._fields)),
        )

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def search(
        self,
        events: Meeting,
        run: Run,
        muted: Uint8s,
        pairs_max: int,
        *,
        strategy: str = "auto",
        costs: Costs = DEFAULT,
    ) -> Found:
        """The boxes that each event affects, without muted ones; their counts if there are more than `pairs_max`."""
        assert strategy == "auto" or strategy in NAMES, f"strategy {strategy!r} is none of {NAMES}"
        events = frozen(Meeting(*(np.ascontiguousarray(array, dtype=np.int64) for array in events)))
        number = -1 if strategy == "auto" else NAMES.index(strategy)
        router = Router(number, self._prepared(costs, events, run))
        n_boxes, n_events = len(self._bands.lo), len(events.a)
        muted = read_only(np.ascontiguousarray(muted, dtype=np.uint8))
        assert muted.shape == (n_boxes,), f"muted has shape {muted.shape}, not {n_boxes}"
        any_muted = bool(muted.any())
        scratch = make_scratch(n_boxes, 0)
        choices = np.zeros(len(NAMES), dtype=np.int64)

        def write(event: int, output: Int32s, used: int, per_event: Int64s) -> tuple[int, int]:
            found: tuple[int, int] = _write(
                self._bands, events, run, router, scratch, muted, any_muted, event, output, used, per_event, choices
            )
            return found

        matches = written(write, n_events, n_boxes, pairs_max)
        if matches is not None:
            return Found(matches, choices)
        counts = np.zeros(n_boxes, dtype=np.int64)
        choices[:] = 0
        _count(self._bands, events, run, router, scratch, muted, counts, choices)
        return Found(OverBudget(counts), choices)

    def estimates(self, events: Meeting, run: Run, *, costs: Costs = DEFAULT) -> Floats:
        """float64[e, 5]: what each strategy is expected to cost for each event, ns."""
        events = frozen(Meeting(*(np.ascontiguousarray(array, dtype=np.int64) for array in events)))
        found = np.empty((len(events.a), len(STRATEGIES)), dtype=np.float64)
        _estimate(events, run, self._prepared(costs, events, run), found)
        return found

    def _prepared(self, costs: Costs, events: Meeting, run: Run) -> Floats:
        b = self._bands
        touched, stabbed = np.zeros(len(b.longest)), np.zeros(len(b.longest))
        sample(b, events, run, touched, stabbed)
        known = Description(
            float(len(b.lo)),
            float(len(b.scattered)),
            float(len(b.points)),
            float(len(b.hot)),
            np.diff(b.classes).astype(np.float64),
            touched,
            stabbed,
        )
        return prepare(costs.bands, known, is_double=run.is_double, has_units=bool(run.units[1]))

    def cycles(self, events: Meeting, run: Run, strategy: str, *, silent: bool = False) -> Int64s:
        """int64[e]: cycles that one strategy spends on each event; sorting and writing are left out.

        `silent`: ssi finds its stretches of boxes and does not report them.
        """
        events = frozen(Meeting(*(np.ascontiguousarray(array, dtype=np.int64) for array in events)))
        spent = np.zeros(len(events.a), dtype=np.int64)
        scratch = make_scratch(len(self._bands.lo), 0)
        _cycles(self._bands, events, run, NAMES.index(strategy), silent, scratch, spent)
        return spent


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


@lean
def _choose(bands: Bands, events: Meeting, run: Run, router: Router, scratch: Scratch, event: Scalar) -> Scalar:
    if router.strategy >= 0:
        return router.strategy
    begin, end = events.begin[event], events.end[event]
    has_ladder = is_whole(run, begin, end, events.offset[event])
    best = cheapest(router.prepared, end - begin, has_ladder, scratch.estimates)
    if len(bands.cells) > 0:
        cell = cell_of(bands.marks, events.a[event])
        n_listed = bands.cells[cell + 1] - bands.cells[cell]
        if selected_cost(n_listed, end - begin) < scratch.estimates[best]:
            return SELECT_FIRST
    return best


@lean
def _estimate(events: Meeting, run: Run, prepared: Floats, out: Floats) -> None:
    for event in range(len(events.a)):
        begin, end = events.begin[event], events.end[event]
        event_costs(prepared, end - begin, is_whole(run, begin, end, events.offset[event]), out[event])


@lean
def _write(
    bands: Bands,
    events: Meeting,
    run: Run,
    router: Router,
    scratch: Scratch,
    muted: Uint8s,
    any_muted: Scalar,
    event: Scalar,
    output: Int32s,
    used: Scalar,
    per_event: Int64s,
    choices: Int64s,
) -> tuple[Scalar, Scalar]:
    """Write the boxes of the events from `event` on until one does not fit; returns that event and what is used."""
    while event < len(events.a):
        per_event[event] = 0
        if events.begin[event] < events.end[event]:
            chosen = _choose(bands, events, run, router, scratch, event)
            n = stab(bands, events, run, chosen, scratch, event, False)
            if any_muted:
                n = drop_muted(scratch.found, n, muted)
            if used + n + OUTPUT_SLACK > len(output):
                return event, used
            used = write_sorted(scratch, n, output, used)
            per_event[event] = n
            choices[chosen] += 1
        event += 1
    return event, used


@lean
def _count(
    bands: Bands,
    events: Meeting,
    run: Run,
    router: Router,
    scratch: Scratch,
    muted: Uint8s,
    counts: Int64s,
    choices: Int64s,
) -> None:
    """Add all events to the counts of the boxes that they affect."""
    for event in range(len(events.a)):
        if events.begin[event] == events.end[event]:
            continue
        chosen = _choose(bands, events, run, router, scratch, event)
        n = drop_muted(scratch.found, stab(bands, events, run, chosen, scratch, event, False), muted)
        for i in range(n):
            counts[scratch.found[i]] += 1
        choices[chosen] += 1


@lean
def _cycles(
    bands: Bands, events: Meeting, run: Run, strategy: Scalar, silent: Scalar, scratch: Scratch, spent: Int64s
) -> None:
    for event in range(len(events.a)):
        if events.begin[event] < events.end[event]:
            started = cycles()
            n = stab(bands, events, run, strategy, scratch, event, silent)
            spent[event] = cycles() - started + (0 if n >= 0 else 1)
