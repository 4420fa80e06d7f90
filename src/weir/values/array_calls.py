"""Functions that take or make arrays, maps and structs, row by row over Python's lists; some microseconds a row.

Times are whole numbers inside, as they are everywhere. Elements are compared as values are: NaN equals NaN and lies
above all numbers, −0 is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.java_regex import translated
from weir.algebra.schema import DataType
from weir.store.row_files import arrow_type
from weir.values.columns import Operand, to_arrow
from weir.values.evaluations import Evaluation, size_of
from weir.values.payloads import taken

ELEMENTS_MAX = 100_000  # of a sequence or a repetition
List = list[Any]


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type with times as whole numbers."""
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    return type_


def _array(arg: Operand) -> pa.Array:
    """The operand's own values: one for each row, or one for all."""
    return to_arrow(replace(arg, constant=False), len(arg.values))


def _rows(arg: Operand, count: int) -> List:
    array = _array(arg)
    found: List = array.cast(_plain(array.type)).to_pylist()
    return found * count if len(found) == 1 and count != 1 else found


def of_rows(value: Callable[..., object], *, sees_nulls: bool = False) -> Evaluation:
    """A function by its value for Python values."""

    def evaluated(args: Sequence[Operand], type_: DataType) -> Operand:
        count, constant = size_of(args), all(arg.constant for arg in args)
        columns = [_rows(arg, count) for arg in args]
        found = [
            None if not sees_nulls and any(v is None for v in row) else value(*row)
            for row in zip(*columns, strict=True)
        ]
        wanted = arrow_type(type_)
        return taken(pa.array(found, _plain(wanted)).cast(wanted), type_, constant)

    return evaluated


def _key(value: Any) -> Any:
    """What equal values have in common."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _order(value: Any) -> tuple[bool, Any]:
    """What sorts values: NaN after all numbers."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, (0.0 if is_nan else value.encode() if isinstance(value, str) else value)


def _sorted(xs: List, upwards: object = True) -> List:
    """NULLs first if the order ascends, else last."""
    nulls: List = [None for x in xs if x is None]
    known = sorted((x for x in xs if x is not None), key=_order, reverse=not upwards)
    return nulls + known if upwards else known + nulls


def _array_sort(xs: List) -> List:
    known: List = sorted((x for x in xs if x is not None), key=_order)
    return known + [None] * (len(xs) - len(known))


def _distinct(xs: List) -> List:
    seen: set[Any] = set()
    found = []
    for x in xs:
        if _key(x) not in seen:
            seen.add(_key(x))
            found.append(x)
    return found


def _extreme(sign: int) -> Callable[[List], object]:
    def found(xs: List) -> object:
        known = [x for x in xs if x is not None]
        if not known:
            return None
        return max(known, key=_order) if sign > 0 else min(known, key=_order)

    return found


def _position(xs: List, x: Any) -> int:
    return next((k + 1 for k, v in enumerate(xs) if v is not None and _key(v) == _key(x)), 0)


def _removed(xs: List, x: Any) -> List:
    return [v for v in xs if v is None or _key(v) != _key(x)]


def _appended(xs: List | None, x: Any) -> List | None:
    return None if xs is None else [*xs, x]


def _prepended(xs: List | None, x: Any) -> List | None:
    return None if xs is None else [x, *xs]


def _intersect(xs: List, ys: List) -> List:
    inside = {_key(y) for y in ys}
    return [x for x in _distinct(xs) if _key(x) in inside]


def _except(xs: List, ys: List) -> List:
    inside = {_key(y) for y in ys}
    return [x for x in _distinct(xs) if _key(x) not in inside]


def _overlap(xs: List, ys: List) -> bool | None:
    """NULL where nothing is in both but something may be."""
    common = {_key(x) for x in xs if x is not None} & {_key(y) for y in ys if y is not None}
    if common:
        return True
    return None if xs and ys and (None in xs or None in ys) else False


def _slice(xs: List, start: int, count: int) -> List | None:
    """From a place from 1 on, or from the end; NULL for place 0 and below no elements, where Spark raises an error."""
    if start == 0 or count < 0:
        return None
    begin = start - 1 if start > 0 else len(xs) + start
    return xs[begin : begin + count] if 0 <= begin < len(xs) else []


def _flatten(xs: List) -> List | None:
    return None if any(x is None for x in xs) else [v for x in xs for v in x]


def _repeated(x: Any, count: int | None) -> List | None:
    return None if count is None or count > ELEMENTS_MAX else [x] * max(count, 0)


def _sequence(begin: int, end: int, step: int | None = None) -> List | None:
    step = (1 if end >= begin else -1) if step is None else step
    if begin == end:
        return [begin]
    if step == 0 or (end > begin) != (step > 0) or abs(end - begin) // abs(step) >= ELEMENTS_MAX:
        return None
    return list(range(begin, end + (1 if step > 0 else -1), step))


def _join(xs: List, separator: str, null: str | None = None) -> str:
    texts = [null if x is None else x for x in xs]
    return separator.join(_text(x) for x in texts if x is not None)


def _text(x: Any) -> str:
    return str(x).lower() if isinstance(x, bool) else str(x)


def _split(args: Sequence[Operand], type_: DataType) -> Operand:
    """By a regular expression; by the empty one into characters. A limit above 0 is the most parts that there are."""
    text, pattern = args[0], args[1]
    wanted = pattern.values[0].as_py()
    limit = int(args[2].values[0]) if len(args) > 2 else -1
    constant = all(arg.constant for arg in args)
    if wanted == "":
        found = pa.array(
            [None if t is None else _characters(t, limit) for t in text.values.to_pylist()], arrow_type(type_)
        )
        return taken(found, type_, constant)
    if limit == 1:
        found = pa.array([None if t is None else [t] for t in text.values.to_pylist()], arrow_type(type_))
    else:
        most = limit - 1 if limit > 0 else None
        found = pc.split_pattern_regex(text.values, pattern=translated(wanted).body, max_splits=most)
    return taken(found.cast(arrow_type(type_)), type_, constant)


def _characters(text: str, limit: int) -> list[str]:
    if not text:
        return [""]
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return list(text)


def _struct(args: Sequence[Operand], type_: DataType) -> Operand:
    count, constant = size_of(args), all(arg.constant for arg in args)
    wanted = arrow_type(type_)
    parts = []
    for arg, field in zip(args[1::2], wanted, strict=True):
        array = _array(arg)
        array = array.take(pa.array([0] * count, pa.int64())) if len(array) != count else array
        parts.append(array.cast(field.type))
    return taken(pa.StructArray.from_arrays(parts, fields=list(wanted)), type_, constant)


def _part_of_map(place: int) -> Evaluation:
    return of_rows(lambda pairs: [pair[place] for pair in pairs])


ARRAY_CALLS: dict[str, Evaluation] = {
    "array": of_rows(lambda *xs: list(xs), sees_nulls=True),
    "named_struct": _struct,
    "split": _split,
    "array_join": of_rows(_join),
    "array_size": of_rows(len),
    "sort_array": of_rows(_sorted),
    "array_sort": of_rows(_array_sort),
    "array_distinct": of_rows(_distinct),
    "array_min": of_rows(_extreme(-1)),
    "array_max": of_rows(_extreme(1)),
    "array_position": of_rows(_position),
    "array_remove": of_rows(_removed),
    "array_append": of_rows(_appended, sees_nulls=True),
    "array_prepend": of_rows(_prepended, sees_nulls=True),
    "array_compact": of_rows(lambda xs: [x for x in xs if x is not None]),
    "array_union": of_rows(lambda xs, ys: _distinct([*xs, *ys])),
    "array_intersect": of_rows(_intersect),
    "array_except": of_rows(_except),
    "arrays_overlap": of_rows(_overlap),
    "slice": of_rows(_slice),
    "flatten": of_rows(_flatten),
    "array_repeat": of_rows(_repeated, sees_nulls=True),
    "sequence": of_rows(_sequence),
    "array_reverse": of_rows(lambda xs: xs[::-1]),
    "array_concat": of_rows(lambda *lists: [x for xs in lists for x in xs]),
    "map_keys": _part_of_map(0),
    "map_values": _part_of_map(1),
    "map_contains_key": of_rows(lambda pairs, key: any(_key(k) == _key(key) for k, _ in pairs)),
}
