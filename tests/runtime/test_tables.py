"""Tables: definitions, changes, what these do not disturb, and tables that go."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import weir
from tests.tables import SECOND, STOCK, instant, lines, opened, read, trades
from weir import definitions
from weir.algebra.schema import CHANGE_DELETES, CHANGE_TIME, ENDLESS_US, INT
from weir.answer.table_versions import pairs_met, shown_at
from weir.errors import PushError, RegisterError, StreamError
from weir.store.check import check
from weir.store.mapped import sweep
from weir.store.query_groups import NewQueries

# ── definitions ────────────────────────────────────────────────────────────────────────────────────


def test_a_definition_is_kept_and_said_again(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    columns = "symbol string, place string, company string null, since timestamp"
    for _ in range(2):
        made = w.table("Stock", columns, key=["SYMBOL", "place"], time="SINCE", retroactive=True)
    assert (made.key, made.time, made.retroactive) == (("symbol", "place"), "since", True)
    other = weir.open(tmp_path)
    assert other.catalog.tables == {"stock": made}
    assert other.catalog.streams == {}
    assert other.catalog_log.count() == 1
    for changed in ({"key": "symbol", "time": "since"}, {"key": ["symbol", "place"], "retroactive": True}):
        with pytest.raises(StreamError, match="is already defined as table"):
            other.table("stock", columns, **changed)  # type: ignore[arg-type]  # one of several kinds of arguments
    with pytest.raises(StreamError, match="'stock' is already defined as table"):
        other.stream("stock", "a int, ts timestamp", time="ts")
    other.stream("trade", "a int, ts timestamp", time="ts")
    with pytest.raises(StreamError, match="'trade' is already defined as stream"):
        other.table("trade", "a int", key="a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "a b"}, "'a b' is not a table name"),
        ({"name": 3}, "the name of a table is 3, expected a text"),
        ({"columns": 3}, "the columns of table 't' is 3"),
        ({"columns": "k strin"}, "column 'k' of 't' has type 'strin'"),
        ({"key": "kk"}, "key column 'kk' is not in table 't' (k, v, ts); did you mean 'k'?"),
        ({"key": []}, "the key of table 't' is [], expected the name of a column"),
        ({"key": None}, "the key of table 't' is None"),
        ({"key": [3]}, "a key of table 't' is 3, expected a text"),
        ({"key": ["k", "K"]}, "names a column twice: k, k"),
        ({"key": "v"}, "column 'v' is a key of table 't', and rows may do without it; write `v int`"),
        ({"time": "k"}, "time column 'k' of table 't' is string, expected timestamp"),
        ({"time": "t"}, "time column 't' is not in table 't'"),
        ({"time": "ts", "key": ["k", "ts"]}, "column 'ts' of table 't' is its time and in its key"),
        ({"columns": "k int, ts timestamp null", "time": "ts"}, "column 'ts' is the time of table 't', and rows may"),
        ({"retroactive": 1}, "retroactive of table 't' is 1, expected True or False"),
    ],
)
def test_what_is_no_definition_is_refused(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    w = weir.open(tmp_path)
    whole = {"name": "t", "columns": "k string, v int null, ts timestamp", "key": "k"} | arguments
    name, columns = whole.pop("name"), whole.pop("columns")
    with pytest.raises(StreamError) as raised:
        w.table(name, columns, **whole)  # type: ignore[arg-type]  # wrong on purpose
    assert message in str(raised.value)
    assert w.catalog_log.count() == 0


# ── changes ────────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_put_in_and_taken_out(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("stock", STOCK, key="symbol")
    assert w.upsert("Stock", [{"symbol": "A", "company": "Apple"}, {"symbol": "B", "company": None, "rating": 5}]) == 0
    direct.batch({"trade": trades(SECOND)})
    first = [("A", "Apple", 3, -ENDLESS_US, ENDLESS_US), ("B", None, 5, -ENDLESS_US, ENDLESS_US)]
    assert lines(read(direct, stock), "symbol", "company", "rating") == first
    w.upsert("stock", pd.DataFrame({"symbol": ["A", "A"], "company": ["x", "Alphabet"]}))
    w.delete("stock", "B")
    w.delete("stock", ["C", "D"])
    w.upsert("stock", {"symbol": ["C"], "rating": [1]})
    direct.batch({})
    direct.batch({"trade": trades(3 * SECOND)})
    since = SECOND + 1  # the row at SECOND had come before
    second = [
        ("A", "Alphabet", 3, since, ENDLESS_US),
        ("A", "Apple", 3, -ENDLESS_US, since),
        ("B", None, 5, -ENDLESS_US, since),
        ("C", None, 1, since, ENDLESS_US),
    ]
    assert lines(read(direct, stock), "symbol", "company", "rating") == second
    assert lines(read(direct, stock, 0), "symbol", "company", "rating") == first
    assert lines(read(direct, stock, -1), "symbol") == []
    assert not check(w.files).wrong


@pytest.mark.parametrize(
    "keys",
    [
        [2, 3],
        (2, 3),
        np.array([2, 3]),
        pd.Series([2, 3], index=[7, 8]),
        pa.array([2, 3]),
        pa.chunked_array([[2], [3]]),
        {"K": [2, 3]},
        [{"k": 2}, {"k": 3}],
        pd.DataFrame({"k": [2, 3]}),
        pa.table({"k": pa.array([2, 3], pa.int32())}),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_keys_may_be_said_in_many_ways(tmp_path: Path, keys: object) -> None:
    direct = opened(tmp_path)
    made = direct.weir.table("t", "k bigint, v int default 1", key="k")
    direct.weir.upsert("t", {"k": [1, 2, 3]})
    direct.weir.delete("t", keys)
    direct.batch({})
    assert read(direct, made)["k"].to_pylist() == [1]


def test_nothing_is_nothing(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    direct.weir.table("stock", STOCK, key="symbol")
    for nothing in ([], {"symbol": []}, pa.table({"symbol": pa.array([], pa.string())})):
        assert direct.weir.upsert("stock", nothing) == direct.weir.delete("stock", nothing) == -1
    assert direct.batch({}).rows == ()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"symbol": None}], "column 'symbol' of table 'stock' is NULL in row 0 (counted from 0), and is in its key"),
        ({"symbol": ["a", None]}, "is NULL in row 1"),
        ([{"company": "x"}, {"symbol": "a"}], "row 0 (counted from 0) for table 'stock' does not have column 'symbol'"),
        (pa.table({"company": ["x"]}), "for table 'stock' do not have column 'symbol', which the table has; give it"),
        ([{"symbol": "a", "compny": "x"}], "column 'compny' is not in table 'stock'"),
        ([{"symbol": 3}], "column 'symbol' of table 'stock' expects string"),
        ([{"symbol": "a", "rating": 2**40}], "column 'rating' of table 'stock' expects int"),
        ([{"symbol": "a", "size": -(2**63)}], "column 'size' of table 'stock' has the reserved value"),
        ([{"symbol": "a", "weir deletes": True}], "column 'weir deletes' is not in table 'stock'"),
        (3, "rows for table 'stock' is a int"),
    ],
)
def test_what_is_no_row_is_refused_whole(tmp_path: Path, rows: object, message: str) -> None:
    direct = opened(tmp_path)
    direct.weir.table("stock", STOCK + ", size bigint null", key="symbol")
    with pytest.raises(PushError) as raised:
        direct.weir.upsert("stock", rows)
    assert message in str(raised.value)
    assert direct.weir.inbox.next(0) == 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([{"symbol": "a"}], "the rows for the keys of table 'stock' do not have column 'since', its time; give it"),
        ("a", "the keys of table 'stock' are plain values, expected rows of symbol and since"),
        (
            [{"symbol": "a", "since": None}],
            "column 'since' of table 'stock' is NULL in row 0 (counted from 0), and is its",
        ),
        (
            [{"symbol": "a", "since": instant(0), "v": 1}],
            "column 'v' is not in the keys of table 'stock' (symbol, since)",
        ),
        (None, "rows for the keys of table 'stock' is a NoneType"),
    ],
)
def test_what_is_no_key_is_refused_whole(tmp_path: Path, keys: object, message: str) -> None:
    direct = opened(tmp_path)
    direct.weir.table("stock", "symbol string, v int null, since timestamp", key="symbol", time="since")
    with pytest.raises(PushError) as raised:
        direct.weir.delete("stock", keys)
    assert message in str(raised.value)
    assert direct.weir.inbox.next(0) == 0


def test_tables_and_streams_are_told_apart(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    w.table("stock", STOCK, key="symbol")
    with pytest.raises(PushError, match="no stream 'stock'; it is a table: see upsert, delete and drop_table"):
        w.push("stock", [])
    with pytest.raises(StreamError, match="no stream 'stock'; it is a table"):
        w.drop_stream("stock")
    with pytest.raises(PushError, match="no table 'trade'; it is a stream: see push and drop_stream"):
        w.upsert("trade", [])
    with pytest.raises(PushError, match="no table 'stok'; did you mean 'stock'"):
        w.delete("stok", "a")
    for name in ("stock changes", "STOCK CHANGES"):
        with pytest.raises(PushError, match="there is no stream"):
            w.push(name, [])
        with pytest.raises(StreamError, match="there is no stream"):
            w.late(name)
        with pytest.raises(RegisterError, match="there is no stream or table"):
            w.register(f"SELECT * FROM `{name}`")
    assert "stock changes" not in repr(w)
    assert "stock changes" not in repr(w.catalog)


@pytest.mark.parametrize("retroactive", [False, True])
def test_a_query_over_a_table_is_explained_and_answered(tmp_path: Path, retroactive: bool) -> None:
    """A row meets the version of its time; with a retroactive table every row meets the one of the answer's time."""
    direct = opened(tmp_path)
    w = direct.weir
    w.table("stock", "k bigint, v int, since timestamp", key="k", time="since", retroactive=retroactive)
    text = w.explain("SELECT a FROM trade JOIN stock ON a = k")
    assert ("-- relation" in text, "-- NRR" in text) == (retroactive, not retroactive)
    assert ("source stock: table stock, retroactive" in text) == retroactive
    joined = w.register("SELECT v FROM trade JOIN stock ON a = k")
    outer = w.register("SELECT v FROM trade LEFT JOIN stock ON a = k AND v > 1")
    alone = w.register("SELECT max(v) AS v, count(*) AS n FROM stock")
    times = [instant(t) for t in (1 * SECOND, 5 * SECOND) for _ in range(3)]
    w.upsert("stock", {"k": [0, 1, 2] * 2, "v": [1] * 3 + [2] * 3, "since": times})
    direct.batch({"trade": trades(0, 2 * SECOND, 6 * SECOND)})
    seen = [2, 2, 2] if retroactive else [1, 2]
    assert joined.fetch().column("v").to_pylist() == seen
    assert outer.fetch().column("v").to_pylist() == ([2, 2, 2] if retroactive else [None, None, 2])
    assert alone.fetch().to_pylist() == [{"v": 2, "n": 3}]
    with pytest.raises(StreamError, match="3 standing queries"):
        w.drop_table("stock")
    w.upsert("stock", {"k": [0, 1, 2], "v": [3] * 3, "since": [instant(6 * SECOND)] * 3})
    direct.batch({})
    assert joined.fetch().column("v").to_pylist() == ([3, 3, 3] if retroactive else [1, 3])


# ── what changes do not disturb ────────────────────────────────────────────────────────────────────


def test_changes_move_no_clock_and_are_never_late(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("stock", "symbol string, since timestamp", key="symbol", time="since")
    query = w.register("SELECT a FROM trade")
    w.upsert("stock", [{"symbol": "A", "since": instant(10**16)}])
    assert direct.batch({}).now_us is None
    done = direct.batch({"trade": trades(4_000 * SECOND)})
    assert done.now_us == 4_000 * SECOND
    times = [0, -(10**14), 2 * 10**16, 4_000 * SECOND]
    w.upsert("stock", {"symbol": [f"S{t}" for t in times], "since": [instant(t) for t in times]})
    done = direct.batch({"trade": trades(4_001 * SECOND)})
    assert (done.now_us, done.late) == (4_001 * SECOND, ())
    direct.batch({"trade": trades(9_000 * SECOND)})
    assert lines(read(direct, stock), "symbol")[0] == ("A", 10**16, ENDLESS_US)
    assert sorted(row[1] for row in lines(read(direct, stock), "symbol")) == sorted([10**16, *times])
    assert query.fetch().num_rows == 1


def test_matches_go_though_changes_of_their_batch_stay(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("stock", STOCK, key="symbol")
    query = w.register("SELECT a FROM trade WHERE a >= 0")
    for k in range(4):
        w.upsert("stock", {"symbol": [f"S{k}"]})
        direct.batch({"trade": trades(1_000 * SECOND * k)})
    w.vacuum()
    kept = {e.path for e in w.files.list("matches")}
    assert len(kept) == 2  # the floors of a batch are those of the clock before it
    assert read(direct, stock).num_rows == 4
    assert query.fetch().num_rows == 1
    assert not check(w.files).wrong


def test_events_and_matches_are_of_streams(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    w.table("stock", STOCK, key="symbol")
    w.register("SELECT a FROM trade WHERE a >= 0")
    w.upsert("stock", {"symbol": [f"S{k}" for k in range(100)]})
    done = direct.batch({"trade": trades(1, 2, 3)})
    assert sum(m.events for m in done.matches) == 3
    assert sum(f.count for f in done.rows if f.stream == "stock changes") == 100


def test_on_the_arrival_clock_changes_hold_from_their_batch_on(tmp_path: Path) -> None:
    direct = opened(tmp_path, "arrival")
    w = direct.weir
    plain = w.table("plain", "k int, v int", key="k")
    timed = w.table("timed", "k int, v int, since timestamp", key="k", time="since")
    for n in range(3):
        direct.wall_us = 10**15 + n * SECOND
        w.upsert("plain", {"k": [1], "v": [n]})
        w.upsert("timed", {"k": [1], "v": [n], "since": [instant(n)]})
        direct.batch({"trade": trades(5)})
    ends = [10**15 + n * SECOND for n in range(3)] + [ENDLESS_US]
    assert lines(read(direct, plain), "v") == [(n, ends[n], ends[n + 1]) for n in range(3)]
    assert lines(read(direct, timed), "v") == [(0, 0, 1), (1, 1, 2), (2, 2, ENDLESS_US)]


@pytest.mark.parametrize("retroactive", [False, True])
def test_rows_keep_their_version_where_the_wall_clock_is_set_back(tmp_path: Path, retroactive: bool) -> None:
    """Batches have one time then, and a row of an earlier one was there before a change of a later one."""
    direct = opened(tmp_path, "arrival")
    w = direct.weir
    w.table("stock", "a bigint, v int", key="a", retroactive=retroactive)
    query = w.register("SELECT stock.v FROM trade JOIN stock USING (a)")
    seen = []
    for v, wall in ((1, 20), (2, 20), (3, 10), (4, 30)):
        direct.wall_us = wall * SECOND
        w.upsert("stock", {"a": [0], "v": [v]})
        direct.batch({"trade": trades(5)})
        seen.append(query.fetch()["v"].to_pylist())
    assert seen == ([[1], [2, 2], [3] * 3, [4] * 4] if retroactive else [[1], [1, 1], [1, 1, 1], [1, 1, 1, 4]])
    assert w.register("SELECT v + 0 AS v FROM trade JOIN stock USING (a)").fetch()["v"].to_pylist() == seen[-1]


@pytest.mark.parametrize("retroactive", [False, True])
def test_rows_that_came_before_keep_their_version(tmp_path: Path, retroactive: bool) -> None:
    """A row of the time that the clock shows was there before the change; what the table shows changes at once."""
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("stock", "k int, v int", key="k", retroactive=retroactive)
    w.upsert("stock", {"k": [1], "v": [1]})
    direct.batch({"trade": trades(7 * SECOND)})
    w.upsert("stock", {"k": [1], "v": [2]})
    now_us = direct.batch({}).now_us
    assert now_us == 7 * SECOND
    found = read(direct, stock)
    assert shown_at(found, stock, now_us)["v"].to_pylist() == [2]
    assert shown_at(found, stock, now_us - 1)["v"].to_pylist() == [1]
    if not retroactive:
        rows, which = pairs_met(found, np.array([now_us, now_us + 1]))
        assert [(r, found["v"][v].as_py()) for r, v in zip(rows.tolist(), which.tolist(), strict=True)] == [
            (0, 1),
            (1, 2),
        ]


def test_changes_of_a_dataframe_that_say_nothing_are_set_aside(tmp_path: Path) -> None:
    """Rows as Spark hands them over: what upsert and delete refuse goes to late, and nothing stops."""
    direct = opened(tmp_path)
    w = direct.weir
    plain = w.table("plain", "k string, v int", key="k")
    timed = w.table("timed", "k string, v bigint, since timestamp", key="k", time="since")
    deletes = [False, None, True, False]
    rows = {"k": ["a", "b", "x", None], "v": pa.array([1, 2, None, 3], pa.int32()), CHANGE_DELETES: deletes}
    far = [0, ENDLESS_US - 1, ENDLESS_US, -ENDLESS_US + 1, -ENDLESS_US, -(2**63), None]
    since = pa.array(far, pa.int64()).cast(pa.timestamp("us", "UTC"))
    moments = {"k": [f"t{k}" for k in range(7)], "v": [*range(6), 9], CHANGE_DELETES: [False] * 7, "since": since}
    done = direct.batch({plain.changes.name: rows | {CHANGE_TIME: pa.nulls(4)}, timed.changes.name: moments})
    assert read(direct, plain)["k"].to_pylist() == ["a"]
    assert read(direct, timed)["k"].to_pylist() == ["t0", "t1", "t3"]
    assert list(zip(*(w.late("plain")[c].to_pylist() for c in ("k", "weir_reason")), strict=True)) == [
        ("b", "unknown operation"),
        (None, "null key"),
    ]
    assert list(zip(*(w.late("TIMED")[c].to_pylist() for c in ("k", "weir_reason")), strict=True)) == [
        ("t2", "future"),
        ("t4", "late"),
        ("t5", "reserved value"),
        ("t6", "null time"),
    ]
    assert done.now_us is None


# ── dropping ───────────────────────────────────────────────────────────────────────────────────────


def test_a_table_is_dropped(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("Stock", STOCK, key="symbol")
    w.upsert("stock", {"symbol": ["A"]})
    direct.batch({"trade": trades(1)})
    w.upsert("stock", {"symbol": ["B"]})
    w.drop_table("STOCK")
    assert w.catalog.tables == {}
    with pytest.raises(StreamError, match="no table 'stock'"):
        w.drop_table("stock")
    with pytest.raises(PushError, match="no table 'stock'"):
        w.upsert("stock", {"symbol": ["B"]})
    with pytest.raises(StreamError, match="table 'Stock' was dropped, and its name is not used again"):
        w.table("stock", STOCK, key="symbol")
    with pytest.raises(StreamError, match="table 'Stock' was dropped, and its name is not used again"):
        w.stream("stock", "a int, ts timestamp", time="ts")
    done = direct.batch({"trade": trades(2)})
    assert {f.stream for f in done.rows} == {"trade"}
    assert read(direct, stock).num_rows == 0
    w.vacuum()
    left = [e.path for e in w.files.list("rows")]
    assert len(left) == 2
    assert not check(w.files).wrong


def test_no_stream_can_be_called_like_changes(tmp_path: Path) -> None:
    """The name of the hidden stream is no name that a user can give."""
    w = weir.open(tmp_path)
    for name in ("stock changes", "stock\u00a0changes"):
        with pytest.raises(StreamError, match="is not a stream name"):
            w.stream(name, "a int, ts timestamp", time="ts")


def test_a_table_that_is_read_is_not_dropped(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    w.table("stock", STOCK, key="symbol")
    w.stream("stocked", "stock int, ts timestamp", time="ts")
    w.register("SELECT stock FROM stocked")
    # As a version that runs such queries would have registered them; this one cannot read the text.
    text = "SELECT s0.a FROM trade s0, stock s1 WHERE s1.rating = :c0"
    group = w.registry.register(NewQueries(text, (INT,), pa.table({"c0": [1, 2]}), ["selection"], ["trade"], 1))
    with pytest.raises(StreamError, match=r"2 standing queries \(1, 2\) read table 'stock'; drop them first"):
        w.drop_table("stock")
    w.drop([group.first_id, group.first_id + 1])
    w.drop_table("stock")


def test_files_of_a_dropped_table_are_not_kept_open(tmp_path: Path) -> None:
    """Their space would not be free; versions that somebody still has are copies."""
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("stock", STOCK, key="symbol")
    for n in range(3):
        w.upsert("stock", {"symbol": [f"S{k}" for k in range(10_000 * n, 10_000 * (n + 1))]})
        direct.batch({})
    found = read(direct, stock)
    w.drop_table("stock")
    direct.batch({"trade": trades(1)})
    w.vacuum()
    sweep()
    gc.collect()
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    assert not [line for line in lines if "(deleted)" in line and str(tmp_path) in line]
    assert found.num_rows == 30_000


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.a, s.company FROM trade t JOIN stock s ON t.name = s.symbol",
        "SELECT symbol FROM stock",
        "SELECT a FROM trade WHERE name IN (SELECT symbol FROM stock)",
        "SELECT a FROM seen",
    ],
)
def test_a_query_that_comes_while_its_table_goes_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Nobody could see it when it was asked who reads the table."""
    direct = opened(tmp_path)
    w = direct.weir
    w.stream("named", "a int, name string, ts timestamp", time="ts")
    w.table("stock", STOCK, key="symbol")
    text = text.replace("trade", "named")
    w.view("seen", "SELECT n.a FROM named n JOIN stock s ON n.name = s.symbol")
    other = w.register("SELECT a FROM named WHERE a > 0")
    late: list[weir.Query] = []
    refuse = definitions._refuse

    def refuse_slowly(groups: list[np.ndarray], why: str) -> None:
        refuse(groups, why)
        late.append(w.register(text))

    w.upsert("stock", {"symbol": ["A"], "company": ["x"]})
    rows = pa.table({"a": pa.array([1, 2], pa.int32()), "name": ["A", "B"], "ts": [instant(SECOND)] * 2})
    direct.batch({"named": rows})
    monkeypatch.setattr(definitions, "_refuse", refuse_slowly)
    w.drop_table("stock")
    direct.batch({"named": rows})
    assert other.fetch().num_rows == 4
    with pytest.raises(RegisterError, match="there is no stream or table 'stock'"):
        late[0].fetch()
    assert w.queries().num_rows == 2
    late[0].drop()
    direct.batch({"named": rows})
    assert other.fetch().num_rows == 6
