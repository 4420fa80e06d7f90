"""Parts of payloads, against plain Python over the same rows, whole and in slices."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from weir.algebra.ddl import parse_type
from weir.algebra.json_paths import json_part, steps_of
from weir.algebra.nodes import Call, Cast, ColumnRef, Element, Expression, Field, IsNull, JsonField, Literal
from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind, array, decimal
from weir.store.row_files import arrow_type
from weir.values.codec import from_json, to_json
from weir.values.evaluate import evaluate

STRUCT = parse_type("struct<a:int,b:string,w:decimal(30,4)>")
XS, STRUCTS = array(INT), array(STRUCT)
MAP, BY_NUMBER = parse_type("map<string,double>"), parse_type("map<bigint,array<int>>")


def random_value(rng: random.Random, type_: DataType, nulls: float = 0.2) -> Any:
    if rng.random() < nulls:
        return None
    if type_.variant == "array":
        return [random_value(rng, type_.parts[0][1]) for _ in range(rng.randint(0, 4))]
    if type_.variant == "map":
        keys: list[Any] = rng.sample(
            ["a", "b", "ab", "c"] if type_.parts[0][1] == STRING else [0, 1, 2, -5], rng.randint(0, 4)
        )
        return [(k, random_value(rng, type_.parts[1][1])) for k in keys]
    if type_.variant == "struct":
        return {name: random_value(rng, part) for name, part in type_.parts}
    if type_.kind is Kind.DECIMAL:
        return Decimal(rng.randint(-(10**22), 10**22)).scaleb(-4)
    return {INT: rng.randint(-3, 3), STRING: rng.choice("xyz"), DOUBLE: rng.random()}[type_]


def at(values: list[Any] | None, place: int) -> Any:
    return values[place] if values is not None and -len(values) <= place < len(values) else None


def keys_of(pairs: list[Any] | None) -> Any:
    return None if pairs is None else [k for k, _ in pairs]


def values_of(pairs: list[Any] | None) -> Any:
    return None if pairs is None else [v for _, v in pairs]


def has_key(pairs: list[Any] | None) -> Any:
    return None if pairs is None else any(k == "a" for k, _ in pairs)


def contains(values: list[Any] | None, wanted: int) -> bool | None:
    if values is None:
        return None
    return True if wanted in values else None if None in values else False


COLUMN: dict[DataType, ColumnRef] = {t: ColumnRef(0, "x", t) for t in (STRUCT, XS, STRUCTS, MAP, BY_NUMBER)}
CASES: list[tuple[DataType, Callable[[ColumnRef], Expression], Callable[[Any], Any]]] = [
    (STRUCT, lambda x: Field(x, "a", INT), lambda v: None if v is None else v["a"]),
    (STRUCT, lambda x: Field(x, "b", STRING), lambda v: None if v is None else v["b"]),
    (STRUCT, lambda x: IsNull(x), lambda v: v is None),
    (STRUCT, lambda x: x, lambda v: v),
    (MAP, lambda x: Call("map_keys", (x,), array(STRING)), keys_of),
    (MAP, lambda x: Call("map_values", (x,), array(DOUBLE)), values_of),
    (MAP, lambda x: Call("map_contains_key", (x, Literal("a", STRING)), BOOLEAN), has_key),
    (XS, lambda x: Element(x, 0, INT), lambda v: at(v, 0)),
    (XS, lambda x: Element(x, 3, INT), lambda v: at(v, 3)),
    (XS, lambda x: Element(x, -2, INT), lambda v: at(v, -2)),
    (XS, lambda x: Call("size", (x,), INT), lambda v: None if v is None else len(v)),
    (XS, lambda x: Call("array_contains", (x, Literal(2, BIGINT)), BOOLEAN), lambda v: contains(v, 2)),
    (XS, lambda x: Call("array_contains", (x, Element(x, 0, INT)), BOOLEAN),
     lambda v: None if at(v, 0) is None else contains(v, v[0])),
    (XS, lambda x: Call("coalesce", (x, x), XS), lambda v: v),
    (STRUCTS, lambda x: Field(x, "a", array(INT)), lambda v: None if v is None else [s and s["a"] for s in v]),
    (STRUCTS, lambda x: Field(Element(x, 1, STRUCT), "b", STRING), lambda v: None if at(v, 1) is None else v[1]["b"]),
    (MAP, lambda x: Element(x, "ab", DOUBLE), lambda v: None if v is None else dict(v).get("ab")),
    (MAP, lambda x: Call("size", (x,), INT), lambda v: None if v is None else len(v)),
    (BY_NUMBER, lambda x: Element(Element(x, -5, XS), 1, INT), lambda v: None if v is None else at(dict(v).get(-5), 1)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_parts_of_payloads(number: int) -> None:
    type_, make, plain = CASES[number]
    e = make(COLUMN[type_])
    assert from_json(to_json(e)) == e
    rng = random.Random(number)
    values = [random_value(rng, type_) for _ in range(200)]
    rows = pa.table({"x": pa.array(values, arrow_type(type_))})
    for part, wanted in (
        (rows, values),
        (rows.slice(37, 90), values[37:127]),
        (rows.slice(0, 0), []),
        (pa.concat_tables([rows.slice(150), rows.slice(3, 20)]), values[150:] + values[3:23]),
        (rows.filter(pa.array([k % 3 == 0 for k in range(200)])), values[::3]),
    ):
        found = evaluate(e, part)
        assert found.type == arrow_type(e.type)
        assert found.to_pylist() == [plain(v) for v in wanted]


def test_the_reserved_number_is_null_in_a_payload() -> None:
    rows = pa.table({"x": pa.array([[-(2**63), 5]], pa.list_(pa.int64()))})
    x = ColumnRef(0, "x", array(BIGINT))
    assert evaluate(Element(x, 0, BIGINT), rows).to_pylist() == [None]
    assert evaluate(Element(x, 1, BIGINT), rows).to_pylist() == [5]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (DOUBLE, [1.005, -12345678901234567.5, 1.5, None]),
        (decimal(18, 2), [Decimal("1.01"), Decimal("-12345678901234567.50"), Decimal("1.50"), None]),
        (decimal(4, 2), [Decimal("1.01"), None, Decimal("1.50"), None]),
        (BIGINT, [1, -12345678901234567, 1, None]),
        (INT, [1, None, 1, None]),
    ],
)
def test_long_decimals_are_cast(wanted: DataType, found: list[object]) -> None:
    long = parse_type("decimal(38,10)")
    values = [Decimal("1.005"), Decimal("-12345678901234567.5"), Decimal("1.5"), None]
    rows = pa.table({"x": pa.array(values, arrow_type(long))})
    if wanted == decimal(18, 2):
        found = [*found[:1], None, *found[2:]]  # 17 digits before the point
    assert evaluate(Cast(ColumnRef(0, "x", long), wanted), rows).to_pylist() == found


def test_times_inside_of_payloads() -> None:
    type_ = parse_type("struct<at:timestamp>")
    time = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    rows = pa.table({"x": pa.array([{"at": time}, {"at": None}, None], arrow_type(type_))})
    assert evaluate(Field(ColumnRef(0, "x", type_), "at", TIMESTAMP), rows).to_pylist() == [time, None, None]


# What Spark gives for these is in tests/spark/test_types.py.
@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a":{"b":[1,2]}}', "$.a.b[1]", "2"),
        ('{"a":{"b":[1,2]}}', "$.a", '{"b":[1,2]}'),
        ('{"a":1.50}', "$.a", "1.5"),
        ('{"a":[1e2,1.0e10,1.25e-7,-0.0,0.001]}', "$.a", "[100.0,1.0E10,1.25E-7,-0.0,0.001]"),
        ('{"a":null}', "$.a", None),
        ("[null]", "$[0]", "null"),
        ('{"a":"x","b":"\\u00e9\\n"}', "$.b", "é\n"),
        ('{"a":{"b":"\\u00e9\\n\\u0007"}}', "$.a", '{"b":"é\\n\\u0007"}'),
        ('{"a":[{"b":1}]}', "$.a.b", None),
        ('{"a b":true}', "$['a b']", "true"),
        ('{"a":1,"a":2}', "$.a", "1"),
        ('{"a":{"b":1},"a":{"c":2}}', "$.a.c", "2"),
        ("{'a':'it\\'s \"so\"'}", "$.a", 'it\'s "so"'),
        ('{"a":1} and more', "$.a", "1"),
        ('{"a":1, "b"', "$.a", None),
        ('{"a":NaN}', "$.a", None),
        ("12x", "$", None),
        ("", "$", None),
        ('"\\ud83d"', "$", "?"),
        ('{"a":123456789012345678901234567890}', "$.a", "123456789012345678901234567890"),
    ],
)
def test_parts_of_json(text: str, path: str, found: str | None) -> None:
    steps = steps_of(path)
    assert steps is not None
    assert json_part(text, steps) == found
    rows = pa.table({"x": pa.array([text, None, text])})
    assert evaluate(JsonField(ColumnRef(0, "x", STRING), path), rows).to_pylist() == [found, None, found]


@pytest.mark.parametrize("path", ["", "a", "$a", "$.", "$[*]", "$.*", "$['*']", "$.a[*].b", "$[-1]", "$[a]", "$.a["])
def test_what_is_no_path(path: str) -> None:
    assert steps_of(path) is None
