"""Every rule: golden before and after, and both executed by the oracle on random rows."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tests.marks import few_are_quick
from tests.sql.golden import FIXTURES, blocks, check
from tests.sql.market import CATALOG, SETTINGS, lowered
from tests.sql.slots import param_types
from weir.algebra.format import sql_text, tree_text
from weir.algebra.nodes import Expression, Literal, Param, Query
from weir.algebra.rebuild import map_expressions, rebuild
from weir.algebra.schema import DOUBLE, Catalog
from weir.plan.planner import RULES, Rule, plan
from weir.plan.rules.fold_constants import fold_constants
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.testing import domains
from weir.testing.bags import differ
from weir.testing.oracle import answer
from weir.testing.queries import random_query
from weir.testing.schemas import random_catalog
from weir.testing.streams import random_rows

TAU_US = domains.START_US + domains.SPAN_US
WITH_FIXTURE = [rule for rule in RULES if rule is not fold_constants]


def name_of(rule: Rule) -> str:
    return rule.__name__


def rows_for(catalog: Catalog, seed: int) -> dict[str, pa.Table]:
    relations = (*catalog.streams.values(), *catalog.tables.values())
    return {r.name.lower(): random_rows(r, 25, seed, extremes=0) for r in relations}


@pytest.mark.parametrize("rule", WITH_FIXTURE, ids=name_of)
def test_golden(rule: Rule) -> None:
    check(FIXTURES / f"{name_of(rule)}.txt", lambda sql: tree_text(rule(lowered(sql))))


def test_golden_plans() -> None:
    check(FIXTURES / "planner.txt", lambda sql: tree_text(plan(lowered(sql))))


@pytest.mark.parametrize("rule", [*WITH_FIXTURE, plan], ids=name_of)
def test_golden_queries_keep_their_answers(rule: Rule) -> None:
    name = "planner" if name_of(rule) == "plan" else name_of(rule)
    pairs = blocks(FIXTURES / f"{name}.txt")
    changed = 0
    for seed, (sql, _) in enumerate(pairs):
        query = lowered(sql)
        after = rule(query)
        changed += after.root != query.root
        for rows_seed in range(3):
            rows = rows_for(CATALOG, 100 * seed + rows_seed)
            expected = answer(sql, {}, CATALOG, rows, TAU_US)
            got = answer(sql_text(after), {}, CATALOG, rows, TAU_US)
            assert differ(expected, got) is None, f"{sql}\n{sql_text(after)}\n{differ(expected, got)}"
    assert changed >= len(pairs) // 2, "a rule's own examples show it at work"


@pytest.mark.parametrize("chunk", few_are_quick(range(4), quick=1))
def test_random_queries_keep_their_answers(chunk: int) -> None:
    for seed in range(10_000 + chunk, 10_120, 4):
        catalog = random_catalog(seed // 8)
        query = random_query(catalog, seed)
        before = lower(parse(query.text, SETTINGS), catalog, param_types(query.params))
        after = plan(before)
        assert plan(after) == after, f"seed {seed}: planning a plan changes nothing"
        assert after.output == before.output
        rows = rows_for(catalog, seed)
        expected = answer(query.text, query.params, catalog, rows, TAU_US)
        got = answer(sql_text(after), query.params, catalog, rows, TAU_US)
        difference = differ(expected, got, approximate=query.approximate)
        assert difference is None, f"seed {seed}: {query.text}\n{sql_text(after)}\n{difference}"


def with_values(query: Query, values: dict[str, object]) -> Query:
    def put(e: Expression) -> Expression:
        return Literal(values[e.name], e.type) if isinstance(e, Param) else e

    return replace(query, root=map_expressions(query.root, lambda e: rebuild(e, put)))


def test_fold_constants_after_values_are_put_in() -> None:
    query = lowered("SELECT name FROM trade WHERE price < :a * 2 + 1 AND :b > 3", {"a": DOUBLE, "b": DOUBLE})
    folded = fold_constants(with_values(query, {"a": 4.5, "b": 1.0}))
    assert tree_text(folded).split("\n")[1] == "  select trade.price < 10.0D AND FALSE"
    assert tree_text(plan(with_values(query, {"a": 4.5, "b": 5.0}))).split("\n")[1] == "  select trade.price < 10.0D"
    assert tree_text(plan(with_values(query, {"a": 4.5, "b": 1.0}))).split("\n")[1] == "  select FALSE"


def test_rules_are_named_after_what_they_do() -> None:
    assert [name_of(r) for r in RULES] == [
        "fold_constants",
        "push_negations",
        "flatten_booleans",
        "push_selections",
        "drop_distinct",
    ]
