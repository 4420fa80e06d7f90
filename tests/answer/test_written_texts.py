"""Texts as they were written: a column of them is what each would be by itself, and it is the same query again."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.answer import written_texts
from weir.answer.literal_texts import literal_text
from weir.plan.registration import constants_table, plan_registration

UTC = datetime.UTC
COLUMNS = (
    "s string, i int, b bigint, d double, f float, m decimal(12,3), o boolean, y date, z timestamp_ntz, ts timestamp"
)
WINDOW = " BEGIN NOW - INTERVAL 10 MINUTES END NOW"


@pytest.fixture
def w(tmp_path: Path) -> weir.Weir:
    made = weir.open(tmp_path / "w")
    made.stream("e", COLUMNS, time="ts", keep="1 day")
    return made


CASES: list[tuple[str, dict[str, list[object]], list[str]]] = [
    ("s = :x", {"x": ["a", "it's", "\\", "", "ü\n", None]},
     ["s = 'a'", "s = 'it\\'s'", "s = '\\\\'", "s = ''", "s = 'ü\n'", "s = NULL"]),
    ("i < :x AND b > :y", {"x": [1, -2], "y": [3, 2**40]}, ["i < 1 AND b > 3", "i < -2 AND b > 1099511627776"]),
    ("d < :x", {"x": [1.0, 0.1, 1e300, -0.0, float("nan"), None]},
     ["d < 1E0", "d < 0.1E0", "d < 1e+300", "d < -0E0", "d < nan", "d < NULL"]),
    ("m < :x", {"x": [Decimal("1.500"), Decimal("-0.001")]}, ["m < 1.500", "m < -0.001"]),
    ("o = :x", {"x": [True, False]}, ["o = TRUE", "o = FALSE"]),
    ("y = :x", {"x": [datetime.date(2026, 3, 1)]}, ["y = DATE '2026-03-01'"]),
    ("ts < :x", {"x": [datetime.datetime(2026, 3, 1, 12, tzinfo=UTC), datetime.datetime(2026, 3, 1, 0, 0, 0, 5, UTC)]},
     ["ts < TIMESTAMP '2026-03-01 12:00:00'", "ts < TIMESTAMP '2026-03-01 00:00:00.000005'"]),
    ("i IN (:x)", {"x": [[1, 2], [3], list(range(150))]},
     ["i IN (1, 2)", "i IN (3)", f"i IN ({', '.join(map(str, range(100)))}, /* 50 more */)"]),
    ("i < :x -- not :x\n AND s <> ':x' /* :x */ AND i <> :x", {"x": [7]},
     ["i < 7 -- not :x\n AND s <> ':x' /* :x */ AND i <> 7"]),
    ("i\n=   :x   and  S = 'y'", {"x": [7]}, ["i\n=   7   and  S = 'y'"]),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "params", "expected"), CASES)
def test_values_stand_in_the_place_of_parameters(
    w: weir.Weir, condition: str, params: dict[str, list[object]], expected: list[str]
) -> None:
    sql = f"SELECT i FROM e WHERE {condition}"
    queries = w.register_many(sql, params)
    assert w.queries()["sql"].to_pylist() == [f"SELECT i FROM e WHERE {text}" for text in expected]
    one = w.register(sql, {name: values[0] for name, values in params.items()})
    assert one.text == queries[0].text == f"SELECT i FROM e WHERE {expected[0]}"


@pytest.mark.parametrize(
    ("text", "given", "shown"),
    [
        ("SELECT i FROM e BEGIN NOW - :w END NOW", [600, 1.5, 86_400, datetime.timedelta(hours=3)],
         ["INTERVAL '10' MINUTE", "INTERVAL '1500000' MICROSECOND", "INTERVAL '1' DAY",
          "INTERVAL '3' HOUR"]),
        ("SELECT i FROM e BEGIN NOW - INTERVAL :w MINUTES END NOW", [10, 1.5], ["10", "1.5"]),
        ("SELECT i FROM e WHERE ts > z + INTERVAL :w HOURS", [2, 0.25], ["2", "0.25"]),
    ],
)  # fmt: skip
def test_lengths_of_time_are_as_one_would_write_them(
    w: weir.Weir, text: str, given: list[object], shown: list[str]
) -> None:
    for value in given:
        w.register(text, {"w": value})
    assert w.queries()["sql"].to_pylist() == [text.replace(":w", each) for each in shown]


@pytest.mark.parametrize(("condition", "params", "expected"), [case for case in CASES if "more" not in case[2][-1]])
def test_a_text_that_is_shown_is_the_same_query_again(
    w: weir.Weir, condition: str, params: dict[str, list[object]], expected: list[str]
) -> None:
    for text in expected:
        if not text.endswith(("NULL", "nan")):
            sql = f"SELECT i FROM e WHERE {text}{WINDOW}"
            assert w.register(sql).text == sql


def test_a_long_column_is_made_in_stretches(w: weir.Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_texts, "STRETCH_BYTES", 1_000)
    params = {"x": [f"name {k}" for k in range(100)]}
    w.register_many("SELECT i FROM e WHERE s = :x", params)
    assert w.queries()["sql"].to_pylist() == [f"SELECT i FROM e WHERE s = 'name {k}'" for k in range(100)]


def test_columns_of_values_agree_with_single_ones(w: weir.Weir) -> None:
    """What the column of a type looks like is what one value looks like, but for the digits of doubles."""
    sql = "SELECT i FROM e WHERE s = :s AND b < :b AND y < :y AND ts < :t AND o = :o AND z > :t"
    params = pa.table(
        {
            "s": ["a'b", None],
            "b": [5, None],
            "y": pa.array([datetime.date(1969, 1, 2), None]),
            "t": pa.array([datetime.datetime(1960, 1, 1, 2, 3, 4, 5, UTC), None], pa.timestamp("us", "UTC")),
            "o": [True, None],
        }
    )
    planned = plan_registration(sql, params, w.catalog, w.settings)
    constants = constants_table(planned, params)
    (shown,) = written_texts.texts(planned.written, planned.shape.types, constants)
    w.register_many(sql, params)
    for row, text in enumerate(shown.to_pylist()):
        canonical = w.query(row).sql
        for slot in planned.written.slots:
            type_ = planned.shape.types[slot.constant]
            value = constants[f"c{slot.constant}"][row]
            raw = value.cast(pa.int64()).as_py() if pa.types.is_timestamp(value.type) else value.as_py()
            assert literal_text(raw, type_) in text
            assert literal_text(raw, type_) in canonical
