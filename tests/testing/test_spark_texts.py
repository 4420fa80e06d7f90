"""What of a Weir text changes before Spark runs it, and what does not."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pytest
from sqlglot import exp

from tests.testing.market import TAU
from weir.settings import Settings
from weir.sql.parse import parse
from weir.sql.windows import WindowClause
from weir.testing.spark_texts import is_cte, spark_literal, spark_text


def written(text: str, params: dict[str, object] | None = None, views: dict[str, str] | None = None) -> str:
    """The text for Spark, in which `trade.r` is the view of trade with a window in rows, `trade.t` one in time."""

    def view_of(name: str, clause: WindowClause | None) -> str:
        kind = "all" if clause is None else "t" if clause.rows is None else "r"
        return f"{name}.{kind}"

    return " ".join(spark_text(parse(text, Settings()), params or {}, TAU, view_of, views or {}).split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM trade BEGIN NOW - 5 END NOW", "SELECT a FROM trade.t AS trade"),
        ("SELECT a FROM trade t [ROWS 5], trade [ROWS 5] u", "SELECT a FROM trade.r t , trade.r u"),
        ("SELECT a FROM `trade` [RANGE 1 HOUR] AS t;", "SELECT a FROM trade.t AS t;"),
        ("SELECT a FROM `tRade`", "SELECT a FROM tRade.all AS `tRade`"),
        (
            "SELECT (SELECT max(x) FROM b WHERE b.y = a.y) AS m FROM a [ROWS 1] WHERE x IN (SELECT y FROM c) "
            "AND EXISTS (SELECT 1 FROM (SELECT * FROM d) d) BEGIN NOW - 5 END NOW",
            "SELECT (SELECT max(x) FROM b.t AS b WHERE b.y = a.y) AS m FROM a.r AS a "
            "WHERE x IN (SELECT y FROM c.t AS c) "
            "AND EXISTS (SELECT 1 FROM (SELECT * FROM d.t AS d) d)",
        ),
        (
            "WITH a AS (SELECT * FROM a), b AS (SELECT * FROM A) SELECT * FROM a, b, c",
            "WITH a AS (SELECT * FROM a.all AS a), b AS (SELECT * FROM A) SELECT * FROM a, b, c.all AS c",
        ),
        (
            "SELECT a.ts FROM a WHERE ts < now()",
            "SELECT a.ts FROM a.all AS a WHERE ts < TIMESTAMP '2024-01-01 00:01:40'",
        ),
        (
            "SELECT current_date, current_timestamp() AS now FROM a WHERE a.now > 1",
            "SELECT DATE '2024-01-01', TIMESTAMP '2024-01-01 00:01:40' AS now FROM a.all AS a WHERE a.now > 1",
        ),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert written(text) == expected


def test_parameters() -> None:
    text = "SELECT a FROM t [RANGE :w MINUTES] WHERE a = :x AND b < :x AND ts - u < INTERVAL :n SECONDS AND c = ':x'"
    expected = "SELECT a FROM t.t AS t WHERE a = 5 AND b < 5 AND ts - u < INTERVAL '2' SECONDS AND c = ':x'"
    assert written(text, {"w": 1, "x": 5, "n": 2}) == expected


def test_views_are_texts_in_parentheses() -> None:
    views = {"v": "SELECT * FROM a [ROWS 3], b WHERE x = :p;", "w": "SELECT * FROM v"}
    found = written("SELECT * FROM V x, w BEGIN NOW - 5 END NOW", {"p": "it's"}, views)
    inner = "(SELECT * FROM a.r AS a , b.t AS b WHERE x = 'it\\'s')"
    assert found == f"SELECT * FROM {inner} x, (SELECT * FROM {inner} AS v) AS w"


@pytest.mark.parametrize(
    ("text", "ctes"),
    [
        ("WITH x AS (SELECT * FROM y), y AS (SELECT * FROM x) SELECT * FROM x, y", ["x", "y", "x"]),
        ("SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM X) x, x", ["X"]),
        ("WITH x AS (SELECT 1) SELECT * FROM a WHERE b IN (SELECT b FROM x) UNION SELECT * FROM x", ["x", "x"]),
    ],
)
def test_names_of_a_with_are_no_sources(text: str, ctes: list[str]) -> None:
    tables = parse(text, Settings()).ast.find_all(exp.Table)
    assert [t.name for t in tables if is_cte(t)] == ctes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-3, "(-3)"),
        (2**31, "2147483648L"),
        (0.1, "0.1D"),
        (-1e300, "(-1e+300D)"),
        (math.nan, "CAST('NaN' AS DOUBLE)"),
        (-math.inf, "CAST('-inf' AS DOUBLE)"),
        (Decimal("1.50"), "1.50BD"),
        ("a\\'b", "'a\\\\\\'b'"),
        (dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), "TIMESTAMP '2024-01-01 00:00:00'"),
        (dt.date(2024, 1, 1), "DATE '2024-01-01'"),
        (dt.timedelta(seconds=-1), "INTERVAL '-1000000' MICROSECOND"),
    ],
)
def test_literals(value: object, expected: str) -> None:
    assert spark_literal(value) == expected
