"""Floats, narrow numbers, times without a zone and payloads give the oracle's answers in finishes."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa

import weir
from weir.runtime.intake import rows_for
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

DDL = (
    "id int, k int, p struct<a:int,b:string>, xs array<int>, m map<string,int>, raw binary, f float, c char(4), "
    "n timestamp_ntz, t tinyint, s smallint, ts timestamp"
)
TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
QUERIES = """
SELECT count(p) AS n, count(xs) FILTER (WHERE k > 1) AS some FROM e;
SELECT k, max_by(p, id) AS a, min_by(xs, id) AS b, max_by(m, id) AS c, max_by(raw, id) AS d FROM e GROUP BY k;
SELECT id, lag(p) OVER (ORDER BY id) AS before, lead(m, 2) OVER (PARTITION BY k ORDER BY id) AS later FROM e;
SELECT id, first_value(xs) OVER (PARTITION BY k ORDER BY id) AS a, count(p) OVER (PARTITION BY k) AS b FROM e;
SELECT p, id FROM e UNION ALL SELECT p, id + 1 FROM e WHERE id > 1;
SELECT id, (SELECT p FROM e ORDER BY id LIMIT 1) AS a, (SELECT m FROM e WHERE id < 0) AS b FROM e;
SELECT x.q.a FROM (SELECT p AS q, id FROM e WHERE k > 1) x WHERE x.q.b = 'x';
SELECT q.a, max(f) AS b, min(f) AS c, sum(f) AS d, avg(t) AS e, sum(t) AS g, max(t) AS h, min(s) AS i
FROM (SELECT p AS q, f, t, s FROM e) GROUP BY q.a;
SELECT c, min(f) AS a, max(f) AS b, count(DISTINCT f) AS d, max(n) AS n, min(c) AS g FROM e GROUP BY c;
SELECT f, count(*) AS n FROM e GROUP BY f;
SELECT DISTINCT f, c, n, t FROM e;
SELECT f, p, m, xs, raw FROM e ORDER BY f, id LIMIT 10;
SELECT p, f FROM e ORDER BY f DESC NULLS LAST, id LIMIT 10;
SELECT a.p, b.m, b.f FROM e a LEFT JOIN e b ON a.p.a = b.xs[0] AND b.k > 1;
SELECT a.p, b.xs FROM e a FULL JOIN e b ON a.k = b.k AND a.f = b.f;
SELECT a.p FROM e a LEFT SEMI JOIN e b ON a.p.a = b.p.a AND b.f > 0.1;
SELECT id, lag(f) OVER (PARTITION BY k ORDER BY id) AS a, max(f) OVER (PARTITION BY k) AS b,
sum(f) OVER (PARTITION BY k) AS c, min(f) OVER (PARTITION BY c) AS d FROM e;
SELECT id, max(f) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m FROM e;
SELECT f FROM e INTERSECT SELECT f FROM e WHERE k > 1;
SELECT f FROM e EXCEPT SELECT f FROM e WHERE k > 1;
SELECT f FROM e UNION SELECT CAST(0.1 AS float) FROM e;
SELECT id FROM e WHERE f IN (SELECT f FROM e WHERE k = 1);
SELECT id FROM e WHERE t NOT IN (SELECT t FROM e WHERE k = 1 AND t IS NOT NULL);
SELECT id, (SELECT max(f) FROM e x WHERE x.k = e.k) AS q FROM e;
SELECT k, percentile_approx(f, 0.5) AS a, median(f) AS b, max_by(f, id) AS c FROM e WHERE f > 0 GROUP BY k;
SELECT id FROM e QUALIFY row_number() OVER (PARTITION BY f ORDER BY id) = 1;
WITH x AS (SELECT id, p.a AS a, xs FROM e) SELECT a, xs, size(xs) AS n FROM x WHERE array_contains(xs, a)
ORDER BY id LIMIT 5
"""


def rows(rng: random.Random, first: int, count: int) -> list[dict[str, object]]:
    return [
        {
            "id": number,
            "k": rng.randrange(4),
            "p": {"a": rng.randrange(5), "b": rng.choice("xyz")} if rng.random() < 0.9 else None,
            "xs": [rng.randrange(4) for _ in range(rng.randrange(3))] if rng.random() < 0.9 else None,
            "m": {rng.choice("kl"): rng.randrange(3)},
            "raw": bytes([rng.randrange(9)]),
            "f": rng.choice([0.1, 0.2, 0.3, -0.0, 0.0, float("nan"), None, 1000.5]),
            "c": rng.choice(["a", "ab", "abc"]),
            "n": TIME.replace(tzinfo=None) + dt.timedelta(seconds=rng.randrange(3)),
            "t": rng.choice([1, 2, 127, -128, None]),
            "s": rng.randrange(300),
            "ts": TIME + dt.timedelta(seconds=rng.randrange(9)),
        }
        for number in range(first, first + count)
    ]


def test_finishes_equal_the_oracle(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    stream = w.stream("e", DDL, time="ts", keep="forever")
    queries = {text: w.register(text) for text in map(str.strip, QUERIES.split(";\n"))}
    direct = DirectWeir(w, slices=2, wall_us=10**16)
    rng, batches = random.Random(3), []
    for number in range(2):
        batches.append(rows_for(rows(rng, 25 * number, 25), stream))
        direct.batch({"e": batches[-1]})
        for text, query in queries.items():
            expected = answer(text, {}, w.catalog, {"e": pa.concat_tables(batches)}, 10**16)
            difference = differ(expected, query.fetch())
            assert difference is None, f"{text}\n{difference}"
            assert "quarantined" not in query.explain(), text


def test_changes_of_rows_with_payloads(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    stream = w.stream("e", DDL, time="ts", keep="forever")
    query = w.register("SELECT id, p, xs, m FROM e ORDER BY id DESC LIMIT 3")
    direct = DirectWeir(w, slices=2, wall_us=10**16)
    rng = random.Random(5)
    direct.batch({"e": rows_for(rows(rng, 0, 3), stream)})
    came = query.changes()
    assert [row["id"] for row in came.came.to_pylist()] == [2, 1, 0]
    direct.batch({"e": rows_for(rows(rng, 3, 2), stream)})
    later = query.changes(came.token)
    assert sorted(row["id"] for row in later.came.to_pylist()) == [3, 4]
    assert sorted(row["id"] for row in later.went.to_pylist()) == [0, 1]
