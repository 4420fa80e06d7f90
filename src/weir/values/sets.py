"""IN of a list: `contains`, by hash look-ups.

SQL's three values: NULL among the items makes what is not found NULL, and so is every answer of a NULL. Doubles are
equal as elsewhere: −0.0 = 0.0, NaN = NaN. An empty list holds nothing, and NULL is not known to be outside of it.

Cost: items + rows for one list; where every row has a list of its own, all items of all lists.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import DIGITS_MAX, is_wide
from weir.algebra.schema import BOOLEAN, Kind, decimal
from weir.values.columns import Bools, Ints, Operand, column_operand, to_arrow, without
from weir.values.comparisons import compare


def contains(arg: Operand, lists: Operand) -> Operand:
    """For every row whether `arg` is in its list; one list or one value serves all rows."""
    if arg.kind is Kind.NULL:
        return Operand(np.zeros(len(arg.values), bool), np.zeros(len(arg.values), bool), BOOLEAN, arg.constant)
    if len(lists.values) != 1:
        return _each(arg, lists)
    items: pa.Array = lists.values.flatten()
    known = column_operand(items.drop_null(), lists.type.item)
    wide = is_wide(arg.type) or is_wide(known.type)
    found: Bools = pc.is_in(_hashable(arg, wide), value_set=_hashable(known, wide)).to_numpy(zero_copy_only=False)
    if arg.valid is not None:
        found = found & arg.valid
    unknown = ~found if items.null_count else np.zeros(1, bool)
    return Operand(found, without(arg.valid, unknown), BOOLEAN, arg.constant and lists.constant)


def _hashable(operand: Operand, wide: bool) -> pa.Array:
    """Values that are equal exactly if they are the same; decimals of one scale, which `wide` may have many digits."""
    if wide:
        number = Operand(operand.values, operand.valid, decimal(DIGITS_MAX, operand.type.scale), False)
        return to_arrow(number, len(operand.values))
    if operand.kind is Kind.STRING:
        return operand.values
    if operand.kind is Kind.DOUBLE:
        normal = np.where(np.isnan(operand.values), np.nan, operand.values + 0.0)
        return pa.array(normal.view(np.int64))
    return pa.array(np.ascontiguousarray(operand.values))


def _each(arg: Operand, lists: Operand) -> Operand:
    """Every row against a list of its own."""
    count = len(lists.values)
    sizes: Ints = lists.values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    owner = np.repeat(np.arange(count), sizes)
    items = column_operand(lists.values.flatten(), lists.type.item)
    single = len(arg.values) == 1
    at = np.zeros(len(owner), np.int64) if single else owner
    values = arg.values.take(pa.array(at)) if arg.kind is Kind.STRING else arg.values[at]
    equal = compare("=", Operand(values, None if arg.valid is None else arg.valid[at], arg.type, False), items)
    true = equal.values if equal.valid is None else equal.values & equal.valid
    found = np.bincount(owner[true], minlength=count) > 0
    unknown = np.zeros(count, bool) if equal.valid is None else np.bincount(owner[~equal.valid], minlength=count) > 0
    if arg.valid is not None:
        unknown = unknown | np.broadcast_to(~arg.valid, count)
    return Operand(found, without(None, unknown & ~found), BOOLEAN, arg.constant and lists.constant)
