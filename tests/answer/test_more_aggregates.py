"""Aggregates beside the ones that the generators draw: DuckDB's answers, and what Spark says at the edges."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.algebra.nodes import Aggregate, ColumnRef
from weir.algebra.schema import BIGINT, decimal
from weir.answer.groups import grouped
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.sql.shapes import shape_of
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

START_US = 1_772_323_200_000_000
REGRESSIONS = ("count", "avgx", "avgy", "sxx", "syy", "sxy", "slope", "intercept", "r2")


@pytest.fixture
def rows() -> dict[str, pa.Table]:
    rng = random.Random(3)
    times = sorted(START_US + rng.randrange(0, 600_000_000) for _ in range(60))
    t = {
        "k": pa.array([rng.choice([None, 1, 2]) for _ in times], pa.int32()),
        "s": [rng.choice([None, "1", " 2.5", "x"]) for _ in times],
        "x": pa.array([rng.choice([None, *range(-3, 9)]) for _ in times], pa.int64()),
        "y": pa.array([rng.choice([None, 0.5, 2.0, -1.25]) for _ in times], pa.float64()),
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
    }
    return {"t": pa.table(t)}


@pytest.fixture
def w(tmp_path: Path, rows: dict[str, pa.Table]) -> weir.Weir:
    w = weir.open(tmp_path)
    w.stream("t", "k int null, s string null, x bigint null, y double null, ts timestamp", time="ts", keep="1 day")
    DirectWeir(w, slices=1, wall_us=START_US + 3_600_000_000).batch(rows)
    return w


QUERIES = [
    "SELECT k, percentile_cont(0.3) WITHIN GROUP (ORDER BY x) AS a, "
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY x DESC) AS b FROM t GROUP BY k",
    "SELECT k, percentile_disc(0.3) WITHIN GROUP (ORDER BY y) AS a, percentile_disc(1) WITHIN GROUP (ORDER BY x DESC) "
    "FILTER (WHERE x > 1) AS b FROM t GROUP BY k",
    "SELECT k, mode(x) AS m, mode(s) AS n, mode(y) FILTER (WHERE x > 3) AS o FROM t GROUP BY k",
    "SELECT k, skewness(x) AS a, kurtosis(y) AS b FROM t GROUP BY k",
    "SELECT skewness(x) AS a, kurtosis(x) AS b FROM t WHERE x = 3",
    *(f"SELECT k, regr_{name}(x, y) AS a, regr_{name}(y, x) AS b FROM t GROUP BY k" for name in REGRESSIONS),
    *(f"SELECT regr_{name}(x, k) AS a, regr_{name}(k, x) AS b FROM t WHERE k = 1" for name in REGRESSIONS),
    *(f"SELECT regr_{name}(x, k) AS a FROM t WHERE k = 100" for name in REGRESSIONS),
    "SELECT k, ts, regr_slope(x, y) OVER (PARTITION BY k ORDER BY ts) AS a FROM t",
    "SELECT ts, last(x, true) OVER (ORDER BY ts) AS a, first(x, false) OVER (ORDER BY ts) AS b FROM t",
    "SELECT * EXCEPT (s, Y) FROM t WHERE x > 2",
    "SELECT t.* EXCEPT (ts), u.k AS other FROM t JOIN t u ON t.x = u.x",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_duckdbs(w: weir.Weir, rows: dict[str, pa.Table], sql: str) -> None:
    got = w.register(sql).fetch()
    assert got.num_rows
    room = {i: 1e-9 for i, f in enumerate(got.schema) if pa.types.is_floating(f.type)}
    assert differ(answer(sql, {}, w.catalog, rows, w.state.now_us or 0), got, approximate=True, room=room) is None


@pytest.mark.parametrize("sql", QUERIES)
def test_a_shape_is_read_back(w: weir.Weir, sql: str) -> None:
    shape = shape_of(lower(parse(sql, w.settings), w.catalog))
    assert lower(parse(shape.text, w.settings), w.catalog, shape.param_types).root == shape.query.root


def test_rows_of_values_are_never_null(w: weir.Weir, rows: dict[str, pa.Table]) -> None:
    (found,) = w.register("SELECT count((k, x)) AS n, count(DISTINCT (k, x)) AS d FROM t").fetch().to_pylist()
    pairs = list(zip(rows["t"].column("k").to_pylist(), rows["t"].column("x").to_pylist(), strict=True))
    assert found == {"n": len(pairs), "d": len(set(pairs))}


def test_texts_are_numbers_where_numbers_are_aggregated(w: weir.Weir, rows: dict[str, pa.Table]) -> None:
    (found,) = w.register("SELECT sum(s) AS a, avg(s) AS b, try_sum(x) AS c FROM t").fetch().to_pylist()
    values = [float(s) for s in rows["t"].column("s").to_pylist() if s not in (None, "x")]
    assert found["a"] == sum(values)
    assert found["b"] == pytest.approx(sum(values) / len(values))
    assert found["c"] == sum(x for x in rows["t"].column("x").to_pylist() if x is not None)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT percentile_cont(0.5) FROM t", "needs one order"),
        ("SELECT percentile_cont(2) WITHIN GROUP (ORDER BY x) FROM t", "between 0.0 and 1.0"),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY s) FROM t", "takes a number, got string"),
        ("SELECT percentile_cont(0.5, 1) WITHIN GROUP (ORDER BY x) FROM t", "takes"),
        ("SELECT regr_slope(x) FROM t", "takes 2 arguments, got 1"),
        ("SELECT * EXCEPT (z) FROM t", "names 'z', which is no column"),
        ("SELECT * EXCEPT (k) FROM t JOIN t u ON t.x = u.x", "column 'k' is ambiguous"),
        ("SELECT * EXCEPT (k, s, x, y, ts) FROM t", "leaves out all columns"),
    ],
)
def test_what_is_refused(w: weir.Weir, sql: str, message: str) -> None:
    with pytest.raises(weir.WeirError, match=message):
        w.register(sql)


def test_averages_of_decimals_are_rounded_alike_whether_64_bits_hold_them_or_not() -> None:
    rng = random.Random(5)
    type_ = decimal(18, 3)
    call = Aggregate("avg", (ColumnRef(-1, "x", type_),), False, decimal(22, 7))
    for largest in (9, 10**6, 10**12, 10**18 - 1):
        units = [rng.choice((None, rng.randint(-largest, largest), largest)) for _ in range(300)]
        groups = [rng.randrange(60) for _ in units]
        numbers = [None if u is None else Decimal(u).scaleb(-3) for u in units]
        rows = pa.table({"k": groups, "x": pa.array(numbers, pa.decimal128(18, 3))})
        found = dict(zip(*grouped(rows, ["k"], [("a", call)]).to_pydict().values(), strict=True))
        for group in set(groups):
            mine = [u for u, g in zip(units, groups, strict=True) if g == group and u is not None]
            expected = None
            if mine:
                exact = Fraction(sum(mine) * 10**4, len(mine))
                whole = int(abs(exact) + Fraction(1, 2))
                expected = Decimal(whole if exact >= 0 else -whole).scaleb(-7)
            assert found[group] == expected, f"{largest}, group {group}: {mine}"


def test_the_mode_of_each_of_many_groups_is_its_least_most_frequent_value() -> None:
    rng = random.Random(6)
    groups = [rng.randrange(200) for _ in range(1_000)]
    values = [rng.choice((None, 1, 2, 3, -4)) for _ in groups]
    rows = pa.table({"k": groups, "x": pa.array(values, pa.int64())})
    call = Aggregate("mode", (ColumnRef(-1, "x", BIGINT),), False, BIGINT)
    found = dict(zip(*grouped(rows, ["k"], [("m", call)]).to_pydict().values(), strict=True))
    for group in set(groups):
        counted = Counter(v for v, g in zip(values, groups, strict=True) if g == group and v is not None)
        expected = min(counted, key=lambda v: (-counted[v], v), default=None)
        assert found[group] == expected, f"group {group}: {counted}"


@pytest.mark.parametrize(
    "function", ["percentile_disc(1.0) WITHIN GROUP (ORDER BY d)", "percentile(d, 1.0)", "median(d)"]
)
@pytest.mark.parametrize("text", ["2.50E-22", "-1.000E-21", "9007199.254740993", "0.300000000000000000000004"])
def test_a_decimal_becomes_the_nearest_double(tmp_path: Path, function: str, text: str) -> None:
    w = weir.open(tmp_path)
    w.stream("e", "d decimal(38, 24), ts timestamp", time="ts", keep="forever")
    query = w.register(f"SELECT {function} AS p FROM e")
    column = pa.array([Decimal(text)], pa.decimal128(38, 24))
    DirectWeir(w, wall_us=START_US).batch(
        {"e": pa.table({"d": column, "ts": pa.array([START_US], pa.timestamp("us", "UTC"))})}
    )
    assert query.fetch().column("p").to_pylist() == [float(text)]
