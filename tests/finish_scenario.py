"""One random life of a weir whose queries have finishes, with the oracles at every batch boundary.

As in `tests.scenario`, rows and queries come from a seed and whoever runs the batches is given to `play_finishes`.
After each batch every standing query is fetched and compared with DuckDB's answer, a share of them with Spark's, and
what `changes` says since the boundary before is held against both answers: old + came = new + went, as bags. A query
that the weir refuses is counted by its constructs and by the refusal's words, so that this can run while constructs are
added.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.fetched_together import hold_together
from tests.generators import (
    SPAN_US,
    Batch,
    FinishQuery,
    accept,
    random_catalog,
    random_finish,
    random_rows,
    rows_until,
    split_batches,
)
from tests.generators.finishes import BLOCKS
from tests.scenario import define
from tests.spark_facts import fails_by_itself, may_differ
from weir.algebra.schema import Catalog
from weir.api import Weir
from weir.errors import RegisterError
from weir.handles import Query
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.testing import answer, differ, spark_oracle
from weir.testing.spark_bags import differ_from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunBatch = Callable[[Mapping[str, pa.Table]], None]
KEEPS_US = (None, 2 * SPAN_US, SPAN_US // 2)
ROOM = 1e-9  # how far apart two sums of doubles may be, beside a relative 1e-9


@dataclass
class FinishWish:
    """A query, as long as it stands what it last answered, and the token of that answer."""

    made: FinishQuery
    query: Query | None = None
    last: pa.Table | None = None
    token: str | None = None

    @cached_property
    def parsed(self) -> Parsed:
        return parse(self.made.text, Settings())

    @property
    def room(self) -> dict[int, float]:
        return dict.fromkeys(self.made.approximate, ROOM)


@dataclass
class FinishScenario:
    """Everything that happens, made from the seed alone."""

    seed: int
    batches: int = 4
    rows: int = 60
    queries: int = 40
    depth: int = 2
    blocks: tuple[str, ...] = BLOCKS
    looks_back: float = 0.2  # the share of answers that are compared at an earlier moment, too
    catalog: Catalog = field(init=False)
    arrivals: list[dict[str, pa.Table]] = field(init=False)

    def __post_init__(self) -> None:
        rng = random.Random(f"finish scenario {self.seed}")
        self.catalog = random_catalog(self.seed, tables=0, keep_us=KEEPS_US, variants=False)
        order = rng.choice(("ordered", "shuffled", "clustered"))
        parts = {}
        for k, stream in enumerate(self.catalog.streams.values()):
            # Extreme doubles drown in sums, and what overflows is NULL here and wraps around in Spark.
            table = random_rows(stream, self.rows, self.seed * 7 + k, order=order, extremes=0.0, skew=0.1)
            parts[stream.name] = split_batches(table, self.seed * 11 + k, batches=self.batches)
        self.arrivals = [{name: tables[n] for name, tables in parts.items()} for n in range(self.batches)]

    def wishes(self, count: int, salt: int) -> list[FinishWish]:
        seeds = (hash((self.seed, salt, k)) % 2**31 for k in range(count))
        return [FinishWish(random_finish(self.catalog, seed, self.blocks, depth=self.depth)) for seed in seeds]


@dataclass
class FinishPlayed:
    """What was compared, and what was refused."""

    comparisons: int = 0  # with DuckDB
    with_spark: int = 0
    undecided: int = 0  # comparisons with Spark that nothing follows from: it fails, or a number wraps around
    changes: int = 0
    filled: int = 0  # comparisons of answers that are not empty
    taken: Counter[str] = field(default_factory=Counter)  # registered queries by construct
    refused: Counter[str] = field(default_factory=Counter)  # refused ones by construct; one may have several
    reasons: Counter[str] = field(default_factory=Counter)  # refusals by their words


def register(weir: Weir, wish: FinishWish, played: FinishPlayed) -> None:
    try:
        wish.query = weir.register(wish.made.text, wish.made.params)
    except RegisterError as refused:
        played.refused.update(wish.made.uses)
        played.reasons[str(refused).partition(", line ")[0][:90]] += 1
    else:
        played.taken.update(wish.made.uses)


def play_finishes(
    scenario: FinishScenario,
    weir: Weir,
    run_batch: RunBatch,
    *,
    spark: SparkSession | None = None,
    spark_share: float = 0.1,
) -> FinishPlayed:
    """Run the scenario's batches and compare after each one; with a session, a share of the answers with Spark's."""
    rng = random.Random(f"play finishes {scenario.seed}")
    played = FinishPlayed()
    define(weir, scenario.catalog)
    standing = scenario.wishes(scenario.queries // 2, 0)
    for wish in standing:
        register(weir, wish, played)
    past: list[Batch] = []
    for number, rows in enumerate(scenario.arrivals):
        if number:  # some queries come later, some go
            later = scenario.wishes(scenario.queries // 2 // max(1, scenario.batches - 1), number)
            for wish in later:
                register(weir, wish, played)
            standing += later
            gone = rng.choice(standing)
            if gone.query is not None and rng.random() < 0.5:
                gone.query.drop()
                gone.query = None
        run_batch(rows)
        plan = weir.ledger.plan(weir.ledger.last_done())
        past.append(Batch(rows, 0 if plan is None else plan.wall_us))
        intakes = accept(scenario.catalog, past)
        seen = rows_until(scenario.catalog, intakes, number)
        weir.state.refresh(weir.ledger)
        assert weir.state.now_us == intakes[-1].now_us, f"seed {scenario.seed}, batch {number}: the clocks differ"
        boundary = _Boundary(scenario, number, seen, weir.state.now_us or 0, played, spark, spark_share)
        for wish in standing:
            if wish.query is not None:
                boundary.compare(wish)
        asked = [wish.query for wish in standing if wish.query is not None]
        hold_together(weir, asked, weir.state.now_us or 0, SPAN_US, random.Random(f"together {scenario.seed} {number}"))
    return played


class _Boundary:
    """The moment behind a batch, at which every standing query is compared."""

    def __init__(
        self,
        scenario: FinishScenario,
        number: int,
        rows: Mapping[str, pa.Table],
        tau_us: int,
        played: FinishPlayed,
        spark: SparkSession | None,
        spark_share: float,
    ) -> None:
        self.scenario = scenario
        self.number = number
        self.rows = rows
        self.tau_us = tau_us
        self.played = played
        self.spark = spark
        self.spark_share = spark_share
        self.rng = random.Random(f"finish moments {scenario.seed} {number}")

    def compare(self, wish: FinishWish) -> None:
        assert wish.query is not None
        token = wish.query.token()
        new = wish.query.fetch()
        self._with_oracles(wish, new, self.tau_us)
        if self.tau_us and self.rng.random() < self.scenario.looks_back:
            keeps = [s.keep_us for s in self.scenario.catalog.streams.values() if s.keep_us is not None]
            at_us = self.tau_us - self.rng.randrange(min([SPAN_US, *(keep_us // 4 for keep_us in keeps)]))
            self._with_oracles(wish, wish.query.fetch(at=at_us), at_us)
        found = wish.query.changes(after=wish.token)
        old = new.slice(0, 0) if wish.last is None else wish.last
        before, after = _put_together(old, found.came), _put_together(new, found.went)
        difference = differ(after, before, approximate=bool(wish.room), lists_are_bags=True, room=wish.room)
        self._check(wish, difference, "old + came is not new + went", self.tau_us)
        self.played.changes += 1
        wish.last, wish.token = new, token

    def _with_oracles(self, wish: FinishWish, got: pa.Table, tau_us: int) -> None:
        made, catalog = wish.made, self.scenario.catalog
        expected = answer(wish.parsed, made.params, catalog, self.rows, tau_us)
        said = {"ordered": made.ordered, "lists_are_bags": True}
        difference = differ(expected, got, approximate=bool(wish.room), room=wish.room, **said)
        self._check(wish, difference, "DuckDB", tau_us)
        self.played.comparisons += 1
        self.played.filled += got.num_rows > 0
        if self.spark is None or self.rng.random() >= self.spark_share:
            return
        self.played.with_spark += 1
        try:
            theirs = spark_oracle.answer(self.spark, wish.parsed, made.params, catalog, self.rows, tau_us)
        except spark_oracle.SparkRefusesError as refused:
            self._check(wish, None if fails_by_itself(refused) else str(refused), "Spark", tau_us)
            self.played.undecided += 1
            return
        difference = differ_from_spark(theirs, got, room=wish.room, **said)
        if difference is not None and may_differ(self.spark, made.text, made.params, catalog, self.rows, tau_us):
            self.played.undecided += 1
            return
        self._check(wish, difference, "Spark", tau_us)

    def _check(self, wish: FinishWish, difference: str | None, whose: str, tau_us: int) -> None:
        assert difference is None, (
            f"seed {self.scenario.seed}, batch {self.number}, at {tau_us}, {whose}: "
            f"{wish.made.text} {wish.made.params}\n{difference}"
        )


def _put_together(one: pa.Table, other: pa.Table) -> pa.Table:
    return pa.concat_tables([one, other.cast(one.schema)])
