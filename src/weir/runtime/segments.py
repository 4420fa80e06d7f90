"""Query segments for a batch: one main and one tail a stream, built from the registry, kept as cache files.

The main segment holds most queries; the tail those registered since it was built, and is rebuilt whenever the
registry has grown. When the tail outgrows its limit everything goes into a new main. Dropped and demoted queries
are muted until then. Any choice of the boundary gives the same matches, so all of this is cache: files that are
missing or damaged are built again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.algebra.nodes import Query
from weir.algebra.schema import Catalog, DataType
from weir.errors import StoreError
from weir.families.selection import Group, Segment
from weir.plan.registration import lower_shape
from weir.runtime.match import SegmentRef
from weir.settings import Settings
from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files
from weir.store.registry import GroupRef, Registry
from weir.store.segments import map_arrays

FORMAT = 1  # of segment files; part of their names
MAIN_SHARE = 4  # the tail is merged when it is over its limit and larger than a quarter of the main segment


@dataclass(frozen=True)
class _Built:
    """A segment file and what it covers: register groups with first <= number < upto."""

    first: int
    upto: int
    path: str
    ids: np.ndarray
    excluded: np.ndarray  # queries that were left out

    def fits(self, muted: np.ndarray) -> bool:
        """Whether what was left out is to be left out: an attempt that failed may have demoted more."""
        return bool(np.isin(self.excluded, muted).all())


class QuerySegments:
    """Builds and finds the segments that a batch's plan asks for."""

    def __init__(
        self, files: Files, registry: Registry, settings: Settings, say: Callable[[str], None] | None = None
    ) -> None:
        self.files = files
        self.registry = registry
        self.settings = settings
        self.say = say or (lambda _: None)
        self._main: dict[str, _Built] = {}
        self._tail: dict[str, _Built] = {}
        self._queries: dict[tuple[str, tuple[DataType, ...]], Query] = {}
        self._digest = hashlib.sha256(
            f"{FORMAT} {settings.strategy} {settings.boxes_per_query_max}".encode()
        ).hexdigest()[:8]

    def prepare(self, upto: int, demoted: np.ndarray, catalog: Catalog) -> dict[str, tuple[SegmentRef, ...]]:
        """The segments of every stream with queries among the first `upto` registry documents."""
        groups: dict[str, list[GroupRef]] = {}
        for group in self.registry.groups(upto):
            groups.setdefault(group.stream, []).append(group)
        muted = np.union1d(self.registry.dropped(upto), demoted)
        found = {}
        for stream, members in groups.items():
            built = self._segments(stream, members, upto, muted, catalog)
            found[stream] = tuple(self._reference(b, muted) for b in built if len(b.ids))
        return found

    def _segments(
        self, stream: str, groups: Sequence[GroupRef], upto: int, muted: np.ndarray, catalog: Catalog
    ) -> list[_Built]:
        main = self._main.get(stream)
        stale = main is None or main.upto > upto or not main.fits(muted) or self._outgrown(main, groups)
        if main is None or stale or not self._is_whole(main.path):
            self._forget(self._main.pop(stream, None), self._tail.pop(stream, None))
            main = self._main[stream] = self._build(stream, "main", groups, 0, upto, muted, catalog)
        later = [g for g in groups if g.number >= main.upto]
        if not later:
            return [main]
        tail = self._tail.get(stream)
        stale = tail is None or tail.upto > upto or later[-1].number >= tail.upto or not tail.fits(muted)
        if tail is None or stale or not self._is_whole(tail.path):
            self._forget(self._tail.pop(stream, None))
            tail = self._tail[stream] = self._build(stream, "tail", later, main.upto, upto, muted, catalog)
        return [main, tail]

    def _is_whole(self, path: str, *, verify: bool = False) -> bool:
        """Whether a file that we wrote is still there: a cache may be deleted or cut at any moment."""
        local = self.files.local_path(path)
        try:
            if local is not None:
                map_arrays(local, verify=verify)
        except StoreError:
            return False
        return local is not None

    def forget_damaged(self, segments: Mapping[str, tuple[SegmentRef, ...]]) -> None:
        """Delete what does not have its checksums, so that it is built again."""
        for path in _paths(segments):
            if not self._is_whole(path, verify=True):
                self.files.delete(path)

    def are_whole(self, segments: Mapping[str, tuple[SegmentRef, ...]]) -> bool:
        """Whether every file of a batch's segments is there and has its checksums."""
        return all(self._is_whole(path, verify=True) for path in _paths(segments))

    def _outgrown(self, main: _Built, groups: Sequence[GroupRef]) -> bool:
        tail = sum(g.count for g in groups if g.number >= main.upto)
        return tail > self.settings.tail_queries_max and tail * MAIN_SHARE > len(main.ids)

    def _forget(self, *built: _Built | None) -> None:
        for b in built:
            if b is not None:
                self.files.delete(b.path)
                for entry in self.files.list(f"{b.path[:-4]}.muted"):
                    self.files.delete(entry.path)

    def _build(
        self,
        stream: str,
        part: str,
        groups: Sequence[GroupRef],
        first: int,
        upto: int,
        excluded: np.ndarray,
        catalog: Catalog,
    ) -> _Built:
        # Which queries are left out is part of the name: a file is found again only for the same exclusions.
        without = hashlib.sha256(excluded.tobytes()).hexdigest()[:8]
        path = f"cache/segments/{stream}/{part}-{first}-{upto}-{self._digest}-{without}.seg"
        if self._is_whole(path, verify=True):  # left by an earlier run
            return _Built(first, upto, path, Segment.from_arrays(*read_arrays(self.files, path)).ids, excluded)
        count = sum(g.count for g in groups)
        if count >= 100_000:
            self.say(f"indexing {count:,} queries of stream '{stream}'")
        members = [
            Group(self.query(g.shape_text, g.types, catalog), self.registry.constants(g), g.first_id) for g in groups
        ]
        segment = Segment.build(
            catalog.streams[stream.lower()],
            members,
            strategy=self.settings.strategy,
            settings=self.settings,
            excluded=excluded,
        )
        save_arrays(self.files, path, segment.arrays(), segment.meta())
        return _Built(first, upto, path, segment.ids, excluded)

    def query(self, text: str, types: tuple[DataType, ...], catalog: Catalog) -> Query:
        """A shape's text lowered again, once."""
        key = (text, types)
        if key not in self._queries:
            self._queries[key] = lower_shape(text, types, catalog, self.settings)
        return self._queries[key]

    def _reference(self, built: _Built, muted: np.ndarray) -> SegmentRef:
        """The segment with a file of its muted slots, if it has any."""
        inside = muted[(muted >= built.ids[0]) & (muted <= built.ids[-1])]
        at = np.searchsorted(built.ids, inside)
        slots = at[built.ids[np.minimum(at, len(built.ids) - 1)] == inside]
        if not len(slots):
            return SegmentRef(built.path, None)
        mask = np.zeros(len(built.ids), np.uint8)
        mask[slots] = 1
        digest = hashlib.sha256(slots.tobytes()).hexdigest()[:16]
        path = f"{built.path[:-4]}.muted/{digest}"
        if not self._is_whole(path):
            save_arrays(self.files, path, {"muted": mask}, {})
        return SegmentRef(built.path, path)


def _paths(segments: Mapping[str, tuple[SegmentRef, ...]]) -> list[str]:
    return [p for refs in segments.values() for ref in refs for p in (ref.path, ref.muted_path) if p is not None]
