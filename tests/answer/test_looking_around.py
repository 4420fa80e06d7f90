"""Queries that look at rows around them, wherever in them: DuckDB's answers, and a plain twin's."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.sql.shapes import shape_of
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

START_US = 1_772_323_200_000_000


@pytest.fixture
def rows() -> dict[str, pa.Table]:
    rng = random.Random(11)

    def table(count: int) -> pa.Table:
        times = [START_US + rng.randrange(0, 600_000_000) for _ in range(count)]
        return pa.table(
            {
                "k": pa.array([rng.choice([None, 0, 1, 2]) for _ in times], pa.int32()),
                "s": [rng.choice([None, "a", "b"]) for _ in times],
                "x": pa.array([rng.choice([None, *range(-2, 9)]) for _ in times], pa.int64()),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )

    return {"t": table(40), "u": table(25)}


@pytest.fixture
def w(tmp_path: Path, rows: dict[str, pa.Table]) -> weir.Weir:
    w = weir.open(tmp_path)
    for name in "tu":
        w.stream(name, "k int null, s string null, x bigint null, ts timestamp", time="ts", keep="1 day")
    DirectWeir(w, slices=1, wall_us=START_US + 3_600_000_000).batch(rows)
    return w


QUERIES = [
    # Rows compared with rows of a subquery.
    "SELECT k, s FROM t WHERE (k, s) IN (SELECT k, s FROM u)",
    "SELECT k, s, (k, x) IN (SELECT k, x FROM u WHERE u.s = t.s) AS i FROM t",
    "SELECT k, x FROM t WHERE (k, x) NOT IN (SELECT k, x FROM u WHERE x > 4)",
    "SELECT k, x FROM t WHERE NOT (k, x + 1, s) IN (SELECT k, max(x), s FROM u GROUP BY k, s)",
    # Set operations.
    "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.x > 5 UNION SELECT 2 FROM u WHERE u.x = t.x)",
    "SELECT x FROM t WHERE x IN (SELECT x FROM u WHERE u.k = t.k EXCEPT SELECT x FROM u WHERE u.s = t.s)",
    "SELECT x FROM t WHERE x IN (SELECT x FROM u WHERE u.k = t.k INTERSECT ALL SELECT x FROM u WHERE x > 1)",
    "SELECT x, (SELECT x FROM u WHERE u.k = t.k UNION SELECT x FROM u ORDER BY 1 DESC NULLS LAST LIMIT 1) AS m FROM t",
    # DISTINCT and LIMIT, queries in FROM and of WITH.
    "SELECT x, (SELECT DISTINCT x FROM u WHERE u.k = t.k ORDER BY x DESC NULLS LAST LIMIT 1 OFFSET 1) AS m FROM t",
    "SELECT x, (SELECT max(x) FROM (SELECT x FROM u WHERE u.k = t.k ORDER BY x LIMIT 2)) AS m FROM t",
    "SELECT x FROM t WHERE x < (SELECT sum(n) FROM (SELECT count(*) AS n FROM u WHERE u.k = t.k GROUP BY s))",
    "SELECT x, (SELECT count(*) FROM (SELECT x, rank() OVER (ORDER BY x) AS r FROM u WHERE u.k = t.k) q WHERE r < 4 "
    "AND q.x < t.x) AS n FROM t",
    "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM (SELECT DISTINCT x, k FROM u WHERE u.s = t.s) q JOIN u ON u.x = q.x)",
    # Joins that look around, and subqueries in the conditions of subqueries.
    "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN u v ON u.x = v.x AND t.k = u.k WHERE v.x IS NULL)",
    "SELECT x, (SELECT count(v.x) FROM u LEFT JOIN u v ON u.x = v.x AND t.k = u.k WHERE u.k = t.k) AS n FROM t",
    "SELECT x, (SELECT count(*) FROM u LEFT ANTI JOIN u v ON u.x = v.x + t.k) AS n FROM t",
    "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.x IN (SELECT x FROM t t2 WHERE t2.s = u.s))",
    "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.x IN (SELECT x FROM t t2 WHERE t2.s = t.s))",
    # LATERAL.
    "SELECT t.x, q.* FROM t, LATERAL (SELECT max(x) AS m, count(*) AS n FROM u WHERE u.k = t.k) q",
    "SELECT t.x, q.x FROM t JOIN LATERAL (SELECT x FROM u WHERE u.k = t.k ORDER BY x DESC, s LIMIT 2) q ON q.x < t.x",
    "SELECT t.x, q.y FROM t LEFT JOIN LATERAL (SELECT min(x) AS y FROM u WHERE u.x > t.x GROUP BY k) q ON q.y > 5",
    "SELECT t.x, z FROM t, LATERAL (SELECT t.x + 1 AS z) q WHERE z > 3",
    "SELECT t.x, n, m FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE u.k = t.k) q, "
    "LATERAL (SELECT max(x) AS m FROM u WHERE u.x < q.n) r WHERE n > (SELECT min(x) FROM u)",
    "SELECT t.k, count(*) AS n, max(m) AS m FROM t, LATERAL (SELECT max(x) AS m FROM u WHERE u.k = t.k) q GROUP BY t.k",
    # HAVING alone makes one group.
    "SELECT 3 AS a FROM t HAVING TRUE",
    "SELECT 3 AS a FROM t WHERE x > 100 HAVING 2 > 1",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_duckdbs(w: weir.Weir, rows: dict[str, pa.Table], sql: str) -> None:
    got = w.register(sql).fetch()
    assert got.num_rows
    assert differ(answer(sql, {}, w.catalog, rows, w.state.now_us or 0), got) is None


@pytest.mark.parametrize("sql", QUERIES)
def test_a_shape_is_read_back(w: weir.Weir, sql: str) -> None:
    shape = shape_of(lower(parse(sql, w.settings), w.catalog))
    assert lower(parse(shape.text, w.settings), w.catalog, shape.param_types).root == shape.query.root


def test_a_name_of_with_may_look_around(w: weir.Weir, rows: dict[str, pa.Table]) -> None:
    same = [
        w.register(f"SELECT k, x FROM t WHERE x IN ({inner})").fetch()
        for inner in ("WITH q AS (SELECT x FROM u WHERE u.k = t.k) SELECT * FROM q", "SELECT x FROM u WHERE u.k = t.k")
    ]
    assert same[0].num_rows
    assert differ(same[0], same[1]) is None


def test_except_leaves_out_nothing_for_a_null_around(w: weir.Weir, rows: dict[str, pa.Table]) -> None:
    """Spark says otherwise: there the rows with s = NULL are gone."""
    found = w.register(
        "SELECT k, s, x FROM t WHERE x IN (SELECT x FROM u WHERE u.k = t.k EXCEPT SELECT x FROM u WHERE u.s = t.s)"
    )
    t, u = rows["t"].to_pylist(), rows["u"].to_pylist()
    expected = []
    for row in t:
        mine = {o["x"] for o in u if o["k"] == row["k"] is not None}
        mine -= {o["x"] for o in u if o["s"] == row["s"] is not None}
        if row["x"] is not None and row["x"] in mine:
            expected.append((row["k"], row["s"], row["x"]))
    assert any(s is None for _, s, _ in expected)
    got = [(r["k"], r["s"], r["x"]) for r in found.fetch().to_pylist()]
    assert sorted(map(str, got)) == sorted(map(str, expected))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k FROM t WHERE (k, x) IN (SELECT k FROM u)", "2 values with a subquery of 1 columns"),
        ("SELECT k FROM t WHERE k IN (SELECT k, x FROM u)", "stands for a value has one column"),
        ("SELECT t.k FROM t RIGHT JOIN LATERAL (SELECT x FROM u WHERE u.k = t.k) q ON TRUE", "inner or a LEFT join"),
        ("SELECT t.k FROM t, (SELECT x FROM u WHERE u.k = t.k) q", "'t' is no source of this query"),
        ("SELECT u.k FROM LATERAL (SELECT t.k) q, t", "'t' is no source|no source"),
        ("SELECT x FROM t, LATERAL u", "syntax error near|LATERAL"),
        ("SELECT x FROM t HAVING TRUE", "neither in GROUP BY nor in an aggregate"),
    ],
)
def test_what_is_refused(w: weir.Weir, sql: str, message: str) -> None:
    with pytest.raises(weir.WeirError, match=message):
        w.register(sql)
