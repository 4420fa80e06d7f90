"""explode(array) in select lists and as LATERAL VIEW, against a plain twin."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weir
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.sql.shapes import shape_of
from weir.testing.direct import DirectWeir

START_US = 1_772_323_200_000_000
Rows = list[dict[str, Any]]


@pytest.fixture
def rows() -> pa.Table:
    rng = random.Random(2)
    times = [START_US + rng.randrange(0, 600_000_000) for _ in range(40)]
    lists = [rng.choice([None, [rng.choice([None, *range(5)]) for _ in range(rng.randrange(4))]]) for _ in times]
    return pa.table(
        {
            "k": pa.array(range(40), pa.int32()),
            "xs": pa.array(lists, pa.list_(pa.int32())),
            "s": [rng.choice([None, "a b", "b", "", "a a c"]) for _ in times],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture
def w(tmp_path: Path, rows: pa.Table) -> weir.Weir:
    w = weir.open(tmp_path)
    w.stream("t", "k int, xs array<int> null, s string null, ts timestamp", time="ts", keep="1 day")
    DirectWeir(w, slices=1, wall_us=START_US + 3_600_000_000).batch({"t": rows})
    return w


def elements(rows: Rows, *, outer: bool = False) -> Iterator[tuple[int, Any]]:
    for row in rows:
        for x in row["xs"] or ([None] if outer else []):
            yield row["k"], x


def words(rows: Rows) -> Iterator[tuple[int, str]]:
    for row in rows:
        for word in [] if row["s"] is None else row["s"].split(" "):
            yield row["k"], word


QUERIES: list[tuple[str, Callable[[Rows], list[tuple[Any, ...]]]]] = [
    ("SELECT k, explode(xs) AS x FROM t", lambda rows: list(elements(rows))),
    ("SELECT k, explode_outer(xs) AS x FROM t", lambda rows: list(elements(rows, outer=True))),
    ("SELECT explode(xs) FROM t WHERE k > 20", lambda rows: [(x,) for k, x in elements(rows) if k > 20]),
    ("SELECT k, word FROM t LATERAL VIEW explode(split(s, ' ')) v AS word", lambda rows: list(words(rows))),
    (
        "SELECT word, count(*) AS n FROM t LATERAL VIEW explode(split(s, ' ')) v AS word "
        "WHERE word <> '' GROUP BY word",
        lambda rows: list(Counter(word for _, word in words(rows) if word).items()),
    ),
    (
        "SELECT t.k, x, word FROM t LATERAL VIEW OUTER explode(xs) v AS x "
        "LATERAL VIEW explode(split(s, ' ')) u AS word",
        lambda rows: [(k, x, word) for k, x in elements(rows, outer=True) for j, word in words(rows) if j == k],
    ),
    (
        "SELECT t.k, q.e FROM t, LATERAL (SELECT explode(t.xs) AS e) q WHERE q.e > 2",
        lambda rows: [(k, x) for k, x in elements(rows) if x is not None and x > 2],
    ),
    (
        "SELECT k FROM t WHERE 3 IN (SELECT explode(t.xs))",
        lambda rows: [(row["k"],) for row in rows if row["xs"] and 3 in row["xs"]],
    ),
    (
        "SELECT e, max(k) FROM (SELECT DISTINCT k, explode(xs) AS e FROM t) WHERE e IS NOT NULL GROUP BY e",
        lambda rows: [
            (e, max(k for k, x in elements(rows) if x == e)) for e in {x for _, x in elements(rows)} - {None}
        ],
    ),
]


@pytest.mark.parametrize(("sql", "twin"), QUERIES)
def test_a_row_for_each_element(
    w: weir.Weir, rows: pa.Table, sql: str, twin: Callable[[Rows], list[tuple[Any, ...]]]
) -> None:
    expected = twin(rows.to_pylist())
    assert expected
    got = w.register(sql).fetch()
    assert Counter(zip(*(c.to_pylist() for c in got.columns), strict=True)) == Counter(expected)


@pytest.mark.parametrize("sql", [sql for sql, _ in QUERIES])
def test_a_shape_is_read_back(w: weir.Weir, sql: str) -> None:
    shape = shape_of(lower(parse(sql, w.settings), w.catalog))
    assert lower(parse(shape.text, w.settings), w.catalog, shape.param_types).root == shape.query.root


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT explode(xs) + 1 FROM t", "explode.. stands alone in a select list"),
        ("SELECT k FROM t WHERE explode(xs) > 1", "explode.. stands alone in a select list"),
        ("SELECT explode(xs), explode(xs) FROM t", "has one explode"),
        ("SELECT explode(xs), count(*) FROM t GROUP BY 1", "stands alone in a select list of rows|cannot"),
        ("SELECT explode(xs), row_number() OVER (ORDER BY ts) FROM t", "stands alone in a select list of rows"),
        ("SELECT explode(k) FROM t", "takes an array, got int"),
        ("SELECT explode(xs, 1) FROM t", "takes 1 argument, got 2"),
        ("SELECT k FROM t LATERAL VIEW explode(xs)", "syntax error"),
        ("SELECT k FROM t LATERAL VIEW posexplode(xs) v AS a, b", "LATERAL VIEW takes explode"),
    ],
)
def test_what_is_refused(w: weir.Weir, sql: str, message: str) -> None:
    with pytest.raises(weir.WeirError, match=message):
        w.register(sql)
