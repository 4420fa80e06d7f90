"""Random plans of window operators, and random histories of their streams and tables: few values, so much meets."""

from __future__ import annotations

from collections import Counter

import numpy as np

from weir.operators.layout import AGGREGATES
from weir.operators.plans import (
    WINDOWS,
    DuplicateElimination,
    Filtered,
    Grouping,
    Intersection,
    LandmarkWindow,
    LastRows,
    MergeUnion,
    Negation,
    PlanNode,
    Projected,
    StreamWindow,
    TableJoin,
    TableRows,
    WindowJoin,
    arity_of,
    has_negation,
    nodes_of,
)

STREAMS = (0, 1, 2)
TABLE = 3
ARITY = 2
VALUES = 4
LARGEST = 300.0  # tuples that a result may have: a join of joins of few values would have a million
_STATELESS = (*WINDOWS, Filtered, Projected)


def random_plan(random: np.random.Generator, depth: int, n_streams: int) -> PlanNode:
    """A plan of at most this depth; a quarter have a group-by on top."""
    while True:
        plan = _grown(random, depth, n_streams) if random.random() < 0.6 else _telling(random, depth, n_streams)
        if _size(plan) <= LARGEST and max(map(arity_of, nodes_of(plan))) <= 6:
            break
    if random.random() < 0.25:
        by, attribute = (int(k) for k in random.integers(0, arity_of(plan), 2))
        plan = Grouping(plan, None if random.random() < 0.2 else by, str(random.choice(AGGREGATES)), attribute)
    return plan


def _telling(random: np.random.Generator, depth: int, n_streams: int) -> PlanNode:
    """A plan in which tuples do not expire in order, are shared, or end before their time: chance alone makes few."""
    sides = [_grown(random, max(depth - 2, 0), n_streams) for _ in range(2)]
    kind = random.integers(5)
    if kind == 0:  # the outputs of both are the state of the join, and may change at the same moment
        sides = [DuplicateElimination(Projected(side, (_attribute(random, side),))) for side in sides]
        return WindowJoin(sides[0], sides[1], 0, 0)
    if kind == 1:
        join = WindowJoin(sides[0], sides[1], _attribute(random, sides[0]), _attribute(random, sides[1]))
        return DuplicateElimination(Projected(join, (_attribute(random, join),)))
    kept = [Projected(side, (_attribute(random, side),)) for side in sides]
    if kind == 2:
        return DuplicateElimination(Negation(kept[0], kept[1], 0, 0))
    if kind == 3:
        return Intersection(DuplicateElimination(kept[0]), DuplicateElimination(kept[1]))
    return DuplicateElimination(MergeUnion(kept[0], kept[1]))


def _grown(random: np.random.Generator, depth: int, n_streams: int) -> PlanNode:
    if depth == 0 or random.random() < 0.1:
        return _window(random, int(random.integers(n_streams)))
    kind = random.choice(["filter", "project", "distinct", "union", "join", "intersect", "negate", "table"])
    left = _grown(random, depth - 1, n_streams)
    if kind == "filter":
        lo = int(random.integers(VALUES))
        return Filtered(left, _attribute(random, left), lo, lo + int(random.integers(2)), bool(random.integers(4)))
    if kind == "project":
        kept = random.integers(0, arity_of(left), random.integers(1, 3))
        return Projected(left, tuple(int(k) for k in kept))
    if kind == "distinct":
        return DuplicateElimination(left)
    if kind == "table":
        is_retroactive = bool(random.integers(2))
        # What is negated has no table above it, and what a distinct shows may have come at any time.
        has_distinct = any(isinstance(node, DuplicateElimination) for node in nodes_of(left))
        if has_negation(left) or (has_distinct and not is_retroactive):
            return left
        return TableJoin(
            left, TableRows(TABLE, ARITY), _attribute(random, left), int(random.integers(2)), is_retroactive
        )
    right = _grown(random, int(random.integers(depth)), n_streams)
    if kind == "join":
        return WindowJoin(left, right, _attribute(random, left), _attribute(random, right))
    if kind == "negate":
        if not all(isinstance(node, _STATELESS) for node in nodes_of(left)):
            left = Projected(left, (_attribute(random, left),))  # whichever tuple is shown, it looks the same
        return Negation(left, right, _attribute(random, left), _attribute(random, right))
    arity = min(arity_of(left), arity_of(right))
    left, right = (node if arity_of(node) == arity else Projected(node, tuple(range(arity))) for node in (left, right))
    return MergeUnion(left, right) if kind == "union" else Intersection(left, right)


def _window(random: np.random.Generator, source: int) -> PlanNode:
    """Mostly one that time ends."""
    kind = random.random()
    if kind < 0.15:
        return LastRows(source, int(random.integers(1, 9)), ARITY)
    if kind < 0.25:
        return LandmarkWindow(source, int(random.integers(-20, 40)), ARITY)
    return StreamWindow(source, int(random.integers(1, 14)), ARITY)


def _attribute(random: np.random.Generator, node: PlanNode) -> int:
    return int(random.integers(arity_of(node)))


def _size(node: PlanNode) -> float:
    """About how many tuples a plan shows where each stream has half a tuple a time unit."""
    if isinstance(node, StreamWindow):
        return node.length / 2 + 1
    if isinstance(node, LastRows):
        return node.count
    if isinstance(node, LandmarkWindow):
        return 10.0
    if isinstance(node, (Filtered, Projected, DuplicateElimination, Grouping)):
        return _size(node.input)
    if isinstance(node, TableJoin):
        return 2 * _size(node.left)
    assert not isinstance(node, TableRows)
    sizes = _size(node.left), _size(node.right)
    if isinstance(node, (WindowJoin, Intersection)):
        return max(1.0, sizes[0] * sizes[1] / VALUES)
    return sizes[0] + sizes[1]


def random_changes(random: np.random.Generator, n: int, n_streams: int) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """Changes (time, source, sign, row) in order of time: tuples of streams, rows that a table gets and loses."""
    held: Counter[tuple[int, ...]] = Counter()
    changes = []
    time = int(random.integers(-20, 20))
    for _ in range(n):
        time += int(random.integers(0, 3)) + (int(random.integers(5, 20)) if random.random() < 0.03 else 0)
        row = tuple(int(v) for v in random.integers(0, VALUES, ARITY) - 1)
        source, sign = int(random.integers(n_streams)), 1
        if random.random() < 0.2:
            source = TABLE
            rows = list(held.elements())
            if len(rows) > 3 or (rows and random.random() < 0.4):
                sign, row = -1, rows[random.integers(len(rows))]
            held[row] += sign
        changes.append((time, source, sign, row))
    return changes
