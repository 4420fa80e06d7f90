"""A compiled scan, 2 threads, ids handed out: every query against every event, a search of the event's run if a fits.

The kept rows are sorted by (b, c), as for Weir. `joined_rows` counts what the SQL engines count, by walking the runs.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

from benchmarks.peers.peer import Answer, JoinPeer
from benchmarks.workloads import JoinWorkload
from weir.index.meeting.partners import build_partners, locate

_IDS = 1 << 22  # room for ids; a full buffer is put aside and another taken


@numba.njit(nogil=True)
def _scan(plane: Any, a: Any, begin: Any, end: Any, values: Any, first: int, out: Any, offsets: Any) -> int:
    """Scan for the events from `first` on; returns the first one for which there was not room for all queries."""
    a_lo, a_hi, c_lo, c_hi = plane
    n, used = len(a_lo), 0
    for e in range(first, len(a)):
        if len(out) - used < n:
            return e
        x = a[e]
        for i in range(n):
            if a_lo[i] <= x and x <= a_hi[i]:
                low, high = begin[e], end[e]
                while low < high:
                    middle = (low + high) >> 1
                    if values[middle] < c_lo[i]:
                        low = middle + 1
                    else:
                        high = middle
                if low < end[e] and values[low] <= c_hi[i]:
                    out[used] = i
                    used += 1
        offsets[e + 1] = used
    return len(a)


@numba.njit(nogil=True)
def _joined_rows(plane: Any, a: Any, begin: Any, end: Any, values: Any) -> int:
    a_lo, a_hi, c_lo, c_hi = plane
    total = 0
    for e in range(len(a)):
        for i in range(len(a_lo)):
            if a_lo[i] <= a[e] and a[e] <= a_hi[i]:
                for p in range(begin[e], end[e]):
                    total += c_lo[i] <= values[p] and values[p] <= c_hi[i]
    return total


def scan(workload: JoinWorkload, n_events: int, threads: int = 2) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """For each thread's slice: ids found up to each event since its buffer was begun, and the buffers."""
    partners = build_partners(workload.row_keys, workload.row_values)
    return _scan_slices(workload, partners.values, locate(partners, workload.keys[:n_events]), n_events, threads)


def _scan_slices(
    workload: JoinWorkload, values: np.ndarray, runs: tuple[np.ndarray, np.ndarray], n_events: int, threads: int
) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    plane, a = tuple(workload.plane), workload.values[:n_events]
    cuts = np.linspace(0, n_events, threads + 1).astype(int)

    def one(edge: tuple[int, int]) -> tuple[np.ndarray, list[np.ndarray]]:
        part = slice(*edge)
        begin, end = runs[0][part], runs[1][part]
        offsets, found, at = np.zeros(edge[1] - edge[0] + 1, np.int64), [], 0
        while at < edge[1] - edge[0]:
            out = np.empty(max(_IDS, 2 * workload.n_queries), np.int32)
            at = _scan(plane, a[part], begin, end, values, at, out, offsets)
            found.append(out[: offsets[at]])
        return offsets, found

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, itertools.pairwise(cuts.tolist())))


def prepare(workload: JoinWorkload) -> Answer:
    partners = build_partners(workload.row_keys, workload.row_values)

    def answer(n_events: int) -> int:
        runs = locate(partners, workload.keys[:n_events])
        found = _scan_slices(workload, partners.values, runs, n_events, 2)
        return sum(len(ids) for _, parts in found for ids in parts)

    return answer


def joined_rows(workload: JoinWorkload, n_events: int) -> int:
    """Rows (event, partner, query) that the first events make."""
    partners = build_partners(workload.row_keys, workload.row_values)
    begin, end = locate(partners, workload.keys[:n_events])
    found = _joined_rows(tuple(workload.plane), workload.values[:n_events], begin, end, partners.values)
    return int(found)


PEER = JoinPeer("scan", 2, True, False, prepare)
