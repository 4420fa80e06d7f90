"""Operands of the vectorised evaluator, and their passage from and to Arrow.

An operand is a pair of NumPy arrays, `values` and `valid`, of one type:

    INT, BIGINT           int64, the number (also of a tinyint or smallint)
    DECIMAL(p, s)         the number times 10^s: int64 where p is at most 18, else Python's whole numbers in an array
                          of objects, some 100 ns an operation (`weir.algebra.decimals` says where the bound is)
    DATE                  int64, days since the epoch
    TIMESTAMP, INTERVAL   int64, microseconds
    DOUBLE                float64 (a float is the double that it is)
    BOOLEAN               bool
    STRING, PAYLOAD       a pa.Array, which carries its own validity
    LIST                  a pa.ListArray: constants behind IN

`valid` is None when no value is NULL. A constant operand has length 1 and broadcasts. What stands in `values`
where `valid` is false means nothing: no operation may fail on it or draw anything from it.
The bigints are −(2^63 − 1) … 2^63 − 1: −2^63 is reserved, so a result that equals it is an overflow.
Reading a numeric column costs nothing beyond widening int32; decimals of at most 18 digits are a strided view of
their low words.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.decimals import is_wide, units_of
from weir.algebra.schema import DataType, Kind
from weir.store.row_files import arrow_type

Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Doubles: TypeAlias = npt.NDArray[np.float64]

DAY_US = 86_400_000_000
EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
EXACT_DOUBLE_MAX = 2**53  # integers up to this one are doubles
IN_ARROW = (Kind.STRING, Kind.PAYLOAD, Kind.LIST)
_RESERVED = int(np.iinfo(np.int64).min)
_WORD = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Operand:
    values: Any  # NumPy array, or pa.Array for STRING, PAYLOAD and LIST
    valid: Bools | None  # None: nothing is NULL
    type: DataType
    constant: bool  # the same for every row; length 1

    @property
    def kind(self) -> Kind:
        return self.type.kind


def both_valid(*operands: Operand) -> Bools | None:
    """Where none of the operands is NULL; None if that is so everywhere."""
    valid: Bools | None = None
    for operand in operands:
        if operand.valid is not None:
            valid = operand.valid if valid is None else valid & operand.valid
    return valid


def without(valid: Bools | None, bad: Bools) -> Bools | None:
    """`valid` without the places where a result does not exist."""
    if not bad.any():
        return valid
    return ~bad if valid is None else valid & ~bad


def null_operand(type_: DataType) -> Operand:
    """A NULL of any type, as a constant."""
    if type_.kind in IN_ARROW:
        return Operand(pa.nulls(1, arrow_type(type_)), np.zeros(1, bool), type_, True)
    return Operand(_zeros(1, type_), np.zeros(1, bool), type_, True)


def constant_operand(value: object, type_: DataType) -> Operand:
    """A constant given as `Literal.value` is."""
    if value is None or type_.kind is Kind.NULL:
        return null_operand(type_)
    if type_.kind is Kind.STRING:
        assert isinstance(value, str), value
        return Operand(pa.array([value], pa.string()), None, type_, True)
    if type_.kind is Kind.LIST:
        assert isinstance(value, tuple), value
        return Operand(list_array(value, type_), None, type_, True)
    number: Any = value
    if type_.kind is Kind.DECIMAL:
        number = units_of(number, type_.scale)
    elif type_.kind is Kind.DATE and isinstance(value, dt.date):
        number = value.toordinal() - EPOCH_ORDINAL
    return Operand(np.array([number], _dtype(type_)), None, type_, True)


def _dtype(type_: DataType) -> Any:
    if is_wide(type_):
        return object
    return {Kind.DOUBLE: np.float64, Kind.BOOLEAN: np.bool_}.get(type_.kind, np.int64)


def _zeros(count: int, type_: DataType) -> Any:
    return np.zeros(count, _dtype(type_))


def list_array(items: tuple[object, ...], type_: DataType) -> pa.Array:
    """One list, of items given as `Literal.value` is."""
    is_time = type_.item.kind in (Kind.TIMESTAMP, Kind.INTERVAL)
    values = (
        pa.array(items, pa.int64()).cast(arrow_type(type_.item)) if is_time else pa.array(items, arrow_type(type_.item))
    )
    return pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), values)


def column_operand(column: pa.Array | pa.ChunkedArray, type_: DataType, *, constant: bool = False) -> Operand:
    """A column of rows; without a copy where its layout allows."""
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    wanted = arrow_type(type_.usual)
    if array.type != wanted:
        array = array.cast(wanted)
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    if type_.kind in IN_ARROW:
        return Operand(array, valid, type_, constant)
    return Operand(_values(array, type_), valid, type_, constant)


def _values(array: pa.Array, type_: DataType) -> Any:
    kind, start, count = type_.kind, array.offset, len(array)
    if kind is Kind.NULL:
        return np.zeros(count, np.int64)
    data = array.buffers()[1]
    if data is None or count == 0:
        return _zeros(count, type_)
    if kind is Kind.BOOLEAN:
        return np.unpackbits(np.frombuffer(data, np.uint8), count=start + count, bitorder="little")[start:].view(bool)
    if kind is Kind.DOUBLE:
        return np.frombuffer(data, np.float64)[start : start + count]
    if kind is Kind.DECIMAL:
        words = np.frombuffer(data, np.int64)
        low, high = (words[2 * start + k : 2 * (start + count) : 2] for k in (0, 1))
        return _whole_numbers(low, high) if is_wide(type_) else low
    if kind in (Kind.INT, Kind.DATE):
        return np.frombuffer(data, np.int32)[start : start + count].astype(np.int64)
    return np.frombuffer(data, np.int64)[start : start + count]


def _whole_numbers(low: Ints, high: Ints) -> Any:
    """Numbers of 128 bits as Python's."""
    found = low.astype(object)
    beyond = np.flatnonzero(high != low >> 63)
    if len(beyond):
        found[beyond] = (high[beyond].astype(object) << 64) + low[beyond].view(np.uint64).astype(object)
    return found


def as_stored(values: Any, valid: Bools | None, type_: DataType) -> Any:
    """Whole numbers, of which the valid ones fit, as `Operand.values` has those of a type."""
    if is_wide(type_):
        return values.astype(object)
    if values.dtype != object:
        return values
    return np.where(True if valid is None else valid, values, 0).astype(np.int64)


def to_arrow(operand: Operand, rows_count: int) -> pa.Array:
    """The operand as an Arrow array of its type, repeated for every row when it is constant."""
    kind = operand.kind
    if kind is Kind.NULL:
        return pa.nulls(rows_count)
    if operand.constant:
        operand = _repeat(operand, rows_count)
    if kind in IN_ARROW:
        return operand.values
    validity = None
    if operand.valid is not None:
        validity = pa.py_buffer(np.packbits(operand.valid, bitorder="little"))
    if kind is Kind.BOOLEAN:
        data = np.packbits(operand.values, bitorder="little")
    elif kind is Kind.DECIMAL:
        data = np.empty((rows_count, 2), np.int64)
        if operand.values.dtype == object:
            known = operand.values if operand.valid is None else np.where(operand.valid, operand.values, 0)
            data[:, 0] = (known & _WORD).astype(np.uint64).view(np.int64)
            data[:, 1] = known >> 64
        else:
            data[:, 0] = operand.values
            data[:, 1] = operand.values >> 63
    elif kind in (Kind.INT, Kind.DATE):
        data = operand.values.astype(np.int32)
    else:
        data = np.ascontiguousarray(operand.values)
    array = pa.Array.from_buffers(arrow_type(operand.type.usual), rows_count, [validity, pa.py_buffer(data)])
    return array.cast(arrow_type(operand.type), safe=False) if operand.type.variant else array


def _repeat(operand: Operand, rows_count: int) -> Operand:
    valid = None if operand.valid is None else np.repeat(operand.valid, rows_count)
    if operand.kind in IN_ARROW:
        return Operand(operand.values.take(pa.array(np.zeros(rows_count, np.int64))), valid, operand.type, False)
    return Operand(np.repeat(operand.values, rows_count), valid, operand.type, False)


def in_range(values: Any, valid: Bools | None, type_: DataType) -> Bools | None:
    """`valid` without the places of values that the integer-like `type_` cannot hold."""
    kind = type_.kind
    if kind is Kind.DECIMAL:
        limit = 10**type_.precision - 1
        return without(valid, np.asarray((values < -limit) | (values > limit), bool))
    if type_.bits < 64:
        limit = 1 << type_.bits - 1
        return without(valid, (values < -limit) | (values >= limit))
    if values.dtype == object:
        return without(valid, np.asarray((values <= _RESERVED) | (values >= -_RESERVED), bool))
    return without(valid, values == _RESERVED)


def in_single(values: Doubles, type_: DataType) -> Doubles:
    """Doubles as the values of their type: those of a float are rounded to 32 bits."""
    if type_.variant != "float":
        return values
    with np.errstate(over="ignore"):  # a number that is too large is infinite
        rounded: Doubles = values.astype(np.float32).astype(np.float64)
    return rounded


def distinct_rows(columns: list[pa.Array]) -> tuple[Ints, Ints]:
    """Row numbers of the distinct combinations, and for each row which of them it is."""
    codes: Ints = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if pa.types.is_list(column.type):
            column = pa.array([repr(items) for items in column.to_pylist()])
        encoded = column.dictionary_encode(null_encoding="encode")
        combined = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(combined, return_inverse=True)
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return firsts, inverse


def to_double(operand: Operand) -> Doubles:
    """The nearest doubles of numbers.

    A decimal of up to 53 bits needs one correctly rounded division; a larger one goes through its text,
    because dividing a rounded number would round twice. Wide ones are divided exactly.
    """
    values = operand.values
    if operand.kind is Kind.DOUBLE:
        return values  # type: ignore[no-any-return]  # Operand.values is Any: its dtype depends on the type
    if is_wide(operand.type):
        return np.asarray(values / 10**operand.type.scale, np.float64)  # Python rounds a quotient of two numbers once
    doubles: Doubles = values.astype(np.float64)
    if operand.kind is Kind.DECIMAL and operand.type.scale:
        doubles /= 10.0**operand.type.scale
        large = np.flatnonzero(np.abs(values) > EXACT_DOUBLE_MAX)
        if len(large):
            exact = to_arrow(Operand(values[large], None, operand.type, False), len(large))
            doubles[large] = pc.cast(pc.cast(exact, pa.string()), pa.float64()).to_numpy()
    return doubles
