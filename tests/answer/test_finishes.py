"""Finishes on rows that are written out here, with answers that are too: what random queries do not draw."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.errors import RegisterError
from weir.sql.lower import NAMES_DEEP_MAX
from weir.sql.sources import SCANS_MAX
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
NAN, INF = float("nan"), float("inf")


def at(second: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=second)


@pytest.fixture(scope="module")
def w(tmp_path_factory: pytest.TempPathFactory) -> Iterator[weir.Weir]:
    place: Path = tmp_path_factory.mktemp("weir")
    with weir.open(place) as opened:
        opened.stream("s", "k int, g string, b bigint, d double, ts timestamp", time="ts", keep="forever")
        opened.stream("t", "k int, g string, x double, ts timestamp", time="ts", keep="forever")
        direct = DirectWeir(opened, wall_us=int(at(60).timestamp() * 1e6))
        s = pa.table(
            {
                "k": pa.array([1, 1, 2, 3, 3, None], pa.int32()),
                "g": ["a", "b", "b", "a", None, "c"],
                "b": [10, 3, 7, 20, 20, 5],
                "d": [1.5, 2.5, NAN, 0.0, INF, None],
                "ts": [at(n) for n in range(6)],
            }
        )
        t = pa.table(
            {
                "k": pa.array([1, 1, 2, 4, None], pa.int32()),
                "g": ["a", "b", "b", None, "d"],
                "x": [2.0, 1.0, 3.0, None, 5.0],
                "ts": [at(n) for n in range(5)],
            }
        )
        direct.batch({"s": s, "t": t})
        yield opened


def rows(w: weir.Weir, sql: str, params: dict[str, object] | None = None) -> list[tuple[object, ...]]:
    return [tuple("NaN" if v != v else v for v in row.values()) for row in w.register(sql, params).fetch().to_pylist()]


# Subqueries.


def test_an_aggregate_inside_a_subquery_is_its_own_although_one_outside_is_equal(w: weir.Weir) -> None:
    assert rows(w, "SELECT (SELECT count(*) FROM t) + count(*) FROM s") == [(11,)]
    having = "SELECT g, count(*) FROM s GROUP BY g HAVING count(*) > (SELECT count(*) FROM t WHERE t.g = s.g)"
    assert rows(w, having) == [("a", 2), (None, 1), ("c", 1)]


def test_a_constant_inside_a_subquery_is_no_key_of_the_groups_around_it(w: weir.Weir) -> None:
    sql = "SELECT 2 AS two, count(*), (SELECT count(*) FROM t WHERE t.x > 2) FROM s GROUP BY two"
    assert rows(w, sql) == [(2, 6, 2)]


def test_columns_of_the_row_around_stand_beside_aggregates(w: weir.Weir) -> None:
    beside = "SELECT k, (SELECT concat(s.g, count(*)) FROM t WHERE t.k = s.k) FROM s WHERE k < 3"
    assert rows(w, beside) == [(1, "a2"), (1, "b2"), (2, "b1")]
    having = "SELECT k FROM s WHERE EXISTS (SELECT max(x) FROM t WHERE t.k = s.k HAVING count(*) > s.k)"
    assert rows(w, having) == [(1,), (1,)]
    keys = "SELECT k, (SELECT max(x) + s.b FROM t WHERE t.k = s.k GROUP BY t.k) FROM s WHERE k > 1"
    assert rows(w, keys) == [(2, 10.0), (3, None), (3, None)]


@pytest.mark.parametrize(("offset", "found"), [(None, 1.0), (0, 1.0), (1, 2.0), (2, None)])
def test_an_offset_that_is_null_passes_over_nothing(w: weir.Weir, offset: int | None, found: float | None) -> None:
    each = "SELECT (SELECT x FROM t WHERE t.k = s.k ORDER BY x LIMIT 1 OFFSET :n) FROM s WHERE b = 10"
    assert rows(w, each, {"n": offset}) == [(found,)]


def test_a_limit_that_is_null_cuts_nothing(w: weir.Weir) -> None:
    each = "SELECT b FROM s WHERE EXISTS (SELECT x FROM t WHERE t.k = s.k ORDER BY x LIMIT :n OFFSET 1)"
    assert rows(w, each, {"n": None}) == [(10,), (3,)]
    assert rows(w, each, {"n": 0}) == []


# Orders.


def test_a_name_in_order_by_is_a_column_of_the_answer_first(w: weir.Weir) -> None:
    assert rows(w, "SELECT -k AS k FROM s WHERE b > 5 ORDER BY k + 1") == [(-3,), (-3,), (-2,), (-1,)]
    assert rows(w, "SELECT -k AS k FROM s WHERE b > 5 ORDER BY s.k + 1") == [(-1,), (-2,), (-3,), (-3,)]
    assert rows(w, "SELECT g AS x, k AS g FROM s WHERE k < 3 ORDER BY -g, x") == [("b", 2), ("a", 1), ("b", 1)]
    groups = "SELECT -k AS k, count(*) FROM s WHERE k > 0 GROUP BY s.k ORDER BY k * 2"
    assert rows(w, groups) == [(-3, 2), (-2, 1), (-1, 2)]


def test_order_by_all_is_by_every_column_of_the_answer(w: weir.Weir) -> None:
    assert rows(w, "SELECT g, b FROM s ORDER BY ALL") == [
        (None, 20), ("a", 10), ("a", 20), ("b", 3), ("b", 7), ("c", 5)
    ]  # fmt: skip
    assert rows(w, "SELECT g, b FROM s ORDER BY ALL DESC NULLS FIRST LIMIT 3") == [(None, 20), ("c", 5), ("b", 7)]
    assert rows(w, "SELECT g FROM s UNION SELECT g FROM t ORDER BY ALL DESC LIMIT 2") == [("d",), ("c",)]
    assert rows(w, "SELECT g, count(*) FROM t GROUP BY ALL ORDER BY ALL LIMIT 2") == [(None, 1), ("a", 1)]


def test_inside_an_aggregate_a_name_in_order_by_is_a_column_of_rows(w: weir.Weir) -> None:
    assert rows(w, "SELECT g, max(b) AS b FROM s WHERE k < 3 GROUP BY g ORDER BY max(b) + 0") == [("b", 7), ("a", 10)]


def test_qualify_over_groups_may_use_names_of_the_select_list(w: weir.Weir) -> None:
    sql = "SELECT k, count(*) AS n FROM s WHERE k > 0 GROUP BY k QUALIFY rank() OVER (ORDER BY n DESC) = 1"
    assert rows(w, sql) == [(1, 2), (3, 2)]


def test_an_aggregate_of_outer_columns_alone_is_refused_as_in_spark(w: weir.Weir) -> None:
    for inside in ("max(s.b)", "count(*) FILTER (WHERE s.b > 1)", "count(s.b) + count(t.x)"):
        with pytest.raises(RegisterError, match="over columns of the query around the subquery alone, line 1, column"):
            w.register(f"SELECT (SELECT {inside} FROM t) FROM s")
    with pytest.raises(RegisterError, match="is over columns of the query around"):
        w.register("SELECT k FROM s WHERE EXISTS (SELECT max(b))")
    assert rows(w, "SELECT (SELECT sum(s.b + t.k) FROM t WHERE t.k = s.k) FROM s WHERE b = 10") == [(22,)]


def test_whether_null_is_in_a_set_depends_on_the_set(w: weir.Weir) -> None:
    empty = "(SELECT x FROM t WHERE x > 100)"
    sql = f"SELECT NULL IN {empty}, NULL NOT IN {empty}, NULL IN (SELECT x FROM t) FROM s WHERE b = 10"
    assert rows(w, sql) == [(False, True, None)]
    assert len(rows(w, f"SELECT k FROM s WHERE NULL NOT IN {empty}")) == 6


# Joins in parentheses.


def test_a_join_with_one_in_parentheses_is_with_all_of_its_sources(w: weir.Weir) -> None:
    inside = "((SELECT k, b FROM s) c NATURAL JOIN (SELECT b, d FROM s WHERE b < 20) e)"
    sql = f"SELECT * FROM (SELECT k, x FROM t WHERE x < 3) a NATURAL JOIN {inside}"
    found = w.register(sql).fetch()
    assert found.column_names == ["k", "x", "b", "d"]
    expected = [(1, 1.0, 3, 2.5), (1, 1.0, 10, 1.5), (1, 2.0, 3, 2.5), (1, 2.0, 10, 1.5)]
    assert sorted(tuple(r.values()) for r in found.to_pylist()) == expected
    outer = "SELECT a.k, e.d FROM (SELECT k FROM t WHERE x IS NOT NULL) a LEFT JOIN"
    sql = f"{outer} {inside} ON a.k = c.k AND e.d < 2"
    assert sorted(rows(w, sql), key=repr) == [(1, 1.5), (1, 1.5), (2, None), (None, None)]


def test_an_outer_join_in_parentheses_keeps_rows_of_its_own_sources_only(w: weir.Weir) -> None:
    a, t = "(SELECT k FROM s WHERE k = 3 AND g = 'a') a", "(SELECT k, x FROM t WHERE k > 1) t"
    full = f"({t} FULL JOIN (SELECT k, b AS y FROM s WHERE k = 3 AND g IS NULL) y USING (k))"
    for joined in (f"{a} JOIN {full} USING (k)", f"{full} JOIN {a} USING (k)"):
        assert rows(w, f"SELECT a.k, x, y FROM {joined}") == [(3, None, 20)]
    for between in (", ", " CROSS JOIN "):
        found = rows(w, f"SELECT a.k, x, y FROM {a}{between}{full}")
        assert sorted(found, key=repr) == [(3, 3.0, None), (3, None, 20), (3, None, None)]
    for kind in ("FULL JOIN", "RIGHT OUTER JOIN", "NATURAL LEFT JOIN"):
        with pytest.raises(RegisterError, match=r"JOIN behind a comma is not part of the language, line 1, column 24"):
            w.register(f"SELECT 1 FROM s a, t b {kind} t c ON b.k = c.k")


def test_on_in_parentheses_does_not_see_sources_outside_of_them(w: weir.Weir) -> None:
    with pytest.raises(RegisterError, match="'a' is no source of this query"):
        w.register("SELECT 1 FROM s a LEFT JOIN (t b JOIN t c ON a.k = c.k) ON b.k = c.k")
    with pytest.raises(RegisterError, match="column 'd' is not in .*stream 't'"):
        w.register("SELECT 1 FROM s a JOIN (t b JOIN t c USING (d)) ON a.k = b.k")


def test_merged_columns_of_two_pairs_are_two_columns(w: weir.Weir) -> None:
    pair = "SELECT k, g FROM t WHERE k = 4"
    left, right = f"(({pair}) a JOIN ({pair}) b USING (k))", f"(({pair}) c JOIN ({pair}) d USING (k))"
    with pytest.raises(RegisterError, match="column 'k' is ambiguous"):
        w.register(f"SELECT k FROM {left} CROSS JOIN {right}")
    assert rows(w, f"SELECT k FROM {left} JOIN {right} USING (k)") == [(4,)]


# Window functions.


def test_lag_and_lead_that_skip_nulls_count_values(w: weir.Weir) -> None:
    over = "OVER (ORDER BY ts)"
    assert rows(w, f"SELECT lead(g, 2, 'none') IGNORE NULLS {over} FROM s") == [
        (v,) for v in ("b", "a", "c", "none", "none", "none")
    ]
    assert rows(w, f"SELECT lag(g, 2) IGNORE NULLS {over} FROM s") == [(v,) for v in (None, None, "a", "b", "b", "b")]
    assert rows(w, f"SELECT lag(g, -1) IGNORE NULLS {over} FROM s") == [(v,) for v in ("b", "b", "a", "c", "c", None)]
    apart = "OVER (PARTITION BY g ORDER BY ts DESC)"
    assert rows(w, f"SELECT lag(d, 1, -1.0) IGNORE NULLS {apart} FROM s WHERE g IS NOT NULL") == [
        (v,) for v in (0.0, "NaN", -1.0, -1.0, -1.0)
    ]
    assert rows(w, f"SELECT lead(x) IGNORE NULLS {over} FROM t WHERE x IS NULL") == [(None,)]


def test_an_aggregate_of_a_window_may_be_over_aggregates_of_groups(w: weir.Weir) -> None:
    sql = "SELECT k, sum(count(*)) OVER (ORDER BY k) FROM s WHERE k > 0 GROUP BY k"
    assert rows(w, sql) == [(1, 2), (2, 3), (3, 5)]
    with pytest.raises(RegisterError, match="an aggregate cannot hold another aggregate"):
        w.register("SELECT sum(count(*)) FROM s")


def test_aggregates_with_an_order_have_that_of_the_window(w: weir.Weir) -> None:
    sql = "SELECT listagg(g, ',') OVER (ORDER BY ts DESC), any_value(g) OVER (PARTITION BY k ORDER BY ts DESC) FROM s"
    assert rows(w, sql + " WHERE k < 3") == [("b,b,a", "b"), ("b,b", "b"), ("b", "b")]


def test_a_window_whose_columns_are_all_constants_still_counts_rows(w: weir.Weir) -> None:
    sql = "SELECT row_number() OVER (PARTITION BY NULL ORDER BY 7), rank() OVER (ORDER BY NULL), "
    sql += "count(*) OVER (PARTITION BY NULL), ntile(2) OVER (ORDER BY NULL) FROM t"
    assert rows(w, sql) == [(1, 1, 5, 1), (2, 1, 5, 1), (3, 1, 5, 1), (4, 1, 5, 2), (5, 1, 5, 2)]


# Aggregates.


def test_a_correlation_with_what_is_not_a_number_is_none(w: weir.Weir) -> None:
    pairs = "SELECT corr(d, b) FROM s WHERE k "
    assert rows(w, pairs + "= 1")[0] == pytest.approx((-1.0,))
    assert rows(w, pairs + "< 3") == [("NaN",)]
    assert rows(w, pairs + "= 2") == [(None,)]  # one row
    assert rows(w, pairs + "= 3") == [(None,)]  # b is the same in both rows
    assert rows(w, "SELECT corr(d, b) OVER (ORDER BY ts) FROM s WHERE k < 3")[2] == ("NaN",)


# Long texts.


def names(count: int, body: str) -> str:
    """A chain of names, each over the one before."""
    chain = ", ".join(f"c{n} AS ({body.replace('@', f'c{n - 1}')})" for n in range(1, count))
    return f"WITH c0 AS (SELECT k FROM s), {chain} SELECT k FROM c{count - 1}"


def test_names_that_are_used_twice_each_are_refused_before_they_are_written_out(w: weir.Weir) -> None:
    for body in ("SELECT a.k FROM @ a JOIN @ b ON a.k = b.k", "SELECT k FROM @ UNION ALL SELECT k FROM @"):
        with pytest.raises(RegisterError, match=f"reads more than {SCANS_MAX:,} sources"):
            w.register(names(50, body))


def test_views_over_views_are_counted_as_well(w: weir.Weir) -> None:
    w.view("v0", "SELECT k FROM s")
    for n in range(1, 9):
        w.view(f"v{n}", f"SELECT a.k FROM v{n - 1} a, v{n - 1} b WHERE a.k = b.k")
    with pytest.raises(RegisterError, match=f"reads more than {SCANS_MAX:,} sources"):
        w.register("SELECT a.k FROM v8 a, v8 b, v8 c WHERE a.k = b.k AND b.k = c.k")


def test_a_chain_of_names_has_a_length(w: weir.Weir) -> None:
    assert len(rows(w, names(NAMES_DEEP_MAX, "SELECT k FROM @"))) == 6
    with pytest.raises(RegisterError, match=f"more than {NAMES_DEEP_MAX} names of WITH and views"):
        w.register(names(300, "SELECT k FROM @"))


# Tables.


def test_a_table_on_the_left_of_a_right_join_is_met_at_the_times_of_rows(tmp_path: Path) -> None:
    with weir.open(tmp_path) as w:
        w.stream("s", "k int, ts timestamp", time="ts", keep="forever")
        w.table("n", "k int, v int, since timestamp", key="k", time="since")
        w.upsert("n", [{"k": 1, "v": 10, "since": at(0)}])
        w.upsert("n", [{"k": 1, "v": 11, "since": at(10)}])
        direct = DirectWeir(w, wall_us=int(at(60).timestamp() * 1e6), takes_pushes=True)
        direct.batch({"s": [{"k": 1, "ts": at(5)}, {"k": 1, "ts": at(15)}, {"k": 2, "ts": at(16)}]})
        expected = [(1, 10), (1, 11), (2, None)]
        assert rows(w, "SELECT s.k, v FROM s LEFT JOIN n ON s.k = n.k") == expected
        assert rows(w, "SELECT s.k, v FROM n RIGHT JOIN s ON s.k = n.k") == expected


def test_a_query_of_tables_alone_is_explained_as_one_that_is_answered(tmp_path: Path) -> None:
    with weir.open(tmp_path) as w:
        w.table("n", "k int, v int", key="k")
        assert "family: none, no stream is read" in w.explain("SELECT max(v) FROM n")
