"""Narrow numbers, floats, texts of a length and times without a zone: what operators make of their columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.fold import fold
from weir.algebra.nodes import Arithmetic, Cast, ColumnRef, Comparison, Expression, Literal
from weir.algebra.schema import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
    char,
    decimal,
)
from weir.index.keys import decode_column, encode_column
from weir.store.row_files import arrow_type
from weir.values.evaluate import evaluate, truth

INF = float("inf")


def over(type_: DataType, values: Sequence[object], make: object) -> pa.Array:
    """The expression of a column of these values."""
    assert callable(make)
    rows = pa.table({"x": pa.array(values, arrow_type(type_))})
    e: Expression = make(ColumnRef(0, "x", type_))
    found = evaluate(e, rows)
    assert found.type == arrow_type(e.type)
    return found


def cast_of(given: DataType, wanted: DataType, values: Sequence[object]) -> list[object]:
    """A column cast to a type; constants must give the same."""
    found = over(given, values, lambda x: Cast(x, wanted)).to_pylist()
    if given.kind is not TIMESTAMP.kind:
        folded = [fold(Cast(Literal(v, given), wanted)) for v in values]
        assert [c.value for c in folded if isinstance(c, Literal)] == found
    return found


@pytest.mark.parametrize(
    ("given", "wanted", "values", "found"),
    [
        (INT, TINYINT, [127, 128, -128, -129, None], [127, None, -128, None, None]),
        (BIGINT, SMALLINT, [2**15 - 1, 2**15, -(2**15)], [2**15 - 1, None, -(2**15)]),
        (DOUBLE, TINYINT, [127.9, 128.0, -128.9, INF], [127, None, -128, None]),
        (TINYINT, INT, [5, None, -128], [5, None, -128]),
        (SMALLINT, decimal(4, 1), [999, 1000], [Decimal("999.0"), None]),
        (DOUBLE, FLOAT, [0.1, 1e39, -1e300, None], [0.10000000149011612, INF, -INF, None]),
        (BIGINT, FLOAT, [2**24 + 1, (1 << 60) + (1 << 36) + 1], [2.0**24, float(np.float32((1 << 60) + (1 << 37)))]),
        (FLOAT, DOUBLE, [0.10000000149011612, None], [0.10000000149011612, None]),
        (FLOAT, INT, [2.5, -2.5, 2.0**31], [2, -2, None]),
        (decimal(12, 2), FLOAT, [Decimal("0.10"), Decimal("16777217.01")], [0.10000000149011612, 16777218.0]),
        (char(2), char(4), ["ab", "a "], ["ab  ", "a   "]),
        (char(2), STRING, ["a "], ["a "]),
        (TINYINT, STRING, [5, -7], ["5", "-7"]),
    ],
)  # fmt: skip
def test_casts(given: DataType, wanted: DataType, values: list[object], found: list[object]) -> None:
    assert cast_of(given, wanted, values) == found


def test_times_without_a_zone_are_utc() -> None:
    time = dt.datetime(2026, 1, 31, 12)
    of_zone = time.replace(tzinfo=dt.UTC)
    assert cast_of(TIMESTAMP, TIMESTAMP_NTZ, [of_zone, None]) == [time, None]
    assert cast_of(TIMESTAMP_NTZ, TIMESTAMP, [time, None]) == [of_zone, None]


def test_sums_of_floats_are_rounded_to_32_bits() -> None:
    random = np.random.default_rng(1)
    a, b = (random.normal(0, 10.0 ** random.integers(-20, 20, 5_000), 5_000).astype(np.float32) for _ in range(2))
    rows = pa.table({"a": a, "b": b})
    with np.errstate(all="ignore"):
        for op, wanted in (("+", a + b), ("-", a - b), ("*", a * b), ("%", np.fmod(a, b))):
            found = evaluate(Arithmetic(op, ColumnRef(0, "a", FLOAT), ColumnRef(0, "b", FLOAT), FLOAT), rows)
            assert found.type == pa.float32()
            assert np.array_equal(found.to_numpy(), wanted)
    sums = [
        fold(Arithmetic("+", Literal(float(x), FLOAT), Literal(float(y), FLOAT), FLOAT))
        for x, y in zip(a, b, strict=True)
    ]
    assert [s.value for s in sums if isinstance(s, Literal)] == (a + b).tolist()


def test_a_float_is_the_double_that_it_is() -> None:
    rows = pa.table({"x": pa.array([0.1, 0.5, float("nan"), None], pa.float32())})
    x = ColumnRef(0, "x", FLOAT)
    assert truth(Comparison("=", x, Literal(0.1, DOUBLE)), rows).tolist() == [False] * 4
    assert truth(Comparison(">", x, Literal(0.1, DOUBLE)), rows).tolist() == [True, True, True, False]
    assert truth(Comparison("=", x, Literal(0.10000000149011612, FLOAT)), rows).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (TINYINT, [-128, 127, None, 0]),
        (SMALLINT, [-(2**15), 2**15 - 1, None]),
        (FLOAT, [-INF, -1.5, 0.0, 3.4028234663852886e38, INF, None]),
        (TIMESTAMP_NTZ, [dt.datetime(1969, 1, 1), dt.datetime(2026, 1, 1), None]),
    ],
)  # fmt: skip
def test_keys_are_in_order_and_come_back(type_: DataType, values: list[object]) -> None:
    column = pa.array(values, arrow_type(type_))
    keys = encode_column(column, type_)
    assert keys.dtype == np.int64
    known = keys[[k for k, v in enumerate(values) if v is not None]]
    assert known.tolist() == sorted(known.tolist()) or type_ in (TINYINT, SMALLINT)
    assert decode_column(keys, type_, arrow_type(type_)).equals(column)
