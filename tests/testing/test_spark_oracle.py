"""Spark's own SQL over the windows' contents: against DuckDB's on what both know, and where only Spark's counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.generators import SPAN_US, START_US, random_catalog, random_query, random_rows
from tests.marks import few_are_quick
from tests.testing.market import CATALOG, TAU, at, rows
from tests.testing.test_oracle_finishes import AGGREGATES, CONDITIONS, ORDERED, TEXTS, WINDOWS
from weir.testing import answer, differ
from weir.testing import spark_oracle as spark_sql
from weir.testing.spark_bags import differ_from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAU_US = START_US + SPAN_US * 3 // 4
KINDS = ("selection", "join", "band", "distinct", "aggregate", "union", "except", "intersect", "table")


def ask(spark: SparkSession, text: str, params: dict[str, object] | None = None) -> list[tuple[object, ...]]:
    found = spark_sql.answer(spark, text, params, CATALOG, rows(), TAU)
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True), key=repr)


@pytest.mark.spark
@pytest.mark.parametrize("seeds", few_are_quick([range(48), range(48, 120)], quick=0, tested=1), ids=str)
def test_two_engines_have_one_answer(spark: SparkSession, seeds: range) -> None:
    filled = 0
    for seed in seeds:
        # Extreme values would make whole numbers overflow, which Spark lets wrap around, and sums of doubles drown.
        # Spark runs without ANSI there, where a float beside a whole number gives a float; else it is a double.
        catalog = random_catalog(seed // 12, variants=False)
        relations = {**catalog.streams, **catalog.tables}
        contents = {name: random_rows(r, 80, seed // 12, extremes=0.0) for name, r in relations.items()}
        query = random_query(catalog, seed, KINDS if catalog.tables else KINDS[:-1])
        if ".*" in query.text and " USING (" in query.text:
            continue  # Spark puts the columns of USING first, also in s0.*
        ours = answer(query.text, query.params, catalog, contents, TAU_US)
        theirs = spark_sql.answer(spark, query.text, query.params, catalog, contents, TAU_US)
        difference = differ_from_spark(theirs, ours)
        assert difference is None, f"seed {seed}: {query.text} {query.params}\n{difference}"
        filled += theirs.num_rows > 0
    assert filled > len(seeds) / 2


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM trade [ROWS 2]", [(4,), (5,)]),
        ("SELECT id FROM trade BEGIN NOW - 60 END NOW - 50", [(4,)]),
        ("SELECT id FROM trade [BEGIN '2024-01-01 00:00:10' END NOW - 70] BEGIN NOW - 1 END NOW", [(1,), (2,)]),
        ("SELECT bid FROM quote", [(2,), (3,), (4,)]),
        ("SELECT bid FROM quote [RANGE :w SECONDS] WHERE bid > :b", [(4,)]),
        ("SELECT a.id FROM trade a [ROWS 1] WHERE EXISTS (SELECT 1 FROM trade b WHERE b.id = a.id - 1)", [(5,)]),
        ("SELECT company, count(*) AS n FROM stock LEFT JOIN trade USING (name) GROUP BY 1", [
            ("Apple Co", 1), ("Orange Ltd", 2), (None, 1)]),
        ("SELECT id FROM trade WHERE ts > now() - INTERVAL 50 SECONDS", [(5,)]),
    ],
)  # fmt: skip
def test_windows_and_sources(spark: SparkSession, text: str, expected: list[tuple[object, ...]]) -> None:
    assert ask(spark, text, {"w": 30, "b": 2} if ":w" in text else None) == expected


@pytest.mark.spark
def test_views_and_types(spark: SparkSession) -> None:
    found = spark_sql.answer(
        spark, "SELECT sum(fee) AS s, avg(fee) AS a, collect_list(id) AS l FROM cheap", {}, CATALOG, rows(), TAU,
        views={"cheap": "SELECT * FROM trade WHERE price < 2 OR price IS NULL"},
    )  # fmt: skip
    assert found.schema.names == ["s", "a", "l"]
    ours = pa.table(
        {"s": pa.array([0], pa.decimal128(18, 2)), "a": pa.array([0], pa.decimal128(14, 6)), "l": [[4, 3, 0]]}
    )
    assert differ_from_spark(found, ours, lists_are_bags=True) is None
    assert "in Spark" in str(differ_from_spark(found, ours.set_column(2, "l", [["4"]])))


@pytest.mark.spark
def test_rows_that_change_are_seen(spark: SparkSession) -> None:
    contents = rows()
    before = spark_sql.answer(spark, "SELECT id FROM trade", {}, CATALOG, contents, TAU)
    contents["trade"] = contents["trade"].slice(0, 2)
    after = spark_sql.answer(spark, "SELECT id FROM trade", {}, CATALOG, contents, TAU)
    assert (before.num_rows, after.num_rows) == (6, 2)


@pytest.mark.spark
def test_what_does_not_fit(spark: SparkSession) -> None:
    assert ask(spark, "SELECT CAST(price AS int) AS p FROM trade WHERE id IN (1, 2, 5)") == [(2,), (None,), (None,)]
    overflows = "SELECT sum(big) AS s FROM trade"
    assert spark_sql.raises(spark, lambda: ask(spark, overflows))
    assert not spark_sql.raises(spark, lambda: ask(spark, f"{overflows} WHERE id < 4"))
    assert ask(spark, "SELECT 1 / id AS x FROM trade WHERE id = 0") == [(None,)]


@pytest.mark.spark
def test_what_spark_does_not_take_is_no_answer(spark: SparkSession) -> None:
    with pytest.raises(spark_sql.SparkRefusesError, match="prize"):
        ask(spark, "SELECT prize FROM trade")


@pytest.mark.spark
def test_order_counts_where_it_is_asked_for(spark: SparkSession) -> None:
    found = spark_sql.answer(
        spark, "SELECT id, ts FROM trade ORDER BY price DESC, id LIMIT 3", {}, CATALOG, rows(), TAU
    )
    ours = pa.table({"id": [2, 5, 1], "ts": [at(30), at(60), at(20)]})
    assert differ(found, ours, ordered=True) is None
    assert "another order" in str(differ(found, ours.take([1, 0, 2]), ordered=True))
    assert differ(found, ours.take([1, 0, 2])) is None


WRAPS = "SELECT sum(big) AS x FROM trade"  # NULL in Weir
WORKED_OUT = [
    *(f"SELECT {select} AS x FROM trade" for select, _ in AGGREGATES),
    *(f"SELECT id, {select} AS x FROM trade WINDOW w AS (ORDER BY id)" for select, _ in WINDOWS),
    *(f"SELECT id FROM trade WHERE {where}" for where, _ in CONDITIONS),
    *(text for text, _ in (*TEXTS, *ORDERED)),
]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_says_what_was_worked_out_by_hand(spark: SparkSession) -> None:
    for text in WORKED_OUT:
        params = {"n": 2} if ":n" in text else {}
        ours = answer(text, params, CATALOG, rows(), TAU)
        theirs = spark_sql.answer(spark, text, params, CATALOG, rows(), TAU)
        ordered = text in dict(ORDERED)
        difference = differ_from_spark(theirs, ours, ordered=ordered, lists_are_bags=True)
        assert (difference is None) == (text != WRAPS), f"{text}\n{difference}"
