"""Vacuum: remove files that no reader can want any more, and files that never became part of the truth.

What goes, and why that is safe beside running drivers and readers, after any crash, any number of times:

- row files whose newest row lies below the read floor of the newest done batch, and match files of batches
  without rows: readers of the newest state do not see them, and the read floor lies below what windows reach,
  so that readers which lag a little do not either;
- orphans in rows/, matches/, late/ and kept/: their name carries a batch, that batch is done, and its document does
  not name them. A done document has one creator, so they can never be named. Files of a batch that is not
  done are left alone, however old: their driver may only be asleep;
- tickets that done batches consumed *and* Spark committed (see `inbox`: they are written down first);
- pushed data that no ticket can name any more (see `inbox` again);
- files under tmp/ older than a grace: should their writer wake up, its link fails and it says so;
- documents of the ledger that a fold covers (see `folds`);
- query segments that an earlier driver left, and rows from before a query's registration that were kept for its
  fetches, when they are older than a grace: both are caches.

Listings are hints here: what a listing misses is removed another time. Cost: one listing of each folder.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir.settings import Settings
from weir.store.data_files import batch_of_path
from weir.store.files import TEMPORARY, Entry, Files, reach
from weir.store.folds import create_fold
from weir.store.inbox import Inbox
from weir.store.state import State

SEGMENTS, OLDER = "cache/segments", "cache/older"  # folders
OLDER_S = 86_400  # results from before a registration are evaluated again at the first fetch of a day
TEMPORARY_S_MIN = 600  # a process may well take some minutes to write a file


@dataclass(frozen=True, slots=True)
class Removed:
    """How many files of each kind a vacuum removed."""

    expired: int = 0  # row and match files below the read floor, and what kept answers do not need any more
    orphans: int = 0  # files that no document names
    inbox: int = 0  # tickets and pushed data that were consumed
    temporary: int = 0  # half-written files of dead processes
    caches: int = 0  # of dead drivers, and of queries that nobody asked for of late

    @property
    def total(self) -> int:
        return self.expired + self.orphans + self.inbox + self.temporary + self.caches


def vacuum(
    files: Files,
    state: State,
    now_wall_s: float,
    settings: Settings,
    inbox_committed: int = 0,
    segments_in_use: frozenset[str] | None = None,
) -> Removed:
    """Remove what can go. `state` is refreshed by the caller; a stale one removes less, never too much.

    `inbox_committed`: the `inbox_next` of the newest batch that Spark is known to have committed. `segments_in_use`:
    files of query segments that the job works with; None: not known, all stay.
    """
    # First what goes without a document being written: the disk may be full.
    expired, orphans = _remove_data(files, state, now_wall_s - settings.orphan_grace_s)
    inbox = Inbox(files)
    orphans += _remove(inbox.dead_data(), files)
    old_s = now_wall_s - max(settings.orphan_grace_s, TEMPORARY_S_MIN)
    temporary = _remove([e.path for e in files.list(TEMPORARY) if e.mtime_s < old_s], files)
    cached = _remove_caches(files, now_wall_s, settings, segments_in_use)
    consumed = inbox.release(min(state.inbox_next, inbox_committed))
    if settings.fold_every_batches and state.last >= 0:
        create_fold(files, state.last, state.head, state.to_json(), settings.fold_every_batches)
    return Removed(expired, orphans, consumed, temporary, cached)


def _remove_caches(files: Files, now_s: float, settings: Settings, in_use: frozenset[str] | None) -> int:
    """Caches that were not written of late; a reader of one that goes makes it again."""
    old = [e.path for e in files.list(OLDER) if e.mtime_s < now_s - max(settings.orphan_grace_s, OLDER_S)]
    if in_use is not None:
        dead_s = now_s - settings.orphan_grace_s
        old += [e.path for e in files.list(SEGMENTS) if e.mtime_s < dead_s and e.path not in in_use]
    return _remove(old, files)


def _remove_data(files: Files, state: State, before_s: float) -> tuple[int, int]:
    """Expired files at once, orphans when they are older than the grace."""
    state.forget_expired()
    named, expired = state.named(), set(state.expired)
    gone: list[str] = []
    dead: list[str] = []
    for folder in ("rows", "matches", "late", "kept"):
        for entry in files.list(folder):
            if entry.path in named:
                continue
            if entry.path in expired:
                gone.append(entry.path)
            elif _is_dead(entry, state.last) and entry.mtime_s < before_s:
                dead.append(entry.path)
    counts = _remove(gone, files), _remove(dead, files)
    state.expired.clear()
    return counts


def _is_dead(entry: Entry, last_done: int) -> bool:
    """Whether no done document to come can name this file. A name without a batch was made by a stranger."""
    batch = batch_of_path(entry.path)
    return batch is None or batch <= last_done


def _remove(paths: list[str], files: Files) -> int:
    for path in paths:
        files.delete(path)
        reach("mid-vacuum")
    return len(paths)
