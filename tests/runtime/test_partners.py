"""Tiers of partner rows: every kept row once, few tiers, expired ones dropped, damaged ones built again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import weir
from weir.api import Weir
from weir.runtime.row_segments import LOOSE_FILES_MAX
from weir.store.arrays import read_arrays
from weir.testing.direct import DirectWeir

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
SQL = "SELECT r.a, s.c FROM r JOIN s ON r.k = s.k WHERE r.a < :hi AND s.c > :lo BEGIN NOW - INTERVAL 60 SECONDS END NOW"


def rows_of(batch: int, count: int, value: str) -> pa.Table:
    """`count` rows in the ten seconds of a batch, keys 0..4."""
    rng = np.random.default_rng(batch)
    times = START_US + batch * 10 * SECOND_US + np.sort(rng.integers(0, 10 * SECOND_US, count))
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 5, count), pa.int64()),
            value: pa.array(rng.integers(0, 100, count), pa.int64()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture
def opened(tmp_path: Path) -> tuple[Weir, DirectWeir]:
    w = weir.open(tmp_path, settings={"loose_rows_max": 0})  # every tier is a file
    w.stream("r", "k bigint, a bigint, ts timestamp", time="ts", keep="1 minute")
    w.stream("s", "k bigint, c bigint, ts timestamp", time="ts", keep="1 minute")
    w.register(SQL, {"hi": 50, "lo": 50})
    return w, DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)


def test_tiers_hold_every_kept_row_once(opened: tuple[Weir, DirectWeir]) -> None:
    w, direct = opened
    folders: dict[str, list[str]] = {}
    for batch in range(30):
        direct.batch({"r": rows_of(batch, 40, "a"), "s": rows_of(batch, 25, "c")})
        # The tiers were made for this batch, of the rows before it.
        kept = {name: direct.context.state.row_files(name) for name in ("r", "s")}
        folders = {
            folder: [t.path for t in tiers] for folder, tiers in direct.partners._tiers.items()
        }  # white box: what a batch mapped
        for folder, paths in folders.items():
            ids = [read_arrays(w.files, path)[0]["row_ids"] for path in paths]
            found = np.concatenate([np.empty(0, np.int64), *ids])
            assert len(np.unique(found)) == len(found), f"batch {batch}: a row is in two tiers"
            live = kept["r" if folder.endswith("/0") else "s"]
            before = live.batch <= batch - 1
            for first, count in zip(live.first_row[before], live.count[before], strict=True):
                assert np.isin(np.arange(first, first + count), found).all(), f"batch {batch}: kept rows are missing"
            assert len(paths) <= 9, f"batch {batch}: {len(paths)} tiers"
    assert len(folders) == 2
    on_disk = {e.path for e in w.files.list("cache/partners")}
    assert on_disk == {p for paths in folders.values() for p in paths}, "nothing else is left behind"
    oldest = min(int(p.rsplit("/", 1)[1].split("-")[0]) for paths in folders.values() for p in paths)
    assert oldest > 0, "the first tiers have expired"


def test_a_deleted_or_cut_tier_is_built_again(opened: tuple[Weir, DirectWeir]) -> None:
    w, direct = opened
    query = w.query(0)
    for batch in range(6):
        direct.batch({"r": rows_of(batch, 20, "a"), "s": rows_of(batch, 20, "c")})
        if batch == 3:
            for path in (Path(w.files.location) / "cache").rglob("*.rows"):
                path.unlink()
        if batch == 4:
            for path in (Path(w.files.location) / "cache").rglob("*.rows"):
                data = path.read_bytes()
                path.unlink()
                path.write_bytes(data[: len(data) // 2])
        expected = _brute_force(batch)
        assert sorted(zip(*query.fetch().to_pydict().values(), strict=True)) == expected, f"batch {batch}"


def _brute_force(last: int) -> list[tuple[int, int]]:
    """The join of all rows so far, in plain Python; all of them are within the window."""
    r = pa.concat_tables([rows_of(b, 20, "a") for b in range(last + 1)]).to_pylist()
    s = pa.concat_tables([rows_of(b, 20, "c") for b in range(last + 1)]).to_pylist()
    now = max(x["ts"] for x in r + s)
    seen = [[x for x in rows if (now - x["ts"]).total_seconds() < 60] for rows in (r, s)]
    return sorted((x["a"], y["c"]) for x in seen[0] for y in seen[1] if x["k"] == y["k"] and x["a"] < 50 < y["c"])


def test_only_families_with_new_rows_are_prepared(opened: tuple[Weir, DirectWeir]) -> None:
    w, direct = opened
    w.stream("other", "k bigint, ts timestamp", time="ts", keep="1 minute")
    direct.batch({"other": rows_of(0, 5, "x").drop_columns(["x"])})
    assert not list(w.files.list("cache/partners"))
    direct.batch({"r": rows_of(1, 5, "a")})
    direct.batch({"r": rows_of(2, 5, "a")})
    assert not any(e.path.endswith(".rows") for e in w.files.list("cache/partners")), "side 1 has no rows yet"


def tiers_on_disk(w: Weir) -> set[str]:
    return {e.path for e in w.files.list("cache/partners")}


def test_tiers_are_built_again_only_when_queries_ask_for_more(opened: tuple[Weir, DirectWeir]) -> None:
    w, direct = opened
    for batch in range(3):
        direct.batch({"r": rows_of(batch, 40, "a"), "s": rows_of(batch, 5, "c")})
    direct.batch({"s": rows_of(3, 5, "c")})  # r has no new rows from here on: its tiers stay as they are
    direct.batch({"s": rows_of(4, 5, "c")})
    first = {path for path in tiers_on_disk(w) if "/0/" in path}
    more = w.register("SELECT r.a FROM r JOIN s ON r.k = s.k WHERE r.a % 7 > 3 AND s.c > 7")
    direct.batch({"s": rows_of(5, 5, "c")})
    second = {path for path in tiers_on_disk(w) if "/0/" in path}
    assert len(second) == len(first)
    assert second.isdisjoint(first)
    more.drop()
    direct.batch({"s": rows_of(6, 5, "c")})
    assert {path for path in tiers_on_disk(w) if "/0/" in path} == second
    assert len(w.query(0).fetch()) > 0


def test_nothing_is_left_of_families_without_queries(opened: tuple[Weir, DirectWeir]) -> None:
    w, direct = opened
    other = w.register("SELECT r.a FROM r JOIN s ON r.k + 1 = s.k")
    for batch in range(2):
        direct.batch({"r": rows_of(batch, 20, "a"), "s": rows_of(batch, 20, "c")})
    assert len({path.split("/")[3] for path in tiers_on_disk(w)}) == 2
    other.drop()
    direct.batch({"r": rows_of(2, 20, "a"), "s": rows_of(2, 20, "c")})
    (left,) = {path.split("/")[3] for path in tiers_on_disk(w)}
    # An earlier process left a family behind that no query is of now.
    stray = Path(w.files.location) / "cache/partners/gone/0/000000000000-000000000001-0.rows"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"x")
    again = DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
    again.batch({"r": rows_of(3, 20, "a"), "s": rows_of(3, 20, "c")})
    assert {path.split("/")[3] for path in tiers_on_disk(w)} == {left}


def test_few_rows_are_no_file(tmp_path: Path) -> None:
    w = weir.open(tmp_path, settings={"loose_rows_max": 30})
    w.stream("r", "k bigint, a bigint, ts timestamp", time="ts", keep="1 minute")
    w.stream("s", "k bigint, c bigint, ts timestamp", time="ts", keep="1 minute")
    query, direct = w.register(SQL, {"hi": 50, "lo": 50}), DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
    for batch in range(6):
        direct.batch({"r": rows_of(batch, 20, "a"), "s": rows_of(batch, 20, "c")})
        sides = {path.split("/")[4] for path in tiers_on_disk(w)}
        assert sides == (set() if batch < 2 else {"0", "1"}), "40 rows of a side are a tier from batch 2 on"
        assert sorted(zip(*query.fetch().to_pydict().values(), strict=True)) == _brute_force(batch)


def test_many_small_row_files_become_a_tier(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream("r", "k bigint, a bigint, ts timestamp", time="ts", keep="1 hour")
    w.stream("s", "k bigint, c bigint, ts timestamp", time="ts", keep="1 hour")
    query, direct = w.register(SQL.replace("60 SECONDS", "1 HOUR"), {"hi": 50, "lo": 50}), DirectWeir(w)
    direct.wall_us = START_US + 3600 * SECOND_US
    batches = 3 * LOOSE_FILES_MAX
    for batch in range(batches):
        direct.batch({"r": rows_of(batch, 1, "a"), "s": rows_of(batch, 1, "c")})
    assert tiers_on_disk(w), "a task would have to open too many files"
    r, s = (pa.concat_tables([rows_of(b, 1, name) for b in range(batches)]) for name in "ac")
    both = [(x["a"], y["c"]) for x in r.to_pylist() for y in s.to_pylist() if x["k"] == y["k"]]
    assert sorted(zip(*query.fetch().to_pydict().values(), strict=True)) == sorted(
        (a, c) for a, c in both if a < 50 < c
    )


def test_another_weir_at_the_same_place_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    """Processes keep what they opened; files of the new weir may have the names of old ones."""
    for life in range(2):
        w = weir.open(tmp_path / "weir", settings={"loose_rows_max": 0})
        w.stream("r", "k bigint, a bigint, ts timestamp", time="ts", keep="1 minute")
        w.stream("s", "k bigint, c bigint, ts timestamp", time="ts", keep="1 minute")
        query, direct = w.register(SQL, {"hi": 50, "lo": 50}), DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)
        for batch in range(3):
            rows = {"r": rows_of(batch, 20, "a"), "s": rows_of(batch, 20, "c")}
            if life == 0:
                rows = {name: table.slice(0, 7) for name, table in rows.items()}
            direct.batch(rows)
        if life == 1:
            assert sorted(zip(*query.fetch().to_pydict().values(), strict=True)) == _brute_force(2)
        shutil.rmtree(tmp_path / "weir")
