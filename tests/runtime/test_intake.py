"""What users hand in: definitions, lengths of time, rows. Each refusal shows its message."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from weir.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Column, Stream
from weir.algebra.schema import decimal as decimal_type
from weir.errors import PushError, RegisterError, StreamError
from weir.runtime.intake import as_table, parse_columns, parse_length, rows_for

STREAM = Stream(
    "trade",
    (
        Column("name", STRING),
        Column("price", DOUBLE),
        Column("n", INT),
        Column("big", BIGINT),
        Column("cost", decimal_type(10, 2)),
        Column("on_sale", BOOLEAN),
        Column("day", DATE),
        Column("ts", TIMESTAMP),
    ),
    "ts",
    None,
)


def test_columns_are_read_with_types() -> None:
    assert parse_columns("a int, b decimal(10, 2), c timestamp", "s") == (
        Column("a", INT),
        Column("b", decimal_type(10, 2)),
        Column("c", TIMESTAMP),
    )


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("a", "stream: column 'a' of 's' is not `name type`"),
        ("a strin", "stream: column 'a' of 's' has type 'strin', expected one of int, bigint, double, "
         "decimal(p,s) with p at most 18, string, boolean, date, timestamp; did you mean 'string'?"),
        ("a decimal(30,2)", "stream: column 'a' of 's' is decimal(30,2), expected a precision of 1 to 18"),
        ("a int, A double", "stream: column 'a' occurs 2 times in 's', expected once"),
    ],
)  # fmt: skip
def test_bad_columns_are_refused(ddl: str, message: str) -> None:
    with pytest.raises(StreamError) as refused:
        parse_columns(ddl, "s")
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "us"), [("1 hour", 3_600_000_000), ("90 seconds", 90_000_000), (5, 5_000_000), ("forever", None)]
)
def test_lengths(text: str | int, us: int | None) -> None:
    assert parse_length(text, "keep") == us


@pytest.mark.parametrize("text", ["soon", "1 month", "-1 hour", "0 seconds", "99999999999 days"])
def test_bad_lengths_are_refused(text: str) -> None:
    with pytest.raises(StreamError, match="keep is"):
        parse_length(text, "keep")


def test_rows_as_dicts_arrow_and_pandas_agree() -> None:
    ts = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    row = {
        "name": "x", "price": 1.5, "n": 1, "big": 2**62, "cost": decimal.Decimal("1.25"), "on_sale": True,
        "day": datetime.date(2026, 1, 1), "ts": ts,
    }  # fmt: skip
    from_dicts = rows_for([row], STREAM)
    assert from_dicts.to_pylist() == [row]
    assert rows_for(from_dicts.to_pandas(), STREAM).to_pylist()[0]["big"] == 2**62
    assert rows_for({k: [v] for k, v in row.items()}, STREAM).to_pylist() == [row]
    assert rows_for([{**row, "name": None}], STREAM).to_pylist()[0]["name"] is None


def test_only_optional_columns_may_be_missing() -> None:
    ts = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    columns = parse_columns("a int, b int null, c string default 'x, y', d double default 2, e boolean DEFAULT true, "
                            "ts timestamp", "s")  # fmt: skip
    stream = Stream("s", columns, "ts", None)
    assert rows_for([{"a": 1, "TS": ts}], stream).to_pylist() == [
        {"a": 1, "b": None, "c": "x, y", "d": 2.0, "e": True, "ts": ts}
    ]
    assert rows_for([{"a": 1, "ts": ts}, {"a": 2, "c": None, "ts": ts}], stream)["c"].to_pylist() == ["x, y", None]
    assert rows_for([{"a": 1}], stream, is_stamped=True)["ts"].to_pylist() == [None]
    for rows, says in (
        ([{"ts": ts}], r"the rows for stream 's' do not have column 'a', which the stream has; give it"),
        ([{"a": 1}], r"do not have column 'ts', its time"),
        ({"a": [1]}, r"do not have column 'ts', its time"),
        ([{"a": 1, "ts": ts}, {"ts": ts}], r"row 1 \(counted from 0\) for stream 's' does not have column 'a'"),
    ):
        with pytest.raises(PushError, match=says):
            rows_for(rows, stream)
    assert (
        rows_for([], stream).num_rows == rows_for({}, stream).num_rows == rows_for(pd.DataFrame(), stream).num_rows == 0
    )
    dated = Stream("s", parse_columns("d date default '2026-01-01', t timestamp default '2026-01-01 00:00:00', ts "
                                      "timestamp", "s"), "ts", None)  # fmt: skip
    day = datetime.date(2026, 1, 2)
    assert rows_for([{"d": day, "ts": ts}, {"ts": ts}, {"d": None, "ts": ts}], dated)["d"].to_pylist() == [
        day, datetime.date(2026, 1, 1), None
    ]  # fmt: skip
    assert rows_for([{"ts": ts}], dated)["t"].to_pylist() == [ts]
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers())
    with pytest.raises(PushError, match="are not valid"):
        rows_for({"a": [1], "c": broken, "ts": [ts]}, stream)
    for ddl in (
        "a bigint default 99999999999999999999",
        "a int default {[]:1}",
        "a int default x",
        "a int default 'x'",
        "a boolean default 1",
        "a int default [1]",
        "a int nul",
    ):
        with pytest.raises(StreamError, match=r"the default of column 'a'|is not `name type`"):
            parse_columns(ddl, "s")


def test_nan_is_null_unless_arrow_says_otherwise() -> None:
    stream = Stream("s", parse_columns("d double, ts timestamp", "s"), "ts", None)
    ts = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    nan = float("nan")
    for rows in (
        [{"d": nan, "ts": ts}],
        {"d": [nan], "ts": [ts]},
        {"d": np.array([nan]), "ts": [ts]},
        pd.DataFrame({"d": [nan], "ts": [ts]}),
    ):
        assert rows_for(rows, stream)["d"].to_pylist() == [None]
    found = rows_for(pa.table({"d": pa.array([nan]), "ts": pa.array([ts])}), stream)["d"].to_pylist()
    assert found[0] != found[0]


def test_a_parameter_may_be_nan() -> None:
    nan = float("nan")
    for given in ({"x": [nan, None]}, [{"x": nan}, {"x": None}], pd.DataFrame({"x": [nan, 1.0]})):
        table = as_table(given, "parameters", RegisterError)
        assert table["x"].null_count == (0 if isinstance(given, pd.DataFrame) else 1)
        assert table["x"][0].as_py() != table["x"][0].as_py()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"prize": 1.0}], "push: column 'prize' is not in stream 'trade' (name, price, n, big, cost, on_sale, day, "
         "ts); did you mean 'price'?"),
        ([{"price": "dear"}], "push: column 'price' of stream 'trade' expects double"),
        ([{"n": 2**40}], "push: column 'n' of stream 'trade' expects int"),
        ([{"n": 1.5}], "push: column 'n' of stream 'trade' expects int"),
        ([{"cost": decimal.Decimal("1.999")}], "push: column 'cost' of stream 'trade' expects decimal(10,2)"),
        ({"name": pa.array([1])}, "push: column 'name' of stream 'trade' expects string, got int64"),
        ({"price": pa.array(["1"])}, "push: column 'price' of stream 'trade' expects double, got string"),
        ([7], "push: a row for stream 'trade' is a int, expected a dict"),
        (7, "push: rows for stream 'trade' is a int, expected an Arrow table"),
        ("rows", "push: rows for stream 'trade' is a str, expected an Arrow table"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused(rows: object, message: str) -> None:
    with pytest.raises(PushError) as refused:
        rows_for(rows, STREAM)
    assert str(refused.value).startswith(message), str(refused.value)
