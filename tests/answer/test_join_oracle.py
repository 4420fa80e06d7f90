"""Answers of select joins equal the oracle's at every batch boundary, mixed with selections in one weir.

Tasks run in this process, everything else is real. Beside it: every strategy, any number of slices, any batch split,
caches deleted or damaged, main and tail segments, many tiers of partner rows: identical answers.
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
from tests.loose import some_loose
from tests.marks import few_are_quick
from tests.scenario import Played, Scenario, play
from tests.tally import tally
from weir.index.joining.kinds import SELECT_STRATEGIES as STRATEGIES
from weir.testing import differ
from weir.testing.direct import DirectWeir

SOAK = os.environ.get("WEIR_SOAK", "")  # "k/n": the k-th of n parts of the long run
SEEDS = range(1000, 1800)[int(SOAK.split("/")[0]) :: int(SOAK.split("/")[1])] if SOAK else range(1000, 1004)
# As many again are in `test_mixed_oracle.py`, beside joins of more sources.
COMPARISONS_MIN = 100_000 // int(SOAK.split("/")[1]) if SOAK else 450
WALL_US = START_US + SPAN_US
CHOICES = ("auto", *STRATEGIES)
compared: dict[int, int] = {}


def run(
    folder: Path, scenario: Scenario, *, slices: int, strategy: str, caches: bool, among: int | None = None
) -> Played:
    """`among`: its number among runs whose answers are compared, of which the first asks the oracle."""
    settings = {"join_strategy": strategy, "tail_queries_max": 5, "partner_rows_max": 60}
    settings |= some_loose(scenario.seed + slices)
    w = weir.open(folder, clock=scenario.clock, settings=settings)
    direct = DirectWeir(w, slices=slices, wall_us=WALL_US)

    def batch(rows: dict[str, pa.Table]) -> None:
        direct.batch(rows)
        direct.wall_us += 1_000_000

    return play(scenario, w, batch, delete_caches=caches, keep_answers=among is not None, asks_oracle=not among)


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=0))
def test_joins_equal_the_oracle(tmp_path: Path, seed: int) -> None:
    scenario = Scenario(seed, rows=120, joins=True, clock="arrival" if seed % 9 == 8 else "event")
    played = run(tmp_path, scenario, slices=1 + seed % 4, strategy=CHOICES[seed % len(CHOICES)], caches=seed % 2 == 1)
    compared[seed] = played.comparisons
    tally("joins of two, DuckDB", played.comparisons)
    assert played.rows > 0, "a run of empty answers proves nothing"
    assert played.refused <= played.comparisons / 10


def test_a_few_joins_equal_the_oracle(tmp_path: Path) -> None:
    """What `make quick` looks at; `test_joins_equal_the_oracle` does the same for more queries."""
    played = run(tmp_path, Scenario(999, rows=80, queries=12, joins=True), slices=2, strategy="auto", caches=True)
    assert played.comparisons > 20
    assert played.rows > 0


def test_enough_was_compared() -> None:
    if len(compared) < len(SEEDS):
        pytest.skip("only a part of the seeds was run")
    total = sum(compared.values())
    print(f"{total:,} (query, batch) comparisons with the oracle")
    assert total >= COMPARISONS_MIN


@pytest.mark.soak  # the mixed oracle has the same for all forms in `make test`
@pytest.mark.parametrize("seed", range(2100, 2101))
def test_strategies_slices_and_caches_change_nothing(tmp_path: Path, seed: int) -> None:
    found = [
        run(
            tmp_path / str(k),
            Scenario(seed, rows=120, queries=20, batches=4, joins=True),
            slices=1 + k,
            strategy=strategy,
            caches=k % 2 == 1,
            among=k,
        )
        for k, strategy in enumerate(CHOICES)
    ]
    for other in found[1:]:
        for one, two in zip(found[0].answers, other.answers, strict=True):
            assert differ(one, two) is None


@pytest.mark.parametrize("seed", few_are_quick(range(2200, 2202), quick=0, tested=1))
def test_every_batch_split_gives_the_same_answers(tmp_path: Path, seed: int) -> None:
    """Disorder stays within keep, so the last answers do not depend on where batches end."""
    last = []
    for k, batches in enumerate((1, 3, 6)):
        scenario = Scenario(seed, rows=120, batches=1, late=False, keeps_all=True, joins=True)
        whole = scenario.arrivals[0]
        step = {name: -(-t.num_rows // batches) for name, t in whole.items()}
        scenario.arrivals = [
            {name: t.slice(b * step[name], step[name]) for name, t in whole.items()} for b in range(batches)
        ]
        scenario.wishes_once = True
        played = run(tmp_path / str(k), scenario, slices=2, strategy="auto", caches=False, among=k)
        last.append(played.answers[-played.standing :])
    for other in last[1:]:
        for one, two in zip(last[0], other, strict=True):
            assert differ(one, two) is None


@pytest.mark.soak  # the mixed oracle has the same in `make test`
def test_without_compiled_kernels(tmp_path: Path) -> None:
    """The same with NUMBA_DISABLE_JIT=1, held against the oracle by the same test in a process of its own."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "WEIR_SOAK": ""}
    seeds = " or ".join(f"equal_the_oracle[{k}]" for k in (1000,))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'jit'}"]
    done = subprocess.run(
        [*command, "-k", seeds, __file__],
        env=environment,
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "1 passed" in done.stdout
