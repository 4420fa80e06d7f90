"""Spark's grammar over the tokens: nothing is dropped in silence, and texts are what Spark makes of them."""

from __future__ import annotations

import random
import re

import pytest
from sqlglot import exp

from tests.generators.mutations import mutated
from tests.marks import few_are_quick
from tests.spark.test_strictness import corpus
from tests.sql.market import SETTINGS, lowered
from weir.algebra.nodes import Literal, walk
from weir.errors import RegisterError
from weir.sql.parse import parse
from weir.sql.reader import words


def fault(sql: str) -> str:
    with pytest.raises(RegisterError) as caught:
        parse(sql, SETTINGS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT price FROM trade@x", "syntax error near '@', line 1, column 24"),
        ("SELECT price FROM trade*", "syntax error near '*', line 1, column 24"),
        ("SELECT price,, qty FROM trade", "a comma has nothing behind it, line 1, column 13"),
        ("SELECT , price FROM trade", "syntax error near ',', line 1, column 8"),
        ("SELECT price FROM trade,, weather", "a comma has nothing behind it, line 1, column 24"),
        ("SELECT price FROM trade WHERE qty IN (1,,2)", "a comma has nothing behind it, line 1, column 40"),
        ("SELECT CAST(price AS string FORMAT '9') FROM trade", "syntax error near 'FORMAT', line 1, column 29"),
        ("SELECT CAST(price AS decimal(10, 2 2)) FROM trade", "syntax error near '2', line 1, column 36"),
        ("SELECT CAST(price AS decimal(10, 2) FROM trade", "syntax error near 'FROM', line 1, column 37"),
        ("SELECT price FROM trade WHERE {price > 5", "syntax error near '{', line 1, column 31"),
        ("SELECT price FROM trade WHERE name NOT NULL", "syntax error near 'NULL'"),
        ("SELECT price FROM .trade", "syntax error near '.', line 1, column 19"),
        ("; SELECT price FROM trade", "syntax error near ';', line 1, column 1"),
        ("SELECT CASE WHEN urgent THEN 1 WHEN FALSE 2 END FROM trade", "syntax error near '2'"),
        ("SELECT 1.5L FROM trade", "syntax error"),
        ("SELECT 300Y FROM trade", "syntax error"),
        ("SELECT price FROM trade JOIN weather USING ()", "syntax error near ')'"),
        ("SELECT DATE '2026-01-31' '' FROM trade", "syntax error near"),
        ("SELECT größe FROM trade", "the name größe needs backticks, line 1, column 8; write `größe`"),
        ("SELECT qty = price IS NULL FROM trade", "a comparison stands beside IS, line 1, column 20"),
        ("SELECT urgent = qty < 5 FROM trade", "'<' follows an equality, line 1, column 21"),
        ("SELECT name || area + qty FROM trade", "'+' stands beside '||', line 1, column 21"),
        ("SELECT price FROM trade WHERE urgent IS NULL = TRUE", "syntax error near '='"),
    ],
)
def test_what_spark_rejects_or_reads_otherwise(sql: str, message: str) -> None:
    assert message in fault(sql)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("'O''Hare'", "O'Hare"),
        ('"O""Hare"', 'O"Hare'),
        ("''''", "'"),
        ("'a''''b'", "a''b"),
        ("'a' 'b'", "ab"),
        ("'a'\n \"b\" /* and */ 'c'", "abc"),
        ("'a'\"b\"", "ab"),
        (r"r'\d+\n'", r"\d+\n"),
        (r'R"a\"', "a\\"),
        (r"r'a''b'", "ab"),
        (r"r'\n' '\n''x'", "\\n\n'x"),
        (r"'\u0041\101\t\\'", "AA\t\\"),
        ('"it\'s"', "it's"),
        ("'--' '/*'", "--/*"),
    ],
)
def test_texts(written: str, text: str) -> None:
    query = lowered(f"SELECT {written} AS x FROM trade;")
    (constant,) = [e for _, e in query.root.columns for e in walk(e)]  # type: ignore[union-attr]  # a Project
    assert isinstance(constant, Literal)
    assert constant.value == text


@pytest.mark.parametrize(
    "sql",
    [
        "select `name`, T.PRICE as `größe` from TRADE as T where t.`Area` is not null;;",
        "SELECT all price -- , qty\n FROM trade /* a /* nested */ comment */ WHERE ! urgent",
        "SELECT price FROM trade WHERE NOT NOT urgent AND - -qty > .5 AND qty == 1L AND qty != 2",
        "SELECT (((price))) AS end FROM trade",
        "(((SELECT price FROM trade) UNION (SELECT wind FROM weather)))",
        "SELECT price FROM trade WHERE price IN (:a, : b)",
    ],
)
def test_what_spark_accepts(sql: str) -> None:
    assert lowered(sql).output


def test_columns_that_using_joins_come_first_as_in_spark() -> None:
    """As Spark lists them: those of the last USING, then those of earlier ones, then the rest."""

    def names(sql: str) -> list[str]:
        return [e.name for _, e in lowered(sql).root.columns]  # type: ignore[union-attr]  # a Project of columns

    joined = "SELECT * FROM weather a JOIN weather b USING (category, area) JOIN weather c USING (area)"
    expected = ["area", "category", "wind", "ts", "wind", "ts", "category", "wind", "ts"]
    assert names(joined) == expected
    assert names("SELECT * FROM trade t JOIN weather w USING (area) JOIN stock s ON t.name = s.symbol")[:2] == [
        "area",
        "name",
    ]
    assert names("SELECT * FROM weather a JOIN weather b USING (ts, area) JOIN weather c USING (area, ts)")[:4] == [
        "area",
        "ts",
        "category",
        "wind",
    ]
    assert names("SELECT * FROM weather a NATURAL JOIN (SELECT category, area, symbol FROM weather, stock)") == [
        "area",
        "category",
        "wind",
        "ts",
        "symbol",
    ]
    joined = "FROM weather a JOIN weather b USING (ts) JOIN weather c ON a.wind = c.wind"
    assert names(f"SELECT b.*, a.* {joined}") == ["ts", "area", "category", "wind"] * 2
    assert names("SELECT w.*, t.* FROM weather w JOIN (weather v JOIN trade t USING (ts)) USING (wind)")[:4] == [
        "wind",
        "area",
        "category",
        "ts",
    ]


def test_refusals_name_what_is_written_and_where() -> None:
    for sql, said in (
        (
            "SELECT ts - ts < INTERVAL 2 DAYS + INTERVAL 3 MONTHS AS t FROM trade",
            "in months has no fixed length, line 1, column 36",
        ),
        ("SELECT * FROM (SELECT qty FROM trade) UNPIVOT (v FOR n IN (qty))", "UNPIVOT is not part of the language"),
        ("SELECT qty FROM trade SORT BY qty", "use ORDER BY"),
    ):
        with pytest.raises(RegisterError) as refused:
            lowered(sql)
        assert said in str(refused.value)


# Refusals speak of what the user wrote.

EXPRESSIONS = """
sum(qty) WITHIN GROUP (ORDER BY qty); qty & 1; qty ^ 1; qty | 1; ~qty; qty[0]; name:x; ARRAY(1, 2); STRUCT(1 AS a)
extract(year FROM ts); collect_list(qty); first(qty) IGNORE NULLS; lag(qty) OVER (); qty IS DISTINCT FROM 1; x'1F'; N'x'
name LIKE ANY ('a', 'b'); EXISTS (SELECT 1); qty > ANY (array(1)); a.b.c.d.e; (qty AS a); qty COLLATE utf8_binary
CAST(name AS array<int>); qty AS (a, b); transform(x, y -> y)
"""
SOURCES = """
trade GROUP BY GROUPING SETS ((price), ()); trade GROUP BY CUBE(price); trade GROUP BY price WITH ROLLUP; VALUES (1)
(VALUES (1)) t; range(5); trade TABLESAMPLE (5 ROWS); trade LATERAL VIEW explode(x) t AS y; trade CLUSTER BY price
trade FOR UPDATE; trade WINDOW w AS (ORDER BY price); trade WHERE (price AS x) > 1
"""
ODD = [
    *(f"SELECT {e.strip()} FROM trade" for e in re.split("[;\n]", EXPRESSIONS.strip())),
    *(f"SELECT price FROM {source.strip()}" for source in re.split("[;\n]", SOURCES.strip())),
]
INTERNAL = {name.upper() for name, of in vars(exp).items() if isinstance(of, type)}
OWN_WORDS = words(
    "SELECT FROM WHERE HAVING GROUP BY IN IS NOT NULL ON USING JOIN LIKE CASE CAST BEGIN END NOW ROWS RANGE UNION "
    "EXCEPT INTERSECT DISTINCT ALL OR AND SQL WHEN AS IF UTC"
)


@pytest.mark.parametrize("seed", few_are_quick(range(6), quick=1, tested=2))
def test_refusals_are_in_the_users_words(seed: int) -> None:
    """No name that only sqlglot has for things."""
    rng = random.Random(seed)
    texts = [*corpus(), *ODD]
    seen = 0
    for sql in [*ODD, *(mutated(rng.choice(texts), rng, texts) for _ in range(3_000))]:
        try:
            lowered(sql)
        except RegisterError as e:
            seen += 1
            message = str(e).partition(", line ")[0]
            words_of_it = set(re.findall(r"\b[A-Z]{2,}\b", message))
            unknown = (words_of_it & INTERNAL) - set(re.findall(r"[A-Z]+", sql.upper())) - OWN_WORDS
            assert not unknown, f"seed {seed}: {sql}: {e}"
    assert seen > 2_000
