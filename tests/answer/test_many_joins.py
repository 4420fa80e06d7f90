"""Joins of many streams: what DuckDB says of the same rows at every batch, matched as they come or at fetch."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.marks import few_are_quick
from weir.answer import fetch, recompute
from weir.families.many import many_probes, many_segments
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
    # Connected by a difference, of every kind.
    "SELECT r.k, t.j FROM r, s, t WHERE r.k = s.k AND s.j - t.j BETWEEN -1 AND 0",
    "SELECT r.x, t.x AS tx FROM r, s, t WHERE r.k = s.k AND r.x - t.x BETWEEN -1.5 AND 0.5 AND s.j > 0",
    "SELECT r.x FROM r, s, t WHERE r.x - s.x >= 1.5 AND abs(s.ts - t.ts) <= INTERVAL 2 SECONDS",
    "SELECT r.k FROM r, s, t WHERE r.k - s.k < -2 AND s.j = t.j AND r.ts < t.ts",
    "SELECT r.k FROM r, s, t WHERE r.k < s.k - 2 AND s.j = t.j AND r.ts < t.ts",
    "SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.k = t.k AND CAST(r.k + t.j AS STRING) IS NOT NULL",
    "SELECT r.k FROM r, s, t WHERE r.k = t.k AND s.k = t.k AND s.x > t.x * r.x",
    "SELECT r.k FROM r, s, t, u WHERE r.k = s.k AND t.k = u.k AND r.ts - t.ts BETWEEN INTERVAL 0 SECONDS AND "
    "INTERVAL 4 SECONDS",
)
CROSS = (
    "SELECT r.k, s.j FROM r, s WHERE r.x * s.x > 3",
    "SELECT r.k, s.j FROM r [ROWS 3], s [ROWS 4]",
    "SELECT r.k FROM r, s [ROWS 5], t WHERE r.k = t.k AND s.k > t.k * r.k",
    "SELECT r.k, s.j, t.x FROM r [ROWS 3], s, t [ROWS 2] WHERE r.k = s.k",
    "SELECT r.k FROM r, s [ROWS 5], t [ROWS 5] WHERE (r.k = s.k OR s.j = t.j) AND r.x + s.x < t.x",
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


@pytest.mark.parametrize("seed", few_are_quick(range(3), quick=1))
def test_answers_equal_the_oracle(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed == 1:
        monkeypatch.setattr(recompute, "CANDIDATES_BLOCK", 50)
        monkeypatch.setattr(many_probes, "BLOCK", 8)
        monkeypatch.setattr(many_probes, "EVENTS", 3)
    rng = random.Random(seed)
    w = weir.open(tmp_path)
    for name in STREAMS:
        w.stream(name, COLUMNS, time="ts", keep="1 hour")
    queries = QUERIES + CROSS
    ids = [w.register(sql).id for sql in queries]
    for id, sql in zip(ids, queries, strict=True):
        assert ("not connected" in w.query(id).explain()) == (sql in CROSS), sql
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
        for id, sql in zip(ids, queries, strict=True):
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


def opened(folder: Path, **settings: object) -> weir.Weir:
    w = weir.open(folder, settings=settings)
    for name in STREAMS:
        w.stream(name, COLUMNS, time="ts", keep="1 hour")
    return w


def test_explain_says_how_it_is_answered(tmp_path: Path) -> None:
    w = opened(tmp_path)
    query = w.register(QUERIES[0])
    said = query.explain()
    assert "family: many-join" in said
    assert "join keys: s0.k = s1.k, s1.j = s2.j" in said
    assert "join family: r~s~t:" in said
    DirectWeir(w, wall_us=START_US).batch({"r": rows(random.Random(0), 4, 0)})
    assert "materialised since batch 0" in query.explain()
    said = w.register("SELECT r.k, s.j, t.x FROM r, s, t [ROWS 2] WHERE r.k = s.k").explain()
    assert "not connected: s2 with s0, s1: every row would meet every other; to have it matched" in said
    assert "evaluated over the kept rows at every fetch, within 20,000,000 combinations" in said
    assert [q["family"] for q in w.queries().to_pylist()] == ["many-join"] * 2


def test_the_order_of_sources_does_not_make_a_family(tmp_path: Path) -> None:
    w = opened(tmp_path)
    texts = (
        "SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.j = t.j AND r.x > 1",
        "SELECT x.x FROM t y JOIN s x ON y.j = x.j JOIN r z ON x.k = z.k WHERE z.name = 'a'",
        "SELECT a.k FROM r a, r b, r c WHERE a.k = b.j AND b.k = c.j",
        "SELECT a.k FROM r a, r b, r c WHERE c.k = a.j AND b.k = c.j",
    )
    families = []
    for text in texts:
        said = w.register(text).explain()
        families.append(next(line for line in said.splitlines() if line.strip().startswith("join family:")))
    assert families[0] == families[1] != families[2] == families[3]


def same_rows(count: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([1] * count, pa.int64()),
            "j": pa.array([1] * count, pa.int32()),
            "x": pa.array([1.0] * count, pa.float64()),
            "name": pa.array(["a"] * count, pa.string()),
            "ts": pa.array([START_US] * count, pa.timestamp("us", "UTC")),
        }
    )


def test_what_is_joined_too_often_is_demoted_and_still_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over budget, by results or by combinations that had to be examined, all answers stay what they are."""
    monkeypatch.setattr(many_segments, "EXAMINED_MIN", 500)
    w = opened(tmp_path, pairs_per_batch_max=400)
    light = w.register("SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.j = t.j AND r.x > 1")
    heavy = w.register("SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.j = t.j")
    other = w.register("SELECT r.k FROM r, s, u WHERE r.k = s.k AND s.j = u.j")
    alone = w.register("SELECT r.k FROM r WHERE r.x = 1")
    direct = DirectWeir(w, wall_us=START_US)
    done = direct.batch({"r": same_rows(9), "s": same_rows(9), "t": same_rows(9)})
    assert heavy.id in done.demoted
    assert alone.id not in done.demoted
    assert (light.fetch().num_rows, heavy.fetch().num_rows, alone.fetch().num_rows) == (0, 9**3, 9)
    direct.batch({"u": same_rows(2)})
    assert other.fetch().num_rows == 9 * 9 * 2


def test_rows_that_no_query_takes_are_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that all queries have is applied while rows are joined: far more would be examined without it."""
    monkeypatch.setattr(many_segments, "EXAMINED_MIN", 300)
    monkeypatch.setattr(many_segments, "EXAMINED_SHARE", 0)
    w = opened(tmp_path)
    queries = [
        w.register(f"SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.k = t.k AND s.x = {x} AND s.j > 0") for x in (5, 7)
    ]
    done = DirectWeir(w, wall_us=START_US).batch({"r": same_rows(9), "s": same_rows(9), "t": same_rows(9)})
    assert not done.demoted
    assert [q.fetch().num_rows for q in queries] == [0, 0]


def test_more_than_six_streams_are_several_cores(tmp_path: Path) -> None:
    """Six are joined as rows come, the seventh when the answer is asked for."""
    w = opened(tmp_path)
    seven = w.register(
        "SELECT a.k FROM r a, r b, r c, r d, r e, r f, s g "
        "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND d.k = e.k AND e.k = f.k AND f.k = g.k AND g.j > 0"
    )
    DirectWeir(w, wall_us=START_US).batch({"r": same_rows(2), "s": same_rows(3)})
    assert seven.fetch().num_rows == 2**6 * 3
    assert "inner join of core 0, and core 1" in seven.explain()


def test_too_many_combinations_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "COMBINATIONS_MAX", 100)
    w = opened(tmp_path)
    crossed = w.register("SELECT r.k FROM r, s, t WHERE r.k = s.k AND s.k > t.k * r.k")
    pairs = w.register("SELECT r.k FROM r, s WHERE r.x * s.x > 3")
    whole = w.register("SELECT r.k, s.j FROM r, s")
    direct = DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
    direct.batch({"r": same_rows(20), "s": same_rows(20), "t": same_rows(20)})
    for query in (crossed, whole):
        with pytest.raises(weir.WeirError, match="more than 100 combinations"):
            query.fetch()
    monkeypatch.setattr(fetch, "EXAMINED_MAX", 300)
    with pytest.raises(weir.WeirError, match="nothing connects the 2 sources of this join well enough: more than 300"):
        pairs.fetch()


@pytest.mark.parametrize(
    ("condition", "r", "s"),
    [
        ("s.x - r.x <= 0.3E0", (0, -0.3), (0, 1e-17)),
        ("abs(s.x - r.x) <= 0.3E0", (0, -0.3), (0, 1e-17)),
        ("s.x - r.x <= 5E0", (0, -5.0), (0, 1e-20)),
        ("s.k <= r.k - 4611686018427387904", (2**62 + 1, 0.0), (1, 0.0)),
        ("s.k - r.x + abs(r.x) <= 5", (0, 1.7e308), (4, 0.0)),
        ("s.x - r.x >= 5E0", (0, 1.0), (0, float("nan"))),
        ("NOT (s.x - r.x < 5E0)", (0, float("-inf")), (0, float("inf"))),
    ],
)
def test_a_bound_that_rounds_leaves_out_no_pair(
    tmp_path: Path, condition: str, r: tuple[int, float], s: tuple[int, float]
) -> None:
    """Rows first, so that the answer is evaluated: what sums of large terms lose must not cost a result."""
    w = opened(tmp_path)
    pushed = {}
    for name, (k, x) in (("r", r), ("s", s)):
        columns = {"k": pa.array([k], pa.int64()), "x": pa.array([x], pa.float64())}
        table = same_rows(1)
        for column, values in columns.items():
            table = table.set_column(table.schema.get_field_index(column), column, values)
        pushed[name] = table
    DirectWeir(w, wall_us=START_US).batch(pushed)
    sql = f"SELECT r.k, s.x FROM r, s WHERE {condition}"
    expected = answer(sql, {}, w.catalog, pushed, START_US)
    assert expected.num_rows == 1
    assert differ(w.register(sql).fetch(), expected) is None


def test_changes_of_many_sources_do_not_overflow(tmp_path: Path) -> None:
    """Places in the rows of six sources, one factor each: a product of powers of two wraps around to zero."""
    w = opened(tmp_path)
    count = 2048
    keys = pa.array(range(count), pa.int64())
    table = same_rows(count).set_column(0, "k", keys)
    names = [f"a{n}" for n in range(6)]
    equal = " AND ".join(f"{a}.k = {b}.k" for a, b in itertools.pairwise(names))
    query = w.register(f"SELECT a0.k FROM {', '.join(f'r {n}' for n in names)} WHERE {equal}")
    direct = DirectWeir(w, wall_us=START_US)
    direct.batch({"r": table})
    token = query.changes(None).token
    direct.batch({"r": same_rows(1).set_column(0, "k", pa.array([count], pa.int64()))})
    assert query.changes(token).came.to_pydict() == {"k": [count]}
