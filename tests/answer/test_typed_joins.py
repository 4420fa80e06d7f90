"""Joins on parts of payloads, floats and chars give the oracle's answers at every batch boundary."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.errors import RegisterError
from weir.runtime.intake import rows_for
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

DDL = "id int, p struct<a:int,b:string>, xs array<int>, f float, c char(4), n timestamp_ntz, t tinyint, ts timestamp"
TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MATCHED = (
    "SELECT a.id, c.p FROM e a, e b, e c WHERE a.id = b.id AND b.t = c.t AND a.f = c.f AND c.p.b = 'x' AND b.xs[0] = 1",
    "SELECT a.id, b.p FROM e a JOIN e b ON a.p.a = b.xs[1] WHERE a.p.b = 'x'",
    "SELECT a.id FROM e a JOIN e b ON a.f = b.f WHERE a.c = b.c AND a.f - b.f <= 0.1 AND a.c >= 'ab'",
    "SELECT a.id FROM e a JOIN e b ON a.c = b.c AND a.t = b.id WHERE b.c IN ('ab', 'abc  ') AND b.p.a > 1",
    "SELECT a.id FROM e a JOIN e b ON a.f < b.f + 0.1 AND a.id = b.id",
    "SELECT a.n, b.t FROM e a JOIN e b ON a.n = b.n AND a.t - b.t BETWEEN 1 AND 2",
)
AT_FETCH = (
    "SELECT a.id, c.p FROM e a, e b, e c WHERE a.id = b.id AND b.p.a = c.xs[0] AND a.p.b = c.p.b",
    "SELECT a.id, b.p FROM e a JOIN e b ON a.id = b.id WHERE a.p.a * b.p.a > 3",
    "SELECT a.id FROM e a JOIN e b ON a.id = b.id WHERE a.xs[0] <> b.xs[0] AND a.p.b < b.p.b",
    "SELECT a.id FROM e a JOIN e b ON a.id = b.id WHERE a.p IS NULL OR array_contains(b.xs, a.p.a)",
    "SELECT a.id FROM e a, e b, e c WHERE a.id = b.id AND b.id = c.id AND a.xs[0] + c.p.a > 2",
    "SELECT a.id FROM e a JOIN e b ON b.f - a.f BETWEEN 0.1 AND 0.2",
)


def rows(rng: random.Random, count: int) -> list[dict[str, object]]:
    return [
        {
            "id": rng.randrange(4),
            "p": {"a": rng.randrange(5), "b": rng.choice("xyz")} if rng.random() < 0.9 else None,
            "xs": [rng.randrange(4) for _ in range(rng.randrange(3))],
            "f": rng.randrange(5) / 10,
            "c": rng.choice(["a", "ab", "abc"]),
            "n": TIME.replace(tzinfo=None) + dt.timedelta(seconds=rng.randrange(3)),
            "t": rng.randrange(4),
            "ts": TIME,
        }
        for _ in range(count)
    ]


@pytest.mark.slow
def test_joins_equal_the_oracle(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    stream = w.stream("e", DDL, time="ts", keep="forever")
    queries = {text: w.register(text) for text in (*MATCHED, *AT_FETCH)}
    direct = DirectWeir(w, slices=2, wall_us=10**16)
    rng, batches = random.Random(1), []
    for _ in range(3):
        batches.append(rows_for(rows(rng, 25), stream))
        direct.batch({"e": batches[-1]})
        for text, query in queries.items():
            expected = answer(text, {}, w.catalog, {"e": pa.concat_tables(batches)}, 10**16)
            difference = differ(expected, query.fetch())
            assert difference is None, f"{text}\n{difference}"
            assert expected.num_rows > 0, text
    for text, query in queries.items():
        said = query.explain()
        assert "quarantined" not in said, text
        assert ("not matched" in said or "not connected" in said) == (text in AT_FETCH), f"{text}\n{said}"


def test_payloads_are_no_join_keys(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream("e", DDL, time="ts", keep="forever")
    with pytest.raises(RegisterError, match="is not compared"):
        w.register("SELECT a.id FROM e a JOIN e b ON a.p = b.p")
