"""Queries of several cores and a finish, end to end, and the finish itself against plain Python."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.answer.row_codes import different, less
from weir.errors import FetchError, QueryError, RegisterError
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
NAN = float("nan")
UNION = (
    "SELECT name, price FROM trade WHERE price < 10 UNION ALL SELECT name, price FROM trade WHERE price > 5 UNION ALL "
    "SELECT t.name, w.wind FROM trade t JOIN weather w ON t.area = w.area WHERE w.wind > 3 "
    "BEGIN NOW - INTERVAL 1 MINUTE END NOW"
)


def key(row: tuple[object, ...]) -> tuple[object, ...]:
    """What DISTINCT compares: NaN is like NaN, 0 like −0."""
    return tuple("NaN" if v != v else v + 0.0 if isinstance(v, float) else v for v in row)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return [key(tuple(row.values())) for row in table.to_pylist()]


@pytest.mark.parametrize("seed", range(30))
def test_different_and_less_are_those_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)

    def table() -> pa.Table:
        count = rng.randint(0, 12)
        return pa.table(
            {
                "x": pa.array([rng.choice([None, 0.0, -0.0, NAN, -NAN, 1.5]) for _ in range(count)], pa.float64()),
                "s": pa.array([rng.choice([None, "", "a"]) for _ in range(count)], pa.string()),
                "d": pa.array([rng.choice([None, 1, 2]) for _ in range(count)], pa.decimal128(5, 2)),
                "n": pa.nulls(count),
            }
        )

    one, other = table(), table()
    assert rows_of(different(one)) == list(dict.fromkeys(rows_of(one)))
    assert Counter(rows_of(less(one, other))) == Counter(rows_of(one)) - Counter(rows_of(other))


@pytest.fixture
def opened(tmp_path: Path) -> tuple[weir.Weir, DirectWeir]:
    w = weir.open(tmp_path)
    w.stream("trade", "name string, price double, area string, ts timestamp", time="ts", keep="10 minutes")
    w.stream("weather", "area string, wind double, ts timestamp", time="ts", keep="10 minutes")
    return w, DirectWeir(w, wall_us=int(START.timestamp() * 1e6) + 10**9)


def trade(name: str, price: float, second: int, area: str = "south") -> dict[str, object]:
    return {"name": name, "price": price, "area": area, "ts": START + datetime.timedelta(seconds=second)}


def test_a_union_has_the_results_of_all_its_cores(opened: tuple[weir.Weir, DirectWeir]) -> None:
    w, direct = opened
    before = w.register("SELECT name FROM trade")
    both = w.register(UNION)
    after = w.register("SELECT name FROM trade WHERE price > 8")
    assert (before.id, both.id, after.id) == (0, 1, 4)  # the cores of a query have ids of their own
    with pytest.raises(QueryError, match="there is no query 2"):
        w.query(2)
    direct.batch({"weather": [{"area": "south", "wind": 7.0, "ts": START}], "trade": [trade("a", 7.0, 1)]})
    assert both.fetch().to_pylist() == [{"name": "a", "price": 7.0}] * 3
    token = both.token()
    direct.batch({"trade": [trade("b", 12.0, 30), trade("c", 3.0, 30, "north")]})
    came = [("b", 7.0), ("b", 12.0), ("c", 3.0)]
    assert sorted(rows_of(both.changes(after=token).came)) == came
    assert both.changes(after=token).went.num_rows == 0
    assert w.queries()["id"].to_pylist() == [0, 1, 4]
    direct.batch({"trade": [trade("d", 0.0, 70)]})  # the first batch leaves the window
    assert sorted(rows_of(both.changes(after=token).went)) == [("a", 7.0)] * 3
    assert sorted(rows_of(both.fetch())) == [("b", 12.0), ("c", 3.0), ("d", 0.0)]
    assert rows_of(after.fetch()) == [("b",)]
    said = both.explain()
    assert "finish: all rows of core 0, core 1, core 2" in said
    assert "core 2, join keys: " in said
    both.drop()
    assert w.queries()["id"].to_pylist() == [0, 4]
    done = direct.batch({"trade": [trade("e", 9.0, 71)]})
    assert sum(m.pairs for m in done.matches) == 2  # of the queries before and after it


def test_distinct_counts_values_not_rows(opened: tuple[weir.Weir, DirectWeir]) -> None:
    w, direct = opened
    names = w.register("SELECT DISTINCT name FROM trade WHERE price > 1 BEGIN NOW - INTERVAL 1 MINUTE END NOW")
    direct.batch({"trade": [trade("a", 7.0, 0), trade("a", 8.0, 1), trade("b", 0.5, 2)]})
    assert names.fetch().to_pylist() == [{"name": "a"}]
    token = names.token()
    direct.batch({"trade": [trade("a", 7.0, 50), trade("c", 7.0, 50)]})
    assert names.changes(after=token).came.to_pylist() == [{"name": "c"}]
    direct.batch({"trade": [trade("x", 0.0, 80)]})  # the first two rows leave, but another 'a' is there
    found = names.changes(after=token)
    assert (found.came.to_pylist(), found.went.to_pylist()) == ([{"name": "c"}], [])
    assert names.fetch(at=START + datetime.timedelta(seconds=10)).to_pylist() == [{"name": "a"}]


def test_one_core_may_be_demoted_and_another_not(tmp_path: Path) -> None:
    w = weir.open(tmp_path, settings={"demote_pairs_min": 5, "demote_share": 0.5})
    w.stream("trade", "name string, price double, area string, ts timestamp", time="ts", keep="10 minutes")
    direct = DirectWeir(w, wall_us=int(START.timestamp() * 1e6) + 10**9)
    sql = "SELECT name FROM trade WHERE price > :low UNION ALL SELECT area FROM trade WHERE price > 99"
    queries = w.register_many(sql, {"low": [0.0, 99.0]})
    for batch in range(3):
        rows = [trade(f"{k}", 100.0 if k == 3 else 5.0, 10 * batch + k) for k in range(10)]
        direct.batch({"trade": rows})
    w.state.refresh(w.ledger)
    assert list(w.state.demoted) == [0]  # the first core of the first query
    assert w.queries()["demoted"].to_pylist() == [True, False]
    assert [q.fetch().num_rows for q in queries] == [33, 6]
    assert "core 0, state: demoted in batch 0" in queries[0].explain()
    assert "core 1, state: materialised since batch 0" in queries[0].explain()


def test_errors_speak_of_the_query_not_of_its_cores(tmp_path: Path) -> None:
    w = weir.open(tmp_path, settings={"boxes_per_query_max": 3})
    w.stream("s", "a int, ts timestamp", time="ts", keep="forever")
    w.stream("t", "a int, ts timestamp", time="ts", keep="10 seconds")
    with pytest.raises(RegisterError, match="the blocks of the query need 4 boxes together, at most 3 are allowed"):
        w.register("SELECT a FROM s WHERE a = 1 OR a = 3 UNION ALL SELECT a FROM t WHERE a = 5 OR a = 7")
    both = w.register_many("SELECT a FROM s WHERE a > :a UNION ALL SELECT a FROM t", {"a": [1, 2, 3]})
    direct = DirectWeir(w, wall_us=int(START.timestamp() * 1e6) + 10**9)
    for second in (0, 100):
        direct.batch({"t": [{"a": 1, "ts": START + datetime.timedelta(seconds=second)}]})
    direct.batch({"t": [{"a": 1, "ts": START + datetime.timedelta(seconds=101)}]})
    with pytest.raises(FetchError, match="query 1 at .* needs rows of stream 't'"):
        both[1].fetch(at=START)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT price AS p, p * 2 AS q, q + 1 AS r FROM trade WHERE name = 'b'", [(4.0, 8.0, 9.0)]),
        (
            "SELECT v.label FROM (VALUES ('a', 'first'), (NULL, 'none')) v(name, label), trade t WHERE t.name = v.name",
            [("first",)],
        ),
        ("SELECT name FROM trade WHERE (name, price) IN (('a', 1.0), ('b', 5.0), ('c', NULL))", [("a",)]),
        ("SELECT name FROM trade WHERE NULL = NULL OR price > 8", [("c",)]),
        (
            "SELECT price FROM trade WHERE name = 'a' UNION ALL SELECT NULL FROM trade WHERE name = 'b'",
            [(1.0,), (None,)],
        ),
        ("SELECT NULL AS n, count(NULL) AS c, max(NULL) AS m FROM trade", [(None, 0, None)]),
        (
            "SELECT name, sum(price) FILTER (WHERE price < 5) OVER () AS s FROM trade WHERE price > 2",
            [("b", 4.0), ("c", 4.0)],
        ),
        (
            "SELECT collect_list(price) AS l, array_agg(name) AS n FROM trade WHERE price < 9",
            [([1.0, 4.0], ["a", "b"])],
        ),
        ("SELECT collect_set(area) AS s, size(collect_list(name)) AS n FROM trade", [(["n"], 3)]),
        ("SELECT collect_list(price) FILTER (WHERE price > 99) AS l FROM trade", [([],)]),
        ("SELECT name FROM trade QUALIFY row_number() OVER (ORDER BY price DESC) = 1", [("c",)]),
        (
            "SELECT t.name, w.wind FROM trade t ASOF LEFT JOIN weather w ON t.area = w.area AND t.price >= w.wind",
            [("a", None), ("b", 3.0), ("c", 9.0)],
        ),
    ],
)
def test_small_things_of_the_language(
    opened: tuple[weir.Weir, DirectWeir], sql: str, expected: list[tuple[object, ...]]
) -> None:
    w, direct = opened
    times = [START, START, START]
    direct.batch(
        {
            "trade": pa.table({"name": ["a", "b", "c"], "price": [1.0, 4.0, 9.0], "area": ["n"] * 3, "ts": times}),
            "weather": pa.table({"area": ["n"] * 3, "wind": [2.0, 3.0, 9.0], "ts": times}),
        }
    )
    found = [tuple(row.values()) for row in w.register(sql).fetch().to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_sum_that_does_not_fit_is_null(opened: tuple[weir.Weir, DirectWeir]) -> None:
    """Of groups and of windows alike; a sum that fits again is there, whatever came in between."""
    w, direct = opened
    w.stream("big", "k int, n bigint, d decimal(38,2), ts timestamp", time="ts", keep="10 minutes")
    most, digits = 2**63 - 1, decimal.Decimal("9" * 36 + ".99")
    rows = [(1, most, digits), (1, 1, digits), (2, most, digits), (2, 1, digits.copy_negate()), (2, -5, digits)]
    columns = dict(zip(("k", "n", "d"), map(list, zip(*rows, strict=True)), strict=True))
    direct.batch({"big": pa.table({**columns, "ts": [START] * len(rows)})})
    grouped = w.register("SELECT k, sum(n) AS n, sum(d) AS d FROM big GROUP BY k ORDER BY k").fetch()
    assert [tuple(r.values()) for r in grouped.to_pylist()] == [(1, None, None), (2, most - 4, digits)]
    whole = w.register("SELECT DISTINCT k, sum(n) OVER (PARTITION BY k) AS n FROM big ORDER BY k").fetch()
    assert [tuple(r.values()) for r in whole.to_pylist()] == [(1, None), (2, most - 4)]
