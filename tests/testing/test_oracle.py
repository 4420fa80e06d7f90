"""The oracle's scalar semantics against values worked out by hand: conditions, expressions, casts, parameters."""

from __future__ import annotations

import datetime as dt
import math
import random
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.testing.market import TAU, ask, at, day, ids, value
from weir.algebra.schema import STRING, TIMESTAMP, Catalog, Column, Stream, decimal
from weir.testing import answer


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("name = 'orange'", [1, 4]),
        ("name <> 'orange'", [0, 2, 5]),
        ("name < 'p'", [0, 1, 4]),  # É is above all ASCII letters, by bytes
        ("name >= 'pear'", [2, 5]),
        ("price = 0", [4]),  # −0.0 equals 0.0
        ("price < 2", [0, 4]),
        ("price > 2.5", [2, 5]),  # NaN is above everything
        ("price >= 2.5e0", [1, 2, 5]),
        ("price <> 2.5", [0, 2, 4, 5]),
        ("price = price", [0, 1, 2, 4, 5]),  # NaN equals NaN
        ("Big = 9007199254740993", [1]),
        ("big = 9007199254740992e0", []),  # not through a double, where they would be equal
        ("BIG > 9007199254740992e0", [1, 4]),
        ("big < 9223372036854775808", [0, 1, 2, 4, 5]),  # beyond 64 bits: a double constant
        ("big > 9.5", [0, 1, 4]),
        ("big = 10.0", [0]),
        ("big = 9.99", []),
        ("big < 0.5e0", [2, 5]),
        ("fee = 1.25", [0]),
        ("fee = 1.25e0", [0]),
        ("fee < 1.251", [0, 4, 5]),
        ("fee >= 1", [0, 1]),
        ("fee = 0", [5]),
        ("flag", [0, 4]),
        ("NOT flag", [1, 5]),
        ("flag = FALSE", [1, 5]),
        ("flag > FALSE", [0, 4]),
        ("day = DATE '2024-02-29'", [4]),
        ("day < '2024-01-02'", [0, 5]),
        ("ts > TIMESTAMP '2024-01-01 00:00:30'", [3, 4, 5]),
        ("ts = '2024-01-01T01:00:10+01:00'", [0]),
        ("ts >= day", [0, 5]),  # a date is its midnight
        ("25 < id + 21", [5]),
        ("id BETWEEN 1 AND 3", [1, 2, 3]),
        ("id BETWEEN 3 AND 1", []),
        ("id NOT BETWEEN 1 AND 4", [0, 5]),
        ("id BETWEEN NULL AND 3", []),
        ("NOT id BETWEEN NULL AND 3", [4, 5]),  # FALSE AND unknown is FALSE
        ("id IN (1, 2, 9)", [1, 2]),
        ("id IN (1, NULL)", [1]),
        ("id NOT IN (1, NULL)", []),
        ("id NOT IN (1, 2, 3)", [0, 4, 5]),
        ("name LIKE 'ap%'", [0]),
        ("name LIKE '%r%'", [1, 2, 4, 5]),
        ("name LIKE '_clair'", [5]),  # one character, not one byte
        ("name LIKE 'APPLE'", []),
        ("name NOT LIKE '%e'", [2, 5]),
        ("NOT name NOT LIKE '%e'", [0, 1, 4]),
        ("name IS NULL", [3]),
        ("name IS NOT NULL", [0, 1, 2, 4, 5]),
        ("(price > 2) IS NULL", [3]),
        ("id = 0 OR id = 1 AND id = 2", [0]),
        ("NOT (id = 0 OR price > 1)", [4]),
        ("name = NULL", []),
        ("name = NULL OR id = 2", [2]),
        ("TRUE = TRUE", [0, 1, 2, 3, 4, 5]),
        ("price = big", []),
        ("price < big", [0, 1, 4]),  # columns of different kinds are compared as doubles
        ("fee < big", [0, 1, 4]),
        ("ts - INTERVAL 30 SECONDS > TIMESTAMP '2024-01-01'", [3, 4, 5]),
        ("ts - TIMESTAMP '2024-01-01' <= INTERVAL '20' SECOND", [0, 1]),
        ("day + INTERVAL 1 DAY = DATE '2024-01-02'", [0]),
        ("day - INTERVAL 1 WEEK < DATE '1969-12-25'", [5]),
    ],
)
def test_where(where: str, expected: list[int]) -> None:
    assert ids(where) == expected


@pytest.mark.parametrize(
    ("expression", "id_", "expected"),
    [
        ("id + 2147483647", 1, 2**31),  # int is widened first
        ("big + 1", 4, None),
        ("big - 1", 4, 2**63 - 2),
        ("-big - 1", 4, None),  # −2^63 is reserved
        ("big * big", 1, None),
        ("big * 3", 0, 30),
        ("-id", 4, -4),
        ("abs(big)", 2, 5),
        ("id / 2", 1, 0.5),
        ("id / 0", 1, None),
        ("id % 0", 1, None),
        ("price / 0", 1, None),
        ("price % 0e0", 1, None),
        ("big % 3", 2, -2),
        ("big % -3", 0, 1),
        ("fee % 1", 4, Decimal("-0.25")),
        ("price % 2", 1, 0.5),
        ("price - price", 5, math.nan),
        ("price * 2", 5, math.inf),
        ("fee + 1", 0, Decimal("2.25")),
        ("fee * 1.5", 0, Decimal("1.875")),
        ("fee * fee", 1, Decimal("6.2500")),
        ("fee * fee * 1.5", 1, Decimal("9.37500")),
        ("fee + big", 0, Decimal("11.25")),
        ("fee / 2", 1, Decimal("1.250000")),
        ("-fee", 4, Decimal("1.25")),
        ("abs(fee)", 4, Decimal("1.25")),
        ("fee + NULL", 0, None),
        ("day + INTERVAL 1 DAY", 4, day("2024-03-01")),
        ("day - INTERVAL 1 DAY", 5, day("1969-12-30")),
        ("ts + INTERVAL 1 MINUTE", 0, at(70)),
        ("INTERVAL 1 SECOND + ts", 0, at(11)),
        ("ts - INTERVAL '1' MICROSECOND", 0, at(9.999999)),
        ("CAST(price AS int)", 1, 2),
        ("CAST(price AS bigint)", 2, None),  # NaN
        ("CAST(price AS bigint)", 5, None),  # infinity
        ("CAST(-1.99 AS int)", 0, -1),
        ("CAST(fee AS int)", 4, -1),
        ("CAST(fee AS decimal(9,1))", 0, Decimal("1.3")),
        ("CAST(fee AS decimal(9,1))", 4, Decimal("-1.3")),
        ("CAST(big AS int)", 1, None),
        ("CAST(big AS double)", 1, 2.0**53),
        ("CAST(id AS string)", 4, "4"),
        ("CAST(flag AS int)", 0, 1),
        ("CAST(ts AS date)", 0, day("2024-01-01")),
        ("CAST(day AS timestamp)", 0, at(0)),
        ("CAST('NaN' AS double)", 0, math.nan),
        ("CAST('2024-01-01' AS date)", 0, day("2024-01-01")),
        ("id > 1", 0, False),
        ("name = 'x'", 3, None),
        ("1.50", 0, Decimal("1.50")),
        ("1.5e0", 0, 1.5),
        ("'it\\'s'", 0, "it's"),
        ("(id + 1) * 2", 2, 6),
    ],
)
def test_expressions(expression: str, id_: int, expected: object) -> None:
    found = value(expression, id_)
    if isinstance(expected, float) and math.isnan(expected):
        assert isinstance(found, float)
        assert math.isnan(found)
    else:
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize("scale", [0, 3, 9, 17, 18])
def test_decimals_become_the_nearest_double(scale: int) -> None:
    rng = random.Random(scale)
    exact = [Decimal(rng.randint(-(10**18) + 1, 10**18 - 1)).scaleb(-scale) for _ in range(500)]
    stream = Stream("s", (Column("d", decimal(18, scale)), Column("ts", TIMESTAMP)), "ts", None)
    times = pa.array([at(1)] * len(exact), pa.timestamp("us", "UTC"))
    data = pa.table([pa.array(exact, pa.decimal128(18, scale)), times], names=["d", "ts"])
    found = answer("SELECT CAST(d AS double) AS x FROM s", None, Catalog({"s": stream}), {"s": data}, TAU)
    assert found.column(0).to_pylist() == [float(d) for d in exact]


def test_like_escapes() -> None:
    stream = Stream("s", (Column("v", STRING), Column("ts", TIMESTAMP)), "ts", None)
    values = ["a_c", "abc", "a%c", "a\\c", "a\nc", ""]
    data = pa.table([pa.array(values), pa.array([at(1)] * 6, pa.timestamp("us", "UTC"))], names=["v", "ts"])

    def like(pattern: str) -> list[str]:
        found = answer("SELECT v FROM s WHERE v LIKE :p", {"p": pattern}, Catalog({"s": stream}), {"s": data}, TAU)
        return found.column(0).to_pylist()

    assert like("a_c") == ["a_c", "abc", "a%c", "a\\c", "a\nc"]
    assert like("a\\_c") == ["a_c"]
    assert like("a\\%c") == ["a%c"]
    assert like("a\\\\c") == ["a\\c"]
    assert like("") == [""]
    assert like("%") == values


@pytest.mark.parametrize(
    ("where", "params", "expected"),
    [
        ("price > :p", {"p": 2.5}, [2, 5]),
        ("price = :p", {"p": math.nan}, [2]),
        ("big < :p", {"p": math.nan}, [0, 1, 2, 4, 5]),
        ("big >= :p", {"p": math.inf}, []),
        ("big > :p", {"p": -math.inf}, [0, 1, 2, 4, 5]),
        ("big = :p", {"p": 2.0**53}, []),
        ("fee = :p", {"p": Decimal("2.5")}, [1]),
        ("fee = :p", {"p": pa.scalar(Decimal("2.500"), pa.decimal128(12, 3))}, [1]),
        ("fee BETWEEN :lo AND :hi", {"lo": 0.0, "hi": 1.3}, [0, 5]),
        ("fee BETWEEN :lo AND :hi", {"lo": 1.3, "hi": 0.0}, []),
        ("name = :p", {"p": "orange"}, [1, 4]),
        ("name = :p", {"p": None}, []),
        ("name IN (:a, :b)", {"a": "pear", "b": None}, [2]),
        ("flag = :p", {"p": True}, [0, 4]),
        ("day = :p", {"p": day("2024-01-02")}, [1]),
        ("day = :p", {"p": "2024-01-02"}, [1]),
        ("ts <= :p", {"p": at(20)}, [0, 1]),
        ("ts <= :p", {"p": pa.scalar(at(20), pa.timestamp("ms", "UTC"))}, [0, 1]),
        ("ts - TIMESTAMP '2024-01-01' < :p", {"p": dt.timedelta(seconds=20)}, [0]),
        ("ts - TIMESTAMP '2024-01-01' < INTERVAL :n SECOND", {"n": 21}, [0, 1]),
        ("ts - TIMESTAMP '2024-01-01' < :n", {"n": 21}, [0, 1]),  # a number counts seconds
        ("name LIKE :p", {"p": "%a%"}, [0, 1, 2, 4, 5]),
    ],
)
def test_parameters(where: str, params: dict[str, object], expected: list[int]) -> None:
    assert ids(where, params) == expected


def test_a_missing_duckdb_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.testing import oracle

    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delattr(oracle._local, "connection", raising=False)
    with pytest.raises(ImportError, match=r"weir\[testing\]"):
        ask("SELECT id FROM trade")
