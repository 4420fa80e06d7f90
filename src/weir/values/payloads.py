"""Vectorised access to payloads: fields of structs, elements of arrays and maps, and parts of JSON texts.

Operands of payloads hold Arrow arrays, as those of texts do. A part that is not there is NULL; so is the reserved
bigint −2^63, which no row has outside of a payload. An element is taken by its place in the flat array of all rows'
elements, so nothing is copied but the result.

Cost: a few passes over the rows; of `array_contains` and of maps, over all their elements. JSON texts are parsed one by
one, a few microseconds each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.json_paths import json_part, steps_of
from weir.algebra.schema import BIGINT, BOOLEAN, INT, STRING, DataType, Kind
from weir.values.columns import Bools, Ints, Operand, column_operand, constant_operand, in_range, null_operand, to_arrow
from weir.values.comparisons import compare


def field(arg: Operand, name: str, type_: DataType) -> Operand:
    """`arg.name`; of an array of structs, the array of what they have there."""
    if arg.type.variant == "array":
        inside = field(_flat(arg.values.values, arg.type.parts[0][1]), name, type_.parts[0][1])
        begins = pa.array(_offsets(arg.values), pa.int32(), mask=np.append(~_valid(arg), False))
        found = pa.ListArray.from_arrays(begins, to_arrow(inside, len(inside.values)))
        return taken(found, type_, arg.constant)
    return taken(pc.struct_field(arg.values, name), type_, arg.constant)


def element(arg: Operand, key: int | str, type_: DataType) -> Operand:
    """An array's element, counted from 0, or from −1 at its end; a map's value for a key."""
    if arg.type.variant == "map":
        return taken(_value_of_key(arg.values, arg.type.parts[0][1], key), type_, arg.constant)
    assert isinstance(key, int)
    offsets = _offsets(arg.values)
    begin, end = offsets[:-1], offsets[1:]
    place = begin + key if key >= 0 else end + key
    gone = (place < begin) | (place >= end) | ~_valid(arg)
    at = pa.array(np.where(gone, 0, place), mask=gone)
    return taken(arg.values.values.take(at), type_, arg.constant)


def _value_of_key(maps: pa.MapArray, type_: DataType, key: int | str) -> pa.Array:
    """The value of the first pair that has the key."""
    offsets = _offsets(maps)
    keys = _flat(maps.keys, type_)
    wanted = constant_operand(key, STRING if isinstance(key, str) else BIGINT)
    hits = np.flatnonzero(_true(compare("=", keys, wanted)))
    first = np.searchsorted(hits, offsets[:-1])  # of each row, its first hit, or one of a row behind it
    place = np.append(hits, np.iinfo(np.int64).max)[first]
    gone = (place >= offsets[1:]) | maps.is_null().to_numpy(zero_copy_only=False)
    return maps.items.take(pa.array(np.where(gone, 0, place), mask=gone))


def json_field(arg: Operand, path: str) -> Operand:
    """`get_json_object(arg, path)`."""
    steps = steps_of(path)
    if arg.kind is Kind.NULL or steps is None:
        return replace(null_operand(STRING), constant=arg.constant) if arg.constant else _nulls(len(arg.values))
    encoded = arg.values.dictionary_encode()
    parts = [None if text is None else json_part(text, steps) for text in encoded.dictionary.to_pylist()]
    return taken(pa.array(parts, pa.string()).take(encoded.indices), STRING, arg.constant)


def _nulls(count: int) -> Operand:
    return Operand(pa.nulls(count, pa.string()), np.zeros(count, bool), STRING, False)


def size(args: Sequence[Operand], _type: DataType) -> Operand:
    """How many elements an array or a map has."""
    (arg,) = args
    if arg.kind is Kind.NULL:
        return null_operand(INT)
    return Operand(np.diff(_offsets(arg.values)), arg.valid, INT, arg.constant)


def array_contains(args: Sequence[Operand], _type: DataType) -> Operand:
    """TRUE if one element is equal; NULL if none is but one is NULL."""
    arrays, wanted = args
    count = max(len(arrays.values), len(wanted.values)) if len(arrays.values) and len(wanted.values) else 0
    offsets = _offsets(arrays.values)
    rows = np.repeat(np.arange(len(arrays.values)), np.diff(offsets))
    elements = _flat(arrays.values.values.slice(offsets[0], offsets[-1] - offsets[0]), arrays.type.parts[0][1])
    if len(arrays.values) == 1 and count != 1:  # one array for all rows
        rows, elements = _each_row(elements, count)
    beside = wanted if len(wanted.values) == 1 else _chosen(wanted, rows)
    equal = compare("=", elements, beside)
    hit = np.bincount(rows[_true(equal)], minlength=count) > 0
    unknown = np.zeros(len(rows), bool) if equal.valid is None else ~equal.valid
    maybe = np.bincount(rows[np.broadcast_to(unknown, len(rows))], minlength=count) > 0
    known = np.broadcast_to(_valid(arrays), count) & np.broadcast_to(_valid(wanted), count)
    return Operand(hit, known & (hit | ~maybe), BOOLEAN, arrays.constant and wanted.constant)


def _each_row(elements: Operand, count: int) -> tuple[Ints, Operand]:
    each = len(elements.values)
    return np.repeat(np.arange(count), each), _chosen(elements, np.tile(np.arange(each), count))


def _chosen(arg: Operand, at: Ints) -> Operand:
    values = arg.values.take(pa.array(at)) if isinstance(arg.values, pa.Array) else arg.values[at]
    return Operand(values, None if arg.valid is None else arg.valid[at], arg.type, False)


def _flat(values: pa.Array, type_: DataType) -> Operand:
    return column_operand(values, type_)


def taken(values: pa.Array, type_: DataType, constant: bool) -> Operand:
    """A column made of parts of payloads; a number that is reserved is NULL."""
    made = column_operand(values, type_, constant=constant)
    if type_.kind in (Kind.BIGINT, Kind.TIMESTAMP):
        return replace(made, valid=in_range(made.values, made.valid, type_))
    return made


def _offsets(values: pa.ListArray | pa.MapArray) -> Ints:
    """Where the elements of each row begin and end among those of all."""
    offsets: Ints = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets


def _valid(arg: Operand) -> Bools:
    return np.ones(len(arg.values), bool) if arg.valid is None else arg.valid


def _true(found: Operand) -> Bools:
    values: Bools = found.values if found.valid is None else found.values & found.valid
    return values
