"""The finish of many queries at once, against that of each query alone, which oracles are held against elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

from tests.generators import random_catalog, random_finish
from tests.generators.many_finishes import ManyQueries, many_queries
from tests.sql.market import CATALOG as MARKET
from tests.sql.test_language_doc import examples
from tests.tally import tally
from weir.algebra.nodes import NOW
from weir.answer.finish import finished
from weir.answer.many_finish import finished_many
from weir.answer.slot_values import SLOT, Asked
from weir.errors import RegisterError
from weir.plan.finishes import Finish, inputs_of
from weir.plan.registration import constant_value
from weir.testing import differ

# Rows of one time are peers, and which of them is the last one is open.
UNDECIDED = ("SELECT * EXCEPT (volume, fee), last(area, TRUE) OVER (ORDER BY ts) AS known FROM trade",)
# What neither the examples nor the generator have: ASOF joins and doubles beside constants of each query.
MORE = (
    "SELECT t.name, w.wind FROM trade t ASOF JOIN weather w ON t.area = w.area AND t.ts >= w.ts AND w.wind > 3",
    "SELECT t.name, w.wind FROM trade t ASOF LEFT JOIN weather w ON t.area = w.area AND t.qty >= w.category + 1",
    "SELECT t.name, s.rating FROM trade t ASOF LEFT JOIN stock s ON t.name = s.symbol AND t.area >= s.company",
    "SELECT name, count(*) FROM trade GROUP BY name HAVING avg(fee) > 2.5e0 AND max(fee) < 9.5e0",
    "SELECT * FROM trade t FULL JOIN weather w ON t.area = w.area AND t.qty > 3 AND w.wind < 5.5",
    "SELECT * FROM trade t RIGHT JOIN weather w ON t.area = w.area AND t.qty + 1 > w.category",
    "SELECT CASE qty WHEN 2.5e0 THEN 'a' WHEN 3e0 THEN 'b' ELSE name END, nullif(qty, 3e0) FROM trade",
    "SELECT (SELECT wind FROM weather w WHERE w.area = t.area AND w.category = 3) FROM trade t",
    "SELECT name, mode(qty), median(price), avg(fee), listagg(DISTINCT area, ',') FROM trade GROUP BY name",
    "SELECT symbol, (SELECT count(*) FROM trade t WHERE name = symbol AND qty > 2) FROM stock s ORDER BY 2, 1 LIMIT 4",
    "SELECT symbol FROM stock WHERE company < 'b' EXCEPT SELECT name FROM trade",
)
NOW_US = 1_704_068_000_000_000


def operators(finish: Finish) -> set[str]:
    return {type(finish).__name__} | {name for part in inputs_of(finish) for name in operators(part)}


def alone(queries: ManyQueries, place: int) -> pa.Table | str:
    """The answer of one query, or why it has none."""
    slot = queries.slots[place]
    row = queries.constants.slice(place, 1)
    constants = {f"c{k}": constant_value(row.column(f"c{k}")[0], t) for k, t in enumerate(queries.types)}
    tables = [
        table.filter(pa.array(owner == slot)) for table, owner in zip(queries.tables, queries.slot_of_row, strict=True)
    ]
    try:
        return finished(queries.finish, tables, queries.output, constants | {NOW.name: NOW_US}, queries.versions)
    except Exception as error:
        return str(error)


def compare(queries: ManyQueries, about: str) -> tuple[int, int]:
    """How many queries were compared, and how many of them have no answer."""
    tables = [
        table.append_column(SLOT, pa.array(owner))
        for table, owner in zip(queries.tables, queries.slot_of_row, strict=True)
    ]
    asked = Asked(queries.slots, queries.constants)
    found, failed = finished_many(queries.finish, tables, queries.output, asked, NOW_US, queries.versions)
    slot_of_row = found.column(SLOT).to_numpy()
    assert bool((slot_of_row[1:] >= slot_of_row[:-1]).all()), "answers are by slot"
    ends = np.searchsorted(slot_of_row, queries.slots, side="right")
    begins = np.searchsorted(slot_of_row, queries.slots)
    assert int((ends - begins).sum()) == found.num_rows, "no other queries have answers"
    for place, slot in enumerate(queries.slots.tolist()):
        expected = alone(queries, place)
        got = found.slice(begins[place], ends[place] - begins[place]).drop_columns([SLOT])
        if isinstance(expected, str):
            assert failed.get(slot) == expected, f"{about}, slot {slot}: expected an error: {expected}"
            assert not got.num_rows, f"{about}, slot {slot}: rows of a query that failed"
            continue
        assert slot not in failed, f"{about}, slot {slot}: {failed.get(slot)}"
        assert got.schema == expected.schema, about
        difference = differ(expected, got, ordered=True, approximate=True)
        row = queries.constants.slice(place, 1).to_pylist()
        assert difference is None, f"{about}, slot {slot}, constants {row}: {difference}"
    return len(queries.slots), len(failed)


def play(seeds: range) -> tuple[Counter[str], Counter[str]]:
    """What was compared, and how often each operator occurred."""
    counts: Counter[str] = Counter()
    occurred: Counter[str] = Counter()
    for seed in seeds:
        catalog = random_catalog(seed, tables=seed % 3, variants=seed % 2 == 0)
        made = random_finish(catalog, seed * 31)
        count = (1, 2, 5, 20, 60, 200)[seed % 6]
        try:
            queries = many_queries(catalog, made.text, made.params, seed, count=count, rows=4 * count)
        except RegisterError:
            counts["refused"] += 1
            continue
        compared, failed = compare(queries, f"seed {seed}: {made.text} {made.params}")
        counts["compared"] += compared
        counts["failed"] += failed
        occurred.update(operators(queries.finish))
    return counts, occurred


@pytest.mark.slow
def test_random_finishes_of_many_queries_are_those_of_each_alone() -> None:
    counts, occurred = play(range(54))
    tally("finishes of many queries at once, each computed alone", counts["compared"])
    assert counts["compared"] >= 2_000, counts
    assert counts["failed"] >= 10, counts
    wanted = {node.__name__ for node in get_args(Finish)} - {"Exploded"}  # the generator has no explode()
    assert {name for name in wanted if occurred[name] < 2} == set()


@pytest.mark.soak
def test_more_random_finishes_of_many_queries() -> None:
    counts, _ = play(range(1_000, 2_000))
    assert counts["compared"] >= 40_000, counts


@pytest.mark.slow
def test_every_example_of_the_language_and_more_are_answered_for_many_queries() -> None:
    counts: Counter[str] = Counter()
    occurred: Counter[str] = Counter()
    for seed, sql in enumerate([*examples(), *MORE]):
        if ":" in sql or sql in UNDECIDED:  # its parameters have no values
            continue
        queries = many_queries(MARKET, sql, {}, seed, count=9, rows=30)
        compared, failed = compare(queries, sql)
        counts["compared"] += compared
        counts["failed"] += failed
        occurred.update(operators(queries.finish))
    tally("finishes of many queries at once, each computed alone", counts["compared"])
    assert counts["compared"] >= 600, counts
    assert occurred["Exploded"] >= 2
