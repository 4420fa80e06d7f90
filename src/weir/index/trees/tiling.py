"""Tiling: an order of boxes in which neighbours lie close together, so that a tree over it is narrow (STR).

Sort-tile-recursive cuts the boxes into slabs by their middles in one dimension, each slab into slabs by the next, and
so on. How many slabs a dimension is worth follows from its intervals: if these cover the share w of the dimension, an
event meets w + (1 − w) / k of k slabs. So narrow intervals are worth many slabs, and a dimension that boxes leave open
is worth none. The number of slabs is doubled where that spares most, until there are as many tiles as leaves.

Boxes that leave different dimensions or ends open are not mixed: one box without a bound would take that bound from its
whole leaf. Boxes with the same open ends are tiled together, those of kinds that are rare go together at the end.

Cost: a sort of all boxes for each dimension that is cut.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from weir.index.access import Floats
from weir.index.box_tables import Int32s, Int64s
from weir.index.trees.tree_nodes import FANOUT, FREE_HI

_KIND_MIN = 16 * FANOUT  # boxes with the same open ends that are tiled by themselves


def tile(lo: Int32s, hi: Int32s, tops: Int64s, is_cut: np.ndarray | None = None, *, fanout: int = FANOUT) -> Int64s:
    """A permutation of boxes int32[n, d] for leaves of `fanout` boxes.

    `tops` are the greatest ranks, `is_cut` says which dimensions may be cut.
    """
    n, n_dims = lo.shape
    cut = np.flatnonzero(np.ones(n_dims, bool) if is_cut is None else is_cut)
    kind = _kinds(lo[:, cut], hi[:, cut], tops[cut])
    by_kind = np.argsort(kind, kind="stable")
    bounds = np.flatnonzero(np.r_[True, kind[by_kind][1:] != kind[by_kind][:-1], True]) if n else np.zeros(1, np.int64)
    parts = []
    for begin, end in pairwise(bounds.tolist()):
        mine = by_kind[begin:end]
        parts.append(mine[_tile(lo[np.ix_(mine, cut)], hi[np.ix_(mine, cut)], tops[cut], fanout)])
    return np.concatenate([*parts, np.empty(0, np.int64)])


def widths(lo: Int32s, hi: Int32s, tops: Int64s) -> Floats:
    """The share of its dimension that the interval of an average box covers."""
    if not len(lo):
        return np.ones(lo.shape[1])
    span = np.minimum(hi, tops).astype(np.float64) - np.maximum(lo, 0) + 1.0
    return np.asarray(np.clip(span.mean(axis=0) / (tops + 1.0), 0.0, 1.0))


def expected_tiles(width: Floats, n: int, fanout: int = FANOUT) -> float:
    """How many tiles of n boxes with such widths an average event meets."""
    slabs = _slabs(width, n, fanout)
    return float(np.prod(width + (1.0 - width) / slabs)) * max(n / fanout, 1.0)


def _kinds(lo: Int32s, hi: Int32s, tops: Int64s) -> Int64s:
    """int64[n]: boxes with the same open ends have the same number; all that are rare have the greatest one."""
    is_free = hi == FREE_HI
    ends = is_free * 1 + (~is_free & (lo <= 0)) * 2 + (~is_free & (hi >= tops)) * 4
    # Kinds are told apart by sums of random numbers; were two confused, the tree would only be wider.
    random = np.random.default_rng(0).integers(1, 1 << 62, (lo.shape[1], 8)) if lo.shape[1] else np.zeros((0, 8), int)
    code = random[np.arange(lo.shape[1]), ends].sum(axis=1)
    _, kind, counts = np.unique(code, return_inverse=True, return_counts=True)
    kind = kind.ravel().astype(np.int64)
    return np.where(counts[kind] < _KIND_MIN, len(counts), kind)


def _tile(lo: Int32s, hi: Int32s, tops: Int64s, fanout: int) -> Int64s:
    """The same for boxes of one kind."""
    n = len(lo)
    slabs = _slabs(widths(lo, hi, tops), n, fanout)
    order = np.arange(n)
    tile_of = np.zeros(n, np.int64)  # by place in the order, ascending
    middle = np.maximum(lo, 0).astype(np.int64) + np.minimum(hi, tops)
    # The dimension that is cut most comes last: it is sorted and not cut, so that leaves are cut from it anywhere.
    for d in np.argsort(slabs, kind="stable").tolist():
        if slabs[d] == 1:
            continue
        inner = np.lexsort((middle[order, d], tile_of))
        order, tile_of = order[inner], tile_of[inner]
        begin = np.searchsorted(tile_of, tile_of)
        size = np.searchsorted(tile_of, tile_of, side="right") - begin
        leaves = -(-size // fanout)
        slab = (np.arange(n) - begin) // fanout * slabs[d] // leaves
        tile_of = tile_of * int(slabs[d]) + slab
    return order


def _slabs(width: Floats, n: int, fanout: int) -> Int64s:
    """int64[d]: into how many slabs each dimension is cut."""
    slabs = np.ones(len(width), np.int64)
    doublings = int(np.ceil(np.log2(max(n / fanout, 1.0))))
    for _ in range(doublings if len(width) else 0):
        now, then = (width + (1.0 - width) / (slabs * times) for times in (1, 2))
        best = int(np.argmin(then / now))
        if then[best] >= 0.999 * now[best]:
            break
        slabs[best] *= 2
    return slabs
