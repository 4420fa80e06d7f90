"""Rows that an ingest task takes, and those that it sets aside with a reason."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

import weir
from weir.algebra.schema import STRING, TIMESTAMP, Column, Stream
from weir.runtime.ingest import IngestTask, judge
from weir.runtime.intake import parse_columns
from weir.runtime.loop import run_batch
from weir.testing.direct import DirectJobs, DirectWeir

STREAM = Stream("s", (Column("name", STRING), Column("ts", TIMESTAMP), Column("other", STRING)), "ts", None)
TASK = IngestTask("", 0, {"s": STREAM}, {}, 10**12, {})
BAD = (b"\xff", b"A\xc3", b"\xed\xa0\x80", b"\xf8abc")


def table(names: list[bytes | None], others: list[bytes | None], chunk: int) -> pa.Table:
    def texts(values: list[bytes | None]) -> pa.ChunkedArray:
        parts = [values[k : k + chunk] for k in range(0, len(values), chunk)]
        return pa.chunked_array([pa.array(part, pa.binary()).view(pa.string()) for part in parts], pa.string())

    times = pa.array(range(len(names)), pa.timestamp("us", "UTC"))
    return pa.table({"name": texts(names), "ts": times, "other": texts(others)})


def test_texts_that_are_no_utf8_are_set_aside() -> None:
    dice = random.Random(3)
    for share in (0.0, 0.01, 0.3, 1.0):
        names, others = (
            [dice.choice(BAD) if dice.random() < share else dice.choice([b"A", "é".encode(), b"", None])
             for _ in range(1_000)]
            for _ in range(2)
        )  # fmt: skip
        given = table(names, others, chunk=300)
        rows, late, reasons = judge(given, STREAM, TASK)
        bad = [k for k in range(1_000) if names[k] in BAD or others[k] in BAD]
        good = [k for k in range(1_000) if k not in bad]
        assert rows.num_rows == len(good)
        rows.validate(full=True)
        assert rows.column("ts").cast(pa.int64()).to_pylist() == good
        assert rows.column("name").to_pylist() == [None if names[k] is None else names[k].decode() for k in good]
        if not bad:
            assert late is None
            assert reasons == {}
            continue
        assert late is not None
        late.validate(full=True)
        assert reasons == {"not UTF-8": len(bad)}
        assert late.column("ts").cast(pa.int64()).to_pylist() == bad
        shown = [None if names[k] is None else names[k].decode(errors="replace") for k in bad]
        assert late.column("name").to_pylist() == shown
        assert set(late.column("weir_reason").to_pylist()) == {"not UTF-8"}


def test_no_query_is_to_blame_for_them(tmp_path: Path) -> None:
    """Rows as Spark hands them over: what cannot be read is set aside, and every query goes on with the rest."""
    w = weir.open(tmp_path)
    w.stream("s", "name string, ts timestamp, other string", time="ts", keep="forever")
    conditions = ("name = 'A'", "name LIKE '%A%'", "upper(name) = 'A'", "length(name) = 1 AND name < 'B'", "other > ''")
    queries = [w.register(f"SELECT name FROM s WHERE {condition}") for condition in conditions]
    direct = DirectWeir(w, wall_us=10**12)
    for batch in range(2):
        direct.context.state.refresh(direct.context.ledger)
        given = [("s", table([b"A", b"\xffA", b"A"], [b"x", b"y", b"A\xc3"], chunk=3))]
        done = run_batch(direct.context, batch, DirectJobs(direct.context, direct.segments, direct.partners, 1, given))
        assert done.quarantined == ()
    assert [query.fetch()["name"].to_pylist() for query in queries] == [["A", "A"]] * len(queries)
    assert w.late("s")["name"].to_pylist() == ["\ufffdA", "A"] * 2


def test_payloads_with_texts_that_are_not_utf8_are_late() -> None:
    stream = Stream("s", parse_columns("p struct<a:string,b:array<string>>, ts timestamp", "s"), "ts", None)
    bad = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"\xc3\xa9"], pa.binary()).buffers())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 1], pa.int32()), pa.array(["x"]))
    times = pa.array([0, 0, 0]).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"p": pa.StructArray.from_arrays([bad, lists], ["a", "b"]), "ts": times})
    task = IngestTask("", 0, {"s": stream}, {}, 10**12, {})
    taken, late, reasons = judge(rows, stream, task)
    assert taken["p"].to_pylist() == [{"a": "a", "b": ["x"]}, {"a": "é", "b": []}]
    assert late is not None
    assert late["p"].to_pylist() == [None]
    assert reasons == {"not UTF-8": 1}
