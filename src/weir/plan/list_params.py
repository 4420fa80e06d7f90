"""List parameters: a column of lists as the shape wants it, `x IN (:names)`.

Items are converted as single parameters are, but for numbers that are none of the wanted type (5.5 beside whole
numbers): they equal nothing and are left out. Cost: a few passes of Arrow over all items.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import number_of
from weir.algebra.nodes import Param
from weir.algebra.schema import DataType, Kind
from weir.errors import RegisterError
from weir.settings import Settings
from weir.store.row_files import arrow_type

Convert = Callable[[pa.ChunkedArray, Param, DataType], pa.ChunkedArray]
_NUMBERS = (Kind.BIGINT, Kind.DECIMAL)


def converted_lists(given: pa.ChunkedArray, slot: Param, convert: Convert) -> pa.Array:
    """The lists with items of the slot's type; none of them may be NULL or empty."""
    wanted = slot.type.item
    lists = given.combine_chunks()
    sizes = lists.value_lengths()
    for is_wrong, what in ((lists.is_null(), "NULL"), (pc.equal(sizes, 0), "an empty list")):
        if pc.any(is_wrong).as_py():
            row = pc.index(is_wrong, True).as_py()
            raise RegisterError(
                f"parameter ':{slot.name}' of query {row} (counted from 0) is {what}",
                hint="a list holds one value or more",
            )
    items = lists.flatten()
    numbers = sizes.to_numpy(zero_copy_only=False).astype(np.int64)
    known = items.is_valid()
    if wanted.kind in _NUMBERS and not items.type.equals(arrow_type(wanted)) and is_number(items.type):
        items, kept = _whole(items, wanted)
        kept = pc.or_(kept, pc.invert(known)).to_numpy(zero_copy_only=False)
        owner = np.repeat(np.arange(len(numbers)), numbers)
        numbers = np.bincount(owner[kept], minlength=len(numbers))
        items = items.filter(pa.array(kept))
    else:
        items = convert(pa.chunked_array([items]), slot, wanted).combine_chunks()
    offsets = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def _whole(items: pa.Array, wanted: DataType) -> tuple[pa.Array, pa.Array]:
    """Numbers in the wanted type, and which of them are exactly that; the others are NULL."""
    to = arrow_type(wanted)
    try:
        exact = items.cast(to)
        return exact, exact.is_valid()
    except pa.ArrowInvalid:
        found = [_exact(item, wanted, to) for item in items]
        exact = pa.array(found, to)
        return exact, exact.is_valid()


def _exact(item: pa.Scalar, wanted: DataType, to: pa.DataType) -> object:
    value = item.as_py()
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    scaled = Fraction(value) * 10**wanted.scale if wanted.kind is Kind.DECIMAL else Fraction(value)
    limit = 10**wanted.precision if wanted.kind is Kind.DECIMAL else 2**63
    if scaled.denominator != 1 or abs(scaled) >= limit:
        return None
    return number_of(int(scaled), wanted.scale) if wanted.kind is Kind.DECIMAL else int(scaled)


def check_sizes(lists: pa.Array, settings: Settings) -> None:
    """Refuse lists that are too long."""
    longest = pc.max(pc.list_value_length(lists)).as_py() or 0
    if longest > settings.set_items_max:
        raise RegisterError(
            f"a list behind IN has {longest:,} values, at most {settings.set_items_max:,} are taken",
            hint="register it as several queries, or raise the setting set_items_max",
        )
