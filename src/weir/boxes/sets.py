"""Boxes of lists: `x IN (…)` is a box for each item, `x NOT IN (…)` one for each gap between items.

A list is a constraint with many keys for each row of constants. `one_by_one` makes of every row as many rows as the
list has keys (or gaps), each with the other constraints of its row, so that nothing else needs to know of lists. All
boxes are in the index that equalities are in: an event costs a look-up, however long the lists are.

Cost: a few NumPy passes over all items; sorting for NOT IN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weir.boxes.bounds import BELOW_ALL, Doubles, Intervals, Ints
from weir.errors import RegisterError
from weir.index.keys import KEY_MAX, KEY_MIN

TOGETHER_MAX = 1_000_000  # boxes that the lists of one query may make of each other


@dataclass(frozen=True, slots=True)
class Constraint:
    """An attribute and keys for it, for `rows` of the constants (None: all of them).

    Keys are `intervals`, or come from comparing with `strings`; with op <> and `not in` they are the excluded ones.
    Arrays are as long as the rows, or of length 1 and the same for all; with `counts` each row has so many of them.
    """

    rows: Ints | None
    attribute: int | Ints
    op: str
    intervals: Intervals | None
    strings: pa.Array | None = None
    counts: Ints | None = None  # of `in` and `not in`: how many keys each row has
    reach: Doubles | None = None  # the constraint is right only for rows with numbers up to this; None: for all rows


def check_together(counts: Sequence[Ints]) -> None:
    """Refuse several lists that must hold at once and are long: they are multiplied."""
    if len(counts) < 2:
        return
    boxes = np.prod(np.array(counts, np.float64), axis=0)
    if len(boxes) and boxes.max() > TOGETHER_MAX:
        raise RegisterError(
            f"the lists of one query make {int(boxes.max()):,} combinations, at most {TOGETHER_MAX:,} are allowed",
            hint="register it as several queries, or keep one of the lists short",
        )


def one_by_one(count: int, one: Constraint, others: Sequence[Constraint]) -> tuple[Ints, Constraint, list[Constraint]]:
    """Rows with a single key of a list each: the row that each of them comes from, and the constraints over them."""
    assert one.counts is not None
    assert one.intervals is not None
    counts, intervals = one.counts, one.intervals
    if one.op == "not in":
        counts, intervals = _gaps(counts, intervals)
    owner = np.repeat(np.arange(count), counts)
    single = replace(one, op="=", intervals=intervals, counts=None)
    return owner, single, [_over(c, count, owner) for c in others]


def _over(c: Constraint, count: int, owner: Ints) -> Constraint:
    """A constraint over rows that come from rows that it is over."""
    assert c.intervals is not None
    if c.counts is not None:
        starts = np.cumsum(c.counts) - c.counts
        counts = c.counts[owner]
        at = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(starts[owner], counts)
        return replace(c, counts=counts, intervals=Intervals(c.intervals.lo[at], c.intervals.hi[at]))
    if c.rows is None:
        rows, at, given = None, owner, count
    else:
        place = np.full(count, -1)
        place[c.rows] = np.arange(len(c.rows))
        rows = np.flatnonzero(place[owner] >= 0)
        at, given = place[owner[rows]], len(c.rows)

    def taken(values: Ints) -> Ints:
        return values[at] if len(values) == given else values

    attribute = c.attribute if isinstance(c.attribute, int) else taken(c.attribute)
    return replace(c, rows=rows, attribute=attribute, intervals=Intervals(taken(c.intervals.lo), taken(c.intervals.hi)))


def _gaps(counts: Ints, keys: Intervals) -> tuple[Ints, Intervals]:
    """What the keys of each row leave: one interval more than keys, some of them empty."""
    owner = np.repeat(np.arange(len(counts)), counts)
    exact = keys.lo <= keys.hi  # an item that no value equals excludes nothing
    owner, key = owner[exact], keys.lo[exact]
    order = np.lexsort((key, owner))
    owner, key = owner[order], key[order]
    counts = np.bincount(owner, minlength=len(counts))
    size = len(key) + len(counts)
    lo, hi = np.full(size, KEY_MIN), np.full(size, KEY_MAX)
    before = np.arange(len(key)) + owner  # the gap below each key
    hi[before] = key - 1
    last = key == KEY_MAX
    lo[before + 1] = np.where(last, KEY_MAX, key + ~last)
    hi[before[last] + 1] = BELOW_ALL
    return counts + 1, Intervals(lo, hi)
