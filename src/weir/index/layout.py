"""Layout: the flat arrays of the grid index, built in bulk.

An event meets the index as a list of *probes*. A probe holds boxes with the same access attributes and similar
widths in one order, each box exactly once, and finds an event's candidates as a few contiguous runs:

    partition   the boxes that ask for the same constant of the equality attribute (one partition without it)
    row         the boxes of a partition whose lower bound of y lies in one strip of y's ranks
    cell        a strip of x's ranks in a row that is long enough to need more than a scan

Within a row entries are sorted by their lower bound of x. A cell stores a run: from the first entry whose interval
reaches into the cell or beyond to the last that begins in it or before. Strips of y are at least as high as the
tallest box of the partition, so an event looks at its own strip and the one below. Every strip is an affine function
of ranks, (rank − origin) · inverse >> 32, monotone and computed the same way here and in the search, so no
rounding can lose a candidate; the candidate's own bounds decide.

Size of a box: 4 bytes for its slot, 8 for each interval it is reached through, 12 for each remaining constraint
(with 4 for their offset), 1 to 8 for rows and cells. Cost: one sort of the boxes of each probe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.access import Access, Estimates
from weir.index.box_tables import BoxTable, Int32s, Int64s
from weir.index.jit import Scalar, kernel
from weir.index.widths import Probe, cut

ROW_SCAN_MAX = 24  # entries of a row that are scanned without cells
_ROW_ENTRIES = 32  # entries a row should have at least
_CELL_ENTRIES = 2  # entries that begin in a cell, on average
_RANK_MAX = np.iinfo(np.int32).max

Floats = npt.NDArray[np.float64]

# Columns of `probes`.
EQUALITY, X, Y = 0, 1, 2  # access attributes, −1 for none
X_SIGN, X_TOP = 3, 4  # x is X_TOP + X_SIGN · rank: (1, 0), or (−1, 2m) when mirrored
PARTITION_BASE, ROW_BASE = 5, 6  # first partition (with y) or first row (without)
ENTRY_FIRST, ENTRY_BASE, STRIDE = 7, 8, 9  # first entry, its place in `entries`, numbers an entry
HAS_Z = 10  # whether entries have a remaining constraint inline
HAS_REST = 11  # whether some entries have more of them
PROBE_COLUMNS = 12


class Layout(NamedTuple):
    """All probes of an index."""

    probes: Int64s  # int64[p, 12]: see the columns above
    partitions: Int32s  # int32[., 5]: first row, origin and inverse of y, rows, rows that a box may span beyond its own
    rows: Int32s  # int32[., 2]: first entry, and its grid or −1; a probe's last row is followed by a sentinel
    grids: Int32s  # int32[., 5]: first cell, origin and inverse of x, cells, greatest x of any entry
    cells: Int32s  # int32[., 2]: first entry and last + 1 of the run
    entries: Int32s  # int32[.]: slot (x lo, x hi) (y lo, y hi) (z, z lo, z hi), those that the probe has; see below
    rest_offsets: Int32s  # int32[b+1], or int32[1] if no box has constraints beyond z
    rest: Int32s  # int32[., 3]: attribute, lo, hi of the constraints beyond z, in ranks


def build(table: BoxTable, lo: Int32s, hi: Int32s, n_points: Int64s, known: Estimates, access: Access) -> Layout:
    """The layout of a table whose constraints have the ranks `lo` and `hi`."""
    probes: list[Int64s] = []
    arrays: list[list[Int32s]] = [[], [], [], [], []]  # partitions, rows, grids, cells, entries
    orders: list[Int64s] = []
    used = np.concatenate([access.constraint, np.full((len(access.constraint), 1), -1)], axis=1)
    _choose_inline(table.constraint_offsets, table.constraint_attribute, known.selectivity, known.lift, used)
    n_more = np.diff(table.constraint_offsets) - np.count_nonzero(used >= 0, axis=1)
    n_partitions = n_rows = n_grids = n_cells = n_numbers = n_boxes = 0
    for probe in cut(access, lo, hi, n_points, ROW_SCAN_MAX):
        laid = _lay_out(probe, table, lo, hi, n_points, used, n_more)
        row = laid.probe
        row[PARTITION_BASE], row[ROW_BASE] = n_partitions, n_rows
        row[ENTRY_FIRST], row[ENTRY_BASE] = n_boxes, n_numbers
        laid.partitions[:, 0] += n_rows
        laid.rows[:, 0] += n_boxes
        laid.rows[:, 1] += np.where(laid.rows[:, 1] >= 0, n_grids, 0)
        laid.grids[:, 0] += n_cells
        laid.cells[...] += n_boxes
        probes.append(row)
        orders.append(laid.order)
        for array, made in zip(arrays, laid[2:], strict=True):
            array.append(made)
        n_partitions += len(laid.partitions)
        n_rows += len(laid.rows)
        n_grids += len(laid.grids)
        n_cells += len(laid.cells)
        n_numbers += len(laid.entries)
        n_boxes += len(laid.order)
    order = np.concatenate([*orders, np.empty(0, np.int64)])
    rest_offsets, rest = _remaining(table, lo, hi, used, order)
    table_of_probes = np.array(probes, dtype=np.int64).reshape(-1, PROBE_COLUMNS)
    partitions, rows, grids, cells, entries = (
        np.concatenate([*array, np.empty(shape, np.int32)])
        for array, shape in zip(arrays, [(0, 5), (0, 2), (0, 5), (0, 2), (0,)], strict=True)
    )
    return Layout(table_of_probes, partitions, rows, grids, cells, entries, rest_offsets, rest)


class _Laid(NamedTuple):
    """One probe's arrays, every index counted from 0; and the order of its boxes."""

    probe: Int64s
    order: Int64s
    partitions: Int32s
    rows: Int32s
    grids: Int32s
    cells: Int32s
    entries: Int32s


def _lay_out(
    probe: Probe, table: BoxTable, lo: Int32s, hi: Int32s, n_points: Int64s, used: Int64s, n_more: Int64s
) -> _Laid:
    """Sort one probe's boxes into partitions, rows and cells."""
    boxes, n = probe.boxes, len(probe.boxes)
    partition = np.zeros(n, dtype=np.int64)
    n_partitions = 1
    if probe.equality >= 0:
        partition = (lo[used[boxes, 0]] >> 1).astype(np.int64)
        n_partitions = int(n_points[probe.equality])
    row, n_rows = partition, n_partitions
    partitions = np.empty((0, 5), np.int32)
    columns: list[Int32s] = []
    y_lo = y_hi = x_lo = x_hi = np.empty(0, np.int32)
    if probe.y >= 0:
        constraint = used[boxes, 3 - probe.x_place]
        y_lo, y_hi = lo[constraint], hi[constraint]
        partitions = np.zeros((n_partitions, 5), dtype=np.int32)
        row = np.empty(n, dtype=np.int64)
        n_rows = int(_make_rows(partition, y_lo, y_hi, partitions, row))
    top = int(2 * n_points[probe.x]) if probe.x >= 0 else 0
    if probe.x >= 0:
        constraint = used[boxes, probe.x_place]
        x_lo, x_hi = lo[constraint], hi[constraint]
        if probe.mirrored:
            x_lo, x_hi = (top - x_hi).astype(np.int32), (top - x_lo).astype(np.int32)
        order = np.argsort((row << 32) + x_lo, kind="stable")
        columns += [x_lo[order], x_hi[order]]
        if probe.y >= 0:
            columns += [y_lo[order], y_hi[order]]
    else:
        order = np.argsort(row, kind="stable")
    z = used[boxes[order], 3]
    has_z = bool(np.any(z >= 0))
    if has_z:  # a box without one gets a constraint that holds for every rank, NULL's included
        columns.append(np.where(z >= 0, table.constraint_attribute[z], 0).astype(np.int32))
        columns.append(np.where(z >= 0, lo[z], -1).astype(np.int32))
        columns.append(np.where(z >= 0, hi[z], _RANK_MAX).astype(np.int32))
    slots, more = table.slot_of_box[boxes[order]], n_more[boxes[order]] > 0
    columns.insert(0, np.where(more, ~slots, slots).astype(np.int32))
    rows = np.full((n_rows + 1, 2), -1, dtype=np.int32)
    rows[0, 0] = 0
    rows[1:, 0] = np.cumsum(np.bincount(row, minlength=n_rows))
    grids, cells = np.empty((0, 5), np.int32), np.empty((0, 2), np.int32)
    if probe.x >= 0:
        sizes = np.diff(rows[:, 0])
        long = np.flatnonzero(sizes > ROW_SCAN_MAX)
        grids = np.zeros((len(long), 5), dtype=np.int32)
        rows[long, 1] = np.arange(len(long))
        n_cells = _measure_grids(rows, long, x_lo[order], grids)
        cells = np.empty((n_cells, 2), dtype=np.int32)
        _make_cells(rows, long, x_lo[order], x_hi[order], grids, cells)
    numbers = np.zeros(PROBE_COLUMNS, dtype=np.int64)
    numbers[[EQUALITY, X, Y, STRIDE]] = probe.equality, probe.x, probe.y, len(columns)
    numbers[[HAS_Z, HAS_REST]] = has_z, bool(np.any(more))
    numbers[[X_SIGN, X_TOP]] = (-1, top) if probe.mirrored else (1, 0)
    entries = np.stack(columns, axis=1).reshape(-1).astype(np.int32, copy=False)
    return _Laid(numbers, boxes[order], partitions, rows, grids, cells, entries)


@kernel
def _choose_inline(offsets: Int64s, attribute: Int32s, selectivity: Floats, lift: Floats, used: Int64s) -> None:
    """Of the constraints through which a box is not reached, the one that drops most is checked inline, as z.

    Candidates satisfy the access constraints already: one that depends on these drops fewer.
    """
    for box in range(len(offsets) - 1):
        best = -1
        least = 2.0
        for c in range(offsets[box], offsets[box + 1]):
            if c == used[box, 0] or c == used[box, 1] or c == used[box, 2]:
                continue
            share = selectivity[c]
            if len(lift):
                for place in range(3):
                    if used[box, place] >= 0:
                        share *= lift[attribute[used[box, place]], attribute[c]]
                share = min(share, 1.0)
            if share < least:
                best = c
                least = share
        used[box, 3] = best


@kernel
def _make_rows(partition: Int64s, y_lo: Int32s, y_hi: Int32s, partitions: Int32s, row: Int64s) -> Scalar:
    """Cut each partition into strips of y; row[i] becomes the row of box i. Returns the number of rows."""
    n_partitions = len(partitions)
    size = np.zeros(n_partitions, dtype=np.int64)
    least = np.full(n_partitions, np.int64(1) << 40)
    greatest = np.zeros(n_partitions, dtype=np.int64)
    tallest = np.zeros(n_partitions, dtype=np.int64)
    for i in range(len(partition)):
        k = partition[i]
        size[k] += 1
        least[k] = min(least[k], y_lo[i])
        greatest[k] = max(greatest[k], y_lo[i])
        tallest[k] = max(tallest[k], np.int64(y_hi[i]) - y_lo[i])
    n_rows = 0
    for k in range(n_partitions):
        partitions[k, 0] = n_rows
        if size[k] == 0:
            continue
        span = greatest[k] - least[k] + 1
        n = max(np.int64(1), min(size[k] // _ROW_ENTRIES, (span - 1) // 2, span // (tallest[k] + 1)))
        partitions[k, 1] = least[k]
        partitions[k, 2] = (n << 32) // span if n > 1 else 0
        partitions[k, 3] = n
        n_rows += n
    for i in range(len(partition)):
        k = partition[i]
        inverse = np.int64(partitions[k, 2])
        own = ((y_lo[i] - partitions[k, 1]) * inverse) >> 32
        far = ((y_hi[i] - partitions[k, 1]) * inverse) >> 32
        row[i] = partitions[k, 0] + own
        partitions[k, 4] = max(np.int64(partitions[k, 4]), far - own)
    return n_rows


@kernel
def _measure_grids(rows: Int32s, long: Int64s, x_lo: Int32s, grids: Int32s) -> Scalar:
    """Decide on the cells of each long row; returns the number of all cells."""
    n_cells = 0
    for g in range(len(long)):
        begin, end = rows[long[g], 0], rows[long[g] + 1, 0]
        span = np.int64(x_lo[end - 1]) - x_lo[begin] + 1
        n = max(np.int64(1), min(np.int64(end - begin) // _CELL_ENTRIES, (span - 1) // 2))
        grids[g, 0] = n_cells
        grids[g, 1] = x_lo[begin]
        grids[g, 2] = (n << 32) // span if n > 1 else 0
        grids[g, 3] = n
        n_cells += n
    return n_cells


@kernel
def _make_cells(rows: Int32s, long: Int64s, x_lo: Int32s, x_hi: Int32s, grids: Int32s, cells: Int32s) -> None:
    """The run of each cell; an event above the last cell uses the last one."""
    for g in range(len(long)):
        begin, end = rows[long[g], 0], rows[long[g] + 1, 0]
        base, origin, inverse, n = grids[g, 0], np.int64(grids[g, 1]), np.int64(grids[g, 2]), grids[g, 3]
        reached = 0  # cells that some entry so far reaches into: the first to do so begins their run
        begun = 0  # cells that are complete: all entries that begin in them or before were seen
        for i in range(begin, end):
            grids[g, 4] = max(grids[g, 4], x_hi[i])
            own = ((x_lo[i] - origin) * inverse) >> 32
            far = min(((x_hi[i] - origin) * inverse) >> 32, np.int64(n - 1))
            while begun < own:
                cells[base + begun, 1] = i
                begun += 1
            while reached <= far:
                cells[base + reached, 0] = i
                reached += 1
        while begun < n:
            cells[base + begun, 1] = end
            begun += 1
        while reached < n:
            cells[base + reached, 0] = end
            reached += 1


def _remaining(table: BoxTable, lo: Int32s, hi: Int32s, used: Int64s, order: Int64s) -> tuple[Int32s, Int32s]:
    """The constraints that are neither access constraints nor inline, in the order of entries."""
    counts = np.diff(table.constraint_offsets) - np.count_nonzero(used >= 0, axis=1)
    total = int(counts.sum())
    if total == 0:
        return np.zeros(1, dtype=np.int32), np.empty((0, 3), dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int32)
    rest = np.empty((total, 3), dtype=np.int32)
    _fill_rest(table.constraint_offsets, table.constraint_attribute, lo, hi, used, order, rest)
    return offsets, rest


@kernel
def _fill_rest(
    offsets: Int64s, attribute: Int32s, lo: Int32s, hi: Int32s, used: Int64s, order: Int64s, rest: Int32s
) -> None:
    n = 0
    for box in order:
        for c in range(offsets[box], offsets[box + 1]):
            if c != used[box, 0] and c != used[box, 1] and c != used[box, 2] and c != used[box, 3]:
                rest[n, 0] = attribute[c]
                rest[n, 1] = lo[c]
                rest[n, 2] = hi[c]
                n += 1
