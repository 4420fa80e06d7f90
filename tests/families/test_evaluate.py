"""The vectorised evaluator against its plain twin, row by row."""

from __future__ import annotations

import datetime as dt
import math
import random
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.families.random_expressions import (
    COLUMNS,
    OPS,
    TWICE_ROUNDED,
    Writer,
    from_arrow,
    pool,
    random_rows,
    same,
    table_of,
    to_arrow,
)
from tests.marks import few_are_quick
from tests.oracle import plain_expressions as plain
from weir.algebra.nodes import (
    And,
    Arithmetic,
    Cast,
    ColumnRef,
    Comparison,
    Expression,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Param,
)
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from weir.store.row_files import arrow_type
from weir.values.evaluate import evaluate, evaluate_constants, truth, truth_of_constants


def column(name: str) -> ColumnRef:
    return ColumnRef(0, name, COLUMNS[name])


def one(value: Any, type_: DataType) -> pa.Table:
    """A table with one column `x` and one row."""
    return pa.table({"x": to_arrow([value], type_)})


def result(e: Expression, rows: pa.Table, constants: dict[str, Any] | None = None) -> list[Any]:
    array = evaluate(e, rows, constants)
    assert array.type == arrow_type(e.type)
    assert len(array) == rows.num_rows
    array.validate(full=True)
    return from_arrow(array, e.type)


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=3))
def test_random_expressions_agree_with_the_plain_twin(seed: int) -> None:
    rng = random.Random(f"evaluate {seed}")
    rows = random_rows(rng, 60)
    # A slice of chunks: offsets and chunk borders must not matter.
    table = pa.concat_tables([table_of(rows[:7]), table_of([*rows[:5], *rows[7:], *rows[:2]]).slice(5, len(rows) - 7)])
    for number in range(150):
        writer = Writer(rng, params=True)
        kind = rng.random()
        e = writer.predicate(3) if kind < 0.45 else writer.number(4) if kind < 0.75 else writer.temporal(2)
        e = e if kind < 0.85 else writer.text(3) if kind < 0.95 else writer.of_time()
        constants = writer.constants()
        got = result(e, table, constants)
        for row, mine in zip(rows, got, strict=True):
            expected = plain.value(e, row, constants)
            assert same(expected, mine), (seed, number, e, row, constants, expected, mine)
        if e.type == BOOLEAN:
            assert truth(e, table, constants).tolist() == [v is True for v in got]


@pytest.mark.slow
def test_every_pair_of_numbers_compares_exactly_with_a_constant() -> None:
    types = [INT, BIGINT, DOUBLE, decimal(9, 2), decimal(18, 6), decimal(4, 4)]
    for left in types:
        rows = pa.table({"x": to_arrow(pool(left), left)})
        for right in types:
            for value in pool(right):
                for k, op in enumerate(OPS):
                    sides: list[Expression] = [ColumnRef(0, "x", left), Literal(value, right)]
                    e = Comparison(op, sides[k % 2], sides[1 - k % 2])  # the constant on either side
                    expected = [plain.value(e, {"x": x}, {}) for x in pool(left)]
                    assert result(e, rows) == expected, (e, expected)


def test_no_lossy_cast_between_bigint_and_double() -> None:
    rows = one(2**53 + 1, BIGINT)
    x = ColumnRef(0, "x", BIGINT)
    assert result(Comparison("=", x, Literal(2.0**53, DOUBLE)), rows) == [False]
    assert result(Comparison(">", x, Literal(2.0**53, DOUBLE)), rows) == [True]
    assert result(Comparison("<", x, Literal(math.nan, DOUBLE)), rows) == [True]
    assert result(Comparison("<", x, Literal(Decimal("9007199254740993.5"), decimal(17, 1))), rows) == [True]


def test_two_columns_of_different_scale_compare_without_overflow() -> None:
    rows = pa.table(
        {
            "a": pa.array([2**63 - 1, 1, -1], pa.int64()),
            "m": pa.array([Decimal("1.5"), Decimal(1), Decimal(-1)], pa.decimal128(18, 17)),
        }
    )
    a, m = ColumnRef(0, "a", BIGINT), ColumnRef(0, "m", decimal(18, 17))
    assert result(Comparison(">", a, m), rows) == [True, False, False]
    assert result(Comparison("=", m, a), rows) == [False, True, True]


def test_three_valued_logic_table() -> None:
    values = [True, False, None]
    rows = pa.table({"a": [x for x in values for _ in values], "b": values * 3})
    a, b = ColumnRef(0, "a", BOOLEAN), ColumnRef(0, "b", BOOLEAN)
    assert result(And((a, b)), rows) == [True, False, None, False, False, False, None, False, None]
    assert result(Or((a, b)), rows) == [True, True, True, True, False, None, True, None, None]
    assert result(Not(a), rows) == [False] * 3 + [True] * 3 + [None] * 3
    assert result(And((a, Literal(None, NULL))), rows) == [None] * 3 + [False] * 3 + [None] * 3


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("+", 2**63 - 1, 1, None),
        ("-", -(2**63) + 1, 1, None),  # −2^63 is reserved
        ("*", 2**62, 2, None),
        ("*", -(2**31), 2**32, None),
        ("*", 3_037_000_500, 3_037_000_500, None),
        ("*", 3_037_000_499, 3_037_000_499, 3_037_000_499**2),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", 7, 0, None),
    ],
)
def test_bigint_arithmetic_is_null_where_it_does_not_exist(
    op: str, left: int, right: int, expected: int | None
) -> None:
    e = Arithmetic(op, ColumnRef(0, "x", BIGINT), Literal(right, BIGINT), BIGINT)
    assert result(e, one(left, BIGINT)) == [expected]
    # The same among rows that do not overflow, and hidden behind a NULL.
    rows = pa.table({"x": pa.array([left, 0, None], pa.int64())})
    zero = {"+": right, "-": -right, "*": 0, "%": 0 if right else None}[op]
    assert result(e, rows) == [expected, zero, None]


def test_division_is_double_and_by_zero_null() -> None:
    e = Arithmetic("/", ColumnRef(0, "x", INT), Literal(2, BIGINT), DOUBLE)
    assert result(e, one(5, INT)) == [2.5]
    for zero, type_ in ((0, BIGINT), (0.0, DOUBLE), (-0.0, DOUBLE), (Decimal("0.0"), decimal(2, 1))):
        assert result(Arithmetic("/", ColumnRef(0, "x", INT), Literal(zero, type_), DOUBLE), one(5, INT)) == [None]


def test_decimals_become_doubles_rounded_once() -> None:
    for units, scale in TWICE_ROUNDED:
        value, type_ = Decimal(units).scaleb(-scale), decimal(18, scale)
        assert float(units) / 10.0**scale != float(value), "rounding twice must show, or this tests nothing"
        assert result(Cast(ColumnRef(0, "x", type_), DOUBLE), one(value, type_)) == [float(value)]


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (5.9, DOUBLE, INT, 5),
        (-5.9, DOUBLE, BIGINT, -5),
        (math.nan, DOUBLE, BIGINT, None),
        (2.0**63, DOUBLE, BIGINT, None),
        (-(2.0**63), DOUBLE, BIGINT, None),
        (2.0**31, DOUBLE, INT, None),
        (2**31, BIGINT, INT, None),
        (0.125, DOUBLE, decimal(4, 2), Decimal("0.13")),
        (
            1.115,
            DOUBLE,
            decimal(4, 2),
            Decimal("1.12"),
        ),  # as it is written, and as Spark has it: the double is 9e-18 less
        (-2.5, DOUBLE, decimal(4, 0), Decimal(-3)),
        (99.999, DOUBLE, decimal(4, 2), None),
        (Decimal("-1.50"), decimal(9, 2), INT, -1),
        (Decimal("-1.55"), decimal(9, 2), decimal(9, 1), Decimal("-1.6")),
        (True, BOOLEAN, INT, 1),
        (" 42 ", STRING, INT, 42),
        ("-9223372036854775807", STRING, BIGINT, -(2**63) + 1),
        ("9223372036854775808", STRING, BIGINT, None),
        ("99999999999999999999999999999999999999999", STRING, BIGINT, None),
        ("4x", STRING, INT, None),
        ("", STRING, INT, None),
        ("1.25", STRING, INT, None),  # an error in Spark
        ("1.25", STRING, decimal(9, 1), Decimal("1.3")),
        ("-0.99", STRING, decimal(4, 2), Decimal("-0.99")),
        ("1e3", STRING, DOUBLE, 1000.0),
        ("Infinity", STRING, DOUBLE, math.inf),
        ("true", STRING, BOOLEAN, True),
        ("maybe", STRING, BOOLEAN, None),
        ("2024-02-29", STRING, DATE, dt.date(2024, 2, 29)),
        ("2023-02-29", STRING, DATE, None),
        ("2024-01-01 00:00:00.5", STRING, TIMESTAMP, 1_704_067_200_500_000),
        ("2024-01-01T00:00:01Z", STRING, TIMESTAMP, 1_704_067_201_000_000),
        ("2024-01-01", STRING, TIMESTAMP, 1_704_067_200_000_000),
        ("2024-01-01 25:00:00", STRING, TIMESTAMP, None),
        (7, INT, STRING, "7"),
        (1.0, DOUBLE, STRING, "1.0"),
        (2.5, DOUBLE, STRING, "2.5"),
        (math.nan, DOUBLE, STRING, "NaN"),
        (-math.inf, DOUBLE, STRING, "-Infinity"),
        (Decimal("-0.0001"), decimal(4, 4), STRING, "-0.0001"),
        (Decimal("12.50"), decimal(9, 2), STRING, "12.50"),
        (True, BOOLEAN, STRING, "true"),
        (dt.date(2024, 1, 2), DATE, STRING, "2024-01-02"),
        (1_704_067_200_500_000, TIMESTAMP, STRING, "2024-01-01 00:00:00.5"),
        (1_704_067_210_000_000, TIMESTAMP, STRING, "2024-01-01 00:00:10"),
        (-1, TIMESTAMP, DATE, dt.date(1969, 12, 31)),
        (dt.date(2024, 1, 1), DATE, TIMESTAMP, 1_704_067_200_000_000),
        (-1, TIMESTAMP, BIGINT, -1),
        (1_500_000, TIMESTAMP, DOUBLE, 1.5),
    ],
)
def test_cast(value: Any, source: DataType, target: DataType, expected: Any) -> None:
    rows = pa.table({"x": to_arrow([value, None, value], source)})
    got = result(Cast(ColumnRef(0, "x", source), target), rows)
    assert got == [expected, None, expected]
    assert result(Cast(Literal(value, source), target), rows) == [expected] * 3


def test_like_follows_the_language_and_not_the_regular_expression() -> None:
    texts = ["a.c", "abc", "a%c", "a\nc", "", "AbC", "a\\c", "x+y"]
    rows = pa.table({"x": texts})
    x = ColumnRef(0, "x", STRING)
    for pattern in (
        "a.c",
        "a_c",
        "a\\%c",
        "a%",
        "%c",
        "%",
        "",
        "a\\\\c",
        "x+y",
        "x%y",
        "%\\",
        "[a]%",
        "(",
        "%\\_%",
        "_%_",
    ):
        e = Like(x, Literal(pattern, STRING))
        assert result(e, rows) == [plain.value(e, {"x": t}, {}) for t in texts], pattern
    assert result(Like(x, Literal(None, STRING)), rows) == [None] * len(texts)


def test_dates_and_intervals() -> None:
    day = ColumnRef(0, "x", DATE)
    rows = one(dt.date(2024, 2, 28), DATE)
    assert result(Arithmetic("+", day, Literal(2 * 86_400_000_000, INTERVAL), DATE), rows) == [dt.date(2024, 3, 1)]
    assert result(Comparison("<", day, Literal(1_709_078_400_000_001, TIMESTAMP)), rows) == [True]
    assert result(Comparison("=", Literal(1_709_078_400_000_000, TIMESTAMP), day), rows) == [True]


def test_constants_table_is_evaluated_row_by_row() -> None:
    c0, c1, c2 = Param("c0", BIGINT), Param("c1", DOUBLE), Param("c2", STRING)
    constants = pa.table({"c0": [1, 2, None], "c1": [1.0, 0.0, 5.0], "c2": ["a%", "b%", "a%"]})
    assert evaluate_constants(Arithmetic("/", c0, c1, DOUBLE), constants).to_pylist() == [1.0, None, None]
    assert truth_of_constants(Comparison(">", c0, c1), constants).tolist() == [False, True, False]
    assert truth_of_constants(Like(Literal("abc", STRING), c2), constants).tolist() == [True, False, True]
    assert truth_of_constants(IsNull(c0), constants).tolist() == [False, False, True]
    assert truth_of_constants(Literal(True, BOOLEAN), constants).tolist() == [True] * 3
    assert evaluate_constants(Negate(Literal(2, BIGINT), BIGINT), constants).to_pylist() == [-2] * 3


def test_comparisons_of_a_million_rows_take_milliseconds() -> None:
    rng = np.random.default_rng(1)
    rows = pa.table({"d": rng.random(1_000_000), "i": rng.integers(0, 1000, 1_000_000).astype(np.int32)})
    d, i = ColumnRef(0, "d", DOUBLE), ColumnRef(0, "i", INT)
    e = And((Comparison(">=", d, Literal(0.5, DOUBLE)), Comparison("<", i, Literal(Decimal("500.5"), decimal(4, 1)))))
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        kept = truth(e, rows)
        best = min(best, time.perf_counter() - start)
    assert kept.sum() > 200_000
    assert best < 0.1  # about 3 ms on an idle core; a loop over rows would take seconds


def test_a_null_constant_makes_every_row_null_though_no_column_has_any() -> None:
    """More than eight rows: the bits of validity must not stop after the first byte."""
    rows = pa.table({"a": pa.array(range(20), pa.int64())})
    a, nothing, zero = ColumnRef(0, "a", BIGINT), Literal(None, BIGINT), Literal(0, BIGINT)
    for e in (
        Comparison("<", a, nothing),
        Not(Comparison("<", a, nothing)),
        Arithmetic("+", a, nothing, BIGINT),
        Cast(Arithmetic("+", a, nothing, BIGINT), DOUBLE),
        Arithmetic("/", a, zero, DOUBLE),
    ):
        assert evaluate(e, rows).to_pylist() == [None] * 20, e
    assert evaluate(IsNull(Comparison("<", a, nothing)), rows).to_pylist() == [True] * 20
