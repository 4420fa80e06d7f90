"""Duplicate eliminations that find nothing go: golden before and after, and both executed by the oracle."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.generators import domains
from tests.generators.queries import random_query
from tests.generators.schemas import random_catalog
from tests.generators.streams import random_rows
from tests.sql.golden import FIXTURES, blocks, check
from tests.sql.market import CATALOG, SETTINGS, lowered
from tests.sql.slots import param_types
from weir.algebra.format import sql_text, tree_text
from weir.algebra.schema import Catalog
from weir.plan.drop_distinct import drop_distinct
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.testing.bags import differ
from weir.testing.oracle import answer

TAU_US = domains.START_US + domains.SPAN_US
GOLDEN = FIXTURES / "drop_distinct.txt"


def rows_for(catalog: Catalog, seed: int) -> dict[str, pa.Table]:
    relations = (*catalog.streams.values(), *catalog.tables.values())
    return {r.name.lower(): random_rows(r, 25, seed, extremes=0) for r in relations}


def test_golden() -> None:
    check(GOLDEN, lambda sql: tree_text(drop_distinct(lowered(sql))))


def test_golden_queries_keep_their_answers() -> None:
    changed = 0
    for seed, (sql, _) in enumerate(blocks(GOLDEN)):
        query = lowered(sql)
        after = drop_distinct(query)
        changed += after.root != query.root
        for rows_seed in range(3):
            rows = rows_for(CATALOG, 100 * seed + rows_seed)
            expected = answer(sql, {}, CATALOG, rows, TAU_US)
            got = answer(sql_text(after), {}, CATALOG, rows, TAU_US)
            assert differ(expected, got) is None, f"{sql}\n{sql_text(after)}\n{differ(expected, got)}"
    assert changed >= len(blocks(GOLDEN)) // 2, "the rule's own examples show it at work"


@pytest.mark.parametrize("chunk", range(2))
def test_random_queries_keep_their_answers(chunk: int) -> None:
    for seed in range(10_000 + chunk, 10_060, 2):
        catalog = random_catalog(seed // 8)
        query = random_query(catalog, seed, ("distinct", "union", "except", "intersect", "aggregate"))
        before = lower(parse(query.text, SETTINGS), catalog, param_types(query.params))
        after = drop_distinct(before)
        assert drop_distinct(after) == after, f"seed {seed}: a second time changes nothing"
        rows = rows_for(catalog, seed)
        expected = answer(query.text, query.params, catalog, rows, TAU_US)
        got = answer(sql_text(after), query.params, catalog, rows, TAU_US)
        difference = differ(expected, got, approximate=query.approximate)
        assert difference is None, f"seed {seed}: {query.text}\n{sql_text(after)}\n{difference}"
