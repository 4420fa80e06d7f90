"""The plain twin of join answers: every pair of rows is looked at, and nothing is clever.

Rows are dictionaries with their id, their time in seconds and the batch they came in. A condition is a Python function
of two rows, in the order of the query's sources. Nothing of `weir` is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]  # beside the columns: `id` (its row id), `s` (its time in seconds), `batch`
Condition = Callable[[Row, Row], bool]


class Seen(NamedTuple):
    """A window at a moment: begin < t <= end, and of these the last so many by (time, row id)."""

    begin_s: float = -math.inf
    end_s: float = math.inf
    last: int | None = None

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        inside = [r for r in rows if self.begin_s < r["s"] <= self.end_s]
        if self.last is None:
            return inside
        return sorted(inside, key=lambda r: (r["s"], r["id"]))[len(inside) - min(self.last, len(inside)) :]


class Found(NamedTuple):
    """A pair that a batch brought, as its job finds it: by the row of the side that came last."""

    side: int
    event: int
    partner: int


def equal(a: Any, b: Any) -> bool:
    """SQL's equality, as far as it is true: NULL equals nothing, NaN equals NaN."""
    if a is None or b is None:
        return False
    nan = [isinstance(x, float) and math.isnan(x) for x in (a, b)]
    return bool(all(nan) or (not any(nan) and a == b))


def below(a: Any, b: Any) -> bool:
    """SQL's order, as far as it is true: NaN is above every number."""
    if a is None or b is None:
        return False
    nan = [isinstance(x, float) and math.isnan(x) for x in (a, b)]
    return bool((nan[1] and not nan[0]) or (not any(nan) and a < b))


def at_least(a: Any, b: Any) -> bool:
    """`a >= b`, as far as it is true."""
    return a is not None and b is not None and not below(a, b)


def answer(first: Sequence[Row], second: Sequence[Row], windows: Sequence[Seen], condition: Condition) -> set[Any]:
    """Pairs of row ids, in the order of the query's sources."""
    shown = [window.rows(rows) for window, rows in zip(windows, (first, second), strict=True)]
    return {(a["id"], b["id"]) for a in shown[0] for b in shown[1] if condition(a, b)}


def found_in(batch: int, first: Sequence[Row], second: Sequence[Row], condition: Condition) -> list[Found]:
    """The pairs of one batch: `first` are the rows of side 0, `second` those of side 1.

    New rows of side 0 meet old ones of side 1; new rows of side 1 meet old and new ones of side 0.
    """
    found = []
    for a in first:
        for b in second:
            if a["batch"] > batch or b["batch"] > batch or not condition(a, b):
                continue
            if b["batch"] == batch:
                found.append(Found(1, b["id"], a["id"]))
            elif a["batch"] == batch:
                found.append(Found(0, a["id"], b["id"]))
    return found
