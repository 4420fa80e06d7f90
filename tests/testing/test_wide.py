"""Generated queries over many attributes: reproducible, taken by the language, answered, and with few results each."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pyarrow as pa
import pytest
from sqlglot import exp

from tests.generators import SPAN_US, START_US, WideWorld, wide_catalog, wide_rows
from tests.generators.wide_streams import ATTRIBUTES_MAX, ATTRIBUTES_MIN, GREATEST, LEAST, attributes_of
from weir.algebra.schema import Kind
from weir.settings import Settings
from weir.sql.lower import lower
from weir.sql.parse import Parsed, parse
from weir.testing import answer

pytestmark = pytest.mark.slow

TAU_US = START_US + SPAN_US
QUERIES = 400
RESULTS_MAX = 5_000
PARTS = (
    "BETWEEN", " >= ", " <= ", " > ", " < ", " = ", "IN (", " OR ", " <> ", "IS NULL", "IS NOT NULL", "NOT (", "abs(",
    "- s1.", "[RANGE", "[ROWS", "BEGIN NOW", "JOIN", ":c0", "INTERVAL",
)  # fmt: skip


@cache
def world(seed: int) -> tuple[WideWorld, dict[str, pa.Table]]:
    catalog = wide_catalog(seed)
    rows = {name: wide_rows(s, 70, seed) for name, s in catalog.streams.items()}
    return WideWorld(catalog, rows, seed), rows


def constrained(parsed: Parsed) -> Counter[str]:
    """By source, how many of its attributes stand in WHERE."""
    where = parsed.ast.args.get("where")
    columns = {(c.table, c.name) for c in where.find_all(exp.Column)} if where else set()
    return Counter(table for table, name in columns if name.startswith("a"))


def test_streams_have_many_attributes() -> None:
    widths, kinds = Counter[int](), Counter[Kind]()
    nulls = shared = 0
    for seed in range(40):
        catalog = wide_catalog(seed)
        for stream in catalog.streams.values():
            attributes = attributes_of(stream)
            widths[len(attributes)] += 1
            kinds.update(c.type.kind for c in attributes)
            rows = wide_rows(stream, 50, seed)
            for column in attributes:
                values = rows.column(column.name)
                nulls += values.null_count > 2
                if column.type.kind is Kind.INT:
                    assert all(LEAST <= v <= GREATEST for v in values.to_pylist() if v is not None)
                    shared += len(values.unique()) < 20
    assert min(widths) == ATTRIBUTES_MIN
    assert max(widths) == ATTRIBUTES_MAX
    assert kinds[Kind.INT] > kinds.total() / 2
    assert kinds[Kind.DOUBLE] > 20
    assert kinds[Kind.STRING] > 20
    assert nulls > 20
    assert shared > 20


def test_queries_are_answered_with_few_results() -> None:
    sources, filled, coverage = Counter[int](), Counter[int](), Counter[str]()
    rows_found = 0
    for seed in range(QUERIES):
        made, rows = world(seed // 40)
        query = made.query(seed)
        parsed = parse(query.text, Settings())
        assert set(parsed.params) == set(query.params), f"seed {seed}: {query.text}"
        streams = [made.catalog.streams[scan.relation.lower()] for scan in lower(parsed, made.catalog).sources]
        asked = constrained(parsed)
        most = sum(asked.values()) / sum(len(attributes_of(s)) for s in streams)
        coverage["none" if not asked else "few" if most < 0.3 else "most" if most > 0.7 else "some"] += 1
        found = answer(parsed, query.params, made.catalog, rows, TAU_US).num_rows
        assert found <= RESULTS_MAX, f"seed {seed}: {found} results of {query.text}"
        sources[len(streams)] += 1
        filled[len(streams)] += found > 0
        rows_found += found
    assert sorted(sources) == [1, 2, 3, 4, 5, 6]
    assert all(filled[n] > sources[n] * 0.4 for n in sources), (filled, sources)
    assert rows_found < 200 * filled.total()
    assert all(coverage[share] > QUERIES / 40 for share in ("none", "few", "some", "most")), coverage


def test_templates_are_answered_row_by_row() -> None:
    filled = total = 0
    for seed in range(40):
        made, rows = world(seed % 8)
        template = made.template(seed, 5)
        parsed = parse(template.text, Settings())
        assert parsed.params, template.text
        assert set(parsed.params) == set(template.params.column_names), template.text
        for params in template.params.to_pylist():
            filled += answer(parsed, params, made.catalog, rows, TAU_US).num_rows > 0
            total += 1
    assert filled > total / 2


def test_all_forms_occur() -> None:
    texts = [world(seed // 100)[0].query(seed).text for seed in range(1_000)]
    occurring = {part: sum(part in text for text in texts) for part in PARTS}
    assert {part: n for part, n in occurring.items() if n < 10} == {}


@pytest.mark.parametrize("sources", [1, 2, 3, 4, 5, 6])
def test_a_count_of_sources_can_be_asked_for(sources: int) -> None:
    for seed in range(10):
        made, _ = world(seed % 3)
        assert len(lower(parse(made.query(seed, sources=sources).text, Settings()), made.catalog).sources) == sources


def test_everything_is_reproducible() -> None:
    for seed in range(5):
        catalog = wide_catalog(seed)
        rows = [{name: wide_rows(s, 60, seed) for name, s in catalog.streams.items()} for _ in range(2)]
        assert repr(rows[0]) == repr(rows[1])
        one, other = (WideWorld(catalog, some, seed) for some in rows)
        assert repr(one.query(seed)) == repr(other.query(seed))
        templates = one.template(seed), other.template(seed)
        assert templates[0].text == templates[1].text
        assert repr(templates[0].params.to_pylist()) == repr(templates[1].params.to_pylist())
        assert one.query(seed).text != one.query(seed + 1).text
