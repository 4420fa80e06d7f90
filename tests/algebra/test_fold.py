"""Constant folding against the oracle: a constant expression is what DuckDB says it is."""

from __future__ import annotations

import datetime as dt
import math
import random

import pyarrow as pa
import pytest

from tests.sql.market import CATALOG, lowered
from tests.sql.slots import arrow_type
from weir.algebra.fold import fold, fold_one, like
from weir.algebra.nodes import Arithmetic, Cast, ColumnRef, Literal, Project
from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP
from weir.testing.oracle import answer

NUMBERS = (
    "0",
    "1",
    "7",
    "3",
    "2.5",
    "0.10",
    "1e3",
    "9223372036854775807",
    "1.5e300",
    "123456789012.5",
    "CAST('inf' AS double)",
)
PATTERNS = ("a%", "_b_", "%c%", "a\\%c", "")
TRUTHS = ("TRUE", "FALSE", "NULL")


def number(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(NUMBERS)
    kind = rng.randrange(8)
    if kind == 0:
        return f"-({number(rng, depth - 1)})"
    if kind == 1:
        return f"abs({number(rng, depth - 1)})"
    if kind == 2:
        return f"CAST({number(rng, depth - 1)} AS {rng.choice(('int', 'bigint', 'double', 'decimal(9,2)'))})"
    return f"({number(rng, depth - 1)} {rng.choice('+-*/%')} {number(rng, depth - 1)})"


def truth(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(TRUTHS)
    kind = rng.randrange(7)
    if kind == 0:
        return f"NOT ({truth(rng, depth - 1)})"
    if kind == 1:
        return f"({truth(rng, depth - 1)}) IS NULL" if rng.random() < 0.5 else f"({number(rng, 2)}) IS NULL"
    if kind == 2:
        return f"'{rng.choice(('abc', 'a%c', ''))}' LIKE '{rng.choice(PATTERNS)}'"
    if kind in (3, 4):
        return f"({truth(rng, depth - 1)}) {rng.choice(('AND', 'OR'))} ({truth(rng, depth - 1)})"
    return f"{number(rng, 2)} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {number(rng, 2)}"


def value_of(sql: str) -> Literal:
    root = lowered(f"SELECT {sql} AS x FROM stock").root
    assert isinstance(root, Project)
    (_, e) = root.columns[0]
    assert isinstance(e, Literal), f"{sql} is not folded: {e}"
    return e


def said_by_duckdb(sql: str) -> object:
    one = pa.table({"symbol": ["a"], "company": ["b"], "rating": pa.array([1], pa.int32())})
    return answer(f"SELECT {sql} AS x FROM stock", {}, CATALOG, {"stock": one}, 0).column(0)[0].as_py()


@pytest.mark.parametrize("seed", range(150))
def test_constant_expressions(seed: int) -> None:
    rng = random.Random(seed)
    sql = number(rng, 3) if seed % 2 else f"CAST(({truth(rng, 3)}) AS int)"
    folded = value_of(sql)
    expected = said_by_duckdb(sql)
    got = pa.scalar(folded.value, arrow_type(folded.type)).as_py()
    if isinstance(expected, float) and isinstance(got, float):
        same = (math.isnan(expected) and math.isnan(got)) or expected == got
        assert same, f"{sql}: DuckDB says {expected}, folded {got}"
    else:
        assert got == expected, sql


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("9223372036854775807 + 1", None),
        ("-9223372036854775807 - 1", -(2**63)),
        ("5 / 0", None),
        ("5 % 0", None),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("CAST(2.5 AS int)", 2),
        ("CAST(-2.5 AS decimal(5, 0))", -3),
        ("CAST(1e10 AS int)", None),
        ("CAST('nan' AS double) = CAST('nan' AS double)", True),
        ("CAST('nan' AS double) > CAST('inf' AS double)", True),
        ("0.1 = 1e-1", False),  # exactly, a tenth is no double
        ("9007199254740993 = 9007199254740992e0", False),
        ("'b' > 'B'", True),
        ("TIMESTAMP '2026-01-31 00:00:00' + INTERVAL 1 DAY = DATE '2026-02-01'", True),
        ("DATE '2026-01-31' + INTERVAL 1 DAY", dt.date(2026, 2, 1)),
        ("TRUE OR NULL", True),
        ("FALSE AND NULL", False),
    ],
)
def test_value(sql: str, value: object) -> None:
    assert value_of(sql).value == value


def test_what_has_no_literal_stays() -> None:
    late = Literal(2**63 - 1, TIMESTAMP)
    moved = Arithmetic("+", late, Literal(1, BIGINT), TIMESTAMP)
    assert fold(moved) == moved


def test_nothing_but_constants_is_folded() -> None:
    price = ColumnRef(0, "price", DOUBLE)
    kept = Arithmetic("*", price, Literal(0.0, DOUBLE), DOUBLE)
    assert fold(kept) is kept
    inner = Arithmetic("+", Literal(1.0, DOUBLE), Literal(2.0, DOUBLE), DOUBLE)
    assert fold(Arithmetic("+", price, inner, DOUBLE)) == Arithmetic("+", price, Literal(3.0, DOUBLE), DOUBLE)


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("", "", True),
        ("", "%", True),
        ("", "_", False),
        ("a", "", False),
        ("abc", "a%", True),
        ("abc", "%b", False),
        ("abc", "%b%", True),
        ("aXbXc", "a%b%c", True),
        ("ab\ncd", "a_\n%", True),
        ("a%c", "a\\%c", True),
        ("abc", "a\\%c", False),
        ("a\\", "a\\\\", True),
        ("a\\", "a\\", True),
        ("é", "_", True),
        ("aab", "%ab", True),
        ("mississippi", "%iss%ip%i", True),
    ],
)
def test_like(text: str, pattern: str, matches: bool) -> None:
    assert like(text, pattern) is matches


def test_like_has_no_bad_patterns() -> None:
    assert not like("a" * 2_000, "%a" * 500 + "b")


def test_types_of_folded_truths() -> None:
    assert value_of("CAST((1 = 1) AS int)").value == 1
    assert Literal("x", STRING).type is STRING
    assert value_of("NOT (1 > 2)") == Literal(True, BOOLEAN)


@pytest.mark.parametrize(
    ("value", "folded"), [(-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1), (2**31, None), (-(2**31) - 1, None)]
)
def test_an_int_holds_both_its_ends(value: int, folded: int | None) -> None:
    cast = fold_one(Cast(Literal(value, BIGINT), INT))
    assert isinstance(cast, Literal)
    assert cast.value == folded
