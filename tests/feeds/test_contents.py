"""Feeds without Spark: readers at any distance behind, restarts, folds, and what has expired."""

from __future__ import annotations

import pickle
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weir
from weir.errors import FeedError, FetchError, WeirError
from weir.feeds.contents import AnswerChanges, Steps
from weir.feeds.folder import START, Folder, Place, ids_of, pieces
from weir.feeds.options import content_of
from weir.feeds.rows import Matches, StreamRows
from weir.store.vacuum import vacuum
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
MINUTE = "BEGIN NOW - INTERVAL 1 MINUTE END NOW"
SHAPES = (
    f"SELECT name, price FROM trade WHERE price < 10 {MINUTE}",
    f"SELECT name, count(*) AS n, avg(price) AS a FROM trade GROUP BY name {MINUTE}",
    f"SELECT DISTINCT t.name FROM trade t JOIN quote q ON t.name = q.name WHERE q.bid > t.price {MINUTE}",
    "SELECT name FROM trade WHERE price > 15 UNION ALL SELECT name FROM quote WHERE bid > 15 "
    "BEGIN NOW - INTERVAL 90 SECONDS END NOW",
)


class World:
    """Two streams, their batches, and readers of what comes."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.weir = weir.open(folder, settings=settings)
        self.weir.stream("trade", "name string, price double, ts timestamp", time="ts", keep="10 minutes")
        self.weir.stream("quote", "name string, bid double, ts timestamp", time="ts", keep="10 minutes")
        self.direct = DirectWeir(self.weir, wall_us=100_000 * SECOND)
        self.random = random.Random(7)
        self.now_s = 0.0

    @property
    def folder(self) -> Folder:
        return Folder(self.weir.files.location)

    def batch(self, *, count: int = 6, passes_s: float = 7.0) -> None:
        rows: dict[str, list[dict[str, Any]]] = {"trade": [], "quote": []}
        for _ in range(count):
            self.now_s += self.random.random() * passes_s / max(1, count)
            stream = self.random.choice(["trade", "trade", "quote"])
            ts = pa.scalar(int((self.now_s - self.random.choice([0, 0, 20])) * SECOND), pa.timestamp("us", "UTC"))
            value = float(self.random.randrange(20))
            column = "price" if stream == "trade" else "bid"
            rows[stream].append({"name": self.random.choice("abc"), column: value, "ts": ts.as_py()})
        self.direct.batch({name: of for name, of in rows.items() if of})


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "weir")


class Reader:
    """Takes steps as Spark does: offsets are kept as JSON would keep them, parts travel as pickles."""

    def __init__(self, content: Steps) -> None:
        self.content = content
        self.at: dict[str, Any] = START.said()
        self.rows: list[dict[str, Any]] = []

    def step(self, upto: Place) -> list[dict[str, Any]]:
        content: Steps = pickle.loads(pickle.dumps(self.content))
        parts = pickle.loads(pickle.dumps(list(content.steps(Place(**self.at), upto))))
        return [row for part in parts for table in content.read(part) for row in table.to_pylist()]

    def go(self, upto: Place) -> list[dict[str, Any]]:
        found = self.step(upto)
        assert self.step(upto) == found, "a step that is taken again is the same"
        self.rows += found
        self.at = upto.said()
        return found

    def total(self) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        for row in self.rows:
            found[tuple(row.values())[3:]] += row["change"]
        assert all(count >= 0 for count in found.values()), "what went had come"
        return +found


def bag(query: weir.Query) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in query.fetch().to_pylist())


@pytest.mark.parametrize("kept", [False, True])
def test_changes_add_up_to_answers_at_any_pace(world: World, kept: bool) -> None:
    queries = [world.weir.register(sql, kept=kept) for sql in SHAPES]
    readers = [(q, Reader(AnswerChanges.of(world.folder, (q.id,))), pace) for q in queries for pace in (1, 3, 5)]
    for number in range(25):
        world.batch(count=0 if number % 7 == 3 else 6)
        for query, reader, pace in readers:
            if number % pace == 0:
                reader.go(world.folder.newest())
                assert reader.total() == bag(query), f"query {query.id} after batch {number}"
    assert sum(row["change"] < 0 for _, reader, _ in readers for row in reader.rows) > 50
    for query in queries:
        at_pace = [[r for r in reader.rows if r["batch"] <= 15] for q, reader, _ in readers if q is query]
        singly = Counter((r["batch"], r["change"], str(r)) for r in at_pace[0])
        assert at_pace[0]
        for rows in at_pace[1:]:
            assert Counter((r["batch"], r["change"], str(r)) for r in rows) == singly, "batches are told one by one"


def test_changes_add_up_across_documents_that_were_folded(tmp_path: Path) -> None:
    world = World(tmp_path / "weir", fold_every_batches=4)
    query = world.weir.register(SHAPES[1])
    reader = Reader(AnswerChanges.of(world.folder, (query.id,)))
    world.batch()
    reader.go(world.folder.newest())
    for _ in range(14):
        world.batch(passes_s=1)
        vacuum(world.weir.files, world.direct.context.state, 0.0, world.weir.settings, inbox_committed=0)
    told = reader.go(world.folder.newest())
    assert reader.total() == bag(query)
    assert min(row["batch"] for row in told) > 1, "what is folded away is told with the batch after it"


def test_a_reader_that_begins_before_the_first_row(world: World) -> None:
    """There was no clock yet, so its first places are of 1970, which has long expired."""
    queries = [world.weir.register(sql) for sql in SHAPES]
    readers = [Reader(AnswerChanges.of(world.folder, (query.id,))) for query in queries]
    empty = [world.folder.newest()]
    for _ in range(2):
        world.direct.batch({})
        empty.append(world.folder.newest())
    world.now_s = 50_000
    for _ in range(3):
        world.batch()
    for reader, query in zip(readers, queries, strict=True):
        assert [reader.go(place) for place in empty] == [[], [], []]
        reader.go(world.folder.newest())
        assert reader.total() == bag(query)


def test_rows_and_matches_come_once(world: World) -> None:
    query = world.weir.register(SHAPES[0])
    rows = Reader(StreamRows.of(world.folder, "trade", START))
    matches = Reader(Matches.of(world.folder, (query.id,), START))
    for number in range(9):
        world.batch()
        if number % 2 == 0:
            for reader in (rows, matches):
                found = reader.go(world.folder.newest())
                assert {row["batch"] for row in found} <= {number - 1, number}
    state = world.folder
    state.newest()
    assert [row["row"] for row in rows.rows] == list(range(state.state.row_counts["trade"]))
    cheap = [(r["row"], r["price"]) for r in rows.rows if r["price"] < 10]
    assert sorted((r["row"], r["trade"]["price"]) for r in matches.rows) == cheap


def test_what_has_expired_is_an_error(world: World) -> None:
    query = world.weir.register(SHAPES[0])
    readers: list[Steps] = [
        AnswerChanges.of(world.folder, (query.id,)),
        StreamRows.of(world.folder, "trade", START),
        Matches.of(world.folder, (query.id,), START),
    ]
    begun = [Reader(content) for content in readers]
    world.batch()
    for reader in begun:
        reader.go(world.folder.newest())
    world.batch()
    world.now_s += 30_000
    world.batch()
    world.batch()
    for reader in begun:
        with pytest.raises((FeedError, FetchError), match="have expired|has expired"):
            reader.step(world.folder.newest())
        Reader(reader.content).go(world.folder.newest())  # who begins gets what there is


def test_a_folder_that_was_restored_is_an_error(world: World, tmp_path: Path) -> None:
    query = world.weir.register(SHAPES[0])
    world.batch()
    here = world.folder.newest()
    world.folder.require(here)
    reader = Reader(AnswerChanges.of(world.folder, (query.id,)))
    for wrong in (reader.step, world.folder.require):
        with pytest.raises(FeedError, match="batch 7 was read before, but .* ends with batch 0"):
            wrong(Place(7, 0))
    with pytest.raises(FeedError, match="is another weir than the one that was read before"):
        World(tmp_path / "other").folder.require(here)


WRONG: list[tuple[dict[str, str], str]] = [
    ({"path": ""}, "the option 'path' is missing"),
    ({"path": "/nowhere/at/all", "query": "0"}, "'/nowhere/at/all' is not a weir"),
    ({}, "what=answers needs the option 'query'"),
    ({"query": "99"}, "there is no query 99"),
    ({"query": "one"}, "'one' lists no queries"),
    ({"query": "3-1"}, "'3-1' lists no queries"),
    ({"query": "1"}, "query 1 was dropped"),
    ({"query": "0,2"}, "queries 0 and 2 have answers with different columns"),
    ({"query": "0", "what": "everything"}, "what is 'everything', expected one of answers, changes"),
    ({"query": "0", "wat": "answers"}, "there is no option 'wat'; did you mean 'what'?"),
    ({"query": "0", "stream": "trade"}, "option 'stream' means nothing for what=answers"),
    ({"query": "0", "at": "noon"}, "'noon' is not a time"),
    ({"what": "streams"}, "what=streams needs the option 'stream'; expected one of trade, quote"),
    ({"what": "streams", "stream": "trades"}, "there is no stream 'trades'; did you mean 'trade'?"),
    ({"what": "matches", "query": "99"}, "there is no query 99"),
]


def test_wrong_options_say_what_is_wrong(world: World) -> None:
    world.weir.register("SELECT name FROM trade")
    world.weir.register("SELECT name FROM trade").drop()
    world.weir.register("SELECT price FROM trade")
    for options, message in WRONG:
        with pytest.raises(WeirError) as refused:
            content_of({"path": world.weir.files.location} | options)
        assert message in str(refused.value), options


def test_lists_of_ids() -> None:
    assert ids_of(" 7, 3-5,4 ") == (7, 3, 4, 5)
    assert pieces(range(5), 2) == [range(2), range(2, 5)]
    assert pieces([], 3) == []
    assert pieces([1, 2], 9) == [[1], [2]]


def test_another_weir_at_the_same_place_is_read_itself(tmp_path: Path) -> None:
    for price in (1.0, 2.0):  # this process has read the first one
        world = World(tmp_path / "weir")
        query = world.weir.register(f"SELECT price FROM trade {MINUTE}")
        ts = pa.array([5 * SECOND], pa.timestamp("us", "UTC"))
        world.direct.batch({"trade": pa.table({"name": ["a"], "price": [price], "ts": ts})})
        content = content_of({"path": world.weir.files.location, "query": str(query.id)})
        found = pa.concat_tables([table for part in content.parts() for table in content.read(part)])
        assert found.column("price").to_pylist() == [price]
        shutil.rmtree(tmp_path / "weir")


def test_matches_of_a_stream_that_was_dropped_are_gone(world: World) -> None:
    queries = [world.weir.register(f"SELECT name FROM {name} {MINUTE}") for name in ("trade", "quote")]
    for _ in range(3):
        world.batch()
    folder = world.folder
    matches = Matches.of(folder, tuple(q.id for q in queries), folder.newest())
    before = [table for part in matches.parts() for table in matches.read(part)]
    assert {query for table in before for query in table["query"].to_pylist()} == {q.id for q in queries}
    queries[1].drop()
    world.weir.drop_stream("quote")
    after = [table for part in matches.parts() for table in matches.read(part)]
    assert {query for table in after for query in table["query"].to_pylist()} == {queries[0].id}
    assert all(table["time"].null_count == 0 for table in after)
