"""Guards: they watch differences that say what was asked only while the rows' numbers are not too large.

Comparisons of bigints or doubles of two sources are found through the difference of the columns
(`weir.boxes.two_sources`). That is right for rows with numbers up to a *reach*, which each query has. When a slice or
the rows that it meets go beyond the reach of a query, the query is given up as if it had too many results: it is
demoted, and recomputed when it is asked for.

A guard belongs to a query, not to its boxes: a condition that contradicts itself for numbers
(`x >= y + 5 AND x <= y + 1`) has no box, but is true where x and y are both NaN.

NaN and infinities are beyond every reach. With one bound, SQL may find such a row together with every other row. With
two bounds, a number is never *between* bounds that are NaN or infinite, nor NaN or an infinity between numbers; so
queries with two bounds are given up only if both sources have such rows.

Cost: the least and the greatest number of two columns, for each slice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weir.algebra.nodes import ColumnRef, Expression, walk
from weir.algebra.schema import DataType, Kind
from weir.boxes.bounds import Bools, Doubles, Ints
from weir.index.bands.runs import bits_of_keys
from weir.index.boxes import Uint8s
from weir.index.keys import NULL_KEY, encode_doubles
from weir.values.codec import from_json, to_json

BEYOND = 1 << 31  # the count of a query that was given up: more than any budget
_LARGEST = float(np.finfo(np.float64).max)
_LEAST_KEY, _LARGEST_KEY = (int(key) for key in encode_doubles(np.array([-_LARGEST, _LARGEST])))

KeysOf = Callable[[int, ColumnRef], Ints]  # the keys that rows of a source have in a column (whose source is 0)


class Guard(NamedTuple):
    """The guard of one difference."""

    reach: Doubles  # float64[n_slots]: the difference is right for numbers up to this; inf: the slot does not use it
    is_between: Bools  # bool[n_slots]: whether the slot bounds it on both sides

    @classmethod
    def open(cls, slots_count: int) -> Guard:
        """The guard of a difference that no slot uses."""
        return cls(np.full(slots_count, np.inf), np.ones(slots_count, bool))

    def narrow(self, slots: Ints, reach: Doubles, is_between: bool) -> None:
        self.reach[slots] = np.minimum(self.reach[slots], reach)
        self.is_between[slots] &= is_between


Guards = Sequence[tuple[Expression, Guard]]  # differences, with sources, and their guards


class Extent(NamedTuple):
    """How large the numbers of a column are."""

    size: float  # the largest, whatever its sign
    has_odd: bool  # whether there is also a NaN or an infinity


def given_up(guards: Guards, keys_of: KeysOf, muted: Uint8s) -> npt.NDArray[np.int64] | None:
    """The count of each slot if some of them are given up for these rows; None if none is."""
    over = np.zeros(len(muted), bool)
    for of, guard in guards:
        is_used = (guard.reach < np.inf) & (muted == 0)
        if not is_used.any():
            continue
        columns = [c for c in walk(of) if isinstance(c, ColumnRef)]
        one, other = (extent(keys_of(c.source, replace(c, source=0)), c.type) for c in columns)
        over |= is_used & (guard.reach < max(one.size, other.size))
        if one.has_odd or other.has_odd:
            over |= is_used if one.has_odd and other.has_odd else is_used & ~guard.is_between
    return np.where(over, BEYOND, 0) if over.any() else None


def extent(keys: Ints, type_: DataType) -> Extent:
    """The extent of a column, from its keys; NULL is left out."""
    is_double = type_.kind is Kind.DOUBLE
    least, largest = (_LEAST_KEY, _LARGEST_KEY) if is_double else (NULL_KEY + 1, int(np.iinfo(np.int64).max))
    has_odd = False
    if len(keys) and (keys.min() < least or keys.max() > largest):
        keys = keys[keys != NULL_KEY]
        ordinary = keys[(keys >= least) & (keys <= largest)]
        has_odd, keys = len(ordinary) < len(keys), ordinary
    if not len(keys):
        return Extent(0.0, has_odd)
    ends = np.array([keys.min(), keys.max()])
    if is_double:
        ends = bits_of_keys(ends).view(np.float64)
    unit = 10.0**type_.scale if type_.kind is Kind.DECIMAL else 1.0
    return Extent(float(np.abs(ends.astype(np.float64)).max()) / unit, has_odd)


def guards_as_arrays(guards: Guards) -> dict[str, np.ndarray]:
    """The arrays of guards for a segment's file; `guards_as_json` has their differences."""
    return {f"guard.{k}.{name}": a for k, (_, guard) in enumerate(guards) for name, a in guard._asdict().items()}


def guards_as_json(guards: Guards) -> list[dict[str, Any]]:
    return [to_json(of) for of, _ in guards]


def guards_of_arrays(arrays: Mapping[str, np.ndarray], written: Sequence[dict[str, Any]]) -> Guards:
    return [
        (from_json(of), Guard(*(arrays[f"guard.{k}.{name}"] for name in Guard._fields))) for k, of in enumerate(written)
    ]
