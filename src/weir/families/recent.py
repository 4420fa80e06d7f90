"""Recent rows of a family's streams, as the sample by which its queries are reached.

An index chooses by rows (`weir.index.samples`), and rows have columns: here the attributes of queries are evaluated
over them, as they are over new rows in a match. Rows of several sides are paired at random, because what depends on
each other within a row is what matters; attributes over several sides are not measured.

A sample never makes a build fail. What cannot be evaluated is not measured; if it is the fault of a query, matching
says so. Cost: one evaluation of at most `ATTRIBUTES_MAX` attributes over a few thousand rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from weir.algebra.format import expression_text
from weir.algebra.nodes import ColumnRef, Expression
from weir.boxes.bounds import Ints
from weir.boxes.value_keys import keys_of_values
from weir.index.digests import Reached
from weir.index.keys import NULL_KEY
from weir.index.samples import ROWS_MIN, Sample
from weir.index.strings import StringDictionary
from weir.values.evaluate import evaluate

ATTRIBUTES_MAX = 64  # that are measured: those that most boxes constrain
_SHOWN = 4  # ways to reach queries that are named

Recent = Sequence[pa.Table | None]  # the newest rows of each side; None where there are none


def sample_of(
    recent: Recent | None,
    attributes: Sequence[Expression],
    sides: Sequence[int],
    dictionaries: Mapping[int, StringDictionary],
    weights: Ints,
) -> Sample | None:
    """The keys of recent rows by attribute; None if there are too few rows.

    `attributes` are over a row of their side (source 0), `sides` are −1 for those that are over several; `weights` say
    which attributes matter most.
    """
    rows = _paired(recent or ())
    count = max((len(table) for table in rows if table is not None), default=0)
    if count < ROWS_MIN:
        return None
    keys = np.full((len(attributes), count), NULL_KEY, np.int64)
    measured = np.zeros(len(attributes), np.bool_)
    for number in np.argsort(-weights, kind="stable")[:ATTRIBUTES_MAX].tolist():
        table, e = rows[sides[number]] if sides[number] >= 0 else None, attributes[number]
        if table is None:
            continue
        try:
            values = table.column(e.name) if isinstance(e, ColumnRef) else evaluate(e, table)
            keys[number] = keys_of_values(values, e.type, dictionaries.get(number))
            measured[number] = True
        except Exception:  # see above
            keys[number] = NULL_KEY
    return Sample(keys, measured)


def _paired(recent: Recent) -> list[pa.Table | None]:
    """As many rows of each side, each side in an order that has nothing to do with the others'."""
    count = max((len(table) for table in recent if table is not None), default=0)
    found: list[pa.Table | None] = []
    for side, table in enumerate(recent):
        if table is None or not len(table):
            found.append(None)
        elif len(recent) == 1:
            found.append(table.combine_chunks())
        else:
            at = np.resize(np.random.default_rng(side).permutation(len(table)), count)
            found.append(table.take(at).combine_chunks())
    return found


def no_attributes_text(strategy: str) -> str:
    """The same of an index that has no access attributes."""
    if strategy in ("rtree", "grid-file"):
        return f"all their attributes together ({strategy}): with one or two of them too many candidates would be left"
    return f"none, they are looked at by strategy '{strategy}'"


def reached_text(reached: Reached, attributes: Sequence[Expression], names: Mapping[int, str]) -> str:
    """For `explain`: through which attributes queries are reached, and how that was chosen."""
    total = max(sum(size for _, size in reached.boxes), 1)
    parts = []
    for numbers, size in reached.boxes[:_SHOWN]:
        what = " and ".join(expression_text(attributes[n], names) for n in numbers) or "none, they are scanned"
        parts.append(f"{what} ({size / total:.0%})")
    if len(reached.boxes) > _SHOWN:
        parts.append(f"{len(reached.boxes) - _SHOWN} others")
    how = f"measured over {reached.rows_measured:,} recent rows" if reached.rows_measured else "assumed from constants"
    swept = ""
    if reached.swept is not None:
        number, rows = reached.swept
        by = f"sorted by {expression_text(attributes[number], names)} and swept" if number >= 0 else "swept"
        swept = f"; batches of about {rows:,} rows and more are {by}"
    return f"{', '.join(parts) or 'none'}; {how}{swept}"
