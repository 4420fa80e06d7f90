"""Bad input gets a clear error and changes nothing: the message, and the folder before and after."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.errors import OpenError, WeirError
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

DEEP = 10_000


@pytest.fixture
def w(tmp_path: Path) -> weir.Weir:
    made = weir.open(tmp_path / "w")
    made.stream("trade", "name string, price double, n int, ts timestamp", time="ts", keep="1 hour")
    made.register("SELECT name FROM trade WHERE price > 1")
    return made


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


BAD: list[tuple[str, Callable[[weir.Weir], object], str]] = [
    ("malformed SQL", lambda w: w.register("SELECT name FROM trade WHERE price >"), "register: "),
    ("no SQL", lambda w: w.register(""), "register: the SQL text is empty"),
    ("not a text", lambda w: w.register(7), "register: a query is SQL text, got int"),  # type: ignore[arg-type]  # on purpose
    (
        "unknown column",
        lambda w: w.register("SELECT name FROM trade WHERE prize < 3"),
        "register: column 'prize' is not in stream 'trade' (name, price, n, ts), line 1, column 30; "
        "did you mean 'price'?",
    ),
    ("unknown stream", lambda w: w.register("SELECT * FROM trades"), "register: "),
    ("wrong type", lambda w: w.register("SELECT name FROM trade WHERE name"), "register: WHERE takes a condition"),
    ("a part that waits", lambda w: w.register("SELECT name FROM trade t WHERE EXISTS (SELECT 1 FROM trade v FULL JOIN trade w ON v.n = t.n)"), "register: a FULL JOIN that looks at the query around it cannot be executed"),
    ("huge literal", lambda w: w.register("SELECT n FROM trade WHERE price < 1e400"), "register: "),
    ("10 MB text", lambda w: w.register("SELECT n FROM trade WHERE n = 1" + " " * 10_000_000), "register: the SQL text has 10,000,031 characters"),
    ("deep nesting", lambda w: w.register("SELECT n FROM trade WHERE " + "(" * DEEP + "n = 1" + ")" * DEEP), "register: "),
    ("deep NOT", lambda w: w.register("SELECT n FROM trade WHERE " + "NOT " * DEEP + "n = 1"), "register: "),
    ("too many boxes", lambda w: w.register("SELECT n FROM trade WHERE " + " OR ".join(f"n = {k}" for k in range(100))), "register: the WHERE clause needs 100"),
    ("window too long", lambda w: w.register("SELECT n FROM trade BEGIN NOW - INTERVAL 2 HOURS END NOW"), "register: a window of 'trade' begins 2 hours before now, and the stream keeps 1 hour"),
    ("parameter missing", lambda w: w.register("SELECT n FROM trade WHERE n = :x"), "register: parameter ':x' has no value"),
    ("parameter misspelt", lambda w: w.register_many("SELECT n FROM trade WHERE n = :limit", {"limmit": [1]}), "register: parameter ':limit' has no column; did you mean 'limmit'?"),
    ("parameter of another type", lambda w: w.register_many("SELECT n FROM trade WHERE n = :x", {"x": ["one"]}), "register: "),
    ("one bad window among many", lambda w: w.register_many("SELECT n FROM trade BEGIN NOW - :w END NOW", {"w": [5, 10**6]}), "register: a window of 'trade' begins"),
    ("NULL window", lambda w: w.register_many("SELECT n FROM trade BEGIN NOW - :w END NOW", {"w": [5, None]}), "register: the window of query 1"),
    ("no rows of parameters", lambda w: w.register_many("SELECT n FROM trade WHERE n = :x", {"x": pa.array([], pa.int64())}), "register: "),
    ("push of another type", lambda w: w.push("trade", [{"price": "dear"}]), "push: column 'price' of stream 'trade' expects double"),
    ("push to no stream", lambda w: w.push("trades", []), "push: there is no stream 'trades'; did you mean 'trade'?"),
    ("stream said otherwise", lambda w: w.stream("trade", "a int, ts timestamp", time="ts"), "stream: 'trade' is already defined as"),
    ("stream without time", lambda w: w.stream("x", "a int", time="ts"), "stream: time column 'ts' is not in stream 'x' (a)"),
    ("drop of nothing", lambda w: w.drop(5), "query: there is no query 5"),
    ("fetch of nothing", lambda w: w.query(5), "query: there is no query 5"),
    ("bad moment", lambda w: w.query(0).fetch(at="noon"), "query: 'noon' is not a time"),
    ("bad token", lambda w: w.query(0).changes(after="yesterday"), "fetch: 'yesterday' is not a token"),
]  # fmt: skip


@pytest.mark.parametrize(("does", "message"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_changes_nothing(w: weir.Weir, does: Callable[[weir.Weir], object], message: str) -> None:
    folder = Path(w.files.location)
    before = everything_in(folder)
    with pytest.raises(WeirError) as refused:
        does(w)
    assert str(refused.value).startswith(message), str(refused.value)[:300]
    assert everything_in(folder) == before


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="there is no setting 'slice'; did you mean 'slices'"):
        weir.open(tmp_path / "x", settings={"slice": 2})
    with pytest.raises(OpenError, match="setting 'slices' takes int, got 'two'"):
        weir.open(tmp_path / "x", settings={"slices": "two"})
    with pytest.raises(OpenError, match="setting 'strategy'"):
        weir.open(tmp_path / "x", settings={"strategy": "magic"})
    assert not (tmp_path / "x").exists()


def test_odd_ranges_are_legal_and_answered_as_sql_does(w: weir.Weir) -> None:
    """NaN, NULL, infinite and inverted bounds are values like others: no error, the oracle's answers."""
    odd = [1.0, math.nan, math.inf, -math.inf, None, -0.0, 5e-324]
    wishes = [(lo, hi) for lo in odd for hi in odd]
    text = "SELECT price FROM trade WHERE price BETWEEN :lo AND :hi"
    queries = w.register_many(text, {"lo": [lo for lo, _ in wishes], "hi": [hi for _, hi in wishes]})
    values = [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, None, 5e-324, 1e308]
    rows = pa.table({"price": values, "ts": pa.array([10**6] * len(values), pa.timestamp("us", "UTC"))})
    full = pa.table(
        {
            "name": pa.nulls(len(values), pa.string()),
            "n": pa.nulls(len(values), pa.int32()),
            **dict(zip(rows.column_names, rows.columns, strict=True)),
        }
    )
    DirectWeir(w, wall_us=10**6).batch({"trade": full})
    found = 0
    for query, (lo, hi) in zip(queries, wishes, strict=True):
        expected = answer(text, {"lo": lo, "hi": hi}, w.catalog, {"trade": full}, 10**6)
        assert differ(expected, query.fetch()) is None, (lo, hi)
        found += expected.num_rows
    assert found > 20
