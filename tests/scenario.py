"""One random life of a weir: streams, batches, queries that come and go, and the oracle at every batch boundary.

A scenario is data made from a seed; who runs its batches (tasks in this process, or Spark) is given to `play`. After
each batch every standing query is fetched and compared with DuckDB's answer over the rows that a plain model of
ingest accepted. A failure prints the seed, the batch, the query and the difference.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tests.fetched_together import hold_together
from tests.generators import (
    SPAN_US,
    Batch,
    accept,
    join_catalog,
    random_catalog,
    random_join_template,
    random_many_join,
    random_many_join_template,
    random_query,
    random_rows,
    random_select_join,
    random_template,
    rows_until,
    split_batches,
)
from weir.algebra.schema import Catalog
from weir.api import Weir
from weir.errors import RegisterError
from weir.handles import Query
from weir.settings import Settings
from weir.sql.parse import Parsed, parse
from weir.testing import answer, differ

KEEPS_US = (None, 86_400_000_000, 3_600_000_000, 600_000_000)
RunBatch = Callable[[Mapping[str, pa.Table]], None]
MINUTE_US = 60_000_000
FINISHED = ("distinct", "union", "except", "intersect", "aggregate")  # queries whose cores need a finish


@dataclass
class Wish:
    """A query as its user wrote it."""

    text: str
    params: Mapping[str, object]
    query: Query | None = None
    template: pa.Table | None = None  # all rows of parameters that were asked for with this one, at once
    approximate: bool = False  # a column is a sum of doubles, which depends on the order of rows

    @cached_property
    def parsed(self) -> Parsed:
        """For the oracle, which is asked after every batch."""
        return _parsed(self.text)

    @cached_property
    def sources(self) -> int:
        return sum(1 for _ in self.parsed.ast.find_all(exp.Table))


@lru_cache(maxsize=2_000)
def _parsed(text: str) -> Parsed:
    """All queries of a template have one."""
    return parse(text, Settings())


@dataclass
class Scenario:
    """Everything that happens, made from the seed alone."""

    seed: int
    batches: int = 5
    rows: int = 120
    queries: int = 40
    late: bool = True
    clock: str = "event"
    keeps_all: bool = False  # streams are kept long enough for every row to be taken in any order
    wishes_once: bool = False  # all queries before the first batch, none dropped
    joins: bool = False  # most queries are select joins of two streams
    mixed: bool = False  # selections, joins of two sources and of three to six, each also as templates
    loose: float = 0.2  # of the joins of many sources, the share in which no equality reaches one of them
    looks_back: float = 0.0  # the share of answers that are compared at an earlier moment, too
    catalog: Catalog = field(init=False)
    arrivals: list[dict[str, pa.Table]] = field(init=False)

    def __post_init__(self) -> None:
        rng = random.Random(f"scenario {self.seed}")
        keeps = (None, 2 * SPAN_US) if self.keeps_all else KEEPS_US
        if self.joins or self.mixed:
            self.catalog = join_catalog(self.seed, keep_us=keeps)
        else:
            self.catalog = random_catalog(self.seed, tables=0, keep_us=keeps, payloads=self.seed % 2 == 0)
        order = rng.choice(("ordered", "shuffled", "clustered"))
        share = 0.05 if self.late and rng.random() < 0.5 else 0.0
        # Rows of one frequent key meet in powers where many sources are joined.
        skew = rng.choice((0.0, 0.12) if self.mixed else (0.0, 0.3)) if self.joins or self.mixed else 0.0
        parts = {}
        for k, stream in enumerate(self.catalog.streams.values()):
            table = random_rows(
                stream, self.rows, self.seed * 7 + k, order=order, late=share, future=share, null_times=share, skew=skew
            )
            parts[stream.name] = split_batches(table, self.seed * 11 + k, batches=self.batches)
        self.arrivals = [{name: tables[n] for name, tables in parts.items()} for n in range(self.batches)]

    def wishes(self, count: int, salt: int) -> list[Wish]:
        """Single queries and templates with many rows of parameters."""
        found: list[Wish] = []
        tries = 0
        while len(found) < count:
            tries += 1
            seed = hash((self.seed, salt, tries)) % 2**31
            if self.mixed:
                found += self._mixed(seed)
            elif self.joins and seed % 7:
                if seed % 3:
                    join = random_select_join(self.catalog, seed)
                    found.append(Wish(join.text, join.params))
                else:
                    template = random_join_template(self.catalog, seed, 5)
                    found.extend(Wish(template.text, row) for row in template.params.to_pylist())
            elif seed % 3:
                made = random_query(self.catalog, seed, FINISHED if seed % 5 == 0 else ("selection",))
                found.append(Wish(made.text, made.params, approximate=made.approximate))
            else:
                template = random_template(self.catalog, seed, 5)
                found.extend(Wish(template.text, row) for row in template.params.to_pylist())
        return found[:count]

    def _mixed(self, seed: int) -> list[Wish]:
        """One query of any form, or a template of it."""
        draw = random.Random(f"mixed {seed}")
        form = draw.choices(("selection", "join", "many"), (3, 4, 5))[0]
        if draw.random() < 0.8:
            if form == "selection":
                query = random_query(self.catalog, seed, FINISHED if seed % 3 == 0 else ("selection",))
            elif form == "join":
                query = random_select_join(self.catalog, seed)
            else:
                query = random_many_join(self.catalog, seed, loose=self.loose)
            return [Wish(query.text, query.params, approximate=getattr(query, "approximate", False))]
        if form == "selection":
            template = random_template(self.catalog, seed, 5)
        elif form == "join":
            template = random_join_template(self.catalog, seed, 5)
        else:
            template = random_many_join_template(self.catalog, seed, 5, loose=self.loose)
        return [Wish(template.text, row, template=template.params) for row in template.params.to_pylist()]


@dataclass
class Played:
    """What was compared."""

    comparisons: int = 0
    refused: int = 0
    rows: int = 0  # in all answers together: a run of empty answers proves nothing
    standing: int = 0  # queries after the last batch
    by_sources: Counter[int] = field(default_factory=Counter)  # comparisons of queries over so many sources
    filled: Counter[int] = field(default_factory=Counter)  # those of them whose answers were not empty
    answers: list[pa.Table] = field(default_factory=list)


def define(weir: Weir, catalog: Catalog) -> None:
    for stream in catalog.streams.values():
        columns = ", ".join(f"{c.name} {c.type}" for c in stream.columns)
        keep = "forever" if stream.keep_us is None else f"{stream.keep_us} microseconds"
        weir.stream(stream.name, columns, time=stream.time, keep=keep, future=f"{stream.future_us} microseconds")


def register(weir: Weir, wish: Wish, played: Played) -> None:
    try:
        wish.query = weir.register(wish.text, wish.params)
    except RegisterError as refused:
        known = ("boxes", "residual", "contains a constant")
        assert any(reason in str(refused) for reason in known), f"{wish.text} {wish.params}: {refused}"
        played.refused += 1


def register_all(weir: Weir, wishes: list[Wish], played: Played) -> None:
    """Templates are registered at once, and row by row where one of their rows is refused."""
    for _, together in groupby(wishes, key=lambda wish: id(wish if wish.template is None else wish.template)):
        group = list(together)
        if group[0].template is None:
            register(weir, group[0], played)
            continue
        try:
            queries = weir.register_many(group[0].text, group[0].template.slice(0, len(group)))
        except RegisterError as refused:
            before = played.refused
            for wish in group:
                register(weir, wish, played)
            assert played.refused > before, f"{group[0].text}: refused at once, taken row by row: {refused}"
            continue
        for wish, query in zip(group, queries, strict=True):
            wish.query = query


def play(
    scenario: Scenario,
    weir: Weir,
    run_batch: RunBatch,
    *,
    delete_caches: bool = False,
    keep_answers: bool = False,
    asks_oracle: bool = True,
) -> Played:
    """Run the scenario's batches and compare after each one.

    Who compares the answers with those of a run that asked the oracle need not ask it again.
    """
    rng = random.Random(f"play {scenario.seed}")
    caches = random.Random(f"caches {scenario.seed}")  # its own: what is dropped must not depend on it
    played = Played()
    define(weir, scenario.catalog)
    standing = scenario.wishes(scenario.queries // 2, 0)
    register_all(weir, standing, played)
    past: list[Batch] = []
    for number, rows in enumerate(scenario.arrivals):
        if number and not scenario.wishes_once:  # some queries come later, some go
            later = scenario.wishes(scenario.queries // 2 // max(1, scenario.batches - 1), number)
            register_all(weir, later, played)
            standing += later
            gone = rng.choice(standing)
            if gone.query is not None and rng.random() < 0.5:
                gone.query.drop()
                gone.query = None
        if delete_caches and caches.random() < 0.7:
            delete_some_caches(weir, caches)
        run_batch(rows)
        plan = weir.ledger.plan(weir.ledger.last_done())
        past.append(Batch(rows, 0 if plan is None else plan.wall_us))
        compare(scenario, weir, standing, past, played, keep_answers, asks_oracle)
    played.standing = sum(wish.query is not None for wish in standing)
    return played


def compare(
    scenario: Scenario,
    weir: Weir,
    standing: list[Wish],
    past: list[Batch],
    played: Played,
    keep_answers: bool,
    asks_oracle: bool,
) -> None:
    intakes = accept(scenario.catalog, past, clock=scenario.clock)
    rows = rows_until(scenario.catalog, intakes, len(past) - 1)
    weir.state.refresh(weir.ledger)
    assert weir.state.now_us == intakes[-1].now_us, f"seed {scenario.seed}, batch {len(past) - 1}: the clocks differ"
    tau = weir.state.now_us or 0
    rng = random.Random(f"moments {scenario.seed} {len(past)}")
    # Rows are kept a quarter of keep longer than windows need them now.
    keeps = [s.keep_us for s in scenario.catalog.streams.values() if s.keep_us is not None]
    back_us = min([SPAN_US, *(keep_us // 4 for keep_us in keeps)])
    for wish in standing:
        if wish.query is None:
            continue
        moments: list[int | None] = [None]
        if tau and rng.random() < scenario.looks_back:
            moments.append(tau - rng.randrange(back_us))
        for at in moments:
            got = wish.query.fetch(at=at)
            if asks_oracle:
                expected = answer(wish.parsed, wish.params, scenario.catalog, rows, tau if at is None else at)
                difference = differ(expected, got, approximate=wish.approximate)
                assert difference is None, (
                    f"seed {scenario.seed}, batch {len(past) - 1}, at {at or tau}, query {wish.query.id}: "
                    f"{wish.text} {dict(wish.params)}\nas {wish.query.sql}\n{difference}"
                )
                played.comparisons += 1
            played.rows += got.num_rows
            played.by_sources[wish.sources] += 1
            played.filled[wish.sources] += got.num_rows > 0
            if keep_answers:
                played.answers.append(got)
    if asks_oracle:
        asked = [wish.query for wish in standing if wish.query is not None]
        hold_together(weir, asked, tau, 2 * back_us, random.Random(f"together {scenario.seed} {len(past)}"))


def delete_some_caches(weir: Weir, rng: random.Random) -> None:
    """Delete or damage files under cache/: nothing but time may change."""
    cache = Path(weir.files.location) / "cache"
    if rng.random() < 0.5:
        shutil.rmtree(cache, ignore_errors=True)
        return
    for path in sorted(p for p in cache.rglob("*") if p.is_file()):
        if rng.random() < 0.5:
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data[: int(len(data) * np.clip(rng.random(), 0.1, 0.9))])
