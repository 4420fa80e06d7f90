"""A stabbing partition under insertions and deletions: at most (1 + ε) τ(I) groups at any time (thesis, 4.2.3).

τ(I) is the size of the canonical partition (`weir.index.stabbing`). The strategy is the lazy one of the thesis: a new
interval joins a group whose core it overlaps or makes a group of its own (`disjoint_groups`); a deletion takes it out
of its group; when the bound is in danger (`stabbing_triggers`) the canonical partition is made anew. Right after that,
cores are the common intersections and thus disjoint: a group begins beyond the point of the one before.

Cost: an update, O(log g) for g groups; a rebuild, O(n) and a sort that is linear where intervals are in the order of
the last one. How often there is a rebuild depends on the trigger: at worst every ε τ0 / (ε + 2) updates, with witnesses
in practice seldom.

One of the papers' structures: importable and tested, not used by production.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Self

import numpy as np

from weir.index.box_tables import Int64s, read_only
from weir.index.papers.disjoint_groups import NONE, DisjointGroups, TakenGroup
from weir.index.papers.stabbing_triggers import TRIGGERS, Interval, Trigger
from weir.index.stabbing import checked_bounds, sweep_groups


class StabbingPartition(DisjointGroups):
    """A stabbing partition of at most (1 + ε) τ(I) groups, under insertions and deletions."""

    def __init__(self, epsilon: float, trigger: str = "witnesses") -> None:
        assert epsilon > 0, f"ε is positive, not {epsilon}"
        super().__init__()
        self.epsilon = epsilon
        self.rebuilds = 0  # how often the canonical partition was made anew: groups have other numbers afterwards
        self._trigger: Trigger = TRIGGERS[trigger](epsilon)
        self._order: Int64s = np.empty(0, np.int64)  # ids by ascending lo, as of the last rebuild

    @classmethod
    def of(cls, lo: Int64s, hi: Int64s, epsilon: float, trigger: str = "witnesses") -> Self:
        """The canonical partition of these intervals; the id of each is its position."""
        lo, hi = checked_bounds(lo, hi)
        made = cls(epsilon, trigger)
        n = len(lo)
        made._lo, made._hi = array("q", lo.tobytes()), array("q", hi.tobytes())
        made._group = array("i", bytes(4 * n))
        made._after, made._before = array("q", bytes(8 * n)), array("q", bytes(8 * n))
        made._make_canonical()
        return made

    def insert(self, lo: int, hi: int) -> int:
        id = super().insert(lo, hi)
        if self._trigger.inserted(id, lo, hi, len(self._ends)):
            self._rebuild()
        return id

    def join(self, lo: int, hi: int) -> int:
        id = super().join(lo, hi)
        if id >= 0 and self._trigger.inserted(id, lo, hi, len(self._ends)):
            self._rebuild()
        return id

    def delete(self, id: int) -> None:
        group = self._group[id]
        super().delete(id)
        if self._trigger.deleted(id, self._lo[id], self._hi[id], len(self._ends), self._intervals_in(group)):
            self._rebuild()

    def insert_group(self, taken: TakenGroup) -> list[int]:
        ids = super().insert_group(taken)
        due = False
        for id, lo, hi in zip(ids, taken.lo, taken.hi, strict=True):
            due = self._trigger.inserted(id, lo, hi, len(self._ends))  # the last one has seen all
        if due:
            self._rebuild()
        return ids

    def take_group(self, group: int) -> TakenGroup:
        taken = super().take_group(group)
        due = False
        for id, lo, hi in zip(taken.ids, taken.lo, taken.hi, strict=True):
            due |= self._trigger.deleted(id, lo, hi, len(self._ends), ())
        if due:
            self._rebuild()
        return taken

    def _intervals_in(self, group: int) -> Iterator[Interval]:
        """The members of a group, which may be gone by now."""
        if self._count[group]:
            for id in self.members_of(group):
                yield Interval(id, self._lo[id], self._hi[id])

    def _rebuild(self) -> None:
        self.rebuilds += 1
        self._make_canonical()

    def _make_canonical(self) -> None:
        """Put the intervals that are there into the groups of the canonical partition."""
        if not self._lo:  # NumPy makes no array of an empty buffer
            return
        lo, hi = read_only(np.frombuffer(self._lo, np.int64)), read_only(np.frombuffer(self._hi, np.int64))
        groups = np.frombuffer(self._group, np.int32)
        after, before = np.frombuffer(self._after, np.int64), np.frombuffer(self._before, np.int64)
        # What was in order stays in order, so that the sort, which looks for ascending runs, has little to do.
        known = self._order[groups[self._order] >= 0]
        new = groups >= 0
        new[known] = False
        order = np.concatenate((known, np.flatnonzero(new)))
        order = read_only(order[np.argsort(lo[order], kind="stable")])
        begins, points, ends_at = sweep_groups(order, lo, hi, groups)
        g = len(points)
        # Groups are runs of that order, and so are their lists of members.
        runs = np.searchsorted(groups[order], np.arange(g + 1))
        after[order[:-1]], after[order[runs[1:] - 1]] = order[1:], NONE
        before[order[1:]], before[order[runs[:-1]]] = order[:-1], NONE
        self._begin, self._end, self._ends = begins.tolist(), points.tolist(), points.tolist()
        self._count, self._first = np.diff(runs).tolist(), order[runs[:-1]].tolist()
        self._lost, self._free_groups, self._group_at = [0] * g, [], list(range(g))
        self._order = order
        witnesses = zip(ends_at.tolist(), lo[ends_at].tolist(), points.tolist(), strict=True)
        self._trigger.rebuilt([Interval(*witness) for witness in witnesses], g)
