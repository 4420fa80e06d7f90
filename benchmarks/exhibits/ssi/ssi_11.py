"""SSI Fig. 11: what it costs to keep the structures of band joins while queries come and go."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from benchmarks.exhibits.exhibit import Exhibit, Run, Size, at_most, by_size
from benchmarks.exhibits.ssi.bands import band_joins
from weir.index.papers.stabbing_partition import StabbingPartition

EPSILON = 3.0  # as in the paper
_BLOCK = 1_000  # entries of a block of the sorted list


class SortedList:
    """Pairs in ascending order, in blocks: what a merge needs of the ranges."""

    def __init__(self, items: list[tuple[int, int]]) -> None:
        ordered = sorted(items)
        self.blocks = [ordered[k : k + _BLOCK] for k in range(0, len(ordered), _BLOCK)] or [[]]
        self.firsts = [block[0] if block else (0, 0) for block in self.blocks]

    def insert(self, item: tuple[int, int]) -> None:
        at = max(bisect_left(self.firsts, item) - 1, 0)
        block = self.blocks[at]
        insort(block, item)
        self.firsts[at] = block[0]
        if len(block) > 2 * _BLOCK:
            self.blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self.firsts[at : at + 1] = [block[0], block[_BLOCK]]

    def delete(self, item: tuple[int, int]) -> None:
        at = max(bisect_left(self.firsts, item) - 1, 0)
        if at + 1 < len(self.firsts) and self.firsts[at + 1] <= item:
            at += 1
        block = self.blocks[at]
        del block[bisect_left(block, item)]
        if block:
            self.firsts[at] = block[0]
        elif len(self.blocks) > 1:
            del self.blocks[at], self.firsts[at]


def run(size: Size) -> Exhibit:
    """Microseconds an update, half of them insertions, half deletions."""
    n_queries, n_updates = by_size(size, smoke=(500, 500), quick=(100_000, 50_000), full=(100_000, 100_000))
    groups = by_size(size, smoke=(5, 20), quick=(30, 60, 500), full=(30, 60, 500))
    partition_us, list_us, rebuilds = [], [], []
    for wanted in groups:
        bands = band_joins(n_queries + n_updates, 1, groups=wanted, rows=10)
        lo, hi = bands.lo.tolist(), bands.hi.tolist()
        took = [_partition(lo, hi, n_queries, n_updates), _sorted_list(lo, n_queries, n_updates)]
        partition_us.append(took[0][0])
        rebuilds.append(float(took[0][1]))
        list_us.append(took[1][0])
    ratio = [a / b for a, b in zip(partition_us, list_us, strict=True)]
    return Exhibit(
        name="ssi-11",
        title="Keeping the structures of band joins",
        section="SSI 5.3, Fig. 11",
        claim=(
            "Over 100,000 updates of 100,000 band joins with ε = 3, keeping the stabbing partition costs within a "
            "small factor of keeping a sorted list (the paper: 1.2 times)."
        ),
        size=size,
        x_label="stabbing groups",
        x=groups,
        series={"ssi": partition_us, "sorted list": list_us},
        unit="µs an update",
        checks=(
            at_most("the partition over the sorted list, at most", max(ratio), 4.0, "both are Python, loop by loop"),
        ),
        table={"ssi / sorted list": ratio, "rebuilds": rebuilds},
        notes=(
            "Each update is an insertion or a deletion of a random query with the same probability. The partition is "
            "the dynamic one of the index with its lazy rebuilds; the sorted list is blocks of a thousand entries.",
            "A production segment is rebuilt in bulk instead; this is what standing structures would cost.",
        ),
    )


def _updates(n_queries: int, n_updates: int, insert: Callable[[int], None], delete: Callable[[int], None]) -> float:
    random = np.random.default_rng(3)
    live = list(range(n_queries))
    coins, picks = (random.random(n_updates) < 0.5).tolist(), random.random(n_updates).tolist()
    new = n_queries
    begun = time.perf_counter()
    for coin, pick in zip(coins, picks, strict=True):
        if coin:
            insert(new)
            live.append(new)
            new += 1
        else:
            at = int(pick * len(live))
            live[at], live[-1] = live[-1], live[at]
            delete(live.pop())
    return (time.perf_counter() - begun) / n_updates * 1e6


def _partition(lo: list[int], hi: list[int], n_queries: int, n_updates: int) -> tuple[float, int]:
    kept = StabbingPartition.of(np.array(lo[:n_queries]), np.array(hi[:n_queries]), EPSILON)
    ids = {k: k for k in range(n_queries)}

    def insert(k: int) -> None:
        ids[k] = kept.insert(lo[k], hi[k])

    def delete(k: int) -> None:
        kept.delete(ids.pop(k))

    return _updates(n_queries, n_updates, insert, delete), kept.rebuilds


def _sorted_list(lo: list[int], n_queries: int, n_updates: int) -> tuple[float, int]:
    kept = SortedList([(lo[k], k) for k in range(n_queries)])
    return _updates(n_queries, n_updates, lambda k: kept.insert((lo[k], k)), lambda k: kept.delete((lo[k], k))), 0


EXHIBITS: dict[str, Run] = {"ssi-11": run}
