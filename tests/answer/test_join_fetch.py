"""Answers of joins against DuckDB, over batches that the tests write themselves.

Row files, match files and documents are made here, the pairs by brute force (`tests.oracle.naive_join_answers`), so
what is tested is everything after the match job: match files, runs, older pairs, recompute, windows, projection.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weir
from tests.marks import few_are_quick
from tests.oracle import naive_join_answers as naive
from tests.oracle.naive_join_answers import Condition, Found, Row, Seen, at_least, below, equal, found_in
from weir.algebra.nodes import Bound, ColumnRef, Comparison, Literal, Window
from weir.algebra.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from weir.answer import candidates
from weir.answer import fetch as fetching
from weir.answer import recompute as recomputing
from weir.answer.window import TimeDistance, apart, resolve
from weir.errors import FetchError
from weir.runtime.housekeeping import Housekeeping
from weir.settings import Settings
from weir.store.arrays import read_arrays
from weir.store.core_runs import compact, runs_of
from weir.store.ledger import Done, Ledger, MatchFile, Plan, RowFile
from weir.store.matches import Piece, write_matches
from weir.store.query_groups import NewQueries
from weir.store.row_files import arrow_schema, arrow_type, write_table
from weir.testing import answer, differ
from weir.values.evaluate import truth

SEEDS = range(int(os.environ.get("WEIR_JOIN_LIVES", "5")))  # more for a long run
SECOND = 1_000_000
KEEP_S = 120
TRADE = "id bigint, area string, price double, n int, m bigint, d date, ts timestamp"
WEATHER = "id bigint, area string, level bigint, cost decimal(10,2), at timestamp, price double, ts timestamp"


@dataclass(frozen=True)
class Case:
    """A query and the same condition in Python, over rows in the order of the query's sources."""

    sql: str
    streams: tuple[str, str]
    holds: Condition
    pairs: bool = True  # the answer's first two columns are the row ids


T, W = "Trade", "Weather"
CASES = {
    "straight": Case(
        "SELECT t.id, w.id AS o, t.price * 2 AS double_price, w.area FROM Trade t JOIN Weather w ON t.area = w.area "
        "WHERE t.price < 25 AND w.level > 1",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]) and below(t["price"], 25) and below(1, w["level"]),
    ),
    "swapped": Case(
        "SELECT w.id, t.id AS o, w.ts, t.ts AS traded FROM Weather w JOIN Trade t ON w.area = t.area "
        "WHERE t.n >= 2 AND w.level <= 3",
        (W, T),
        lambda w, t: equal(t["area"], w["area"]) and at_least(t["n"], 2) and at_least(3, w["level"]),
    ),
    "windows of their own": Case(
        "SELECT t.id, w.id AS o FROM Trade t [RANGE 60 SECONDS], Weather w [RANGE 15 SECONDS] WHERE t.area = w.area",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]),
    ),
    "windows of their own, swapped": Case(
        "SELECT w.id, t.id AS o FROM Weather w [RANGE 60 SECONDS], Trade t [RANGE 15 SECONDS] WHERE t.area = w.area",
        (W, T),
        lambda w, t: equal(t["area"], w["area"]),
    ),
    "row counts": Case(
        "SELECT t.id, w.id AS o FROM Trade t [ROWS 5] JOIN Weather w [ROWS 4] ON t.area = w.area WHERE w.level > 0",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]) and below(0, w["level"]),
    ),
    "a row count and a range": Case(
        "SELECT w.id, t.id AS o FROM Weather w [ROWS 6] JOIN Trade t [RANGE 40 SECONDS] ON t.area = w.area",
        (W, T),
        lambda w, t: equal(t["area"], w["area"]),
    ),
    "lagging": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.area = w.area "
        "BEGIN NOW - INTERVAL 60 SECONDS END NOW - INTERVAL 10 SECONDS",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]),
    ),
    "a lagging side": Case(
        "SELECT t.id, w.id AS o FROM Trade t [RANGE 20 SECONDS], "
        "Weather w [BEGIN NOW - INTERVAL 90 SECONDS END NOW - INTERVAL 50 SECONDS] WHERE t.area = w.area",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]),
    ),
    "with itself": Case(
        "SELECT a.id, b.id AS o, a.price - b.price AS spread FROM Trade a JOIN Trade b ON a.area = b.area "
        "WHERE a.price < 15 AND b.n > 1",
        (T, T),
        lambda a, b: equal(a["area"], b["area"]) and below(a["price"], 15) and below(1, b["n"]),
    ),
    "with itself, other keys": Case(
        "SELECT a.id, b.id AS o FROM Trade a [RANGE 30 SECONDS] JOIN Trade b [ROWS 9] ON a.n = b.m WHERE a.price > 3",
        (T, T),
        lambda a, b: equal(a["n"], b["m"]) and below(3, a["price"]),
    ),
    "with itself, other keys turned": Case(
        "SELECT a.id, b.id AS o FROM Trade a [RANGE 30 SECONDS] JOIN Trade b [ROWS 9] ON a.m = b.n WHERE a.price > 3",
        (T, T),
        lambda a, b: equal(a["m"], b["n"]) and below(3, a["price"]),
    ),
    "two keys": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.area = w.area AND t.n = w.level",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]) and equal(t["n"], w["level"]),
    ),
    "doubles and whole numbers": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.price = w.level",
        (T, W),
        lambda t, w: equal(t["price"], w["level"]),
    ),
    "doubles": Case(
        "SELECT w.id, t.id AS o FROM Weather w JOIN Trade t ON t.price = w.price",
        (W, T),
        lambda w, t: equal(t["price"], w["price"]),
    ),
    "decimals and whole numbers": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.n = w.cost",
        (T, W),
        lambda t, w: equal(t["n"], w["cost"]),
    ),
    "dates and times": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.d = w.at",
        (T, W),
        lambda t, w: equal(dt.datetime.combine(t["d"], dt.time(), dt.UTC), w["at"]),
    ),
    "expressions": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.n + t.m = w.level",
        (T, W),
        lambda t, w: t["n"] is not None and t["m"] is not None and equal(t["n"] + t["m"], w["level"]),
    ),
    "OR over both": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.area = w.area WHERE t.price < 5 OR w.level = 3",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]) and (below(t["price"], 5) or equal(w["level"], 3)),
    ),
    "NOT": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON NOT (t.area <> w.area OR t.price >= 25)",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]) and below(t["price"], 25),
    ),
    "never": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.area = w.area WHERE 1 > 2",
        (T, W),
        lambda t, w: False,
    ),
    "without its ids": Case(
        "SELECT t.area, w.level FROM Trade t JOIN Weather w ON t.area = w.area",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]),
        pairs=False,
    ),
    "a constant": Case(
        "SELECT 1 AS one FROM Trade t JOIN Weather w ON t.area = w.area WHERE t.price > 5",
        (T, W),
        lambda t, w: equal(t["area"], w["area"]) and below(5, t["price"]),
        pairs=False,
    ),
    "a constant in the key": Case(
        "SELECT t.id, w.id AS o FROM Trade t JOIN Weather w ON t.n + 1 = w.level",
        (T, W),
        lambda t, w: t["n"] is not None and equal(t["n"] + 1, w["level"]),
    ),
}


@dataclass
class World:
    """A weir whose batches are written by hand."""

    folder: Path
    rng: random.Random
    keep: str = f"{KEEP_S} seconds"
    number: int = -1
    now_s: int = 0
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {T: [], W: []})
    standing: dict[int, Case] = field(default_factory=dict)
    demoted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.weir = weir.open(self.folder)
        self.weir.stream(T, TRADE, time="ts", keep=self.keep)
        self.weir.stream(W, WEATHER, time="ts", keep=self.keep)
        self.files = self.weir.files
        self.ledger = Ledger(self.files)

    def register(self, case: Case, *, as_written: bool = False) -> weir.Query:
        """Register a query; `as_written` keeps its sources in its own order, which a canonical shape does not."""
        if as_written:
            channel = "~".join(sorted(case.streams))
            none = pa.table({"none": pa.nulls(1, pa.bool_())})
            group = self.weir.registry.register(
                NewQueries(case.sql, (), none, ["join"], [channel], self.weir.catalog_log.count())
            )
            query = self.weir.query(group.first_id)
        else:
            query = self.weir.register(case.sql)
        self.standing[query.id] = case
        return query

    # Rows.

    def random_rows(self, stream: str, count: int) -> list[dict[str, Any]]:
        return [self.row(stream, self.now_s - self.rng.choice((0, 0, 1, 5, 30))) for _ in range(count)]

    def row(self, stream: str, at_s: int, **given: Any) -> dict[str, Any]:
        """A random row; few values, so that many are equal, and among them the odd ones."""
        rng = self.rng
        made: dict[str, Any] = {"s": at_s, "ts": dt.datetime.fromtimestamp(at_s, dt.UTC)}
        made["area"] = rng.choice(("north", "south", "", None))
        made["price"] = rng.choice((0.0, -0.0, 1.0, 2.0, 7.5, 30.0, math.nan, None))
        if stream == T:
            made |= {"n": rng.choice((0, 1, 2, 3, None)), "m": rng.choice((0, 1, 2, 2**53 + 1))}
            made["d"] = dt.date(2026, 1, 1) + dt.timedelta(days=rng.randrange(3))
        else:
            made |= {"level": rng.choice((0, 1, 2, 3, 4, None)), "cost": rng.choice((Decimal("1.00"), Decimal("2.50")))}
            made["at"] = dt.datetime(2026, 1, 1 + rng.randrange(3), tzinfo=dt.UTC)
        return made | given

    # Batches.

    def batch(
        self,
        rows: Mapping[str, Sequence[dict[str, Any]]] | None = None,
        *,
        demoted: Sequence[int] = (),
        floor_s: int | None = None,
    ) -> Done:
        """Write the next batch with these rows, and the pairs that they make."""
        self.number += 1
        self.weir.registry.refresh()
        floors = {} if floor_s is None else {T: floor_s * SECOND, W: floor_s * SECOND}
        plan = Plan(
            self.number,
            self.weir.identity.engine,
            self.weir.registry.count,
            self.weir.catalog_log.count(),
            0,
            None,
            dict(floors),
            dict(floors),
            {},
            f"t{self.number}",
        )
        assert self.ledger.create_plan(plan)
        written = [file for stream, new in (rows or {}).items() for file in self.write_rows(stream, list(new))]
        matches = self.write_matches()
        self.demoted |= set(demoted)
        done = Done(
            batch=self.number,
            plan_token=plan.token,
            now_us=self.now_s * SECOND,
            rows=tuple(written),
            late=(),
            matches=tuple(matches),
            demoted=tuple(demoted),
            evictions=(),
            inbox_next=0,
            row_counts={name: len(known) for name, known in self.rows.items()},
            wall_us=0,
        )
        assert self.ledger.create_done(done)
        self.weir.state.refresh(self.weir.ledger)
        return done

    def write_rows(self, stream: str, new: list[dict[str, Any]]) -> list[RowFile]:
        """One or two files; a row's column `id` is its row id."""
        schema = arrow_schema(self.weir.catalog.streams[stream.lower()].columns)
        known = self.rows[stream]
        half = self.rng.randint(0, len(new))
        written = []
        for some in (new[:half], new[half:]):
            first = len(known)
            known.extend({**row, "id": first + k, "batch": self.number} for k, row in enumerate(some))
            if some:
                path = write_table(self.files, "rows", self.number, pa.Table.from_pylist(known[first:], schema=schema))
                times = [row["s"] * SECOND for row in some]
                written.append(RowFile(stream, path, first, len(some), min(times), max(times)))
        return written

    def write_matches(self) -> list[MatchFile]:
        """Two match files with the new pairs of every query that is not demoted, in a random order."""
        pieces: list[dict[tuple[str, int], list[tuple[int, int, int]]]] = [{}, {}]
        for id, case in self.standing.items():
            if id in self.demoted:
                continue
            channel, turned = self.side_of(id)
            for pair in self.new_pairs(case, turned):
                found = pieces[self.rng.randrange(2)].setdefault((channel, pair.side), [])
                found.append((pair.event, id, pair.partner))
        return [self.write_file(k, piece) for k, piece in enumerate(pieces)]

    def side_of(self, id: int) -> tuple[str, bool]:
        """The channel of a query, and whether the first source of its case is side 1."""
        (core,) = self.weir._library.standing(id).cores
        case, family = self.standing[id], core.seen.family
        assert self.weir.registry.group_of(id).channels == (family.channel,)
        if case.streams[0] != case.streams[1]:
            return family.channel, family.streams[0] != case.streams[0]
        value = core.columns[0][1]  # the id of the first source
        assert isinstance(value, ColumnRef)
        return family.channel, core.seen.sides[value.source] == 1

    def new_pairs(self, case: Case, turned: bool) -> list[Found]:
        def holds(a: Row, b: Row) -> bool:
            return case.holds(b, a) if turned else case.holds(a, b)

        first, second = case.streams[::-1] if turned else case.streams
        return found_in(self.number, self.rows[first], self.rows[second], holds)

    def write_file(self, number: int, piece: dict[tuple[str, int], list[tuple[int, int, int]]]) -> MatchFile:
        joins = []
        for (channel, side), found in piece.items():
            self.rng.shuffle(found)
            array = np.array(found, np.int64)
            joins.append(Piece(channel, side, array[:, 0], np.arange(len(found) + 1), array[:, 1], array[:, 2][None]))
        path = write_matches(self.files, self.number, joins)
        return MatchFile(path, number, sum(map(len, piece.values())), 0)

    # Comparing.

    def tables(self, upto: int | None = None) -> dict[str, pa.Table]:
        return {
            name.lower(): pa.Table.from_pylist(
                [row for row in known if upto is None or row["batch"] <= upto],
                schema=arrow_schema(self.weir.catalog.streams[name.lower()].columns),
            )
            for name, known in self.rows.items()
        }

    def oracle(self, id: int, at_s: int | None = None, upto: int | None = None) -> pa.Table:
        tau_us = (self.now_s if at_s is None else at_s) * SECOND
        return answer(self.standing[id].sql, None, self.weir.catalog, self.tables(upto), tau_us)

    def check(self, id: int, at_s: int | None = None) -> int:
        """The answer equals the oracle's; returns how many rows it has."""
        got = self.weir.query(id).fetch(None if at_s is None else at_s * SECOND)
        difference = differ(self.oracle(id, at_s), got)
        assert difference is None, f"batch {self.number}, at {at_s}: {self.standing[id].sql}\n{difference}"
        return int(got.num_rows)

    def check_all(self) -> int:
        return sum(self.check(id) for id in self.standing)

    def compact(self) -> None:
        for channel in {self.side_of(id)[0] for id in self.standing}:
            compact(self.files, self.weir.state, channel)

    def damage_caches(self) -> None:
        cache = self.folder / "cache"
        if self.rng.random() < 0.3:
            shutil.rmtree(cache, ignore_errors=True)
            return
        for path in sorted(p for p in cache.rglob("*") if p.is_file()):
            roll = self.rng.random()
            if roll < 0.4:
                data = bytearray(path.read_bytes())
                path.unlink()  # never changed in place: somebody may have it mapped
                if roll < 0.3:
                    data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
                    path.write_bytes(data if roll < 0.15 else data[: self.rng.randrange(len(data))])


def two_batches(world: World, count: int = 12) -> None:
    for now_s in (1000, 1020):
        world.now_s = now_s
        world.batch({T: world.random_rows(T, count), W: world.random_rows(W, count)})


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, random.Random("world"))


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=0))
def test_random_lives(tmp_path: Path, seed: int) -> None:
    """Queries come at any batch, some are demoted, runs are made and caches damaged; now and then, every answer."""
    print(f"seed {seed}")
    rng = random.Random(f"joins {seed}")
    world = World(tmp_path, rng)
    world.now_s = 10_000
    wishes = {name: rng.randrange(4) for name in CASES}
    tokens: dict[int, tuple[str, pa.Table]] = {}
    rows = 0
    for number in range(7):
        for name, first in wishes.items():
            if first == number:
                world.register(CASES[name], as_written=rng.random() < 0.5)
        world.now_s += rng.choice((0, 5, 20, 40))
        new = {s: world.random_rows(s, rng.randrange(9)) for s in (T, W) if rng.random() < 0.8}
        demoted = [id for id in world.standing if id not in world.demoted and rng.random() < 0.03]
        world.batch(new, demoted=demoted, floor_s=world.now_s - 2 * KEEP_S)
        if rng.random() < 0.5:
            world.compact()
        if rng.random() < 0.5:
            world.damage_caches()
        rows += world.check_all()
        for id in rng.sample(list(world.standing), len(world.standing) // 3):
            world.check(id, world.now_s - rng.randrange(KEEP_S))
            world.check(id, world.now_s + rng.randrange(KEEP_S))
            if world.standing[id].pairs:
                tokens[id] = check_changes(world, id, tokens.get(id))
    assert rows > 100, "a run of empty answers proves nothing"


def check_changes(world: World, id: int, before: tuple[str, pa.Table] | None) -> tuple[str, pa.Table]:
    """What came and went is the difference of two answers; sometimes the token is kept for later."""
    query = world.weir.query(id)
    now = world.oracle(id)
    changes = query.changes(None if before is None else before[0])
    old = now.slice(0, 0) if before is None else before[1]
    before_pairs, now_pairs, came, went = (set(pairs_in(t)) for t in (old, now, changes.came, changes.went))
    assert came == now_pairs - before_pairs, world.standing[id].sql
    assert went == before_pairs - now_pairs, world.standing[id].sql
    assert changes.came.num_rows == len(came)
    assert changes.went.num_rows == len(went)
    return before if before is not None and world.rng.random() < 0.5 else (changes.token, now)


def pairs_in(table: pa.Table) -> list[tuple[int, int]]:
    """Row ids, which the queries of these tests return first."""
    return list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True))


@pytest.mark.parametrize("as_written", [False, True])
@pytest.mark.parametrize("name", few_are_quick(list(CASES), quick=4))
def test_three_ways_to_the_same_answer(tmp_path: Path, name: str, as_written: bool) -> None:
    """Registered before the rows (matches), after them (older pairs, recompute), between them, and demoted."""
    world = World(tmp_path, random.Random(name))
    matched = world.register(CASES[name], as_written=as_written)
    world.now_s = 1000
    world.batch({T: world.random_rows(T, 15), W: world.random_rows(W, 15)})
    between = world.register(CASES[name])
    world.now_s = 1055
    world.batch({T: world.random_rows(T, 15), W: world.random_rows(W, 15)})
    late = world.register(CASES[name])
    sizes = {world.check(query.id) for query in (matched, between, late)}
    assert len(sizes) == 1
    world.now_s = 1060
    world.batch({W: world.random_rows(W, 9)}, demoted=[matched.id])
    for id in (matched.id, between.id, late.id):
        assert world.check(id) or name == "never"
        world.check(id, 1057)
    assert not list((tmp_path / "cache" / "older").glob(f"{matched.id}.*"))
    assert list((tmp_path / "cache" / "older").glob(f"{late.id}.*"))


def test_answers_are_in_the_order_of_the_first_source_then_the_second(world: World) -> None:
    ids = [world.register(CASES[name], as_written=True).id for name in ("swapped", "straight", "with itself")]
    two_batches(world)
    world.compact()
    for id in ids:
        found = pairs_in(world.weir.query(id).fetch())
        assert found == sorted(found)
        assert len(found) > 3


def test_a_token_tells_pairs_apart_though_the_answer_does_not_show_them(world: World) -> None:
    case = CASES["without its ids"]
    query = world.register(case)
    two_batches(world)
    token, tau = query.token(), world.now_s
    old = {s: list(rows) for s, rows in world.rows.items()}
    world.now_s = 1000 + KEEP_S + 10
    world.batch({T: world.random_rows(T, 6)})
    changes = query.changes(token)
    windows = [[Seen(t - KEEP_S, t)] * 2 for t in (tau, world.now_s)]
    before = naive.answer(old[T], old[W], windows[0], case.holds)
    after = naive.answer(world.rows[T], world.rows[W], windows[1], case.holds)
    assert changes.came.num_rows == len(after - before) > 0
    assert changes.went.num_rows == len(before - after) > 0
    assert before & after, "some pairs stay"


def test_a_token_from_before_a_stream_had_rows(world: World) -> None:
    query = world.register(CASES["windows of their own"])
    world.now_s = 1000
    world.batch({T: world.random_rows(T, 9)})
    token = query.changes().token
    world.batch({W: world.random_rows(W, 9)})
    changes = query.changes(token)
    assert differ(world.oracle(query.id), changes.came) is None
    assert changes.came.num_rows > 0
    assert changes.went.num_rows == 0


def test_each_source_is_held_against_the_floor_of_its_own_stream(world: World) -> None:
    query = world.register(CASES["windows of their own"])  # Trade 60 seconds, Weather 15
    two_batches(world)
    world.now_s = 1030
    world.batch()
    world.weir.state.read_floors = {T: 960 * SECOND, W: 1015 * SECOND}
    world.check(query.id, 1030)
    with pytest.raises(FetchError, match="stream 'Weather' since 1014000000 µs, but rows before 1015000000 µs"):
        query.fetch(1029 * SECOND)
    world.weir.state.read_floors = {T: 971 * SECOND, W: 1015 * SECOND}
    with pytest.raises(FetchError, match="stream 'Trade' since 970000000 µs"):
        query.fetch(1030 * SECOND)
    with pytest.raises(FetchError, match=r"token '1:1020000000' has expired: .*'Trade'"):
        query.changes("1:1020000000")


def test_older_pairs_are_cached_and_a_damaged_cache_is_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_batches(world)
    query = world.register(CASES["straight"])
    world.now_s = 1025
    world.batch({T: world.random_rows(T, 5), W: world.random_rows(W, 5)})
    calls = []
    real = fetching.recompute

    def counted(*args: Any, **named: Any) -> Any:
        calls.append(1)
        return real(*args, **named)

    monkeypatch.setattr(fetching, "recompute", counted)
    assert world.check(query.id) > 0
    world.check(query.id)
    world.check(query.id, 1003)
    assert len(calls) == 1
    (path,) = (world.folder / "cache" / "older").iterdir()
    data = bytearray(path.read_bytes())
    data[70] ^= 4
    path.unlink()
    path.write_bytes(data)
    world.check(query.id)
    assert len(calls) == 2
    world.check(query.id)
    assert len(calls) == 2


def test_too_many_older_pairs_are_not_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    two_batches(world)
    query = world.register(CASES["straight"])
    world.now_s = 1060
    world.batch({T: world.random_rows(T, 5), W: world.random_rows(W, 5)})
    monkeypatch.setattr(fetching, "OLDER_RESULTS_MAX", 3)
    assert world.check(query.id) > 3
    (path,) = (world.folder / "cache" / "older").iterdir()
    arrays, about = read_arrays(world.weir.files, f"cache/older/{path.name}")
    assert (arrays, about["too_many"]) == ({}, True)
    asked: list[dict[str, Any]] = []
    recompute = fetching.recompute

    def recomputed(*given: Any, **named: Any) -> Any:
        asked.append(named)
        return recompute(*given, **named)

    monkeypatch.setattr(fetching, "recompute", recomputed)
    world.check(query.id)
    assert all(k.get("results_max") is None for k in asked), "it was known to be too much"


def test_older_pairs_that_no_moment_shows_are_not_kept(world: World) -> None:
    """With windows of 60 and 15 seconds the trade may be up to 60 s older and 15 s younger than the weather."""
    case = CASES["windows of their own"]
    for now_s in range(1000, 1090, 10):
        world.now_s = now_s
        world.batch({T: [world.row(T, now_s, area="north")], W: [world.row(W, now_s, area="north")]})
    query = world.register(case)
    world.batch()
    for at_s in range(1000, 1090, 7):
        world.check(query.id, at_s)
    (standing,) = world.weir._library.standing(query.id).cores
    assert standing.apart == TimeDistance(-15 * SECOND + 1, 60 * SECOND - 1)
    ever = [(t["id"], w["id"]) for t in world.rows[T] for w in world.rows[W] if -15 < w["s"] - t["s"] < 60]
    older = fetching.older_results(
        standing,
        world.files,
        world.weir.state,
        fetching.answer_at(standing, world.files, world.weir.state, tau_us=1080 * SECOND, batch=world.number).views,
        world.number,
    )
    assert sorted(zip(*(rows.tolist() for rows in older), strict=True)) == ever


@pytest.mark.parametrize("seed", range(20))
def test_apart_is_what_some_moment_shows(seed: int) -> None:
    """Against every moment and every pair of times of a small clock."""
    print(f"seed {seed}")
    rng = random.Random(f"apart {seed}")

    def edge(low: int, high: int) -> Bound | None:
        roll = rng.random()
        if roll < 0.2:
            return None
        offset = rng.randint(low, high)
        return Bound(True, Literal(offset, INTERVAL)) if roll < 0.9 else Bound(False, Literal(20 + offset, TIMESTAMP))

    windows, keeps = [], []
    for _ in range(2):
        rows = rng.random() < 0.2
        windows.append(Window(rows=Literal(99, BIGINT)) if rows else Window(edge(-9, -3), edge(-3, 2)))
        keeps.append(rng.choice((None, 5, 10)))
    together = set()
    for tau in range(-30, 90):
        cuts = [resolve(w, {}, tau, k) for w, k in zip(windows, keeps, strict=True)]
        shown = [[t for t in range(60) if (c.begin_us is None or t > c.begin_us) and t <= c.end_us] for c in cuts]
        together |= {b - a for a in shown[0] for b in shown[1]}
    bounds = apart(windows[0], windows[1], {}, (keeps[0], keeps[1]))
    moving = all(
        w.rows is not None or ((w.begin is None or w.begin.relative) and (w.end is None or w.end.relative))
        for w in windows
    )
    for d in range(-59, 60):
        inside = (bounds.least_us is None or d >= bounds.least_us) and (bounds.most_us is None or d <= bounds.most_us)
        assert inside or d not in together
        if moving and together:
            assert inside == (d in together), (windows, keeps, d)


def test_blocks_of_candidates_change_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    two_batches(world)
    ids = [world.register(case).id for case in CASES.values()]
    monkeypatch.setattr(recomputing, "CANDIDATES_BLOCK", 7)
    assert world.check_all() > 100
    assert ids


TYPED: list[tuple[DataType, list[Any]]] = [
    (INT, [0, 1, -1, 2**31 - 1, None]),
    (BIGINT, [0, 1, -1, 2**53, 2**53 + 1, 2**62, None]),
    (decimal(18, 2), [Decimal("0.00"), Decimal("1.00"), Decimal("-1.00"), Decimal("9007199254740993.00"), None]),
    (decimal(18, 0), [Decimal(0), Decimal(2**53), Decimal(2**53 + 1), None]),
    (
        decimal(38, 3),
        [Decimal("0.000"), Decimal("1.000"), Decimal(f"{2**53 + 1}.000"), Decimal("9" * 35 + ".999"), None],
    ),
    (DOUBLE, [0.0, -0.0, 1.0, -1.0, float(2**53), float(2**62), math.nan, -math.nan, math.inf, None]),
    (DATE, [dt.date(1970, 1, 1), dt.date(1970, 1, 2), dt.date(9999, 12, 31), None]),
    (TIMESTAMP, [dt.datetime(1970, 1, k, tzinfo=dt.UTC) for k in (1, 2)] + [dt.datetime.max.replace(tzinfo=dt.UTC)]),
    (BOOLEAN, [True, False, None]),
    (STRING, ["", "a", "A", "0", None]),
]


def comparable(one: DataType, other: DataType) -> bool:
    both = {one.kind.value, other.kind.value}
    return len(both) == 1 or both <= {"int", "bigint", "decimal", "double"} or both == {"date", "timestamp"}


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in TYPED for b in TYPED if comparable(a[0], b[0])])
def test_equal_values_are_candidates(first: tuple[DataType, list[Any]], second: tuple[DataType, list[Any]]) -> None:
    """Of any two types that compare: where SQL's equality is true, codes are equal; NULL equals nothing."""
    types, values = zip(first, second, strict=True)
    arrays = [pa.array(v, arrow_type(t)) for v, t in zip(values, types, strict=True)]
    codes = candidates.equal_codes(arrays, list(types))
    places = [np.repeat(np.arange(len(values[0])), len(values[1])), np.tile(np.arange(len(values[1])), len(values[0]))]
    rows = pa.table({str(k): a.take(pa.array(at)) for k, (a, at) in enumerate(zip(arrays, places, strict=True))})
    equation = Comparison("=", ColumnRef(0, "0", types[0]), ColumnRef(1, "1", types[1]))
    for i, j, equals in zip(*places, truth(equation, rows), strict=True):
        assert not equals or codes.first[i] == codes.second[j] >= 0, (values[0][i], values[1][j])
    for array, code in zip(arrays, codes, strict=True):
        assert (code[array.is_null().to_numpy(zero_copy_only=False)] == -1).all()
        assert (code[array.is_valid().to_numpy(zero_copy_only=False)] >= 0).all()


def test_large_joins_are_recomputed_without_a_nested_loop(tmp_path: Path) -> None:
    """100,000 × 100,000 rows, about five partners each; a nested loop would look at 10^10 pairs."""
    count, distinct = 100_000, 20_000
    w = weir.open(tmp_path)
    columns = "id bigint, k int, name string, ts timestamp"
    w.stream("R", columns, time="ts", keep="forever")
    w.stream("S", columns, time="ts", keep="forever")
    rng = np.random.default_rng(1)
    keys = {name: rng.integers(0, distinct, count) for name in ("R", "S")}
    written = []
    for name, key in keys.items():
        arrays = [pa.array(np.arange(count)), pa.array(key, pa.int32()), pa.array(key.astype(str))]
        arrays.append(pa.array(np.full(count, SECOND)).cast(pa.timestamp("us", "UTC")))
        table = pa.table(arrays, schema=arrow_schema(w.catalog.streams[name.lower()].columns))
        written.append(RowFile(name, write_table(w.files, "rows", 0, table), 0, count, SECOND, SECOND))
    assert w.ledger.create_plan(Plan(0, w.identity.engine, 0, 2, 0, None, {}, {}, {}, "t0"))
    counts = {"R": count, "S": count}
    assert w.ledger.create_done(Done(0, "t0", SECOND, tuple(written), (), (), (), (), 0, counts, 0))
    expected = int((np.bincount(keys["R"], minlength=distinct) * np.bincount(keys["S"], minlength=distinct)).sum())
    for on in ("r.name = s.name", "r.k = s.k AND r.name = s.name"):
        query = w.register(f"SELECT r.id, s.id AS o FROM R r JOIN S s ON {on}")
        started = time.perf_counter()
        found = query.fetch()
        took_s = time.perf_counter() - started
        print(f"{found.num_rows:,} pairs ON {on} in {took_s:.2f} s")
        assert found.num_rows == expected
        assert (keys["R"][found.column(0).to_numpy()] == keys["S"][found.column(1).to_numpy()]).all()
        assert took_s < 20, "a busy machine takes a second or two"


def test_explain_says_what_becomes_of_a_join(world: World) -> None:
    query = world.register(CASES["swapped"])
    assert "unknown: no rows are kept yet" in query.explain()
    two_batches(world)
    text = query.explain()
    assert "family: join" in text
    assert "join keys: s0.area = s1.area" in text
    assert "sides: Trade s0 and Weather s1" in text
    assert "pairs of the newest" in text
    assert "materialised since batch 0" in text
    world.batch(demoted=[query.id])
    assert "demoted in batch 2" in query.explain()
    listed = world.weir.queries().to_pylist()
    assert [(q["stream"], q["family"], q["demoted"]) for q in listed] == [("Trade~Weather", "join", True)]


def test_quotas_of_derived_attributes_are_by_stream(tmp_path: Path) -> None:
    w = weir.open(tmp_path, settings={"residuals_per_stream_max": 2})
    w.stream(T, TRADE, time="ts")
    w.stream(W, WEATHER, time="ts")
    w.register("SELECT id FROM Trade WHERE n + 1 > m")
    join = "SELECT t.id FROM Trade t JOIN Weather w ON t.area = w.area WHERE "
    # Shares one with the selection.
    w.register(join + "t.n + 1 > t.m AND w.level * 2 > w.price AND w.level + 7 > w.price")
    w.register(join + "t.n * 3 > t.m")
    with pytest.raises(weir.WeirError, match="derived attributes|residual"):
        w.register(join + "t.n * 4 > t.m")
    with pytest.raises(weir.WeirError, match="derived attributes|residual"):
        w.register("SELECT id FROM Weather WHERE level * 5 > price")
    w.register(join + "w.level + 7 > w.price")


def test_the_number_of_families_has_a_quota(tmp_path: Path) -> None:
    w = weir.open(tmp_path, settings={"join_families_max": 2})
    w.stream(T, TRADE, time="ts")
    w.stream(W, WEATHER, time="ts")
    text = "SELECT t.id FROM Trade t JOIN Weather w ON t.n + {} = w.level WHERE t.m > {}"
    first = w.register(text.format(1, 1))
    for k in range(5):
        w.register(text.format(2, k))
    before = len(w.queries())
    with pytest.raises(weir.WeirError, match=r"a family of its own \(Trade~Weather\), and 2 join.*_families_max"):
        w.register(text.format(3, 1))
    assert len(w.queries()) == before
    w.register("SELECT id FROM Trade WHERE n > 3")  # no join
    w.register(text.format(1, 7))
    again = weir.open(tmp_path, settings={"join_families_max": 2})  # another process counts the same
    with pytest.raises(weir.WeirError, match="2 join families stand"):
        again.register(text.format(3, 1))
    first.drop()
    with pytest.raises(weir.WeirError, match="2 join families stand"):  # its family has another query
        w.register(text.format(3, 1))
    w.queries()
    for id in [q["id"] for q in w.queries().to_pylist() if "+ 1 =" in q["shape"]]:
        w.query(id).drop()
    w.register(text.format(3, 1))


def test_the_text_of_a_query_shows_constants_in_keys(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream(T, TRADE, time="ts")
    w.stream(W, WEATHER, time="ts")
    q = w.register("SELECT t.id FROM Trade t JOIN Weather w ON (t.area = 'at :c0') = (w.area = 'no') WHERE t.m > 5")
    assert "(s0.area = 'at :c0') = (s1.area = 'no')" in q.explain()
    assert "s0.m > 5" in q.explain()


def test_runs_of_all_channels_are_made_by_housekeeping(world: World) -> None:
    for name in ("straight", "with itself"):
        world.register(CASES[name])
    two_batches(world)
    keeping = Housekeeping(world.files, Settings(compact_every_batches=1, vacuum_every_batches=0))
    keeping.after(world.number)
    keeping.close()
    assert keeping.error is None
    for channel in ("Trade~Weather", "Trade~Trade"):
        assert [(r.first, r.last) for r in runs_of(world.files, channel)] == [(0, 1)]
    assert world.check_all() > 0
