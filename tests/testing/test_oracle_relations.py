"""The oracle's windows, joins, groups and set operations against answers worked out by hand."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.testing.market import CATALOG, SECOND, T0, TAU, TRADE, ask, at, day, rows
from weir.algebra.schema import INT, TIMESTAMP, Catalog, Column, Stream
from weir.testing import answer
from weir.testing.arrow_types import arrow_schema


@pytest.mark.parametrize(
    ("text", "params", "expected"),
    [
        ("BEGIN NOW - INTERVAL 60 SECONDS END NOW", {}, [4, 5]),  # t = 40 is at the open end
        ("BEGIN NOW - INTERVAL '70' SECOND END NOW - INTERVAL 50 SECONDS", {}, [3, 4]),
        ("BEGIN NOW - 61 END NOW", {}, [3, 4, 5]),
        ("BEGIN NOW - :w END NOW", {"w": 61}, [3, 4, 5]),
        ("BEGIN NOW - :w END NOW", {"w": dt.timedelta(seconds=61)}, [3, 4, 5]),
        ("BEGIN NOW - :w END NOW", {"w": None}, []),
        ("BEGIN TIMESTAMP '2024-01-01 00:00:10' END NOW", {}, [1, 2, 3, 4, 5]),  # landmark
        ("BEGIN '2024-01-01 00:00:10' END '2024-01-01 00:00:30'", {}, [1, 2]),  # snapshot
        ("BEGIN 1704067230 END 1704067250", {}, [3, 4]),
        ("BEGIN :b END :e", {"b": at(9), "e": at(20)}, [0, 1]),
        ("BEGIN '2024-01-01 00:00:30' END '2024-01-01 00:00:10'", {}, []),
        ("", {}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_windows(text: str, params: dict[str, object], expected: list[int]) -> None:
    assert [r[0] for r in ask(f"SELECT id FROM trade {text}", params)] == expected


def test_windows_of_one_source() -> None:
    assert ask("SELECT id FROM trade [ROWS 2]") == [(4,), (5,)]
    assert ask("SELECT id FROM trade t [ROWS 2] WHERE id < 5") == [(4,)]  # counted before WHERE
    assert ask("SELECT id FROM trade [RANGE 51 SECONDS] t") == [(4,), (5,)]
    assert ask("SELECT id FROM trade [RANGE INTERVAL '1' MINUTE]", tau_us=T0 + 61 * SECOND)[0] == (0,)
    assert ask("SELECT id FROM trade [RANGE :w SECOND]", {"w": 41}) == [(5,)]
    assert ask("SELECT id FROM trade [ROWS 1] BEGIN NOW - INTERVAL 1 SECOND END NOW") == [(5,)]  # its own window wins
    assert ask("SELECT id FROM trade [ROWS 2]", tau_us=T0 + 35 * SECOND) == [(1,), (2,)]  # up to τ


def test_the_last_rows_are_by_time_and_then_by_arrival() -> None:
    stream = Stream("s", (Column("v", INT), Column("ts", TIMESTAMP)), "ts", None)
    data = pa.table(
        [pa.array([1, 2, 3, 4], pa.int32()), pa.array([at(5), at(9), at(5), at(1)], pa.timestamp("us", "UTC"))],
        names=["v", "ts"],
    )
    found = answer("SELECT v FROM s [ROWS 2]", None, Catalog({"s": stream}), {"s": data}, TAU)
    assert sorted(found.column(0).to_pylist()) == [2, 3]


def test_no_window_is_the_stream_s_keep() -> None:
    assert ask("SELECT bid FROM quote") == [(2,), (3,), (4,)]  # (τ − 60 s, τ]: 41, 42 and 100, but not 30 and 101
    assert ask("SELECT bid FROM quote [ROWS 9]") == [(2,), (3,), (4,)]
    assert ask("SELECT bid FROM quote", tau_us=T0 + 101 * SECOND) == [(3,), (4,), (5,)]


def test_projection() -> None:
    found = answer(
        "SELECT Big, name AS n, id, id, 7 AS seven, trade.* FROM trade WHERE id = 0", None, CATALOG, rows(), TAU
    )
    assert found.num_rows == 1
    assert found.column_names[:5] == ["Big", "n", "id", "id", "seven"]
    assert found.column_names[5:] == [c.name for c in TRADE.columns]
    assert found.schema.types[:5] == [pa.int64(), pa.string(), pa.int32(), pa.int32(), pa.int64()]
    assert found.slice(0, 1).column(12).to_pylist() == [at(10)]
    star = answer("SELECT * FROM trade", None, CATALOG, rows(), TAU)
    assert star.schema.equals(arrow_schema(TRADE))
    assert star.num_rows == 6


def test_joins() -> None:
    on_name = [(1, 2), (1, 3), (4, 2), (4, 3)]
    assert ask("SELECT t.id, q.bid FROM trade t JOIN quote q ON t.name = q.name") == on_name
    assert ask("SELECT t.id, q.bid FROM trade t, quote q WHERE q.name = t.name") == on_name
    assert ask("SELECT id, bid FROM trade t JOIN quote q USING (name)") == on_name
    assert ask("SELECT t.id, q.bid FROM trade t JOIN quote q ON t.name = q.name AND q.bid > 2 WHERE t.id = 4") == [
        (4, 3)
    ]
    band = "SELECT t.id, q.bid FROM trade t JOIN quote q ON q.bid - t.id BETWEEN 1 AND 1"
    assert ask(band) == [(1, 2), (2, 3), (3, 4)]
    assert ask("SELECT t.id, q.bid FROM trade t JOIN quote q ON t.id > q.bid + 1") == [(4, 2), (5, 2), (5, 3)]
    near = (
        "SELECT t.id, q.bid FROM trade t JOIN quote q "
        "ON t.ts BETWEEN q.ts - INTERVAL 2 SECONDS AND q.ts + INTERVAL 8 SECONDS"
    )
    assert ask(near) == [(3, 2), (3, 3), (4, 3)]
    assert ask("SELECT count(*) AS n FROM trade CROSS JOIN quote") == [(18,)]


def test_using_shows_its_column_once_and_first() -> None:
    found = answer("SELECT * FROM trade t JOIN quote q USING (name)", None, CATALOG, rows(), TAU)
    assert found.column_names == ["name", "id", "price", "Big", "fee", "flag", "day", "ts", "bid", "ts"]
    assert found.num_rows == 4


def test_self_joins_and_many_sources() -> None:
    assert ask("SELECT a.id, b.id AS other FROM trade a JOIN trade b ON a.name = b.name WHERE a.id < b.id") == [(1, 4)]
    chain = (
        "SELECT t.id, q.bid, s.company FROM trade t JOIN quote q ON t.name = q.name JOIN stock s ON s.name = q.name "
        "WHERE t.id = 1"
    )
    assert ask(chain) == [(1, 2, "Orange Ltd"), (1, 3, "Orange Ltd")]
    windows = "SELECT a.id, b.id AS other FROM trade a [ROWS 1] JOIN trade [ROWS 3] b ON a.id >= b.id"
    assert ask(windows) == [(5, 3), (5, 4), (5, 5)]
    four = (
        "SELECT count(*) AS n FROM trade a, trade b, trade c, trade d WHERE a.id = b.id AND b.id = c.id AND c.id = d.id"
    )
    assert ask(four) == [(6,)]


def test_nan_joins_nan_and_null_joins_nothing() -> None:
    assert ask("SELECT a.id, b.id AS o FROM trade a JOIN trade b ON a.price = b.price WHERE a.id IN (2, 3, 4)") == [
        (2, 2),
        (4, 4),
    ]


def test_tables_have_no_window() -> None:
    sql = "SELECT t.id, s.company FROM trade t JOIN stock s ON s.name = t.name BEGIN NOW - INTERVAL 81 SECONDS END NOW"
    assert ask(sql) == [(1, "Orange Ltd"), (4, "Orange Ltd")]


def test_distinct() -> None:
    assert ask("SELECT DISTINCT name FROM trade") == [("apple",), ("orange",), ("pear",), ("Éclair",), (None,)]
    assert len(ask("SELECT name FROM trade")) == 6
    assert ask("SELECT DISTINCT price % 1 AS r FROM trade WHERE id IN (0, 1)") == [(0.5,)]


def test_aggregates() -> None:
    sql = "SELECT count(*) AS n, count(price) AS c, count(DISTINCT name) AS d, sum(id) AS s, avg(id) AS a FROM trade"
    assert ask(sql) == [(6, 5, 4, 15, 2.5)]
    assert ask("SELECT min(id) AS a, max(name) AS b, min(ts) AS c, max(day) AS d FROM trade") == [
        (0, "Éclair", at(10), day("2024-02-29"))
    ]
    assert ask("SELECT sum(fee) AS s, avg(fee) AS a FROM trade") == [(Decimal("2.50"), Decimal("0.625"))]
    [(low, high)] = ask("SELECT min(price) AS a, max(price) AS b FROM trade")
    assert low == 0
    assert isinstance(high, float)
    assert math.isnan(high)
    assert ask("SELECT sum(big) AS s FROM trade") == [(None,)]  # overflow
    assert ask("SELECT count(*) AS n, sum(id) AS s, max(id) AS m FROM trade WHERE id > 9") == [(0, None, None)]
    types = answer(
        "SELECT sum(id) AS a, sum(fee) AS b, avg(id) AS c, min(id) AS d FROM trade", None, CATALOG, rows(), TAU
    )
    assert types.schema.types == [pa.int64(), pa.decimal128(19, 2), pa.float64(), pa.int32()]


def test_group_by_and_having() -> None:
    grouped = [("apple", 1), ("orange", 2), ("pear", 1), ("Éclair", 1), (None, 1)]
    assert ask("SELECT name, count(*) AS n FROM trade GROUP BY name") == grouped
    assert ask("SELECT name AS k, count(*) AS n FROM trade GROUP BY k") == grouped
    assert ask("SELECT name, count(*) AS n FROM trade GROUP BY 1") == grouped
    assert ask("SELECT name, count(*) AS n FROM trade GROUP BY name HAVING count(*) > 1") == [("orange", 2)]
    assert ask("SELECT name, sum(id) AS s FROM trade GROUP BY name HAVING s > 4 AND name IS NOT NULL") == [
        ("orange", 5),
        ("Éclair", 5),
    ]
    assert ask("SELECT id % 2 AS odd, max(id) - min(id) AS d FROM trade GROUP BY id % 2") == [(0, 4), (1, 4)]
    assert ask("SELECT count(*) AS n FROM trade HAVING count(*) > 6") == []
    assert ask("SELECT name FROM trade WHERE id > 9 GROUP BY name") == []


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("UNION", ["apple", "orange", "pear", "Éclair", None]),
        ("UNION ALL", ["apple", "orange", "orange", "orange", "orange", "pear", "Éclair", None, None]),
        ("EXCEPT", ["apple", "pear", "Éclair"]),
        ("EXCEPT ALL", ["apple", "pear", "Éclair"]),
        ("INTERSECT", ["orange", None]),
        ("INTERSECT ALL", ["orange", "orange", None]),
    ],
)
def test_set_operations(operation: str, expected: list[str | None]) -> None:
    assert [r[0] for r in ask(f"SELECT name FROM trade {operation} SELECT name FROM quote")] == expected


def test_set_operations_count_duplicates() -> None:
    three = "SELECT 1 AS x FROM trade WHERE id < 3"
    one = "SELECT 1 AS x FROM trade WHERE id < 1"
    assert ask(f"{three} EXCEPT ALL {one}") == [(1,), (1,)]
    assert ask(f"{three} INTERSECT ALL {one}") == [(1,)]
    assert ask(f"{three} EXCEPT {one}") == []
    assert ask(f"{one} UNION {three} INTERSECT SELECT 2 AS x FROM trade") == [(1,)]  # INTERSECT binds tighter
    assert ask(f"({one} UNION {three}) INTERSECT SELECT 2 AS x FROM trade") == []
    assert ask("SELECT id FROM trade WHERE id < 2 UNION ALL SELECT bid FROM quote WHERE bid < 3") == [(0,), (1,), (2,)]
    assert ask("SELECT id FROM trade UNION ALL SELECT bid FROM quote BEGIN NOW - INTERVAL 50 SECONDS END NOW") == [
        (4,),
        (5,),
    ]
