"""Answers of everything in one weir equal the oracle's at every batch boundary.

Selections, joins of two streams (equalities, bands, distances in time, conditions of pairs) and joins of three to six
sources stand side by side, single and as templates, and come and go between batches. Tasks run in this process,
everything else is real. Metamorphic relations beside it: every strategy, any number of slices, caches deleted or
damaged, any batch split, any order of arrival, a weir that is opened anew before every batch, compiled or not.
"""

from __future__ import annotations

import os
import random
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
SEEDS = range(4000, 4280)[int(SOAK.split("/")[0]) :: int(SOAK.split("/")[1])] if SOAK else range(4002, 4004)
COMPARISONS_MIN = 100_000 // int(SOAK.split("/")[1]) if SOAK else 700
WALL_US = START_US + SPAN_US
CHOICES = ("auto", *STRATEGIES)
SELECTIONS = ("grid", "predicate", "scan")
ROWS, QUERIES = 70, 110
compared: dict[int, Played] = {}


def run(
    folder: Path, scenario: Scenario, *, slices: int = 2, strategy: str = "auto", caches: bool = False, **said: bool
) -> Played:
    settings = {
        "join_strategy": strategy,
        "strategy": SELECTIONS[slices % 3],
        "tail_queries_max": 5,
        "partner_rows_max": 60,
    } | some_loose(scenario.seed + slices)
    w = weir.open(folder, clock=scenario.clock, settings=settings)
    direct = DirectWeir(w, slices=slices, wall_us=WALL_US)
    restart = said.pop("restart", False)

    def batch(rows: dict[str, pa.Table]) -> None:
        nonlocal direct
        if restart:  # another process takes over: it has nothing but what is on disk
            again = weir.open(folder, settings=settings)
            direct = DirectWeir(again, slices=slices, wall_us=direct.wall_us)
        direct.batch(rows)
        direct.wall_us += 1_000_000

    return play(scenario, w, batch, delete_caches=caches, **said)


def test_a_few_queries_equal_the_oracle(tmp_path: Path) -> None:
    """Small enough to be run without compiled kernels."""
    played = run(tmp_path, Scenario(4500, batches=3, rows=40, queries=24, mixed=True), caches=True)
    assert played.filled[2] + played.filled[3] + played.filled[4] > 0


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=0))
def test_mixed_queries_equal_the_oracle(tmp_path: Path, seed: int) -> None:
    scenario = Scenario(seed, rows=ROWS, queries=QUERIES, mixed=True, clock="arrival" if seed % 9 == 8 else "event")
    strategy = CHOICES[seed % len(CHOICES)]
    played = run(tmp_path, scenario, slices=1 + seed % 4, strategy=strategy, caches=seed % 2 == 1)
    compared[seed] = played
    tally("selections and joins mixed, DuckDB", played.comparisons)
    assert played.rows > 0, "a run of empty answers proves nothing"
    assert played.refused <= played.comparisons / 10


def test_enough_was_compared() -> None:
    if len(compared) < len(SEEDS):
        pytest.skip("only a part of the seeds was run")
    total = sum(played.comparisons for played in compared.values())
    sources = {n: sum(played.by_sources[n] for played in compared.values()) for n in range(1, 7)}
    filled = {n: sum(played.filled[n] for played in compared.values()) for n in range(1, 7)}
    print(f"{total:,} (query, batch) comparisons with the oracle; of n sources {sources}, not empty {filled}")
    assert total >= COMPARISONS_MIN
    assert all(sources.values()), sources
    assert sum(sources[n] for n in range(3, 7)) > total / 4
    assert all(filled[n] > sources[n] / 5 for n in range(1, 5)), filled
    assert filled[5] + filled[6] > 0


def same_answers(found: list[list[pa.Table]]) -> None:
    for number, other in enumerate(found[1:], start=1):
        for k, (one, two) in enumerate(zip(found[0], other, strict=True)):
            difference = differ(one, two)
            assert difference is None, f"run {number}, answer {k}: {difference}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4600])
def test_strategies_slices_caches_and_restarts_change_nothing(tmp_path: Path, seed: int) -> None:
    found = [
        run(
            tmp_path / str(k),
            Scenario(seed, rows=ROWS, queries=20, batches=3, mixed=True),
            slices=1 + k,
            strategy=strategy,
            caches=k % 2 == 1,
            keep_answers=True,
            asks_oracle=k == 0,
            restart=k % 3 == 2,
        ).answers
        for k, strategy in enumerate(CHOICES)
    ]
    same_answers(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4700])
def test_every_batch_split_gives_the_same_answers(tmp_path: Path, seed: int) -> None:
    """Disorder stays within keep, so the last answers do not depend on where batches end."""
    last = []
    for k, batches in enumerate((1, 2, 5)):
        scenario = whole(seed)
        rows = scenario.arrivals[0]
        step = {name: -(-t.num_rows // batches) for name, t in rows.items()}
        scenario.arrivals = [
            {name: t.slice(b * step[name], step[name]) for name, t in rows.items()} for b in range(batches)
        ]
        played = run(tmp_path / str(k), scenario, keep_answers=True, asks_oracle=k == 0)
        last.append(played.answers[-played.standing :])
    same_answers(last)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4702])
def test_every_order_of_arrival_gives_the_same_answers(tmp_path: Path, seed: int) -> None:
    """Within keep; the last rows of equal times are by arrival, so each row gets a time of its own."""
    last = []
    for k in range(3):
        scenario = whole(seed)
        rng = random.Random(f"order {seed} {k}")
        arrivals: list[dict[str, pa.Table]] = [{}, {}, {}]
        for name, table in scenario.arrivals[0].items():
            moved = apart(table, scenario.catalog.streams[name.lower()].time)
            if k:
                moved = moved.take(rng.sample(range(moved.num_rows), moved.num_rows))
            cuts = [0, *sorted(rng.randint(0, moved.num_rows) for _ in range(2)), moved.num_rows]
            for b, rows in enumerate(arrivals):
                rows[name] = moved.slice(cuts[b], cuts[b + 1] - cuts[b])
        scenario.arrivals = arrivals
        played = run(tmp_path / str(k), scenario, keep_answers=True, asks_oracle=k == 0)
        last.append(played.answers[-played.standing :])
    same_answers(last)


def whole(seed: int) -> Scenario:
    """All rows in one batch, all queries before it."""
    return Scenario(seed, batches=1, rows=ROWS, queries=40, late=False, keeps_all=True, wishes_once=True, mixed=True)


def apart(table: pa.Table, time: str) -> pa.Table:
    """The rows, each a microsecond after another than it would be."""
    at = table.column_names.index(time)
    times = table.column(time).cast(pa.int64()).to_numpy() // 1000 * 1000 + range(table.num_rows)
    return table.set_column(at, time, pa.array(times).cast(pa.timestamp("us", "UTC")))


@pytest.mark.slow
def test_without_compiled_kernels(tmp_path: Path) -> None:
    """The same with NUMBA_DISABLE_JIT=1, held against the oracle by the same test in a process of its own."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "WEIR_SOAK": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'jit'}"]
    done = subprocess.run(
        [*command, "-k", "a_few_queries", __file__],
        env=environment,
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "1 passed" in done.stdout
