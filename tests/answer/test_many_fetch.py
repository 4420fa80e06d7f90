"""Fetching many queries at once: what is asked for and given, what fails, and that it is one pass.

That the answers are those of single queries, and DuckDB's, all random scenarios hold at every batch
(`tests.fetched_together`).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import weir
from tests.fetched_together import hold_together
from weir.answer import many_fetch
from weir.errors import FetchError, QueryError
from weir.store.core_runs import compact
from weir.store.ledger import Ledger
from weir.store.state import State
from weir.testing.direct import DirectWeir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
RANGE = "SELECT a, g FROM S WHERE a BETWEEN :lo AND :hi"
FINISHES = (
    "SELECT g, count(*) AS n, sum(a) AS total FROM S WHERE a > :x GROUP BY g",
    "SELECT DISTINCT g FROM S WHERE a > :x",
    "SELECT a, g FROM S WHERE a > :x ORDER BY a DESC, g LIMIT :x",
    "SELECT count(*) AS n FROM S WHERE a < :x BEGIN NOW - INTERVAL 5 SECONDS END NOW",
    "SELECT a FROM S [ROWS 7] WHERE a > :x",
    "SELECT s.a, t.b FROM S s JOIN T t ON s.g = t.g WHERE s.a > :x AND t.b < :x",
    "SELECT s.a, t.b FROM S s LEFT JOIN T t ON s.g = t.g AND t.b > :x WHERE s.a > 7",
    "SELECT g FROM S WHERE a > :x UNION SELECT g FROM T WHERE b > :x",
    "SELECT s.a, p.owner FROM S s JOIN place p ON s.g = p.g WHERE s.a > :x",
    "SELECT owner, count(*) AS n FROM place WHERE rank < :x GROUP BY owner",
    "SELECT a, a + :x AS more, current_timestamp() AS now FROM S WHERE a > :x",
)


def rows(first: int, count: int, at_s: int, name: str = "a") -> pa.Table:
    numbers = np.arange(first, first + count) % 10
    groups = pa.array([f"g{n % 3}" for n in range(first, first + count)])
    times = pa.array(at_s * SECOND + np.arange(count), pa.timestamp("us", "UTC"))
    return pa.table({name: pa.array(numbers), "g": groups, "ts": times})


def make(folder: Path, **settings: object) -> tuple[weir.Weir, DirectWeir]:
    w = weir.open(folder, settings=settings)
    w.stream("S", "a bigint, g string, ts timestamp", time="ts", keep="1 minute")
    w.stream("T", "b bigint, g string, ts timestamp", time="ts", keep="1 minute")
    w.table("place", "g string, owner string, rank int", key="g")
    return w, DirectWeir(w, slices=2, wall_us=1000 * SECOND, takes_pushes=True)


@pytest.fixture
def filled(tmp_path: Path) -> tuple[weir.Weir, weir.Queries]:
    w, direct = make(tmp_path)
    many = w.register_many(RANGE, {"lo": list(range(8)), "hi": [k + 1 for k in range(8)]})
    direct.batch({"S": rows(0, 30, 1)})
    return w, many


def same(answers: weir.Answers, w: weir.Weir) -> None:
    for id, answer in answers.items():
        assert answer.equals(w.query(id).fetch())


def test_answers_are_a_mapping_in_the_order_of_the_ids(filled: tuple[weir.Weir, weir.Queries]) -> None:
    w, many = filled
    answers = w.fetch([5, 2, 5, many[7]])
    assert list(answers) == [5, 2, 7]
    assert len(answers) == 3
    assert 2 in answers
    same(answers, w)
    with pytest.raises(KeyError):
        answers[3]
    assert repr(answers) == "<weir.Answers of 3 queries: 18 rows>"


@pytest.mark.parametrize(
    "asked",
    [
        lambda many: [4, 5, 6],
        lambda many: range(4, 7),
        lambda many: many[4:7],
        lambda many: np.array([4, 5, 6], np.int32),
        lambda many: pa.array([4, 5, 6]),
        lambda many: pd.Series([4, 5, 6]),
        lambda many: (id for id in (4, 5, 6)),
        lambda many: {4: "", 5: "", 6: ""},
    ],
)
def test_ids_come_in_any_form(filled: tuple[weir.Weir, weir.Queries], asked: Callable[[weir.Queries], object]) -> None:
    w, many = filled
    answers = w.fetch(asked(many))
    assert list(answers) == [4, 5, 6]
    same(answers, w)


def test_one_id_and_all_queries_of_a_registration(filled: tuple[weir.Weir, weir.Queries]) -> None:
    w, many = filled
    assert list(w.fetch(3)) == [3]
    assert list(w.fetch(many)) == list(many.ids)
    assert many.fetch().to_arrow().equals(w.fetch(many.ids).to_arrow())


def test_no_ids_are_no_answers(filled: tuple[weir.Weir, weir.Queries]) -> None:
    w, _ = filled
    answers = w.fetch([])
    assert (len(answers), answers.tables, answers.to_arrow().num_rows) == (0, (), 0)
    assert answers.to_arrow().column_names == ["query"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([1, 99], "there is no query 99"),
        ([1, -1], "there is no query -1"),
        ([1, 2], "query 2 was dropped"),
        ([1, "2"], "'2' is not the id of a query"),
        ("12", "'12' is not the id of a query"),
        ([1, True], "True is not the id of a query"),
        ([1.5], "1.5 is not the id of a query"),
    ],
)
def test_what_is_no_standing_query_is_named(filled: tuple[weir.Weir, weir.Queries], asked: object, said: str) -> None:
    w, _ = filled
    w.drop(2)
    with pytest.raises(QueryError, match=said):
        w.fetch(asked)


def test_a_part_of_another_query_is_no_query(tmp_path: Path) -> None:
    w, _ = make(tmp_path)
    w.register("SELECT a FROM S UNION ALL SELECT b FROM T")
    with pytest.raises(QueryError, match="part of another query"):
        w.fetch([0, 1])


def test_queries_with_the_same_columns_share_a_table(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    first = w.register_many("SELECT a FROM S WHERE a > :x", {"x": [3, 8]})
    other = w.register("SELECT g FROM S WHERE a = 4")
    last = w.register("SELECT a FROM S WHERE a < 2")
    direct.batch({"S": rows(0, 10, 1)})
    answers = w.fetch([last.id, other.id, *first.ids])
    assert [table.column_names for table in answers.tables] == [["query", "a"], ["query", "g"]]
    assert answers.tables[0].column("query").to_pylist() == [0] * 6 + [1] + [3] * 2
    same(answers, w)
    with pytest.raises(FetchError, match="2 different sets of columns: a; g"):
        answers.to_arrow()


def test_the_forms_of_a_table(filled: tuple[weir.Weir, weir.Queries]) -> None:
    _, many = filled
    answers = many.fetch()
    table = answers.to_arrow()
    assert answers.to_pandas().equals(table.to_pandas())
    reader = answers.reader()
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_all().equals(table)
    assert set(table.column("query").to_pylist()) == set(many.ids)


def test_a_column_of_the_user_called_query_keeps_its_name(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    many = w.register_many("SELECT a AS query, g AS Query_ FROM S WHERE a > :x", {"x": [3, 8]})
    direct.batch({"S": rows(0, 10, 1)})
    answers = many.fetch()
    assert answers.to_arrow().column_names == ["query__", "query", "Query_"]
    same(answers, w)


def test_a_column_called_as_weirs_own_is_fetched_alone(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    many = w.register_many("SELECT a AS `slot of row` FROM S WHERE a > :x", {"x": [3, 8]})
    direct.batch({"S": rows(0, 10, 1)})
    same(many.fetch(), w)


@pytest.mark.spark
def test_answers_as_a_frame(spark: SparkSession, filled: tuple[weir.Weir, weir.Queries]) -> None:
    w, many = filled
    w._spark = spark
    frame = many.fetch().to_spark()
    assert frame.columns == ["query", "a", "g"]
    assert sorted(map(tuple, frame.collect())) == sorted(map(tuple, many.fetch().to_pandas().itertuples(index=False)))


def test_a_query_that_fails_does_not_spoil_the_others(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    text = "SELECT a, (SELECT b FROM T WHERE b < :x) AS b FROM S WHERE a < 3"
    many = w.register_many(text, {"x": [0, 1, 2, 1]})
    direct.batch({"S": rows(0, 10, 1), "T": rows(0, 10, 1, "b")})
    answers = many.fetch()
    assert list(answers.failed) == [2]
    with pytest.raises(FetchError, match="a subquery that stands for one value has 2 rows"):
        answers[2]
    assert repr(answers) == "<weir.Answers of 4 queries, 1 of them failed: 9 rows>"
    assert [answers[id].column("b").to_pylist() for id in (0, 1, 3)] == [[None] * 3, [0] * 3, [0] * 3]
    assert set(answers.to_arrow().column("query").to_pylist()) == {0, 1, 3}


def test_a_window_below_the_kept_rows_fails_alone(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    many = w.register_many("SELECT a FROM S BEGIN NOW - :w END NOW", {"w": [50, 5]})
    for at_s in (1, 60, 120, 121):
        direct.batch({"S": rows(0, 10, at_s)})
    answers = many.fetch(at=90 * SECOND)
    assert list(answers.failed) == [0]
    assert "rows before" in str(answers.failed[0])
    assert answers[1].equals(many[1].fetch(at=90 * SECOND))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_queries_of_all_shapes_from_all_times_together(tmp_path: Path, kept: bool) -> None:
    """Registered before and between batches, some demoted, over runs and match files, now and then."""
    w, direct = make(tmp_path, pairs_per_batch_max=600)
    w.upsert("place", {"g": ["g0", "g1"], "owner": ["ann", "bob"], "rank": [1, 2]})
    dice = random.Random(7)
    standing: list[weir.Query] = []
    for batch in range(6):
        for text in FINISHES:
            if kept and ("place" in text or "current_timestamp" in text):
                continue
            standing += w.register_many(text, {"x": [1, 4, 4 + batch % 3]}, kept=kept)
        if batch == 2:
            w.upsert("place", {"g": ["g0", "g2"], "owner": ["cid", "ann"], "rank": [3, 3]})
            w.drop(standing.pop(5).id)
        direct.batch({"S": rows(batch, 20, 1 + 9 * batch), "T": rows(batch, 15, 3 + 9 * batch, "b")})
        if batch == 3:
            state = State()
            state.refresh(Ledger(w.files))
            for channel in ("S", "S~T"):
                compact(w.files, state, channel)
        hold_together(w, standing, w.state.now_us or 0, 30 * SECOND, dice, alone_max=30)
    if not kept:
        assert w.state.demoted, "a budget that demotes nobody shows nothing"


def test_ordered_answers_are_in_order(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    many = w.register_many(
        "SELECT a, g FROM S WHERE a > :x ORDER BY a DESC, g, ts LIMIT :n", {"x": [0, 3], "n": [4, 9]}
    )
    direct.batch({"S": rows(0, 40, 1)})
    same(many.fetch(), w)


def test_queries_that_are_tried_again_count_from_there(tmp_path: Path) -> None:
    w, direct = make(tmp_path, pairs_per_batch_max=30)
    many = w.register_many("SELECT a FROM S WHERE a > :x", {"x": list(range(-3, 4))})
    direct.batch({"S": rows(0, 20, 1)})
    w.state.refresh(w.ledger)
    demoted = np.array(sorted(w.state.demoted))
    assert len(demoted)
    w.retry(demoted)
    for at_s in (3, 5):
        direct.batch({"S": rows(8, 2, at_s)})
        same(many.fetch(), w)


def test_it_is_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No query is fetched by itself, and a registration's constants are read once."""
    w, direct = make(tmp_path)
    groups = [w.register_many(text, {"x": list(range(9))}) for text in FINISHES]
    singles = [w.register(FINISHES[0], {"x": x}) for x in range(5)]
    direct.batch({"S": rows(0, 30, 1), "T": rows(0, 20, 1, "b")})
    passes = []

    def counted(*args: object) -> object:
        passes.append(args)
        return matched_many(*args)  # type: ignore[arg-type]  # passed on as they are

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a query was looked at by itself")

    matched_many = many_fetch.matched_many
    monkeypatch.setattr(many_fetch, "matched_many", counted)
    for name in ("fetch", "answer_at", "older_results"):
        monkeypatch.setattr(many_fetch, name, refuse)
    answers = w.fetch([query for group in groups for query in group] + singles)
    assert not answers.failed
    cores = sum(len(w._library.standing(group.ids[0]).cores) for group in groups)
    assert len(passes) == cores
    monkeypatch.undo()
    same(answers, w)


def test_nothing_new_is_said_without_reading_a_file(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    plain, grouped = w.register("SELECT a FROM S WHERE a > 3"), w.register(FINISHES[0], {"x": 3})
    direct.batch({"S": rows(0, 10, 1)})
    tokens = {query.id: query.changes().token for query in (plain, grouped)}
    for folder in ("rows", "matches", "cache"):
        shutil.rmtree(tmp_path / folder)
    again = weir.open(tmp_path, create=False)
    for query in (plain, grouped):
        changes = again.query(query.id).changes(after=tokens[query.id])
        assert (changes.came.num_rows, changes.went.num_rows) == (0, 0)
        assert changes.came.schema.names == [c.name for c in w._library.standing(query.id).query.output]
        assert changes.token == tokens[query.id]


def test_time_alone_is_something_new(tmp_path: Path) -> None:
    w, direct = make(tmp_path)
    query = w.register("SELECT a FROM S WHERE a > 3 BEGIN NOW - INTERVAL 5 SECONDS END NOW")
    direct.batch({"S": rows(0, 10, 1)})
    token = query.token()
    assert not query.changes(after=token).went.num_rows
    w.advance(20 * SECOND)
    assert not query.changes(after=token).went.num_rows, "no batch has taken it"
    direct.batch({})
    assert query.changes(after=token).went.num_rows == 6
