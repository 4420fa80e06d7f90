"""Keys of values: numbers by themselves; texts, and decimals of more than 18 digits, by the constants that they meet.

An attribute has a dictionary if `has_dictionary` says so and something is compared with it. A sum, difference or
product of two decimals that are keys by themselves is one too as long as it has at most 19 digits, because then it has
not left 64 bits: `a.x - b.x` of decimal(18,2) stays the attribute of a band join.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weir.algebra.decimals import KEY_DIGITS_MAX, is_wide
from weir.algebra.nodes import Arithmetic, Expression, Negate
from weir.algebra.schema import DataType, Kind
from weir.boxes.bounds import Ints
from weir.index.digits import texts_of
from weir.index.keys import encode_column
from weir.index.strings import StringDictionary, find

_NO_STRINGS = StringDictionary(np.zeros(1, np.int64), np.empty(0, np.uint8))


def has_dictionary(e: Expression) -> bool:
    """Whether the keys of an attribute that is compared with constants come from a dictionary of them."""
    return e.type.kind is Kind.STRING or (is_wide(e.type) and not fits_key(e))


def fits_key(e: Expression) -> bool:
    """Whether the values of a number are whole units within 64 bits."""
    if isinstance(e, Negate):
        return fits_key(e.arg)
    if e.type.kind is not Kind.DECIMAL or not is_wide(e.type):
        return e.type.kind is not Kind.DOUBLE
    if not isinstance(e, Arithmetic) or e.op not in ("+", "-", "*") or e.type.precision > KEY_DIGITS_MAX + 1:
        return False
    return not is_wide(e.left.type) and not is_wide(e.right.type)


def keys_of_values(values: pa.Array | pa.ChunkedArray, type_: DataType, dictionary: StringDictionary | None) -> Ints:
    """The key of each value; a text that is compared with nothing, as in IS NOT NULL, needs no dictionary."""
    if is_wide(type_) and dictionary is not None:
        return find(dictionary, texts_of(values, type_))
    if type_.kind is not Kind.STRING:
        return encode_column(values, type_)
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return find(_NO_STRINGS if dictionary is None else dictionary, values)
