"""Limits that no query of a segment of joins of many streams goes beyond; they are used while rows are joined.

They are supersets, taken from the boxes of all queries and from their windows. The index decides whether a combination
of rows is a result (`many_segments`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir.algebra.nodes import Arithmetic, ColumnRef, Expression
from weir.boxes.attributes import sources_of
from weir.boxes.bounds import Ints
from weir.index.boxes import BoxTable
from weir.index.keys import KEY_MAX, KEY_MIN
from weir.values.codec import canonical

UNBOUNDED_US = 1 << 62  # a distance in time that no two rows have


class Wanted(NamedTuple):
    """Keys of one attribute that at least one query takes: disjoint intervals, ascending."""

    attribute: int
    lo: Ints
    hi: Ints


class Limits(NamedTuple):
    """What no query of a segment goes beyond."""

    apart: Mapping[tuple[int, int], tuple[int, int]]  # by (side, greater side): bounds of the first time − the second
    bands: Sequence[tuple[int, int]]  # by band of the family: bounds of the difference, as keys
    wanted: Sequence[Sequence[Wanted]]  # by side: for the attributes that every box constrains


def limits_of(
    table: BoxTable,
    expressions: Sequence[Expression],
    bands: Sequence[Expression],
    windows: Mapping[tuple[int, int], tuple[int, int]],
    times: Sequence[str],
) -> Limits:
    """The limits of some boxes over attributes `expressions`.

    `windows` holds the bounds that windows set on the distance in time of two sides, `times` each side's time column.
    """
    ends = _Ends(table.constraint_attribute, table.constraint_lo, table.constraint_hi, len(table.slot_of_box))
    return Limits(
        _apart(windows, expressions, ends, times),
        [_band(e, expressions, ends) for e in bands],
        [_wanted(side, expressions, ends) for side in range(len(times))],
    )


@dataclass(frozen=True)
class _Ends:
    """The constraints of all boxes of a segment."""

    attribute: np.ndarray
    lo: Ints
    hi: Ints
    boxes_count: int

    def of(self, number: int) -> tuple[Ints, Ints] | None:
        """The ends of an attribute's intervals, if every box constrains it."""
        mine = self.attribute == number
        if not self.boxes_count or np.count_nonzero(mine) < self.boxes_count:
            return None
        return self.lo[mine], self.hi[mine]

    def widest(self, number: int) -> tuple[int, int]:
        ends = self.of(number)
        return (KEY_MIN, KEY_MAX) if ends is None else (int(ends[0].min()), int(ends[1].max()))


def _apart(
    windows: Mapping[tuple[int, int], tuple[int, int]],
    expressions: Sequence[Expression],
    ends: _Ends,
    times: Sequence[str],
) -> dict[tuple[int, int], tuple[int, int]]:
    """For two sides, how far apart in time the widest query lets their rows be, by windows and by conditions."""
    found = {}
    for pair, (lo, hi) in windows.items():
        lo, hi = max(lo, -UNBOUNDED_US), min(hi, UNBOUNDED_US)
        for number, e in enumerate(expressions):
            form = _time_form(e, pair, times)
            if form:
                least, most = ends.widest(number)
                lo, hi = (max(lo, least), min(hi, most)) if form > 0 else (max(lo, -most), min(hi, -least))
        if lo > -UNBOUNDED_US or hi < UNBOUNDED_US:
            found[pair] = lo, hi
    return found


def _time_form(e: Expression, pair: tuple[int, int], times: Sequence[str]) -> int:
    """1 if the attribute is the first side's time minus the second's, −1 the other way round, else 0."""
    if not (isinstance(e, Arithmetic) and e.op == "-"):
        return 0
    for sign, (one, other) in ((1, pair), (-1, pair[::-1])):
        if all(
            isinstance(part, ColumnRef) and (part.source, part.name) == (side, times[side])
            for part, side in ((e.left, one), (e.right, other))
        ):
            return sign
    return 0


def _band(e: Expression, expressions: Sequence[Expression], ends: _Ends) -> tuple[int, int]:
    """The widest bounds that the queries set on a difference."""
    text = canonical(e)
    for number, other in enumerate(expressions):
        if canonical(other) == text:
            return ends.widest(number)
    return KEY_MIN, KEY_MAX


def _wanted(side: int, expressions: Sequence[Expression], ends: _Ends) -> list[Wanted]:
    """For each attribute of a side that every box constrains: the keys that at least one box takes."""
    found = []
    for number, e in enumerate(expressions):
        of = ends.of(number) if sources_of(e) == {side} else None
        if of is None:
            continue
        order = np.argsort(of[0], kind="stable")
        lo, hi = of[0][order], np.maximum.accumulate(of[1][order])
        begins = np.ones(len(lo), bool)
        begins[1:] = lo[1:] > hi[:-1]
        starts = np.flatnonzero(begins)
        last = np.append(starts[1:], len(lo)) - 1
        found.append(Wanted(number, lo[starts], hi[last]))
    return found
