"""Triggers: when a stabbing partition under updates must be made anew to stay within (1 + ε) τ(I) groups.

τ(I), the least number of points that stab all intervals, is not known between two rebuilds, so a trigger keeps a
lower bound of it, from what it sees of the updates. All start from a rebuild, which left τ0 = τ(I) groups. An insertion
adds at most one group and never lowers τ(I); a deletion adds none and lowers τ(I) by at most one.

- `Updates`: rebuild after ε τ0 / (ε + 2) updates (thesis, lemma 12). k updates leave at most τ0 + k groups, and τ(I) is
  at least τ0 − k.
- `Deletions`: rebuild when there are more than (1 + ε)(τ0 − m) groups, where m counts deleted intervals that were
  there at the rebuild (thesis, 4.2.3, the relaxed condition). What is left of those needs at least τ0 − m points.
- `Witnesses` (ours): rebuild when there are more than (1 + ε) w groups, where w is the number of living *witnesses*,
  intervals that are pairwise disjoint. Each needs a point of its own, so τ(I) >= w at any time. After a rebuild there
  are τ0 of them, those that end at the points of the canonical partition. Only the deletion of a witness lowers w, and
  not even that if another interval fits into the gap. So w >= τ0 − m, and the condition is weaker than that of
  `Deletions`: with n intervals in few groups, that one rebuilds after about ε τ0 / (1 + ε) deletions, this one after
  about as many deletions of witnesses, which are τ0 in n.

The bound holds at all times because every trigger is asked after every update, and a rebuild leaves exactly τ(I)
groups. Corners: without intervals there are no groups, and (1 + ε) · 0 allows none; the first insertion into an empty
set is a rebuild, unless it becomes a witness; when m exceeds τ0, the lower bound is negative and any group exceeds it.

Cost: O(1) for an update, with witnesses two binary searches.

One of the papers' structures: importable and tested, not used by production.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

REPLACEMENTS_MAX = 16  # members of a group that are tried in the place of a deleted witness


class Interval(NamedTuple):
    """A closed interval and its id."""

    id: int
    lo: int
    hi: int


class Trigger(Protocol):
    """Sees every update, after it was made, and says whether a rebuild is due. `size` is the number of groups."""

    def rebuilt(self, witnesses: Iterable[Interval], size: int) -> None: ...
    def inserted(self, id: int, lo: int, hi: int, size: int) -> bool: ...
    def deleted(self, id: int, lo: int, hi: int, size: int, others: Iterable[Interval]) -> bool: ...


class Updates:
    """A rebuild after a fixed share of τ0 updates."""

    def __init__(self, epsilon: float) -> None:
        self._share = epsilon / (epsilon + 2)
        self._updates = 0
        self._allowed = 0.0

    def rebuilt(self, witnesses: Iterable[Interval], size: int) -> None:
        self._updates = 0
        self._allowed = self._share * size

    def inserted(self, id: int, lo: int, hi: int, size: int) -> bool:
        self._updates += 1
        return self._updates > self._allowed

    def deleted(self, id: int, lo: int, hi: int, size: int, others: Iterable[Interval]) -> bool:
        self._updates += 1
        return self._updates > self._allowed


class Deletions:
    """A rebuild when there are too many groups for what is left of the intervals of the last one."""

    def __init__(self, epsilon: float) -> None:
        self._ratio = 1 + epsilon
        self._least = 0  # τ0 − m
        self._young: set[int] = set()  # intervals inserted since the rebuild

    def rebuilt(self, witnesses: Iterable[Interval], size: int) -> None:
        self._least = size
        self._young.clear()

    def inserted(self, id: int, lo: int, hi: int, size: int) -> bool:
        self._young.add(id)
        return size > self._ratio * self._least

    def deleted(self, id: int, lo: int, hi: int, size: int, others: Iterable[Interval]) -> bool:
        if id in self._young:
            self._young.remove(id)
        else:
            self._least -= 1
        return size > self._ratio * self._least


class Witnesses:
    """A rebuild when there are too many groups for the pairwise disjoint intervals that are known."""

    def __init__(self, epsilon: float) -> None:
        self._ratio = 1 + epsilon
        self._ids: set[int] = set()
        self._lo: list[int] = []  # ascending
        self._hi: list[int] = []  # ascending, because witnesses are disjoint

    def rebuilt(self, witnesses: Iterable[Interval], size: int) -> None:
        chosen = list(witnesses)
        self._ids = {id for id, lo, hi in chosen}
        self._lo = [lo for id, lo, hi in chosen]
        self._hi = [hi for id, lo, hi in chosen]

    def inserted(self, id: int, lo: int, hi: int, size: int) -> bool:
        if size == len(self._hi):  # as many witnesses as groups: no further interval is disjoint from all
            return False
        self._offer(id, lo, hi)
        return size > self._ratio * len(self._hi)

    def deleted(self, id: int, lo: int, hi: int, size: int, others: Iterable[Interval]) -> bool:
        if id not in self._ids:
            return False  # neither have the groups become more nor the witnesses fewer
        self._ids.remove(id)
        place = bisect_left(self._hi, hi)
        del self._lo[place], self._hi[place]
        for tried, other in enumerate(others):
            if tried == REPLACEMENTS_MAX or self._offer(*other):
                break
        return size > self._ratio * len(self._hi)

    def _offer(self, id: int, lo: int, hi: int) -> bool:
        """Make a witness of an interval that is disjoint from all of them; whether it is."""
        place = bisect_left(self._hi, lo)
        if place < len(self._hi) and self._lo[place] <= hi:
            return False
        self._lo.insert(place, lo)
        self._hi.insert(place, hi)
        self._ids.add(id)
        return True


TRIGGERS: dict[str, Callable[[float], Trigger]] = {"updates": Updates, "deletions": Deletions, "witnesses": Witnesses}
