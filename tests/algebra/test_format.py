"""The algebra as text: what is written is read back as the same tree."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from sqlglot.dialects.spark import Spark

from tests.generators.queries import random_query
from tests.generators.schemas import random_catalog
from tests.sql.market import SETTINGS, lowered
from tests.sql.slots import param_types
from weir.algebra.format import literal_text, quoted, sql_text, tree_text
from weir.algebra.nodes import Literal, Project
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    Catalog,
    Column,
    Stream,
    decimal,
)
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.sql.shapes import shape_of


def test_random_queries_are_read_back() -> None:
    for seed in range(200):
        catalog = random_catalog(seed // 8)
        query = random_query(catalog, seed)
        types = param_types(query.params)
        algebra = lower(parse(query.text, SETTINGS), catalog, types)
        text = sql_text(algebra)
        again = lower(parse(text, SETTINGS), catalog, types)
        assert replace(again, text="") == replace(algebra, text=""), f"seed {seed}: {query.text}\n{text}"


@pytest.mark.parametrize(
    ("constant", "text"),
    [
        (Literal(5, BIGINT), "5"),
        (Literal(-5, BIGINT), "-5"),
        (Literal(2.5, DOUBLE), "2.5D"),
        (Literal(1e300, DOUBLE), "1e+300"),
        (Literal(float("inf"), DOUBLE), "CAST('inf' AS double)"),
        (Literal(Decimal("2.50"), decimal(3, 2)), "2.50"),
        (Literal(Decimal("3"), decimal(1, 0)), "3."),
        (Literal(Decimal("2.50"), decimal(9, 2)), "CAST(2.50 AS decimal(9,2))"),
        (Literal(5, INT), "CAST(5 AS int)"),
        (Literal("it's \\ %", STRING), "'it\\'s \\\\ %'"),
        (Literal(True, BOOLEAN), "TRUE"),
        (Literal(None, BIGINT), "CAST(NULL AS bigint)"),
        (Literal(dt.date(2026, 1, 31), DATE), "DATE '2026-01-31'"),
        (Literal(1_500_000, TIMESTAMP), "TIMESTAMP '1970-01-01 00:00:01.500000'"),
        (Literal(10**18, TIMESTAMP), "(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL 1000000000000000000 MICROSECOND)"),
    ],
)
def test_literal(constant: Literal, text: str) -> None:
    assert literal_text(constant) == text
    root = lowered(f"SELECT {text} AS x FROM trade").root
    assert isinstance(root, Project)
    assert root.columns[0][1] == constant


@pytest.mark.parametrize(
    ("length_us", "text"),
    [
        (3_600_000_000, "INTERVAL 1 HOUR"),
        (-90_000_000, "INTERVAL -90 SECOND"),
        (1_500, "INTERVAL 1500 MICROSECOND"),
        (0, "INTERVAL 0 SECOND"),
    ],
)
def test_interval(length_us: int, text: str) -> None:
    assert literal_text(Literal(length_us, INTERVAL)) == text
    assert sql_text(lowered(f"SELECT ts FROM trade WHERE ts - ts < {text}")).endswith(text)


@pytest.mark.parametrize(
    ("name", "text"), [("price", "price"), ("end", "`end`"), ("a b", "`a b`"), ("x`y", "`x``y`"), ("1st", "`1st`")]
)
def test_names_are_quoted_when_they_must_be(name: str, text: str) -> None:
    assert quoted(name) == text
    assert lowered(f"SELECT price AS {text} FROM trade").output[0].name == name


@pytest.mark.parametrize(
    "expression",
    [
        "price - (qty - volume)",
        "(price - qty) - volume",
        "price / (qty * volume) % 2",
        "-(price + 1)",
        "-(-price)",
        "(price > 1) = (qty > 1)",
        "NOT (urgent AND price > 1)",
        "(urgent OR price > 1) AND (urgent OR qty > 1)",
        "(NOT urgent) IS NULL",
        "(price IS NULL) = urgent",
        "price * -5",
        "abs(-price) - -qty",
    ],
)
def test_parentheses(expression: str) -> None:
    query = lowered(f"SELECT {expression} AS x FROM trade")
    assert replace(lowered(sql_text(query)), text="") == replace(query, text="")


def test_every_keyword_may_be_a_name() -> None:
    words = {w.lower() for w in Spark.Tokenizer.KEYWORDS if re.fullmatch("[A-Za-z_]+", w)}
    words |= {t.name.lower() for t in Spark.Parser.NO_PAREN_FUNCTIONS}
    assert len(words) > 200
    for word in sorted(words):
        stream = Stream(word, (Column(word, DOUBLE), Column("ts", TIMESTAMP)), "ts", None)
        catalog = Catalog({word: stream})
        text = f"SELECT max(`{word}`) AS `{word}` FROM `{word}` `{word}` [ROWS 5] WHERE `{word}` > 1 GROUP BY `{word}`"
        query = lower(parse(text, SETTINGS), catalog)
        again = lower(parse(sql_text(query), SETTINGS), catalog)
        assert replace(again, text="") == replace(query, text=""), sql_text(query)
        shape = shape_of(query)
        again = lower(parse(shape.text, SETTINGS), catalog, shape.param_types)
        assert replace(again, text="") == replace(shape.query, text=""), shape.text


def test_far_edges_of_windows() -> None:
    query = lowered("SELECT price FROM trade BEGIN -9000000000000 END 9000000000000.5")
    assert replace(lowered(sql_text(query)), text="") == replace(query, text="")
    assert tree_text(query)
