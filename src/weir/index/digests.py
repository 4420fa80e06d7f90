"""Digests: some boxes of an index, by which it can be told later whether they are still reached well.

Rows change, and with them what is selective. An index keeps a few hundred of its boxes, as they were, with what
constants said of them and with the constraints through which they are reached. Given a sample of newer rows, the same
boxes are reached anew as if they were the whole index, by half of the rows; the other half says what an event meets
either way. So both figures are about rows that neither choice has seen.

A cost is counted in candidates that an event is compared with, as everywhere in `weir.index.access`; looking into a
group has its price, and a box without access attributes is always a candidate.

Size: 32 bytes a box and 24 a constraint, for at most one box in 8. Cost: a comparison for every box, row and access
constraint, some milliseconds whatever the size of the index.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weir.index import access, ranks
from weir.index.box_tables import BoxTable, Int32s, Int64s
from weir.index.jit import kernel
from weir.index.ranks import rank_bounds, rank_rows
from weir.index.samples import BOXES_MIN, ROWS_MIN, Bools, Floats, Sample

BOXES = 512  # in a digest, at most …
_BOXES_SHARE = 8  # … and at most one in so many
_ROWS = 2_048  # of a sample of newer rows, for each of the two halves


class Digest(NamedTuple):
    """Some boxes of an index."""

    offsets: Int64s  # int64[b+1]: of their constraints; b is 0 if the index is too small to matter
    attribute: Int32s  # int32[c]
    lo: Int64s  # int64[c]: keys, not ranks
    hi: Int64s  # int64[c]
    assumed: npt.NDArray[np.float32]  # float32[c]: the selectivity that all constants give
    reached: Int64s  # int64[b, 3]: access constraints, counted within the digest, −1 for none
    numbers: Int64s  # int64[2]: boxes of the index; rows of the sample that it was built with

    @property
    def rows_measured(self) -> int:
        return int(self.numbers[1])

    @property
    def boxes_each(self) -> float:
        """How many boxes of the index one of these stands for."""
        return int(self.numbers[0]) / max(len(self.offsets) - 1, 1)

    @property
    def table(self) -> BoxTable:
        slots = np.arange(len(self.offsets) - 1, dtype=np.int32)
        return BoxTable(slots, self.offsets, self.attribute, self.lo, self.hi)


class Reached(NamedTuple):
    """How many boxes are reached through which attributes."""

    boxes: tuple[tuple[tuple[int, ...], int], ...]  # (attributes, boxes), most boxes first
    rows_measured: int  # 0: chosen from constants alone
    swept: tuple[int, int] | None = None  # large batches are swept by this attribute, from about so many rows on

    @classmethod
    def of(cls, attributes: Int64s, sizes: Int64s, rows_measured: int) -> Self:
        """From int64[k, …] attributes, −1 for none, and the boxes that are reached through them."""
        counted: dict[tuple[int, ...], int] = {}
        for names, size in zip(attributes.tolist(), sizes.tolist(), strict=True):
            key = tuple(name for name in names if name >= 0)
            counted[key] = counted.get(key, 0) + size
        return cls(tuple(sorted(counted.items(), key=lambda item: -item[1])), rows_measured)


class Foreseen(NamedTuple):
    """What an event costs, in candidates."""

    now: float  # as boxes are reached
    anew: float  # if they were chosen for these rows


def draw(table: BoxTable, assumed: Floats, reached: Int64s, rows_measured: int) -> Digest:
    """The digest of an index over `table`, whose boxes are reached through `reached` (int64[b, 3], −1 for none)."""
    n_boxes = len(table.slot_of_box)
    boxes = np.empty(0, np.int64)
    if n_boxes >= BOXES_MIN:
        boxes = np.unique(np.random.default_rng(0).integers(0, n_boxes, min(BOXES, n_boxes // _BOXES_SHARE)))
    counts = np.diff(table.constraint_offsets)[boxes]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    moved = table.constraint_offsets[boxes] - offsets[:-1]
    at = np.repeat(moved, counts) + np.arange(offsets[-1])
    return Digest(
        offsets,
        table.constraint_attribute[at].astype(np.int32),
        table.constraint_lo[at],
        table.constraint_hi[at],
        assumed[at].astype(np.float32),
        np.where(reached[boxes] >= 0, reached[boxes] - moved[:, None], -1).astype(np.int64),
        np.array([n_boxes, rows_measured], np.int64),
    )


def halves(sample: Sample) -> tuple[Int64s, Int64s]:
    """Two different parts of a sample's rows, alternating."""
    step = max(1, sample.rows_count // (2 * _ROWS))
    one, other = sample.keys[:, :: 2 * step], sample.keys[:, step :: 2 * step]
    return np.ascontiguousarray(one), np.ascontiguousarray(other)


def foreseen(digest: Digest, n_attributes: int, sample: Sample) -> Foreseen | None:
    """What rows like these cost, as the index is built and if it were built for them; None if that cannot be told."""
    if len(digest.offsets) == 1 or sample.rows_count < 2 * ROWS_MIN:
        return None
    table = digest.table
    fitted, met = halves(sample)
    space = ranks.build(table, n_attributes)
    lo, hi = rank_bounds(space, table)
    n_points = np.diff(space.point_offsets)
    ranked, assumed = rank_rows(space, fitted), digest.assumed.astype(np.float64)
    known = access.measured(table, lo, hi, n_points, ranked, sample.measured, assumed, is_coarse=True)
    anew = access.choose_measured(table, lo, hi, n_points, assumed, known, digest.boxes_each)

    def cost(reached: Int64s) -> float:
        shares = shares_met(digest, reached, met, sample.measured)
        shares[(reached < 0).all(axis=1)] *= access.REST_COST
        attributes = np.where(reached >= 0, digest.attribute[reached], -1).astype(np.int64)
        return digest.boxes_each * float(shares.sum()) + access.cost_of_probes(np.unique(attributes, axis=0))

    return Foreseen(cost(digest.reached), cost(anew.constraint))


def shares_met(digest: Digest, reached: Int64s, keys: Int64s, measured: Bools) -> Floats:
    """For each box the share of rows that satisfies the constraints `reached` (int64[b, …], −1 for none)."""
    assumed = digest.assumed.astype(np.float64)
    given = np.array(reached, np.int64)  # one type, also if it is mapped from a file
    found: Floats = _shares(digest.attribute, digest.lo, digest.hi, assumed, given, keys, measured)
    return found


@kernel
def _shares(
    attribute: Int32s, lo: Int64s, hi: Int64s, assumed: Floats, reached: Int64s, keys: Int64s, measured: Bools
) -> Floats:
    """For each box the share of rows that satisfies all its access constraints."""
    n_rows = keys.shape[1]
    rows = np.empty(n_rows, dtype=np.int64)  # those that satisfy the constraints so far
    found = np.empty(len(reached), dtype=np.float64)
    for box in range(len(reached)):
        unknown = 1.0
        n = -1  # all rows
        for place in range(reached.shape[1]):
            c = reached[box, place]
            if c < 0:
                continue
            if not measured[attribute[c]]:
                unknown *= assumed[c]
                continue
            own = keys[attribute[c]]
            kept = 0
            for k in range(n_rows if n < 0 else n):
                r = k if n < 0 else rows[k]
                rows[kept] = r
                kept += 1 if lo[c] <= own[r] and own[r] <= hi[c] else 0
            n = kept
        found[box] = unknown * (n_rows if n < 0 else n) / n_rows
    return found
