"""Two engines answer random queries with finishes alike: DuckDB through our translation, Spark the text itself.

What they may disagree about is listed in `tests.spark_facts`.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.generators import SPAN_US, START_US, FinishQuery, random_catalog, random_finish, random_rows
from tests.spark_facts import fails_by_itself, may_differ
from weir.algebra.schema import Catalog
from weir.settings import Settings
from weir.sql.parse import parse
from weir.testing import answer, spark_oracle
from weir.testing.spark_bags import differ_from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAU_US = START_US + SPAN_US * 3 // 4
ALWAYS = """
    aggregate | windows | top | set operation | selection | distinct | group by | having | filter | order by | limit
    | offset | with | subquery in from | left join | right join | full join | left semi join | left anti join
    | union | union all | except | except all | intersect | intersect all | in subquery | not in subquery
    | exists subquery | not exists subquery | scalar subquery | count subquery | correlated in subquery
    | correlated not in subquery | correlated exists subquery | correlated not exists subquery
    | correlated scalar subquery | correlated count subquery | scalar subquery item | correlated scalar subquery item
    | count | count distinct | count distinct two | count_if | min max | sum | avg | stddev variance | collect_list
    | collect_set | listagg | percentile | percentile_cont | percentile_approx | bool_and or | row_number | rank
    | ntile | lag lead | first_value last_value | percent_rank cume_dist | aggregate over partition
    | aggregate over peers | range frame | rows frame | window of time | session window
    | lateral | in subquery of two columns | union in subquery | rollup | cube | grouping sets
    | using | star
"""


@cache
def world(seed: int) -> tuple[Catalog, dict[str, pa.Table]]:
    catalog = random_catalog(seed, variants=False)
    relations = {**catalog.streams, **catalog.tables}
    # Some sources are empty, and most have NaN, −0.0, NULL and equal rows.
    counts = {name: 0 if (seed + k) % 7 == 6 else 60 for k, name in enumerate(relations)}
    return catalog, {name: random_rows(r, counts[name], seed, extremes=0.0) for name, r in relations.items()}


def compared(spark: SparkSession, seed: int) -> tuple[FinishQuery, str]:
    """The query, and what became of it: 'filled', 'empty', 'may differ' or 'fails'."""
    catalog, rows = world(seed // 10)
    query = random_finish(catalog, seed)
    ours = answer(query.text, query.params, catalog, rows, TAU_US)
    try:
        theirs = spark_oracle.answer(spark, query.text, query.params, catalog, rows, TAU_US)
    except spark_oracle.SparkRefusesError as refused:
        assert fails_by_itself(refused), f"seed {seed}: {refused}"
        return query, "fails"
    room = dict.fromkeys(query.approximate, 1e-9)
    difference = differ_from_spark(theirs, ours, ordered=query.ordered, lists_are_bags=True, room=room)
    if difference is not None and may_differ(spark, query.text, query.params, catalog, rows, TAU_US):
        return query, "may differ"
    assert difference is None, f"seed {seed}: {query.text} {query.params}\n{difference}"
    return query, "filled" if ours.num_rows else "empty"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("first", "count"),
    [
        pytest.param(0, 10),
        pytest.param(10, 40, marks=pytest.mark.slow),
        pytest.param(90, 120, marks=pytest.mark.soak),
        pytest.param(1_000, 2_000, marks=pytest.mark.soak),
    ],
)
def test_two_engines_have_one_answer(spark: SparkSession, first: int, count: int) -> None:
    ends = Counter(compared(spark, seed)[1] for seed in range(first, first + count))
    assert ends["may differ"] + ends["fails"] <= max(1, count * 0.03), f"{ends}"
    assert ends["filled"] > count * 0.4, f"{ends}"


@pytest.mark.slow
def test_duckdb_answers_all_of_them() -> None:
    uses: Counter[str] = Counter()
    filled = ordered = 0
    for seed in range(800):
        catalog, rows = world(seed // 10)
        query = random_finish(catalog, seed)
        found = answer(query.text, query.params, catalog, rows, TAU_US)
        assert set(parse(query.text, Settings()).params) == set(query.params), query.text
        filled += found.num_rows > 0
        ordered += query.ordered
        uses.update(query.uses)
    assert {use: uses[use] for use in " ".join(ALWAYS.split()).split(" | ") if uses[use] < 2} == {}
    assert filled > 350
    assert ordered > 80


def test_a_seed_makes_one_query() -> None:
    catalog, _ = world(1)
    assert repr(random_finish(catalog, 1)) == repr(random_finish(catalog, 1))
    assert random_finish(catalog, 1).text != random_finish(catalog, 2).text
    for block in ("aggregate", "windows"):
        assert block in random_finish(catalog, 5, (block,), depth=0).uses
