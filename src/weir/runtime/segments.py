"""Query segments for a batch: a main and a tail one for each stream and join family, built from the registry, cached.

The main segment holds most queries; the tail those registered since it was built, and is rebuilt whenever the
registry has grown. When the tail outgrows its limit everything goes into a new main. Dropped and demoted queries
are muted until then. Any choice of the boundary gives the same matches, so all of this is cache: files that are
missing or damaged are built again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weir.algebra.nodes import Expression, Query
from weir.algebra.schema import Catalog, DataType
from weir.errors import StoreError
from weir.families import joins, many_joins
from weir.families.attributes import sources_of
from weir.families.codec import canonical
from weir.families.join_segments import JoinSegment
from weir.families.joins import JoinFamily, joined, terms_of
from weir.families.many_joins import ManyFamily
from weir.families.many_segments import ManySegment
from weir.families.selection import Group, Segment
from weir.index.jit import source_hash
from weir.index.warm import ready
from weir.plan.registration import lower_shape
from weir.runtime.match import SegmentRef
from weir.settings import Settings
from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files
from weir.store.registry import GroupRef, Registry
from weir.store.segments import map_arrays

MAIN_SHARE = 4  # the tail is merged when it is over its limit and larger than a quarter of the main segment


@dataclass(frozen=True)
class _Member:
    """What one pair of main and tail is for: the selections of a stream, or a join family."""

    key: str  # its folder
    stream: str  # or channel, for people
    family: JoinFamily | ManyFamily | None
    groups: list[GroupRef]


@dataclass(frozen=True)
class _Built:
    """A segment file and what it covers: register groups with first <= number < upto."""

    first: int
    upto: int
    path: str
    ids: np.ndarray
    excluded: np.ndarray  # queries that were left out
    needs: tuple[Needs, ...] | None = None  # of a join, by side

    def fits(self, muted: np.ndarray) -> bool:
        """Whether what was left out is to be left out: an attempt that failed may have demoted more."""
        return bool(np.isin(self.excluded, muted).all())


@dataclass(frozen=True)
class Needs:
    """What queries ask of the partner rows on one side: orders, and attributes to check."""

    accesses: tuple[Expression | None, ...]
    columns: tuple[Expression, ...]

    @classmethod
    def union(cls, parts: Iterable[Needs]) -> Needs:
        """What all of them ask for, each once."""
        accesses: dict[str, Expression | None] = {}
        columns: dict[str, Expression] = {}
        for part in parts:
            accesses |= {"" if e is None else canonical(e): e for e in part.accesses}
            columns |= {canonical(e): e for e in part.columns}
        return cls(tuple(accesses.values()), tuple(columns.values()))


@dataclass(frozen=True)
class JoinRef:
    """The segments of one join family, and what they ask of partner rows, by side."""

    family: JoinFamily | ManyFamily
    segments: tuple[SegmentRef, ...]
    needs: tuple[Needs, ...]


@dataclass(frozen=True)
class Prepared:
    """All query segments of a batch."""

    selections: dict[str, tuple[SegmentRef, ...]]  # by stream
    joins: tuple[JoinRef, ...]

    def paths(self) -> list[str]:
        """Every file of them."""
        refs = [r for refs in (*self.selections.values(), *(j.segments for j in self.joins)) for r in refs]
        return [p for ref in refs for p in (ref.path, ref.muted_path) if p is not None]


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
        self._families: dict[tuple[str, tuple[DataType, ...]], JoinFamily | ManyFamily | None] = {}
        self._kinds: dict[tuple[str, tuple[DataType, ...]], frozenset[str]] = {}  # of kernels, by shape
        # The engine's own text is part of a file's name: what another version laid out is never read.
        about = f"{source_hash()} {settings.strategy} {settings.join_strategy} {settings.hotspot_share}"
        self._digest = hashlib.sha256(about.encode()).hexdigest()[:8]

    def prepare(self, upto: int, demoted: np.ndarray, catalog: Catalog) -> Prepared:
        """The segments of every stream and join family with queries among the first `upto` registry documents."""
        ready(self.kernels(upto, catalog), self.say)
        members: dict[str, _Member] = {}
        for group in self.registry.groups(upto):
            family = None
            if group.family in (joins.name, many_joins.name):
                family = self._family(group, catalog)
                if family is None:  # evaluated when they are asked for
                    continue
            key = group.stream if family is None else f"joins/{family.name.replace(':', '-')}"
            members.setdefault(key, _Member(key, group.stream, family, [])).groups.append(group)
        muted = np.union1d(self.registry.dropped(upto), demoted)
        selections: dict[str, tuple[SegmentRef, ...]] = {}
        families = []
        for member in members.values():
            built = [b for b in self._segments(member, upto, muted, catalog) if len(_slots(b, muted)) < len(b.ids)]
            refs = tuple(self._reference(b, muted) for b in built)
            if member.family is None:
                selections[member.stream] = refs
            elif refs:
                by_side = zip(*(b.needs for b in built if b.needs is not None), strict=True)
                families.append(JoinRef(member.family, refs, tuple(Needs.union(needs) for needs in by_side)))
        return Prepared(selections, tuple(families))

    def kernels(self, upto: int | None, catalog: Catalog) -> tuple[str, ...]:
        """The kinds of kernels that the first `upto` registry documents, or all known ones, are matched with."""
        found: set[str] = set()
        for group in self.registry.groups(upto):
            key = (group.shape_text, group.types)
            if key not in self._kinds:
                self._kinds[key] = self._kernels_of(group, catalog)
            found |= self._kinds[key]
        return tuple(sorted(found))

    def _kernels_of(self, group: GroupRef, catalog: Catalog) -> frozenset[str]:
        if group.family not in (joins.name, many_joins.name):
            return frozenset({self.settings.strategy})
        if self._family(group, catalog) is None:
            return frozenset()
        if group.family == many_joins.name:
            return frozenset({self.settings.strategy, "many"})
        predicate = joined(self.query(group.shape_text, group.types, catalog), catalog).predicate
        over_both = predicate is not None and any(len(sources_of(t)) > 1 for t in terms_of(predicate, True))
        return frozenset({"joins", "pairs", "windows", *(("bands",) if over_both else ())})

    def _family(self, group: GroupRef, catalog: Catalog) -> JoinFamily | ManyFamily | None:
        """The join family of a group, looked up once a shape; None if its queries are not matched."""
        key = (group.shape_text, group.types)
        if key not in self._families:
            query = self.query(*key, catalog)
            if group.family == joins.name:
                self._families[key] = joined(query, catalog).family
            else:
                many = many_joins.joined(query, catalog)
                self._families[key] = many.family if many.is_connected else None
        return self._families[key]

    def _segments(self, member: _Member, upto: int, muted: np.ndarray, catalog: Catalog) -> list[_Built]:
        stream, groups = member.key, member.groups
        main = self._main.get(stream)
        stale = main is None or main.upto > upto or not main.fits(muted) or self._outgrown(main, groups)
        if main is None or stale or not self._is_whole(main.path):
            self._forget(self._main.pop(stream, None), self._tail.pop(stream, None))
            main = self._main[stream] = self._build(member, "main", groups, 0, upto, muted, catalog)
        later = [g for g in groups if g.number >= main.upto]
        if not later:
            return [main]
        tail = self._tail.get(stream)
        stale = tail is None or tail.upto > upto or later[-1].number >= tail.upto or not tail.fits(muted)
        if tail is None or stale or not self._is_whole(tail.path):
            self._forget(self._tail.pop(stream, None))
            tail = self._tail[stream] = self._build(member, "tail", later, main.upto, upto, muted, catalog)
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

    def forget_damaged(self, prepared: Prepared) -> None:
        """Delete what does not have its checksums, so that it is built again."""
        for path in prepared.paths():
            if not self._is_whole(path, verify=True):
                self.files.delete(path)

    def are_whole(self, prepared: Prepared) -> bool:
        """Whether every file of a batch's segments is there and has its checksums."""
        return all(self._is_whole(path, verify=True) for path in prepared.paths())

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
        member: _Member,
        part: str,
        groups: Sequence[GroupRef],
        first: int,
        upto: int,
        excluded: np.ndarray,
        catalog: Catalog,
    ) -> _Built:
        # Which queries are left out is part of the name: a file is found again only for the same exclusions.
        without = hashlib.sha256(excluded.tobytes()).hexdigest()[:8]
        path = f"cache/segments/{member.key}/{part}-{first}-{upto}-{self._digest}-{without}.seg"
        if self._is_whole(path, verify=True):  # left by an earlier run
            arrays, meta = read_arrays(self.files, path)
            if member.family is None:
                return _Built(first, upto, path, Segment.from_arrays(arrays, meta).ids, excluded)
            kind = JoinSegment if isinstance(member.family, JoinFamily) else ManySegment
            found = kind.from_arrays(arrays, meta)
            return _Built(first, upto, path, found.ids, excluded, _needs(found))
        count = sum(g.count for g in groups)
        if count >= 100_000:
            self.say(f"indexing {count:,} queries of '{member.stream}'")
        members = [
            Group(self.query(g.shape_text, g.types, catalog), self.registry.constants(g), g.first_id) for g in groups
        ]
        if member.family is not None:
            join: JoinSegment | ManySegment
            if isinstance(member.family, JoinFamily):
                join = JoinSegment.build(member.family, members, catalog, settings=self.settings, excluded=excluded)
            else:
                strategy = self.settings.strategy
                join = ManySegment.build(member.family, members, catalog, strategy=strategy, excluded=excluded)
            save_arrays(self.files, path, join.arrays(), join.meta())
            return _Built(first, upto, path, join.ids, excluded, _needs(join))
        segment = Segment.build(
            catalog.streams[member.stream.lower()],
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
        slots = _slots(built, muted)
        if not len(slots):
            return SegmentRef(built.path, None)
        mask = np.zeros(len(built.ids), np.uint8)
        mask[slots] = 1
        digest = hashlib.sha256(slots.tobytes()).hexdigest()[:16]
        path = f"{built.path[:-4]}.muted/{digest}"
        if not self._is_whole(path):
            save_arrays(self.files, path, {"muted": mask}, {})
        return SegmentRef(built.path, path)


def _slots(built: _Built, muted: np.ndarray) -> np.ndarray:
    """The slots of a segment whose queries are muted."""
    if not len(built.ids):
        return np.empty(0, np.int64)
    inside = muted[(muted >= built.ids[0]) & (muted <= built.ids[-1])]
    at = np.searchsorted(built.ids, inside)
    slots: np.ndarray = at[built.ids[np.minimum(at, len(built.ids) - 1)] == inside]
    return slots


def _needs(segment: JoinSegment | ManySegment) -> tuple[Needs, ...]:
    if isinstance(segment, ManySegment):  # its rows have the orders that the family says
        return tuple(Needs((), tuple(segment.asked(side))) for side in range(len(segment.family.streams)))
    return tuple(Needs(tuple(segment.accesses(side)), tuple(segment.asked(side))) for side in (0, 1))
