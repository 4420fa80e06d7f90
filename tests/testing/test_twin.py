"""The oracle and the plain row-at-a-time twin agree on random selections: two implementations, one semantics."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp

from tests.generators import SPAN_US, START_US, random_catalog, random_query, random_rows, random_template
from tests.marks import few_are_quick
from tests.oracle import plain_rows
from weir.algebra.schema import Catalog
from weir.settings import Settings
from weir.sql.parse import parse
from weir.testing import answer, differ

pytestmark = pytest.mark.slow

ORDERS = ("ordered", "shuffled", "clustered")
PER_CATALOG = 15


def both(
    text: str, params: dict[str, object], seed: int, catalog: Catalog, rows: dict[str, pa.Table]
) -> tuple[pa.Table, pa.Table]:
    """The oracle's and the twin's answers, at a time that leaves some rows in the future."""
    parsed = parse(text, Settings())
    stream = catalog.relation(parsed.ast.find(exp.Table).name)
    tau_us = START_US + SPAN_US * (seed % 3 + 2) // 4
    expected = answer(parsed, params, catalog, rows, tau_us)
    plain = [{name.lower(): v for name, v in row.items()} for row in rows[stream.name.lower()].to_pylist()]
    found = plain_rows.select(parsed, params, stream, plain, tau_us)
    columns = [pa.array([row[i] for row in found], f.type) for i, f in enumerate(expected.schema)]
    return expected, pa.table(columns, names=expected.column_names)


def data(seed: int) -> tuple[Catalog, dict[str, pa.Table]]:
    catalog = random_catalog(seed, tables=0)
    order = ORDERS[seed % 3]
    rows = {
        name: random_rows(stream, 30, seed, order=order, extremes=0.15, specials=0.15)
        for name, stream in catalog.streams.items()
    }
    return catalog, rows


@pytest.mark.parametrize("seed", few_are_quick(range(40), quick=2, tested=20))
def test_selections(seed: int) -> None:
    catalog, rows = data(seed)
    for number in range(seed * PER_CATALOG, (seed + 1) * PER_CATALOG):
        query = random_query(catalog, number, ("selection",))
        if "DISTINCT" in query.text:
            continue  # the twin keeps duplicates
        expected, got = both(query.text, query.params, number, catalog, rows)
        difference = differ(expected, got)
        assert difference is None, f"catalog {seed}, query {number}: {query.text} {query.params}\n{difference}"


@pytest.mark.parametrize("seed", few_are_quick(range(15)))
def test_templates(seed: int) -> None:
    catalog, rows = data(seed)
    template = random_template(catalog, seed, 12)
    for params in template.params.to_pylist():
        expected, got = both(template.text, params, seed, catalog, rows)
        difference = differ(expected, got)
        assert difference is None, f"seed {seed}: {template.text} {params}\n{difference}"
