"""What users hand in: definitions, lengths of time, rows. Each refusal shows its message."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from weir.algebra.ddl import KNOWN
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
        ("a strin", f"stream: column 'a' of 's' has type 'strin', expected one of {KNOWN}; did you mean 'string'?"),
        ("a decimal(40,2)", "stream: column 'a' of 's' has type 'decimal(40,2)', expected a precision of 1 to 38"),
        ("a decimal(5,6)", "stream: column 'a' of 's' has type 'decimal(5,6)', expected a precision of 1 to 38"),
        ("a varchar", "stream: column 'a' of 's' has type 'varchar', expected how many characters it has, as in "
         "varchar(10)"),
        ("a char(0)", "stream: column 'a' of 's' has type 'char(0)', expected how many characters"),
        ("a int(3)", "stream: column 'a int(3)' of 's' is not `name type`"),
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


NARROW = "t tinyint, s smallint, f float, v varchar(3), c char(3), n timestamp_ntz null, ts timestamp"


def narrow(**given: object) -> dict[str, list[object]]:
    row = {"t": 1, "s": 2, "f": 0.5, "v": "a", "c": "b", "ts": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}
    return {name: [value] for name, value in (row | given).items()}


def test_rows_of_narrow_types() -> None:
    stream = Stream("s", parse_columns(NARROW, "s"), "ts", None)
    naive = datetime.datetime(2026, 1, 1, 12)
    given = narrow(t=-128, s=32767, f=0.1, v="ab   ", c="x", n=naive)
    for rows in (rows_for(given, stream), rows_for(pd.DataFrame(given), stream), rows_for(pa.table(given), stream)):
        assert rows.schema.types[:6] == [
            pa.int8(), pa.int16(), pa.float32(), pa.string(), pa.string(), pa.timestamp("us")
        ]  # fmt: skip
        (row,) = rows.to_pylist()
        assert [row[name] for name in "tsfvcn"] == [-128, 32767, 0.10000000149011612, "ab ", "x  ", naive]
    aware = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    assert rows_for([{k: v[0] for k, v in narrow(n=aware).items()}], stream)["n"].to_pylist() == [naive]
    assert rows_for(narrow(f=float("inf")), stream)["f"].to_pylist() == [float("inf")]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"t": 128}, "column 't' of stream 's' expects tinyint, got int64: Integer value 128"),
        ({"s": -32769}, "column 's' of stream 's' expects smallint"),
        ({"t": 1.5}, "column 't' of stream 's' expects tinyint"),
        ({"f": 1e39}, "column 'f' of stream 's' expects float, got double: a number is beyond the range of float"),
        ({"f": 2**24 + 1}, "column 'f' of stream 's' expects float"),
        ({"v": "abcd"}, r"column 'v' of stream 's' expects varchar\(3\), got a text of 4 characters: 'abcd'"),
        ({"c": " abc"}, r"column 'c' of stream 's' expects char\(3\), got a text of 4 characters"),
    ],
)
def test_rows_that_narrow_types_do_not_take(wrong: dict[str, object], says: str) -> None:
    stream = Stream("s", parse_columns(NARROW, "s"), "ts", None)
    with pytest.raises(PushError, match=says):
        rows_for(narrow(**wrong), stream)


def test_defaults_of_decimals_keep_their_digits() -> None:
    long = "12345678901234567890.123456789012345678"
    columns = parse_columns(f"a decimal(38,18) default {long}, b decimal(5,2) default '0.5', ts timestamp", "s")
    stream = Stream("s", columns, "ts", None)
    (row,) = rows_for({"ts": [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]}, stream).to_pylist()
    assert (row["a"], row["b"]) == (decimal.Decimal(long), decimal.Decimal("0.50"))
    for wrong in ("a decimal(5,2) default 0.125", "a decimal(5,2) default 1000", "a decimal(5,2) default x"):
        with pytest.raises(StreamError, match="the default of column"):
            parse_columns(wrong, "s")


def test_defaults_of_narrow_types() -> None:
    ddl = "t tinyint default 5, f real default 0.1, c char(3) default 'x', v varchar(2) null, ts timestamp"
    stream = Stream("s", parse_columns(ddl, "s"), "ts", None)
    (row,) = rows_for({"ts": [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]}, stream).to_pylist()
    assert [row[name] for name in "tfcv"] == [5, 0.10000000149011612, "x  ", None]
    for wrong in ("t tinyint default 300", "c char(2) default 'abc'"):
        with pytest.raises(StreamError, match="the default of column"):
            parse_columns(wrong, "s")


LOADED = (
    "xs array<tinyint>, p struct<a:int, B:string, c:array<double>> null, m map<string,bigint> null, raw binary null, "
    "ts timestamp"
)


def loaded(**given: object) -> dict[str, object]:
    return {"xs": [1], "ts": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), **given}


def test_rows_with_payloads() -> None:
    stream = Stream("s", parse_columns(LOADED, "s"), "ts", None)
    rows = [
        loaded(xs=[1, None, 2.0], p={"a": 1, "b": "x", "c": [0.5, float("nan")]}, m={"k": 1}, raw=b"\x00\xff"),
        loaded(xs=(), p={"b": None}, m=[("k", 1), ("l", None)]),
        loaded(xs=None, m={}),
    ]
    as_columns = {name: [row.get(name) for row in rows] for name in ("xs", "p", "m", "raw", "ts")}
    found = rows_for(rows, stream)
    assert found.to_pylist() == [
        {
            "xs": [1, None, 2],
            "p": {"a": 1, "B": "x", "c": [0.5, None]},
            "m": [("k", 1)],
            "raw": b"\x00\xff",
            "ts": rows[0]["ts"],
        },
        {
            "xs": [],
            "p": {"a": None, "B": None, "c": None},
            "m": [("k", 1), ("l", None)],
            "raw": None,
            "ts": rows[0]["ts"],
        },
        {"xs": None, "p": None, "m": [], "raw": None, "ts": rows[0]["ts"]},
    ]
    for given in (as_columns, pd.DataFrame(as_columns), found, found.to_batches()[0], found.combine_chunks()):
        assert rows_for(given, stream).equals(found)
    other = pa.table({"ts": found["ts"], "xs": found["xs"].cast(pa.large_list(pa.int64())),
                      "p": pa.array([{"c": [1], "a": 7}] * 3)})  # fmt: skip
    assert rows_for(other, stream)["p"].to_pylist() == [{"a": 7, "B": None, "c": [1.0]}] * 3
    (first, *_) = (c.type for c in stream.columns)
    assert str(first) == "array<tinyint>"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"xs": [1, 300]}, r"column 'xs' of stream 's' expects array<tinyint>: .*300"),
        ({"xs": [1.5]}, r"value\[0\] is 1.5, expected tinyint"),
        ({"xs": "text"}, "value is a str, expected a list"),
        ({"xs": ["x"]}, "column 'xs' of stream 's' expects"),
        ({"p": {"a": 1, "z": 2}}, "value has a field 'z', which struct<a:int,B:string,c:array<double>> does not have"),
        ({"p": [1]}, "value is a list, expected a dict"),
        ({"p": {"c": [{"x": 1}]}}, "column 'p' of stream 's' expects"),
        ({"m": {"k": 1.5}}, r"value\['k'\] is 1.5, expected bigint"),
        ({"m": 3}, "value is a int, expected a dict or a list of pairs"),
        ({"m": {None: 1}}, "column 'm' of stream 's' expects"),
        ({"raw": 5}, "column 'raw' of stream 's' expects binary"),
    ],
)
def test_rows_that_payloads_do_not_take(wrong: dict[str, object], says: str) -> None:
    stream = Stream("s", parse_columns(LOADED, "s"), "ts", None)
    for given in ([loaded(**wrong)], {name: [value] for name, value in loaded(**wrong).items()}):
        with pytest.raises(PushError, match=says):
            rows_for(given, stream)


def test_arrow_columns_that_payloads_do_not_take() -> None:
    stream = Stream("s", parse_columns(LOADED, "s"), "ts", None)
    plain = pa.table({"xs": [[1]], "ts": pa.array([0]).cast(pa.timestamp("us", "UTC"))})
    for name, column in (
        ("xs", pa.array([[300]])),
        ("xs", pa.array(["x"])),
        ("p", pa.array([{"a": 1, "z": 2}])),
        ("p", pa.array([[1]])),
        ("m", pa.array([{"k": 1}])),
        ("raw", pa.array(["text"])),
    ):
        given = plain.drop_columns([name] if name in plain.column_names else []).append_column(name, column)
        with pytest.raises(PushError, match=f"column '{name}' of stream 's' expects"):
            rows_for(given, stream)
