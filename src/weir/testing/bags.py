"""Comparison of two answers as bags of rows.

Rows are compared by position of the column, not by name. Within a family of types the representation does not
matter (int32 and int64, decimal and int64, string and large_string, timestamps of any unit and zone); NULL
equals NULL, NaN equals NaN, −0.0 equals 0.0. Doubles are equal exactly, unless `approximate` is asked for:
sums and averages depend on the order of addition, so then a relative error of 1e-9 is allowed in double columns.
Linear in the rows when the answers agree; quadratic in the rows that differ only in doubles.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice

import pyarrow as pa

_TOLERANCE = 1e-9
_SHOWN = 5
_Row = tuple[object, ...]
_NAN = "NaN"  # stands for NaN in a numeric column, where no other string can occur


def differ(
    expected: pa.Table,
    got: pa.Table,
    *,
    approximate: bool = False,
    ordered: bool = False,
    lists_are_bags: bool = False,
    room: Mapping[int, float] | None = None,
) -> str | None:
    """None when the two are the same bag, otherwise a readable account of missing and extra rows.

    `ordered` compares lists of rows; `lists_are_bags` takes the order out of values that are lists (collect_list);
    `room` is, beside the relative error, how far off the doubles of a column may be, by its place.
    """
    if expected.num_columns != got.num_columns:
        return f"expected columns {expected.column_names}, got {got.column_names}"
    for i in range(expected.num_columns):
        families = {_family(t.schema.field(i).type) for t in (expected, got)} - {"null"}
        if len(families) > 1:
            types = f"{expected.schema.field(i).type}, got {got.schema.field(i).type}"
            return f"column {i} ({expected.column_names[i]}): expected {types}"
    in_order, got_in_order = (_tuples(t, lists_are_bags) for t in (expected, got))
    if in_order == got_in_order:
        return None
    wanted, found = Counter(in_order), Counter(got_in_order)
    if not ordered and dict.__eq__(wanted, found):  # none is counted as 0, and Counter compares slowly
        return None
    doubles = {
        i: (room or {}).get(i, 0.0)
        for i in range(expected.num_columns)
        if approximate and any(pa.types.is_floating(t.schema.field(i).type) for t in (expected, got))
    }
    missing, extra = wanted - found, found - wanted
    if doubles:
        _cancel_close(missing, extra, doubles)
    if not missing and not extra:
        return _first_out_of_order(in_order, got_in_order, doubles) if ordered else None
    return (
        f"expected {expected.num_rows} rows, got {got.num_rows}: {missing.total()} missing, {extra.total()} extra"
        f" of ({', '.join(expected.column_names)})" + _listing("missing", missing) + _listing("extra", extra)
    )


def _first_out_of_order(expected: list[_Row], got: list[_Row], doubles: Mapping[int, float]) -> str | None:
    for i, (a, b) in enumerate(zip(expected, got, strict=True)):
        if _rest(a, doubles) != _rest(b, doubles) or not all(_close(a[k], b[k], room) for k, room in doubles.items()):
            return f"the same {len(got)} rows in another order: row {i} is {b!r}, expected {a!r}"
    return None


def _family(type_: pa.DataType) -> str:
    t = pa.types
    if t.is_dictionary(type_):
        return _family(type_.value_type)
    if t.is_nested(type_):
        parts = ", ".join(_family(type_.field(i).type) for i in range(type_.num_fields))
        return f"{'list' if t.is_list(type_) or t.is_large_list(type_) else type_.id}({parts})"
    if t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_):
        return "number"
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        return "string"
    if t.is_nested(type_):
        return "payload"
    for name in ("null", "boolean", "date", "timestamp", "duration"):
        if getattr(t, f"is_{name}")(type_):
            return name
    return str(type_)


def _tuples(table: pa.Table, lists_are_bags: bool) -> list[_Row]:
    columns = []
    for column in table.columns:
        family = _family(column.type)
        if family in ("timestamp", "duration"):
            unit = pa.timestamp("us") if family == "timestamp" else pa.duration("us")
            columns.append(column.cast(unit).cast(pa.int64()).to_pylist())
        elif pa.types.is_nested(column.type):
            columns.append([_nested(v, lists_are_bags) for v in column.to_pylist()])
        elif pa.types.is_floating(column.type):
            columns.append([_NAN if v is not None and math.isnan(v) else v for v in column.to_pylist()])
        else:
            # Python's int, Decimal and float are equal and hash alike whenever they are the same number.
            columns.append(column.to_pylist())
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _nested(value: object, lists_are_bags: bool) -> object:
    """A list, struct or map as tuples; names of a struct's fields mean nothing."""
    if isinstance(value, dict):
        return tuple(_nested(v, lists_are_bags) for v in value.values())
    if isinstance(value, (list, tuple)):
        items = [_nested(v, lists_are_bags) for v in value]
        return tuple(sorted(items, key=repr) if lists_are_bags else items)
    if isinstance(value, float) and math.isnan(value):
        return _NAN
    if isinstance(value, float) and value == 0:
        return 0.0  # so that −0.0 is sorted as it is compared
    if isinstance(value, dt.datetime):
        return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return value


def _cancel_close(missing: Counter[_Row], extra: Counter[_Row], doubles: Mapping[int, float]) -> None:
    """Take out pairs of rows that agree up to rounding; each row cancels the closest candidate at most once."""
    by_rest: dict[_Row, list[_Row]] = {}
    for row in extra.elements():
        by_rest.setdefault(_rest(row, doubles), []).append(row)
    for row in list(missing.elements()):
        candidates = by_rest.get(_rest(row, doubles), [])
        twin = next((c for c in candidates if all(_close(row[i], c[i], room) for i, room in doubles.items())), None)
        if twin is not None:
            candidates.remove(twin)
            for bag, taken in ((missing, row), (extra, twin)):
                bag[taken] -= 1
                if not bag[taken]:
                    del bag[taken]


def _rest(row: _Row, doubles: Collection[int]) -> _Row:
    return tuple(v for i, v in enumerate(row) if i not in doubles)


def _close(a: object, b: object, room: float) -> bool:
    if a is None or b is None or a == b:
        return a is b or a == b
    if isinstance(a, str) or isinstance(b, str):
        return False
    return math.isclose(float(a), float(b), rel_tol=_TOLERANCE, abs_tol=room)  # type: ignore[arg-type]  # numbers: checked by family


def _listing(title: str, bag: Counter[_Row]) -> str:
    shown = islice(bag.items(), _SHOWN)
    lines = [f"\n  {title}: {row!r}" + (f" × {count}" if count > 1 else "") for row, count in shown]
    if len(bag) > _SHOWN:
        lines.append(f"\n  {title}: … and {len(bag) - _SHOWN} more")
    return "".join(lines)
