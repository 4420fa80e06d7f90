"""Stabbing partitions: intervals in groups that one point each stabs (SSI, 2.1).

`canonical` is the greedy partition: intervals by ascending `lo`; a group takes intervals as long as their common
intersection is not empty. The point of a group is the least `hi` in it. It is minimal (SSI, lemma 1), because the
intervals that end at the points are pairwise disjoint: each begins beyond the point of the group before. A partition
needs a point for each of them, so none has fewer groups.

`StabbingPartition` keeps a partition of at most (1 + ε) τ(I) groups while intervals are inserted and deleted, where
τ(I) is the size of the canonical one: the lazy strategy of the thesis, 4.2.3. A new interval joins a group whose core
it overlaps or makes a group of its own (`weir.index.disjoint_groups`); a deletion takes it out of its group; when the
bound is in danger (`weir.index.stabbing_triggers`) the canonical partition is made anew. Right after that, cores are
the common intersections and thus disjoint: a group begins beyond the point of the one before.

Bounds are closed and in keys; an interval may begin at the least int64 and end at the greatest.

Cost: canonical, a sort of n intervals by `lo` and one pass. An update, O(log g) for g groups; a rebuild, O(n) and a
sort that is linear where intervals are in the order of the last one. How often there is a rebuild depends on the
trigger: at worst every ε τ0 / (ε + 2) updates, with witnesses in practice seldom.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from weir.index.boxes import Int32s, Int64s, read_only
from weir.index.disjoint_groups import NONE, DisjointGroups, TakenGroup
from weir.index.jit import Scalar, kernel
from weir.index.stabbing_triggers import TRIGGERS, Interval, Trigger


class Partition(NamedTuple):
    """Intervals in groups, each with a point that lies in all its intervals."""

    group_of_interval: Int32s  # int32[n]: number of the interval's group
    points: Int64s  # int64[g]: stabbing point of each group, strictly ascending


def canonical(lo: Int64s, hi: Int64s) -> Partition:
    """The greedy partition of the closed intervals [lo, hi]: no stabbing partition has fewer groups."""
    lo, hi = _checked(lo, hi)
    groups = np.empty(len(lo), np.int32)
    _, points, _ = _sweep(read_only(np.argsort(lo, kind="stable")), lo, hi, groups)
    return Partition(groups, points)


def _checked(lo: Int64s, hi: Int64s) -> tuple[Int64s, Int64s]:
    """Bounds with one layout, so that kernels are compiled once."""
    lo = np.ascontiguousarray(lo, dtype=np.int64)
    hi = np.ascontiguousarray(hi, dtype=np.int64)
    assert lo.shape == hi.shape, f"{len(lo)} lower bounds, but {len(hi)} upper bounds"
    assert bool(np.all(lo <= hi)), "an interval is not empty"
    return read_only(lo), read_only(hi)


@kernel
def _sweep(order: Int64s, lo: Int64s, hi: Int64s, groups: Int32s) -> Scalar:
    """Fill in the group of each interval; of each group its common intersection and which interval ends with that."""
    n = len(order)
    begins, points, ends_at = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    g = -1
    for k in range(n):
        i = order[k]
        if g < 0 or lo[i] > points[g]:
            g += 1
            points[g], ends_at[g] = hi[i], i
        elif hi[i] < points[g]:
            points[g], ends_at[g] = hi[i], i
        begins[g] = lo[i]  # ascending, so the last one is the greatest
        groups[i] = g
    return begins[: g + 1].copy(), points[: g + 1].copy(), ends_at[: g + 1].copy()


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
        lo, hi = _checked(lo, hi)
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
        begins, points, ends_at = _sweep(order, lo, hi, groups)
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
