"""Decimals of Arrow as whole numbers of 64 bits, where they are small enough: what groups calculate for all at once.

An Arrow decimal is two or four words of 64 bits, the lowest first. It fits into one if the others only repeat its sign.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import DataType
from weir.store.row_files import arrow_type

_LEAST = np.iinfo(np.int64).min  # no bigint is this one: it is reserved


def divided_in_longs(values: pa.Array, type_: DataType, unit: int) -> pa.Array | None:
    """Averages from structs of a sum `s` and a count `n`; None if 64 bits do not hold what is calculated.

    A sum of 1 is `unit` in units of the type that the average has.

    Spark rounds a quotient to 39 places first. It cannot become a half by that: what is divided by is a count.
    """
    sums, counts = (pc.struct_field(values, name) for name in ("s", "n"))
    numbers = counts.to_numpy()
    units = long_units(pc.if_else(pc.greater(counts, 0), sums, pa.scalar(0, sums.type)))
    if units is None or type_.scale > 20:
        return None
    size = np.abs(units)
    if int(size.max(initial=0)) > (2**62 - int(numbers.max(initial=0))) // (2 * unit):
        return None
    divisor = np.maximum(numbers, 1)
    found = np.sign(units) * ((2 * unit * size + divisor) // (2 * divisor))
    return decimals_of(found, type_, (numbers == 0) | (np.abs(found) >= 10**type_.precision))


def long_units(values: pa.Array) -> np.ndarray | None:
    """Decimals without NULL as whole numbers of 64 bits; None if one does not fit."""
    if not len(values):
        return np.empty(0, np.int64)
    width = values.type.bit_width // 64
    words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, width)[values.offset : values.offset + len(values)]
    low = words[:, 0]
    fits = (words[:, 1:] == (low >> 63)[:, None]).all() and bool((low != _LEAST).all())
    return np.ascontiguousarray(low) if fits else None


def decimals_of(units: np.ndarray, type_: DataType, null: np.ndarray) -> pa.Array:
    """Whole numbers in units of a decimal's type as its values."""
    words = np.stack([units, units >> 63], axis=1)
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(arrow_type(type_), len(units), [valid, pa.py_buffer(words)])
