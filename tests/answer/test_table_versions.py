"""Versions of tables against a plain twin: random changes, batches, restarts and batches that are run again."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.oracle.plain_tables import Change, table_at
from tests.tables import SECOND, STOCK, instant, opened, read, trades
from weir.algebra.schema import ENDLESS_US
from weir.answer import table_versions
from weir.answer.table_versions import FROM_US, TO_US, met_by, pairs_met
from weir.errors import PushError
from weir.runtime import faults
from weir.store.check import check
from weir.store.row_files import arrow_schema
from weir.testing.direct import DirectWeir


def test_all_nan_are_one_key(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    made = w.table("t", "d double, b boolean, v int", key=("d", "b"))
    numbers = [float("nan"), np.copysign(np.nan, -1), 0.0, -0.0, 1.0, 1.0]
    flags = [True, True, False, False, True, False]
    w.upsert("t", pa.table({"d": numbers, "b": flags, "v": pa.array(range(6), pa.int32())}))
    direct.batch({})
    assert read(direct, made)["v"].to_pylist() == [1, 3, 4, 5]
    with pytest.raises(PushError, match="column 'd' of table 't' is NULL in row 0"):
        w.upsert("t", {"d": [float("nan")], "b": [True], "v": [1]})


def test_keys_of_all_types_are_found_again(tmp_path: Path) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    kinds = ("int", "bigint", "double", "decimal(9,2)", "string", "boolean", "date", "timestamp")
    moment = instant(10**15)
    values = (1, 2, -0.0, Decimal("1.50"), "é", True, moment.date(), moment)
    made = [w.table(f"t{k}", f"k {kind}, v int", key="k") for k, kind in enumerate(kinds)]
    whole = w.table(
        "t", ", ".join(f"k{k} {kind}" for k, kind in enumerate(kinds)) + ", v int", key=[f"k{k}" for k in range(8)]
    )
    for n in range(3):
        given = [0.0 if n and kind == "double" else value for kind, value in zip(kinds, values, strict=True)]
        for table, value in zip(made, given, strict=True):
            w.upsert(table.name, [{"k": value, "v": n}])
        w.upsert("t", [{f"k{k}": value for k, value in enumerate(given)} | {"v": n}])
        direct.batch({"trade": trades(n)})
        for table in (*made, whole):
            found = read(direct, table)
            assert found["v"].to_pylist() == list(range(n + 1)), table.name
            assert found[TO_US].to_pylist()[:-1] == found[FROM_US].to_pylist()[1:]


# ── against the twin ───────────────────────────────────────────────────────────────────────────────


class History:
    """A weir with tables of all kinds, whose random changes a plain list keeps as well."""

    KINDS = tuple((timed, retro, wide) for timed in (False, True) for retro in (False, True) for wide in (False, True))

    def __init__(self, place: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.place = place
        self.clock = self.random.choice(["event", "arrival"])
        self.wall_us = 10**15
        self.direct = self.restarted()
        self.tables = []
        self.changes: dict[str, list[Change]] = {}
        self.waiting: dict[str, list[tuple[tuple[object, ...], tuple[object, ...] | None, int]]] = {}
        for timed, retro, wide in self.random.sample(self.KINDS, 3):
            key = "k string, d double" if wide else "k string"
            columns = f"{key}, v int null" + (", since timestamp" if timed else "")
            name = f"t{len(self.tables)}"
            keys = ["k", "d"] if wide else "k"
            time = "since" if timed else None
            table = self.direct.weir.table(name, columns, key=keys, time=time, retroactive=retro)
            self.tables.append(table)
            self.changes[name], self.waiting[name] = [], []
        self.now_us: int | None = None
        self.batches = 0

    def restarted(self) -> DirectWeir:
        direct = opened(self.place, self.clock)
        direct.slices = self.random.choice([1, 2, 3])
        direct.wall_us = self.wall_us
        return direct

    def change(self) -> None:
        dice = self.random
        table = dice.choice(self.tables)
        deletes = dice.random() < 0.3
        rows = []
        for _ in range(dice.randint(1, 5)):
            row: dict[str, object] = {"k": dice.choice(["", "a", "b", "é"])}
            if "d" in table.key:
                row["d"] = dice.choice([0.0, -0.0, 1.5])
            if not deletes:
                row["v"] = dice.choice([None, 1, 2, 3])
            if table.time is not None:
                row["since"] = instant(dice.randint(-5, 30))
            rows.append(row)
        w = self.direct.weir
        if deletes:
            w.delete(table.name, rows)
        else:
            w.upsert(
                table.name,
                pa.Table.from_pylist(rows, schema=arrow_schema(table.columns)) if dice.random() < 0.5 else rows,
            )
        for row in rows:
            key = tuple(row[name] for name in table.key)
            since = row.get("since")
            at_us = (since - instant(0)) // dt.timedelta(microseconds=1) if isinstance(since, dt.datetime) else 0
            whole = tuple(at_us if c.name == "since" else row.get(c.name) for c in table.columns)
            self.waiting[table.name].append((key, None if deletes else whole, at_us))

    def batch(self) -> None:
        dice = self.random
        if self.clock == "arrival":
            self.wall_us += dice.choice([0, 1, SECOND])
            self.direct.wall_us = self.wall_us
            now_us: int | None = self.wall_us
        else:
            now_us = self.now_us
        given = {"trade": trades(*[dice.randint(0, 30) for _ in range(dice.choice([0, 2]))])}
        taken, self.waiting = self.waiting, {t.name: [] for t in self.tables}
        if dice.random() < 0.5:  # the driver dies; others go on changing tables, and the clock of the wall goes on
            point = dice.choice(["plan created", "between ingest and match", "all files written, not done"])
            fault = faults.parse(f"{point}:raise")
            with faults.arm(fault), pytest.raises(faults.Crash):
                self.direct.batch(given)
            self.direct.wall_us += 1
            self.change()
            self.direct = self.restarted()
            self.direct.wall_us = self.wall_us + 1
        done = self.direct.batch(given)
        for table in self.tables:
            is_after = (self.clock == "event" or now_us == self.now_us) and not table.retroactive
            since_us = -ENDLESS_US if now_us is None else now_us + is_after
            self.changes[table.name] += [
                Change(self.batches, key, row, at_us if table.time else since_us)
                for key, row, at_us in taken[table.name]
            ]
        self.now_us = done.now_us
        self.batches += 1

    def compare(self) -> Iterator[int]:
        """All tables as of all batches, at all moments at which something may change."""
        for table in self.tables:
            changes = self.changes[table.name]
            names = [c.name for c in table.columns]
            batches = list(range(-1, self.batches))
            self.random.shuffle(batches)  # versions are made from those of fewer changes, or anew
            for batch in batches:
                found = read(self.direct, table, batch)
                since, until = found[FROM_US].to_numpy(), found[TO_US].to_numpy()
                assert (since < until).all()
                moments = sorted({c.since_us + d for c in changes for d in (-1, 0, 1)} | {0, 10**17})
                shown = found.select(names)
                if table.time is not None:
                    at = names.index(table.time)
                    shown = shown.set_column(at, table.time, shown.column(at).cast(pa.int64()))
                rows = [tuple(row.values()) for row in shown.to_pylist()]
                for moment in moments:
                    expected = table_at(changes, moment, batch)
                    here = [rows[k] for k in np.flatnonzero((since <= moment) & (moment < until))]
                    assert sorted(map(repr, here)) == sorted(map(repr, expected.values()))
                    yield 1
                times = np.array(moments, np.int64)
                met, which = pairs_met(found, times)
                pairs = [
                    (r, v) for r in range(len(times)) for v in range(len(since)) if since[v] <= times[r] < until[v]
                ]
                assert list(zip(met.tolist(), which.tolist(), strict=True)) == pairs
                assert met_by(found, which, times[met]).all()


@pytest.mark.parametrize("seed", range(25))
def test_versions_are_what_the_twin_says(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(6):
        for _ in range(history.random.randint(0, 4)):
            history.change()
        history.batch()
    assert sum(history.compare()) > 50
    assert not check(history.direct.weir.files).wrong


def test_versions_are_kept_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = opened(tmp_path)
    w = direct.weir
    stock = w.table("stock", STOCK, key="symbol")
    w.upsert("stock", {"symbol": ["A"]})
    direct.batch({})
    first = read(direct, stock)
    direct.batch({"trade": trades(1)})
    assert read(direct, stock) is first
    kept = table_versions._Kept(2 * first.nbytes)
    monkeypatch.setattr(table_versions, "_kept", kept)
    for n in range(5):
        w.upsert("stock", {"symbol": [f"B{n}"]})
        direct.batch({})
        assert read(direct, stock).num_rows == n + 2
        assert len(kept._entries) <= 2
    assert [read(direct, stock, n).num_rows for n in range(7)] == [1, 1, 2, 3, 4, 5, 6]
