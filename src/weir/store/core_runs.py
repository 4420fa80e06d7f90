"""Runs: match files turned around, from cores by event to rows (or combinations of rows) by core.

A run covers consecutive batches of one channel (a stream, or the streams of a join) and has `ids` (ascending ids of
cores), `offsets` and, by core, the row ids of every side in `side.0`, `side.1`, …, result by result, in batch order.
Runs are caches: they live in cache/runs/, the running job builds one every few batches and merges neighbours of similar
size, without the results whose rows have expired, and a reader without them scans match files instead. A reader takes
the runs that exist, and the match files of the batches between them, so answers never depend on which runs there are.

A run is cut to batches a … b by row ids alone. A result belongs to the batch of its last row. So it belongs to b or an
earlier batch exactly if all its rows came by then, and to a or a later one exactly if one of them came after a − 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weir.errors import StoreError
from weir.store.arrays import read_arrays, save_arrays
from weir.store.block_sums import CheckedArrays, with_sums
from weir.store.files import Files, reach, short_name
from weir.store.mapped import Mapped
from weir.store.matches import CHANNEL, read_matches, results_of, results_of_many
from weir.store.state import State

RUN_PAIRS_MAX = 64_000_000
MERGE_RATIO = 4  # neighbours are merged when the older is at most this many times the newer
IDS, OFFSETS = "ids", "offsets"  # arrays of a run
_mapped: Mapped[CheckedArrays] = Mapped(256)
_NAME = re.compile(r"/(?P<first>\d{12})-(?P<last>\d{12})\.run$")


@dataclass(frozen=True, order=True)
class CoreRun:
    """Where the turned-around matches of batches first..last are."""

    first: int
    last: int
    path: str


def _folder(channel: str) -> str:
    return f"cache/runs/{short_name(channel)}/"


def runs_of(files: Files, channel: str) -> list[CoreRun]:
    """Runs of a channel that do not overlap, ascending; of overlapping ones the longest is taken."""
    folder = _folder(channel)
    found = []
    for path, _, _ in files.list(folder):
        named = _NAME.search(path)
        if named and path == f"{folder}{named[0][1:]}":
            found.append(CoreRun(int(named["first"]), int(named["last"]), path))
    chosen: list[CoreRun] = []
    for run in sorted(found, key=lambda r: (r.first - r.last, r.first)):
        if all(run.last < c.first or run.first > c.last for c in chosen):
            chosen.append(run)
    return sorted(chosen)


def _names(channel: str) -> tuple[str, ...]:
    """The names of the arrays that a run has by core: row ids, an array for each side."""
    return tuple(f"side.{k}" for k in range(channel.count(CHANNEL) + 1))


def _turn(ids: np.ndarray, rows: Sequence[np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
    order = np.argsort(ids, kind="stable")  # stable: results stay in batch order within a core
    ids = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1]))) if len(ids) else np.empty(0, np.int64)
    arrays = {IDS: ids[starts], OFFSETS: np.append(starts, len(ids)).astype(np.int64)}
    return arrays | {name: one[order] for name, one in zip(names, rows, strict=True)}


def invert(files: Files, channel: str, paths: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of a run over these match files, which are in batch order."""
    names = _names(channel)
    nothing = (np.empty(0, np.int64),) * (1 + len(names))
    pieces = (piece for path in paths for piece in read_matches(files, path, channel))
    found = [nothing, *((piece.items, *piece.rows()) for piece in pieces)]
    ids, *rows = (np.concatenate(column) for column in zip(*found, strict=True))
    return _turn(ids, rows, names)


def compact(files: Files, state: State, channel: str) -> None:
    """Turn the match files of a channel that no run covers into a run; merge neighbours of similar size."""
    runs = runs_of(files, channel)
    oldest = min(state.batches_with_rows(), default=0)
    for run in runs:
        if run.last < oldest:  # every row of it has expired
            files.delete(run.path)
    runs = [run for run in runs if run.last >= oldest and _is_readable(files, run, _names(channel))]
    for covered, first, last in list(_cover(runs, oldest, state.last)):
        if covered is None:  # new batches, or a gap where a run was deleted
            paths = [m.path for _, m in state.match_files(first, last)]
            runs.append(_save(files, channel, first, last, invert(files, channel, paths)))
    runs.sort()
    reach("mid-compaction")
    names = _names(channel)
    while len(runs) >= 2:
        try:
            older, newer = (read_arrays(files, run.path, verify=True)[0] for run in runs[-2:])
        except StoreError:  # damaged: the match files say the same, and the next time fills the gap
            for run in runs[-2:]:
                files.delete(run.path)
            return
        small = len(older[names[0]]) <= MERGE_RATIO * max(1000, len(newer[names[0]]))
        if not small or len(older[names[0]]) + len(newer[names[0]]) > RUN_PAIRS_MAX:
            break
        assert runs[-2].last + 1 == runs[-1].first, "runs have no gaps between them"
        ids = np.concatenate([np.repeat(a[IDS], np.diff(a[OFFSETS])) for a in (older, newer)])
        rows = [np.concatenate([older[name], newer[name]]) for name in names]
        kept = _kept(state, channel, rows)
        arrays = _turn(ids[kept], [one[kept] for one in rows], names)
        merged = _save(files, channel, runs[-2].first, runs[-1].last, arrays)
        for old in runs[-2:]:
            files.delete(old.path)
        runs[-2:] = [merged]


def _kept(state: State, channel: str, rows: Sequence[np.ndarray]) -> np.ndarray:
    """Which results may still be shown: none of their rows came before the oldest file that has not expired."""
    found = np.ones(len(rows[0]), bool)
    for stream, one in zip(channel.split(CHANNEL), rows, strict=True):
        live = state.row_files(stream).first_row
        found &= one >= (int(live[0]) if len(live) else state.row_counts.get(stream, 0))
    return found


def _save(files: Files, channel: str, first: int, last: int, arrays: dict[str, np.ndarray]) -> CoreRun:
    path = f"{_folder(channel)}{first:012d}-{last:012d}.run"
    save_arrays(files, path, with_sums(arrays, IDS), {})
    return CoreRun(first, last, path)


def _cover(runs: Sequence[CoreRun], first: int, last: int) -> Iterator[tuple[CoreRun | None, int, int]]:
    """Batches first..last in order, as stretches that lie within one run or within none."""
    batch = first
    for run in runs:
        if run.last < batch or run.first > last:
            continue
        if run.first > batch:
            yield None, batch, run.first - 1
        yield run, max(batch, run.first), min(last, run.last)
        batch = run.last + 1
    if batch <= last:
        yield None, batch, last


def matched(files: Files, state: State, channel: str, core: int, first: int, last: int) -> tuple[np.ndarray, ...]:
    """Row ids by side of the results that a core got in batches first..last, in batch order."""
    sides = channel.split(CHANNEL)
    found: list[tuple[np.ndarray, ...]] = [(np.empty(0, np.int64),) * len(sides)]
    for run, a, b in _cover(runs_of(files, channel), first, last):
        kept = _in_run(files, run, core, _names(channel)) if run is not None else None
        if kept is None:  # no run, or one that is damaged or was just merged away: the match files say the same
            found.extend(results_of(files, m.path, channel, core) for _, m in state.match_files(a, b))
            continue
        there = np.ones(len(kept[0]), bool)  # all rows came in batch b or before …
        new = np.zeros(len(kept[0]), bool)  # … and one of them in batch a or later
        for stream, rows in zip(sides, kept, strict=True):
            there &= rows < state.rows_at(stream, b)
            new |= rows >= state.rows_at(stream, a - 1)
        found.append(tuple(rows[there & new] for rows in kept))
    return tuple(np.concatenate(rows) for rows in zip(*found, strict=True))


def matched_many(
    files: Files, state: State, channel: str, cores: np.ndarray, first: np.ndarray, last: int
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """What these cores, which ascend, got in the batches from `first` of each to `last`.

    For each result the place of its core, and its row ids by side; those of one core are in batch order. Runs and match
    files are looked at once for all of them.
    """
    sides = channel.split(CHANNEL)
    places = [np.empty(0, np.int64)]
    found: list[tuple[np.ndarray, ...]] = [(np.empty(0, np.int64),) * len(sides)]
    for run, a, b in _cover(runs_of(files, channel), int(first.min()), last):
        kept = _many_in_run(files, run, cores, _names(channel)) if run is not None else None
        if kept is None:
            for batch, file in state.match_files(a, b):
                of, by_side = results_of_many(files, file.path, channel, cores)
                new = first[of] <= batch
                places.append(of[new])
                found.append(tuple(rows[new] for rows in by_side))
            continue
        of, by_side = kept
        there = np.ones(len(of), bool)
        new = np.zeros(len(of), bool)
        starts, start_of_core = np.unique(np.maximum(first, a), return_inverse=True)
        for stream, rows in zip(sides, by_side, strict=True):
            there &= rows < state.rows_at(stream, b)
            before = np.array([state.rows_at(stream, start - 1) for start in starts.tolist()], np.int64)
            new |= rows >= before[start_of_core[of]]
        places.append(of[there & new])
        found.append(tuple(rows[there & new] for rows in by_side))
    return np.concatenate(places), tuple(np.concatenate(rows) for rows in zip(*found, strict=True))


def _read_run(files: Files, run: CoreRun, names: Sequence[str]) -> CheckedArrays:
    """A run's arrays; what is taken of them is checked when it is first taken."""
    return _mapped.get(files, run.path, lambda: CheckedArrays(files, run.path, (IDS, OFFSETS, *names), IDS))


def _is_readable(files: Files, run: CoreRun, names: Sequence[str]) -> bool:
    """Whether a run can be read; one that is cut, or of another version, is deleted."""
    try:
        _read_run(files, run, names)
    except StoreError:
        files.delete(run.path)
        return False
    return True


def _in_run(files: Files, run: CoreRun, core: int, names: Sequence[str]) -> tuple[np.ndarray, ...] | None:
    """The core's part of the named arrays; None when the run cannot be read."""
    try:
        arrays = _read_run(files, run, names)
        at = arrays.find(core)
        if at is None:
            return tuple(np.empty(0, np.int64) for _ in names)
        begin, end = arrays.part(OFFSETS, at, at + 2).tolist()
        return tuple(np.array(arrays.part(name, begin, end)) for name in names)
    except StoreError:
        return None


def _many_in_run(
    files: Files, run: CoreRun, cores: np.ndarray, names: Sequence[str]
) -> tuple[np.ndarray, tuple[np.ndarray, ...]] | None:
    """For each result of some cores in a run the place of its core, and the named arrays; None if it cannot be read."""
    try:
        arrays = _read_run(files, run, names)
        ids, offsets = arrays.whole(IDS), arrays.whole(OFFSETS)
        at = np.searchsorted(ids, cores)
        there = np.flatnonzero(at < len(ids))
        there = there[ids[at[there]] == cores[there]]
        begin, end = offsets[at[there]], offsets[at[there] + 1]
        return np.repeat(there, end - begin), tuple(arrays.parts(name, begin, end) for name in names)
    except StoreError:
        return None
