"""What the oracle says of finishes, against answers worked out by hand."""

from __future__ import annotations

import math

import pytest

from tests.testing.market import CATALOG, TAU, ask, at, ids, rows
from weir.errors import RegisterError
from weir.testing import answer

NAN = math.nan


AGGREGATES = [
    ("count(*) FILTER (WHERE id > 1)", 4),
    ("count(DISTINCT name, flag)", 4),  # rows of which one argument is NULL are not counted
    ("count(name, price)", 5),
    ("count_if(id > 2)", 3),
    ("sum(DISTINCT fee)", 2.5),
    ("sum(big)", None),  # overflows
    ("sum(big) FILTER (WHERE id <> 4)", 2**53 + 6),
    ("stddev(id)", math.sqrt(3.5)),
    ("var_pop(id)", 35 / 12),
    ("var_samp(price)", NAN),  # an infinity and NaN among them
    ("variance(id) FILTER (WHERE id = 1)", None),
    ("var_pop(id) FILTER (WHERE id = 1)", 0.0),
    ("median(id)", 2.5),
    ("percentile(id, 0.25)", 1.25),
    ("percentile_approx(id, 0.5)", 2),
    ("percentile_cont(0.25) WITHIN GROUP (ORDER BY id DESC)", 3.75),
    ("percentile_disc(0.5) WITHIN GROUP (ORDER BY id)", 2.0),
    ("approx_count_distinct(name)", 4),
    ("bool_and(flag)", False),
    ("any(flag)", True),
    ("bool_or(flag) FILTER (WHERE id = 3)", None),
    ("max_by(name, id)", "Éclair"),
    ("max_by(name, id) FILTER (WHERE id < 4)", None),  # a NULL is a value
    ("min_by(name, price) FILTER (WHERE price > 1)", "apple"),
    ("listagg(name, ',') WITHIN GROUP (ORDER BY name DESC)", "Éclair,pear,orange,orange,apple"),
    ("string_agg(DISTINCT name, '/') WITHIN GROUP (ORDER BY name)", "apple/orange/pear/Éclair"),
    ("listagg(name) FILTER (WHERE id = 3)", None),
    ("collect_list(name) FILTER (WHERE id IN (3, 5))", ["Éclair"]),
    ("collect_list(name) FILTER (WHERE id = 3)", []),
    ("collect_set(price) FILTER (WHERE id = 4)", [0.0]),
    ("(SELECT max(bid) FROM quote)", 4),
]


@pytest.mark.parametrize(("select", "expected"), AGGREGATES)
def test_aggregates(select: str, expected: object) -> None:
    (found,) = answer(f"SELECT {select} AS x FROM trade", {}, CATALOG, rows(), TAU).column(0).to_pylist()[:1]
    if isinstance(expected, float):
        assert float(found) == pytest.approx(expected, nan_ok=True)
    else:
        assert found == expected


WINDOWS = [
    ("row_number() OVER (ORDER BY price DESC, id)", [4, 3, 1, 6, 5, 2]),  # NaN first, NULL last
    ("row_number() OVER (ORDER BY price)", [3, 4, 6, 1, 2, 5]),
    ("rank() OVER (ORDER BY flag)", [5, 3, 1, 1, 5, 3]),
    ("dense_rank() OVER (ORDER BY flag DESC)", [1, 2, 3, 3, 1, 2]),
    ("percent_rank() OVER (ORDER BY id)", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    ("cume_dist() OVER (PARTITION BY flag ORDER BY id)", [0.5, 0.5, 0.5, 1.0, 1.0, 1.0]),
    ("ntile(4) OVER (ORDER BY id)", [1, 1, 2, 2, 3, 4]),
    ("lag(id) OVER (ORDER BY id)", [None, 0, 1, 2, 3, 4]),
    ("lead(id, 2, -1) OVER (ORDER BY id)", [2, 3, 4, 5, -1, -1]),
    ("lag(name) IGNORE NULLS OVER w", [None, "apple", "orange", "pear", "pear", "orange"]),
    ("first_value(name) IGNORE NULLS OVER (ORDER BY id DESC)", ["Éclair"] * 6),
    ("last_value(id) OVER w", [0, 1, 2, 3, 4, 5]),  # the frame ends with the current row
    ("nth_value(id, 2) OVER w", [None, 1, 1, 1, 1, 1]),
    ("sum(id) OVER w", [0, 1, 3, 6, 10, 15]),
    ("sum(id) OVER (ORDER BY flag)", [15, 11, 5, 5, 15, 11]),  # peers count
    ("sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", [1, 3, 6, 9, 12, 9]),
    ("sum(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW)", [0, 1, 3, 5, 7, 9]),
    ("count(*) OVER (ORDER BY day RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)", [2, 2, 2, 2, 1, 1]),
    ("max(id) OVER (PARTITION BY name)", [0, 4, 2, 3, 4, 5]),
    ("id + count(*) OVER ()", [6, 7, 8, 9, 10, 11]),
]


@pytest.mark.parametrize(("select", "expected"), WINDOWS)
def test_windows(select: str, expected: list[object]) -> None:
    assert [x for _, x in ask(f"SELECT id, {select} AS x FROM trade WINDOW w AS (ORDER BY id)")] == expected


CONDITIONS = [
    ("id > (SELECT avg(id) FROM trade)", [3, 4, 5]),
    ("(SELECT count(*) FROM quote q WHERE q.name = trade.name) = 0", [0, 2, 3, 5]),
    ("name IN (SELECT name FROM quote)", [1, 4]),
    ("name NOT IN (SELECT name FROM quote)", []),  # one of them is NULL
    ("name NOT IN (SELECT name FROM quote WHERE name IS NOT NULL)", [0, 2, 5]),
    ("name NOT IN (SELECT name FROM quote WHERE bid > 99)", [0, 1, 2, 3, 4, 5]),
    ("(name, id) IN (SELECT name, bid - 1 FROM quote)", [1]),
    ("id IN (SELECT bid FROM quote q WHERE q.name <> trade.name)", [2]),
    ("EXISTS (SELECT 1 FROM quote WHERE bid > id AND name IS NULL)", [0, 1, 2, 3]),
    ("NOT EXISTS (SELECT 1 FROM quote q WHERE q.name = trade.name)", [0, 2, 3, 5]),
]


@pytest.mark.parametrize(("where", "expected"), CONDITIONS)
def test_queries_in_conditions(where: str, expected: list[object]) -> None:
    assert ids(where) == expected


TEXTS = [
    ("SELECT id, bid FROM trade t LEFT JOIN quote q ON t.name = q.name AND bid > 2", [
        (0, None), (1, 3), (2, None), (3, None), (4, 3), (5, None)]),
    ("SELECT id, bid FROM trade t RIGHT JOIN quote q ON t.name = q.name AND id > 1", [(4, 2), (4, 3), (None, 4)]),
    ("SELECT name, id, bid FROM trade FULL JOIN quote USING (name) WHERE id IS NULL OR name = 'orange'", [
        ("orange", 1, 2), ("orange", 1, 3), ("orange", 4, 2), ("orange", 4, 3), (None, None, 4)]),
    ("SELECT id FROM trade t LEFT SEMI JOIN quote q ON t.name = q.name", [(1,), (4,)]),
    ("SELECT id FROM trade t LEFT ANTI JOIN quote USING (name)", [(0,), (2,), (3,), (5,)]),
    ("SELECT name, id, bid FROM trade NATURAL JOIN (SELECT name, bid FROM quote) q WHERE id = 1", [
        ("orange", 1, 2), ("orange", 1, 3)]),
    ("SELECT a.id, c.id FROM trade a JOIN (trade b JOIN trade c ON b.id = c.id + 1) ON a.id = b.id "
     "WHERE a.id < 3", [(1, 0), (2, 1)]),
    ("WITH c AS (SELECT name, count(*) AS n FROM trade GROUP BY name), d(x) AS (SELECT max(n) FROM c) "
     "SELECT name FROM c, d WHERE n = x", [("orange",)]),
    ("WITH trade AS (SELECT id FROM trade WHERE id < 2) SELECT * FROM trade", [(0,), (1,)]),
    ("SELECT flag, count(*) AS n FROM trade GROUP BY ALL HAVING n = 2 AND flag IS NOT NULL", [
        (False, 2), (True, 2)]),
    ("SELECT id + 1 AS a, a * 2 AS b FROM trade WHERE id = 1", [(2, 4)]),
    ("SELECT n FROM (SELECT max(id) FROM trade) t(n)", [(5,)]),
    ("SELECT w.start, n FROM (SELECT window(ts, '20 seconds') AS w, count(*) AS n FROM trade GROUP BY 1) x", [
        (at(0), 1), (at(20), 2), (at(40), 2), (at(60), 1)]),
    ("SELECT w.end AS e, min(id) AS i FROM (SELECT id, window(ts, '20 seconds', '10 seconds', '5 seconds') AS w "
     "FROM trade WHERE id < 2) x GROUP BY 1", [(at(15), 0), (at(25), 0), (at(35), 1)]),
    ("SELECT window(ts, '20 seconds').start AS s FROM trade WHERE id > 3", [(at(40),), (at(60),)]),
    ("SELECT name FROM trade QUALIFY row_number() OVER (PARTITION BY name ORDER BY id) = 2", [("orange",)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_joins_and_sources(text: str, expected: list[tuple[object, ...]]) -> None:
    assert ask(text) == sorted(expected, key=repr)


ORDERED = [
    ("SELECT id FROM trade ORDER BY price", [3, 4, 0, 1, 5, 2]),
    ("SELECT id FROM trade ORDER BY price DESC NULLS FIRST LIMIT 2", [3, 2]),
    ("SELECT id FROM trade ORDER BY name NULLS LAST, id DESC LIMIT 4 OFFSET 1", [4, 1, 2, 5]),
    ("SELECT -id AS id FROM trade ORDER BY id LIMIT 1", [-5]),  # the answer's column comes first
    ("SELECT -id AS x FROM trade ORDER BY trade.id LIMIT 1", [0]),
    ("SELECT DISTINCT name FROM trade t ORDER BY t.name DESC LIMIT 2", ["Éclair", "pear"]),
    ("SELECT name FROM trade GROUP BY name ORDER BY count(*) DESC, 1 LIMIT 2", ["orange", None]),
    ("SELECT id FROM trade UNION SELECT bid FROM quote ORDER BY 1 DESC LIMIT 2", [5, 4]),
    ("(SELECT id FROM trade ORDER BY id LIMIT 1) UNION ALL (SELECT bid FROM quote) ORDER BY id", [0, 2, 3, 4]),
    ("SELECT id FROM trade ORDER BY id LIMIT :n", [0, 1]),
    ("SELECT id FROM trade ORDER BY id LIMIT 0", []),
]


@pytest.mark.parametrize(("text", "expected"), ORDERED)
def test_order(text: str, expected: list[object]) -> None:
    params = {"n": 2} if ":n" in text else None
    assert answer(text, params, CATALOG, rows(), TAU).column(0).to_pylist() == expected


def test_views() -> None:
    views = {"late": "SELECT id, name FROM trade WHERE id > 3", "later": "SELECT * FROM Late WHERE name <> 'orange'"}
    found = answer("SELECT l.id FROM later l BEGIN NOW - 45 END NOW", {}, CATALOG, rows(), TAU, views=views)
    assert found.column(0).to_pylist() == [5]
    none = answer("SELECT l.id FROM later l BEGIN NOW - 30 END NOW", {}, CATALOG, rows(), TAU, views=views)
    assert none.num_rows == 0


def test_what_is_not_known_is_an_error() -> None:
    for text in (
        "SELECT bitmap_or_agg(id) FROM trade",
        "SELECT id FROM trade TABLESAMPLE (5 ROWS)",
        "SELECT row_number() FROM trade",
        "SELECT id FROM trade SORT BY id",
    ):
        with pytest.raises((AssertionError, RegisterError)):
            answer(text, {}, CATALOG, rows(), TAU)
