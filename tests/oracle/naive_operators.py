"""Plans of operators recomputed from their inputs' histories: the one-time relational query over what windows hold.

A history is a list of changes (time, source, sign, row). Nothing is kept from one moment to the next. A tuple is
carried with the place of the change that made it: a join with a non-retroactive table reads the table as it was
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from weir.operators.plans import (
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
    WindowJoin,
)

Row = tuple[int, ...]
Change = tuple[int, int, int, Row]
Placed = list[tuple[Row, int]]


def answer(plan: PlanNode, history: Sequence[Change], now: int) -> Counter[Row] | dict[int, float]:
    """What a plan says at time `now`: a bag of rows, or for a group-by the aggregate of each group."""
    if isinstance(plan, Grouping):
        groups: dict[int, list[int]] = {}
        for row, _ in tuples(plan.input, history, now):
            groups.setdefault(0 if plan.by is None else row[plan.by], []).append(row[plan.attribute])
        how = {"count": len, "sum": sum, "min": min, "max": max, "avg": lambda of: sum(of) / len(of)}[plan.aggregate]
        return {key: how(values) for key, values in groups.items()}
    return Counter(row for row, _ in tuples(plan, history, now))


def tuples(node: PlanNode, history: Sequence[Change], now: int) -> Placed:
    """The tuples of a plan, each with the place in the history that made it, in that order where it matters."""
    if isinstance(node, StreamWindow):
        return [
            (row[: node.arity], place)
            for place, (time, source, _, row) in enumerate(history)
            if source == node.source and now - node.length < time <= now
        ]
    if isinstance(node, (LastRows, LandmarkWindow)):
        came = [(t, row[: node.arity], place) for place, (t, s, _, row) in enumerate(history) if s == node.source]
        kept = came[-node.count :] if isinstance(node, LastRows) else [c for c in came if c[0] > node.begin]
        return [(row, place) for _, row, place in kept]
    if isinstance(node, Filtered):
        below = tuples(node.input, history, now)
        return [(r, p) for r, p in below if (node.lo <= r[node.attribute] <= node.hi) == node.is_inside]
    if isinstance(node, Projected):
        return [(tuple(r[a] for a in node.attributes), p) for r, p in tuples(node.input, history, now)]
    if isinstance(node, DuplicateElimination):
        return list(dict(tuples(node.input, history, now)).items())
    assert not isinstance(node, Grouping), "a group-by is on top"
    left = tuples(node.left, history, now)
    if isinstance(node, TableJoin):
        return [
            (r + s, p)
            for r, p in left
            for s in table(node, history, len(history) if node.is_retroactive else p)
            if r[node.left_on] == s[node.right_on]
        ]
    right = tuples(node.right, history, now)
    if isinstance(node, MergeUnion):
        return left + right
    if isinstance(node, WindowJoin):
        return [(r + s, max(p, q)) for r, p in left for s, q in right if r[node.left_on] == s[node.right_on]]
    if isinstance(node, Intersection):
        return [(r, max(p, q)) for r, p in left for s, q in right if r == s]
    assert isinstance(node, Negation)
    minus = Counter(s[node.right_on] for s, _ in right)
    shown = []
    for value in {r[node.left_on] for r, _ in left}:
        mine = sorted((p, r) for r, p in left if r[node.left_on] == value)
        shown += [(r, p) for p, r in mine[minus[value] :]]  # those taken away are the oldest
    return shown


def table(node: TableJoin, history: Sequence[Change], place: int) -> list[Row]:
    """The rows of a table before a place of the history."""
    held: Counter[Row] = Counter()
    for _, source, sign, row in history[:place]:
        if source == node.right.source:
            held[row[: node.right.arity]] += sign
    return list(held.elements())
