"""Corners of fetching and matching that random scenarios rarely reach."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import weir
from weir.testing.direct import DirectWeir

SECOND = 1_000_000


def rows(*values: int, at_s: int = 1) -> pa.Table:
    times = pa.array([at_s * SECOND] * len(values), pa.timestamp("us", "UTC"))
    return pa.table({"a": pa.array(values, pa.int64()), "ts": times})


def make(folder: Path, **settings: object) -> tuple[weir.Weir, DirectWeir]:
    w = weir.open(folder, settings=settings)
    w.stream("S", "a bigint, ts timestamp", time="ts", keep="1 minute")
    return w, DirectWeir(w, slices=1, wall_us=1000 * SECOND)


@pytest.mark.slow
def test_a_token_from_before_the_first_rows_goes_on_working(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    query = w.register("SELECT a FROM S")
    token = query.changes().token
    direct.batch({"S": rows(1)})
    direct.batch({"S": rows(2, at_s=50)})
    direct.batch({"S": rows(3, at_s=200)})
    changes = query.changes(after=token)
    assert changes.came.to_pydict() == {"a": [3]}
    assert changes.went.num_rows == 0


def test_over_budget_by_the_sum_of_main_and_tail(tmp_path: Path) -> None:
    w, direct = make(tmp_path, pairs_per_batch_max=30, tail_queries_max=100)
    queries = list(w.register_many("SELECT a FROM S WHERE a > :x", {"x": list(range(4))}))
    direct.batch({"S": rows(1)})
    queries += w.register_many("SELECT a FROM S WHERE a >= :x", {"x": list(range(4))})
    done = direct.batch({"S": rows(*range(10))})
    assert done.demoted
    assert [q.fetch().num_rows for q in queries] == [10, 8, 7, 6, 11, 10, 8, 7]


def test_who_was_demoted_by_an_attempt_that_failed_is_matched_again(tmp_path: Path) -> None:
    w, direct = make(tmp_path, pairs_per_batch_max=10_000)
    query = w.register("SELECT a FROM S WHERE a > 0")
    import numpy as np

    direct.segments.prepare(1, np.array([query.id]), w.catalog)  # as an attempt over budget does
    direct.context.registry.refresh()
    direct.batch({"S": rows(1, 2)})
    assert query.fetch().num_rows == 2
    assert not w.queries().column("demoted").to_pylist()[0]


def test_a_reader_that_cannot_write_caches_can_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.errors import StoreError

    w, direct = make(tmp_path)
    direct.batch({"S": rows(1, 2)})
    query = w.register("SELECT a FROM S WHERE a > 1")
    direct.batch({"S": rows(3)})

    def refuse(*_: object) -> None:
        raise StoreError("no space")

    monkeypatch.setattr("weir.answer.fetch.save_arrays", refuse)
    assert query.fetch().to_pydict() == {"a": [2, 3]}


def test_the_least_timestamp_is_reserved_like_the_least_bigint(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream("S", "t timestamp, ts timestamp", time="ts", keep="1 minute")
    least = pa.array([-(2**63), 5], pa.int64()).cast(pa.timestamp("us", "UTC"))
    times = pa.array([SECOND] * 2, pa.timestamp("us", "UTC"))
    DirectWeir(w, wall_us=SECOND).batch({"S": pa.table({"t": least, "ts": times})})
    assert w.state.refresh(w.ledger) == 0
    assert w.state.late == {"S": {"reserved value": 1}}


def test_a_filtered_pandas_frame_is_rows_without_its_index(tmp_path: Path) -> None:
    w, _ = make(tmp_path)
    frame = pd.DataFrame({"a": [1, 2, 3], "ts": pd.to_datetime([1, 1, 1], unit="s")})
    assert w.push("S", frame[frame.a > 1]) == 0
    assert w.inbox.ticket(0).rows == 2  # type: ignore[union-attr]  # it was just pushed


def test_a_char_that_meets_a_longer_one_is_filled_up_also_when_its_query_is_read_again(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream("T", "a char(6), b char(3), ts timestamp", time="ts")
    same, other = w.register("SELECT a FROM T WHERE a = b"), w.register("SELECT a FROM T WHERE a <> b")
    times = pa.array([SECOND, SECOND], pa.timestamp("us", "UTC"))
    DirectWeir(w, wall_us=1000 * SECOND).batch({"T": pa.table({"a": ["x", "x"], "b": ["x", "y"], "ts": times})})
    for query in (same, other, *(w.register(f"SELECT a FROM T WHERE a {op} b") for op in ("=", "<>"))):
        assert query.fetch().to_pydict() == {"a": ["x     "]}, query.sql
