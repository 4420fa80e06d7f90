"""What a join may cost: payloads are not copied, one row does not demote a family, dropped families build nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.api import Weir
from weir.index.joining import pairs
from weir.testing.direct import DirectWeir

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US


def opened(folder: Path, **settings: object) -> tuple[Weir, DirectWeir]:
    w = weir.open(folder, settings=settings)
    w.stream("r", "k bigint, a bigint, note string, ts timestamp", time="ts", keep="1 hour")
    w.stream("s", "k bigint, c bigint, note string, ts timestamp", time="ts", keep="1 hour")
    return w, DirectWeir(w, wall_us=START_US + 3600 * SECOND_US)


def rows_of(count: int, value: str, first: int = 0, note: str = "") -> pa.Table:
    return pa.table(
        {
            "k": pa.array([1] * count, pa.int64()),
            value: pa.array(range(first, first + count), pa.int64()),
            "note": pa.array([note] * count),
            "ts": pa.array([START_US + (first + i) * 1_000 for i in range(count)], pa.timestamp("us", "UTC")),
        }
    )


def test_a_payload_that_no_query_mentions_is_not_in_partner_files(tmp_path: Path) -> None:
    w, direct = opened(tmp_path, loose_rows_max=0)
    w.register("SELECT r.a FROM r JOIN s ON r.k = s.k WHERE s.c < 5")
    payload = "x" * 1_000
    direct.batch({"r": rows_of(50, "a", note=payload)})
    direct.batch({"s": rows_of(50, "c", note=payload)})
    sizes = [e.size for e in w.files.list("cache/partners")]
    assert sizes, "side 0 has a tier"
    assert sum(sizes) < 50 * 1_000


def test_one_row_with_many_partners_does_not_demote(tmp_path: Path) -> None:
    w, direct = opened(tmp_path, demote_pairs_min=100)
    query = w.register("SELECT r.a, s.c FROM r JOIN s ON r.k = s.k WHERE r.a >= 0")
    direct.batch({"r": rows_of(400, "a")})
    done = direct.batch({"s": rows_of(1, "c")})
    assert done.demoted == ()
    assert query.fetch().num_rows == 400
    done = direct.batch({"s": rows_of(5, "c", first=10)})  # 2,000 pairs, more than the 406 rows there are
    assert done.demoted == (query.id,)
    assert query.fetch().num_rows == 6 * 400


def test_a_family_without_standing_queries_builds_nothing(tmp_path: Path) -> None:
    w, direct = opened(tmp_path, loose_rows_max=0)
    query = w.register("SELECT r.a FROM r JOIN s ON r.k = s.k WHERE s.c < 5")
    direct.batch({"r": rows_of(5, "a"), "s": rows_of(5, "c")})
    before = {e.path for e in w.files.list("cache/partners")}
    query.drop()
    for k in range(3):
        direct.batch({"r": rows_of(5, "a", first=10 * k), "s": rows_of(5, "c", first=10 * k)})
    assert {e.path for e in w.files.list("cache/partners")} == before


def test_over_budget_counting_ends_and_the_batch_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows join with all: the heaviest queries go until the rest fits, found from the first events alone."""
    monkeypatch.setattr(pairs, "PAIRS", 2_000)
    monkeypatch.setattr(pairs, "EVENTS_FIRST", 8)
    w, direct = opened(tmp_path, pairs_per_batch_max=1_500)
    heavy = [w.register(f"SELECT r.a, s.c FROM r JOIN s ON r.k = s.k WHERE s.c >= {n} AND r.a >= 0") for n in range(4)]
    light = w.register("SELECT r.a, s.c FROM r JOIN s ON r.k = s.k WHERE s.c = 7 AND r.a < 3")
    direct.batch({"r": rows_of(100, "a")})
    done = direct.batch({"s": rows_of(100, "c")})
    assert set(done.demoted) == {q.id for q in heavy}
    assert light.fetch().num_rows == 3
    assert [q.fetch().num_rows for q in heavy] == [100 * (100 - n) for n in range(4)]
