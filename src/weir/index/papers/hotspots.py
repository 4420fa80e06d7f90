"""Hotspots: the large groups of a stabbing partition, tracked while intervals come and go (SSI, 2.2).

With n intervals in all, a group of at least α n is an α-hotspot. Two structures hold the intervals: `hot`, groups with
disjoint cores, and `scattered`, a stabbing partition of the rest S with at most (1 + ε) τ(S) groups. A new interval
joins a hot group if it overlaps its core, else it goes to S. A group of S with at least α n members is promoted, a hot
group with less than (α/2) n demoted. Groups move as a whole, and into a group whose core overlaps theirs if there is
one, so that cores stay disjoint on either side.

Invariants (theorem 1), after every update:
- I1: all α-hotspots are hot, and whatever is hot is an (α/2)-hotspot; so there are at most 2/α hot groups.
- I2: there are at most (1 + ε) τ(I) + 2/α groups, since τ(S) <= τ(I).
- I3: u updates move at most 5 u intervals into or out of S, not counting the insertion or deletion itself.

Why I3 holds: an insertion pays 2α to each hot group, of which there are at most 2/α, and 1 for the new interval if it
goes to S; a deletion pays 2 to the hot group that it shrinks. An interval of S has 1 to pay for its promotion. Between
the promotion of a group (x0 >= α n0 members) and its demotion (x1 < α n1 / 2), k insertions and d deletions pay it at
least 2 (x0 − x1) + 2 α k >= α n1: enough to move x1 intervals and to leave 1 with each. A promoted group that is merged
into a hot one only makes that one larger, and one that is demoted into a group of S moves as many intervals.

Whether some group is beyond its threshold is decided by two bounds, a count that no group of S exceeds and one that no
hot group is below; groups are looked through only when a bound is beyond the threshold, and then it becomes exact.

Cost: O(log g) for an update and for each of its moves, rebuilds of the partition of S included as they come; and a
look through g groups when n has changed by about 1/α.

One of the papers' structures: importable and tested, not used by production.
"""

from __future__ import annotations

import math
from array import array

from weir.index.papers.disjoint_groups import DisjointGroup, DisjointGroups
from weir.index.papers.stabbing_partition import StabbingPartition


class HotspotTracker:
    """Intervals in hot and scattered stabbing groups, under insertions and deletions."""

    def __init__(self, alpha: float, epsilon: float, trigger: str = "witnesses") -> None:
        assert 0 < alpha <= 1, f"α is a share of all intervals, not {alpha}"
        self.alpha = alpha
        self.moves_in = 0  # intervals that demotions moved into S
        self.moves_out = 0  # intervals that promotions moved out of S
        self.updates = 0
        self._hot = DisjointGroups()
        self._scattered = StabbingPartition(epsilon, trigger)
        self._is_hot = bytearray()  # by id
        self._inner = array("q")  # by id: the id in `_hot` or in `_scattered`
        self._free_ids: list[int] = []
        self._hot_ids: list[int] = []  # by id in `_hot`: the id here
        self._scattered_ids: list[int] = []
        self._largest = 0.0  # no group of S has more members
        self._smallest = math.inf  # no hot group has fewer

    def __len__(self) -> int:
        """How many intervals there are."""
        return len(self._hot) + len(self._scattered)

    @property
    def size(self) -> int:
        """How many groups there are, hot or scattered."""
        return self._hot.size + self._scattered.size

    @property
    def rebuilds(self) -> int:
        """How often the partition of S was made anew."""
        return self._scattered.rebuilds

    @property
    def scattered(self) -> list[int]:
        """Ids of the scattered intervals."""
        return [id for group in self.scattered_groups() for id in group.members]

    def is_hot(self, id: int) -> bool:
        return bool(self._is_hot[id])

    def hotspots(self) -> list[DisjointGroup]:
        """The hot groups by ascending point."""
        return [
            DisjointGroup(point, [self._hot_ids[inner] for inner in members]) for point, members in self._hot.groups()
        ]

    def scattered_groups(self) -> list[DisjointGroup]:
        """The other groups by ascending point."""
        ids = self._scattered_ids
        return [DisjointGroup(point, [ids[inner] for inner in members]) for point, members in self._scattered.groups()]

    def insert(self, lo: int, hi: int) -> int:
        """Add an interval; its id."""
        assert lo <= hi, "an interval is not empty"
        self.updates += 1
        inner = self._hot.join(lo, hi)
        if inner >= 0:
            id = self._new_id(inner, 1)
            _put(self._hot_ids, inner, id)
        else:
            rebuilds = self._scattered.rebuilds
            inner = self._scattered.insert(lo, hi)
            id = self._new_id(inner, 0)
            _put(self._scattered_ids, inner, id)
            self._see_scattered(inner, rebuilds)
        self._settle()
        return id

    def delete(self, id: int) -> None:
        """Take an interval out; its id may be given to another one later."""
        self.updates += 1
        inner = self._inner[id]
        if self._is_hot[id]:
            group = self._hot.group_of(inner)
            self._hot.delete(inner)
            count = self._hot.count_of(group)
            if 0 < count < self._smallest:
                self._smallest = count
        else:
            rebuilds = self._scattered.rebuilds
            self._scattered.delete(inner)
            if self._scattered.rebuilds != rebuilds:
                self._largest = math.inf
        self._inner[id] = -1
        self._free_ids.append(id)
        self._settle()

    def _new_id(self, inner: int, is_hot: int) -> int:
        if self._free_ids:
            id = self._free_ids.pop()
            self._inner[id], self._is_hot[id] = inner, is_hot
        else:
            id = len(self._inner)
            self._inner.append(inner)
            self._is_hot.append(is_hot)
        return id

    def _see_scattered(self, inner: int, rebuilds: int) -> None:
        """Keep `_largest` true: the group of `inner` has grown, and a rebuild has made new groups of all."""
        if self._scattered.rebuilds != rebuilds:
            self._largest = math.inf
        else:
            count = self._scattered.count_of(self._scattered.group_of(inner))
            if count > self._largest:
                self._largest = count

    def _settle(self) -> None:
        """Demote and promote until I1 holds. What was promoted is large enough to stay, so this ends."""
        n = len(self._hot) + len(self._scattered)
        if self._smallest < self.alpha / 2 * n:
            self._demote(self.alpha / 2 * n)
        if self._largest >= self.alpha * n:
            self._promote(self.alpha * n)

    def _demote(self, count_min: float) -> None:
        """Move hot groups with fewer members to S."""
        for group in list(self._hot.numbers()):
            if self._hot.count_of(group) >= count_min:
                continue
            taken = self._hot.take_group(group)
            rebuilds = self._scattered.rebuilds
            inner_ids = self._scattered.insert_group(taken)
            for before, inner in zip(taken.ids, inner_ids, strict=True):
                id = self._hot_ids[before]
                self._inner[id], self._is_hot[id] = inner, 0
                _put(self._scattered_ids, inner, id)
            self._see_scattered(inner_ids[0], rebuilds)
            self.moves_in += len(inner_ids)
        self._smallest = min((self._hot.count_of(group) for group in self._hot.numbers()), default=math.inf)

    def _promote(self, count_min: float) -> None:
        """Move the groups of S with so many members to the hot ones."""
        while groups := self._scattered.larger(count_min):
            # One at a time: taking it out may rebuild the partition of S and change all other groups.
            taken = self._scattered.take_group(groups[0])
            inner_ids = self._hot.insert_group(taken)
            for before, inner in zip(taken.ids, inner_ids, strict=True):
                id = self._scattered_ids[before]
                self._inner[id], self._is_hot[id] = inner, 1
                _put(self._hot_ids, inner, id)
            self._smallest = min(self._smallest, self._hot.count_of(self._hot.group_of(inner_ids[0])))
            self.moves_out += len(inner_ids)
        self._largest = max((self._scattered.count_of(group) for group in self._scattered.numbers()), default=0)


def _put(ids: list[int], inner: int, id: int) -> None:
    """Note the id of an inner id; inner ids are given out without gaps."""
    if inner == len(ids):
        ids.append(id)
    else:
        ids[inner] = id
