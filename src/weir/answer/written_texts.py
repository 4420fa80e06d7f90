"""Queries as their users wrote them, with the values of parameters in their places: whole columns at once.

A text is kept once for all queries that were registered with it, and parameters are constants of the registry by then.
So a column of texts is the pieces between parameters, joined with columns of constants as SQL. Values look like
literals of the type that the query has for them: 5 for a price is 5E0, and 600 behind `NOW -` is INTERVAL '10' MINUTE.

Cost: some 0.1 µs for each piece of each text; texts of many queries are made in stretches of `STRETCH_BYTES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import DataType, Kind
from weir.answer.literal_texts import UNITS, literal_text
from weir.plan.registration import constant_value
from weir.store.query_groups import Slot, Written

STRETCH_BYTES = 1 << 26
ITEMS_MAX = 100  # of a list that are shown
_SLOT = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|:c(\d+)\b")  # or something quoted, which is left alone


def of_shape(text: str) -> Written:
    """A shape's text as a text with parameters, for queries of which nobody knows how they were written."""
    found = [one for one in _SLOT.finditer(text) if one[1] is not None]
    return Written(text, tuple(Slot(one.start(), one.end(), int(one[1]), 1_000_000, False) for one in found))


def texts(written: Written, types: Sequence[DataType], constants: pa.Table) -> Iterator[pa.Array]:
    """The text of each row of constants."""
    per_row = len(written.sql.encode()) + constants.nbytes // max(1, constants.num_rows)
    step = max(1, STRETCH_BYTES // (per_row + 1))
    for first in range(0, constants.num_rows, step):
        yield _texts(written, types, constants.slice(first, step))


def _texts(written: Written, types: Sequence[DataType], constants: pa.Table) -> pa.Array:
    pieces: list[pa.Array | str] = []
    end = 0
    for slot in written.slots:
        values = constants.column(f"c{slot.constant}").combine_chunks()
        pieces += [written.sql[end : slot.start], _literals(values, types[slot.constant], slot)]
        end = slot.end
    if not pieces:
        return pa.array([written.sql]).take(pa.array(np.zeros(constants.num_rows, np.int64)))
    return pc.binary_join_element_wise(*pieces, written.sql[end:], "")


def _literals(values: pa.Array, type: DataType, slot: Slot) -> pa.Array:
    """Constants as SQL."""
    if type.kind is Kind.INTERVAL:
        shown = _lengths(values, slot)
    elif type.kind in _TEXTS:
        shown = _TEXTS[type.kind](values)
    elif type.kind is Kind.LIST:
        shown = pa.array([_items(value, type) for value in values], pa.string())
    else:
        shown = pa.array([literal_text(constant_value(value, type), type) for value in values], pa.string())
    return shown.fill_null("NULL")


def _items(values: pa.Scalar, type: DataType) -> str | None:
    """A list as it stands in the brackets of IN: the first values of a long one."""
    if not values.is_valid:
        return None
    some = values.values[:ITEMS_MAX]
    if type.item.kind in _TEXTS:
        shown = _TEXTS[type.item.kind](some).fill_null("NULL").to_pylist()
    else:
        shown = [literal_text(constant_value(value, type.item), type.item) for value in some]
    more = len(values.values) - len(shown)
    return ", ".join(shown) + (f", /* {more:,} more */" if more else "")


def _strings(values: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), "'", "\\'")
    return pc.binary_join_element_wise("'", escaped, "'", "")


def _doubles(values: pa.Array) -> pa.Array:
    plain = values.cast(pa.string())
    is_plain = pc.invert(pc.match_substring_regex(plain, "[en]"))  # 1e+20, nan and inf are doubles as they stand
    return pc.if_else(is_plain, pc.binary_join_element_wise(plain, "E0", ""), plain)


def _instants(values: pa.Array) -> pa.Array:
    shown = pc.replace_substring_regex(values.cast(pa.timestamp("us")).cast(pa.string()), r"\.000000$", "")
    return pc.binary_join_element_wise("TIMESTAMP '", shown, "'", "")


def _dates(values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("DATE '", values.cast(pa.string()), "'", "")


def _lengths(values: pa.Array, slot: Slot) -> pa.Array:
    """Lengths of time: the number alone where the text has the unit, else whole units of the largest that fits."""
    if slot.has_unit:
        whole = pc.equal(pc.subtract(values, pc.multiply(pc.divide(values, slot.unit_us), slot.unit_us)), 0)
        counts = pc.divide(values, slot.unit_us).cast(pa.string())
        return pc.if_else(
            whole, counts, pc.divide(values.cast(pa.float64(), safe=False), float(slot.unit_us)).cast(pa.string())
        )
    lengths = values if slot.unit_us > 0 else pc.negate(values)
    shown = _counted(lengths, "MICROSECOND", 1)
    for name, size in reversed(UNITS):
        fits = pc.equal(pc.subtract(lengths, pc.multiply(pc.divide(lengths, size), size)), 0)
        shown = pc.if_else(pc.and_(fits, pc.not_equal(lengths, 0)), _counted(lengths, name, size), shown)
    return shown


def _counted(lengths: pa.Array, unit: str, size: int) -> pa.Array:
    return pc.binary_join_element_wise("INTERVAL '", pc.divide(lengths, size).cast(pa.string()), f"' {unit}", "")


_TEXTS: dict[Kind, Callable[[pa.Array], pa.Array]] = {
    Kind.BOOLEAN: lambda values: pc.utf8_upper(values.cast(pa.string())),
    Kind.INT: lambda values: values.cast(pa.string()),
    Kind.BIGINT: lambda values: values.cast(pa.string()),
    Kind.NULL: lambda values: values.cast(pa.string()),
    Kind.DOUBLE: _doubles,
    Kind.STRING: _strings,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _instants,
}
