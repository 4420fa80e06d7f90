"""What is opened once and kept for many batches stays small, whatever comes."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import weir
from weir.families.joins import partner_rows
from weir.families.joins.partner_rows import PartnerRows
from weir.families.many.many_form import ManyQueries
from weir.testing.direct import DirectWeir

START_US = 1_700_000_000_000_000


def rows_of(batch: int, count: int = 4) -> pa.Table:
    random = np.random.default_rng(batch)
    times = START_US + batch * 1_000_000 + np.arange(count)
    names = pa.array([f"name {n}" for n in random.integers(0, 9, count)])
    return pa.table(
        {"k": random.integers(0, 3, count), "name": names, "ts": pa.array(times, pa.timestamp("us", "UTC"))}
    )


def alive(kind: type, but: Sequence[Any] = ()) -> list[Any]:
    """All objects of a kind, but those that other tests have left."""
    gc.collect()
    others = {id(one) for one in but}
    return [one for one in gc.get_objects() if isinstance(one, kind) and id(one) not in others]


def test_a_segment_of_many_sides_forgets_rows_that_it_met(tmp_path: Path) -> None:
    before = alive(ManyQueries)
    w = weir.open(tmp_path)
    for name in "rst":
        w.stream(name, "k bigint, name string, ts timestamp", time="ts", keep="1 hour")
    w.register("SELECT r.k FROM r JOIN s ON r.k = s.k JOIN t ON s.k = t.k WHERE t.name > 'name 3'")
    direct = DirectWeir(w, wall_us=START_US + 10**10)
    for batch in range(12):
        direct.batch({name: rows_of(3 * batch + n) for n, name in enumerate("rst")})
    pools = [len(one._pools) for one in alive(ManyQueries, before)]
    assert 0 < max(pools) <= 6, pools


def test_partner_rows_forget_dictionaries_of_segments_that_are_gone(tmp_path: Path) -> None:
    before = alive(PartnerRows)
    w = weir.open(tmp_path, settings={"loose_rows_max": 0})
    for name in "rs":
        w.stream(name, "k bigint, name string, ts timestamp", time="ts", keep="1 hour")
    direct = DirectWeir(w, wall_us=START_US + 10**10)
    direct.batch({"s": rows_of(0, 400)})
    for batch in range(1, 12):  # each has another tail segment
        w.register(f"SELECT r.k FROM r JOIN s ON r.k = s.k WHERE s.name > 'name {batch % 9}' AND r.k < {batch}")
        direct.batch({"r": rows_of(batch)})
    kept = [len(one._translated) for one in alive(PartnerRows, before)]
    assert 1 < max(kept) <= partner_rows.DICTIONARIES_MAX, kept
