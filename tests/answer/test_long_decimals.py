"""Decimals of up to 38 digits give the oracle's answers at every batch boundary, matched and recomputed."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Context, Decimal
from pathlib import Path

import pyarrow as pa

import weir
from weir.runtime.intake import rows_for
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

EXACT = Context(prec=100)
DIGITS = {"w": (38, 4), "v": (24, 0), "x": (38, 38), "fee": (18, 2), "small": (9, 1)}
COLUMNS = ", ".join(f"{name} decimal({p},{s})" for name, (p, s) in DIGITS.items())
DDL = f"id int, n bigint, d double, {COLUMNS}, ts timestamp"
TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
QUERIES = """
SELECT id, w FROM e WHERE w > 1.5 AND v <= 2;
SELECT id FROM e WHERE w = 99999999999999999999999999.9999 OR v < -9223372036854775808 OR x > 0.9;
SELECT id FROM e WHERE w IN (0.5, 1.00005, 2, 99999999999999999999) AND w NOT IN (2, NULL, 7) OR v NOT IN (1, 2);
SELECT id FROM e WHERE v > 1.5e0 AND w <> 0.25 AND x < CAST('inf' AS double) AND v < CAST('nan' AS double);
SELECT id FROM e WHERE w * fee > 1 AND fee - 0.01 < 3 AND w / 3 < 0.2 AND n + v > -5;
SELECT id FROM e WHERE v = n OR w < d OR v > fee OR coalesce(w, 0) = coalesce(v, 1);
SELECT a.id, b.id AS o FROM e a JOIN e b ON a.w = b.w WHERE a.v > 0 AND b.x < 0.5;
SELECT a.id, b.w FROM e a JOIN e b ON a.w = b.v AND a.n = b.n WHERE b.w BETWEEN -1 AND 1000000000000000000000;
SELECT a.id, b.v FROM e a JOIN e b ON a.v = b.n WHERE a.w > b.w;
SELECT a.id, b.v FROM e a JOIN e b ON a.fee = b.w AND a.w - b.v < 0.5;
SELECT a.id, b.v FROM e a JOIN e b ON a.v = b.d OR a.id = b.id AND a.w = b.w;
SELECT a.id, b.id AS o FROM e a JOIN e b ON a.fee - b.fee BETWEEN -0.25 AND 0.5 WHERE a.v >= 1 AND b.v < 3;
SELECT a.id, b.id AS o FROM e a JOIN e b ON a.fee < b.fee + 0.25 AND a.fee >= b.fee - 1 WHERE a.w > 0;
SELECT a.id, b.id AS o, c.w FROM e a, e b, e c WHERE a.w = b.w AND b.v = c.v AND c.w > 0 AND a.id < b.id AND a.x <= c.x;
SELECT a.id, r.v FROM e a JOIN rates r ON a.v = r.v WHERE r.w > 0.5;
SELECT v, count(*) AS c, sum(w) AS s, avg(w) AS g, min(x) AS lo, max(w) AS hi, sum(small) AS t FROM e GROUP BY v;
SELECT DISTINCT w FROM e UNION SELECT v FROM e;
SELECT w FROM e EXCEPT SELECT fee FROM e WHERE id > 2;
SELECT id, w FROM e ORDER BY w DESC NULLS LAST, id LIMIT 7;
SELECT a.id, b.w FROM e a LEFT JOIN e b ON a.w = b.v AND b.id > 3
"""


def rows(rng: random.Random, count: int) -> pa.Table:
    def decimals(precision: int, scale: int) -> pa.Array:
        top = 10**precision - 1
        units = [k * 10**scale // 2 for k in range(-4, 8)] * 3 + [top, -top, top - 1, 2**63, 2**64 + 1, 1, None]
        known = [u for u in units if u is None or abs(u) <= top]
        drawn = [rng.choice(known) for _ in range(count)]
        values = [None if u is None else Decimal(u).scaleb(-scale, EXACT) for u in drawn]
        return pa.array(values, pa.decimal128(precision, scale))

    columns = {name: decimals(*digits) for name, digits in DIGITS.items()}
    columns |= {
        "id": pa.array([rng.randrange(6) for _ in range(count)], pa.int32()),
        "n": pa.array([rng.choice((-1, 0, 1, 2, 2**63 - 1, None)) for _ in range(count)], pa.int64()),
        "d": pa.array([rng.choice((0.5, 1.0, 2.0, 1e25, None)) for _ in range(count)], pa.float64()),
        "ts": pa.array([TIME] * count, pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def test_answers_are_the_oracles(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    stream = w.stream("e", DDL, time="ts", keep="forever")
    w.table("rates", "v decimal(24,0), w decimal(38,4)", key="v", retroactive=True)
    held = pa.table(
        {"v": pa.array([0, 1, 2, 10**24 - 1], pa.decimal128(24, 0)), "w": pa.array([1, 2, 0, 5], pa.decimal128(38, 4))}
    )
    w.upsert("rates", held)
    texts = [text.strip() for text in QUERIES.split(";")]
    queries = {text: [w.register(text)] for text in texts}
    direct = DirectWeir(w, slices=2, wall_us=10**16, takes_pushes=True)
    rng, batches = random.Random(1), []
    for number in range(3):
        batches.append(rows_for(rows(rng, 22), stream))
        direct.batch({"e": batches[-1]})
        if number == 1:  # these see the rows that came before them by recomputing
            for text, registered in queries.items():
                registered.append(w.register(text))
        for text, registered in queries.items():
            expected = answer(text, {}, w.catalog, {"e": pa.concat_tables(batches), "rates": held}, 10**16)
            for query in registered:
                difference = differ(expected, query.fetch(), ordered="LIMIT" in text)
                assert difference is None, f"{text}\n{difference}"
    assert all(registered[0].fetch().num_rows for registered in queries.values()), "no query finds nothing"
    said = {text: registered[0].explain() for text, registered in queries.items()}
    assert all("at every fetch" not in said[text] for text in texts[:10]), "all of these are matched as rows come"
