"""What a batch found for kept queries: match files are read once a task, and each shape takes what is its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weir.store.ascending import NONE, inside, ranges
from weir.store.matches import CHANNEL, Piece

Ids = np.ndarray
Rows = tuple[Ids, ...]  # row ids, by side


@dataclass(frozen=True)
class Groups:
    """The registrations of one shape, in the order of their ids. A core's id follows from its query's."""

    first: Ids  # by group, the id of its first query
    count: Ids
    number: Ids  # of its registry document

    def queries_of(self, cores: Ids, core: int) -> Ids:
        """For ids of cores the ids of their queries, −1 where an id is not of this core of this shape."""
        starts = self.first + core * self.count
        if len(starts) == 1:
            mine = (cores >= starts[0]) & (cores < starts[0] + self.count[0])
            return np.where(mine, cores - core * self.count[0], -1)
        group = np.searchsorted(starts, cores, side="right") - 1
        at = np.maximum(group, 0)
        mine = (group >= 0) & (cores < starts[at] + self.count[at])
        return np.where(mine, cores - core * self.count[at], -1)

    def cores_of(self, queries: Ids, cores: Iterable[int]) -> Ids:
        """The ids of some cores of these queries of this shape."""
        group = np.searchsorted(self.first, queries, side="right") - 1
        return np.concatenate([NONE, *(queries + core * self.count[group] for core in cores)])

    def ids(self) -> Ids:
        """All queries, ascending."""
        offsets = np.repeat(self.first - np.concatenate([[0], np.cumsum(self.count)[:-1]]), self.count)
        return offsets + np.arange(int(self.count.sum()))


class Arrived:
    """The results on one channel, those of one core side by side if several shapes look for theirs."""

    def __init__(self, pieces: Sequence[Piece], channel: str, *, is_shared: bool) -> None:
        sides = channel.count(CHANNEL) + 1
        self._items: Ids = np.concatenate([NONE, *(piece.items for piece in pieces)])
        by_piece = [(NONE,) * sides, *(piece.rows() for piece in pieces)]
        self._rows: Rows = tuple(np.concatenate(of) for of in zip(*by_piece, strict=True))
        self._is_sorted = is_shared
        if is_shared:
            order = np.argsort(self._items, kind="stable")
            self._items, self._rows = self._items[order], tuple(of[order] for of in self._rows)

    def of_core(self, groups: Groups, core: int) -> tuple[Ids, Rows]:
        """The results of one core of a shape: whose each is, and its rows."""
        if not len(self._items):
            return self._items, self._rows
        items, rows = self._items, self._rows
        if self._is_sorted:
            starts = groups.first + core * groups.count
            begin, end = np.searchsorted(items, starts), np.searchsorted(items, starts + groups.count)
            at = ranges(begin, end)
            items, rows = items[at], tuple(of[at] for of in rows)
        found = groups.queries_of(items, core)
        if bool((found >= 0).all()):
            return found, rows
        at = np.flatnonzero(found >= 0)
        return found[at], tuple(of[at] for of in rows)


def of_part(found: tuple[Ids, Rows], part: int, parts: int, gone: Ids, wanted: Ids | None = None) -> tuple[Ids, Rows]:
    """The results of one part's queries, without those that are gone; only of some queries if that is said."""
    queries, rows = found
    mine = queries % parts == part
    if len(gone):
        mine &= ~inside(queries, gone)
    if wanted is not None:
        mine &= inside(queries, wanted)
    if bool(mine.all()):
        return found
    at = np.flatnonzero(mine)
    return queries[at], tuple(of[at] for of in rows)
