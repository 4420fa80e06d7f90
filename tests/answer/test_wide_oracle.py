"""Answers of queries over many attributes equal the oracle's, at every batch boundary and at moments before it.

Streams have 3 to 17 attributes, queries are over 1 to 6 of them and constrain most, few or none of their attributes
(`tests/generators/wide`). They come before and between batches, single and as templates, and some go. Tasks run in this
process, everything else is real. Whatever the strategy of selections or of joins, all answers and all results in match
files are the same; a new strategy is taken up by itself.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.generators import SPAN_US, START_US, WideWorld, split_batches, wide_catalog, wide_rows
from tests.generators.wide_streams import ATTRIBUTES_MAX, attributes_of
from tests.loose import some_loose
from tests.marks import few_are_quick
from tests.scenario import Played, Scenario, Wish, play
from tests.tally import tally
from weir.errors import OpenError
from weir.families import indexed_boxes
from weir.families.forms import with_known_strategies
from weir.index.joining import routing
from weir.index.strategies import STRATEGIES
from weir.index.trees import partial_index
from weir.settings import Settings
from weir.store.matches import read_matches
from weir.testing import differ
from weir.testing.direct import DirectWeir

SOAK = os.environ.get("WEIR_SOAK", "")  # "k/n": the k-th of n parts of the long run
SEEDS = range(5000, 5150)[int(SOAK.split("/")[0]) :: int(SOAK.split("/")[1])] if SOAK else range(5000, 5006)
COMPARISONS_MIN = 50_000 // int(SOAK.split("/")[1]) if SOAK else 2_000
WALL_US = START_US + SPAN_US
ROWS, QUERIES = 70, 70
Result = tuple[object, ...]  # batch, channel, side, core, row ids
compared: dict[int, Played] = {}


def names_of(setting: str) -> tuple[str, ...]:
    """All names that a setting takes, as the refusal of another says them."""
    with pytest.raises(OpenError) as refused:
        with_known_strategies(Settings(**{setting: "no strategy"}))  # type: ignore[arg-type]  # its name is a value
    return tuple(str(refused.value).partition(" is one of ")[2].partition(", got ")[0].split(", "))


SELECTIONS, JOINS = names_of("strategy"), names_of("join_strategy")


@dataclass
class WideScenario(Scenario):
    """Streams of many attributes, and queries about them."""

    rows: int = ROWS
    queries: int = QUERIES
    batches: int = 5
    looks_back: float = 0.5
    world: WideWorld = field(init=False)

    def __post_init__(self) -> None:
        rng = random.Random(f"wide scenario {self.seed}")
        self.catalog = wide_catalog(self.seed)
        order = rng.choice(("ordered", "ordered", "shuffled", "clustered"))
        tables = {s.name: wide_rows(s, self.rows, self.seed, order=order) for s in self.catalog.streams.values()}
        parts = {}
        for k, (name, table) in enumerate(tables.items()):
            first = table.num_rows * rng.randint(3, 7) // 10  # many at once: results of many sources take all of them
            rest = split_batches(table.slice(first), self.seed * 13 + k, batches=self.batches - 1)
            parts[name] = [table.slice(0, first), *rest]
        self.arrivals = [{name: tables[n] for name, tables in parts.items()} for n in range(self.batches)]
        self.world = WideWorld(self.catalog, tables, self.seed)

    def wishes(self, count: int, salt: int) -> list[Wish]:
        found: list[Wish] = []
        tries = 0
        while len(found) < count:
            tries += 1
            seed = hash((self.seed, salt, tries)) % 2**31
            if seed % 4:
                query = self.world.query(seed)
                found.append(Wish(query.text, query.params))
            else:
                template = self.world.template(seed, 8)
                found.extend(Wish(template.text, row, template=template.params) for row in template.params.to_pylist())
        return found[:count]


def run(
    folder: Path, scenario: WideScenario, *, strategy: str = "grid", join_strategy: str = "auto", **said: bool
) -> tuple[Played, list[Result]]:
    """What was compared, and all results of all match files."""
    settings = {"strategy": strategy, "join_strategy": join_strategy, "tail_queries_max": 15, "partner_rows_max": 60}
    settings |= some_loose(scenario.seed)
    w = weir.open(folder, settings=settings)
    direct = DirectWeir(w, slices=1 + scenario.seed % 3, wall_us=WALL_US)

    def batch(rows: dict[str, pa.Table]) -> None:
        direct.batch(rows)
        direct.wall_us += 1_000_000

    played = play(scenario, w, batch, **said)
    return played, results_of(w, scenario.batches)


def results_of(w: weir.Weir, batches: int) -> list[Result]:
    found: list[Result] = []
    for number in range(batches):
        done = w.ledger.done(number)
        assert done is not None
        assert not done.quarantined, f"batch {number}: answers would be recomputed: {done.quarantined[0].reason}"
        assert not done.demoted
        for file in done.matches:
            for piece in read_matches(w.files, file.path):
                columns = [piece.items.tolist(), *(rows.tolist() for rows in piece.rows())]
                found.extend((number, piece.channel, piece.side, *one) for one in zip(*columns, strict=True))
    return sorted(found, key=repr)


def prefer_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a strategy is chosen, trees are, though queries are too few for them to pay."""
    monkeypatch.setattr(indexed_boxes, "choose", lambda *_: "rtree")
    monkeypatch.setattr(partial_index, "BOXES_MIN", 0)
    monkeypatch.setattr(partial_index, "CLEARLY", 0.0)
    monkeypatch.setattr(routing, "CHECKED_NS", 1e9)


def test_a_few_queries_equal_the_oracle(tmp_path: Path) -> None:
    """Small enough to be run without compiled kernels."""
    played, results = run(tmp_path, WideScenario(5200, batches=3, rows=40, queries=30))
    assert played.comparisons > 50
    assert sum(played.filled.values()) > played.comparisons / 4
    assert results


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=0))
def test_wide_queries_equal_the_oracle(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        prefer_trees(monkeypatch)
    scenario = WideScenario(seed)
    strategy, join_strategy = SELECTIONS[seed % len(SELECTIONS)], JOINS[seed % len(JOINS)]
    played, results = run(
        tmp_path, scenario, strategy=strategy, join_strategy=join_strategy, delete_caches=seed % 4 == 3
    )
    compared[seed] = played
    tally("many attributes, DuckDB", played.comparisons)
    assert len(results) > 50, "a run without matches proves nothing of the index"
    assert played.refused <= played.comparisons / 50


def test_enough_was_compared() -> None:
    if len(compared) < len(SEEDS):
        pytest.skip("only a part of the seeds was run")
    total = sum(played.comparisons for played in compared.values())
    sources = sum((played.by_sources for played in compared.values()), Counter())
    filled = sum((played.filled for played in compared.values()), Counter())
    results = sum(played.rows for played in compared.values())
    print(
        f"{total:,} comparisons with the oracle, {filled.total():,} of answers that are not empty, of n sources "
        f"{dict(sorted(sources.items()))}, not empty {dict(sorted(filled.items()))}; "
        f"{results / filled.total():.1f} rows each"
    )
    assert total >= COMPARISONS_MIN
    assert all(sources[n] > total / 80 for n in range(1, 7)), sources
    assert all(filled[n] > sources[n] / 8 for n in range(1, 7)), filled
    assert filled.total() > total * 0.4
    assert results < filled.total() * 300, "conditions shall leave few results over"
    widths = {len(attributes_of(s)) for seed in SEEDS for s in wide_catalog(seed).streams.values()}
    assert min(widths) <= 5
    assert max(widths) == ATTRIBUTES_MAX


@pytest.mark.slow
def test_every_strategy_gives_the_same_answers_and_the_same_results(tmp_path: Path) -> None:
    """Each strategy of selections, which joins of many have too, and each of joins of two."""
    assert set(STRATEGIES) <= set(SELECTIONS)
    assert "auto" in JOINS
    choices = [(name, "auto") for name in SELECTIONS] + [(SELECTIONS[0], name) for name in JOINS if name != "auto"]
    first: tuple[Played, list[Result]] | None = None
    for k, (strategy, join_strategy) in enumerate(choices):
        scenario = WideScenario(5300, batches=2, rows=50, queries=30, looks_back=0.0)
        said = {"keep_answers": True, "asks_oracle": first is None}
        played, results = run(tmp_path / str(k), scenario, strategy=strategy, join_strategy=join_strategy, **said)
        if first is None:
            assert len({result[1] for result in results}) > 3, "of several families"
            first = played, results
            continue
        assert results == first[1], f"{strategy}, {join_strategy}: match files differ"
        assert len(played.answers) == len(first[0].answers)
        for number, (one, two) in enumerate(zip(first[0].answers, played.answers, strict=True)):
            assert differ(one, two) is None, f"{strategy}, {join_strategy}: answer {number}"


@pytest.mark.soak
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
