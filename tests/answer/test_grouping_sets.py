"""ROLLUP, CUBE and GROUPING SETS: DuckDB's answers, a plain twin's, and what Spark does where SQL leaves a choice."""

from __future__ import annotations

import random
from collections import Counter
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
    rng = random.Random(7)
    times = [START_US + rng.randrange(0, 600_000_000) for _ in range(60)]
    t = {
        "a": pa.array([rng.choice([None, 1, 2]) for _ in times], pa.int32()),
        "b": [rng.choice([None, "x", "y"]) for _ in times],
        "c": [rng.choice([True, False]) for _ in times],
        "x": pa.array([rng.randrange(-5, 6) for _ in times], pa.int64()),
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
    }
    u = {"a": pa.array([1, 2, 2, 3], pa.int32()), "ts": pa.array(times[:4], pa.timestamp("us", "UTC"))}
    return {"t": pa.table(t), "u": pa.table(u)}


@pytest.fixture
def w(tmp_path: Path, rows: dict[str, pa.Table]) -> weir.Weir:
    w = weir.open(tmp_path)
    w.stream("t", "a int null, b string null, c boolean, x bigint, ts timestamp", time="ts", keep="1 day")
    w.stream("u", "a int, ts timestamp", time="ts", keep="1 day")
    DirectWeir(w, slices=1, wall_us=START_US + 3_600_000_000).batch(rows)
    return w


QUERIES = [
    "SELECT a, b, count(*) AS n, sum(x) AS s FROM t GROUP BY ROLLUP(a, b)",
    "SELECT a, b, c, grouping(a) + grouping(c) AS g, grouping_id(a, b, c) AS i, max(a) FROM t GROUP BY CUBE(a, b, c)",
    "SELECT a, b, count(*) FROM t GROUP BY a, b WITH ROLLUP HAVING grouping(b) = 1",
    "SELECT a, b, count(*) FROM t GROUP BY a, b WITH CUBE ORDER BY grouping_id(), a, b LIMIT 5",
    "SELECT a, b, count(*) FROM t GROUP BY a, b GROUPING SETS ((a, b), a, (a), ())",
    "SELECT a + 1 AS z, b, sum(a) FROM t GROUP BY GROUPING SETS ((a + 1), (b), ())",
    "SELECT c, b, count(*), grouping_id() FROM t GROUP BY c, CUBE(a, b)",
    "SELECT a, b, count(*) FROM t GROUP BY ROLLUP((a, b), c), GROUPING SETS ((a), (b))",
    "SELECT a, b, c, count(*) FROM t GROUP BY GROUPING SETS (ROLLUP(a, b), CUBE(c), (c, b))",
    "SELECT b AS name, count(*) FROM t GROUP BY ROLLUP(name, 1)",
    "SELECT t.a, count(*), count(DISTINCT x) FILTER (WHERE x > 0) FROM t JOIN u ON t.a = u.a GROUP BY ROLLUP(t.a, b)",
    "SELECT a, rank() OVER (PARTITION BY grouping(a) ORDER BY count(*), a) AS r FROM t GROUP BY CUBE(a)",
    "SELECT window.start AS s, window.end AS e, a, count(*) FROM t GROUP BY ROLLUP(window(ts, '2 minutes'), a)",
    "SELECT DISTINCT coalesce(b, 'all') AS b FROM t GROUP BY ROLLUP(b)",
    "SELECT a, count(*) FROM t WHERE x > (SELECT min(x) FROM t) GROUP BY GROUPING SETS ((a))",
    "SELECT n FROM (SELECT a, count(*) AS n FROM t GROUP BY ROLLUP(a)) WHERE a = 1 UNION ALL SELECT x FROM t WHERE c",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_duckdbs(w: weir.Weir, rows: dict[str, pa.Table], sql: str) -> None:
    got = w.register(sql).fetch()
    assert got.num_rows
    assert differ(answer(sql, {}, w.catalog, rows, w.state.now_us or 0), got, ordered="ORDER BY g" in sql) is None


@pytest.mark.parametrize("sql", QUERIES)
def test_a_shape_is_read_back(w: weir.Weir, sql: str) -> None:
    shape = shape_of(lower(parse(sql, w.settings), w.catalog))
    again = lower(parse(shape.text, w.settings), w.catalog, shape.param_types)
    assert again.root == shape.query.root


def test_cubes_of_the_same_keys_share_a_shape_whatever_their_constants(w: weir.Weir) -> None:
    texts = [f"SELECT a, count(*) FROM t WHERE x > {n} GROUP BY CUBE(a, b)" for n in (1, 2)]
    assert len({shape_of(lower(parse(text, w.settings), w.catalog)).text for text in texts}) == 1


def test_every_row_counts_once_for_each_set(w: weir.Weir, rows: dict[str, pa.Table]) -> None:
    found = w.register("SELECT a, b, grouping_id() AS g, count(*) AS n FROM t GROUP BY CUBE(a, b)").fetch().to_pylist()
    expected: Counter[tuple[object, object, int]] = Counter()
    for row in rows["t"].to_pylist():
        for bits in range(4):
            expected[None if bits & 2 else row["a"], None if bits & 1 else row["b"], bits] += 1
    assert {(r["a"], r["b"], r["g"]): r["n"] for r in found} == dict(expected)


def test_without_rows_there_are_no_groups_as_in_spark(w: weir.Weir) -> None:
    for sets in ("ROLLUP(a)", "GROUPING SETS ((a), ())", "GROUPING SETS (())"):
        assert w.register(f"SELECT count(*) FROM t WHERE x > 100 GROUP BY {sets}").fetch().num_rows == 0


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT grouping(a) FROM t GROUP BY a", "grouping.. needs sets of keys, line 1, column 8"),
        ("SELECT grouping_id() FROM t", "grouping_id.. needs sets of keys|neither in GROUP BY"),
        ("SELECT grouping(b) FROM t GROUP BY ROLLUP(a)", "takes a key of GROUP BY, line 1, column 8"),
        ("SELECT grouping(a, b) FROM t GROUP BY ROLLUP(a, b)", "takes 1 argument, got 2"),
        ("SELECT grouping_id(b, a) FROM t GROUP BY ROLLUP(a, b)", "takes all keys of GROUP BY in their order"),
        ("SELECT x FROM t GROUP BY ROLLUP(a)", "column 'x' is neither in GROUP BY nor"),
        ("SELECT a FROM t GROUP BY a GROUPING SETS ((b))", "a key that GROUP BY does not list"),
        ("SELECT a FROM t WHERE grouping(a) = 0 GROUP BY ROLLUP(a)", "grouping.. cannot be used in WHERE"),
        ("SELECT a FROM t GROUP BY ROLLUP(sum(x))", "GROUP BY cannot hold an aggregate"),
        (
            "SELECT 1 FROM t GROUP BY CUBE(a, b, c, x, ts, a+1, a+2, a+3, a+4, a+5, a+6, a+7, a+8)",
            "more than 4,096 sets",
        ),
        ("SELECT a FROM t GROUP BY CUBE(a, ())", "CUBE has an empty set"),
        ("SELECT a FROM t GROUP BY GROUPING SETS (a, ROLLUP((), a))", "ROLLUP has an empty"),
    ],
)
def test_what_is_refused(w: weir.Weir, sql: str, message: str) -> None:
    with pytest.raises(weir.WeirError, match=message):
        w.register(sql)
