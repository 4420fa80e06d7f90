"""Searching a tree step by step: partial dimension filtering (CSJQ, 3.3), with any number of steps.

The dimensions come in *steps*. The first step goes down the whole tree and looks at its own dimensions only; what it
finds is a *marked* subtree: the nodes on the way and the lanes of the leaves that are left. Each further step looks at
its dimensions in what the step before it marked. After the last step the lanes that are left are the answer, whatever
the steps were. With one step this is the plain search of the tree.

The gain: events that follow each other often agree in the dimensions of the first steps. A row that arrives and joins
with N partners makes N events that agree in all dimensions of its own stream; in a join of more streams, combinations
agree in those of the partners that they have in common. A step is done again only if a dimension of it or of a step
before it has changed. So the cost is T1 + N · T2, not N · T1, and with more steps each partner narrows the candidates
for the next.

A step may go through the list of leaves that are left, or look at the inner nodes as well and leave out subtrees.
Which is cheaper is measured: when looking at inner nodes spares less than it costs, the next events of this step go
through the list, and now and then the other way is tried again.

Memory: 17 bytes a node and step. Cost of a step: 5 to 30 ns for each node that it looks at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s, Uint8s
from weir.index.jit import Scalar
from weir.index.meeting.instructions import lowest_bit
from weir.index.meeting.lean import lean
from weir.index.trees.tree_nodes import FANOUT, N_NODES, ROOT, Nodes, Uint32s, ask_for, hit_lanes

LEVELS_MAX = 64  # a tree that is built has 8 for 4 billion boxes; one that grew is less full
AHEAD = 4  # nodes of a list that are asked for before they are looked at
_TRIED_EVERY = 64  # times that a step goes through the list before it tries the inner nodes again


class Steps(NamedTuple):
    """The dimensions of each step."""

    offsets: Int64s  # int64[s+1]
    dims: Int32s  # int32[d]


class Marked(NamedTuple):
    """What each step has left, nodes in the order of a walk that visits parents first; and buffers."""

    node: Int32s  # int32[s, nodes]
    lanes: Uint32s  # uint32[s, nodes]: lanes that are left, as bits
    lane: Uint8s  # uint8[s, nodes]: the node's own lane in its parent
    behind: Int32s  # int32[s, nodes]: where the first entry behind the node's subtree is
    sizes: Int64s  # int64[s]: entries
    waits: Int64s  # int64[s]: how often the step still goes through the list; 0: it looks at inner nodes too
    stack: Int32s  # int32[·, 2]: nodes to visit, with their lane
    open_at: Int64s  # int64[LEVELS_MAX]: by level, the entry whose `behind` is not known yet, or −1
    passed: Uint32s  # uint32[LEVELS_MAX]: by level, the lanes of the node that a walk is in


def make_steps(steps: Sequence[Sequence[int]]) -> Steps:
    offsets = np.cumsum([0, *(len(dims) for dims in steps)], dtype=np.int64)
    return Steps(offsets, np.array([d for dims in steps for d in dims], dtype=np.int32))


def make_marked(nodes: Nodes, n_steps: int) -> Marked:
    """Buffers for searches of this tree."""
    n = int(nodes.numbers[N_NODES]) + 1
    shape = n_steps, n
    return Marked(
        np.empty(shape, dtype=np.int32),
        np.empty(shape, dtype=np.uint32),
        np.empty(shape, dtype=np.uint8),
        np.empty(shape, dtype=np.int32),
        np.zeros(n_steps, dtype=np.int64),
        np.zeros(n_steps, dtype=np.int64),
        np.empty((FANOUT * LEVELS_MAX, 2), dtype=np.int32),
        np.full(LEVELS_MAX, -1, dtype=np.int64),
        np.zeros(LEVELS_MAX, dtype=np.uint32),
    )


@lean
def take_steps(nodes: Nodes, steps: Steps, values: Int32s, first: Scalar, marked: Marked) -> None:
    """Do the steps from `first` on for an event, whose ranks by dimension are `values`."""
    for s in range(first, len(steps.offsets) - 1):
        dims = steps.dims[steps.offsets[s] : steps.offsets[s + 1]]
        if s == 0:
            _descend(nodes, dims, values, marked)
        else:
            _narrow(nodes, dims, values, marked, s)


@lean
def first_changed(steps: Steps, values: Int32s, before: Int32s) -> Scalar:
    """The first step that two events do not agree in; the number of steps if they agree in all."""
    for s in range(len(steps.offsets) - 1):
        for j in range(steps.offsets[s], steps.offsets[s + 1]):
            if values[steps.dims[j]] != before[steps.dims[j]]:
                return s
    return len(steps.offsets) - 1


@lean
def _append(marked: Marked, s: Scalar, n: Scalar, node: Scalar, lane: Scalar, level: Scalar, lanes: Scalar) -> Scalar:
    """Add a node to what a step has left."""
    marked.node[s, n] = node
    marked.lanes[s, n] = lanes
    marked.lane[s, n] = lane
    marked.behind[s, n] = n + 1
    if level > 0:
        _close(marked, s, n, level)
        marked.open_at[level] = n
    return n + 1


@lean
def _close(marked: Marked, s: Scalar, n: Scalar, level: Scalar) -> None:
    """The subtrees of nodes up to a level end here."""
    for lower in range(1, level + 1):
        if marked.open_at[lower] >= 0:
            marked.behind[s, marked.open_at[lower]] = n
            marked.open_at[lower] = -1


@lean
def _descend(nodes: Nodes, dims: Int32s, values: Int32s, marked: Marked) -> None:
    """The first step: the whole tree."""
    lo, hi, child, used, level, stack = nodes.lo, nodes.hi, nodes.child, nodes.used, nodes.level, marked.stack
    stack[0, 0] = nodes.numbers[ROOT]
    stack[0, 1] = 0
    top = 1
    n = np.int64(0)
    while top > 0:
        top -= 1
        node, lane = stack[top, 0], stack[top, 1]
        lanes = hit_lanes(lo, hi, node, dims, values, used[node])
        if lanes == 0:
            continue
        n = _append(marked, 0, n, node, lane, level[node], lanes)
        if level[node] > 0:
            left = np.uint64(lanes)
            while left:
                own = lowest_bit(left)
                left &= left - np.uint64(1)
                stack[top, 0] = child[node, own]
                stack[top, 1] = own
                top += 1
                ask_for(lo, hi, child[node, own], dims)
    _close(marked, 0, n, LEVELS_MAX - 1)
    marked.sizes[0] = n


@lean
def _narrow(nodes: Nodes, dims: Int32s, values: Int32s, marked: Marked, s: Scalar) -> None:
    """A further step: what the step before it has left."""
    lo, hi, level = nodes.lo, nodes.hi, nodes.level
    node_of, lanes_of, behind = marked.node[s - 1], marked.lanes[s - 1], marked.behind[s - 1]
    passed = marked.passed
    is_listed = marked.waits[s] > 0
    root_level = level[nodes.numbers[ROOT]]
    n = np.int64(0)
    k = 0
    looked, spared = 0, 0
    while k < marked.sizes[s - 1]:
        node = node_of[k]
        at = level[node]
        is_passed = is_listed or at == root_level or (passed[at + 1] >> np.uint32(marked.lane[s - 1, k])) & np.uint32(1)
        if not is_passed:
            spared += behind[k] - k
            k = behind[k]
            continue
        lanes = lanes_of[k]
        if at == 0:
            ask_for(lo, hi, node_of[min(k + AHEAD, marked.sizes[s - 1] - 1)], dims)
            lanes = hit_lanes(lo, hi, node, dims, values, lanes)
            if lanes != 0:
                n = _append(marked, s, n, node, marked.lane[s - 1, k], at, lanes)
        else:
            if not is_listed:
                passed[at] = hit_lanes(lo, hi, node, dims, values, lanes)
                looked += 1
                if passed[at] == 0:
                    spared += behind[k] - k - 1
                    k = behind[k]
                    continue
            n = _append(marked, s, n, node, marked.lane[s - 1, k], at, lanes)
        k += 1
    _close(marked, s, n, LEVELS_MAX - 1)
    marked.sizes[s] = n
    if is_listed:
        marked.waits[s] -= 1
    elif spared < looked:
        marked.waits[s] = _TRIED_EVERY
