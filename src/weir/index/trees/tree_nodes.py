"""Nodes: a tree over boxes in many dimensions, as flat arrays that one kernel compares with an event, node by node.

A node has up to FANOUT entries side by side, its *lanes*. For each dimension the lower bounds of all lanes lie next to
each other, and so do the upper ones, so that one vector instruction or two compare an event with all of them. A lane of
a leaf (level 0) is a box; a lane of any other node is a node one level below, with bounds that enclose whatever lies
under it. What the bounds of inner lanes are is the business of whoever builds the tree: bounding boxes make an R-tree,
regions of the space of interval ends make a grid file. Searching is the same (`weir.index.trees.tree_search`).

Bounds are ranks (`weir.index.ranks`): a lane that does not constrain a dimension has the bounds FREE_LO .. FREE_HI,
which hold for NULL's rank, −1, too. A lane that is not used has bounds that nothing satisfies.

Size: 8 bytes a lane and dimension, 4 a lane. Of n boxes there are n / FANOUT leaves and a fifteenth of that above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.index.box_tables import Int32s, Int64s, Uint8s
from weir.index.jit import Scalar
from weir.index.meeting.instructions import LANES, lanes_within, prefetch
from weir.index.meeting.lean import lean, thin

FANOUT = LANES
FREE_LO, FREE_HI = -1, np.iinfo(np.int32).max
UNUSED_LO, UNUSED_HI = np.iinfo(np.int32).max, np.iinfo(np.int32).min

_ASKED = 3  # dimensions whose bounds are asked for ahead: most nodes are left after fewer

Uint32s = npt.NDArray[np.uint32]


class Nodes(NamedTuple):
    """A tree; nodes from n_nodes on are room for more."""

    lo: Int32s  # int32[nodes, d, FANOUT]: lower bounds by dimension and lane
    hi: Int32s  # int32[nodes, d, FANOUT]
    child: Int32s  # int32[nodes, FANOUT]: the node of a lane, of a leaf the box; −1 for none
    used: Uint32s  # uint32[nodes]: bit w is set if lane w is used
    level: Uint8s  # uint8[nodes]: 0 for a leaf
    numbers: Int64s  # int64[2]: root, nodes


ROOT, N_NODES = 0, 1


def empty_nodes(n_nodes: int, n_dims: int) -> Nodes:
    """Room for nodes without lanes; the first is a leaf and the root."""
    return Nodes(
        np.full((n_nodes, n_dims, FANOUT), UNUSED_LO, dtype=np.int32),
        np.full((n_nodes, n_dims, FANOUT), UNUSED_HI, dtype=np.int32),
        np.full((n_nodes, FANOUT), -1, dtype=np.int32),
        np.zeros(n_nodes, dtype=np.uint32),
        np.zeros(n_nodes, dtype=np.uint8),
        np.array([0, min(n_nodes, 1)], dtype=np.int64),
    )


def with_room(nodes: Nodes, more: int) -> Nodes:
    """The same tree in arrays that may be written, with room for `more` nodes."""
    wanted = int(nodes.numbers[N_NODES]) + more
    if wanted <= len(nodes.used) and nodes.lo.flags.writeable:
        return nodes
    made = empty_nodes(max(wanted, len(nodes.used) + len(nodes.used) // 2), nodes.lo.shape[1])
    n = int(nodes.numbers[N_NODES])
    made.lo[:n], made.hi[:n], made.child[:n] = nodes.lo[:n], nodes.hi[:n], nodes.child[:n]
    made.used[:n], made.level[:n], made.numbers[:] = nodes.used[:n], nodes.level[:n], nodes.numbers
    return made


def trimmed(nodes: Nodes) -> Nodes:
    """The same tree without room for more."""
    n = int(nodes.numbers[N_NODES])
    lo, hi, child, used, level, numbers = nodes
    return Nodes(lo[:n], hi[:n], child[:n], used[:n], level[:n], numbers)


def packed(lo: Int32s, hi: Int32s) -> Nodes:
    """The tree whose leaves hold boxes int32[n, d] in the order given, every node full but the last of a level.

    Bounds of inner lanes are bounding boxes.
    """
    n, n_dims = lo.shape
    if n == 0:
        return empty_nodes(1, n_dims)
    sizes = [-(-n // FANOUT)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // FANOUT))
    made = empty_nodes(sum(sizes), n_dims)
    children = np.arange(n, dtype=np.int32)
    first = 0
    for level, size in enumerate(sizes):
        lanes = np.full(size * FANOUT, -1, dtype=np.int32)
        lanes[: len(children)] = children
        at = slice(first, first + size)
        made.child[at] = lanes.reshape(size, FANOUT)
        made.level[at] = level
        is_used = made.child[at] >= 0
        made.used[at] = (is_used.astype(np.uint32) << np.arange(FANOUT, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        for bounds, into, unused in ((lo, made.lo, UNUSED_LO), (hi, made.hi, UNUSED_HI)):
            padded = np.full((size * FANOUT, n_dims), unused, dtype=np.int32)
            padded[: len(bounds)] = bounds
            into[at] = padded.reshape(size, FANOUT, n_dims).transpose(0, 2, 1)
        lo, hi = made.lo[at].min(axis=2), made.hi[at].max(axis=2)
        children = np.arange(first, first + size, dtype=np.int32)
        first += size
    made.numbers[:] = first - 1, first
    return made


@lean
def set_lane(nodes: Nodes, node: Scalar, lane: Scalar, child: Scalar, lo: Int32s, hi: Int32s) -> None:
    """Let a lane hold a child with these bounds."""
    for d in range(len(lo)):
        nodes.lo[node, d, lane] = lo[d]
        nodes.hi[node, d, lane] = hi[d]
    nodes.child[node, lane] = child
    nodes.used[node] |= np.uint32(1) << np.uint32(lane)


@lean
def clear_lane(nodes: Nodes, node: Scalar, lane: Scalar) -> None:
    """Let a lane hold nothing."""
    for d in range(nodes.lo.shape[1]):
        nodes.lo[node, d, lane] = UNUSED_LO
        nodes.hi[node, d, lane] = UNUSED_HI
    nodes.child[node, lane] = -1
    nodes.used[node] &= ~(np.uint32(1) << np.uint32(lane))


@lean
def lane_of(nodes: Nodes, node: Scalar, child: Scalar) -> Scalar:
    """The lane of a node that holds this child; −1 if none does."""
    for lane in range(FANOUT):
        if nodes.child[node, lane] == child:
            return lane
    return -1


@lean
def free_lane(nodes: Nodes, node: Scalar) -> Scalar:
    """A lane of a node that is not used; −1 if all are."""
    return lane_of(nodes, node, -1)


@thin
def ask_for(lo: Int32s, hi: Int32s, node: Scalar, dims: Int32s) -> None:
    """Have the bounds of a node's lanes in the first dimensions on their way, for whoever looks at it soon."""
    first = np.int64(node) * lo.shape[1]
    for j in range(min(len(dims), _ASKED)):
        place = (first + np.int64(dims[j])) * FANOUT
        prefetch(lo, place)
        prefetch(hi, place)


@thin
def hit_lanes(lo: Int32s, hi: Int32s, node: Scalar, dims: Int32s, values: Int32s, lanes: Scalar) -> Scalar:
    """Which of some lanes, as bits, contain an event in the dimensions `dims`; `values` are its ranks by dimension."""
    left = np.uint32(lanes)
    first = np.int64(node) * lo.shape[1]
    for j in range(len(dims)):
        d = np.int64(dims[j])
        left &= lanes_within(lo, hi, (first + d) * FANOUT, values[d])
        if left == 0:
            break
    return left
