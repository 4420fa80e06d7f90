"""What tests of tables share: a weir with a stream and a driver that takes pushes, and versions as plain lines."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa

import weir
from weir.algebra.schema import Table
from weir.answer.table_versions import FROM_US, TO_US, versions
from weir.store.state import State
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
STOCK = "symbol string, company string null, rating int default 3"


def instant(us: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)


def trades(*times_us: int) -> pa.Table:
    return pa.table({"a": pa.array(range(len(times_us)), pa.int64()), "ts": [instant(t) for t in times_us]})


def opened(place: Path, clock: str | None = None) -> DirectWeir:
    w = weir.open(place, clock=clock)
    w.stream("trade", "a bigint, ts timestamp", time="ts", keep="10 minutes", future="forever")
    return DirectWeir(w, wall_us=10**15, takes_pushes=True)


def read(direct: DirectWeir, table: Table, batch: int | None = None) -> pa.Table:
    w = direct.weir
    state = State()
    last = state.refresh(w.ledger)
    return versions(w.files, table, state, last if batch is None else batch)


def lines(found: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    return sorted(zip(*(found.column(c).to_pylist() for c in (*columns, FROM_US, TO_US)), strict=True))
