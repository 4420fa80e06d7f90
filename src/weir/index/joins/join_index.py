"""The select-join index: all strategies over one plane.

Only the strategies asked for are built, and an index built for some of them answers by any of these
(`weir.index.joins.join_strategies`). An index that is to be `thrifty` leaves out stabbing sets unless the cost model
expects them to be clearly better for some kind of event.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import MappingProxyType
from typing import Self

import numpy as np

from weir.index.box_tables import Int64s, frozen
from weir.index.flat_arrays import flat, restored
from weir.index.histograms import EqualWidth
from weir.index.joins.hotspot import build_hotspots
from weir.index.joins.join_costs import (
    HOTSPOT,
    JOIN_FIRST,
    SELECT_FIRST,
    SSI,
    SWEEP,
    Groups,
    JoinDescription,
    describe,
    prepare,
    worthwhile,
)
from weir.index.joins.join_strategies import NAMES, STRATEGIES, WEIGHTS, JoinSearch, Structures
from weir.index.joins.stabbing_sets import build_stabbing_sets, extent_of
from weir.index.meeting.codes import build_codes, encode_plane, n_codes
from weir.index.meeting.collector import CollectedIndex
from weir.index.meeting.index_contract import Indexing, Listed, Meeting, Tuning
from weir.index.meeting.lists import build_lists
from weir.index.meeting.planes import Plane, check
from weir.index.stabbing import Partition, canonical, is_hot

_BUCKETS = 256  # of the histogram of a-intervals


class JoinIndex(CollectedIndex):
    """All strategies over one plane."""

    kind = ""
    rows = STRATEGIES
    aliases = MappingProxyType({"partial": "auto"})  # where there is no partial index

    def __init__(self, built: Structures, allowed: int) -> None:
        self._built = frozen(built)
        super().__init__(self._built.plane, allowed)

    @classmethod
    def build(
        cls, plane: Plane, *, alpha: float = 0.001, strategies: Sequence[str] = NAMES, thrifty: bool = False
    ) -> Self:
        """An index with the strategies named; a group of at least alpha · n boxes is a hotspot.

        `thrifty`: without ssi and hotspot where these are not worth their memory.
        """
        plane = check(plane)
        unknown = set(strategies) - set(NAMES)
        assert not unknown, f"strategies {unknown} are none of {NAMES}"
        assert strategies, "an index has at least one strategy"
        numbers = {NAMES.index(name) for name in strategies}
        every = np.arange(len(plane.a_lo))
        codes = build_codes(plane)
        coded = encode_plane(codes, plane)
        n_a, n_c = n_codes(codes.a), n_codes(codes.c)
        partition = Partition(np.empty(0, np.int32), np.empty(0, np.int64))
        if numbers & {SSI, HOTSPOT}:
            partition = canonical(plane.c_lo, plane.c_hi)
        hot = is_hot(partition, alpha)
        lists = build_lists(coded, every if numbers & {SWEEP, JOIN_FIRST, SELECT_FIRST} else every[:0], n_a, n_c)
        selected = EqualWidth.of_intervals(plane.a_lo, plane.a_hi, _BUCKETS)
        if thrifty and numbers & {SSI, HOTSPOT} and numbers - {SSI, HOTSPOT}:
            extent = extent_of(plane, every, partition.group_of_interval.astype(np.int64), len(hot))
            groups = Groups(**extent, hot=np.flatnonzero(hot).astype(np.int32))
            n_scattered = int(extent["sizes"][~hot].sum())
            known = describe(plane, codes, lists, groups, n_scattered)
            heights = np.quantile(selected.heights, (0.25, 0.5, 0.75, 0.95))
            numbers -= {SSI, HOTSPOT} - worthwhile(WEIGHTS, known, heights)
            if not numbers & {SSI, HOTSPOT}:
                partition = Partition(np.empty(0, np.int32), np.empty(0, np.int64))
                hot = is_hot(partition, alpha)
        in_sets = np.full(len(hot), True) if SSI in numbers else hot
        scattered = np.flatnonzero(~hot[partition.group_of_interval]) if HOTSPOT in numbers else every[:0]
        built = Structures(
            plane,
            codes,
            lists,
            build_stabbing_sets(plane, coded, partition, np.flatnonzero(in_sets), n_a),
            build_hotspots(plane, coded, np.flatnonzero(hot[in_sets]).astype(np.int32), scattered, n_a, n_c),
            selected,
        )
        return cls(built, sum(1 << number for number in numbers))

    @classmethod
    def over(cls, plane: Plane, how: Indexing) -> Self:
        strategies = NAMES if how.strategies is None else how.strategies
        return cls.build(plane, alpha=how.alpha, strategies=strategies, thrifty=how.thrifty)

    def arrays(self) -> dict[str, np.ndarray]:
        return flat(self._built) | {"allowed": np.array([self._allowed], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(restored(Structures, arrays), int(arrays["allowed"][0]))

    @property
    def listed(self) -> Listed | None:
        of = self._built
        return Listed(of.plane, of.codes, of.lists, of.selected) if len(of.lists.boxes) else None

    def _searched(self, meeting: Meeting, tuning: Tuning) -> JoinSearch:
        weights = WEIGHTS if tuning.costs is None else tuning.costs.terms
        values = meeting.run.values
        return JoinSearch(self._built, values, prepare(weights, self.description, len(values)))

    @functools.cached_property
    def description(self) -> JoinDescription:
        """What the cost model knows of it."""
        of = self._built
        groups = Groups(of.sets.lowest, of.sets.highest, of.sets.sizes, of.hotspots.groups)
        return describe(of.plane, of.codes, of.lists, groups, int(of.hotspots.n_scattered[0]))


def batch_order(keys: Int64s, a: Int64s) -> Int64s:
    """A permutation of events by a, then by join key: neighbours meet the same lists.

    Lists are larger than runs of partners, so they are what is worth finding in the cache again.
    """
    return np.lexsort((keys, a)).astype(np.int64, copy=False)
