"""Streams that are dropped, and that keep their rows for another length of time, between batches."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.errors import PushError, RegisterError, StreamError
from weir.runtime.ingest import IngestTask, ingest_task
from weir.runtime.matches_frame import _places
from weir.store.core_runs import compact
from weir.testing.direct import DirectWeir

MINUTE = 60_000_000


def rows(*values: int, at: int) -> pa.Table:
    times = pa.array([at * MINUTE] * len(values), pa.timestamp("us", "UTC"))
    return pa.table({"k": [1] * len(values), "a": pa.array(values, pa.int64()), "ts": times})


@pytest.fixture
def direct(tmp_path: Path) -> DirectWeir:
    w = weir.open(tmp_path)
    for name in ("R", "S"):
        w.stream(name, "k bigint, a bigint, ts timestamp", time="ts", keep="10 minutes")
    return DirectWeir(w, wall_us=10**16)


def values(query: weir.Query) -> list[int]:
    return sorted(query.fetch()["a"].to_pylist())


def test_a_stream_is_dropped_when_nobody_reads_it(direct: DirectWeir) -> None:
    w = direct.weir
    query = w.register("SELECT R.a FROM R JOIN S ON R.k = S.k")
    other = w.register("SELECT a FROM R")
    direct.batch({"R": rows(1, 2, at=1), "S": rows(3, at=1)})
    with pytest.raises(StreamError, match=r"1 standing queries \(0\) read stream 'S'; drop them first"):
        w.drop_stream("s")
    query.drop()
    w.drop_stream("s")
    assert list(w.catalog.streams) == ["r"]
    with pytest.raises(PushError, match="no stream 'S'"):
        w.push("S", rows(1, at=2))
    with pytest.raises(RegisterError):
        w.register("SELECT a FROM S")
    with pytest.raises(StreamError, match="was dropped, and its name is not used again"):
        w.stream("S", "b int, ts timestamp", time="ts")
    with pytest.raises(StreamError, match="no stream 's'"):
        w.drop_stream("s")
    done = direct.batch({"R": rows(4, at=2)})
    assert [f.stream for f in done.rows] == ["R"]
    assert values(other) == [1, 2, 4]
    assert not w.state.row_files("S").paths
    w.vacuum()
    assert values(other) == [1, 2, 4]


def test_what_was_pushed_to_a_stream_that_was_dropped_is_consumed(direct: DirectWeir) -> None:
    """A push that no batch had taken yet: its rows go, its ticket is spent; rows of other streams beside it stay."""
    w = direct.weir
    tickets = [w.push("S", rows(1, 2, at=1)), w.push("R", rows(3, at=1))]
    w.drop_stream("S")
    dropped = frozenset(name.lower() for name in w.catalog.dropped)
    task = IngestTask(w.files.location, 0, dict(w.catalog.streams), {}, 10**16, {}, dropped)
    for taken, reported in ((tickets, [("R", 1)]), (tickets[:1], [("", 0)])):
        pushed = [w.inbox.ticket(number) for number in taken]
        refs = [
            {"ticket": t.number, "stream": t.stream, "path": t.path, "start": 0, "count": t.rows} for t in pushed if t
        ]
        found = next(ingest_task(task)(iter([pa.record_batch({"ref": pa.array(refs)})]))).to_pylist()
        assert [(r["stream"], r["count"]) for r in found] == reported
        assert max(r["ticket"] for r in found) == taken[-1]


def test_a_query_that_comes_while_its_stream_goes_stops_nobody(
    direct: DirectWeir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered by a process that has not seen the drop yet."""
    w = direct.weir
    other = w.register("SELECT a FROM R")
    behind = weir.open(w.files.location)
    catalog = behind.catalog
    w.drop_stream("S")
    monkeypatch.setattr(behind.catalog_log, "read", lambda: catalog)  # what it had read
    victim = behind.register("SELECT a FROM S WHERE a > 1")
    monkeypatch.undo()
    done = direct.batch({"R": rows(1, 2, at=1)})
    assert [q.first for q in done.quarantined] == [victim.id]
    assert values(other) == [1, 2]


@pytest.mark.parametrize("is_built", [False, True])
def test_a_family_that_nobody_wants_takes_no_results_along(direct: DirectWeir, is_built: bool) -> None:
    """Its texts cannot be planned any more; it is known to the driver, and perhaps its segments were."""
    w = direct.weir
    other, victim = w.register("SELECT a FROM R WHERE a > 0"), w.register("SELECT a FROM S WHERE a > 0")
    direct.context.registry.refresh()
    direct.segments.kernels(None, w.catalog)
    if is_built:
        direct.batch({"R": rows(1, at=1), "S": rows(1, at=1)})
    victim.drop()
    w.drop_stream("S")
    shutil.rmtree(Path(w.files.location) / "cache", ignore_errors=True)
    done = direct.batch({"R": rows(2, 3, at=2)})
    assert [m.pairs for m in done.matches] == [1, 1]
    assert values(other) == ([1, 2, 3] if is_built else [2, 3])


def test_a_sink_gets_a_batch_whose_stream_was_dropped_since(direct: DirectWeir) -> None:
    w = direct.weir
    query = w.register("SELECT a FROM S WHERE a > 0")
    done = direct.batch({"S": rows(1, at=1)})
    query.drop()
    w.drop_stream("S")
    assert list(_places(direct.context, done, {"S"})) == ["S"]


def test_a_query_that_comes_while_keep_changes_keeps_it(direct: DirectWeir, monkeypatch: pytest.MonkeyPatch) -> None:
    w = direct.weir
    change = w.catalog_log.change_keep

    def slowly(name: str, keep_us: int | None) -> None:
        monkeypatch.undo()
        weir.open(w.files.location).register("SELECT R.a FROM R JOIN S ON R.k = S.k")
        change(name, keep_us)

    monkeypatch.setattr(w.catalog_log, "change_keep", slowly)
    with pytest.raises(StreamError, match="windows of 1 standing queries"):
        w.change_keep("R", "1 hour")
    assert w.catalog.streams["r"].keep_us == 10 * MINUTE
    with pytest.raises(StreamError, match="cannot come back for ever"):
        w.change_keep("S", "forever")


def test_a_folder_that_is_made_again_answers_with_its_own_rows(tmp_path: Path) -> None:
    for value in (1, 7):
        shutil.rmtree(tmp_path / "weir", ignore_errors=True)
        w = weir.open(tmp_path / "weir")
        w.stream("R", "k bigint, a bigint, ts timestamp", time="ts")
        query = w.register("SELECT a FROM R WHERE a > 0")
        direct = DirectWeir(w, wall_us=10**16)
        for batch in range(2):
            direct.batch({"R": rows(value, value + 1, at=batch)})
        compact(w.files, direct.context.state, "R")
        assert values(query) == [value, value, value + 1, value + 1]


def test_keep_changes_for_queries_that_do_not_depend_on_it(direct: DirectWeir) -> None:
    w = direct.weir
    short = w.register("SELECT a FROM R BEGIN NOW - INTERVAL 5 MINUTES END NOW")
    everything = w.register("SELECT a FROM R")
    with pytest.raises(StreamError, match=r"windows of 1 standing queries \(1\) depend on how long"):
        w.change_keep("R", "20 minutes")
    everything.drop()
    with pytest.raises(StreamError, match="windows of 1 standing queries"):
        w.change_keep("R", "4 minutes")
    direct.batch({"R": rows(1, at=1)})
    with pytest.raises(RegisterError, match="keeps 10 minutes"):
        w.register("SELECT a FROM R BEGIN NOW - INTERVAL 15 MINUTES END NOW")
    w.change_keep("R", "20 minutes")
    long = w.register("SELECT a FROM R BEGIN NOW - INTERVAL 15 MINUTES END NOW")
    direct.batch({"R": rows(2, at=14)})
    assert values(long) == [1, 2], "what was there when it became longer stays"
    assert values(short) == [2]
    direct.batch({"R": rows(3, at=17)})
    assert values(long) == [2, 3]
    assert w.stream("R", "k bigint, a bigint, ts timestamp", time="ts", keep="20 minutes").keep_us == 20 * MINUTE
    with pytest.raises(StreamError, match="already defined"):
        w.stream("R", "k bigint, a bigint, ts timestamp", time="ts", keep="10 minutes")
    long.drop()
    w.change_keep("R", "6 minutes")
    done = direct.batch({"R": rows(4, at=18)})
    assert done.now_us == 18 * MINUTE
    direct.batch({"R": rows(5, at=10)})
    assert [r["weir_reason"] for r in w.late("R").to_pylist()] == ["late"]
    assert values(short) == [2, 3, 4]


def test_names_have_a_length(direct: DirectWeir) -> None:
    with pytest.raises(StreamError, match="at most 128"):
        direct.weir.stream("x" * 129, "a int, ts timestamp", time="ts")
    names = ["x" * 127 + str(k) for k in range(2)]
    for name in names:
        direct.weir.stream(name, "k bigint, a bigint, ts timestamp", time="ts")
    join = direct.weir.register(f"SELECT l.a FROM {names[0]} l JOIN {names[1]} r ON l.k = r.k")
    direct.batch({name: rows(1, 2, at=1) for name in names})
    assert values(join) == [1, 1, 2, 2]
