"""The multilevel grid file over points in 2d dimensions; strategy "grid-file" (CSJQ, 4.1; Whang and Krishnamurthy).

The dimension transform turns a box with the intervals lo_i .. hi_i into the point (lo_1, hi_1, lo_2, hi_2, …), and
"which boxes contain the event v" into a range: lo_i <= v_i <= hi_i for all i. The space of points is cut into regions
that do not overlap, and a page holds the points of one region. A page that is full is cut in two at the middle of what
its points occupy in a dimension in which they differ: dimensions take turns while the file is built, later it is the
one that parts the points most evenly. So the directory splits with the data, and no cell is ever empty. Regions of
pages make up the regions of directory pages, level by level: the directory is a balanced tree, whose nodes and search
are those of all trees (`weir.index.trees.tree_nodes`), with regions for bounds. Of a region the search needs the least
lo_i and the greatest hi_i only.

Boxes that are equal in all bounds cannot be told apart by any cut; pages full of them share their region. A directory
page that is full is cut along a plane that cuts none of its regions, or where there is none, into two that overlap. A
page that is less than a quarter full is joined with one whose region makes a larger region with its own.

Size: as of other trees, and 16 bytes a dimension for the region of each page. Pages are two thirds full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int32s, Int64s
from weir.index.jit import Scalar, kernel
from weir.index.meeting.lean import lean
from weir.index.trees.tree_index import BoxTree, Growth, adopt
from weir.index.trees.tree_nodes import (
    FANOUT,
    FREE_HI,
    FREE_LO,
    N_NODES,
    ROOT,
    Nodes,
    clear_lane,
    empty_nodes,
    free_lane,
    lane_of,
    set_lane,
)
from weir.index.trees.tree_search import LEVELS_MAX

_LANES_MIN = FANOUT // 4  # points of a page that is not joined with another
_LANES_JOINED = 3 * FANOUT // 4  # points that two pages may have when they are joined


class GridFileIndex(BoxTree):
    """Strategy "grid-file"."""

    @staticmethod
    def _plant(lo: Int32s, hi: Int32s, tops: Int64s) -> tuple[Nodes, Int32s]:
        return _directory(lo, hi, _cut_all(lo, hi))

    def _insert(self, growth: Growth, first: int, lo: Int32s, hi: Int32s) -> None:
        _insert_points(self._boxes.nodes, self._boxes.regions, growth, first, lo, hi)

    def _delete(self, growth: Growth, boxes: Int32s) -> None:
        _delete_points(self._boxes.nodes, self._boxes.regions, growth, boxes)


class Cuts(NamedTuple):
    """The binary tree of all cuts; region 0 is the whole space, parts of a region come behind it."""

    order: Int64s  # int64[n]: points, those of a region next to each other
    begin: Int64s  # int64[r]
    end: Int64s  # int64[r]: the points of region r are order[begin[r] .. end[r]]
    lower: Int64s  # int64[r]: its lower half, −1 if it is a page
    upper: Int64s  # int64[r]
    regions: Int32s  # int32[r, 2d, 2]: least and greatest coordinate; dimension 2i is lo_i, 2i + 1 is hi_i


def _cut_all(lo: Int32s, hi: Int32s) -> Cuts:
    """Cut until every page fits into a node."""
    n, n_dims = lo.shape
    room = 2 * max(n, 1) + 1
    made = Cuts(
        np.arange(n, dtype=np.int64),
        np.zeros(room, dtype=np.int64),
        np.zeros(room, dtype=np.int64),
        np.full(room, -1, dtype=np.int64),
        np.full(room, -1, dtype=np.int64),
        np.empty((room, 2 * n_dims, 2), dtype=np.int32),
    )
    made.end[0] = n
    made.regions[0, :, 0], made.regions[0, :, 1] = FREE_LO, FREE_HI
    count = _cut_regions(lo, hi, made, np.zeros(room, dtype=np.int64))
    order, begin, end, lower, upper, regions = made
    return Cuts(order, begin[:count], end[:count], lower[:count], upper[:count], regions[:count])


@lean
def _coordinate(lo: Int32s, hi: Int32s, point: Scalar, dim: Scalar) -> Scalar:
    return lo[point, dim >> 1] if dim & 1 == 0 else hi[point, dim >> 1]


@kernel
def _cut_regions(lo: Int32s, hi: Int32s, cuts: Cuts, turn: Int64s) -> Scalar:
    """Cut regions of more than FANOUT points; `turn` is the dimension that is next. Returns the number of regions."""
    n_dims = 2 * lo.shape[1]
    order, count, r = cuts.order, 1, 0
    while r < count:
        begin, end = cuts.begin[r], cuts.end[r]
        if end - begin > FANOUT:
            dim, plane = -1, np.int32(0)
            for step in range(n_dims):
                tried = (turn[r] + step) % n_dims
                least = greatest = _coordinate(lo, hi, order[begin], tried)
                for i in range(begin + 1, end):
                    value = _coordinate(lo, hi, order[i], tried)
                    least, greatest = min(least, value), max(greatest, value)
                if least < greatest:
                    dim, plane = tried, np.int32((np.int64(least) + greatest) >> 1)
                    break
            middle = (begin + end) >> 1  # of equal points any half
            if dim >= 0:
                middle = begin
                for i in range(begin, end):
                    if _coordinate(lo, hi, order[i], dim) <= plane:
                        order[middle], order[i] = order[i], order[middle]
                        middle += 1
            cuts.lower[r], cuts.upper[r] = count, count + 1
            for half in range(2):
                for at in range(n_dims):
                    for edge in range(2):
                        cuts.regions[count + half, at, edge] = cuts.regions[r, at, edge]
                turn[count + half] = (dim + 1) % n_dims if n_dims else 0
            cuts.begin[count], cuts.end[count] = begin, middle
            cuts.begin[count + 1], cuts.end[count + 1] = middle, end
            if dim >= 0:
                cuts.regions[count, dim, 1] = plane
                cuts.regions[count + 1, dim, 0] = plane + 1
            count += 2
        r += 1
    return count


class _Pages(NamedTuple):
    """The pages of one level, in the order of their points."""

    begin: Int64s  # int64[p]: first point
    regions: Int32s  # int32[p, 2d, 2]


def _directory(lo: Int32s, hi: Int32s, cuts: Cuts) -> tuple[Nodes, Int32s]:
    """The nodes of all pages, level by level, and their regions."""
    leaves = np.flatnonzero(cuts.lower < 0)
    leaves = leaves[np.argsort(cuts.begin[leaves], kind="stable")]
    levels = [_Pages(cuts.begin[leaves], cuts.regions[leaves])]
    children, bounds = [cuts.order], [(lo[cuts.order], hi[cuts.order])]
    page_of_child = [np.repeat(np.arange(len(leaves)), cuts.end[leaves] - cuts.begin[leaves])]
    first = 0
    is_halved = True  # whether pages still are regions that come from halving
    while len(levels[-1].begin) > 1:
        below = levels[-1]
        above = _halved(cuts, below) if is_halved else below
        is_halved = 4 * len(above.begin) <= len(below.begin)
        if not is_halved:  # cuts so uneven that pages would be nearly empty: pages of neighbours, whose regions overlap
            at = np.arange(0, len(below.begin), FANOUT)
            hulls = (f.reduceat(below.regions[..., k], at, axis=0) for k, f in enumerate((np.minimum, np.maximum)))
            above = _Pages(below.begin[at], np.stack(list(hulls), axis=2))
        page_of_child.append(np.searchsorted(above.begin, below.begin, side="right") - 1)
        children.append(np.arange(first, first + len(below.begin)))
        bounds.append((below.regions[:, ::2, 0], below.regions[:, 1::2, 1]))
        first += len(below.begin)
        levels.append(above)
    nodes = empty_nodes(first + 1, lo.shape[1])
    nodes.numbers[:] = first, first + 1
    first = 0
    for level, (pages, owner, held, (low, high)) in enumerate(
        zip(levels, page_of_child, children, bounds, strict=True)
    ):
        counts = np.bincount(owner, minlength=len(pages.begin))
        lane = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes.child[first + owner, lane] = held
        nodes.lo[first + owner, :, lane], nodes.hi[first + owner, :, lane] = low, high
        mine = slice(first, first + len(counts))
        nodes.used[mine] = ((np.int64(1) << counts) - 1).astype(np.uint32)
        nodes.level[mine] = level
        first += len(counts)
    return nodes, np.concatenate([pages.regions for pages in levels])


def _halved(cuts: Cuts, below: _Pages) -> _Pages:
    """The largest regions that have at most FANOUT of the pages below."""
    n_points = len(cuts.order)
    is_first = np.zeros(n_points + 1, np.int64)
    is_first[below.begin + 1] = 1
    before = np.cumsum(is_first)  # pages that begin before a point
    count = before[cuts.end] - before[cuts.begin]
    fits = (count > 0) & (count <= FANOUT)
    parent = np.full(len(count), -1, dtype=np.int64)
    inner = np.flatnonzero(cuts.lower >= 0)
    parent[cuts.lower[inner]] = parent[cuts.upper[inner]] = inner
    # A region whose points begin in the middle of a page below is part of that page.
    whole = is_first[cuts.begin + 1] == 1
    top = np.flatnonzero(fits & whole & ~np.where(parent >= 0, fits[parent], False))
    top = top[np.argsort(cuts.begin[top], kind="stable")]
    return _Pages(cuts.begin[top], cuts.regions[top])


@lean
def _holds(regions: Int32s, node: Scalar, lo: Int32s, hi: Int32s) -> Scalar:
    """Whether a point lies in the region of a node."""
    for i in range(len(lo)):
        if lo[i] < regions[node, 2 * i, 0] or lo[i] > regions[node, 2 * i, 1]:
            return False
        if hi[i] < regions[node, 2 * i + 1, 0] or hi[i] > regions[node, 2 * i + 1, 1]:
            return False
    return True


@kernel
def _insert_points(nodes: Nodes, regions: Int32s, growth: Growth, first: Scalar, lo: Int32s, hi: Int32s) -> None:
    for i in range(len(lo)):
        _insert_point(nodes, regions, growth, first + i, lo[i], hi[i])


@kernel
def _insert_point(nodes: Nodes, regions: Int32s, growth: Growth, box: Scalar, lo: Int32s, hi: Int32s) -> None:
    """Put a point into the page of its region; a page that is full is cut, and before it those above that are."""
    node = _page_of(nodes, regions, lo, hi)
    while free_lane(nodes, node) < 0:
        top = node
        while growth.parent[top] >= 0 and free_lane(nodes, growth.parent[top]) < 0:
            top = np.int64(growth.parent[top])
        other = _cut_page(nodes, regions, growth, top)
        if top == node and not (_holds(regions, node, lo, hi) and free_lane(nodes, node) >= 0):
            node = other
    set_lane(nodes, node, free_lane(nodes, node), box, lo, hi)
    growth.leaf_of_box[box] = node


@kernel
def _page_of(nodes: Nodes, regions: Int32s, lo: Int32s, hi: Int32s) -> Scalar:
    """The page whose region a point lies in; of several that share it one with room, if there is one.

    Regions of directory pages may overlap, so all that hold the point are looked at. The regions of all pages fill the
    space.
    """
    stack = np.empty(FANOUT * LEVELS_MAX, np.int64)
    stack[0], top = nodes.numbers[ROOT], 1
    found = np.int64(-1)
    while top > 0:
        top -= 1
        node = stack[top]
        if nodes.level[node] == 0:
            found = node
            if free_lane(nodes, node) >= 0:
                break
            continue
        for lane in range(FANOUT):
            child = nodes.child[node, lane]
            if child >= 0 and _holds(regions, child, lo, hi):
                stack[top] = child
                top += 1
    return found


@lean
def _move(nodes: Nodes, growth: Growth, node: Scalar, lane: Scalar, other: Scalar, lo: Int32s, hi: Int32s) -> None:
    """Move what a page has in a lane to another page, which has room; the ends of its box go through `lo` and `hi`."""
    child = np.int64(nodes.child[node, lane])
    for d in range(len(lo)):
        lo[d], hi[d] = nodes.lo[node, d, lane], nodes.hi[node, d, lane]
    set_lane(nodes, other, free_lane(nodes, other), child, lo, hi)
    clear_lane(nodes, node, lane)
    adopt(nodes, growth, other, child)


@kernel
def _cut_page(nodes: Nodes, regions: Int32s, growth: Growth, node: Scalar) -> Scalar:
    """Cut a full page in two, where that is most even; its parent has room. Returns the new page."""
    parent = np.int64(growth.parent[node])
    n_dims = regions.shape[1]
    bounds = np.empty((FANOUT, 2), np.int32)
    dim, plane, best = -1, np.int32(0), 0
    for tried in range(n_dims):
        for lane in range(FANOUT):
            _extent(nodes, regions, node, lane, tried, bounds[lane])
        found = _plane(bounds, nodes.level[node] == 0)
        lower = 0
        for lane in range(FANOUT):
            lower += 1 if bounds[lane, 1] <= found else 0
        if min(lower, FANOUT - lower) > best:
            dim, plane, best = tried, found, min(lower, FANOUT - lower)
    added = nodes.numbers[N_NODES]
    nodes.numbers[N_NODES] += 1
    nodes.level[added] = nodes.level[node]
    regions[added] = regions[node]
    if dim >= 0:
        regions[node, dim, 1] = plane
        regions[added, dim, 0] = plane + 1
    lo, hi = np.empty(nodes.lo.shape[1], np.int32), np.empty(nodes.lo.shape[1], np.int32)
    extent = np.empty(2, np.int32)
    for lane in range(FANOUT):
        is_upper = lane >= FANOUT // 2  # of lanes that no plane parts
        if dim >= 0:
            _extent(nodes, regions, node, lane, dim, extent)
            is_upper = extent[0] > plane
        if is_upper:
            _move(nodes, growth, node, lane, added, lo, hi)
    if parent < 0:
        parent = nodes.numbers[N_NODES]
        nodes.numbers[N_NODES] += 1
        nodes.numbers[ROOT] = parent
        nodes.level[parent] = nodes.level[node] + 1
        regions[parent, :, 0], regions[parent, :, 1] = FREE_LO, FREE_HI
        growth.parent[parent] = -1
        _enter(nodes, regions, growth, parent, 0, node, lo, hi)
    else:
        _enter(nodes, regions, growth, parent, lane_of(nodes, parent, node), node, lo, hi)
    _enter(nodes, regions, growth, parent, free_lane(nodes, parent), added, lo, hi)
    return added


@lean
def _extent(nodes: Nodes, regions: Int32s, node: Scalar, lane: Scalar, dim: Scalar, out: Int32s) -> None:
    """What a lane occupies of a dimension: the coordinate of a point, or the region of a page."""
    child = nodes.child[node, lane]
    if nodes.level[node] > 0:
        out[0], out[1] = regions[child, dim, 0], regions[child, dim, 1]
    elif dim & 1 == 0:
        out[0] = out[1] = nodes.lo[node, dim >> 1, lane]
    else:
        out[0] = out[1] = nodes.hi[node, dim >> 1, lane]


@lean
def _plane(bounds: Int32s, is_page: Scalar) -> Scalar:
    """Where to cut: of points the middle of what they occupy, of regions the most even plane that cuts none.

    Nothing lies on one side of the result if there is no such plane.
    """
    least, greatest = bounds[0, 0], bounds[0, 1]
    for lane in range(1, FANOUT):
        least, greatest = min(least, bounds[lane, 0]), max(greatest, bounds[lane, 1])
    if is_page:
        return np.int32((np.int64(least) + greatest) >> 1)
    best, best_lower = greatest, 0
    for lane in range(FANOUT):
        plane, lower, is_fit = bounds[lane, 1], 0, True
        for other in range(FANOUT):
            if bounds[other, 1] <= plane:
                lower += 1
            elif bounds[other, 0] <= plane:
                is_fit = False
        if is_fit and min(lower, FANOUT - lower) > min(best_lower, FANOUT - best_lower):
            best, best_lower = plane, lower
    return best


@lean
def _enter(
    nodes: Nodes, regions: Int32s, growth: Growth, parent: Scalar, lane: Scalar, node: Scalar, lo: Int32s, hi: Int32s
) -> None:
    """Let a lane of a directory page hold a page, with its region for bounds; `lo` and `hi` are buffers."""
    for d in range(len(lo)):
        lo[d], hi[d] = regions[node, 2 * d, 0], regions[node, 2 * d + 1, 1]
    set_lane(nodes, parent, lane, node, lo, hi)
    growth.parent[node] = parent


@kernel
def _delete_points(nodes: Nodes, regions: Int32s, growth: Growth, boxes: Int32s) -> None:
    lo, hi = np.empty(nodes.lo.shape[1], np.int32), np.empty(nodes.lo.shape[1], np.int32)
    for box in boxes:
        node = np.int64(growth.leaf_of_box[box])
        growth.leaf_of_box[box] = -1
        clear_lane(nodes, node, lane_of(nodes, node, box))
        while growth.parent[node] >= 0 and _lanes(nodes, node) < _LANES_MIN:
            parent = np.int64(growth.parent[node])
            if not _join(nodes, regions, growth, parent, node, lo, hi):
                break
            node = parent
        _lower_root(nodes, growth)


@lean
def _lanes(nodes: Nodes, node: Scalar) -> Scalar:
    n = 0
    for lane in range(FANOUT):
        n += 1 if nodes.child[node, lane] >= 0 else 0
    return n


@lean
def _join(
    nodes: Nodes, regions: Int32s, growth: Growth, parent: Scalar, node: Scalar, lo: Int32s, hi: Int32s
) -> Scalar:
    """Move what a page holds to one whose region makes a larger region with its own; whether there was one."""
    for lane in range(FANOUT):
        other = np.int64(nodes.child[parent, lane])
        if other < 0 or other == node or _lanes(nodes, node) + _lanes(nodes, other) > _LANES_JOINED:
            continue
        dim = _parted_by(regions, node, other)
        if dim < 0:
            continue
        for own in range(FANOUT):
            if nodes.child[node, own] >= 0:
                _move(nodes, growth, node, own, other, lo, hi)
        if dim < regions.shape[1]:
            regions[other, dim, 0] = min(regions[other, dim, 0], regions[node, dim, 0])
            regions[other, dim, 1] = max(regions[other, dim, 1], regions[node, dim, 1])
        clear_lane(nodes, parent, lane_of(nodes, parent, node))
        _enter(nodes, regions, growth, parent, lane, other, lo, hi)
        return True
    return False


@lean
def _parted_by(regions: Int32s, one: Scalar, other: Scalar) -> Scalar:
    """The one dimension in which two regions differ, if they are neighbours there; any if they are equal, else −1."""
    found = -1
    for dim in range(regions.shape[1]):
        if regions[one, dim, 0] == regions[other, dim, 0] and regions[one, dim, 1] == regions[other, dim, 1]:
            continue
        touch = (
            np.int64(regions[one, dim, 1]) + 1 == regions[other, dim, 0]
            or np.int64(regions[other, dim, 1]) + 1 == regions[one, dim, 0]
        )
        if found >= 0 or not touch:
            return -1
        found = dim
    return max(found, 0)


@lean
def _lower_root(nodes: Nodes, growth: Growth) -> None:
    """A root with one page gives way to it."""
    root = nodes.numbers[ROOT]
    while nodes.level[root] > 0 and _lanes(nodes, root) == 1:
        for lane in range(FANOUT):
            if nodes.child[root, lane] >= 0:
                nodes.numbers[ROOT] = nodes.child[root, lane]
                clear_lane(nodes, root, lane)
        growth.parent[nodes.numbers[ROOT]] = -1
        root = nodes.numbers[ROOT]
