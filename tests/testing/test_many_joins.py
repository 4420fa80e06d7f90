"""Generated joins of three to six sources: reproducible, taken by the language, answered, and not mostly empty."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import pyarrow as pa
import pytest

from tests.generators import (
    PLACEMENTS,
    SPAN_US,
    START_US,
    join_catalog,
    random_many_join,
    random_many_join_template,
    random_rows,
)
from tests.marks import few_are_quick
from weir.algebra.nodes import ColumnRef, Comparison, Expression, Join, Project, Query, walk
from weir.algebra.schema import Catalog
from weir.families.joins.join_family import terms_of
from weir.families.many import many_family
from weir.settings import Settings
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.testing import answer

pytestmark = pytest.mark.slow

TAU_US = START_US + SPAN_US * 3 // 4
QUERIES = 300
ROWS_MAX = 100_000
PARTS = [
    part
    for line in (
        "BETWEEN | IN ( | LIKE | IS NULL | IS NOT NULL | NOT ( |  OR  | USING ( | CROSS JOIN | INNER JOIN | ON | WHERE",
        "[ROWS | [RANGE | BEGIN NOW - | BEGIN TIMESTAMP | CAST( | = abs( | SELECT * | .* | AS x0 | % 3 | :p0 | <>",
        "abs( | - INTERVAL | + 1 = | NOT (r0",
    )
    for part in line.split(" | ")
]


@cache
def world(seed: int) -> tuple[Catalog, dict[str, pa.Table]]:
    catalog = join_catalog(seed)
    order = ("ordered", "shuffled", "clustered")[seed % 3]
    return catalog, {name: random_rows(s, 80, seed, order=order) for name, s in catalog.streams.items()}


def edges_of(query: Query) -> set[frozenset[int]]:
    """The pairs of sources that equalities connect."""
    assert isinstance(query.root, Project)
    join = query.root.child
    assert isinstance(join, Join)
    found = set()
    for term in () if join.predicate is None else terms_of(join.predicate, True):
        if isinstance(term, Comparison) and term.op == "=":
            sides = [{p.source for p in walk(side) if isinstance(p, ColumnRef)} for side in (term.left, term.right)]
            if len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]:
                found.add(frozenset(sides[0] | sides[1]))
    return found


@pytest.mark.slow
def test_every_query_is_a_join_of_many_sources_and_answered() -> None:
    counts: Counter[int] = Counter()
    filled: Counter[int] = Counter()
    shapes: Counter[str] = Counter()
    for seed in range(QUERIES):
        catalog, rows = world(seed // 8)
        query = random_many_join(catalog, seed)
        parsed = parse(query.text, Settings())
        assert set(parsed.params) == set(query.params), f"seed {seed}: {query.text}"
        lowered = lower(parsed, catalog)
        assert many_family.refusal(lowered, catalog) is None, f"seed {seed}: {query.text}"
        n, edges = len(lowered.sources), edges_of(lowered)
        degrees = Counter(source for edge in edges for source in edge)
        cyclic = len(edges) >= n
        shapes["cycle" if cyclic else "star" if n > 3 and n - 1 in degrees.values() else "chain or tree"] += 1
        shapes["a stream repeated"] += len({scan.relation for scan in lowered.sources}) < n
        found = answer(parsed, query.params, catalog, rows, TAU_US).num_rows
        assert found < ROWS_MAX, f"seed {seed}: {found} rows: {query.text}"
        counts[n] += 1
        filled[n] += found > 0
    assert sorted(counts) == [3, 4, 5, 6]
    assert counts[3] > counts[4] > counts[5] > counts[6]
    assert sum(filled.values()) > QUERIES * 0.45, f"not empty: {filled} of {counts}"
    assert all(filled.values()), filled
    assert min(shapes[name] for name in ("cycle", "star", "chain or tree", "a stream repeated")) > QUERIES // 20, shapes


def test_all_forms_occur() -> None:
    texts = [random_many_join(world(seed // 50)[0], seed).text for seed in range(1_500)]
    occurring = {part: sum(part in text for text in texts) for part in PARTS}
    assert {part: n for part, n in occurring.items() if n < 3} == {}
    assert sum("BEGIN" not in t and "[R" not in t for t in texts) > 100, "queries without a window occur"
    both = [t for t in texts if re.search(r"\w\.(ts|TS) - \w+\.(ts|TS)", t)]
    assert len(both) > 100, "distances in time occur"


@pytest.mark.parametrize("sources", [3, 4, 5, 6])
def test_a_count_of_sources_can_be_asked_for(sources: int) -> None:
    for seed in range(20):
        catalog, _ = world(seed)
        query = random_many_join(catalog, seed, sources=sources)
        assert len(lower(parse(query.text, Settings()), catalog).sources) == sources


@pytest.mark.slow
def test_loose_queries_have_a_source_that_no_equality_reaches() -> None:
    """By a bounded difference, an inequality or nothing; DuckDB answers the text all the same."""
    apart = empty = crossed = 0
    for seed in range(150):
        catalog, rows = world(seed // 8)
        query = random_many_join(catalog, seed, loose=1.0)
        parsed = parse(query.text, Settings())
        lowered = lower(parsed, catalog)
        reached = {0}
        while grown := {s for e in edges_of(lowered) if e & reached for s in e} - reached:
            reached |= grown
        apart += len(reached) < len(lowered.sources)
        found = answer(parsed, query.params, catalog, rows, TAU_US).num_rows
        assert found < ROWS_MAX, f"seed {seed}: {found} rows: {query.text}"
        empty += found == 0
        assert isinstance(lowered.root, Project)
        assert isinstance(lowered.root.child, Join)
        predicate = lowered.root.child.predicate
        mentioned = {p.source for t in (terms_of(predicate, True) if predicate else ()) for p in _pair(t)}
        crossed += len(mentioned) < len(lowered.sources)
    assert apart > 140, "a condition over pairs may be an equality by chance"
    assert empty < 100, f"{empty} of 150 are empty"
    assert crossed > 10, "cross products occur"


def _pair(term: Expression) -> list[ColumnRef]:
    columns = [p for p in walk(term) if isinstance(p, ColumnRef)]
    return columns if len({c.source for c in columns}) > 1 else []


@pytest.mark.parametrize("placement", few_are_quick(PLACEMENTS, quick=1))
def test_templates_are_answered_row_by_row(placement: str) -> None:
    empty = total = 0
    for seed in range(24):
        catalog, rows = world(seed)
        template = random_many_join_template(catalog, seed, 4, placement=placement)
        parsed = parse(template.text, Settings())
        assert parsed.params, f"seed {seed}: {template.text}"
        assert set(parsed.params) == set(template.params.column_names), f"seed {seed}: {template.text}"
        assert many_family.refusal(lower(parsed, catalog), catalog) is None, f"seed {seed}: {template.text}"
        for params in template.params.to_pylist():
            empty += answer(parsed, params, catalog, rows, TAU_US).num_rows == 0
            total += 1
    assert total == 96
    assert empty < total * 0.85, f"{empty} of {total} are empty"


def test_a_placement_must_be_known() -> None:
    with pytest.raises(ValueError, match="none of clustered"):
        random_many_join_template(join_catalog(1), 1, placement="dense")


def test_everything_is_reproducible() -> None:
    for seed in range(20):
        catalog = join_catalog(seed)
        assert repr(random_many_join(catalog, seed)) == repr(random_many_join(catalog, seed))
        one, other = random_many_join_template(catalog, seed), random_many_join_template(catalog, seed)
        assert one.text == other.text
        assert repr(one.params.to_pylist()) == repr(other.params.to_pylist())
    assert random_many_join(catalog, 1).text != random_many_join(catalog, 2).text
