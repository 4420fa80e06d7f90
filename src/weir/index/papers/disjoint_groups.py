"""Disjoint groups: intervals that come and go, in stabbing groups whose intersections do not overlap.

A group keeps an interval [begin, end] that lies in all its members, the *core*: their common intersection, or a part
of it. Invariant: cores are pairwise disjoint. So one order, by `end`, orders the begins too, and the first group whose
core ends at or after `lo` is the first that can overlap [lo, hi]: one binary search finds a group that a new interval
can join, or proves that there is none.

Why it holds: a join only shrinks a core; a new group is made only of an interval that overlaps no core, and its core
is that interval. A deletion may widen the common intersection of what is left, but the core stays as it is. Only when
a group has lost as many members as it has left is its core found anew, and no further than to the cores next to it; so
deletions pay for that with O(1) each.

Arrays are flat: bounds, group and neighbours of each interval by its id (`array`, which Python reads fast and NumPy
without a copy); core, size and first member of each group by its number; `_ends` and `_group_at` by place in the order.
The members of a group are a doubly linked list. An id or a group number is used again after its interval or its group
is gone.

Cost: an update is a binary search over g groups and O(1) steps, a new or an emptied group in addition a memory move of
up to 16 g bytes. SSI 2.2 and the thesis, 4.2.3, keep intersections so; that no two overlap is ours.

One of the papers' structures: importable and tested, not used by production.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

NONE = -1


class DisjointGroup(NamedTuple):
    """One group of a stabbing partition."""

    point: int  # lies in every member
    members: list[int]  # ids, in any order


class TakenGroup(NamedTuple):
    """A group that was taken out."""

    ids: list[int]  # of its members, where it was
    lo: list[int]
    hi: list[int]
    core: tuple[int, int]  # lies in all of them


class DisjointGroups:
    """A stabbing partition under insertions and deletions, with no promise about its size."""

    def __init__(self) -> None:
        self._lo = array("q")  # by id
        self._hi = array("q")
        self._group = array("i")  # NONE: the id is free
        self._after = array("q")  # next and previous member of the same group, NONE at either end
        self._before = array("q")
        self._free_ids: list[int] = []
        self._begin: list[int] = []  # by group number
        self._end: list[int] = []
        self._count: list[int] = []  # 0: the number is free
        self._first: list[int] = []
        self._lost: list[int] = []  # members deleted since the core was found
        self._free_groups: list[int] = []
        self._ends: list[int] = []  # by place: strictly ascending
        self._group_at: list[int] = []

    def __len__(self) -> int:
        """How many intervals there are."""
        return len(self._lo) - len(self._free_ids)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self._ends)

    def bounds(self, id: int) -> tuple[int, int]:
        return self._lo[id], self._hi[id]

    def group_of(self, id: int) -> int:
        """The number of the interval's group."""
        group = self._group[id]
        assert group >= 0, f"there is no interval {id}"
        return group

    def point_of(self, id: int) -> int:
        """A point that stabs every interval of the group of `id`."""
        return self._end[self.group_of(id)]

    def count_of(self, group: int) -> int:
        """How many members a group has; 0 if there is no group of that number."""
        return self._count[group]

    def core_of(self, group: int) -> tuple[int, int]:
        """An interval that lies in every member of the group and overlaps no other core."""
        return self._begin[group], self._end[group]

    def members_of(self, group: int) -> Iterator[int]:
        """Ids of the group's members; the group must not change meanwhile."""
        id = self._first[group]
        while id >= 0:
            yield id
            id = self._after[id]

    def numbers(self) -> Sequence[int]:
        """Numbers of the groups by ascending point."""
        return self._group_at

    def larger(self, count: float) -> list[int]:
        """Numbers of the groups that have at least `count` members."""
        counts = self._count
        return [group for group in self._group_at if counts[group] >= count]

    def groups(self) -> list[DisjointGroup]:
        """All groups by ascending point."""
        return [DisjointGroup(self._end[group], list(self.members_of(group))) for group in self._group_at]

    def insert(self, lo: int, hi: int) -> int:
        """Put an interval into a group whose core it overlaps, or else into one of its own; its id."""
        assert lo <= hi, "an interval is not empty"
        place = bisect_left(self._ends, lo)
        group = self._narrowed(place, lo, hi)
        if group < 0:
            group = self._open(place, lo, hi)
        return self._append(lo, hi, group)

    def join(self, lo: int, hi: int) -> int:
        """Put an interval into a group whose core it overlaps; its id, or NONE if there is no such group."""
        group = self._narrowed(bisect_left(self._ends, lo), lo, hi)
        return NONE if group < 0 else self._append(lo, hi, group)

    def insert_group(self, taken: TakenGroup) -> list[int]:
        """Put a group in, into one whose core overlaps its own if there is such a group; new ids of its members."""
        begin, end = taken.core
        place = bisect_left(self._ends, begin)
        group = self._narrowed(place, begin, end)
        if group < 0:
            group = self._open(place, begin, end)
        return [self._append(lo, hi, group) for lo, hi in zip(taken.lo, taken.hi, strict=True)]

    def delete(self, id: int) -> None:
        """Take an interval out; a group without members goes too."""
        group = self._group[id]
        assert group >= 0, f"there is no interval {id}"
        before, after = self._before[id], self._after[id]
        if before >= 0:
            self._after[before] = after
        else:
            self._first[group] = after
        if after >= 0:
            self._before[after] = before
        self._group[id] = NONE
        self._free_ids.append(id)
        count = self._count[group] - 1
        self._count[group] = count
        if count == 0:
            self._close(group)
            return
        lost = self._lost[group] + 1
        self._lost[group] = lost
        if lost >= count:
            self._widen(group)

    def take_group(self, group: int) -> TakenGroup:
        """Take a group out with all its members; their ids are free afterwards."""
        ids = list(self.members_of(group))
        core = self.core_of(group)
        for id in ids:
            self._group[id] = NONE
        self._free_ids.extend(ids)
        self._count[group] = 0
        self._close(group)
        return TakenGroup(ids, [self._lo[id] for id in ids], [self._hi[id] for id in ids], core)

    def _narrowed(self, place: int, lo: int, hi: int) -> int:
        """The group at `place`, its core cut down to what overlaps [lo, hi]; NONE if nothing does.

        `place` is that of the first core that ends at or after `lo`.
        """
        ends = self._ends
        if place == len(ends):
            return NONE
        group = self._group_at[place]
        begin = self._begin[group]
        if begin > hi:
            return NONE
        if lo > begin:
            self._begin[group] = lo
        if hi < ends[place]:
            ends[place] = self._end[group] = hi
        return group

    def _append(self, lo: int, hi: int, group: int) -> int:
        """A new first member of `group`, whose core it contains."""
        after = self._first[group]
        if self._free_ids:
            id = self._free_ids.pop()
            self._lo[id], self._hi[id], self._group[id] = lo, hi, group
            self._after[id], self._before[id] = after, NONE
        else:
            id = len(self._lo)
            self._lo.append(lo)
            self._hi.append(hi)
            self._group.append(group)
            self._after.append(after)
            self._before.append(NONE)
        if after >= 0:
            self._before[after] = id
        self._first[group] = id
        self._count[group] += 1
        return id

    def _open(self, place: int, begin: int, end: int) -> int:
        """A new group without members; its core overlaps no other."""
        if self._free_groups:
            group = self._free_groups.pop()
            self._begin[group], self._end[group] = begin, end
            self._count[group] = self._lost[group] = 0
            self._first[group] = NONE
        else:
            group = len(self._begin)
            self._begin.append(begin)
            self._end.append(end)
            self._count.append(0)
            self._lost.append(0)
            self._first.append(NONE)
        self._ends.insert(place, end)
        self._group_at.insert(place, group)
        return group

    def _close(self, group: int) -> None:
        """Take an empty group out of the order."""
        place = bisect_left(self._ends, self._end[group])
        del self._ends[place], self._group_at[place]
        self._free_groups.append(group)

    def _widen(self, group: int) -> None:
        """Find the core anew: the members' common intersection as far as it is clear of the cores next to it."""
        place = bisect_left(self._ends, self._end[group])
        begin = max(self._lo[id] for id in self.members_of(group))
        end = min(self._hi[id] for id in self.members_of(group))
        if place > 0:
            begin = max(begin, self._ends[place - 1] + 1)
        if place + 1 < len(self._ends):
            end = min(end, self._begin[self._group_at[place + 1]] - 1)
        self._begin[group] = begin
        self._ends[place] = self._end[group] = end
        self._lost[group] = 0
