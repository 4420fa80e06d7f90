"""The partial index of select joins: all constraints of a box are looked at by dimension, the event's side first.

Other indexes of joins reach boxes through one attribute of the event and one of its partners, and everything else is
checked of each candidate. Where queries constrain many attributes and none of them narrows much, nearly all candidates
fail. Here the boxes are in a tree over *all* their attributes that is tiled by those of the event's side
(`weir.index.trees.tiling`). For an event the tree is walked once, with the event's own attributes; the lanes that are
left are the candidates of its side, and they are compared with each partner, FANOUT at a time. That is partial
dimension filtering (CSJQ, 3.3): T1 + m' · T2 for m' partners.

It reports a box only if some partner satisfies all of it, but for times and for conditions over both sides. So it finds
fewer boxes than other indexes, which report what their two attributes cannot rule out; pairs are the same.

Cost of an event: `event` + `leaves` · L + `looks` · L · m', where L is the number of leaves that an average event
meets, known from their bounds. Size: 8 bytes a box and attribute, for each side that events come from.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Self

import numpy as np

from weir.index import ranks
from weir.index.access import Floats
from weir.index.box_tables import BoxTable, Int32s, Int64s, frozen, read_only
from weir.index.flat_arrays import flat, restored
from weir.index.jit import Scalar
from weir.index.meeting.collector import CollectedIndex, Events, StrategyRow, collects
from weir.index.meeting.index_contract import Listed, Meeting, Side, Tuning
from weir.index.meeting.instructions import lowest_bit
from weir.index.meeting.lean import lean, thin
from weir.index.meeting.planes import Plane
from weir.index.meeting.scratch import Scratch
from weir.index.ranks import RankSpace, rank_bounds, rank_keys
from weir.index.trees.rtree import plant
from weir.index.trees.tiling import expected_tiles, widths
from weir.index.trees.tree_index import dense_bounds
from weir.index.trees.tree_nodes import FANOUT, Nodes, ask_for, hit_lanes
from weir.index.trees.tree_search import AHEAD, Marked, Steps, make_marked, make_steps, take_steps

EVENT, LEAVES, LOOKS = 0, 1, 2  # terms of the cost of an event
WEIGHTS = (1_000.0, 90.0, 25.0)  # ns
BOXES_MIN = 4 * FANOUT * FANOUT  # boxes from which on a tree is worth its memory
CHECKED_NS = 12.0  # a candidate that fails when it is checked
CLEARLY = 2.0
_CELL_DIMS, _CELLS = 6, 5  # by so many dimensions events of a batch are sorted, into so many ranges of each


class PartialBoxes(NamedTuple):
    """Boxes in a tree; the dimensions of the event's side come first."""

    space: RankSpace
    nodes: Nodes
    n_own: Int64s  # int64[1]: dimensions of the event's side
    shares: Floats  # float64[2]: what an average box covers of the event's first dimension, and of the partners'


class PartialSearch(NamedTuple):
    """What the strategy reads during a search."""

    nodes: Nodes
    own_steps: Steps  # one step: the dimensions of the event's side
    other_dims: Int32s  # int32[·]
    own: Int32s  # int32[e, d]: ranks of events by dimension
    others: Int32s  # int32[m, d]: ranks of partners by dimension
    marked: Marked
    n_leaves: Floats  # float64[1]: leaves that an average event meets


@lean
def _candidates(search: PartialSearch, events: Events, scratch: Scratch, event: Scalar) -> Scalar:
    """The boxes that the event and some partner satisfy."""
    nodes, marked, others, dims = search.nodes, search.marked, search.others, search.other_dims
    take_steps(nodes, search.own_steps, search.own[event], 0, marked)
    level, child, lo, hi, out = nodes.level, nodes.child, nodes.lo, nodes.hi, scratch.found
    begin, end = events.begin[event], events.end[event]
    n = np.int64(0)
    for k in range(marked.sizes[0]):
        node = marked.node[0, k]
        if level[node] > 0:
            continue
        ask_for(lo, hi, marked.node[0, min(k + AHEAD, marked.sizes[0] - 1)], dims)
        left = np.uint32(marked.lanes[0, k])
        hit = np.uint64(0)
        for partner in range(begin, end):
            more = hit_lanes(lo, hi, node, dims, others[partner], left)
            hit |= np.uint64(more)
            left &= ~np.uint32(more)
            if left == 0:
                break
        while hit:
            out[n] = child[node, lowest_bit(hit)]
            hit &= hit - np.uint64(1)
            n += 1
    return n


@thin
def _estimate(search: PartialSearch, events: Events, scratch: Scratch, event: Scalar) -> None:
    leaves = search.n_leaves[0]
    partners = events.end[event] - events.begin[event]
    scratch.estimates[0] = WEIGHTS[EVENT] + leaves * (WEIGHTS[LEAVES] + WEIGHTS[LOOKS] * partners)


STRATEGIES = (StrategyRow("partial", WEIGHTS, _candidates),)
NAMES = tuple(row.name for row in STRATEGIES)

collects(PartialSearch, STRATEGIES, _estimate)


class PartialIndex(CollectedIndex):
    """Strategy "partial" of select joins."""

    kind = ""
    rows = STRATEGIES

    def __init__(self, plane: Plane, boxes: PartialBoxes) -> None:
        super().__init__(plane, 1)
        self._boxes = frozen(boxes)
        self._keeps = False  # whether all searches meet the same partners
        self._others: Int32s | None = None  # their ranks

    @classmethod
    def build(cls, plane: Plane, table: BoxTable, n_own: int, n_attributes: int) -> Self:
        """`table` has a box for each of the plane; its first `n_own` attributes are of the event's side.

        The first attribute of each side is what the plane is about, the others are what checks name, in their order.
        """
        made = cls.where_it_pays(plane, table, n_own, n_attributes, always=True)
        assert made is not None, "it is always built"
        return made

    @classmethod
    def where_it_pays(
        cls, plane: Plane, table: BoxTable, n_own: int, n_attributes: int, *, always: bool = False
    ) -> Self | None:
        """The same; None if it is not expected to be clearly cheaper than checking what the plane leaves."""
        n = len(plane.a_lo)
        if not always and (n < BOXES_MIN or n_own < 2):
            return None
        space = ranks.build(table, n_attributes)
        lo, hi = dense_bounds(table, *rank_bounds(space, table), np.arange(n_attributes, dtype=np.int32))
        tops = 2 * np.diff(space.point_offsets)
        width = widths(lo, hi, tops)
        by_tree = WEIGHTS[EVENT] + expected_tiles(width[:n_own], n) * (WEIGHTS[LEAVES] + WEIGHTS[LOOKS])
        if not always and CLEARLY * by_tree >= n * width[0] * width[n_own] * CHECKED_NS:
            return None
        nodes = plant(lo, hi, tops, np.arange(n_attributes) < n_own)
        return cls(plane, PartialBoxes(space, nodes, np.array([n_own], dtype=np.int64), width[[0, n_own]]))

    def arrays(self) -> dict[str, np.ndarray]:
        """All but the plane's."""
        return flat(self._boxes)

    @classmethod
    def restored(cls, plane: Plane, arrays: dict[str, np.ndarray]) -> Self:
        return cls(plane, restored(PartialBoxes, arrays))

    def for_batch(self) -> PartialIndex:
        """The same for searches that all meet the same partners: these are ranked once."""
        made = PartialIndex(self.plane, self._boxes)
        made._keeps = True
        return made

    def batch_order(self, a: Int64s, columns: Int64s) -> Int64s:
        """A permutation of events, by their own attributes: neighbours meet the same leaves, which are in the cache.

        Events are sorted into cells of a few ranges of each of the narrowest dimensions, and cells into a row in which
        each is beside the next.
        """
        n_own = int(self._boxes.n_own[0])
        events = Side(np.zeros(len(a), np.int64), columns)
        ranked = self._ranked(a, events, 0, n_own)
        code = np.zeros(len(a), np.int64)
        for dim in np.argsort(self._widths[:n_own], kind="stable")[:_CELL_DIMS].tolist():
            cell = ranked[:, dim].astype(np.int64) * _CELLS // (self._tops[dim] + 1)
            code = code * _CELLS + np.where(code % 2 == 0, cell, _CELLS - 1 - cell)
        return np.argsort(code, kind="stable")

    def left_by_two(self, meeting: Meeting, listed: Listed | None) -> Floats:
        """float64[e]: how many boxes an event's own first attribute and that of its partners leave, about."""
        own, other = self._boxes.shares
        n = len(self.plane.a_lo)
        selected = np.full(len(meeting.a), n * own) if listed is None else listed.selected.estimate(meeting.a)
        left: Floats = selected * np.minimum(1.0, (meeting.end - meeting.begin) * other)
        return left

    def _searched(self, meeting: Meeting, tuning: Tuning) -> PartialSearch:
        n_own, n_dims = int(self._boxes.n_own[0]), self._boxes.nodes.lo.shape[1]
        others = self._others
        if others is None:
            others = self._ranked(meeting.run.values, meeting.partners, n_own, n_dims)
            self._others = others if self._keeps else None
        own = self._ranked(meeting.a, meeting.events, 0, n_own)
        nodes: Nodes = self._boxes.nodes
        dims = np.arange(n_dims, dtype=np.int32)
        by_width = dims[np.argsort(self._widths, kind="stable")]
        steps = make_steps([by_width[by_width < n_own].tolist()])
        return PartialSearch(
            nodes,
            frozen(steps),
            read_only(by_width[by_width >= n_own]),
            read_only(own),
            read_only(others),
            make_marked(nodes, 1),
            read_only(np.array([self._n_leaves])),
        )

    def _ranked(self, first: Int64s, side: Side, begin: int, end: int) -> Int32s:
        """Ranks of one side's rows; those of the other side's dimensions are not set."""
        found = np.empty((len(side.times), self._boxes.nodes.lo.shape[1]), dtype=np.int32)
        for dim in range(begin, end):
            keys = first if dim == begin else side.columns[dim - begin - 1]
            keys = read_only(np.ascontiguousarray(keys[: len(found)], dtype=np.int64))
            rank_keys(self._boxes.space, dim, keys, 0, len(found), found[:, dim])
        return found

    @functools.cached_property
    def _tops(self) -> Int64s:
        return 2 * np.diff(self._boxes.space.point_offsets)

    @functools.cached_property
    def _widths(self) -> Floats:
        """What an average leaf covers of each dimension."""
        low, high = self._leaf_bounds
        return widths(low, high, self._tops)

    @functools.cached_property
    def _n_leaves(self) -> float:
        """The leaves that an average event meets, if events fall where constants do."""
        low, high = self._leaf_bounds
        n_own = int(self._boxes.n_own[0])
        tops = self._tops[:n_own]
        share = (np.minimum(high[:, :n_own], tops) - np.maximum(low[:, :n_own], 0) + 1.0) / (tops + 1.0)
        return float(np.clip(share, 0.0, 1.0).prod(axis=1).sum())

    @functools.cached_property
    def _leaf_bounds(self) -> tuple[Int32s, Int32s]:
        nodes = self._boxes.nodes
        leaves = np.flatnonzero(nodes.level == 0)
        return nodes.lo[leaves].min(axis=2), nodes.hi[leaves].max(axis=2)
