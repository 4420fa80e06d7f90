"""Rows that move: segments are built anew for them, by other attributes, and no answer changes."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weir
from tests.poison import World
from weir.families import indexed_boxes
from weir.families.joins import join_layouts
from weir.index import access, digests, grid, lifts, samples
from weir.runtime import query_segments
from weir.runtime.recent_rows import ROWS, RecentRows
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
WALL_US = int(START.timestamp() * 1e6) + 3_600_000_000
N = 4_000
COLUMNS = "a bigint, b bigint, c bigint, ts timestamp"
TEXT = "SELECT a, b FROM s WHERE " + " AND ".join(f"{n} BETWEEN :{n} AND :{n} + 20000" for n in "abc")


def rows(rng: np.random.Generator, second: int, empty: str, count: int = 1_500) -> pa.Table:
    """Rows with three numbers, of which one is nearly always NULL."""
    columns = {}
    for name in "abc":
        values = rng.integers(0, 100_000, count)
        missing = (np.arange(count) % 100 > 0) & (name == empty)
        columns[name] = pa.array(values, pa.int64(), mask=missing)
    moments = [START + datetime.timedelta(seconds=second)] * count
    return pa.table(columns | {"ts": pa.array(moments, pa.timestamp("us", "UTC"))})


def reached(query: Any) -> str:
    (found,) = re.findall(r"^reached through: (.*)$", query.explain(), re.MULTILINE)
    return str(found)


def test_a_later_batch_is_matched_through_another_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_segments, "DRIFT_CANDIDATES_MIN", 5.0)
    w = weir.open(tmp_path, settings={"measure_every_batches": 2, "demote_pairs_min": 10**9})
    w.stream("s", COLUMNS, time="ts", keep="1 hour")
    rng = np.random.default_rng(1)
    constants = {name: rng.integers(0, 80_000, N) for name in "abc"}
    queries = w.register_many(TEXT, {name: of.tolist() for name, of in constants.items()})
    assert reached(queries[0]) == "not indexed yet"
    said: list[str] = []
    direct = DirectWeir(w, wall_us=WALL_US)
    direct.segments.say = said.append
    kept: list[pa.Table] = []

    def batch(empty: str) -> None:
        made = rows(rng, len(kept), empty)
        kept.append(made)
        done = direct.batch({"s": made})
        # Every match of the batch, counted without any index.
        table = made.drop_null().to_pydict()
        inside = np.ones((len(table["a"]), N), bool)
        for name, lo in constants.items():
            values = np.array(table[name])[:, None]
            inside &= (lo <= values) & (values <= lo + 20_000)
        assert sum(m.pairs for m in done.matches) == inside.sum() > 0

    def check() -> None:
        """Some answers are the oracle's."""
        for k in range(0, N, 400):
            given = {name: int(of[k]) for name, of in constants.items()}
            wanted = answer(TEXT, given, w.catalog, {"s": pa.concat_tables(kept)}, w.state.now_us or 0)
            difference = differ(wanted, w.query(queries[k].id).fetch())
            assert difference is None, f"query {k}: {difference}"

    batch("a")
    check()
    first = reached(queries[0])
    assert "s.a" in first
    assert "s.c" not in first
    assert "measured over 1,500 recent rows" in first
    for _ in range(3):
        batch("a")
    assert reached(queries[0]) == first, "rows are what they were"
    assert not said
    for _ in range(4):
        batch("c")
    check()
    assert "s.c" in reached(queries[0])
    assert len(said) == 1
    assert "reached anew" in said[0]
    files = [e.path for e in w.files.list("cache/segments") if e.path.endswith(".seg")]
    assert len(files) == 1, "the earlier one is gone"
    # A job that starts again finds the segment that was left, and does not build it once more.
    again = DirectWeir(weir.open(tmp_path), wall_us=WALL_US)
    kept.append(rows(rng, 9, "c"))
    again.batch({"s": kept[-1]})
    check()
    assert [e.path for e in w.files.list("cache/segments") if e.path.endswith(".seg")] == files


def test_nothing_is_measured_if_nobody_wants_it(tmp_path: Path) -> None:
    w = weir.open(tmp_path, settings={"measure_every_batches": 0})
    w.stream("s", COLUMNS, time="ts", keep="1 hour")
    query = w.register_many("SELECT a FROM s WHERE a > :x AND b < :x", {"x": list(range(500))})[0]
    direct = DirectWeir(w, wall_us=WALL_US)
    for second in range(3):
        direct.batch({"s": rows(np.random.default_rng(second), second, "a")})
    assert "assumed from constants" in reached(query)


def test_every_form_answers_as_before_while_its_segments_are_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few queries and few rows, but all are measured, and every family is built anew in every batch."""
    for module in (indexed_boxes, join_layouts, grid, query_segments):
        monkeypatch.setattr(module, "BOXES_MIN", 1)
    for module in (grid, samples, lifts, digests):
        monkeypatch.setattr(module, "ROWS_MIN", 1)
    monkeypatch.setattr("weir.families.recent.ROWS_MIN", 1)
    monkeypatch.setattr("weir.families.joins.join_accesses.ROWS_MIN", 1)
    monkeypatch.setattr(digests, "BOXES_MIN", 1)
    monkeypatch.setattr(digests, "_BOXES_SHARE", 1)
    monkeypatch.setattr(lifts, "_BOXES_MIN", 1)
    monkeypatch.setattr(access, "_GAIN", 2.0)
    monkeypatch.setattr(query_segments, "DRIFT_FACTOR", 0.0)
    monkeypatch.setattr(query_segments, "DRIFT_CANDIDATES_MIN", -1e9)
    monkeypatch.setattr(query_segments, "PATIENCE_MAX", 1)
    world = World(tmp_path, measure_every_batches=1)
    said: list[str] = []
    direct = DirectWeir(world.weir, wall_us=WALL_US)
    direct.segments.say = said.append
    for _ in range(8):
        direct.batch(world.new_rows())
        world.check()
    channels = {line.split("'")[1] for line in said if "reached anew" in line}
    assert len(channels) == 3, "each form's family had its turn"
    assert all("measured over" in reached(world.weir.query(id)) for id in world.texts)


def test_the_newest_rows_are_those_of_the_batch_at_hand_and_of_those_before(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream("s", COLUMNS, time="ts", keep="1 hour")
    direct = DirectWeir(w, wall_us=WALL_US)
    rng = np.random.default_rng(3)
    made = [rows(rng, second, "a", 700) for second in range(2)]
    for table in made:
        direct.batch({"s": table})
    state = direct.context.state
    state.refresh(direct.context.ledger)
    (recent,) = RecentRows(w.files, state, ()).of(["s"])
    assert recent is not None
    assert sorted(recent["b"].to_pylist()) == sorted(x for t in made for x in t["b"].to_pylist())
    direct.batch({"s": rows(rng, 5, "a", 40_000)})
    state.refresh(direct.context.ledger)
    (recent,) = RecentRows(w.files, state, ()).of(["s"])
    (same,) = RecentRows(w.files, state, ()).of(["s"])
    assert recent is not None
    assert len(recent) == ROWS
    assert recent.equals(same)
    assert RecentRows(w.files, state, ()).of(["nobody"]) == [None]
    for entry in list(w.files.list("rows")):
        w.files.delete(entry.path)
    assert RecentRows(w.files, state, ()).of(["s"]) == [None], "files that are gone are left out"
