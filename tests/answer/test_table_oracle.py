"""Queries that read tables, at every batch boundary and at moments before, against DuckDB."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.marks import few_are_quick
from tests.table_scenario import TableScenario
from tests.tally import tally

SOAK = os.environ.get("WEIR_SOAK", "")  # "k/n": the k-th of n parts of the long run
SEEDS = range(7000, 7500)[int(SOAK.split("/")[0]) :: int(SOAK.split("/")[1])] if SOAK else range(7000, 7006)
COMPARISONS_MIN = 50_000 // int(SOAK.split("/")[1]) if SOAK else 800
BATCHES = 7
compared: dict[int, tuple[int, int]] = {}


def test_a_few_answers_equal_the_oracle(tmp_path: Path) -> None:
    """What `make quick` looks at; `test_answers_over_tables_equal_the_oracle` does the same for longer."""
    played = play(tmp_path, 7002, batches=4)
    assert played.filled > 15


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=0))
def test_answers_over_tables_equal_the_oracle(tmp_path: Path, seed: int) -> None:
    played = play(tmp_path, seed, BATCHES)
    compared[seed] = played.compared, played.filled
    tally("tables, DuckDB", played.compared)


def play(folder: Path, seed: int, batches: int) -> TableScenario:
    played = TableScenario(folder, seed, slices=1 + seed % 3)
    asked = []
    for _ in range(batches):
        asked += [played.ask() for _ in range(4)]
        for _ in range(played.dice.randint(0, 4)):
            played.change()
        played.arrive()
        played.batch()
        for one in asked:
            played.compare(one)
        played.compare_together(asked)
    return played


def test_enough_was_compared() -> None:
    if len(compared) < len(SEEDS):
        pytest.skip("some seeds were not played")
    total, filled = (sum(column) for column in zip(*compared.values(), strict=True))
    print(f"{total:,} answers over tables compared with DuckDB, {filled:,} of them not empty")
    assert total >= COMPARISONS_MIN
    assert filled > total / 4
