"""Segments of random queries, under every strategy, against the evaluator; and what surrounds them."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.families.random_expressions import COLUMNS, STREAM, Writer, random_rows, table_of, to_arrow
from tests.marks import few_are_quick
from weir.algebra.format import literal_text
from weir.algebra.nodes import (
    Aggregate,
    And,
    Arithmetic,
    ColumnRef,
    Comparison,
    Distinct,
    Expression,
    GroupBy,
    IsNull,
    Join,
    Like,
    Literal,
    Node,
    Or,
    Param,
    Project,
    Query,
    Scan,
    Select,
    SetOperation,
    Window,
)
from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, STRING, Catalog, Column, DataType, Table
from weir.errors import RegisterError
from weir.families.forms import FORMS
from weir.families.selections import selection_segments
from weir.families.selections.selection_family import Group, Segment, check, describe, refusal
from weir.index.box_tables import Matches, OverBudget
from weir.index.strategies import STRATEGIES
from weir.settings import Settings
from weir.values.codec import canonical, from_json, to_json
from weir.values.evaluate import truth

SETTINGS = Settings()
ALL_PAIRS = 1 << 40
TRADE = Scan(0, "trade", False, "t", Window())


def column(name: str) -> ColumnRef:
    return ColumnRef(0, name, COLUMNS[name])


def query_of(predicate: Expression | None) -> Query:
    source: Node = TRADE if predicate is None else Select(TRADE, predicate)
    return Query(Project(source, (("i", column("i")),)), (TRADE,), (Column("i", COLUMNS["i"]),), "")


def random_group(rng: random.Random, first_id: int) -> tuple[Group, list[dict[str, Any]]]:
    writer = Writer(rng, params=True)
    predicate = None if rng.random() < 0.05 else writer.predicate(rng.randint(0, 2))
    rows = [writer.constants() for _ in range(rng.choice([1, 1, 3, 20]))]
    columns = {n: to_arrow([row[n] for row in rows], t) for n, t in writer.types.items()}
    table = pa.table({"none": pa.nulls(len(rows), pa.bool_()), **columns})
    return Group(query_of(predicate), table, first_id), rows


def matched_ids(segment: Segment, found: Matches | OverBudget) -> list[list[int]]:
    assert isinstance(found, Matches)
    assert found.slots.dtype == np.int32
    return [segment.ids[found.slots[a:b]].tolist() for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


def reopened(segment: Segment) -> Segment:
    """As a worker has it: description through JSON, arrays read-only."""
    arrays = {name: array.copy() for name, array in segment.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    return Segment.from_arrays(arrays, json.loads(json.dumps(segment.meta())))


@pytest.mark.parametrize("seed", few_are_quick(range(6)))
def test_every_strategy_matches_what_the_evaluator_says(seed: int) -> None:
    rng = random.Random(f"segment {seed}")
    made = [random_group(rng, 1000 * k) for k in range(40)]
    ids = [g.ids + k for g, rows in made for k in range(len(rows))]
    excluded = np.array(sorted(rng.sample(ids, len(ids) // 10)), np.int64)
    table = table_of(random_rows(rng, 150)).slice(20, 110)
    expected: list[list[int]] = [[] for _ in range(table.num_rows)]
    for group, rows in made:
        select = group.query.root.child
        for k, constants in enumerate(rows):
            hits = truth(select.predicate, table, constants) if isinstance(select, Select) else np.ones(110, bool)
            for event in np.flatnonzero(hits):
                expected[event].append(group.ids + k)
    hidden = set(excluded.tolist())
    expected = [sorted(i for i in e if i not in hidden) for e in expected]
    groups = [g for g, _ in made]
    rng.shuffle(groups)
    for strategy in STRATEGIES:
        segment = Segment.build(STREAM, groups, strategy=strategy, excluded=excluded)
        assert segment.ids.tolist() == sorted(set(ids) - hidden)
        unmuted = np.zeros(len(segment.ids), np.uint8)
        for version in (segment, reopened(segment)):
            found = matched_ids(version, version.match(table, unmuted, ALL_PAIRS))
            assert found == expected, (seed, strategy)
        muted = np.array([rng.random() < 0.3 for _ in segment.ids], np.uint8)
        quiet = set(segment.ids[muted == 1].tolist())
        found = matched_ids(segment, segment.match(table, muted, ALL_PAIRS))
        assert found == [[i for i in e if i not in quiet] for e in expected]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("keys_bytes", [8 * 7, 1 << 30])
def test_over_budget_counts_exactly_also_in_pieces(
    strategy: str, keys_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection_segments, "KEYS_BYTES_MAX", keys_bytes)
    i = column("i")
    constants = pa.table({"c0": [-100, 0, 4, 100], "c1": pa.array(["a", "b", None, "a"])})
    predicate = Or((Comparison(">", i, Param("c0", BIGINT)), Comparison("=", column("s"), Param("c1", STRING))))
    group = Group(query_of(predicate), constants, np.array([7, 3, 9, 4]))
    segment = Segment.build(STREAM, [group], strategy=strategy)
    assert segment.ids.tolist() == [3, 4, 7, 9]
    rows = [dict.fromkeys(COLUMNS) | {"i": k % 10, "s": "ab"[k % 2]} for k in range(100)]
    table = table_of(rows)
    unmuted = np.zeros(4, np.uint8)
    counts = [
        int(truth(predicate, table, {"c0": c0, "c1": c1}).sum())
        for c0, c1 in ((0, "b"), (100, "a"), (-100, "a"), (4, None))
    ]
    total = sum(counts)
    whole = segment.match(table, unmuted, total)
    assert isinstance(whole, Matches)
    assert len(whole.offsets) == 101
    assert np.bincount(whole.slots, minlength=4).tolist() == counts
    for budget in (0, 1, total // 2, total - 1):
        found = segment.match(table, unmuted, budget)
        assert isinstance(found, OverBudget)
        assert found.counts.tolist() == counts
    muted = np.array([1, 0, 1, 0], np.uint8)
    found = segment.match(table, muted, 0)
    assert isinstance(found, OverBudget)
    assert found.counts.tolist() == [0, counts[1], 0, counts[3]]
    assert isinstance(segment.match(table.slice(0, 0), unmuted, 0), Matches)


def test_only_attributes_that_boxes_use_are_evaluated() -> None:
    never = And((IsNull(column("d")), Comparison("<", column("b"), Param("c0", BIGINT))))
    groups = [
        Group(query_of(never), pa.table({"c0": pa.array([None], pa.int64())}), 1),
        Group(query_of(Comparison("<", column("i"), Param("c0", BIGINT))), pa.table({"c0": [5]}), 2),
    ]
    segment = Segment.build(STREAM, groups, strategy="scan")
    assert segment.boxes.attributes == [column("i")]
    assert segment.ids.tolist() == [1, 2]
    assert segment.meta()["attributes"] == [to_json(column("i"))]


def test_single_registrations_of_one_shape_are_one_table() -> None:
    predicate = And((Comparison(">", column("d"), Param("c0", DOUBLE)), Like(column("s"), Param("c1", STRING))))
    groups = [Group(query_of(predicate), pa.table({"c0": [k / 100], "c1": ["a%"]}), 5 * k) for k in range(2_000)]
    start = time.perf_counter()
    segment = Segment.build(STREAM, groups, strategy="scan")
    assert time.perf_counter() - start < 5  # about 0.1 s; 2,000 separate builds would take longer
    row = dict.fromkeys(COLUMNS) | {"d": 10.0, "s": "abc"}
    found = segment.match(table_of([row]), np.zeros(2_000, np.uint8), ALL_PAIRS)
    assert matched_ids(segment, found) == [[5 * k for k in range(1_000)]]


def test_explain_says_from_when_on_batches_are_swept() -> None:
    i = column("i")
    predicate = And((Comparison(">=", i, Param("c0", BIGINT)), Comparison("<=", i, Param("c1", BIGINT))))
    lo = 10 * np.arange(5_000)
    group = Group(query_of(predicate), pa.table({"c0": lo, "c1": lo + 25}), 0)
    auto = Segment.build(STREAM, [group], strategy="auto")
    assert auto.boxes.strategy == "by-batch"
    assert re.search(r"; batches of about [\d,]+ rows and more are sorted by trade\.i and swept$", auto.reached)
    assert "swept" not in Segment.build(STREAM, [group], strategy="grid").reached


def test_an_empty_segment_matches_nothing() -> None:
    for strategy in STRATEGIES:
        segment = reopened(Segment.build(STREAM, [], strategy=strategy))
        found = segment.match(table_of(random_rows(random.Random(1), 3)), np.zeros(0, np.uint8), 10)
        assert isinstance(found, Matches)
        assert found.offsets.tolist() == [0, 0, 0, 0]


def test_expressions_survive_json() -> None:
    rng = random.Random("codec")
    for _ in range(2_000):
        writer = Writer(rng, params=rng.random() < 0.5)
        e = rng.choice([writer.predicate, writer.number, writer.temporal])(3)
        back = from_json(json.loads(json.dumps(to_json(e))))
        assert canonical(back) == canonical(e)
        assert back == e or "nan" in canonical(e)
    with pytest.raises(KeyError):
        from_json({"is": "os.system", "arg": to_json(column("i")), "type": "int"})


def test_equal_numbers_of_different_types_are_different_attributes() -> None:
    texts = {canonical(Literal(v, t)) for v, t in ((1, BIGINT), (1.0, DOUBLE), (True, BOOLEAN), ("1", STRING))}
    assert len(texts) == 4


def test_check_says_what_a_registration_needs() -> None:
    predicate = And(
        (
            Or((Comparison("=", column("s"), Param("c0", STRING)), Comparison("<>", column("i"), Param("c1", BIGINT)))),
            Like(column("s2"), Param("c2", STRING)),
        )
    )
    constants = pa.table({"c0": ["a", "b", "c"], "c1": [1, 2, 3], "c2": ["x%", "%y", "%y"]})
    needed = check(query_of(predicate), constants, STREAM, SETTINGS)
    assert needed.boxes_per_query == 3
    assert needed.attributes == ("i", "s", "s2")
    assert needed.residuals == (canonical(Like(column("s2"), Literal("%y", STRING))),)


def test_check_refuses_over_cap_and_over_quota() -> None:
    many = Or(tuple(Comparison("=", column("i"), Param(f"c{k}", BIGINT)) for k in range(5)))
    constants = pa.table({f"c{k}": [k] for k in range(5)})
    with pytest.raises(RegisterError, match=r"needs 5 or more boxes.*at most 4 are allowed.*boxes_per_query_max"):
        check(query_of(many), constants, STREAM, Settings(boxes_per_query_max=4))
    scaled = Comparison(">", Arithmetic("*", column("d"), Param("c0", DOUBLE), DOUBLE), Literal(1.0, DOUBLE))
    constants = pa.table({"c0": np.arange(1000.0)})
    assert len(check(query_of(scaled), constants, STREAM, SETTINGS).residuals) == 1000
    with pytest.raises(
        RegisterError, match=r"1,000 distinct derived attributes.*at most 999.*residuals_per_stream_max"
    ):
        check(query_of(scaled), constants, STREAM, Settings(residuals_per_stream_max=999))
    # What was registered under a higher cap is still built.
    group = Group(query_of(many), pa.table({f"c{k}": [k] for k in range(5)}), 1)
    assert Segment.build(STREAM, [group], strategy="scan").ids.tolist() == [1]


CATALOG = Catalog({"trade": STREAM}, {"stock": Table("stock", (Column("id", BIGINT),), ("id",))})
STOCK = Scan(0, "stock", True, "stock", Window())
ONE = (("one", Literal(1, BIGINT)),)


@pytest.mark.parametrize(
    ("root", "sources", "reason"),
    [
        (Project(TRADE, ONE), (TRADE,), None),
        (Project(Select(TRADE, Literal(True, BOOLEAN)), ONE), (TRADE,), None),
        (Project(STOCK, ONE), (STOCK,), "'stock' is not a stream"),
        (Distinct(Project(TRADE, ONE)), (TRADE,), "DISTINCT"),
        (GroupBy(TRADE, (), (("n", Aggregate("count", None, False, BIGINT)),), None), (TRADE,), "aggregates"),
        (Project(Join((TRADE, STOCK), None), ONE), (TRADE, STOCK), r"joins 2 sources \(t, stock\)"),
        (SetOperation("except", True, Project(TRADE, ONE), Project(TRADE, ONE)), (TRADE,), "EXCEPT"),
    ],
)
def test_the_family_takes_selections_and_names_what_it_refuses(
    root: Node, sources: tuple[Scan, ...], reason: str | None
) -> None:
    found = refusal(Query(root, sources, (), ""), CATALOG)
    assert FORMS[0].name == "selection"
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert re.search(reason, found)


def test_describe_speaks_the_language_of_the_query() -> None:
    predicate = And(
        (
            Comparison(">=", column("d"), Param("c0", DOUBLE)),
            Comparison("=", column("s"), Param("c1", STRING)),
            Comparison("<", Arithmetic("*", column("d2"), Param("c2", DOUBLE), DOUBLE), Literal(5.0, DOUBLE)),
        )
    )
    shown = describe(query_of(predicate), {"c0": 1.5, "c1": "a", "c2": 2.0}, STREAM)
    low, factor, high = (literal_text(Literal(v, DOUBLE)) for v in (1.5, 2.0, 5.0))
    assert shown["boxes"] == f"1: t.d >= {low} AND t.s = 'a' AND t.d2 * {factor} < {high}"
    assert shown["attributes"] == f"t.d, t.s, t.d2 * {factor}"
    assert shown["derived attributes"] == f"t.d2 * {factor}"
    assert "t.s (equality)" in str(shown["access attributes"])
    assert ":c0" in str(describe(query_of(predicate), None, STREAM)["boxes"])
    assert describe(query_of(None), None, STREAM)["boxes"] == "1: every row"
    assert describe(query_of(Literal(False, BOOLEAN)), None, STREAM)["boxes"] == "0: it is never true"


def test_opening_a_segment_takes_a_millisecond() -> None:
    writer_types: dict[str, DataType] = {"c0": DOUBLE, "c1": DOUBLE}
    predicate = And(
        (
            Comparison(">=", column("d"), Param("c0", writer_types["c0"])),
            Comparison("<=", column("d"), Param("c1", DOUBLE)),
        )
    )
    lo = np.arange(10_000.0)
    group = Group(query_of(predicate), pa.table({"c0": lo, "c1": lo + 3}), 0)
    segment = Segment.build(STREAM, [group], strategy=SETTINGS.strategy)
    arrays, meta = segment.arrays(), segment.meta()
    best = min(_seconds(lambda: Segment.from_arrays(arrays, meta)) for _ in range(5))
    assert best < 0.01  # about 0.1 ms on an idle core


def _seconds(action: Any) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
