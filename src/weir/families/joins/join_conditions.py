"""Conditions over both sides of a join that no index holds: evaluated for the pairs that all else lets through.

A condition constrains an attribute of pairs, an expression over columns of both sides (`r.a * s.b`, `r.x < s.y`), to an
interval of keys, as boxes do with attributes of rows. Candidates are pairs of rows with the box that they passed so
far; each attribute is evaluated once for all candidates whose box asks for it, and what is compared with it is the
box's own interval. Evaluation is `weir.values.evaluate`, the one that recomputes answers.

Cost: some ten nanoseconds a candidate and attribute, in NumPy and Arrow; memory follows the candidates, so callers
bring them in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression, walk
from weir.algebra.rebuild import rebuild
from weir.boxes.bounds import Bools, Ints
from weir.boxes.value_keys import keys_of_values
from weir.index.box_tables import Int32s
from weir.index.keys import NULL_KEY
from weir.index.meeting.checks import Remaining
from weir.index.strings import StringDictionary
from weir.values.evaluate import evaluate
from weir.values.room import stretches


def columns_of(attributes: Iterable[Expression], side: int) -> list[ColumnRef]:
    """The columns of one side that attributes of pairs are made of, as columns of that side's stream."""
    found = {c.name: c for e in attributes for c in walk(e) if isinstance(c, ColumnRef) and c.source == side}
    return [replace(c, source=0) for c in found.values()]


def satisfied(
    conditions: Remaining,
    attributes: Sequence[Expression],
    dictionaries: Mapping[int, StringDictionary],
    sides: tuple[pa.Table, pa.Table],
    places: tuple[Ints, Ints],
    boxes: Int32s,
) -> Bools:
    """Which candidates satisfy all conditions of their boxes.

    `sides` are tables with the columns of each side, `places` the rows of each candidate in them.
    """
    holds = np.ones(len(boxes), bool)
    counts = conditions.offsets[boxes + 1] - conditions.offsets[boxes]
    candidate = np.repeat(np.arange(len(boxes)), counts)
    first = np.cumsum(counts) - counts
    at = np.repeat(conditions.offsets[boxes] - first, counts) + np.arange(len(candidate))
    attribute = conditions.attribute[at]
    for number in np.unique(attribute).tolist():
        asking = np.flatnonzero(attribute == number)
        asking = asking[holds[candidate[asking]]]
        these, bound = candidate[asking], at[asking]
        keys = _keys(attributes[number], dictionaries.get(number), sides, (places[0][these], places[1][these]))
        true = (keys != NULL_KEY) & (conditions.lo[bound] <= keys) & (keys <= conditions.hi[bound])
        holds[these[~true]] = False
    return holds


def _keys(
    e: Expression, dictionary: StringDictionary | None, sides: tuple[pa.Table, pa.Table], places: tuple[Ints, Ints]
) -> Ints:
    """The key of an attribute for every pair of rows."""
    names = [[c.name for c in columns_of([e], side)] for side in (0, 1)]
    tables = [
        of.select(wanted).rename_columns([spelled_name(side, n) for n in wanted])
        for side, (of, wanted) in enumerate(zip(sides, names, strict=True))
    ]
    keys = [np.empty(0, np.int64)]
    for part in stretches(tables, places):
        taken = [one.take(pa.array(at[part])) for one, at in zip(tables, places, strict=True)]
        rows = pa.table({name: one.column(name) for one in taken for name in one.column_names})
        keys.append(keys_of_values(evaluate(spelled(e), rows), e.type, dictionary))
    return np.concatenate(keys)


def spelled(e: Expression) -> Expression:
    """The expression over the columns of a table of pairs."""

    def spell(part: Expression) -> Expression:
        return replace(part, name=spelled_name(part.source, part.name)) if isinstance(part, ColumnRef) else part

    return rebuild(e, spell)


def spelled_name(side: int, name: str) -> str:
    return f"{side}.{name}"
