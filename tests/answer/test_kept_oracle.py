"""Kept answers equal DuckDB's at every batch boundary, and what came less what went is the answer.

The lives are those of the other oracles: queries with every kind of finish, selections and joins of all forms, tables
of both kinds. They come and go, over old rows and new ones; here all of them are kept that can be. Histories
(`tests/runtime/test_kept_histories.py`) and lives by the clock alone (`test_advance_oracle.py`) compare as many again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.finish_scenario import FinishScenario, play_finishes
from tests.generators import SPAN_US, START_US
from tests.keeping import Keeping
from tests.loose import some_loose
from tests.marks import few_are_quick
from tests.scenario import Scenario, play
from tests.table_scenario import TableScenario
from tests.tally import tally
from weir.testing.direct import DirectWeir

SOAK = os.environ.get("WEIR_SOAK", "")  # "k/n": the k-th of n parts of the long run


def _part(seeds: range) -> range:
    return seeds[int(SOAK.split("/")[0]) :: int(SOAK.split("/")[1])] if SOAK else seeds


FINISHES = _part(range(8000, 8400)) if SOAK else range(8000, 8003)
MIXED = _part(range(8500, 8700)) if SOAK else range(8500, 8501)
TABLES = _part(range(8700, 9100)) if SOAK else range(8700, 8702)
COMPARISONS_MIN = 100_000 // int(SOAK.split("/")[1]) if SOAK else 700
compared: dict[str, int] = {}


@pytest.mark.parametrize("seed", few_are_quick(FINISHES, quick=0 if SOAK else 1))
def test_finishes_are_kept(tmp_path: Path, seed: int) -> None:
    scenario = FinishScenario(seed)
    w = weir.open(tmp_path, settings={"tail_queries_max": 5, "partner_rows_max": 60} | some_loose(seed))
    keeping, direct = Keeping(w), DirectWeir(w, slices=1 + seed % 3, wall_us=START_US + SPAN_US)

    def batch(rows: Mapping[str, pa.Table]) -> None:
        keeping.after(direct.batch(rows))
        direct.wall_us += 1_000_000

    played = play_finishes(scenario, w, batch)
    compared[f"finishes {seed}"] = keeping.read
    tally("kept answers, DuckDB", keeping.read)
    assert keeping.read > 0.5 * played.comparisons, keeping.refused
    assert keeping.changes > 0


@pytest.mark.parametrize("seed", few_are_quick(MIXED, quick=0))
def test_all_forms_are_kept(tmp_path: Path, seed: int) -> None:
    clock = "arrival" if seed % 3 == 2 else "event"
    scenario = Scenario(seed, rows=70, queries=60, mixed=True, clock=clock)
    w = weir.open(tmp_path, clock=clock, settings={"tail_queries_max": 5, "partner_rows_max": 60} | some_loose(seed))
    keeping, direct = Keeping(w), DirectWeir(w, slices=1 + seed % 3, wall_us=START_US + SPAN_US)

    def batch(rows: Mapping[str, pa.Table]) -> None:
        keeping.after(direct.batch(rows))
        direct.wall_us += 1_000_000

    play(scenario, w, batch)
    compared[f"mixed {seed}"] = keeping.read
    tally("kept answers, DuckDB", keeping.read)
    assert keeping.changes > 0


@pytest.mark.parametrize("seed", few_are_quick(TABLES, quick=0))
def test_queries_over_tables_are_kept(tmp_path: Path, seed: int) -> None:
    played = TableScenario(tmp_path, seed, slices=1 + seed % 3)
    keeping = Keeping(played.weir)
    asked = []
    for _ in range(7):
        asked += [played.ask() for _ in range(4)]
        for _ in range(played.dice.randint(0, 4)):
            played.change()
        played.arrive()
        keeping.after(played.batch())
        for one in asked:
            played.compare(one)
        played.compare_together(asked)
    compared[f"tables {seed}"] = keeping.read
    tally("kept answers, DuckDB", keeping.read)


def test_enough_was_compared() -> None:
    if len(compared) < len(FINISHES) + len(MIXED) + len(TABLES):
        pytest.skip("only a part of the seeds was run")
    print(f"{sum(compared.values()):,} kept answers compared with DuckDB")
    assert sum(compared.values()) >= COMPARISONS_MIN
