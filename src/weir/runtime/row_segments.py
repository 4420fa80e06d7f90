"""Partner segments for a batch: the kept rows of each side of a join family, in tiers by time, kept as cache files.

A tier covers consecutive batches. What came since the newest tier becomes a tier of its own, and neighbours are merged
while the older one is at most `MERGE_RATIO` times the newer one and both together span at most a `SPAN_SHARE`-th of the
stream's keep. So a row is sorted a few times in its life, an event probes a handful of full tiers and a logarithm of
small ones, and a tier whose rows have all expired is dropped whole. The rows of the batch at hand are a segment too,
for the events of later sides (see `weir.runtime.match`). It is thrown away with the batch, because the row ids of an
attempt that does not finish are given out again. Few rows are *loose*: they are no file, tasks that need them make a
segment of them in memory. So a family that few rows come to costs the driver next to nothing.

A tier has the orders and attributes that standing queries ask for. It is built again when they ask for more, and kept
as it is when they ask for less: attributes of few queries come and go.

All of it is cache: row files are the truth, a file that is missing or damaged is built again, and any choice of tiers
gives the same pairs. A tier may hold rows below the read floor; no window shows them. Files that an earlier process
left are deleted, and so are the tiers of families that have no query any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir.algebra.schema import Catalog, Stream, called, is_changes
from weir.families.contract import Needs
from weir.families.forms import form_named
from weir.runtime.calibration import load
from weir.runtime.loose_rows import LooseRows, RowsFile, partner_rows
from weir.runtime.query_segments import FamilyRef
from weir.settings import Settings
from weir.store.arrays import is_whole, save_arrays
from weir.store.files import Files, short_name, unique
from weir.store.ledger import RowFile
from weir.store.state import RowFiles, State
from weir.store.table_history import lifetimes_file
from weir.values.codec import canonical

FOLDER = "cache/partners"
PASSING = f"{FOLDER}/passing"  # rows of the batch at hand
SUFFIX = ".rows"
MERGE_RATIO = 4
SPAN_SHARE = 4
SAID_ROWS_MIN = 1_000_000  # indexing fewer rows is not worth a line
LOOSE_FILES_MAX = 32  # row files that a task reads for one segment


@dataclass(frozen=True)
class _Tier:
    """The rows of batches first..last."""

    first: int
    last: int
    rows: int  # how many of them are kept
    t_max_us: int  # the latest time in the oldest of its batches that has kept rows
    path: str = ""  # its file, once it is written; loose ones are not
    has: frozenset[str] = frozenset()  # its orders and attributes, once it is written


def _inside(first: int, last: int, live: RowFiles) -> slice:
    """The row files of batches first..last; files ascend by batch."""
    return slice(int(np.searchsorted(live.batch, first)), int(np.searchsorted(live.batch, last, side="right")))


def _tier(first: int, last: int, live: RowFiles) -> _Tier:
    inside = _inside(first, last, live)
    of_oldest = _inside(first, int(live.batch[inside.start]), live)
    return _Tier(first, last, int(live.count[inside].sum()), int(live.t_max_us[of_oldest].max()))


def _folder(of: FamilyRef, side: int) -> str:
    return f"{FOLDER}/{of.form}/{short_name(of.family.name)}/{side}"


def _asked(needs: Needs) -> Iterator[str]:
    """What queries ask for, as texts; queries without an access attribute take any order."""
    for access in needs.accesses:
        if access is not None:
            yield f"order {canonical(access)}"
    for column in needs.columns:
        yield f"column {canonical(column)}"


@dataclass(frozen=True)
class PartnerRefs:
    """Partner rows, by their side."""

    old: tuple[tuple[RowsFile, ...], ...]
    passing: tuple[tuple[RowsFile, ...], ...]  # rows of the batch itself, forgotten when it is matched
    lifetimes: tuple[str | None, ...]  # of sides that are tables': how long their changes hold, as of the batch

    def paths(self) -> list[str]:
        """Their cache files."""
        rows = [path for of_side in (*self.old, *self.passing) for path in of_side if isinstance(path, str)]
        return [*rows, *(path for path in self.lifetimes if path is not None)]

    def met(self, side: int) -> tuple[tuple[RowsFile, ...], ...]:
        """The rows that events of one side meet, by the rows' side: old ones, and new ones of the sides before."""
        return tuple(
            () if s == side else self.old[s] + self.passing[s] if s < side else self.old[s]
            for s in range(len(self.old))
        )


class PartnerSegments:
    """Builds and finds the partner rows that a batch's events meet."""

    def __init__(self, files: Files, settings: Settings, say: Callable[[str], None] | None = None) -> None:
        self.files = files
        self.settings = settings
        self.say = say or (lambda _: None)
        self._tiers: dict[str, list[_Tier]] = {}  # by folder
        self._lifetimes_of: dict[str, str] = {}  # by the name of a table's changes: the newest file
        self._swept = False
        self.costs = load(files)  # the weights by which strategies are chosen

    def retain(self, families: Iterable[FamilyRef]) -> None:
        """Delete the tiers of all families except these."""
        used = {_folder(of, side) for of in families for side in range(len(of.family.streams))}
        for folder in self._tiers.keys() - used:
            for tier in self._tiers.pop(folder):
                if tier.path:
                    self.files.delete(tier.path)

    def prepare(self, of: FamilyRef, catalog: Catalog, state: State, new: Sequence[RowFile]) -> PartnerRefs:
        """Partner files of a family for a batch with the row files `new`, which `state` does not know yet.

        Rows of a side are prepared if any other side has new ones.
        """
        streams = [catalog.side(name) for name in of.family.streams]
        if not self._swept:  # files of an earlier process are other tiers, or rows of a batch that it did not finish
            self._swept = True
            self._sweep()
        arriving = {f.stream for f in new}
        old: list[tuple[RowsFile, ...]] = []
        passing: list[tuple[RowsFile, ...]] = []
        for side, stream in enumerate(streams):
            is_met = any(s.name in arriving for k, s in enumerate(streams) if k != side)
            kept = state.row_files(stream.name)
            old.append(self._old(of, side, stream, kept) if is_met else ())
            fresh = [f for f in new if f.stream == stream.name]
            passing.append(())
            if fresh and any(s.name in arriving for s in streams[side + 1 :]):
                of_rows = LooseRows(tuple((f.path, f.first_row) for f in fresh))
                passing[-1] = (of_rows,)
                if not self._are_loose(sum(f.count for f in fresh), len(fresh)):
                    path = f"{PASSING}/{unique()}{SUFFIX}"
                    self._build(path, of, side, stream, of_rows)
                    passing[-1] = (path,)
        lifetimes = tuple(self._lifetimes(stream, catalog, state, new) for stream in streams)
        return PartnerRefs(tuple(old), tuple(passing), lifetimes)

    def _lifetimes(self, side: Stream, catalog: Catalog, state: State, new: Sequence[RowFile]) -> str | None:
        """The file that says how long changes of a table hold, those of the batch among them; None for a stream.

        Where earlier batches are matched again, the state knows the files of `new`.
        """
        if not is_changes(side.name):
            return None
        again = any(f.path in set(state.row_files(f.stream).paths) for f in new[:1])
        coming = () if again else (f.path for f in new if f.stream == side.name)
        changes = [*state.row_files(side.name).paths, *coming]
        if not changes:
            return None
        path = lifetimes_file(self.files, catalog.tables[called(side.name).lower()], changes)
        if again:
            return path  # the batch itself has another one; `forget` deletes this one
        before = self._lifetimes_of.get(side.name, path)
        if before != path:
            self.files.delete(before)
        self._lifetimes_of[side.name] = path
        return path

    def forget(self, refs: PartnerRefs) -> None:
        """Delete the rows of the batch itself, and what only earlier batches had to know: it is matched."""
        used = self._lifetimes_of.values()
        for path in (*(p for of_side in refs.passing for p in of_side), *refs.lifetimes):
            if isinstance(path, str) and path not in used:
                self.files.delete(path)

    def _old(self, of: FamilyRef, side: int, stream: Stream, live: RowFiles) -> tuple[RowsFile, ...]:
        """The tiers of one side over all rows that are kept."""
        folder = _folder(of, side)
        asked = frozenset(_asked(of.needs[side]))
        before = self._tiers.get(folder, [])
        kept: list[_Tier] = []
        found: list[RowsFile] = []
        for tier in self._with_new(self._live_tiers(before, live), live, stream.keep_us):
            if not (tier.path and asked <= tier.has and is_whole(self.files, tier.path)):
                inside = _inside(tier.first, tier.last, live)
                of_rows = LooseRows(tuple(zip(live.paths[inside], live.first_row[inside].tolist(), strict=True)))
                if self._are_loose(tier.rows, len(of_rows.files)):
                    kept.append(replace(tier, path="", has=frozenset()))
                    found.append(of_rows)
                    continue
                path = f"{folder}/{tier.first:012d}-{tier.last:012d}-{unique()}{SUFFIX}"
                self._build(path, of, side, stream, of_rows)
                tier = replace(tier, path=path, has=asked)
            kept.append(tier)
            found.append(tier.path)
        for gone in {t.path for t in before if t.path} - {t.path for t in kept}:
            self.files.delete(gone)
        self._tiers[folder] = kept
        return tuple(found)

    def _sweep(self) -> None:
        """Delete all whole files; half-written ones may be those of a driver that still lives."""
        for entry in self.files.list(FOLDER):
            if entry.path.endswith(SUFFIX):
                self.files.delete(entry.path)

    def _live_tiers(self, tiers: Sequence[_Tier], live: RowFiles) -> list[_Tier]:
        """The tiers that have not expired, as they still hold kept row files; each with what is left of it."""
        inside = [(t, _inside(t.first, t.last, live)) for t in tiers]
        left = [(t, _tier(t.first, t.last, live)) for t, at in inside if at.stop > at.start]
        return [replace(now, path=t.path, has=t.has) for t, now in left]

    def _with_new(self, tiers: list[_Tier], live: RowFiles, keep_us: int | None) -> list[_Tier]:
        """The tiers, one more for what came since, and small neighbours merged."""
        since = tiers[-1].last if tiers else -1
        for batch in np.unique(live.batch[live.batch > since]).tolist():
            tiers = self._merged([*tiers, _tier(batch, batch, live)], live, keep_us)
        return tiers

    def _merged(self, tiers: list[_Tier], live: RowFiles, keep_us: int | None) -> list[_Tier]:
        while len(tiers) >= 2:
            older, newer = tiers[-2:]
            both = _tier(older.first, newer.last, live)
            # From latest time to latest time, whatever the earliest ones are: late rows must not keep tiers apart.
            too_long = keep_us is not None and (newer.t_max_us - older.t_max_us) * SPAN_SHARE > keep_us
            if older.rows > MERGE_RATIO * newer.rows or both.rows > self.settings.partner_rows_max or too_long:
                break
            tiers[-2:] = [both]
        return tiers

    def _build(self, path: str, of: FamilyRef, side: int, stream: Stream, rows: LooseRows) -> None:
        """Write rows as partner rows. No file outlives this process and its workers, so none is synced."""
        made, count = partner_rows(self.files, form_named(of.form), of.family, side, stream, of.needs[side], rows)
        if count >= SAID_ROWS_MIN:
            self.say(f"indexed {count:,} rows of stream '{stream.name}' for joins")
        save_arrays(self.files, path, made.arrays(), made.meta(), durable=False)

    def _are_loose(self, rows: int, files: int) -> bool:
        return rows <= self.settings.loose_rows_max and files <= LOOSE_FILES_MAX
