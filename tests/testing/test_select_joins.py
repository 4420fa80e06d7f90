"""Generated select joins: reproducible, taken by the language, answered by the oracle, and seldom empty."""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa
import pytest

from tests.generators import (
    PLACEMENTS,
    SPAN_US,
    START_US,
    join_catalog,
    random_catalog,
    random_join_template,
    random_rows,
    random_select_join,
)
from tests.marks import few_are_quick
from weir.algebra.nodes import And, ColumnRef, Comparison, Expression, Join, Not, Or, Project, Select, walk
from weir.algebra.schema import Catalog, DataType, Kind, Stream
from weir.families.joins import join_family
from weir.settings import Settings
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.testing import answer

pytestmark = pytest.mark.slow

TAU_US = START_US + SPAN_US * 3 // 4
QUERIES = 150
PARTS = [
    part
    for line in (
        "BETWEEN | NOT BETWEEN | IN ( | NOT IN ( | LIKE | IS NULL | IS NOT NULL | NOT ( | ) OR ( | ) AND ( | USING (",
        "JOIN | INNER JOIN | ON | WHERE | FROM trade s0, | [ROWS | [RANGE | BEGIN NOW - | BEGIN TIMESTAMP | BEGIN '",
        "CAST( | = abs( | = - | SELECT * | .* | AS x0 | + | * | / | % | :p0 | < | >= | = | <> | TRADE",
    )
    for part in line.split(" | ")
]


@cache
def world(seed: int, *, skew: float = 0.0) -> tuple[Catalog, dict[str, pa.Table]]:
    catalog = join_catalog(seed)
    orders = ("ordered", "shuffled", "clustered")
    return catalog, {
        name: random_rows(s, 80, seed, order=orders[seed % 3], skew=skew) for name, s in catalog.streams.items()
    }


def type_of(stream: Stream, name: str) -> DataType:
    column = stream.column(name)
    assert column is not None, f"{stream.name} has no column {name}"
    return column.type


def atoms(e: Expression) -> list[Expression]:
    if isinstance(e, And | Or):
        return [atom for arg in e.args for atom in atoms(arg)]
    return atoms(e.arg) if isinstance(e, Not) else [e]


@pytest.mark.slow
def test_every_query_is_a_select_join_and_answered() -> None:
    """Something connects the two sources, mostly an equality, and the oracle takes all of them."""
    empty = rows_in_all = mixed = bands = further = 0
    for seed in range(QUERIES):
        catalog, rows = world(seed // 8)
        query = random_select_join(catalog, seed)
        parsed = parse(query.text, Settings())
        assert set(parsed.params) == set(query.params), f"seed {seed}: {query.text}"
        lowered = lower(parsed, catalog)
        assert join_family.refusal(lowered, catalog) is None, f"seed {seed}: {query.text}"
        node = lowered.root
        assert isinstance(node, Project)
        conditions: list[Expression] = []
        below = node.child
        if isinstance(below, Select):
            conditions.append(below.predicate)
            below = below.child
        assert isinstance(below, Join), query.text
        conditions += [] if below.predicate is None else [below.predicate]
        over_both = [
            atom
            for atom in (a for c in conditions for a in atoms(c))
            if len({p.source for p in walk(atom) if isinstance(p, ColumnRef)}) > 1
        ]
        assert over_both, f"seed {seed}: {query.text}"
        equalities = [a for a in over_both if isinstance(a, Comparison) and a.op == "="]
        bands += not join_family.joined(lowered, catalog).family.keys
        further += len(over_both) > len(equalities)
        mixed += "k = " in query.text and len({type_of(s, "k") for s in catalog.streams.values()}) > 1
        found = answer(parsed, query.params, catalog, rows, TAU_US)
        empty += found.num_rows == 0
        rows_in_all += found.num_rows
    assert empty < QUERIES * 0.5, f"{empty} of {QUERIES} are empty"
    assert rows_in_all > QUERIES * 15, "answers of a few rows prove little"
    assert mixed > QUERIES // 20, "keys of mixed types occur"
    assert QUERIES // 20 < bands < QUERIES // 4, "joins without an equality occur"
    assert further > QUERIES // 10, "and conditions over both sources beside one"


@pytest.mark.slow
def test_random_catalogs_have_select_joins_too() -> None:
    empty = 0
    for seed in range(120):
        catalog = random_catalog(seed // 4, tables=0)
        rows = {name: random_rows(s, 80, seed // 4) for name, s in catalog.streams.items()}
        query = random_select_join(catalog, seed)
        empty += answer(query.text, query.params, catalog, rows, TAU_US).num_rows == 0
    assert empty < 120 * 0.75, f"{empty} of 120 are empty"


def test_all_forms_occur() -> None:
    texts = [random_select_join(world(seed // 50)[0], seed).text for seed in range(1_500)]
    counts = {part: sum(part in text for text in texts) for part in PARTS}
    assert {part: n for part, n in counts.items() if n < 3} == {}
    assert sum("BEGIN" not in t and "[R" not in t for t in texts) > 100, "queries without a window occur"
    sources = [re.findall(r"\b(trade|weather|quote)\b", t.lower()) for t in texts]
    assert sum(j[0] == j[1] for j in sources) > 100, "self-joins occur"
    assert {(j[0], j[1]) for j in sources} >= {("trade", "weather"), ("weather", "trade")}


@pytest.mark.parametrize("placement", few_are_quick(PLACEMENTS, quick=1))
def test_templates_are_answered_row_by_row(placement: str) -> None:
    empty = total = 0
    for seed in range(24):
        catalog, rows = world(seed)
        template = random_join_template(catalog, seed, 4, placement=placement)
        parsed = parse(template.text, Settings())
        assert set(parsed.params) == set(template.params.column_names), f"seed {seed}: {template.text}"
        assert join_family.refusal(lower(parsed, catalog), catalog) is None, f"seed {seed}: {template.text}"
        for params in template.params.to_pylist():
            empty += answer(parsed, params, catalog, rows, TAU_US).num_rows == 0
            total += 1
    assert total == 96
    assert empty < total * (0.85 if placement in ("clustered", "scattered") else 0.6), f"{empty} of {total} are empty"


def test_a_placement_must_be_known() -> None:
    with pytest.raises(ValueError, match="none of clustered"):
        random_join_template(join_catalog(1), 1, placement="dense")


def test_everything_is_reproducible() -> None:
    for seed in range(20):
        assert join_catalog(seed) == join_catalog(seed)
        catalog = join_catalog(seed)
        assert repr(random_select_join(catalog, seed)) == repr(random_select_join(catalog, seed))
        one, other = random_join_template(catalog, seed), random_join_template(catalog, seed)
        assert one.text == other.text
        assert repr(one.params.to_pylist()) == repr(other.params.to_pylist())
    assert random_select_join(catalog, 1).text != random_select_join(catalog, 2).text


def test_join_columns_meet() -> None:
    """Streams have numbers of different types and strings to join on; skewed rows meet in one value."""
    catalogs = [join_catalog(seed) for seed in range(60)]
    assert {len(c.streams) for c in catalogs} == {2, 3}
    types = {type_of(s, "k").kind for c in catalogs for s in c.streams.values()}
    assert types == {Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL}
    text = "SELECT a.ts FROM trade a JOIN weather b ON a.area = b.area BEGIN NOW - INTERVAL 5 MINUTES END NOW"
    plain = skewed = 0
    for seed in range(10):
        plain += answer(text, None, *world(seed), START_US + SPAN_US).num_rows
        skewed += answer(text, None, *world(seed, skew=0.6), START_US + SPAN_US).num_rows
    assert plain > 0
    assert skewed > 3 * plain
