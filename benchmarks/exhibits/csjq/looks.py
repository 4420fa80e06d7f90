"""What a search of a tree looks at: nodes, counted on some join results. Exhibits that differ give it as the reason."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.workloads import BoxWorkload
from weir.index.box_tables import frozen
from weir.index.trees.tree_index import BoxTree
from weir.index.trees.tree_nodes import N_NODES, Nodes
from weir.index.trees.tree_search import Marked, make_marked, make_steps, take_steps

SAMPLED = 50  # join results, each of another tuple


class Looks(NamedTuple):
    """Means over join results."""

    naive: float  # nodes that a search by all dimensions looks at
    first: float  # nodes that the first step looks at, by the dimensions of the arriving stream
    marked: float  # leaves that the first step leaves, which the second looks at
    nodes: int  # of the whole tree


def looks(index: BoxTree, workload: BoxWorkload) -> Looks:
    """Count on the first join results of some tuples."""
    keys = np.ascontiguousarray(workload.keys[:, :: workload.n_results][:, :SAMPLED])
    own = (workload.steps[0], tuple(a for step in workload.steps[1:] for a in step))
    nodes, naive = _marked(index, keys, ())
    _, first = _marked(index, keys, own)
    return Looks(
        float(np.mean([_looked(nodes, found) for found in naive])),
        float(np.mean([_looked(nodes, found) for found in first])),
        float(np.mean([(nodes.level[found.node[0, : found.sizes[0]]] == 0).sum() for found in first])),
        int(nodes.numbers[N_NODES]),
    )


def _marked(index: BoxTree, keys: np.ndarray, steps: tuple[tuple[int, ...], ...]) -> tuple[Nodes, list[Marked]]:
    """What each join result's first step has marked."""
    nodes: Nodes = frozen(index._boxes.nodes)
    dims = make_steps(index.dims_of(steps)[:1])
    found = []
    for values in index._ranked(keys):
        marked = make_marked(nodes, 1)
        take_steps(nodes, dims, values, 0, marked)
        found.append(marked)
    return nodes, found


def _looked(nodes: Nodes, marked: Marked) -> int:
    """The root, and a node for each lane that an inner node has left."""
    at = slice(0, int(marked.sizes[0]))
    is_inner = nodes.level[marked.node[0, at]] > 0
    return 1 + int(np.bitwise_count(marked.lanes[0, at][is_inner]).sum())
