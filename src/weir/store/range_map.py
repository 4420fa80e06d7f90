"""Values by id, where ids come in ranges: a million queries of one registration are one entry.

Ranges are disjoint and ascending. Cost: O(log n) to look up, O(n) to change, for n ranges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import numpy as np

V = TypeVar("V")


class RangeMap(Generic[V]):
    """A value for each id of some ranges."""

    def __init__(self, items: Iterable[tuple[int, int, V]] = ()) -> None:
        self._items: list[tuple[int, int, V]] = []  # (first id, count, value)
        for first, count, value in items:
            self.put(first, count, value)

    def put(self, first: int, count: int, value: V) -> None:
        """Give `count` ids from `first` on a value; what they had before is forgotten."""
        assert count > 0, "a range has ids"
        self.remove(first, count)
        self._items.insert(bisect_left(self._items, first, key=lambda item: item[0]), (first, count, value))

    def remove(self, first: int, count: int) -> None:
        """Forget `count` ids from `first` on."""
        begin = bisect_right(self._items, first, key=lambda item: item[0] + item[1])
        end = bisect_left(self._items, first + count, key=lambda item: item[0])
        left = []
        for start, length, value in self._items[begin:end]:
            if start < first:
                left.append((start, first - start, value))
            if start + length > first + count:
                left.append((first + count, start + length - first - count, value))
        self._items[begin:end] = left

    def get(self, id: int) -> V | None:
        """The value of an id, or None."""
        at = bisect_right(self._items, id, key=lambda item: item[0]) - 1
        if at < 0:
            return None
        first, count, value = self._items[at]
        return value if id < first + count else None

    def ids(self) -> np.ndarray:
        """All ids that have a value, ascending."""
        return np.concatenate(
            [np.empty(0, np.int64), *(np.arange(f, f + n, dtype=np.int64) for f, n, _ in self._items)]
        )

    def __iter__(self) -> Iterator[tuple[int, int, V]]:
        """(first id, count, value), ascending."""
        return iter(self._items)

    def __len__(self) -> int:
        """How many ids have a value."""
        return sum(count for _, count, _ in self._items)


def ranges_of(ids: np.ndarray) -> list[tuple[int, int]]:
    """Ascending ids as ranges (first id, count)."""
    if not len(ids):
        return []
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1] + 1)))
    counts = np.diff(np.append(starts, len(ids)))
    return list(zip(ids[starts].tolist(), counts.tolist(), strict=True))
