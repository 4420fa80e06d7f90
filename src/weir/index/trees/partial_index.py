"""The partial index of select joins: all constraints of a box are looked at by dimension, the event's side first.

Other indexes of joins reach boxes through one attribute of the event and one of its partners, and everything else is
checked of each candidate. Where queries constrain many attributes and none of them narrows much, nearly all candidates
fail. Here the boxes are in leaves over *all* their attributes that are tiled by those of the event's side
(`weir.index.trees.byte_boxes`). For an event the leaves are looked at once, with the event's own attributes; the lanes
that are left are the candidates of its side, and they are compared with each partner, 64 at a time. That is partial
dimension filtering (CSJQ, 3.3): T1 + m' · T2 for m' partners.

It finds joining pairs, not boxes: a lane that is left is one (`weir.index.trees.partial_pairs`).

Cost of an event: `event` + `groups` · g + `leaves` · L + `looks` · L · m', where g is the number of groups of leaves, L
that of leaves that an average event meets, known from their bounds. Size: 4 bytes a box and attribute, for each side
that events come from.
"""

from __future__ import annotations

import functools
from typing import Self

import numpy as np

from weir.index.access import Floats
from weir.index.box_tables import BoxTable, Int64s, Uint8s, frozen, read_only
from weir.index.flat_arrays import flat, restored
from weir.index.meeting.index_contract import TAKEN, Listed, Meeting, Pairing, PairWriter, Side, Tuning
from weir.index.meeting.instructions import BYTES
from weir.index.meeting.planes import Plane
from weir.index.trees.byte_boxes import ByteBoxes, Cuts, build, coded, coded_bounds, find_cuts, leaf_shares, tops_of
from weir.index.trees.partial_pairs import Codes, TreeWriter, make_search
from weir.index.trees.tiling import expected_tiles, widths

EVENT, GROUPS, LEAVES, LOOKS = 1_000.0, 7.0, 30.0, 8.0  # ns: the terms of the cost of an event
BOXES_MIN = 1_024  # boxes from which on an index by all attributes is worth its memory
CHECKED_NS = 12.0  # a candidate of two attributes that fails when it is checked
CLEARLY = 2.0
NAMES = ("partial",)
_CELL_DIMS, _CELLS = 6, 5  # by so many dimensions events of a batch are sorted, into so many ranges of each


class PartialIndex:
    """Strategy "partial" of select joins: what `weir.index.meeting.index_contract.PairFinder` says."""

    name = NAMES[0]

    def __init__(self, plane: Plane, boxes: ByteBoxes, cuts: Cuts, shares: Floats) -> None:
        """`shares`: what an average box covers of the event's first dimension, and of the partners'."""
        self.plane = plane
        self._boxes, self._cuts, self._shares = frozen(boxes), frozen(cuts), read_only(shares)
        self._keeps = False  # whether all searches meet the same partners
        self._others: Codes | None = None  # their codes

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
        cuts = find_cuts(table, n_attributes)
        lo, hi = coded_bounds(frozen(cuts), table)
        width = widths(lo, hi, tops_of(cuts))
        tiles = expected_tiles(width[:n_own], n, BYTES)
        by_tree = EVENT + GROUPS * n / BYTES**2 + tiles * (LEAVES + LOOKS)
        if not always and CLEARLY * by_tree >= n * width[0] * width[n_own] * CHECKED_NS:
            return None
        return cls(plane, build(lo, hi, cuts, n_own), cuts, width[[0, n_own]])

    def arrays(self) -> dict[str, np.ndarray]:
        """All but the plane's."""
        return flat(self._boxes, "boxes") | flat(self._cuts, "cuts") | {"shares": self._shares}

    @classmethod
    def restored(cls, plane: Plane, arrays: dict[str, np.ndarray]) -> Self:
        return cls(plane, restored(ByteBoxes, arrays, "boxes"), restored(Cuts, arrays, "cuts"), arrays["shares"])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def for_batch(self) -> PartialIndex:
        """The same for searches that all meet the same partners: these are coded once."""
        made = PartialIndex(self.plane, self._boxes, self._cuts, self._shares)
        made.__dict__["_leaf_shares"], made.__dict__["_n_leaves"] = self._leaf_shares, self._n_leaves  # once a segment
        made._keeps = True
        return made

    def batch_order(self, a: Int64s, columns: Int64s) -> Int64s:
        """A permutation of events, by their own attributes: neighbours meet the same leaves, which are in the cache.

        Events are sorted into cells of a few ranges of each of the narrowest dimensions, and cells into a row in which
        each is beside the next.
        """
        codes, _ = self._codes(a, Side(np.zeros(len(a), np.int64), columns), 0, self._n_own)
        number = self._cuts.number[self._boxes.dims]
        cell_of_row = np.zeros(len(a), np.int64)
        for place in np.argsort(self._leaf_shares.mean(axis=0), kind="stable")[:_CELL_DIMS].tolist():
            cell = codes[:, place].astype(np.int64) * _CELLS // (number[place] + 2)
            cell_of_row = cell_of_row * _CELLS + np.where(cell_of_row % 2 == 0, cell, _CELLS - 1 - cell)
        return np.argsort(cell_of_row, kind="stable")

    def left_by_two(self, meeting: Meeting, listed: Listed | None) -> Floats:
        """float64[e]: how many boxes an event's own first attribute and that of its partners leave, about."""
        own, other = self._shares.tolist()
        n = len(self.plane.a_lo)
        selected = np.full(len(meeting.a), n * own) if listed is None else listed.selected.estimate(meeting.a)
        left: Floats = selected * np.minimum(1.0, (meeting.end - meeting.begin) * other)
        return left

    def estimates(self, meeting: Meeting) -> Floats:
        """float64[e]: what finding the pairs of each event is expected to cost, ns."""
        fixed = EVENT + GROUPS * len(self._boxes.groups) + LEAVES * self._n_leaves
        return np.asarray(fixed + LOOKS * self._n_leaves * (meeting.end - meeting.begin), np.float64)

    def takes(self, meeting: Meeting, tuning: Tuning) -> Uint8s:
        """All events, if it is asked at all."""
        wanted = tuning.strategy in ("auto", self.name)
        return np.full(len(meeting.a), TAKEN if wanted else 0, np.uint8)

    def writer(self, of: Pairing, muted: Uint8s) -> PairWriter:
        """A search for the pairs of these events."""
        boxes, n_own = self._boxes, self._n_own
        others = self._others
        if others is None:
            others = self._codes(of.run.values, of.partners, n_own, len(boxes.dims))
            self._others = others if self._keeps else None
        own, doubtful = self._codes(of.a, of.events, 0, n_own), self._cuts.is_exact[boxes.dims] == 0
        n_doubtful = int(doubtful[:n_own].sum()), int(doubtful[n_own:].sum())
        return TreeWriter(make_search(boxes, own, others, n_doubtful, muted, len(self.plane.a_lo)), of)

    def _codes(self, first: Int64s, side: Side, begin: int, end: int) -> Codes:
        """Codes of one side's rows, in the dimensions from `begin` up to `end`."""
        found = Codes(*np.empty((2, len(side.times), end - begin), np.uint8))
        for place, attribute in enumerate(self._boxes.dims[begin:end].tolist()):
            keys = first[: len(side.times)] if attribute == begin else side.columns[attribute - begin - 1]
            found.coarse[:, place], found.fine[:, place] = coded(self._cuts, attribute, keys)
        return found

    @property
    def _n_own(self) -> int:
        return int(self._boxes.groups.shape[1])

    @functools.cached_property
    def _leaf_shares(self) -> Floats:
        return leaf_shares(self._boxes, self._cuts)

    @functools.cached_property
    def _n_leaves(self) -> float:
        """The leaves that an average event meets, if events fall where constants do."""
        return float(self._leaf_shares.prod(axis=1).sum())
