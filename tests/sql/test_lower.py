"""Lowering: the algebra that a text becomes, types, names, parameters."""

from __future__ import annotations

import pytest

from tests.sql.golden import FIXTURES, check
from tests.sql.market import CATALOG, SETTINGS, lowered
from weir.algebra.format import expression_text, tree_text
from weir.algebra.nodes import Bound, Expression, GroupBy, Join, Literal, Param, Project, Select, Window, walk
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    DataType,
    Kind,
    decimal,
)
from weir.errors import RegisterError
from weir.sql.lower import lower
from weir.sql.parse import parse


def test_trees() -> None:
    check(FIXTURES / "lowering.txt", lambda sql: tree_text(lowered(sql)))


def output(sql: str) -> list[tuple[str, str]]:
    return [(c.name, str(c.type)) for c in lowered(sql).output]


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("qty + qty", BIGINT),
        ("qty * volume", BIGINT),
        ("-qty", BIGINT),
        ("abs(qty)", BIGINT),
        ("qty % 3", BIGINT),
        ("qty / 2", DOUBLE),
        ("fee / fee", decimal(23, 13)),
        ("fee % 2", decimal(3, 2)),
        ("price + fee", DOUBLE),
        ("price + 1.5", DOUBLE),
        ("fee + fee", decimal(11, 2)),
        ("fee - 1.125", decimal(12, 3)),
        ("fee + 100", decimal(11, 2)),
        ("fee * 1.5", decimal(13, 3)),
        ("fee * qty", decimal(21, 2)),
        ("fee + qty", decimal(13, 2)),
        ("fee + volume", decimal(23, 2)),
        ("fee * fee", decimal(21, 4)),
        ("-fee", decimal(10, 2)),
        ("CAST(price AS int)", INT),
        ("CAST(qty AS string)", STRING),
        ("CAST(ts AS date)", DATE),
        ("CAST(NULL AS decimal(5, 1))", decimal(5, 1)),
        ("'x'", STRING),
        ("5", BIGINT),
        ("99999999999999999999", decimal(20, 0)),
        ("1.50", decimal(3, 2)),
        ("1.2345678901234567890", decimal(20, 19)),
        ("1e3", DOUBLE),
        ("price > 5", BOOLEAN),
        ("ts - INTERVAL 1 DAY", TIMESTAMP),
        ("INTERVAL 1 DAY + day", DATE),
        ("CAST('2026-01-31' AS timestamp)", TIMESTAMP),
        ("count(*)", BIGINT),
        ("sum(qty)", BIGINT),
        ("sum(fee)", decimal(20, 2)),
        ("sum(price)", DOUBLE),
        ("avg(fee)", decimal(14, 6)),
        ("min(day)", DATE),
        ("max(name)", STRING),
        ("count(DISTINCT price) * 2", BIGINT),
    ],
)
def test_type(expression: str, type_: DataType) -> None:
    (column,) = lowered(f"SELECT {expression} AS x FROM trade").output
    assert column.type == type_


def test_names_of_columns() -> None:
    assert output("SELECT NAME, t.Price AS `the price`, qty + 1, price FROM trade T WHERE t.QTY > 1") == [
        ("name", "string"),
        ("the price", "double"),
        ("_c2", "bigint"),
        ("price", "double"),
    ]
    assert [n for n, _ in output("SELECT count(*), sum(price), count(DISTINCT area), max(price + 1) FROM trade")] == [
        "count(*)",
        "sum(price)",
        "count(DISTINCT area)",
        "_c3",
    ]


def test_names_of_the_answer_are_unique() -> None:
    names = [n for n, _ in output("SELECT a.area, b.*, a.ts, 1 AS ts_2 FROM trade a, weather b")]
    assert names == ["area", "area_2", "category", "wind", "ts", "ts_3", "ts_2"]
    assert [n for n, _ in output("SELECT name, area AS name FROM trade")] == ["name_2", "name"]


def test_using_merges_columns() -> None:
    names = [n for n, _ in output("SELECT * FROM weather w JOIN trade t USING (area, ts) JOIN weather v USING (area)")]
    assert names[:4] == ["area", "ts", "category", "wind"]
    assert names[4:] == ["name", "price", "qty", "volume", "fee", "urgent", "day", "category_2", "wind_2", "ts_2"]
    query = lowered("SELECT area FROM weather w JOIN trade t USING (area) WHERE t.area = 'x'")
    assert "project w.area" in tree_text(query)


def predicate(sql: str, types: dict[str, DataType] | None = None) -> Expression:
    root = lowered(sql, types).root
    assert isinstance(root, (Project, GroupBy))
    assert isinstance(root.child, (Select, Join))
    assert root.child.predicate is not None
    return root.child.predicate


@pytest.mark.parametrize(
    ("condition", "given", "inferred"),
    [
        ("price > :p", None, DOUBLE),
        (":p < qty", None, BIGINT),
        ("fee = :p", None, decimal(18, 2)),
        ("name IN ('a', :p)", None, STRING),
        ("name LIKE :p", None, STRING),
        (":p", None, BOOLEAN),
        ("NOT :p", None, BOOLEAN),
        ("day BETWEEN :p AND '2026-01-31'", None, DATE),
        ("ts > :p - INTERVAL 5 SECONDS", None, TIMESTAMP),
        ("ts > ts - :p", None, INTERVAL),
        ("ts - :p < INTERVAL 5 SECONDS", None, TIMESTAMP),
        ("ts - ts < :p", None, INTERVAL),
        ("price < (:p + 1) * 2", None, DOUBLE),
        ("price < -:p", None, DOUBLE),
        ("qty + :p > 3", None, BIGINT),
        ("abs(price - :p) < 3", None, DOUBLE),
        ("CAST(:p AS date) = day", None, DATE),
        ("price > :p", INT, DOUBLE),
        ("price > :p", decimal(5, 1), DOUBLE),
        ("qty > :p", INT, BIGINT),
        ("qty > :p", DOUBLE, DOUBLE),
        ("qty > :p", decimal(5, 1), decimal(5, 1)),
        ("fee > :p", decimal(5, 1), decimal(18, 2)),
        ("fee > :p", decimal(5, 4), decimal(5, 4)),
        ("fee > :p", BIGINT, BIGINT),
        ("ts > :p", STRING, TIMESTAMP),
        ("ts > :p", DATE, TIMESTAMP),
        ("day > :p", STRING, DATE),
        ("ts < ts + :p", BIGINT, INTERVAL),
        ("ts - ts < :p", DOUBLE, INTERVAL),
    ],
)
def test_type_of_a_parameter(condition: str, given: DataType | None, inferred: DataType) -> None:
    found = predicate(f"SELECT 1 AS one FROM trade WHERE {condition}", None if given is None else {"p": given})
    (param,) = {part for part in walk(found) if isinstance(part, Param)}
    assert param.type == inferred


def test_a_parameter_of_the_wrong_type() -> None:
    with pytest.raises(RegisterError, match=r"'price' \(double\) cannot be compared with :p \(string\)"):
        lowered("SELECT price FROM trade WHERE price > :p", {"p": STRING})


def test_units_of_interval_parameters() -> None:
    found = predicate("SELECT price FROM trade WHERE ts < ts + INTERVAL :w HOURS")
    assert Param("w", INTERVAL, 3_600_000_000) in set(walk(found))


def test_windows() -> None:
    text = (
        "SELECT 1 AS x FROM trade, trade b [RANGE :w MINUTES], trade c [ROWS :n], stock BEGIN NOW - :m END '1970-01-02'"
    )
    windows = [s.window for s in lowered(text).sources]
    assert windows[0] == Window(
        Bound(True, Param("m", INTERVAL, -1_000_000)), Bound(False, Literal(86_400_000_000, TIMESTAMP))
    )
    assert windows[1] == Window(Bound(True, Param("w", INTERVAL, -60_000_000)))
    assert windows[2] == Window(rows=Param("n", BIGINT))
    assert windows[3] == Window()


def test_source_numbers_run_over_the_whole_query() -> None:
    query = lowered("SELECT area FROM trade UNION SELECT a.area FROM weather a, trade b")
    assert [(s.source, s.relation, s.alias) for s in query.sources] == [
        (0, "trade", "trade"),
        (1, "weather", "a"),
        (2, "trade", "b"),
    ]


def test_grouping_by_alias_column_and_number() -> None:
    for key in ("price * 2", "p", "1"):
        query = lowered(f"SELECT price * 2 AS p, count(*) AS n FROM trade GROUP BY {key} HAVING p > 1")
        assert isinstance(query.root, GroupBy)
        names = {0: "t"}
        assert [expression_text(k, names) for k in query.root.keys] == ["t.price * 2.0D"]
        assert query.root.having is not None
        assert expression_text(query.root.having, names) == "t.price * 2.0D > 1.0D"


def test_a_column_goes_before_an_alias_of_the_same_name() -> None:
    with pytest.raises(RegisterError, match="column 'price' is neither in GROUP BY"):
        lowered("SELECT area, max(price) AS price FROM trade GROUP BY area HAVING price > 5")


def test_lowering_needs_nothing_but_the_catalog() -> None:
    parsed = parse("SELECT price FROM trade", SETTINGS)
    assert lower(parsed, CATALOG) == lower(parsed, CATALOG)
    assert lower(parsed, CATALOG).text == "SELECT price FROM trade"
    assert lower(parsed, CATALOG).output[0].type.kind is Kind.DOUBLE
