"""Runs: match files turned around, from queries by event to rows by query.

A run covers consecutive batches of one stream and has `ids` (ascending query ids), `offsets` and `rows` (row ids
by query, ascending). Runs are caches: they live in cache/runs/, the running job builds one every few batches and
merges neighbours of similar size, and a reader without them scans match files instead. Whatever runs exist, they
and the match files of the batches between them are read, so answers never depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from weir.errors import StoreError
from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files, reach
from weir.store.matches import read_matches, rows_of_query
from weir.store.state import State

RUN_PAIRS_MAX = 64_000_000
MERGE_RATIO = 4  # neighbours are merged when the older is at most this many times the newer
_NAME = re.compile(r"cache/runs/(?P<stream>.+)/(?P<first>\d{12})-(?P<last>\d{12})\.run$")


@dataclass(frozen=True, order=True)
class Run:
    """Where the turned-around matches of batches first..last are."""

    first: int
    last: int
    path: str


def runs_of(files: Files, stream: str) -> list[Run]:
    """A cover by disjoint runs, ascending; of overlapping ones the longest wins."""
    found = []
    for path, _, _ in files.list(f"cache/runs/{stream}/"):
        named = _NAME.search(path)
        if named and named["stream"] == stream:
            found.append(Run(int(named["first"]), int(named["last"]), path))
    chosen: list[Run] = []
    for run in sorted(found, key=lambda r: (r.first - r.last, r.first)):
        if all(run.last < c.first or run.first > c.last for c in chosen):
            chosen.append(run)
    return sorted(chosen)


def _turn(ids: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    order = np.argsort(ids, kind="stable")  # stable: rows stay ascending within a query
    ids, rows = ids[order], rows[order]
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1]))) if len(ids) else np.empty(0, np.int64)
    return {"ids": ids[starts], "offsets": np.append(starts, len(ids)).astype(np.int64), "rows": rows}


def invert(files: Files, stream: str, paths: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of a run over these match files, which are in batch order."""
    ids, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for path in paths:
        for piece in read_matches(files, path):
            if piece.stream == stream:
                ids.append(piece.items)
                events = np.arange(len(piece.offsets) - 1, dtype=np.int64) + piece.first_row
                rows.append(np.repeat(events, np.diff(piece.offsets)))
    return _turn(np.concatenate(ids), np.concatenate(rows))


def compact(files: Files, state: State, stream: str) -> None:
    """Turn the match files that no run covers into a run, then merge neighbours of similar size."""
    runs = runs_of(files, stream)
    oldest = min(state.batches_with_rows(), default=0)
    for run in runs:
        if run.last < oldest:  # every row of it has expired
            files.delete(run.path)
    runs = [run for run in runs if run.last >= oldest]
    for covered, first, last in list(_cover(runs, oldest, state.last)):
        if covered is None:  # new batches, or a gap where a run was deleted
            paths = [m.path for _, m in state.match_files(first, last)]
            runs.append(_save(files, stream, first, last, invert(files, stream, paths)))
    runs.sort()
    reach("mid-compaction")
    while len(runs) >= 2:
        try:
            older, newer = (_read_run(files, run) for run in runs[-2:])
        except StoreError:  # damaged: the match files say the same, and the next time fills the gap
            for run in runs[-2:]:
                files.delete(run.path)
            return
        small = len(older["rows"]) <= MERGE_RATIO * max(1000, len(newer["rows"]))
        if not small or len(older["rows"]) + len(newer["rows"]) > RUN_PAIRS_MAX:
            break
        assert runs[-2].last + 1 == runs[-1].first, "runs have no gaps between them"
        ids = [np.repeat(a["ids"], np.diff(a["offsets"])) for a in (older, newer)]
        both = _turn(np.concatenate(ids), np.concatenate([older["rows"], newer["rows"]]))
        merged = _save(files, stream, runs[-2].first, runs[-1].last, both)
        for old in runs[-2:]:
            files.delete(old.path)
        runs[-2:] = [merged]


def _save(files: Files, stream: str, first: int, last: int, arrays: dict[str, np.ndarray]) -> Run:
    path = f"cache/runs/{stream}/{first:012d}-{last:012d}.run"
    save_arrays(files, path, arrays, {})
    return Run(first, last, path)


def _cover(runs: Sequence[Run], first: int, last: int) -> Iterator[tuple[Run | None, int, int]]:
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


def matched_rows(files: Files, state: State, stream: str, query: int, first: int, last: int) -> np.ndarray:
    """Ascending row ids that matched the query in batches first..last: runs where there are, match files elsewhere."""
    found = [np.empty(0, np.int64)]
    for run, a, b in _cover(runs_of(files, stream), first, last):
        rows = _rows_in_run(files, run, query) if run is not None else None
        if rows is None:  # no run, or one that is damaged or was just merged away: the match files say the same
            found.extend(rows_of_query(files, m.path, stream, query) for _, m in state.match_files(a, b))
        else:
            low, high = state.rows_at(stream, a - 1), state.rows_at(stream, b)
            found.append(rows[np.searchsorted(rows, low) : np.searchsorted(rows, high)])
    return np.concatenate(found)


@lru_cache(maxsize=256)
def _read_run(files: Files, run: Run) -> dict[str, np.ndarray]:
    """A run's arrays, with their checksums looked at once."""
    return read_arrays(files, run.path, verify=True)[0]


def _rows_in_run(files: Files, run: Run, query: int) -> np.ndarray | None:
    try:
        arrays = _read_run(files, run)
    except StoreError:
        return None
    at = int(np.searchsorted(arrays["ids"], query))
    if at == len(arrays["ids"]) or arrays["ids"][at] != query:
        return np.empty(0, np.int64)
    return np.array(arrays["rows"][arrays["offsets"][at] : arrays["offsets"][at + 1]])
