"""Boxes as bytes: their bounds as numbers of 8 bits, so that one comparison of a processor sees 64 boxes (VA-files).

Of each attribute up to CUTS_MAX keys are kept as *cuts*, c_1 < c_2 < …; a key has the code 1 + the number of cuts up to
it, NULL has code 0. Codes are monotone in keys, so a key that is in an interval has a code within those of the ends.
The reverse holds if the code is neither end's: only a key in the cell of an end is in *doubt*. Then its place in the
cell, another byte, decides, and if that is the end's, too, the keys do. An attribute is *exact*, and in doubt never, if
each interval begins at a cut and ends before one: that is so where constants are few. Else cuts are quantiles of the
ends of intervals, which stretches hot spots.

Boxes lie in leaves of BYTES lanes, tiled by the dimensions of one side (`weir.index.trees.tiling`). For each dimension
a leaf has the lower codes of all lanes and then the upper ones, two lines of a cache. Leaves are put into groups of as
many, with the codes that enclose each of them, in the dimensions of that side. A search looks at all groups, since
4,096 boxes share one, and at the leaves that these do not rule out. A lane without a constraint has the codes 0 .. 255,
which hold NULL; one that is not used has 255 .. 0, which hold nothing.

Size: 4 bytes a box and dimension, 4 a box. Cost of building: a sort of 65,536 ends for each dimension, and the tiling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.access import Floats
from weir.index.box_tables import BoxTable, Int32s, Int64s, Uint8s, read_only
from weir.index.jit import Scalar, kernel
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY
from weir.index.meeting.instructions import BYTES
from weir.index.trees.tiling import tile, widths
from weir.index.trees.tree_index import dense_bounds
from weir.index.trees.tree_nodes import FREE_HI, FREE_LO

CUTS_MAX = 254
CODES = CUTS_MAX + 2  # codes there are: of NULL, and of the cells between cuts
PLACES = 256  # that are told apart in a cell
LEAF_BYTES = 2 * BYTES  # of a leaf in one dimension
_ENDS_SEEN = 1 << 16  # ends of intervals of which quantiles are taken


class Cuts(NamedTuple):
    """How the keys of each attribute are seen."""

    keys: Int64s  # int64[a, CUTS_MAX]: ascending, those from the number on are not used
    number: Int64s  # int64[a]
    begin: Floats  # float64[a, CUTS_MAX + 1]: where each cell begins
    scale: Floats  # float64[a, CUTS_MAX + 1]: PLACES over how long it is
    is_exact: Uint8s  # uint8[a]: 1 if codes decide


class ByteBoxes(NamedTuple):
    """Boxes in leaves; of the dimensions the event's come first, of each side those in which codes may be in doubt."""

    dims: Int32s  # int32[d]: the attribute of each dimension
    leaves: Uint8s  # uint8[leaves, d, 2, BYTES]: lower codes, upper codes
    fine: Uint8s  # uint8[leaves, d, 2, BYTES]: where in their cells these bounds are
    box: Int32s  # int32[leaves, BYTES]: −1 for none
    groups: Uint8s  # uint8[groups, d of the event's side, 2, BYTES]: of leaves


def find_cuts(table: BoxTable, n_attributes: int) -> Cuts:
    """Cuts of all attributes of a table."""
    cuts = Cuts(
        np.zeros((n_attributes, CUTS_MAX), np.int64),
        np.zeros(n_attributes, np.int64),
        np.zeros((n_attributes, CUTS_MAX + 1)),
        np.zeros((n_attributes, CUTS_MAX + 1)),
        np.ones(n_attributes, np.uint8),
    )
    by_attribute = np.argsort(table.constraint_attribute, kind="stable")
    bounds = np.searchsorted(table.constraint_attribute[by_attribute], np.arange(n_attributes + 1))
    for attribute in range(n_attributes):
        mine = by_attribute[bounds[attribute] : bounds[attribute + 1]]
        lo, hi = table.constraint_lo[mine], table.constraint_hi[mine]
        found, is_exact = _cuts(lo[lo > KEY_MIN], hi[hi < KEY_MAX] + 1)
        cuts.keys[attribute, : len(found)] = found
        cuts.number[attribute], cuts.is_exact[attribute] = len(found), is_exact
        if len(found):
            least, most = lo[lo > KEY_MIN].min(initial=found[0]), hi[hi < KEY_MAX].max(initial=found[-1])
            edges = np.concatenate([[least], found, [most]]).astype(np.float64)
            cuts.begin[attribute, : len(found) + 1] = edges[:-1]
            cuts.scale[attribute, : len(found) + 1] = PLACES / np.maximum(edges[1:] - edges[:-1], 1.0)
    return cuts


def _cuts(begins: Int64s, behind: Int64s) -> tuple[Int64s, bool]:
    """The cuts for intervals that begin at some keys and end before some, and whether these are all of them."""
    step = max(1, (len(begins) + len(behind)) // _ENDS_SEEN)
    seen = np.sort(np.concatenate([begins[::step], behind[::step]]))
    distinct = seen[np.r_[True, seen[1:] != seen[:-1]]] if len(seen) else seen
    if len(distinct) <= CUTS_MAX:
        if step == 1:
            return distinct, True
        place = [np.minimum(np.searchsorted(distinct, ends), len(distinct) - 1) for ends in (begins, behind)]
        is_exact = all(np.array_equal(distinct[at], ends) for at, ends in zip(place, (begins, behind), strict=True))
        return distinct, is_exact
    quantiles = ((np.arange(CUTS_MAX) + 0.5) / CUTS_MAX * len(seen)).astype(np.int64)
    return np.unique(seen[quantiles]), False


@kernel
def code_keys(cuts: Cuts, attribute: Scalar, keys: Int64s, codes: Uint8s, fine: Uint8s) -> None:
    """codes[i] = the code of keys[i], fine[i] = its place in that cell."""
    of, number, begin, scale = (
        cuts.keys[attribute],
        cuts.number[attribute],
        cuts.begin[attribute],
        cuts.scale[attribute],
    )
    for i in range(len(keys)):
        key = keys[i]
        n = np.int64(0)  # cuts up to the key: the greatest number whose last cut is not above it
        step = np.int64(128)
        while step > 0:
            more = n + step
            if more <= number and of[more - 1] <= key:
                n = more
            step >>= 1
        codes[i] = 0 if key == NULL_KEY else n + 1
        place = (np.float64(key) - begin[n]) * scale[n]
        # Only lanes without a constraint begin at code 0, at place 0: NULL at place 1 is in them without doubt.
        fine[i] = 1 if key == NULL_KEY else np.int64(min(max(place, 0.0), PLACES - 1.0))


def coded(cuts: Cuts, attribute: int, keys: Int64s) -> tuple[Uint8s, Uint8s]:
    """uint8[n]: codes of keys, and where in their cells they are."""
    codes, fine = np.empty((2, len(keys)), np.uint8)
    code_keys(cuts, attribute, read_only(np.ascontiguousarray(keys, dtype=np.int64)), codes, fine)
    return codes, fine


def coded_bounds(cuts: Cuts, table: BoxTable) -> tuple[Int32s, Int32s]:
    """Dense bounds int32[n, a] of all boxes: codes without that of NULL, in units of PLACES, and the place."""
    attribute = table.constraint_attribute
    lo, hi = np.empty(len(attribute), np.int32), np.empty(len(attribute), np.int32)
    n_attributes = len(cuts.number)
    for a in range(n_attributes):
        mine = np.flatnonzero(attribute == a)
        for keys, found in ((table.constraint_lo, lo), (table.constraint_hi, hi)):
            codes, fine = coded(cuts, a, keys[mine])
            found[mine] = (codes.astype(np.int32) - 1) * PLACES + fine
    return dense_bounds(table, lo, hi, np.arange(n_attributes, dtype=np.int32))


def tops_of(cuts: Cuts) -> Int64s:
    """int64[a]: the greatest bound that `coded_bounds` gives."""
    return (cuts.number + 1) * PLACES - 1


def build(lo: Int32s, hi: Int32s, cuts: Cuts, n_own: int) -> ByteBoxes:
    """Leaves of boxes with these bounds, tiled by the first `n_own` attributes."""
    n, n_dims = lo.shape
    tops = tops_of(cuts)
    is_own = np.arange(n_dims) < n_own
    dims = np.lexsort((widths(lo, hi, tops), cuts.is_exact, ~is_own)).astype(np.int32)
    order = tile(lo, hi, tops, is_own, fanout=BYTES)
    n_leaves = -(-max(n, 1) // BYTES)
    box = np.full(n_leaves * BYTES, -1, np.int32)
    box[:n] = order
    leaves, fine = np.empty((2, n_leaves, n_dims, 2, BYTES), np.uint8)
    lanes = np.empty(n_leaves * BYTES, np.uint8)
    for place, d in enumerate(dims.tolist()):
        for end, bounds, free, unused in ((0, lo[order, d], FREE_LO, CODES - 1), (1, hi[order, d], FREE_HI, 0)):
            is_free = bounds == free
            codes = np.where(is_free, (CODES - 1) * end, bounds // PLACES + 1)
            lanes[:n], lanes[n:] = codes, unused
            leaves[:, place, end] = lanes.reshape(n_leaves, BYTES)
            lanes[:n], lanes[n:] = np.where(is_free, (PLACES - 1) * end, bounds % PLACES), 0
            fine[:, place, end] = lanes.reshape(n_leaves, BYTES)
    return ByteBoxes(dims, leaves, fine, box.reshape(n_leaves, BYTES), _groups(leaves[:, :n_own]))


def _groups(leaves: Uint8s) -> Uint8s:
    """uint8[groups, d, 2, BYTES]: what encloses each leaf."""
    n_leaves, n_dims = leaves.shape[:2]
    n_groups = -(-n_leaves // BYTES)
    found = np.empty((n_groups * BYTES, n_dims, 2), np.uint8)
    found[n_leaves:, :, 0], found[n_leaves:, :, 1] = CODES - 1, 0
    found[:n_leaves, :, 0] = leaves[:, :, 0].min(axis=2)
    found[:n_leaves, :, 1] = leaves[:, :, 1].max(axis=2)
    return np.ascontiguousarray(found.reshape(n_groups, BYTES, n_dims, 2).transpose(0, 2, 3, 1))


def leaf_shares(boxes: ByteBoxes, cuts: Cuts) -> Floats:
    """float64[leaves, d of the event's side]: what each leaf covers of a dimension, if keys fall where constants do."""
    n_own = boxes.groups.shape[1]
    bounds = boxes.groups.transpose(0, 3, 1, 2).reshape(-1, n_own, 2)[: len(boxes.box)].astype(np.float64)
    cells = cuts.number[boxes.dims[:n_own]] + 1.0
    span = np.minimum(bounds[:, :, 1], cells) - np.maximum(bounds[:, :, 0], 1.0) + 1.0
    share: Floats = np.clip(span / cells, 0.0, 1.0)
    return share
