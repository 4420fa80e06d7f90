"""Generated schemas, rows, queries and templates: reproducible, valid, varied, and answered by the oracle."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.generators import (
    KINDS,
    SPAN_US,
    START_US,
    random_catalog,
    random_query,
    random_rows,
    random_template,
    split_batches,
)
from weir.algebra.schema import Catalog, Kind, Stream
from weir.settings import Settings
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.testing import answer
from weir.testing.arrow_types import arrow_schema

pytestmark = pytest.mark.slow

TAU_US = START_US + SPAN_US * 3 // 4
ORDERS = ("ordered", "shuffled", "clustered")
QUERIES_PER_KIND = 80
PARTS = [
    part
    for line in (
        "= | <> | < | <= | > | >= | BETWEEN | NOT BETWEEN | IN ( | NOT IN ( | NULL) | LIKE | NOT LIKE | \\\\_",
        "IS NULL | IS NOT NULL | NOT ( | ) AND ( | ) OR ( | + | - | * | / | % | abs( | CAST( | = NULL | TRUE | e0",
        "SELECT * | .* | AS x0, | DISTINCT | GROUP BY | GROUP BY 1 | HAVING | count(*) | count(DISTINCT | sum(",
        "avg( | min( | max( | UNION SELECT | UNION ALL | EXCEPT SELECT | EXCEPT ALL | INTERSECT SELECT",
        "INTERSECT ALL | JOIN | USING ( | FROM trade s0, | BEGIN NOW - INTERVAL | BEGIN NOW - : | BEGIN TIMESTAMP",
        "BEGIN ' | BEGIN 17 | END NOW - | END NOW + | [RANGE | [ROWS | [RANGE : | TIMESTAMP ' | DATE ' | :p0",
    )
    for part in line.split(" | ")
]


@cache
def world(seed: int, *, tables: int | None = None) -> tuple[Catalog, dict[str, pa.Table]]:
    catalog = random_catalog(seed, tables=tables)
    relations = {**catalog.streams, **catalog.tables}
    return catalog, {name: random_rows(r, 80, seed, order=ORDERS[seed % 3]) for name, r in relations.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_query_is_taken_and_answered(kind: str) -> None:
    empty = everything = 0
    for seed in range(QUERIES_PER_KIND):
        catalog, rows = world(seed // 8, tables=1 if kind == "table" else None)
        query = random_query(catalog, seed, (kind,))
        assert query.kind == kind
        parsed = parse(query.text, Settings())
        assert set(parsed.params) == set(query.params), query.text
        lower(parsed, catalog)
        found = answer(parsed, query.params, catalog, rows, TAU_US)
        empty += found.num_rows == 0
        everything += kind == "selection" and found.num_rows == 80
    # A test of empty answers proves little; an answer of everything neither.
    assert empty < QUERIES_PER_KIND * (0.65 if kind == "intersect" else 0.5), f"{empty} of {QUERIES_PER_KIND} are empty"
    assert everything < QUERIES_PER_KIND * 0.2


def test_the_whole_grammar_occurs() -> None:
    texts = []
    for seed in range(3_000):
        catalog, _ = world(seed // 50)
        texts.append(random_query(catalog, seed).text)
    words = {part: sum(part in text for text in texts) for part in PARTS}
    assert {part: n for part, n in words.items() if n < 3} == {}
    assert sum("BEGIN" not in t and "[R" not in t for t in texts) > 100, "queries without a window occur"
    depth = max(_nesting(t) for t in texts)
    assert depth >= 4


def _nesting(text: str) -> int:
    level = deepest = 0
    for character in text:
        level += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, level)
    return deepest


def test_everything_is_reproducible() -> None:
    for seed in range(20):
        assert random_catalog(seed) == random_catalog(seed)
        catalog = random_catalog(seed)
        stream = next(iter(catalog.streams.values()))
        assert repr(random_query(catalog, seed)) == repr(random_query(catalog, seed))
        one, other = random_template(catalog, seed), random_template(catalog, seed)
        assert one.text == other.text
        assert repr(one.params.to_pylist()) == repr(other.params.to_pylist())
        rows = random_rows(stream, 50, seed)
        assert repr(rows.to_pylist()) == repr(random_rows(stream, 50, seed).to_pylist())
        assert [b.num_rows for b in split_batches(rows, seed)] == [b.num_rows for b in split_batches(rows, seed)]
    assert random_query(catalog, 1).text != random_query(catalog, 2).text


def test_catalogs_vary() -> None:
    catalogs = [random_catalog(seed) for seed in range(200)]
    assert {len(c.streams) for c in catalogs} == {1, 2, 3}
    assert {len(c.tables) for c in catalogs} == {0, 1, 2}
    streams = [s for c in catalogs for s in c.streams.values()]
    assert {len(s.columns) for s in streams} == set(range(2, 9))
    assert {c.type.kind for s in streams for c in s.columns} == set(Kind) - {
        Kind.INTERVAL,
        Kind.NULL,
        Kind.LIST,
        Kind.PAYLOAD,
    }
    assert len({s.keep_us for s in streams}) == 4
    for s in streams:
        names = [c.name.lower() for c in s.columns]
        assert len(set(names)) == len(names)


def _stream_with_all_types() -> Stream:
    found = (s for seed in range(2_000) for s in random_catalog(seed).streams.values())
    return next(s for s in found if len({c.type.kind for c in s.columns}) >= 6 and s.keep_us is not None and _bigint(s))


def _bigint(stream: Stream) -> str:
    return next((c.name for c in stream.columns if c.type.kind is Kind.BIGINT), "")


def test_rows_have_what_was_asked_for() -> None:
    stream = _stream_with_all_types()
    rows = random_rows(stream, 2_000, 7, nulls=0.1, specials=0.1, extremes=0.1)
    assert rows.schema.equals(arrow_schema(stream))
    assert rows.num_rows == 2_000
    times = rows.column("ts").cast(pa.int64()).to_numpy()
    assert times.min() > START_US
    assert times.max() <= START_US + SPAN_US
    assert rows.column("ts").null_count == 0
    for c in stream.columns:
        values = rows.column(c.name).to_pylist()
        if c.name != "ts":
            assert 100 < rows.column(c.name).null_count < 320
        if c.type.kind is Kind.DOUBLE:
            assert any(v is not None and math.isnan(v) for v in values)
            assert {math.inf, -math.inf} <= set(values)
            assert any(v == 0 and math.copysign(1, v) < 0 for v in values if v is not None)
        if c.type.kind is Kind.BIGINT:
            assert 2**63 - 1 in values
            assert -(2**63) not in values
        if c.type.kind is Kind.STRING:
            assert {"", "日本"} <= set(values)
            assert any(v and len(v) > 200 for v in values)


def test_orders_of_time() -> None:
    stream = next(iter(random_catalog(1).streams.values()))

    def times(order: str) -> list[int]:
        return random_rows(stream, 500, 3, order=order, duplicates=0).column("ts").cast(pa.int64()).to_pylist()

    assert times("ordered") == sorted(times("ordered"))
    assert times("shuffled") != sorted(times("shuffled"))
    assert times("clustered") != sorted(times("clustered"))
    assert len(set(times("clustered"))) < 260


def test_late_future_and_broken_rows() -> None:
    stream = _stream_with_all_types()
    assert stream.keep_us is not None
    rows = random_rows(stream, 1_000, 5, late=0.1, future=0.1, null_times=0.1, reserved=0.1)
    times = [t for t in rows.column("ts").cast(pa.int64()).to_pylist() if t is not None]
    assert 50 < rows.column("ts").null_count < 160
    assert 40 < sum(t < START_US - stream.keep_us for t in times) < 160
    assert 40 < sum(t > START_US + SPAN_US + stream.future_us for t in times) < 160
    assert pc.sum(pc.equal(rows.column(_bigint(stream)), -(2**63))).as_py() > 40


def test_duplicates_are_whole_rows() -> None:
    stream = _stream_with_all_types()
    plain = Counter(map(repr, random_rows(stream, 400, 2, duplicates=0).to_pylist()))
    doubled = Counter(map(repr, random_rows(stream, 400, 2, duplicates=0.3).to_pylist()))
    assert max(plain.values()) == 1
    assert sum(n > 1 for n in doubled.values()) > 50


def test_tables_have_unique_keys() -> None:
    catalog = random_catalog(3, tables=2)
    for table in catalog.tables.values():
        keys = random_rows(table, 20, 3).column(table.key[0])
        assert keys.null_count == 0
        assert len(keys.unique()) == len(keys) > 10


def test_splits_keep_rows_and_order() -> None:
    rows = random_rows(next(iter(random_catalog(1).streams.values())), 40, 1)
    splits = [split_batches(rows, seed) for seed in range(100)]
    for batches in splits:
        assert sum(b.num_rows for b in batches) == 40
        assert repr(pa.concat_tables(batches).to_pylist()) == repr(rows.to_pylist())
    assert any(b.num_rows == 0 for batches in splits for b in batches[1:-1])
    assert any(batches[0].num_rows == 0 for batches in splits)
    assert {len(batches) for batches in splits} == set(range(1, 9))
    assert len(split_batches(rows, 1, batches=12)) == 12
    assert [b.num_rows for b in split_batches(rows.slice(0, 0), 1, batches=3)] == [0, 0, 0]


@pytest.mark.slow
def test_templates_have_one_shape() -> None:
    kinds: Counter[str] = Counter()
    matched = 0
    for seed in range(100, 160):
        catalog, rows = world(seed % 7, tables=0)
        template = random_template(catalog, seed, 6)
        assert template.params.num_rows == 6
        parsed = parse(template.text, Settings())
        assert set(parsed.params) == set(template.params.column_names)
        lower(parsed, catalog)
        for params in template.params.to_pylist():
            matched += answer(parsed, params, catalog, rows, TAU_US).num_rows > 0
            kinds.update("null" for v in params.values() if v is None)
            kinds.update("nan" for v in params.values() if isinstance(v, float) and math.isnan(v))
    assert kinds["null"] > 10
    assert kinds["nan"] > 0
    assert 100 < matched < 340


def test_templates_take_arrow_scalars() -> None:
    catalog, rows = world(2, tables=0)
    template = random_template(catalog, 4, 5)
    for i, params in enumerate(template.params.to_pylist()):
        typed = {name: template.params.column(name)[i] for name in template.params.column_names}
        plain = answer(template.text, params, catalog, rows, TAU_US)
        assert repr(answer(template.text, typed, catalog, rows, TAU_US).to_pylist()) == repr(plain.to_pylist())


def test_unknown_kinds_are_named() -> None:
    with pytest.raises(ValueError, match="cartesian"):
        random_query(random_catalog(1), 1, ("selection", "cartesian"))
    with pytest.raises(ValueError, match="table"):
        random_query(random_catalog(1, tables=0), 1, ("table",))
