"""The finish of many queries at once, on rows that are written out here, with answers that are too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.schema import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, Catalog, Column, Stream, Table, array
from weir.answer import many_finish
from weir.answer.many_finish import ManyAnswers, finished_many, projected_many
from weir.answer.slot_marks import refusal
from weir.answer.slot_values import SLOT, Asked, SlotValues
from weir.answer.views import qualified
from weir.families.query_parts import columns_of, condition_of
from weir.plan.finishes import Versions, spelt
from weir.plan.from_rows import LIFETIME
from weir.plan.registration import constants_table, plan_registration
from weir.settings import Settings
from weir.store.row_files import arrow_type

S = Stream(
    "s",
    (
        Column("k", INT),
        Column("g", STRING),
        Column("v", BIGINT),
        Column("xs", array(INT)),
        Column("ts", TIMESTAMP),
    ),
    time="ts",
    keep_us=None,
)
T = Stream("t", (Column("k", INT), Column("x", DOUBLE), Column("ts", TIMESTAMP)), time="ts", keep_us=None)
ITEM = Table("item", (Column("id", INT), Column("name", STRING)), key=("id",))
PART = Table("part", (Column("id", INT), Column("name", STRING)), key=("id",), retroactive=True)
CATALOG = Catalog({"s": S, "t": T}, {"item": ITEM, "part": PART})
ITEMS = [(1, "one"), (2, "two"), (9, "nine")]
Rows = Sequence[tuple[object, ...]]  # of a stream; the last columns may be left out
NAN = float("nan")


def asked_for(
    sql: str, params: Mapping[str, list[object]], rows: Mapping[int, Mapping[str, Rows]], now_us: int = 0
) -> ManyAnswers:
    """The answers over rows by slot and stream; each query has a slot, and a value of each parameter."""
    table = pa.table(dict(params)) if params else None
    planned = plan_registration(sql, table, CATALOG, Settings())
    constants = constants_table(planned, table)
    if table is None:
        constants = constants.take(pa.array([0] * len(rows), pa.int64()))
    asked = Asked(np.array(sorted(rows), np.int64), constants)
    parts = (planned.stored or planned).classified.parts
    assert parts is not None
    tables = []
    for core in parts.cores:
        (scan,) = core.sources
        stream = CATALOG.streams[scan.relation]
        listed = [(slot, row) for slot, found in rows.items() for row in found.get(stream.name, ())]
        columns = {
            f"0.{column.name}": pa.array(
                [0 if column.name == "ts" else row[k] if k < len(row) else None for _, row in listed],
                pa.int64() if column.name == "ts" else arrow_type(column.type),
            ).cast(arrow_type(column.type))
            for k, column in enumerate(stream.columns)
        }
        found_rows, owners = pa.table(columns), np.array([slot for slot, _ in listed], np.int64)
        if (condition := condition_of(core)) is not None:
            places = np.searchsorted(asked.slots, owners)
            true = SlotValues(constants, now_us).true(qualified(condition), found_rows, places)
            found_rows, owners = found_rows.filter(pa.array(true)), owners[true]
        projected = projected_many(columns_of(core), found_rows, owners, asked, now_us)
        assert not projected.failed
        tables.append(projected.table)
    return finished_many(parts.finish, tables, planned.query.output, asked, now_us, items)


def items(asked: Versions) -> pa.Table:
    """All rows of the table; each has held for ever."""
    values = dict(zip(("id", "name"), zip(*ITEMS, strict=True), strict=True))
    columns = {spelt(asked.source, c.name): pa.array(values[c.name], arrow_type(c.type)) for c in asked.columns}
    for name, edge_us in zip(LIFETIME, (-(2**62), 2**62), strict=True):
        columns[spelt(asked.source, name)] = pa.array([edge_us] * len(ITEMS)).cast(arrow_type(TIMESTAMP))
    return pa.table(columns)


def by_slot(found: ManyAnswers) -> dict[int, list[tuple[object, ...]]]:
    answers: dict[int, list[tuple[object, ...]]] = {}
    for slot, *row in zip(*(column.to_pylist() for column in found.table.columns), strict=True):
        answers.setdefault(slot, []).append(tuple(row))
    return answers


def answers(
    sql: str, params: Mapping[str, list[object]], rows: Mapping[int, Mapping[str, Rows]]
) -> dict[int, list[tuple[object, ...]]]:
    found = asked_for(sql, params, rows)
    assert not found.failed, found.failed
    return by_slot(found)


THREE: dict[int, Mapping[str, Rows]] = {
    3: {"s": [(1, "a", 10), (1, "b", 20), (2, "a", 5)], "t": [(1, 1.5), (3, 2.5)]},
    5: {},
    8: {"s": [(2, "b", 1), (None, None, 2), (None, "b", None), (2, "b", 1)], "t": [(2, 0.5), (2, NAN)]},
}


def test_groups_are_those_of_each_query_and_having_has_its_constant() -> None:
    sql = "SELECT k, count(*), sum(v) FROM s GROUP BY k HAVING count(*) > :n"
    assert answers(sql, {"n": [0, 0, 1]}, THREE) == {3: [(1, 2, 30), (2, 1, 5)], 8: [(2, 2, 2), (None, 2, 2)]}
    assert answers(sql, {"n": [1, 0, 5]}, THREE) == {3: [(1, 2, 30)]}


def test_without_keys_each_query_has_one_group_also_without_rows() -> None:
    sql = "SELECT count(*), sum(v), max(g), :a FROM s"
    assert answers(sql, {"a": [7, 8, None]}, THREE) == {
        3: [(3, 35, "b", 7)],
        5: [(0, None, None, 8)],
        8: [(4, 4, "b", None)],
    }
    having = "SELECT count(*) FROM s HAVING count(*) >= :n"
    assert answers(having, {"n": [4, 0, 4]}, THREE) == {5: [(0,)], 8: [(4,)]}


def test_distinct_aggregates_are_those_of_each_query() -> None:
    sql = "SELECT count(DISTINCT k), count(DISTINCT k, g), sum(DISTINCT v), array_sort(collect_set(g)) FROM s"
    found = answers(sql, {}, THREE)
    assert found == {3: [(2, 3, 35, ["a", "b"])], 5: [(0, 0, None, [])], 8: [(1, 1, 3, ["b"])]}


def test_distinct_rows_and_null_keys() -> None:
    assert answers("SELECT DISTINCT k FROM s", {}, THREE) == {3: [(1,), (2,)], 8: [(2,), (None,)]}
    assert answers("SELECT g, count(*) FROM s GROUP BY g", {}, THREE)[8] == [("b", 3), (None, 1)]


def test_limit_and_offset_are_those_of_each_query() -> None:
    sql = "SELECT v FROM s ORDER BY v DESC NULLS LAST LIMIT :n OFFSET :m"
    assert answers(sql, {"n": [2, 5, 1], "m": [0, 0, 1]}, THREE) == {3: [(20,), (10,)], 8: [(1,)]}
    # NULL says nothing, and none are none.
    assert answers(sql, {"n": [None, 1, 0], "m": [2, 0, None]}, THREE) == {3: [(5,)]}


def test_set_operations_compare_rows_of_one_query() -> None:
    assert answers("SELECT k FROM s UNION SELECT k FROM t", {}, THREE) == {3: [(1,), (2,), (3,)], 8: [(2,), (None,)]}
    assert answers("SELECT k FROM s EXCEPT SELECT k FROM t", {}, THREE) == {3: [(2,)], 8: [(None,)]}
    assert answers("SELECT k FROM s EXCEPT ALL SELECT k FROM t", {}, THREE) == {3: [(1,), (2,)], 8: [(None,), (None,)]}
    assert answers("SELECT k FROM s INTERSECT ALL SELECT k FROM t", {}, THREE) == {3: [(1,)], 8: [(2,), (2,)]}
    with_constant = "SELECT k FROM s UNION ALL SELECT :c"
    assert answers(with_constant, {"c": [1, 2, 3]}, THREE)[5] == [(2,)]


def test_windows_are_over_the_rows_of_one_query() -> None:
    sql = "SELECT v, row_number() OVER (ORDER BY v NULLS LAST), sum(v) OVER () FROM s"
    assert answers(sql, {}, THREE) == {
        3: [(10, 2, 35), (20, 3, 35), (5, 1, 35)],
        8: [(1, 1, 4), (2, 3, 4), (None, 4, 4), (1, 2, 4)],
    }


def test_subqueries_that_look_at_nothing_are_those_of_each_query() -> None:
    scalar = "SELECT v FROM s WHERE v >= (SELECT avg(v) + :a FROM s)"
    assert answers(scalar, {"a": [0, 0, -1]}, THREE) == {3: [(20,)], 8: [(1,), (2,), (1,)]}
    among = "SELECT g FROM s WHERE k NOT IN (SELECT k FROM t)"
    assert answers(among, {}, THREE) == {3: [("a",)]}
    exists = "SELECT g FROM s WHERE EXISTS (SELECT 1 FROM t HAVING count(*) >= :n)"
    assert answers(exists, {"n": [3, 0, 2]}, THREE) == {8: [("b",), (None,), ("b",), ("b",)]}


def test_correlated_subqueries_see_rows_of_their_query() -> None:
    sql = "SELECT g, (SELECT count(*) FROM t WHERE t.k = s.k AND t.x > :x) FROM s"
    assert answers(sql, {"x": [2.0, 0.0, 1.0]}, THREE) == {
        3: [("a", 0), ("b", 0), ("a", 0)],
        8: [("b", 1), (None, 0), ("b", 0), ("b", 1)],
    }
    lateral = "SELECT g, x FROM s, LATERAL (SELECT x FROM t WHERE t.k = s.k ORDER BY x DESC LIMIT :n) q"
    assert answers(lateral, {"n": [1, 1, 0]}, THREE) == {3: [("a", 1.5), ("b", 1.5)]}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("LEFT", {3: [(1, 1), (1, 1), (2, None)], 8: [(None, None), (None, None), (2, 2), (2, 2), (2, 2), (2, 2)]}),
        ("RIGHT", {3: [(1, 1), (1, 1), (None, 3)], 8: [(2, 2), (2, 2), (2, 2), (2, 2)]}),
        (
            "FULL",
            {
                3: [(1, 1), (1, 1), (2, None), (None, 3)],
                8: [(None, None), (None, None), (2, 2), (2, 2), (2, 2), (2, 2)],
            },
        ),
    ],
)
def test_outer_joins_join_rows_of_one_query(kind: str, expected: dict[int, Rows]) -> None:
    found = answers(f"SELECT s.k, t.k FROM s {kind} JOIN t ON s.k = t.k", {}, THREE)
    assert {slot: sorted(rows, key=str) for slot, rows in found.items()} == {
        slot: sorted(rows, key=str) for slot, rows in expected.items()
    }


def test_joins_have_the_constants_of_each_query() -> None:
    left = "SELECT s.v, t.x FROM s LEFT JOIN t ON s.k = t.k + :d AND s.v > :v"
    rows: dict[int, Mapping[str, Rows]] = {0: THREE[3], 1: THREE[3], 2: THREE[3]}
    assert answers(left, {"d": [0, 1, -1], "v": [0, 0, 5]}, rows) == {
        0: [(10, 1.5), (20, 1.5), (5, None)],
        1: [(10, None), (20, None), (5, 1.5)],
        2: [(10, None), (20, None), (5, None)],
    }


def test_a_double_is_compared_with_whole_numbers_exactly_in_joins_and_conditions() -> None:
    large = 2**53
    rows: dict[int, Mapping[str, Rows]] = {n: {"s": [(1, "a", large + 1)], "t": [(1, 1.0)]} for n in range(3)}
    params: dict[str, list[object]] = {"d": [float(large), float(large + 2), 0.5]}
    assert answers("SELECT g FROM s GROUP BY g HAVING max(v) > :d", params, rows) == {0: [("a",)], 2: [("a",)]}
    joined = "SELECT t.x FROM s LEFT JOIN t ON s.k = t.k AND (s.v > :d OR t.x < 0)"
    assert answers(joined, params, rows) == {0: [(1.0,)], 1: [(None,)], 2: [(1.0,)]}


def test_the_nearest_row_is_one_of_the_same_query() -> None:
    rows: dict[int, Mapping[str, Rows]] = {
        1: {"s": [(1, "a", 4), (1, "b", 9)], "t": [(1, 3.0), (1, 8.0)]},
        2: {"s": [(1, "c", 7)], "t": [(1, 5.0)]},
    }
    sql = "SELECT g, x FROM s ASOF LEFT JOIN t ON s.k = t.k AND s.v >= t.x + :d"
    assert answers(sql, {"d": [0, 3]}, rows) == {1: [("a", 3.0), ("b", 8.0)], 2: [("c", None)]}


def test_arrays_are_taken_apart_for_each_query() -> None:
    rows: dict[int, Mapping[str, Rows]] = {
        1: {"s": [(1, "a", 0, [1, 2]), (1, "b", 0, [])]},
        4: {"s": [(1, "c", 0, [3, None])]},
    }
    sql = "SELECT g, explode(xs) FROM s"
    assert answers(sql, {}, rows) == {1: [("a", 1), ("a", 2)], 4: [("c", 3), ("c", None)]}


def test_one_copy_of_a_table_serves_all_queries() -> None:
    inner = "SELECT s.v, i.name FROM s LEFT JOIN item i ON s.k = i.id AND i.name > :n"
    found = answers(inner, {"n": ["a", "a", "twa"]}, THREE)
    assert found == {
        3: [(10, "one"), (20, "one"), (5, "two")],
        8: [(1, "two"), (2, None), (None, None), (1, "two")],
    }
    among = "SELECT v FROM s WHERE k NOT IN (SELECT id FROM item WHERE name < :n)"
    assert answers(among, {"n": ["p", "p", "a"]}, THREE) == {3: [(5,)], 8: [(1,), (2,), (None,), (1,)]}
    beside = "SELECT count(*), (SELECT max(name) FROM item) FROM s"
    assert answers(beside, {}, THREE) == {3: [(3, "two")], 5: [(0, "two")], 8: [(4, "two")]}
    alone = "SELECT id FROM item WHERE id > :n ORDER BY id LIMIT :m"
    assert answers(alone, {"n": [1, 0, 9], "m": [1, 2, 5]}, THREE) == {3: [(2,)], 5: [(1,), (2,)]}


def test_a_query_that_fails_leaves_the_others_alone() -> None:
    limit = asked_for("SELECT v FROM s ORDER BY v NULLS LAST LIMIT :n", {"n": [-1, 1, 1]}, THREE)
    assert by_slot(limit) == {8: [(1,)]}
    assert limit.failed == {3: "fetch: LIMIT and OFFSET take 0 or more rows, got -1"}
    scalar = asked_for("SELECT v, (SELECT x FROM t WHERE t.k = s.k) FROM s", {}, THREE)
    assert by_slot(scalar) == {3: [(10, 1.5), (20, 1.5), (5, None)]}
    assert list(scalar.failed) == [8]
    assert "has 2 rows" in scalar.failed[8]
    both = asked_for("SELECT v FROM s WHERE v > (SELECT x FROM t)", {}, {n: THREE[3 + 2 * (n % 2)] for n in range(9)})
    assert set(both.failed) == {0, 2, 4, 6, 8}
    assert both.table.num_rows == 0


def test_what_is_too_large_for_one_query_is_tried_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.answer.finish.PAIRS_MAX", 10)
    rows: dict[int, Mapping[str, Rows]] = {n: {"s": [(1, "a", 0, [n] * (11 if n == 40 else 2))]} for n in range(64)}
    found = asked_for("SELECT explode(xs) FROM s", {}, rows)
    assert list(found.failed) == [40]
    assert "at most 10 are allowed" in found.failed[40]
    assert by_slot(found) == {n: [(n,), (n,)] for n in range(64) if n != 40}


def test_halves_are_tried_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.answer.finish.PAIRS_MAX", 1)
    monkeypatch.setattr(many_finish, "TRIALS_MAX", 6)
    rows: dict[int, Mapping[str, Rows]] = {n: {"s": [(1, "a", 0, [n] * (1 + (n < 32)))]} for n in range(64)}
    found = asked_for("SELECT explode(xs) FROM s", {}, rows)
    answered = by_slot(found)
    assert set(answered) | set(found.failed) == set(range(64)), "each query has an answer or a reason"
    assert not set(answered) & set(found.failed)
    assert set(range(32)) <= set(found.failed)


def test_too_large_texts_of_one_query_do_not_spoil_a_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.values.room.TEXTS_BYTES_MAX", 1_000)
    rows = pa.table({"0.g": ["ab"] * 4})
    planned = plan_registration("SELECT repeat(g, :n) FROM s", pa.table({"n": [1, 600, 2]}), CATALOG, Settings())
    parts = planned.classified.parts
    assert parts is not None
    constants = constants_table(planned, pa.table({"n": [1, 600, 2]}))
    asked = Asked(np.array([2, 4, 6]), constants)
    found = projected_many(columns_of(parts.cores[0]), rows, np.array([6, 2, 4, 6]), asked, 0)
    assert [tuple(row.values()) for row in found.table.to_pylist()] == [(2, "ab"), (6, "abab"), (6, "abab")]
    assert list(found.failed) == [4]


def test_nobody_asked_and_no_rows() -> None:
    nothing = asked_for("SELECT k, count(*) FROM s GROUP BY k", {}, {})
    assert nothing.table.num_rows == 0
    assert nothing.table.column_names[0] == SLOT
    assert nothing.table.schema.field(1).type == pa.int32()
    assert answers("SELECT DISTINCT k FROM s WHERE v IN (SELECT v FROM s)", {}, {2: {}, 3: {}}) == {}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT k, count(*) FROM s GROUP BY k HAVING count(*) > 3", None),
        ("SELECT s.v, i.name FROM s LEFT JOIN item i ON s.k = i.id AND i.name > 'x'", None),
        ("SELECT v FROM s WHERE k IN (SELECT id FROM item)", None),
        ("SELECT i.name FROM part i LEFT JOIN s ON s.k = i.id", "LEFT JOIN"),
        ("SELECT i.name FROM s FULL JOIN part i ON s.k = i.id", "FULL JOIN"),
        ("SELECT v FROM s WHERE k IN (SELECT id FROM item WHERE name < 'x')", "constants"),
        ("SELECT name, (SELECT count(*) FROM s WHERE s.k = i.id) FROM item i", "a subquery"),
        ("SELECT k FROM s UNION ALL SELECT id FROM item", "UNION"),
    ],
)
def test_a_table_that_each_query_would_copy_is_named(sql: str, words: str | None) -> None:
    planned = plan_registration(sql, None, CATALOG, Settings())
    parts = (planned.stored or planned).classified.parts
    assert parts is not None
    found = refusal(parts.finish)
    if words is None:
        assert found is None
    else:
        assert found is not None
        assert "would be copied for each query" in found
        assert words in found
