"""Answers equal the oracle's at every batch boundary: tasks run in this process, everything else is real.

Metamorphic relations hold beside it: any strategy, any number of slices, any batch split, caches deleted or damaged,
compiled or not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.generators import SPAN_US, START_US
from tests.marks import few_are_quick
from tests.scenario import Played, Scenario, play
from tests.tally import tally
from weir.index.strategies import STRATEGIES
from weir.testing import differ
from weir.testing.direct import DirectWeir

SOAK = os.environ.get("WEIR_SOAK", "")  # "k/n": the k-th of n parts of the long run
SEEDS = range(800)[int(SOAK.split("/")[0]) :: int(SOAK.split("/")[1])] if SOAK else range(8)
COMPARISONS_MIN = 100_000 // int(SOAK.split("/")[1]) if SOAK else 750
WALL_US = START_US + SPAN_US
compared: dict[int, int] = {}


def run(
    folder: Path, scenario: Scenario, *, slices: int, strategy: str, caches: bool, among: int | None = None
) -> Played:
    """`among`: its number among runs whose answers are compared, of which the first asks the oracle."""
    w = weir.open(folder, clock=scenario.clock, settings={"strategy": strategy, "tail_queries_max": 5})
    direct = DirectWeir(w, slices=slices, wall_us=WALL_US)

    def batch(rows: dict[str, pa.Table]) -> None:
        direct.batch(rows)
        direct.wall_us += 1_000_000

    return play(scenario, w, batch, delete_caches=caches, keep_answers=among is not None, asks_oracle=not among)


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=1))
def test_answers_equal_the_oracle(tmp_path: Path, seed: int) -> None:
    strategy = tuple(STRATEGIES)[seed % len(STRATEGIES)]
    scenario = Scenario(seed, clock="arrival" if seed % 7 == 6 else "event")
    played = run(tmp_path, scenario, slices=1 + seed % 4, strategy=strategy, caches=seed % 2 == 1)
    compared[seed] = played.comparisons
    tally("selections, DuckDB", played.comparisons)
    assert played.rows > 0, "a run of empty answers proves nothing"
    assert played.refused <= played.comparisons / 10


def test_enough_was_compared() -> None:
    if len(compared) < len(SEEDS):
        pytest.skip("only a part of the seeds was run")
    total = sum(compared.values())
    print(f"{total:,} (query, batch) comparisons with the oracle")
    assert total >= COMPARISONS_MIN


@pytest.mark.parametrize("seed", few_are_quick(range(100, 103), quick=0, tested=1))
def test_strategies_slices_and_caches_change_nothing(tmp_path: Path, seed: int) -> None:
    found = [
        run(tmp_path / str(k), Scenario(seed, queries=20), slices=slices, strategy=strategy, caches=caches, among=k)
        for k, (slices, strategy, caches) in enumerate(
            [(1, "grid", False), (3, "grid", True), (2, "predicate", True), (5, "scan", False)]
        )
    ]
    for other in found[1:]:
        for one, two in zip(found[0].answers, other.answers, strict=True):
            assert differ(one, two) is None


@pytest.mark.parametrize("seed", few_are_quick(range(200, 204), quick=0, tested=1))
def test_every_batch_split_gives_the_same_answers(tmp_path: Path, seed: int) -> None:
    """Disorder stays within keep, so the last answers do not depend on where batches end."""
    last = []
    for k, batches in enumerate((1, 3, 6)):
        scenario = Scenario(seed, batches=1, late=False, keeps_all=True)
        whole = scenario.arrivals[0]
        step = {name: -(-t.num_rows // batches) for name, t in whole.items()}
        scenario.arrivals = [
            {name: t.slice(b * step[name], step[name]) for name, t in whole.items()} for b in range(batches)
        ]
        scenario.wishes_once = True
        played = run(tmp_path / str(k), scenario, slices=2, strategy="grid", caches=False, among=k)
        last.append(played.answers[-played.standing :])
    for other in last[1:]:
        for one, two in zip(last[0], other, strict=True):
            assert differ(one, two) is None


@pytest.mark.soak  # the mixed oracle has the same in `make test`
def test_without_compiled_kernels(tmp_path: Path) -> None:
    """The same answers with NUMBA_DISABLE_JIT=1, held against the oracle by the same test in a process of its own."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "WEIR_SOAK": ""}
    seeds = " or ".join(f"equal_the_oracle[{k}]" for k in (0, 1))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path / 'jit'}",
            "-k",
            seeds,
            __file__,
        ],
        env=environment,
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 passed" in done.stdout
