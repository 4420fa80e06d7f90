"""An index of boxes in a tree: what R-tree and grid file have in common, behind the contract of all strategies.

Attributes become *dimensions* of the tree, the most selective first, up to DIMS_MAX of them; constraints on others are
checked of what the tree has found. A search may say in which steps the attributes are looked at
(`weir.index.trees.tree_search`).

Boxes can be inserted and deleted. Ranks are those of the constants that the index was built with; the bounds of a box
that is inserted are ranked among these, which rounds them outwards, and its own keys decide in the end. An index that
has taken in many boxes is better built anew.

Size: 8 bytes a box and dimension and what nodes have beside; 16 bytes for the end points of a constraint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from weir.index import ranks
from weir.index.blocks import search_blocks
from weir.index.box_tables import (
    BoxTable,
    Int32s,
    Int64s,
    Matches,
    OverBudget,
    Uint8s,
    check,
    check_events,
    frozen,
    read_only,
)
from weir.index.flat_arrays import flat, restored
from weir.index.hit_pairs import Gathered, make_gathered, write_slots
from weir.index.jit import Scalar, kernel
from weir.index.meeting.instructions import lowest_bit
from weir.index.meeting.lean import lean
from weir.index.ranks import RankSpace, rank_bounds, rank_keys
from weir.index.samples import Sample
from weir.index.trees.tree_nodes import FREE_HI, FREE_LO, N_NODES, ROOT, Nodes, trimmed, with_room
from weir.index.trees.tree_search import Marked, Steps, first_changed, make_marked, make_steps, take_steps

DIMS_MAX = 128
_INSERTED_AT_ONCE = 256  # boxes for which room is made at a time

N_SLOTS, N_BUILT, HAS_MULTI = 0, 1, 2  # of `numbers`


class TreeBoxes(NamedTuple):
    """Everything that an index consists of."""

    space: RankSpace
    nodes: Nodes
    regions: Int32s  # int32[nodes, 2d, 2]: of each node of a grid file; no nodes otherwise
    columns: Int32s  # int32[a]: the attribute of each column of ranks; the first d columns are the dimensions
    slot_of_box: Int32s  # int32[n]
    rest_offsets: Int64s  # int64[n+1], or int64[1] if there are none
    rest: Int32s  # int32[·, 3]: column, lo, hi of the constraints on columns that are no dimensions, in ranks
    late: BoxTable  # the constraints of the boxes that were inserted, by keys
    numbers: Int64s  # int64[3]: slots, boxes that were built, whether slots may have several boxes


class Growth(NamedTuple):
    """What a tree that changes needs to know beside its nodes."""

    parent: Int32s  # int32[nodes]: −1 for the root
    leaf_of_box: Int32s  # int32[n]: −1 for a box that was deleted


@lean
def adopt(nodes: Nodes, growth: Growth, node: Scalar, child: Scalar) -> None:
    """A node has a new child."""
    if nodes.level[node] == 0:
        growth.leaf_of_box[child] = node
    else:
        growth.parent[child] = node


class BoxTree(ABC):
    """Boxes in a tree."""

    takes_steps = True

    def __init__(self, boxes: TreeBoxes) -> None:
        self._boxes = boxes
        self._growth: Growth | None = None

    @classmethod
    def build(cls, table: BoxTable, n_slots: int, n_attributes: int, sample: Sample | None = None) -> Self:
        del sample  # boxes are reached through all their attributes
        table = check(table, n_slots, n_attributes)
        space = ranks.build(table, n_attributes)
        lo, hi = rank_bounds(space, table)
        tops = 2 * np.diff(space.point_offsets)
        columns, n_dims = _choose_dims(table, lo, hi, tops)
        dense_lo, dense_hi = dense_bounds(table, lo, hi, columns[:n_dims])
        nodes, regions = cls._plant(dense_lo, dense_hi, tops[columns[:n_dims]])
        slots = table.slot_of_box
        nothing = BoxTable(slots[:0], np.zeros(1, np.int64), slots[:0], np.empty(0, np.int64), np.empty(0, np.int64))
        numbers = np.array([n_slots, len(slots), bool(np.any(slots[1:] == slots[:-1]))], dtype=np.int64)
        rest = _rest(table, lo, hi, columns, n_dims)
        return cls(TreeBoxes(space, nodes, regions, columns, slots, *rest, nothing, numbers))

    @staticmethod
    @abstractmethod
    def _plant(lo: Int32s, hi: Int32s, tops: Int64s) -> tuple[Nodes, Int32s]:
        """The tree of boxes int32[n, d], and its regions."""

    @abstractmethod
    def _insert(self, growth: Growth, first: int, lo: Int32s, hi: Int32s) -> None:
        """Put boxes into the tree, which has room; the first of them has the number `first`."""

    @abstractmethod
    def _delete(self, growth: Growth, boxes: Int32s) -> None:
        """Take boxes, which are there, out of the tree, which has room."""

    def arrays(self) -> dict[str, np.ndarray]:
        nodes = trimmed(self._boxes.nodes)
        return flat(self._boxes._replace(nodes=nodes, regions=self._boxes.regions[: len(nodes.used)]))

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(restored(TreeBoxes, arrays))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def search(
        self, keys: Int64s, muted: Uint8s, pairs_max: int, steps: Sequence[Sequence[int]] = ()
    ) -> Matches | OverBudget:
        boxes: TreeBoxes = frozen(self._boxes)
        n_slots = int(boxes.numbers[N_SLOTS])
        keys, muted = check_events(keys, muted, n_slots, len(boxes.columns))
        ranked = self._ranked(keys)
        stepped = make_steps(self.dims_of(steps))
        marked = make_marked(boxes.nodes, len(stepped.offsets) - 1)
        gathered = make_gathered(0, len(boxes.slot_of_box), n_slots)
        any_muted = bool(muted.any())

        def block(event: int, output: Int32s, per_event: Int64s) -> tuple[int, int]:
            return _search(boxes, stepped, marked, ranked, keys, gathered, muted, any_muted, event, output, per_event)

        return search_blocks(block, keys.shape[1], n_slots, pairs_max, len(boxes.slot_of_box))

    def dims_of(self, steps: Sequence[Sequence[int]]) -> list[list[int]]:
        """The dimensions of each step, the most selective first; attributes that no step has come in the last one."""
        boxes = self._boxes
        step_of = np.full(len(boxes.columns), max(len(steps) - 1, 0))
        for s, attributes in enumerate(steps):
            step_of[list(attributes)] = s
        of_dim = step_of[boxes.columns[: boxes.nodes.lo.shape[1]]]
        return [np.flatnonzero(of_dim == s).tolist() for s in range(max(len(steps), 1))]

    def insert(self, table: BoxTable) -> None:
        """Take in more boxes; they are numbered behind those that are there, and may be of new slots."""
        boxes = self._boxes
        n, n_slots = len(boxes.slot_of_box), int(table.slot_of_box.max(initial=-1)) + 1
        table = check(table, n_slots, len(boxes.columns))
        lo, hi = dense_bounds(table, *rank_bounds(boxes.space, table), boxes.columns[: boxes.nodes.lo.shape[1]])
        growth = self._grown(len(table.slot_of_box))
        numbers = boxes.numbers.copy()
        numbers[[N_SLOTS, HAS_MULTI]] = max(n_slots, int(numbers[N_SLOTS])), 1
        late = _together(boxes.late, table)
        slots = np.concatenate([boxes.slot_of_box, table.slot_of_box])
        self._boxes = self._boxes._replace(slot_of_box=slots, late=late, numbers=numbers)
        for begin in range(0, len(lo), _INSERTED_AT_ONCE):
            growth = self._make_room(growth)
            at = slice(begin, begin + _INSERTED_AT_ONCE)
            self._insert(growth, n + begin, lo[at], hi[at])

    def delete(self, boxes: Int32s) -> None:
        """Take boxes out, by number; each must be there."""
        growth = self._grown(0)
        boxes = np.ascontiguousarray(boxes, dtype=np.int32)
        for begin in range(0, len(boxes), _INSERTED_AT_ONCE):
            growth = self._make_room(growth)
            some = boxes[begin : begin + _INSERTED_AT_ONCE]
            assert bool(np.all(growth.leaf_of_box[some] >= 0)), "a box that is deleted is there"
            assert len(np.unique(some)) == len(some), "a box is deleted once"
            self._delete(growth, some)

    def _ranked(self, keys: Int64s) -> Int32s:
        """Ranks of events, int32[e, a], by column."""
        columns = self._boxes.columns
        found = np.empty((keys.shape[1], max(len(columns), 1)), dtype=np.int32)
        space = frozen(self._boxes.space)
        for column, attribute in enumerate(columns.tolist()):
            rank_keys(space, attribute, read_only(keys[attribute]), 0, keys.shape[1], found[:, column])
        return found

    def _grown(self, more: int) -> Growth:
        """What changing the tree needs, with room for more boxes; the nodes may be written from here on."""
        boxes = self._boxes
        if self._growth is None:
            self._boxes = boxes._replace(nodes=with_room(boxes.nodes, 1), regions=boxes.regions.copy())
            self._growth = _growth_of(self._boxes.nodes, len(boxes.slot_of_box))
        known = self._growth.leaf_of_box
        if more:
            self._growth = self._growth._replace(leaf_of_box=np.concatenate([known, np.full(more, -1, np.int32)]))
        return self._growth

    def _make_room(self, growth: Growth) -> Growth:
        """Room for the nodes that some boxes may need: one a level for each, and a new root."""
        nodes = self._boxes.nodes
        height = int(nodes.level[nodes.numbers[ROOT]]) + 2
        nodes = with_room(nodes, 2 * _INSERTED_AT_ONCE * height)
        n, known = len(nodes.used), len(growth.parent)
        if known < n:
            growth = growth._replace(parent=np.concatenate([growth.parent, np.full(n - known, -1, np.int32)]))
        regions = self._boxes.regions
        if 0 < len(regions) < n:
            room = np.zeros((n - len(regions), *regions.shape[1:]), dtype=np.int32)
            regions = np.concatenate([regions, room])
        self._boxes = self._boxes._replace(nodes=nodes, regions=regions)
        self._growth = growth
        return growth


def _choose_dims(table: BoxTable, lo: Int32s, hi: Int32s, tops: Int64s) -> tuple[Int32s, int]:
    """All attributes, those that narrow an average box most first; and how many of them become dimensions."""
    n = max(len(table.slot_of_box), 1)
    attribute = table.constraint_attribute
    share = (np.minimum(hi, tops[attribute]).astype(np.float64) - lo + 1.0) / (tops[attribute] + 1.0)
    spared = np.bincount(attribute, weights=1.0 - np.minimum(share, 1.0), minlength=len(tops)) / n
    return np.argsort(-spared, kind="stable").astype(np.int32), min(len(tops), DIMS_MAX)


def dense_bounds(table: BoxTable, lo: Int32s, hi: Int32s, dims: Int32s) -> tuple[Int32s, Int32s]:
    """Bounds int32[n, d] of all boxes in all dimensions."""
    n = len(table.slot_of_box)
    dense_lo, dense_hi = np.full((n, len(dims)), FREE_LO, np.int32), np.full((n, len(dims)), FREE_HI, np.int32)
    place = np.full(max(int(table.constraint_attribute.max(initial=-1)), int(dims.max(initial=-1))) + 1, -1)
    place[dims] = np.arange(len(dims))
    box = np.repeat(np.arange(n), np.diff(table.constraint_offsets))
    dim = place[table.constraint_attribute]
    there = np.flatnonzero(dim >= 0)
    dense_lo[box[there], dim[there]] = lo[there]
    dense_hi[box[there], dim[there]] = hi[there]
    return dense_lo, dense_hi


def _rest(table: BoxTable, lo: Int32s, hi: Int32s, columns: Int32s, n_dims: int) -> tuple[Int64s, Int32s]:
    """The constraints on attributes that are no dimensions."""
    column = np.empty(len(columns), np.int32)
    column[columns] = np.arange(len(columns), dtype=np.int32)
    of = column[table.constraint_attribute]
    at = np.flatnonzero(of >= n_dims)
    if not len(at):
        return np.zeros(1, np.int64), np.empty((0, 3), np.int32)
    box = np.repeat(np.arange(len(table.slot_of_box)), np.diff(table.constraint_offsets))
    offsets = np.zeros(len(table.slot_of_box) + 1, np.int64)
    np.cumsum(np.bincount(box[at], minlength=len(table.slot_of_box)), out=offsets[1:])
    return offsets, np.stack([of[at], lo[at], hi[at]], axis=1)


def _together(one: BoxTable, other: BoxTable) -> BoxTable:
    offsets = np.concatenate([one.constraint_offsets, other.constraint_offsets[1:] + one.constraint_offsets[-1]])
    return BoxTable(
        np.concatenate([one.slot_of_box, other.slot_of_box]),
        offsets,
        np.concatenate([one.constraint_attribute, other.constraint_attribute]),
        np.concatenate([one.constraint_lo, other.constraint_lo]),
        np.concatenate([one.constraint_hi, other.constraint_hi]),
    )


def _growth_of(nodes: Nodes, n_boxes: int) -> Growth:
    """Parents of nodes and leaves of boxes."""
    parent, leaf_of_box = np.full(len(nodes.used), -1, np.int32), np.full(n_boxes, -1, np.int32)
    n = int(nodes.numbers[N_NODES])
    for is_leaf, into in ((nodes.level[:n] == 0, leaf_of_box), (nodes.level[:n] > 0, parent)):
        at = np.flatnonzero(is_leaf)
        node, lane = np.nonzero(nodes.child[at] >= 0)
        into[nodes.child[at[node], lane]] = at[node]
    return Growth(parent, leaf_of_box)


@kernel
def _search(
    boxes: TreeBoxes,
    steps: Steps,
    marked: Marked,
    ranked: Int32s,
    keys: Int64s,
    gathered: Gathered,
    muted: Uint8s,
    any_muted: Scalar,
    event: Scalar,
    output: Int32s,
    per_event: Int64s,
) -> tuple[Scalar, Scalar]:
    """Write the slots of events from `event` on until one does not fit; returns that event and the ids written."""
    has_multi = boxes.numbers[HAS_MULTI] != 0
    begun = event
    written = np.int64(0)
    while event < keys.shape[1]:
        first = np.int64(0)
        if event > begun:
            first = first_changed(steps, ranked[event], ranked[event - 1])
        take_steps(boxes.nodes, steps, ranked[event], first, marked)
        n = _collect(boxes, marked, len(steps.offsets) - 2, ranked[event], keys, event, gathered.slots)
        if written + n > len(output):
            return event, written
        before = written
        written = write_slots(gathered, 0, n, muted, any_muted, has_multi, output, written)
        per_event[event] = written - before
        event += 1
    return event, written


@lean
def _collect(
    boxes: TreeBoxes, marked: Marked, step: Scalar, values: Int32s, keys: Int64s, event: Scalar, out: Int32s
) -> Scalar:
    """The slots of the lanes that the last step has left, where what the tree does not know holds too."""
    level, child, slot_of_box = boxes.nodes.level, boxes.nodes.child, boxes.slot_of_box
    n_built = boxes.numbers[N_BUILT]
    has_rest = len(boxes.rest_offsets) > 1
    n = np.int64(0)
    for k in range(marked.sizes[step]):
        node = marked.node[step, k]
        if level[node] > 0:
            continue
        left = np.uint64(marked.lanes[step, k])
        while left:
            box = child[node, lowest_bit(left)]
            left &= left - np.uint64(1)
            if box >= n_built:
                if not _late_holds(boxes.late, box - n_built, keys, event):
                    continue
            elif has_rest and not _rest_holds(boxes, box, values):
                continue
            out[n] = slot_of_box[box]
            n += 1
    return n


@lean
def _late_holds(late: BoxTable, box: Scalar, keys: Int64s, event: Scalar) -> Scalar:
    """Whether an event lies in a box that was inserted, by its keys."""
    for c in range(late.constraint_offsets[box], late.constraint_offsets[box + 1]):
        key = keys[late.constraint_attribute[c], event]
        if key < late.constraint_lo[c] or key > late.constraint_hi[c]:
            return False
    return True


@lean
def _rest_holds(boxes: TreeBoxes, box: Scalar, values: Int32s) -> Scalar:
    """Whether an event satisfies the constraints of a box on columns that are no dimensions."""
    rest = boxes.rest
    for c in range(boxes.rest_offsets[box], boxes.rest_offsets[box + 1]):
        if values[rest[c, 0]] < rest[c, 1] or values[rest[c, 0]] > rest[c, 2]:
            return False
    return True
