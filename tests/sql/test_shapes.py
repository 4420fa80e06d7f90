"""Shapes: one text for queries that differ only in constants or in the order of commutative parts.

Random queries of the whole grammar come from weir.testing; what a shape means is asked of the oracle (DuckDB).
"""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.generators import domains
from tests.generators.queries import RandomQuery, random_query
from tests.generators.schemas import random_catalog
from tests.generators.streams import random_rows
from tests.marks import few_are_quick
from tests.sql.market import SETTINGS, lowered
from tests.sql.shuffle import reordered, with_other_constants
from tests.sql.slots import param_types, slot_values
from weir.algebra.format import sql_text
from weir.algebra.nodes import Literal, Param, Query
from weir.algebra.schema import BIGINT, DOUBLE, INTERVAL, Catalog, DataType, decimal
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.sql.shapes import Shape, shape_of
from weir.testing.bags import differ
from weir.testing.oracle import answer

TAU_US = domains.START_US + domains.SPAN_US
SEEDS = range(160)


def drawn(seed: int) -> tuple[Catalog, RandomQuery, Query]:
    catalog = random_catalog(seed // 8)
    query = random_query(catalog, seed)
    return catalog, query, lower(parse(query.text, SETTINGS), catalog, param_types(query.params))


def rows_for(catalog: Catalog, seed: int) -> dict[str, pa.Table]:
    relations = (*catalog.streams.values(), *catalog.tables.values())
    return {r.name.lower(): random_rows(r, 20, seed, extremes=0) for r in relations}


def shape(text: str) -> Shape:
    return shape_of(lowered(text))


@pytest.mark.parametrize("chunk", few_are_quick(range(8), quick=1))
def test_a_shape_is_sql_for_the_same_query(chunk: int) -> None:
    for seed in SEEDS[chunk::8]:
        catalog, query, algebra = drawn(seed)
        found = shape_of(algebra)
        again = lower(parse(found.text, SETTINGS), catalog, found.param_types)
        assert replace(again, text="") == replace(found.query, text=""), f"seed {seed}: {found.text}"
        assert shape_of(again).text == found.text, f"seed {seed}"
        rows = rows_for(catalog, seed)
        expected = answer(query.text, query.params, catalog, rows, TAU_US)
        got = answer(found.text, slot_values(found.slots, query.params), catalog, rows, TAU_US)
        difference = differ(expected, got, approximate=query.approximate)
        assert difference is None, f"seed {seed}: {query.text}\n{found.text}\n{difference}"


@pytest.mark.parametrize("chunk", few_are_quick(range(4), quick=1))
def test_order_and_constants_do_not_matter(chunk: int) -> None:
    for seed in SEEDS[chunk::4]:
        rng = random.Random(seed)
        catalog, query, algebra = drawn(seed)
        found = shape_of(algebra)
        for _ in range(3):
            other = reordered(algebra, rng)
            shuffled = shape_of(other)
            assert shuffled.text == found.text, f"seed {seed}: {query.text}\nreordered: {sql_text(other)}"
            assert sorted(map(repr, shuffled.slots)) == sorted(map(repr, found.slots)), f"seed {seed}"
            assert shape_of(with_other_constants(other, rng)).text == found.text, f"seed {seed}: {query.text}"
        # Slot i has one role: the reordered query's slots in the first one's text give the same answer.
        rows = rows_for(catalog, seed)
        values = [slot_values(s.slots, query.params) for s in (found, shuffled)]
        answers = [answer(found.text, v, catalog, rows, TAU_US) for v in values]
        difference = differ(*answers, approximate=query.approximate)
        assert difference is None, f"seed {seed}: {found.text}\n{difference}"


SAME = [
    (
        "SELECT name FROM trade WHERE price > 5 AND qty < 3",
        "SELECT x.NAME FROM Trade x WHERE 7 > qty AND (price > 1.5)",
    ),
    ("SELECT name FROM trade WHERE price BETWEEN 1 AND 2", "SELECT name FROM trade WHERE price <= 5 AND price >= 3"),
    (
        "SELECT name FROM trade WHERE price IN (1, 2, 3)",
        "SELECT name FROM trade WHERE price = 3 OR (price = 1 OR price = 2)",
    ),
    ("SELECT name FROM trade WHERE price < 10 + 5", "SELECT name FROM trade WHERE price < -abs(2 * 3)"),
    ("SELECT name FROM trade WHERE price > :p", "SELECT name FROM trade WHERE :q < price"),
    ("SELECT name FROM trade [RANGE 1 HOUR]", "SELECT name FROM trade t BEGIN NOW - 60 END NOW"),
    ("SELECT name FROM trade [RANGE :w MINUTES]", "SELECT name FROM trade BEGIN NOW - INTERVAL :n HOURS END NOW"),
    ("SELECT name FROM trade [ROWS 5]", "SELECT name FROM trade t [ROWS :n]"),
    (
        "SELECT t.name FROM trade t JOIN weather w ON t.area = w.area WHERE w.category > 4",
        "SELECT b.name FROM weather a, trade b WHERE a.category > 1 AND a.area = b.area",
    ),
    (
        "SELECT a.price FROM trade a, trade b WHERE a.price < b.price AND b.qty = 1",
        "SELECT y.price FROM trade x, trade y WHERE x.qty = 2 AND x.price > y.price",
    ),
    (
        "SELECT area, count(*) AS n FROM trade GROUP BY area HAVING count(*) > 3 AND max(price) < 7",
        "SELECT area, count(*) AS n FROM trade GROUP BY 1 HAVING max(price) < 1e9 AND n > 0",
    ),
    (
        "SELECT area FROM trade WHERE qty = 1 UNION SELECT area FROM weather",
        "SELECT area FROM weather UNION SELECT area FROM trade WHERE qty = 2",
    ),
    (
        "SELECT t.name FROM trade t, weather w WHERE t.qty + 1 = w.category AND w.category > 4",
        "SELECT t.name FROM weather w, trade t WHERE w.category > 7 AND w.category = 1 + t.qty",
    ),
    (
        "SELECT t.name FROM trade t, weather w WHERE t.area = w.area AND (t.qty + 1 = w.category OR urgent)",
        "SELECT t.name FROM trade t, weather w WHERE t.area = w.area AND (t.qty + 2 = w.category OR urgent)",
    ),
    ("SELECT qty + 1 AS k FROM trade GROUP BY qty + 1", "SELECT 2 + qty AS k FROM trade GROUP BY k"),
    ("SELECT name FROM trade WHERE price = 5", "SELECT name FROM trade WHERE price = NULL"),
    ("SELECT 1 AS x FROM trade GROUP BY qty + volume, volume + qty", "SELECT 2 AS x FROM trade GROUP BY qty + volume"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same_shape(one: str, other: str) -> None:
    assert shape(one).text == shape(other).text


DIFFERENT = [
    ("SELECT name FROM trade WHERE price > 5", "SELECT name FROM trade WHERE price >= 5"),
    ("SELECT name FROM trade WHERE price > 5", "SELECT name FROM trade WHERE qty > 5"),
    ("SELECT name FROM trade WHERE price - 5 > qty", "SELECT name FROM trade WHERE 5 - price > qty"),
    ("SELECT name FROM trade WHERE price IN (1, 2)", "SELECT name FROM trade WHERE price IN (1, 2, 3)"),
    ("SELECT name FROM trade", "SELECT name AS n FROM trade"),
    ("SELECT name, area FROM trade", "SELECT area, name FROM trade"),
    (
        "SELECT area FROM trade EXCEPT SELECT area FROM weather",
        "SELECT area FROM weather EXCEPT SELECT area FROM trade",
    ),
    (
        "SELECT area FROM trade UNION SELECT area FROM weather",
        "SELECT area FROM trade UNION ALL SELECT area FROM weather",
    ),
    ("SELECT name FROM trade [RANGE 1 HOUR]", "SELECT name FROM trade [ROWS 1]"),
    ("SELECT name FROM trade [RANGE 1 HOUR]", "SELECT name FROM trade BEGIN 0 END NOW"),
    ("SELECT name FROM trade BEGIN NOW - 9 END NOW", "SELECT name FROM trade BEGIN NOW - 9 END NOW - 1"),
    (
        "SELECT name FROM trade WHERE (price > 1 OR qty > 1) AND urgent",
        "SELECT name FROM trade WHERE price > 1 OR qty > 1 AND urgent",
    ),
    # What says which rows meet belongs to the shape.
    (
        "SELECT t.name FROM trade t, weather w WHERE t.qty + 1 = w.category",
        "SELECT t.name FROM trade t, weather w WHERE t.qty + 2 = w.category",
    ),
    (
        "SELECT t.name FROM trade t, weather w WHERE NOT (t.urgent OR t.qty % 3 <> w.category)",
        "SELECT t.name FROM trade t, weather w WHERE NOT (t.urgent OR t.qty % 4 <> w.category)",
    ),
    (
        "SELECT t.name FROM trade t, weather w WHERE t.urgent = (w.area = 'north')",
        "SELECT t.name FROM trade t, weather w WHERE t.urgent = (w.area = 'it\\'s :c0')",
    ),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_shapes(one: str, other: str) -> None:
    assert shape(one).text != shape(other).text


@pytest.mark.parametrize("sql", [sql for pair in (*SAME, *DIFFERENT) for sql in pair])
def test_shapes_are_read_back(sql: str) -> None:
    found = shape(sql)
    again = lowered(found.text, found.param_types)
    assert replace(again, text="") == replace(found.query, text="")


def test_the_text_of_a_shape() -> None:
    found = shape(
        "SELECT t.name, t.price * 2 AS double_price FROM trade t JOIN weather w ON t.area = w.area "
        "WHERE 25 > t.price AND w.category > 4 AND t.name = :name BEGIN NOW - INTERVAL 1 HOUR END NOW"
    )
    assert found.text == (
        "SELECT s0.name, s0.price * :c0 AS double_price "
        "FROM trade [BEGIN NOW + :c1 END NOW] s0, weather [BEGIN NOW + :c2 END NOW] s1 "
        "WHERE s0.area = s1.area AND s0.name = :c3 AND s0.price < :c4 AND s1.category > :c5"
    )
    hour_us = 3_600_000_000
    assert [s.value if isinstance(s, Literal) else s.name for s in found.slots] == [
        2.0,
        -hour_us,
        -hour_us,
        "name",
        25.0,
        4,
    ]
    assert [str(t) for t in found.types] == ["double", "interval", "interval", "string", "double", "bigint"]


@pytest.mark.parametrize(
    ("condition", "value", "type_"),
    [
        ("price > 5", 5.0, DOUBLE),
        ("price > 0.1", 0.1, DOUBLE),
        ("price > 9007199254740993", 9007199254740992.0, DOUBLE),
        ("qty > 5", 5, BIGINT),
        ("qty > 5.0", 5, BIGINT),
        ("qty > 5e0", 5, BIGINT),
        ("qty > 9223372036854775807", 2**63 - 1, BIGINT),
        ("qty < 9223372036854775808", Decimal(2**63), decimal(19, 0)),
        ("qty < 99999999999999999999", Decimal(10**20 - 1), decimal(20, 0)),
        ("qty < 1e300", 1e300, DOUBLE),
        ("fee = 5", Decimal("5.00"), decimal(18, 2)),
        ("fee = 5.25", Decimal("5.25"), decimal(18, 2)),
        ("fee = 5.255", Decimal("5.255"), decimal(4, 3)),
        ("ts - ts < INTERVAL 2 HOURS", 7_200_000_000, INTERVAL),
    ],
)
def test_a_constant_takes_the_type_it_meets_when_that_is_exact(condition: str, value: object, type_: DataType) -> None:
    (slot,) = shape(f"SELECT name FROM trade WHERE {condition}").slots
    assert slot == Literal(value, type_)


def test_a_parameter_used_twice_has_two_slots() -> None:
    found = shape("SELECT name FROM trade WHERE price > :p AND qty > :p")
    assert found.slots == (Param("p", DOUBLE), Param("p", BIGINT))
