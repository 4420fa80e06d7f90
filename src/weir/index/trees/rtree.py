"""The R-tree: boxes in nodes whose bounds are bounding boxes, packed in tiles; strategy "rtree" (CSJQ, 4.1).

It is built in bulk (`weir.index.trees.tiling`). A box that is inserted goes down where bounds grow least, by the sum of
their lengths, each dimension measured by its own length; a node that is full is cut in two at the middle of the
dimension that leaves the shortest bounds (R*-tree, without its forced reinsertion). A node that falls below a quarter
is dissolved, and what it held is inserted again.

Cost of an insertion: FANOUT lanes in every dimension for each level, about a microsecond in ten dimensions.
"""

from __future__ import annotations

import numpy as np

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar, kernel
from weir.index.meeting.lean import lean
from weir.index.trees.tiling import tile
from weir.index.trees.tree_index import BoxTree, Growth, adopt
from weir.index.trees.tree_nodes import (
    FANOUT,
    N_NODES,
    ROOT,
    Nodes,
    clear_lane,
    free_lane,
    lane_of,
    packed,
    set_lane,
)

_LANES_MIN = FANOUT // 4  # lanes of a node that is not dissolved


class TreeIndex(BoxTree):
    """Strategy "rtree"."""

    @staticmethod
    def _plant(lo: Int32s, hi: Int32s, tops: Int64s) -> tuple[Nodes, Int32s]:
        return plant(lo, hi, tops), np.empty((0, 0, 2), np.int32)

    def _insert(self, growth: Growth, first: int, lo: Int32s, hi: Int32s) -> None:
        _insert_boxes(self._boxes.nodes, growth, first, lo, hi, self._tops())

    def _delete(self, growth: Growth, boxes: Int32s) -> None:
        _delete_boxes(self._boxes.nodes, growth, boxes, self._tops())

    def _tops(self) -> Int32s:
        """The greatest rank of each dimension: bounds that are open end there when they are measured."""
        of = self._boxes
        return (2 * np.diff(of.space.point_offsets)[of.columns[: of.nodes.lo.shape[1]]]).astype(np.int32)


def plant(lo: Int32s, hi: Int32s, tops: Int64s, is_cut: np.ndarray | None = None) -> Nodes:
    """A tree of boxes int32[n, d] that is tiled in the dimensions `is_cut`, or in all."""
    order = tile(lo, hi, tops, is_cut)
    nodes = packed(lo[order], hi[order])
    leaves = np.flatnonzero(nodes.level == 0)
    child = nodes.child[leaves]
    nodes.child[leaves] = np.where(child >= 0, np.append(order, -1)[child], -1)
    return nodes


@lean
def _length(lo: Scalar, hi: Scalar, top: Scalar) -> Scalar:
    """The length of an interval as a share of its dimension."""
    return (np.float64(min(hi, top)) - max(lo, np.int32(0))) / (np.float64(top) + 1.0)


@kernel
def _insert_boxes(nodes: Nodes, growth: Growth, first: Scalar, lo: Int32s, hi: Int32s, tops: Int32s) -> None:
    for i in range(len(lo)):
        _insert_child(nodes, growth, first + i, lo[i], hi[i], 0, tops)


@kernel
def _insert_child(
    nodes: Nodes, growth: Growth, child: Scalar, lo: Int32s, hi: Int32s, level: Scalar, tops: Int32s
) -> None:
    """Insert a box (level 0), or a node whose parent is to be of a level, where bounds grow least."""
    node = nodes.numbers[ROOT]
    while nodes.level[node] > level:
        lane = _least_growth(nodes, node, lo, hi, tops)
        for d in range(len(lo)):
            nodes.lo[node, d, lane] = min(nodes.lo[node, d, lane], lo[d])
            nodes.hi[node, d, lane] = max(nodes.hi[node, d, lane], hi[d])
        node = np.int64(nodes.child[node, lane])
    own_lo, own_hi, own = lo.copy(), hi.copy(), np.int64(child)
    while True:
        lane = free_lane(nodes, node)
        if lane >= 0:
            set_lane(nodes, node, lane, own, own_lo, own_hi)
            adopt(nodes, growth, node, own)
            return
        added = _split(nodes, growth, node, own, own_lo, own_hi, tops)
        parent = np.int64(growth.parent[node])
        if parent < 0:  # the root was cut: a new one holds both halves
            parent = nodes.numbers[N_NODES]
            nodes.numbers[N_NODES] += 1
            nodes.numbers[ROOT] = parent
            nodes.level[parent] = nodes.level[node] + 1
            growth.parent[parent] = -1
            set_lane(nodes, parent, 0, node, own_lo, own_hi)
            growth.parent[node] = parent
        _bound(nodes, node, own_lo, own_hi)
        set_lane(nodes, parent, lane_of(nodes, parent, node), node, own_lo, own_hi)
        _bound(nodes, added, own_lo, own_hi)
        own, node = added, parent


@lean
def _least_growth(nodes: Nodes, node: Scalar, lo: Int32s, hi: Int32s, tops: Int32s) -> Scalar:
    """The lane whose bounds grow least when they take in a box; of several the shortest."""
    best = -1
    best_growth = best_length = 0.0
    for lane in range(FANOUT):
        if nodes.child[node, lane] < 0:
            continue
        grown = length = 0.0
        for d in range(len(lo)):
            low, high, top = nodes.lo[node, d, lane], nodes.hi[node, d, lane], tops[d]
            own = _length(low, high, top)
            length += own
            grown += _length(min(low, lo[d]), max(high, hi[d]), top) - own
        if best < 0 or grown < best_growth or (grown == best_growth and length < best_length):
            best, best_growth, best_length = lane, grown, length
    return best


@lean
def _bound(nodes: Nodes, node: Scalar, lo: Int32s, hi: Int32s) -> None:
    """The bounding box of a node's lanes."""
    for d in range(len(lo)):
        low, high = nodes.lo[node, d, 0], nodes.hi[node, d, 0]
        for lane in range(1, FANOUT):
            low = min(low, nodes.lo[node, d, lane])
            high = max(high, nodes.hi[node, d, lane])
        lo[d], hi[d] = low, high


@kernel
def _split(nodes: Nodes, growth: Growth, node: Scalar, child: Scalar, lo: Int32s, hi: Int32s, tops: Int32s) -> Scalar:
    """Cut a full node and one more child in two; returns the new node, which has the upper half."""
    n_dims = len(lo)
    n = FANOUT + 1
    all_lo, all_hi = np.empty((n, n_dims), np.int32), np.empty((n, n_dims), np.int32)
    children = np.empty(n, np.int64)
    for lane in range(FANOUT):
        for d in range(n_dims):
            all_lo[lane, d], all_hi[lane, d] = nodes.lo[node, d, lane], nodes.hi[node, d, lane]
        children[lane] = nodes.child[node, lane]
    for d in range(n_dims):
        all_lo[FANOUT, d], all_hi[FANOUT, d] = lo[d], hi[d]
    children[FANOUT] = child
    order = np.arange(n)
    best, best_length = np.arange(n), -1.0
    middle = np.empty(n, np.int64)
    for d in range(n_dims):
        for i in range(n):
            middle[i] = np.int64(max(all_lo[i, d], np.int32(0))) + min(all_hi[i, d], tops[d])
        order = np.argsort(middle)
        length = _halves(all_lo, all_hi, order, tops)
        if best_length < 0 or length < best_length:
            best_length = length
            best[:] = order
    added = nodes.numbers[N_NODES]
    nodes.numbers[N_NODES] += 1
    nodes.level[added] = nodes.level[node]
    for lane in range(FANOUT):
        clear_lane(nodes, node, lane)
    for i in range(n):
        into, lane = (node, i) if i < n // 2 else (added, i - n // 2)
        set_lane(nodes, into, lane, children[best[i]], all_lo[best[i]], all_hi[best[i]])
        adopt(nodes, growth, into, children[best[i]])
    return added


@lean
def _halves(all_lo: Int32s, all_hi: Int32s, order: Int64s, tops: Int32s) -> Scalar:
    """The lengths of the bounding boxes of the first and the second half, all dimensions together."""
    n = len(order)
    total = 0.0
    for d in range(len(tops)):
        for begin, end in ((0, n // 2), (n // 2, n)):
            low, high = all_lo[order[begin], d], all_hi[order[begin], d]
            for i in range(begin + 1, end):
                low = min(low, all_lo[order[i], d])
                high = max(high, all_hi[order[i], d])
            total += _length(low, high, tops[d])
    return total


@kernel
def _delete_boxes(nodes: Nodes, growth: Growth, boxes: Int32s, tops: Int32s) -> None:
    n_dims = nodes.lo.shape[1]
    lo, hi = np.empty(n_dims, np.int32), np.empty(n_dims, np.int32)
    orphans = np.empty(FANOUT, np.int64)
    orphan_lo, orphan_hi = np.empty((FANOUT, n_dims), np.int32), np.empty((FANOUT, n_dims), np.int32)
    for box in boxes:
        node = np.int64(growth.leaf_of_box[box])
        growth.leaf_of_box[box] = -1
        clear_lane(nodes, node, lane_of(nodes, node, box))
        while True:
            parent = np.int64(growth.parent[node])
            if parent < 0:
                break
            n = 0
            for lane in range(FANOUT):
                n += 1 if nodes.child[node, lane] >= 0 else 0
            if n >= _LANES_MIN:
                _bound(nodes, node, lo, hi)
                set_lane(nodes, parent, lane_of(nodes, parent, node), node, lo, hi)
                node = parent
                continue
            # Too few are left: the node goes, and what it holds is inserted again.
            level, n = nodes.level[node], 0
            for lane in range(FANOUT):
                if nodes.child[node, lane] >= 0:
                    orphans[n] = nodes.child[node, lane]
                    for d in range(n_dims):
                        orphan_lo[n, d], orphan_hi[n, d] = nodes.lo[node, d, lane], nodes.hi[node, d, lane]
                    clear_lane(nodes, node, lane)  # nobody reaches it any more, and it holds nothing
                    n += 1
            clear_lane(nodes, parent, lane_of(nodes, parent, node))
            while nodes.used[parent] == 0 and growth.parent[parent] >= 0:  # nor does anything stay above it
                node, parent = parent, np.int64(growth.parent[parent])
                clear_lane(nodes, parent, lane_of(nodes, parent, node))
            if nodes.used[parent] == 0:
                nodes.level[parent] = level if n > 0 else 0
            _bound_upwards(nodes, growth, parent, lo, hi)
            for i in range(n):
                _insert_child(nodes, growth, orphans[i], orphan_lo[i], orphan_hi[i], level, tops)
            node = parent
        _lower_root(nodes, growth)


@lean
def _bound_upwards(nodes: Nodes, growth: Growth, node: Scalar, lo: Int32s, hi: Int32s) -> None:
    """Bounds of a node and of all above it."""
    while growth.parent[node] >= 0:
        parent = np.int64(growth.parent[node])
        _bound(nodes, node, lo, hi)
        set_lane(nodes, parent, lane_of(nodes, parent, node), node, lo, hi)
        node = parent


@lean
def _lower_root(nodes: Nodes, growth: Growth) -> None:
    """A root with one child gives way to it."""
    while True:
        root = nodes.numbers[ROOT]
        if nodes.level[root] == 0:
            return
        n, only = 0, np.int64(-1)
        for lane in range(FANOUT):
            if nodes.child[root, lane] >= 0:
                n += 1
                only = np.int64(nodes.child[root, lane])
        if n != 1:
            return
        clear_lane(nodes, root, lane_of(nodes, root, only))
        growth.parent[only] = -1
        nodes.numbers[ROOT] = only
