"""The state: what the done documents add up to, folded once and then kept up to date.

It answers where rows are (which file holds row id r, which files may hold times in a range), which match
files there are, which queries are demoted, from which batch on a registration counts, and how far the clock
and the floors have got. It is a pure function of the ledger's prefix 0 … `last`, so two processes at the same
batch agree, and `refresh` only ever moves forward.

Rows of a stream are files in row id order; per file one line of int64s (batch, first row, count, smallest and
largest time), so that lookups are binary searches and masks over arrays. Files whose rows all lie below the
read floor have left the state (and, after a vacuum, the disk); so have match files of batches without rows.

Cost: two small reads and about 50 µs a new batch, one probe if there is none; memory follows the kept rows,
not the age of the weir. Every `CACHE_EVERY` batches the state is kept under cache/, so that opening reads one
file and the batches since. Not for sharing between threads.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from weir.algebra.schema import is_changes
from weir.errors import StoreError
from weir.store import caches
from weir.store.ascending import inside
from weir.store.documents import RESTORE, ROOT, seal_of_bytes
from weir.store.file_lists import FileList
from weir.store.folds import fold_path, folds, newest_fold
from weir.store.ledger import Done, KeptPart, LateFile, Ledger, MatchFile, Plan, done_path
from weir.store.range_map import RangeMap
from weir.store.state_cache import packed, unpacked

FORMAT = 4
CACHE_EVERY = 64  # batches
PRUNE_EVERY = 64  # batches; expired files are invisible at once, and forgotten this often
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The row files of one stream that are not expired, in row id order; all arrays are by file."""

    paths: tuple[str, ...]
    batch: Longs
    first_row: Longs
    count: Longs
    t_min_us: Longs
    t_max_us: Longs


@dataclass(slots=True)
class _Stream:
    """What is known of one stream."""

    files: FileList  # batch, first row, count, smallest and largest time of each
    mark_batches: list[int]  # batches that brought rows …
    mark_rows: list[int]  # … and the next row id after each
    marks_forgotten: bool = False
    view: RowFiles | None = None  # made when asked for, until the next batch


class State:
    """The fold of the done documents of one weir."""

    def __init__(self) -> None:
        self.last = -1  # the newest batch folded in
        self.engine = ""
        self.now_us: int | None = None
        self.wall_us = 0  # of the newest plan
        self.floors: dict[str, int | None] = {}
        self.read_floors: dict[str, int | None] = {}
        self.row_counts: dict[str, int] = {}  # next row id per stream
        self.inbox_next = 0
        self.demoted: dict[int, int] = {}  # core → batch that demoted it
        self.quarantined: RangeMap[tuple[int, str]] = RangeMap()  # core → batch that quarantined it, and why
        self.restored: RangeMap[int] = RangeMap()  # core → batch since which it is matched again
        self.kept: dict[int, KeptPart] = {}  # part of the kept queries → what is known of it
        self.given_up: RangeMap[tuple[int, str]] = RangeMap()  # kept query → batch that gave it up, and why
        self.late: dict[str, dict[str, int]] = {}  # stream → reason → rows
        self.late_files: list[tuple[int, int, LateFile]] = []  # with batch and the wall clock of its plan
        self.registry = 0  # registry documents that the newest plan includes
        self.catalog = 0
        self.expired: deque[str] = deque(maxlen=100_000)  # files that left the state; vacuum takes them
        self.head = ROOT  # the seal of the newest done document
        self._streams: dict[str, _Stream] = {}
        self._matches = FileList(4)  # batch, slice, pairs and events of each
        self._pin_counts: list[int] = []  # registry counts, where they changed …
        self._pin_batches: list[int] = []  # … and the first batch with that count
        self._live: set[int] | None = None  # batches_with_rows, until the next batch
        self._opened = False
        self._cached = -1
        self._pruned = -1

    def refresh(self, ledger: Ledger, *, caches_allowed: bool = True) -> int:
        """Take in the batches that are newly done; returns the newest one, −1 if there is none."""
        if not self._opened and caches_allowed:
            self._opened = True
            for number, parts in caches.load(ledger.files, "state"):
                if self._restore(ledger, number, parts):
                    break
        while True:
            try:
                done = ledger.done(self.last + 1)
                plan = None if done is None else ledger.plan(done.batch)
            except StoreError:
                if not self._was_overtaken(ledger):
                    raise
            if self._was_overtaken(ledger):  # then these two, if they are there, are what a driver that slept has left
                self._start_from_fold(ledger)
                continue
            if done is None:
                break
            if plan is None or plan.token != done.plan_token:
                what = "missing" if plan is None else "another one"
                raise StoreError(f"batch {done.batch} is done, but its plan is {what}", hint=RESTORE)
            if (plan.before, done.before) != (self.head, plan.seal):
                what = "its plan" if done.before != plan.seal else f"batch {self.last}"
                raise StoreError(f"the done document of batch {done.batch} does not follow {what}", hint=RESTORE)
            self.fold(plan, done)
        if self.last - self._cached >= CACHE_EVERY and caches_allowed:
            caches.save(ledger.files, "state", self.last, self._to_cache())
            self._cached = self.last
        return self.last

    def _was_overtaken(self, ledger: Ledger) -> bool:
        """Whether documents after our last batch may have been removed: then our last one was removed before them."""
        if self.last < 0:
            return bool(folds(ledger.files))
        data = ledger.files.read(done_path(self.last))
        is_ours = data is not None and seal_of_bytes(data) == self.head
        return not is_ours and newest_fold(ledger.files, self.last) is not None

    def _start_from_fold(self, ledger: Ledger) -> None:
        found = newest_fold(ledger.files, self.last)
        if found is None:
            raise StoreError(f"{done_path(self.last)} is missing, and there is no newer fold", hint=RESTORE)
        number, document = found
        content = json.loads(bytes(document.body))
        if content["format"] != FORMAT or content["last"] != number or content["head"] != document.before:
            raise StoreError(f"{fold_path(number)} is not the fold of batch {number}", hint=RESTORE)
        self._load(content)

    def to_json(self) -> bytes:
        """All of it, for a fold."""
        self.forget_expired()
        return json.dumps(self._to_json()).encode()

    def fold(self, plan: Plan, done: Done) -> None:
        """Add the next batch."""
        assert done.batch == plan.batch == self.last + 1, "batches are folded in order"
        self.last = done.batch
        self.engine = plan.engine
        self.now_us = done.now_us
        self.wall_us = plan.wall_us
        self.floors, self.read_floors = dict(plan.floors), dict(plan.read_floors)
        self.row_counts = dict(done.row_counts)
        self.inbox_next = done.inbox_next
        self.registry, self.catalog = plan.registry, plan.catalog
        self.head = done.seal
        self._live = None
        for stream in self._streams.values():
            stream.view = None
        for file in done.rows:
            stream = self._stream(file.stream)
            stream.files.add(file.path, done.batch, file.first_row, file.count, file.t_min_us, file.t_max_us)
            if not stream.mark_batches or stream.mark_batches[-1] != done.batch:
                stream.mark_batches.append(done.batch)
                stream.mark_rows.append(done.row_counts[file.stream])
        for match in done.matches:
            self._matches.add(match.path, done.batch, match.slice, match.pairs, match.events)
        for late in done.late:
            self.late_files.append((done.batch, plan.wall_us, late))
            counters = self.late.setdefault(late.stream, {})
            for reason, count in late.reasons.items():
                counters[reason] = counters.get(reason, 0) + count
        while self.late_files and self.late_files[0][1] < plan.late_floor_us:
            self.expired.append(self.late_files.pop(0)[2].path)
        for first, count in done.restored:
            self.quarantined.remove(first, count)
            self.restored.put(first, count, done.batch)
            for core in range(first, first + count) if self.demoted else ():
                self.demoted.pop(core, None)
        for core in done.demoted:
            self.demoted.setdefault(core, done.batch)
        for q in done.quarantined:
            self.quarantined.put(q.first, q.count, (done.batch, q.reason))
        for part in done.kept:
            before = self.kept.get(part.part)
            self.expired.extend(set(before.files if before else ()) - set(part.files))
            self.kept[part.part] = part
        for first, count in done.resumed:
            self.given_up.remove(first, count)
        for q in done.given_up:
            self.given_up.put(q.first, q.count, (done.batch, q.reason))
        if not self._pin_counts or plan.registry > self._pin_counts[-1]:
            self._pin_counts.append(plan.registry)
            self._pin_batches.append(done.batch)
        if self.last - self._pruned >= PRUNE_EVERY:
            self.forget_expired()

    # ── rows ──

    def row_files(self, stream: str) -> RowFiles:
        """The files of a stream that may hold rows at or above its read floor."""
        known = self._stream(stream)
        if known.view is None:
            figures, paths = known.files.figures, known.files.paths
            floor = self.read_floors.get(stream)
            if floor is not None and len(paths) and int(figures[:, 4].min()) < floor:
                live = np.flatnonzero(figures[:, 4] >= floor)
                figures, paths = figures[live], [paths[k] for k in live.tolist()]
            known.view = RowFiles(tuple(paths), *np.ascontiguousarray(figures.T))
        return known.view

    def file_of_row(self, stream: str, rows: npt.ArrayLike) -> Longs:
        """For each row id the index into `row_files(stream)`, −1 where the file is expired or unknown."""
        files = self.row_files(stream)
        wanted = np.asarray(rows, np.int64)
        if not files.paths:
            return np.full(wanted.shape, -1, np.int64)
        at = np.searchsorted(files.first_row, wanted, side="right") - 1
        inside = (at >= 0) & (wanted < files.first_row[at] + files.count[at])
        return np.where(inside, at, -1)

    def rows_at(self, stream: str, batch: int) -> int:
        """How many row ids of a stream the batches ≤ `batch` gave out: the high-water mark of a token.

        Exact while any row of that batch or an older one is kept. For batches before that all marks mean the same, as
        no row of theirs is kept.
        """
        known = self._stream(stream)
        at = bisect_right(known.mark_batches, batch) - 1
        if at >= 0:
            return known.mark_rows[at]
        return known.mark_rows[0] if known.marks_forgotten else 0

    # ── matches, queries, late rows ──

    def match_files(self, first: int = 0, last: int | None = None) -> list[tuple[int, MatchFile]]:
        """(batch, match file) of the batches first … last that still have rows, in order."""
        known, live = self._matches, self.batches_with_rows()
        places = known.between(first, self.last if last is None else min(last, self.last))
        figures = known.figures[places.start : places.stop].tolist()
        found = zip(known.paths[places.start : places.stop], figures, strict=True)
        return [(batch, MatchFile(path, *about)) for path, (batch, *about) in found if batch in live]

    def batches_with_rows(self) -> set[int]:
        """Batches whose matches may still be shown: those with a row file that is not expired.

        Changes of tables never expire. What they match are rows of streams, of their batch or of ones before.
        """
        if self._live is None:
            streams = [name for name in self._streams if not is_changes(name)]
            changes = [name for name in self._streams if is_changes(name)]
            live = {b for name in streams for b in self.row_files(name).batch.tolist()}
            oldest = min(live, default=self.last + 1)
            self._live = live | {b for name in changes for b in self.row_files(name).batch.tolist() if b >= oldest}
        return self._live

    def matched_since(self, core: int, registry_number: int) -> int | None:
        """The batch since which a core's matches are kept without a gap; None: they are not, or not yet."""
        if core in self.demoted or self.quarantined.get(core) is not None:
            return None
        restored = self.restored.get(core)
        return self.active_from(registry_number) if restored is None else restored

    def not_matched(self) -> Longs:
        """The cores that are demoted or quarantined, ascending."""
        found: Longs = np.union1d(np.array(list(self.demoted), np.int64), self.quarantined.ids())
        return found

    def active_from(self, registry_number: int) -> int | None:
        """The first done batch that includes a registry document, or None if none does yet."""
        at = bisect_right(self._pin_counts, registry_number)
        return self._pin_batches[at] if at < len(self._pin_batches) else None

    def named(self) -> set[str]:
        """Every file that is part of the state."""
        paths = {path for name in self._streams for path in self.row_files(name).paths}
        paths.update(file.path for _, file in self.match_files())
        paths.update(file.path for _, _, file in self.late_files)
        paths.update(path for part in self.kept.values() for path in part.files)
        return paths

    def _stream(self, name: str) -> _Stream:
        return self._streams.setdefault(name, _Stream(FileList(5), [], []))

    def forget_expired(self) -> None:
        """Move the files that are expired from the state to `expired`."""
        for name, stream in self._streams.items():
            view = self.row_files(name)
            if len(view.paths) < len(stream.files):
                floor = self.read_floors[name]
                assert floor is not None, "a floor hides files"
                self.expired.extend(stream.files.drop(stream.files.figures[:, 4] < floor))
            # One mark below the oldest kept batch stays: it tells how many rows came before.
            oldest = int(view.batch[0]) if view.paths else self.last + 1
            spare = bisect_right(stream.mark_batches, oldest - 1) - 1
            if spare > 0:
                del stream.mark_batches[:spare], stream.mark_rows[:spare]
                stream.marks_forgotten = True
        live = np.array(sorted(self.batches_with_rows()), np.int64)
        self.expired.extend(self._matches.drop(~inside(self._matches.figures[:, 0], live)))
        self._pruned = self.last

    # ── the cache ──

    def _to_json(self) -> dict[str, Any]:
        by_batch = groupby(_listed(self._matches), lambda file: file[1][0])
        return self._head() | {
            "streams": {
                name: [
                    [[name, path, *about] for path, (_, *about) in _listed(s.files)],
                    s.files.figures[:, 0].tolist(),
                    s.mark_batches,
                    s.mark_rows,
                    s.marks_forgotten,
                ]
                for name, s in self._streams.items()
            },
            "matches": [[batch, [[path, *about] for path, (_, *about) in files]] for batch, files in by_batch],
        }

    def _to_cache(self) -> list[bytes]:
        self.forget_expired()
        streams = self._streams.values()
        head = self._head() | {"streams": {name: s.marks_forgotten for name, s in self._streams.items()}}
        marks = [marks for s in streams for marks in (s.mark_batches, s.mark_rows)]
        return packed(head, [*(s.files for s in streams), self._matches], marks)

    def _head(self) -> dict[str, Any]:
        """All but the lists of row files and match files."""
        return {
            "format": FORMAT,
            "last": self.last,
            "head": self.head,
            "engine": self.engine,
            "now_us": self.now_us,
            "wall_us": self.wall_us,
            "floors": self.floors,
            "read_floors": self.read_floors,
            "row_counts": self.row_counts,
            "inbox_next": self.inbox_next,
            "demoted": list(self.demoted.items()),
            "quarantined": list(self.quarantined),
            "restored": list(self.restored),
            "kept": [[p.part, p.of, p.path, p.files, p.due_us] for p in self.kept.values()],
            "given_up": list(self.given_up),
            "late": self.late,
            "late_files": [[b, us, [f.stream, f.path, f.count, f.reasons]] for b, us, f in self.late_files],
            "registry": self.registry,
            "catalog": self.catalog,
            "pins": [self._pin_counts, self._pin_batches],
        }

    def _restore(self, ledger: Ledger, number: int, parts: list[bytes]) -> bool:
        """Start from a cache, if it is about this ledger."""
        found = unpacked(parts)
        if found is None:
            return False
        d, lists, marks = found
        if d["format"] != FORMAT or d["last"] != number:
            return False
        done = ledger.done(number)
        if done is None or done.seal != d["head"]:
            return False
        self._load_head(d)
        *of_streams, self._matches = lists
        for k, (name, forgotten) in enumerate(d["streams"].items()):
            self._streams[name] = _Stream(of_streams[k], marks[2 * k], marks[2 * k + 1], forgotten)
        return True

    def _load(self, d: dict[str, Any]) -> None:
        """Become what a fold says."""
        self._load_head(d)
        for name, (files, batches, *marks) in d["streams"].items():
            figures = [[batch, *about] for (_, _, *about), batch in zip(files, batches, strict=True)]
            self._streams[name] = _Stream(_file_list(5, [path for _, path, *_ in files], figures), *marks)
        files = [(batch, *file) for batch, of_batch in d["matches"] for file in of_batch]
        self._matches = _file_list(4, [path for _, path, *_ in files], [[b, *about] for b, _, *about in files])

    def _load_head(self, d: dict[str, Any]) -> None:
        self.last = self._cached = self._pruned = d["last"]
        self.head, self.engine = d["head"], d["engine"]
        self.now_us, self.wall_us = d["now_us"], d["wall_us"]
        self.floors, self.read_floors = d["floors"], d["read_floors"]
        self.row_counts, self.inbox_next = d["row_counts"], d["inbox_next"]
        self.demoted = dict(d["demoted"])
        self.quarantined = RangeMap((first, count, (batch, why)) for first, count, (batch, why) in d["quarantined"])
        self.restored = RangeMap((first, count, batch) for first, count, batch in d["restored"])
        self.kept = {part: KeptPart(part, of, path, tuple(files), due) for part, of, path, files, due in d["kept"]}
        self.given_up = RangeMap((first, count, (batch, why)) for first, count, (batch, why) in d["given_up"])
        self.late = d["late"]
        self.late_files = [(batch, wall_us, LateFile(*file)) for batch, wall_us, file in d["late_files"]]
        self.registry, self.catalog = d["registry"], d["catalog"]
        self._streams, self._live = {}, None
        self._pin_counts, self._pin_batches = d["pins"]


def _file_list(width: int, paths: list[str], figures: list[list[int]]) -> FileList:
    return FileList(width, paths, np.array(figures, np.int64).reshape(-1, width))


def _listed(files: FileList) -> Iterator[tuple[str, list[int]]]:
    return zip(files.paths, files.figures.tolist(), strict=True)
