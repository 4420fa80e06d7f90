"""Joins by inequalities of doubles and bigints: matched as rows come, until a row is odd; always what DuckDB says."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.marks import few_are_quick
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
ONE_BOUND = (
    "SELECT r.x, s.x AS y FROM r, s WHERE r.x > s.x + 2.5e0",
    "SELECT r.x, s.x AS y FROM r, s WHERE r.x <= s.x - 2.31e0 AND s.k > 2",
    "SELECT r.x, s.x AS y FROM r, s WHERE r.x < s.x AND r.k <> s.k",
    "SELECT r.x, t.x AS y FROM r, s, t WHERE r.k = s.k AND s.x >= t.x + 2.2e0",
)
BANDS = (
    "SELECT r.x, s.x AS y FROM r, s WHERE s.x BETWEEN r.x - 0.1e0 AND r.x + 0.2e0",
    "SELECT r.x, s.x AS y FROM r, s WHERE NOT (r.x < s.x + 0.3e0 OR r.x >= s.x + 0.7e0)",
    "SELECT r.x, s.d FROM r, s WHERE r.x >= s.d - 0.15e0 AND r.x <= s.d + 0.15e0",
    "SELECT a.x, b.x AS y FROM r a, r b WHERE a.x > b.x AND a.x <= b.x + 0.05e0",
    "SELECT r.x, t.x AS y FROM r, s, t WHERE r.k = s.k AND s.x <= t.x + 0.1e0 AND t.x - 0.1e0 <= s.x",
)
WHOLE = (
    "SELECT r.k, s.k AS j FROM r, s WHERE r.k < s.k + 2 AND r.k > s.k - 2",
    "SELECT r.k, t.k AS j FROM r, s, t WHERE r.k = s.k AND s.k + 1 < t.k AND r.x > 2.7e0",
)
KEYED = (
    "SELECT r.x, s.x AS y FROM r, s WHERE r.k = s.k AND r.x <= s.x + 0.1e0",
    "SELECT r.x, s.x AS y FROM r, s WHERE r.k = s.k AND (r.x = s.x + :c OR r.x <> s.x + 0.1e0)",
)


def rows(rng: random.Random, second: int, *, odd: tuple[float, ...] = (), large: tuple[int, ...] = ()) -> pa.Table:
    def some(values: list[object]) -> list[object]:
        return [None if rng.random() < 0.05 else rng.choice(values) for _ in range(25)]

    cents: list[object] = [k / 100 for k in range(300)]
    return pa.table(
        {
            "k": pa.array(some([0, 1, 2, 3, 4, *large]), pa.int64()),
            "x": pa.array([*some(cents)[: 25 - len(odd)], *odd], pa.float64()),
            "d": pa.array(some([Decimal(k).scaleb(-2) for k in range(300)]), pa.decimal128(9, 2)),
            "ts": pa.array([START_US + (second + k % 5) * SECOND_US for k in range(25)], pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_answers_equal_the_oracle_until_and_after_a_row_is_odd(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    w = weir.open(tmp_path)
    for name in "rst":
        w.stream(name, "k bigint, x double, d decimal(9,2), ts timestamp", time="ts", keep="1 hour")
    texts = (*ONE_BOUND, *BANDS, *WHOLE, *KEYED)
    params = [{"c": 0.1} if ":c" in sql else {} for sql in texts]
    ids = [w.register(sql, given or None).id for sql, given in zip(texts, params, strict=True)]
    for id in ids:
        assert "not connected" not in w.query(id).explain()
    direct = DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
    seen: dict[str, list[pa.Table]] = {name: [] for name in "rst"}

    def batch(number: int, **odd: tuple[float, ...]) -> set[str]:
        """Push a batch, compare every answer, and return the queries that were given up."""
        for name in seen:
            large = (2**62, -(2**62)) if "large" in odd else ()
            seen[name].append(rows(rng, 6 * number, odd=odd.get(name, ()), large=large))
        direct.batch({name: parts[-1] for name, parts in seen.items()})
        tables = {name: pa.concat_tables(parts) for name, parts in seen.items()}
        tau = max(max(t["ts"].cast(pa.int64()).to_pylist()) for t in tables.values())
        found = 0
        for id, sql, given in zip(ids, texts, params, strict=True):
            got = w.query(id).fetch()
            assert differ(got, answer(sql, given, w.catalog, tables, tau)) is None, f"batch {number}: {sql}"
            found += got.num_rows
        assert found > 500
        demoted = dict(zip(w.queries()["id"].to_pylist(), w.queries()["demoted"].to_pylist(), strict=True))
        return {sql for id, sql in zip(ids, texts, strict=True) if demoted[id]}

    assert batch(0) == set()
    assert batch(1) == set()
    assert batch(2, s=(math.nan, math.inf)) == set(ONE_BOUND)
    # Bands are given up if both of their columns have odd rows.
    assert batch(3, r=(math.nan,), t=(-math.inf,)) == {*ONE_BOUND, *BANDS} - {BANDS[2]}
    assert batch(4, large=()) == {*ONE_BOUND, *BANDS, *WHOLE} - {BANDS[2]}
    assert not set(KEYED) & batch(5)


ROWS = {"r": [1.0, math.nan, math.inf, 1e17], "s": [1.0, math.nan, math.inf, 1e17], "t": [0.0]}
AT_ODDS = (
    # For numbers these contradict themselves, so they have no box; both are true of NaN, and of 1e17, which absorbs 5.
    "SELECT r.x, s.x AS y FROM r, s WHERE r.x >= s.x + 5e0 AND r.x <= s.x + 1e0",
    "SELECT r.x, s.x AS y FROM r, s WHERE r.x - s.x > 5e0 AND r.x <= s.x + 1e0",
    "SELECT r.x, s.x AS y FROM r, s, t WHERE r.k = t.k AND r.x >= s.x + 5e0 AND r.x <= s.x + 1e0",
    "SELECT r.x, s.x AS y FROM r, s WHERE (r.x >= s.x + 5e0 AND r.x <= s.x + 1e0 AND r.k < s.k + 5) "
    "OR (r.k < s.k + 2 AND r.k > s.k + 1)",
    "SELECT r.i, s.i AS j FROM r, s WHERE r.i + CAST(:c AS int) > s.i",
)


@pytest.mark.parametrize("sql", few_are_quick(AT_ODDS))
def test_what_no_box_says_is_found_all_the_same(tmp_path: Path, sql: str) -> None:
    w = weir.open(tmp_path)
    tables = {}
    for name, x in ROWS.items():
        w.stream(name, "k bigint, x double, e decimal(18,0), i int, ts timestamp", time="ts", keep="1 hour")
        n = len(x)
        tables[name] = pa.table(
            {
                "k": pa.array([1] * n, pa.int64()),
                "x": pa.array(x, pa.float64()),
                "e": pa.array([999_999_999_999_999_999] * n, pa.int64())
                .cast(pa.decimal128(19, 0))
                .cast(pa.decimal128(18, 0)),
                "i": pa.array([2**31 - 1 if name == "r" else -(2**31)] * n, pa.int32()),
                "ts": pa.array([START_US] * n, pa.timestamp("us", "UTC")),
            }
        )
    params = {"c": -(2**31)} if ":c" in sql else {}
    id = w.register(sql, params or None).id
    direct = DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
    direct.batch(tables)
    got = w.query(id).fetch()
    assert got.num_rows
    assert differ(got, answer(sql, params, w.catalog, tables, START_US)) is None
