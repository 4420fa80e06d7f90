"""Probing: which boxes a block of events lies in.

The search goes through the probes of a layout one after the other, and not through the events: for each probe it looks
up the runs of candidates of all events of a block (loads that do not wait for each other, so cache misses overlap),
puts the runs into the order of the entries (so that a large index streams through the cache once a block), and scans
them. Hits are kept as pieces: the slots that one run gave to one event.

Invariants: each box is an entry of exactly one probe; a probe's runs for an event are disjoint and contain every entry
whose access intervals contain the event; an entry is a hit if its inline bounds and its further constraints hold. So
a box hits an event at most once, and the hits of a block are at most the candidates of its runs, which are known before
they are scanned: a block that might not fit its buffer is given up and the caller tries fewer events.

Cost of an event: 10 to 20 ns for each probe and for each run, 1 to 4 ns for each candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar, kernel
from weir.index.layout import (
    ENTRY_BASE,
    ENTRY_FIRST,
    EQUALITY,
    HAS_REST,
    HAS_Z,
    PARTITION_BASE,
    ROW_BASE,
    STRIDE,
    X_SIGN,
    X_TOP,
    Layout,
    X,
    Y,
)
from weir.index.meeting.lean import thin

BLOCK_EVENTS = 1 << 14  # events that go through the probes together
_HITS_MIN = 1 << 20  # hits that a block's buffers hold at least
_RUNS_SORTED_MIN = 256  # runs that are worth sorting
_RUN_BUCKETS = 1 << 12  # of that sort
_CACHED_NUMBERS = 1 << 15  # a probe with fewer numbers in its entries stays in the cache and is scanned in any order


class Hits(NamedTuple):
    """Buffers of a block: its runs of candidates and its hits."""

    runs: Int32s  # int32[2 · block, 3]: event, counted from the block's first; first entry; last + 1
    sorted_runs: Int32s  # the same, in the order of entries
    run_buckets: Int64s  # int64[buckets + 1]: of that sort
    slots: Int32s  # int32[h]: slots that were hit, piece by piece
    pieces: Int32s  # int32[h, 2]: the event of a piece, counted from the block's first, and where its slots end


def make_hits(n_events: int, n_boxes: int) -> Hits:
    """Buffers in which at least one event fits, whatever it hits."""
    n_runs = 2 * min(BLOCK_EVENTS, n_events)
    n_hits = max(_HITS_MIN, n_boxes)
    return Hits(
        np.empty((n_runs, 3), dtype=np.int32),
        np.empty((n_runs, 3), dtype=np.int32),
        np.empty(_RUN_BUCKETS + 1, dtype=np.int64),
        np.empty(n_hits, dtype=np.int32),
        np.empty((n_hits, 2), dtype=np.int32),
    )


@kernel
def probe_events(made: Layout, ranked: Int32s, event: Scalar, n: Scalar, hits: Hits) -> tuple[Scalar, Scalar]:
    """The hits of `n` events from `event` on; `ranked` is int32[events, attributes].

    Returns the numbers of hits and of pieces; −1 hits if they might not fit.
    """
    n_hits = n_pieces = np.int64(0)  # of one type from the start, or the scans would be compiled twice
    for p in range(len(made.probes)):
        n_runs = _find_runs(made, p, ranked, event, n, hits.runs)
        runs = hits.runs
        if n_runs >= _RUNS_SORTED_MIN and _sort_runs(made, p, hits, n_runs):
            runs = hits.sorted_runs
        if n_pieces + n_runs > len(hits.pieces):
            return -1, n_pieces
        n_hits, n_pieces = _scan_runs(made, p, ranked, event, runs, n_runs, hits.slots, n_hits, hits.pieces, n_pieces)
        if n_hits < 0:
            return -1, n_pieces
    return n_hits, n_pieces


@kernel
def _find_runs(made: Layout, p: Scalar, ranked: Int32s, event: Scalar, n: Scalar, runs: Int32s) -> Scalar:
    """The runs of candidates in probe `p` of `n` events."""
    probe = made.probes[p]
    equality, x_of, y_of = probe[EQUALITY], probe[X], probe[Y]
    sign, top = probe[X_SIGN], probe[X_TOP]
    partition_base, row_base = probe[PARTITION_BASE], probe[ROW_BASE]
    rows, grids, cells, partitions = made.rows, made.grids, made.cells, made.partitions
    n_runs = 0
    for i in range(n):
        partition = np.int64(0)
        if equality >= 0:
            rank = np.int64(ranked[event + i, equality])
            if rank < 0 or rank & 1 == 0:  # NULL, or a value that no query mentions
                continue
            partition = rank >> 1
        x = np.int64(0)
        if x_of >= 0:
            rank = np.int64(ranked[event + i, x_of])
            if rank < 0:
                continue
            x = top + sign * rank
        row = row_base + partition
        row_end = row + 1
        if y_of >= 0:
            k = partition_base + partition
            from_origin = np.int64(ranked[event + i, y_of]) - partitions[k, 1]
            if from_origin < 0 or partitions[k, 3] == 0:
                continue
            strip = (from_origin * partitions[k, 2]) >> 32
            row = partitions[k, 0] + max(strip - partitions[k, 4], np.int64(0))
            row_end = partitions[k, 0] + min(strip + 1, np.int64(partitions[k, 3]))
        while row < row_end:
            begin, end, grid = rows[row, 0], rows[row + 1, 0], rows[row, 1]
            row += 1
            if grid >= 0:
                from_origin = x - grids[grid, 1]
                if from_origin < 0 or x > grids[grid, 4]:
                    continue
                cell = grids[grid, 0] + min((from_origin * grids[grid, 2]) >> 32, np.int64(grids[grid, 3] - 1))
                begin, end = cells[cell, 0], cells[cell, 1]
            if begin < end:
                runs[n_runs, 0] = i
                runs[n_runs, 1] = begin
                runs[n_runs, 2] = end
                n_runs += 1
    return n_runs


@kernel
def _sort_runs(made: Layout, p: Scalar, hits: Hits, n_runs: Scalar) -> Scalar:
    """Put runs roughly into the order of their entries, so that the scan goes through memory once.

    Returns False, and does nothing, if the entries are so few that any order will do.
    """
    runs, out, counts = hits.runs, hits.sorted_runs, hits.run_buckets
    first = made.probes[p, ENTRY_FIRST]
    base = made.probes[p, ENTRY_BASE]
    stop = made.probes[p + 1, ENTRY_BASE] if p + 1 < len(made.probes) else len(made.entries)
    if stop - base < _CACHED_NUMBERS:
        return False
    n_entries = (stop - base) // made.probes[p, STRIDE]
    shift = 0
    while n_entries >> shift >= _RUN_BUCKETS:
        shift += 1
    counts[:] = 0
    for r in range(n_runs):
        counts[((runs[r, 1] - first) >> shift) + 1] += 1
    for k in range(1, _RUN_BUCKETS):
        counts[k] += counts[k - 1]
    for r in range(n_runs):
        k = (runs[r, 1] - first) >> shift
        at = counts[k]
        counts[k] += 1
        out[at, 0] = runs[r, 0]
        out[at, 1] = runs[r, 1]
        out[at, 2] = runs[r, 2]
    return True


@kernel
def _scan_runs(
    made: Layout,
    p: Scalar,
    ranked: Int32s,
    event: Scalar,
    runs: Int32s,
    n_runs: Scalar,
    hits: Int32s,
    n_hits: Scalar,
    pieces: Int32s,
    n_pieces: Scalar,
) -> tuple[Scalar, Scalar]:
    """Append the hits of all runs, and a piece for each run that has some.

    Returns the new numbers of hits (−1 if they might not fit) and of pieces.
    """
    probe = made.probes[p]
    x_of, y_of, sign, top = probe[X], probe[Y], probe[X_SIGN], probe[X_TOP]
    stride, has_z, has_rest = probe[STRIDE], probe[HAS_Z] != 0, probe[HAS_REST] != 0
    first_entry, base = probe[ENTRY_FIRST], probe[ENTRY_BASE]
    stop = made.probes[p + 1, ENTRY_BASE] if p + 1 < len(made.probes) else len(made.entries)
    entries = made.entries[base:stop].reshape((stop - base) // stride, stride)
    x = np.int32(0)
    y = np.int32(0)
    for r in range(n_runs):
        i, begin, end = runs[r, 0], np.uint64(runs[r, 1] - first_entry), np.uint64(runs[r, 2] - first_entry)
        if n_hits + runs[r, 2] - runs[r, 1] > len(hits):
            return -1, n_pieces
        first = n_hits
        values = ranked[event + i]
        if x_of >= 0:
            x = np.int32(top + sign * values[x_of])
        if y_of >= 0:
            y = values[y_of]
            if has_z:
                n_hits = _scan(entries, begin, end, has_rest, (True, True, True), x, y, values, hits, n_hits)
            else:
                n_hits = _scan(entries, begin, end, has_rest, (True, True, False), x, y, values, hits, n_hits)
        elif x_of >= 0:
            if has_z:
                n_hits = _scan(entries, begin, end, has_rest, (True, False, True), x, y, values, hits, n_hits)
            else:
                n_hits = _scan(entries, begin, end, has_rest, (True, False, False), x, y, values, hits, n_hits)
        elif has_z:
            n_hits = _scan(entries, begin, end, has_rest, (False, False, True), x, y, values, hits, n_hits)
        else:
            n_hits = _scan(entries, begin, end, has_rest, (False, False, False), x, y, values, hits, n_hits)
        if has_rest:
            n_hits = _check_rest(made, entries, first_entry, values, hits, first, n_hits)
        pieces[n_pieces, 0] = i
        pieces[n_pieces, 1] = n_hits
        n_pieces += 1 if n_hits > first else 0
    return n_hits, n_pieces


@kernel
def _check_rest(
    made: Layout, entries: Int32s, first_entry: Scalar, values: Int32s, hits: Int32s, first: Scalar, n_hits: Scalar
) -> Scalar:
    """Turn the hits from `first` on, which are entries, into slots and drop those whose other constraints fail."""
    kept = first
    for h in range(first, n_hits):
        entry = hits[h]
        slot = entries[entry, 0]
        if slot < 0:
            slot = ~slot
            if not _rest_holds(made.rest_offsets, made.rest, entry + first_entry, values):
                continue
        hits[kept] = slot
        kept += 1
    return kept


@thin
def _scan(
    entries: Int32s,
    begin: Scalar,
    end: Scalar,
    as_entry: Scalar,
    has: tuple[Scalar, Scalar, Scalar],
    x: Scalar,
    y: Scalar,
    values: Int32s,
    hits: Int32s,
    n_hits: Scalar,
) -> Scalar:
    """Append the hits among the entries begin … end, whose inline bounds are those of x, y and z that they have.

    A candidate is always written, and the count moves on only if it is a hit: there is no branch to mispredict.
    Unsigned indexes spare the test for negative ones. What an entry has is the same for a whole probe and a constant
    of the call, so each call is a loop of its own, without those tests.
    """
    has_x, has_y, has_z = has
    z_at = 1 + 2 * has_x + 2 * has_y
    n = np.uint64(n_hits)
    for e in range(begin, end):
        hits[n] = e if as_entry else entries[e, 0]
        is_hit = True
        if has_x:
            is_hit = (entries[e, 1] <= x) & (x <= entries[e, 2])
        if has_y:
            is_hit &= (entries[e, 3] <= y) & (y <= entries[e, 4])
        if has_z:
            z = values[np.uint32(entries[e, z_at])]
            is_hit &= (entries[e, z_at + 1] <= z) & (z <= entries[e, z_at + 2])
        n += np.uint64(is_hit)
    return np.int64(n)


@kernel
def _rest_holds(rest_offsets: Int32s, rest: Int32s, entry: Scalar, values: Int32s) -> Scalar:
    """Whether an event satisfies the remaining constraints of an entry."""
    for c in range(rest_offsets[entry], rest_offsets[entry + 1]):
        rank = values[rest[c, 0]]
        if rank < rest[c, 1] or rank > rest[c, 2]:
            return False
    return True
