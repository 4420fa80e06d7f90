"""Query segments for a batch: a main and a tail one for each family, built from the registry, cached.

The main segment holds most queries. The tail holds those registered since the main one was built, and is rebuilt
whenever the registry has grown. When the tail outgrows its limit everything goes into a new main segment. Dropped,
demoted and quarantined queries are muted until then. Any choice of the boundary gives the same matches, so all of this
is cache: files that are missing or damaged are built again.

Segments are built for rows like the recent ones. Every so many batches the segments of a family are asked what newer
rows cost, and what they would cost if the segment were built for them; where that is clearly less, it is built anew
under another name. This too changes nothing but speed: a batch that is run again may have either. One family is asked
in a batch at most, and one that was built anew is asked less often from then on, as long as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weir.algebra.schema import Catalog, DataType
from weir.families.contract import Family, Needs
from weir.families.forms import form_named
from weir.families.members import Group
from weir.families.recent import Recent
from weir.index.jit import source_hash
from weir.index.samples import BOXES_MIN
from weir.index.warm import ready
from weir.plan.classify import Classified
from weir.plan.registration import stored_shape
from weir.runtime.kept_queries import KeptQueries
from weir.runtime.match import NOT_OF_QUERIES, SegmentRef, reason_of
from weir.runtime.recent_rows import RecentRows
from weir.settings import Settings
from weir.store.arrays import is_whole, read_arrays, save_arrays
from weir.store.caches import segment_folder
from weir.store.files import Files, unique
from weir.store.query_groups import GroupRef
from weir.store.registry import Registry

MAIN_SHARE = 4  # the tail is merged when it is over its limit and larger than a quarter of the main segment
DRIFT_FACTOR = 2.0  # a segment is built anew if rows then cost less than half …
DRIFT_CANDIDATES_MIN = 64.0  # … and so many candidates an event are spared: some 200 ns
PATIENCE_MAX = 64  # a family is asked at least once in so many times `measure_every_batches`
SUFFIX = ".seg"
SAID_QUERIES_MIN = 100_000  # indexing fewer is not worth a line


@dataclass(frozen=True)
class CoreRef:
    """One core of all queries of a registered group."""

    number: int  # of the group
    group: GroupRef
    core: int

    @property
    def first_id(self) -> int:
        return self.group.first_id + self.core * self.group.count


@dataclass
class _FamilyGroups:
    """A family and its cores, which one pair of main and tail segments holds."""

    form: str
    family: Family
    cores: list[CoreRef]

    @property
    def key(self) -> str:
        """Its folder."""
        return segment_folder(self.form, self.family.name)


@dataclass(frozen=True)
class _Built:
    """A segment file and what it covers: register groups with first <= number < upto."""

    first: int
    upto: int
    path: str
    ids: np.ndarray
    excluded: np.ndarray  # cores that were left out
    needs: tuple[Needs, ...]  # by side
    changes: int  # of the catalog that it was built with

    def fits(self, muted: np.ndarray, changes: int) -> bool:
        """Whether all that was left out is to be muted, and streams are still what they were.

        An attempt that failed may have demoted, and left out, more.
        """
        return self.changes == changes and bool(np.isin(self.excluded, muted).all())


@dataclass(frozen=True)
class FamilyRef:
    """The segments of one family, and what they ask of partner rows, by side."""

    form: str
    family: Family
    segments: tuple[SegmentRef, ...]
    needs: tuple[Needs, ...]


@dataclass(frozen=True)
class Failure:
    """Cores that cannot be matched together."""

    key: tuple[str, str] | None  # form and family; None: the cores' own text cannot be read, nobody else is concerned
    ids: np.ndarray  # int64, ascending: all of the family, until it is known which of them are to blame
    muted: np.ndarray  # int64, ascending: cores that were not to be matched anyway
    reason: str


@dataclass(frozen=True)
class Prepared:
    """All query segments of a batch, except those of families that failed."""

    families: tuple[FamilyRef, ...]
    muted: np.ndarray  # int64, ascending: cores that are dropped, demoted or quarantined
    failures: tuple[Failure, ...] = ()

    def paths(self) -> list[str]:
        """All their files."""
        refs = [ref for family in self.families for ref in family.segments]
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
        self.kept = KeptQueries(registry, settings)
        self._main: dict[str, _Built] = {}
        self._tail: dict[str, _Built] = {}
        self._shapes: dict[tuple[str, tuple[DataType, ...], int], Classified] = {}
        self._upto = 0  # registry documents that the next two are about
        self._members: dict[tuple[str, str], _FamilyGroups] = {}  # by form and family
        self._unread: dict[int, tuple[GroupRef, str]] = {}  # by number: groups whose text cannot be read, and why
        self._kernels: set[str] = set()
        self._prepared = 0  # how often segments were prepared: once a batch, or a few times
        self._asked: dict[str, int] = {}  # by family, when it was last asked whether it should be built anew
        self._patience: dict[str, int] = {}  # by family, how many times as long as others it waits
        # A hash of the engine's sources is part of a file's name: what another version laid out is never read.
        about = f"{source_hash()} {settings.strategy} {settings.join_strategy} {settings.hotspot_share}"
        self._digest = hashlib.sha256(about.encode()).hexdigest()[:8]

    def prepare(self, upto: int, demoted: np.ndarray, catalog: Catalog, recent: RecentRows | None = None) -> Prepared:
        """The segments of every family with queries among the first `upto` registry documents.

        `recent` rows decide how queries that are indexed now are reached; without them, their constants do.
        """
        if not self.settings.measure_every_batches:
            recent = None
        self._prepared += 1
        ready(self.kernels(upto, catalog), self.say)
        muted = np.union1d(self.registry.cores_of(self.registry.dropped(upto)), demoted)
        failures = self._unreadable(muted, catalog)
        if failures:  # nothing is built yet: what is built must have been without these, or they could not come back
            return Prepared((), muted, tuple(failures))
        families = []
        if recent is not None:
            self._forget_drifted(recent)
        for key, member in self._members.items():
            try:
                segments = self._segments(member, upto, muted, catalog, recent)
                built = [b for b in segments if len(_slots(b, muted)) < len(b.ids)]
                if built:
                    families.append(self._family(member, built, muted))
            except NOT_OF_QUERIES:
                raise
            except Exception as error:
                failure = self.failure(key, muted, reason_of(error))
                if len(failure.ids):  # else nobody wants it any more: its stream may be gone
                    failures.append(failure)
        return Prepared(tuple(families), muted, tuple(failures))

    def _family(self, member: _FamilyGroups, built: Sequence[_Built], muted: np.ndarray) -> FamilyRef:
        refs = tuple(self._reference(b, muted) for b in built)
        needs = tuple(Needs.union(of_side) for of_side in zip(*(b.needs for b in built), strict=True))
        return FamilyRef(member.form, member.family, refs, needs)

    def _unreadable(self, muted: np.ndarray, catalog: Catalog) -> list[Failure]:
        """Groups whose text cannot be read; those that were given up and are wanted again are read once more."""
        failures = []
        for group, reason in list(self._unread.values()):
            first, end = np.searchsorted(muted, (group.first_id, group.end_id))
            if end - first == group.end_id - group.first_id:
                continue  # nobody wants it any more
            ids = np.setdiff1d(np.arange(group.first_id, group.end_id), muted, assume_unique=True)
            if len(ids) and not self._sort_in(group, catalog):
                failures.append(Failure(None, ids, muted, reason))
        return failures

    def failure(self, key: tuple[str, str], muted: np.ndarray, reason: str) -> Failure:
        """All of a family that is to be matched, as a failure; its segments are built anew, without who is to blame."""
        member = self._members[key]
        self._forget(self._main.pop(member.key, None), self._tail.pop(member.key, None))
        ids = np.concatenate([np.arange(c.first_id, c.first_id + c.group.count) for c in member.cores])
        return Failure(key, np.setdiff1d(ids, muted), muted, reason)

    @contextlib.contextmanager
    def trial(self, failure: Failure, kept: np.ndarray, upto: int, catalog: Catalog) -> Iterator[FamilyRef]:
        """A segment of some cores of a family that failed, for as long as the block lasts."""
        assert failure.key is not None, "a text that cannot be read is tried by reading it"
        member = self._members[failure.key]
        excluded = np.union1d(failure.muted, np.setdiff1d(failure.ids, kept, assume_unique=True))
        built = self._build(member, f"trial-{unique()}", member.cores, 0, upto, excluded, catalog)
        try:
            yield self._family(member, [built], excluded)
        finally:
            self._forget(built)

    @contextlib.contextmanager
    def only(self, wanted: np.ndarray, upto: int, catalog: Catalog) -> Iterator[list[FamilyRef]]:
        """Segments of these cores and no others, by family, for as long as the block lasts."""
        built: list[tuple[_FamilyGroups, _Built]] = []
        self._take(upto, catalog)
        try:
            for member in self._members.values():
                ids = np.concatenate([np.arange(c.first_id, c.first_id + c.group.count) for c in member.cores])
                others = np.sort(np.setdiff1d(ids, wanted, assume_unique=True))
                if len(others) < len(ids):
                    part = f"only-{unique()}"
                    built.append((member, self._build(member, part, member.cores, 0, upto, others, catalog)))
            yield [self._family(member, [of], np.empty(0, np.int64)) for member, of in built]
        finally:
            self._forget(*(of for _, of in built))

    def kernels(self, upto: int | None, catalog: Catalog) -> tuple[str, ...]:
        """The kinds of kernels that the first `upto` registry documents, or all known ones, are matched with."""
        self._take(self.registry.count if upto is None else upto, catalog)
        return tuple(sorted(self._kernels))

    def _take(self, upto: int, catalog: Catalog) -> None:
        """Sort the cores of registry documents that are new since the last batch into their families."""
        if upto < self._upto:  # another driver's plan, older than what this one knows
            self._members, self._kernels, self._unread, self._upto = {}, set(), {}, 0
        for group in self.registry.groups(upto)[self._groups_before(self._upto) :]:
            self._sort_in(group, catalog)
        self._upto = upto

    def _sort_in(self, group: GroupRef, catalog: Catalog) -> bool:
        """Add the cores of a group to their families; False: its text cannot be read, which `_unread` remembers."""
        try:
            classified = self._shape(group, catalog)
            kernels = [seen.kernels(self.settings) for seen in classified.seen]
        except NOT_OF_QUERIES:
            raise
        except Exception as error:
            self._unread[group.number] = group, reason_of(error)
            return False
        self._unread.pop(group.number, None)
        for core, (form, seen) in enumerate(zip(classified.forms, classified.seen, strict=True)):
            if seen.is_matched:  # if not, it is evaluated when it is asked for
                key = form, seen.family.name
                if key not in self._members:
                    self._members[key] = _FamilyGroups(form, seen.family, [])
                insort(self._members[key].cores, CoreRef(group.number, group, core), key=lambda c: (c.number, c.core))
                self._kernels |= kernels[core]
        return True

    def _groups_before(self, number: int) -> int:
        return len(self.registry.groups(number))

    def _shape(self, group: GroupRef, catalog: Catalog) -> Classified:
        """The cores of a group's shape and how their forms see them, looked up once."""
        key = (group.shape_text, group.types, catalog.changes)
        if key not in self._shapes:
            self._shapes[key] = stored_shape(group.shape_text, group.types, catalog, self.settings).classified
        return self._shapes[key]

    def _core(self, ref: CoreRef, catalog: Catalog) -> Group:
        """One core of a group of queries, with their constants."""
        parts = self._shape(ref.group, catalog).parts
        assert parts is not None, "what is registered has cores"
        return Group(parts.cores[ref.core], self.registry.constants(ref.group), ref.first_id)

    def _forget_drifted(self, recent: RecentRows) -> None:
        """Ask the family whose turn it is, if it is time, and forget its segments that rows have left behind."""
        every = self.settings.measure_every_batches
        large = [key for of in (self._main, self._tail) for key, built in of.items() if len(built.ids) >= BOXES_MIN]
        built = [member for member in self._members.values() if member.key in large]
        waits = [self._asked.get(m.key, 0) + every * self._patience.get(m.key, 1) for m in built]
        if min(waits, default=self._prepared + 1) > self._prepared:
            return
        member = built[waits.index(min(waits))]
        key, rows = member.key, recent.of(member.family.streams)
        drifted = [of for of in (self._main, self._tail) if key in of and self._is_drifted(member, of[key], rows)]
        patience = self._patience.get(key, 1)
        self._asked[key] = self._prepared
        self._patience[key] = min(2 * patience, PATIENCE_MAX) if drifted else max(patience // 2, 1)
        for of in drifted:
            self._forget(of.pop(key))
        if drifted:
            self.say(f"rows of '{member.family.channel}' are not what they were: its queries are reached anew")

    def _is_drifted(self, member: _FamilyGroups, built: _Built, rows: Recent) -> bool:
        """Whether a segment would be clearly better if it were built for these rows."""
        try:
            seen = form_named(member.form).open(*read_arrays(self.files, built.path)).foreseen(rows)
        except Exception:  # a file that is gone is built again anyway, and what else there is matching says
            return False
        return seen is not None and seen.now > DRIFT_FACTOR * seen.anew and seen.now - seen.anew > DRIFT_CANDIDATES_MIN

    def _segments(
        self, member: _FamilyGroups, upto: int, muted: np.ndarray, catalog: Catalog, recent: RecentRows | None
    ) -> list[_Built]:
        key, cores = member.key, member.cores
        main = self._main.get(key)
        stale = main is None or main.upto > upto or not main.fits(muted, catalog.changes) or self._outgrown(main, cores)
        if main is None or stale or not is_whole(self.files, main.path):
            self._forget(self._main.pop(key, None), self._tail.pop(key, None))
            main = self._main[key] = self._build(member, "main", cores, 0, upto, muted, catalog, recent)
        later = cores[bisect_left(cores, main.upto, key=lambda c: c.number) :]
        if not later:
            return [main]
        tail = self._tail.get(key)
        stale = (
            tail is None or tail.upto > upto or later[-1].number >= tail.upto or not tail.fits(muted, catalog.changes)
        )
        if tail is None or stale or not is_whole(self.files, tail.path):
            self._forget(self._tail.pop(key, None))
            tail = self._tail[key] = self._build(member, "tail", later, main.upto, upto, muted, catalog, recent)
        return [main, tail]

    def in_use(self) -> frozenset[str]:
        """The files of segments that the next batch may read; another thread may ask."""
        built = [*self._main.values(), *self._tail.values()]
        muted = (entry.path for b in built for entry in self.files.list(f"{b.path.removesuffix(SUFFIX)}.muted"))
        return frozenset((*(b.path for b in built), *muted))

    def _outgrown(self, main: _Built, cores: Sequence[CoreRef]) -> bool:
        tail = sum(c.group.count for c in cores[bisect_left(cores, main.upto, key=lambda c: c.number) :])
        return tail > self.settings.tail_queries_max and tail * MAIN_SHARE > len(main.ids)

    def _forget(self, *built: _Built | None) -> None:
        for b in built:
            if b is not None:
                self.files.delete(b.path)
                for entry in self.files.list(f"{b.path.removesuffix(SUFFIX)}.muted"):
                    self.files.delete(entry.path)

    def _build(
        self,
        member: _FamilyGroups,
        part: str,
        cores: Sequence[CoreRef],
        first: int,
        upto: int,
        excluded: np.ndarray,
        catalog: Catalog,
        recent: RecentRows | None = None,
    ) -> _Built:
        # Which queries are left out is part of the name: a file is found again only for the same exclusions.
        without = hashlib.sha256(excluded.tobytes()).hexdigest()[:8]
        name = f"{member.key}/{part}-{first}-{upto}-{catalog.changes}-{self._digest}-{without}"
        form = form_named(member.form)
        for path in self._left(member.key, name):
            found = form.open(*read_arrays(self.files, path))
            return _Built(first, upto, path, found.ids, excluded, found.needs, catalog.changes)
        # What is built for other rows has another name: whoever maps the earlier file keeps it as it was.
        path = f"{name}-{unique()[:8]}{SUFFIX}"
        count = sum(c.group.count for c in cores)
        if count >= SAID_QUERIES_MIN:
            self.say(f"indexing {count:,} queries of '{member.family.channel}'")
        groups = [self._core(ref, catalog) for ref in cores]
        rows = None if recent is None or count < BOXES_MIN else recent.of(member.family.streams)
        made = form.build(member.family, groups, catalog, self.settings, excluded, rows)
        save_arrays(self.files, path, made.arrays(), made.meta())
        return _Built(first, upto, path, made.ids, excluded, made.needs, catalog.changes)

    def _left(self, folder: str, name: str) -> Iterator[str]:
        """Whole files of these queries that an earlier run left."""
        for path in sorted(entry.path for entry in self.files.list(folder)):
            if path.startswith(name) and path.endswith(SUFFIX) and is_whole(self.files, path, verify=True):
                yield path

    def _reference(self, built: _Built, muted: np.ndarray) -> SegmentRef:
        """The segment's file, and a file of its muted slots if it has any."""
        slots = _slots(built, muted)
        if not len(slots):
            return SegmentRef(built.path, None)
        mask = np.zeros(len(built.ids), np.uint8)
        mask[slots] = 1
        digest = hashlib.sha256(slots.tobytes()).hexdigest()[:16]
        path = f"{built.path.removesuffix(SUFFIX)}.muted/{digest}"
        if not is_whole(self.files, path):
            older = [entry.path for entry in self.files.list(f"{built.path.removesuffix(SUFFIX)}.muted")]
            save_arrays(self.files, path, {"muted": mask}, {})
            for name in older:
                self.files.delete(name)
        return SegmentRef(built.path, path)


def _slots(built: _Built, muted: np.ndarray) -> np.ndarray:
    """The slots of a segment whose queries are muted."""
    if not len(built.ids):
        return np.empty(0, np.int64)
    inside = muted[(muted >= built.ids[0]) & (muted <= built.ids[-1])]
    at = np.searchsorted(built.ids, inside)
    slots: np.ndarray = at[built.ids[np.minimum(at, len(built.ids) - 1)] == inside]
    return slots
