"""Joins of three to six streams: what DuckDB says of the same rows, at every batch."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.answer import recompute
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
COLUMNS = "k bigint, j int, x double, name string, ts timestamp"
STREAMS = ("r", "s", "t", "u")
QUERIES = (
    "SELECT r.k, s.x, t.name FROM r JOIN s ON r.k = s.k JOIN t ON s.j = t.j",
    "SELECT r.k, s.x, t.name FROM r, s, t WHERE r.k = s.k AND r.k = t.k AND s.k = t.k AND r.x < s.x",
    "SELECT r.ts, s.ts AS s_ts, t.x + r.x AS sum FROM r, s, t "
    "WHERE r.name = s.name AND t.k = r.k + 1 AND t.x > r.x - s.x",
    "SELECT a.k, b.k AS bk, c.k AS ck FROM r a, r b, r c WHERE a.k = b.j AND b.k = c.j AND a.x <> c.x",
    "SELECT r.k, u.x FROM r, s, t, u WHERE r.k = s.k AND s.j = t.j AND t.name = u.name AND (r.x > 3 OR u.x > 3)",
    "SELECT r.k FROM r, s, t WHERE r.x = s.k AND s.j = t.x BEGIN NOW - INTERVAL 20 SECONDS END NOW",
    "SELECT r.k, t.k AS tk FROM r [ROWS 7], s [RANGE 15 SECONDS], t WHERE r.k = s.k AND s.k = t.k",
    "SELECT r.k FROM r, s, t WHERE NOT (r.k <> s.k OR s.j <> t.j) AND abs(r.ts - t.ts) <= INTERVAL 5 SECONDS",
    "SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.j = t.j AND t.name LIKE 'a%' AND r.name IS NULL",
    "SELECT a.k FROM r a, r b, s c, t d, u e, u f "
    "WHERE a.k = b.k AND b.j = c.j AND c.k = d.k AND d.j = e.j AND e.k = f.k AND a.x < 2 AND f.x < 2",
)


def rows(rng: random.Random, count: int, second: int) -> pa.Table:
    def some(values: list[object]) -> list[object]:
        return [None if rng.random() < 0.1 else rng.choice(values) for _ in range(count)]

    return pa.table(
        {
            "k": pa.array(some([0, 1, 2, 3, 4, 2**53 + 1]), pa.int64()),
            "j": pa.array(some([0, 1, 2, 3]), pa.int32()),
            "x": pa.array(some([0.0, -0.0, 1.0, 2.0, 3.5, float("nan"), float("inf")]), pa.float64()),
            "name": pa.array(some(["a", "ab", "b", ""]), pa.string()),
            "ts": pa.array(
                [START_US + (second + rng.randrange(5)) * SECOND_US for _ in range(count)], pa.timestamp("us", "UTC")
            ),
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_answers_equal_the_oracle(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "CANDIDATES_BLOCK", 50 if seed == 1 else 1 << 20)
    rng = random.Random(seed)
    w = weir.open(tmp_path)
    for name in STREAMS:
        w.stream(name, COLUMNS, time="ts", keep="1 hour")
    ids = [w.register(sql).id for sql in QUERIES]
    direct = DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
    seen: dict[str, list[pa.Table]] = {name: [] for name in STREAMS}
    found_any = 0
    tokens: dict[int, tuple[str, pa.Table]] = {}
    for batch in range(4):
        pushed = {name: rows(rng, rng.choice((0, 4, 9)), 6 * batch) for name in STREAMS}
        direct.batch({name: table for name, table in pushed.items() if table.num_rows})
        for name, table in pushed.items():
            seen[name].append(table)
        tables = {name: pa.concat_tables(parts) for name, parts in seen.items()}
        tau = max(max(t["ts"].cast(pa.int64()).to_pylist(), default=0) for t in tables.values())
        for id, sql in zip(ids, QUERIES, strict=True):
            got = w.query(id).fetch()
            expected = answer(sql, {}, w.catalog, tables, tau)
            assert differ(got, expected) is None, f"batch {batch}: {sql}"
            found_any += got.num_rows
            before = tokens.get(id)
            changes = w.query(id).changes(None if before is None else before[0])
            old = got.slice(0, 0) if before is None else before[1]
            assert old.num_rows + changes.came.num_rows - changes.went.num_rows == got.num_rows, sql
            tokens[id] = changes.token, got
    assert found_any > 100


def test_explain_says_that_nothing_is_kept(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    for name in STREAMS:
        w.stream(name, COLUMNS, time="ts", keep="1 hour")
    query = w.register(QUERIES[0])
    said = query.explain()
    assert "family: many-join" in said
    assert "join keys: s0.k = s1.k, s1.j = s2.j" in said
    assert "evaluated over the kept rows at every fetch" in said
    assert [q["family"] for q in w.queries().to_pylist()] == ["many-join"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT r.k FROM r, s, t WHERE r.k = s.k", "no equality connects t with r, s"),
        ("SELECT r.k FROM r, s, t WHERE r.k = s.k AND (s.k = t.k OR r.x > 1)", "no equality connects t with r, s"),
        (
            "SELECT a.k FROM r a, r b, r c, r d, r e, r f, r g "
            "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND d.k = e.k AND e.k = f.k AND f.k = g.k",
            "it joins 7 sources, at most 6 are joined",
        ),
    ],
)
def test_what_is_refused_and_why(tmp_path: Path, sql: str, reason: str) -> None:
    w = weir.open(tmp_path)
    for name in STREAMS:
        w.stream(name, COLUMNS, time="ts", keep="1 hour")
    with pytest.raises(weir.WeirError, match=reason):
        w.register(sql)


def test_too_many_combinations_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "COMBINATIONS_MAX", 100)
    w = weir.open(tmp_path)
    for name in STREAMS:
        w.stream(name, COLUMNS, time="ts", keep="1 hour")
    query = w.register("SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.k = t.k")
    direct = DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
    one = pa.table(
        {
            "k": pa.array([1] * 20, pa.int64()),
            "j": pa.array([1] * 20, pa.int32()),
            "x": pa.array([1.0] * 20, pa.float64()),
            "name": pa.array(["a"] * 20, pa.string()),
            "ts": pa.array([START_US] * 20, pa.timestamp("us", "UTC")),
        }
    )
    direct.batch({"r": one, "s": one, "t": one})
    with pytest.raises(weir.WeirError, match="more than 100 combinations"):
        query.fetch()
