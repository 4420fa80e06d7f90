"""Arguments of a wrong Python type are WeirErrors that say what was expected, and change nothing."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weir
from weir import WeirError

NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
ROW = {"a": 1, "b": 2, "s": "x", "d": 1.5, "ts": NOW}
ONE = "SELECT a FROM e WHERE b > :x"

CASES: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "a date is no time": (lambda w, q: q.fetch(at=NOW.date()), "is not a time, but a date"),
    "a list is no time": (lambda w, q: q.fetch(at=[]), "is not a time, but a list"),
    "a bool is no time": (lambda w, q: q.fetch(at=True), "is not a time, but a bool"),
    "a number too large": (lambda w, q: w.register(ONE, {"x": 2**70}), "parameters cannot be read as columns"),
    "numbers too large": (lambda w, q: w.register_many(ONE, {"x": [2**70]}), "parameters cannot be read as columns"),
    "an object": (lambda w, q: w.register(ONE, {"x": object()}), "parameters cannot be read as columns"),
    "a list of values": (lambda w, q: w.register(ONE, [5]), "parameters are a list, expected a dict"),
    "a key that is a number": (lambda w, q: w.register(ONE, {5: 5}), "is 5, expected a text"),
    "keys that are numbers": (lambda w, q: w.register_many(ONE, {5: [5]}), "is 5, expected a text"),
    "many of nothing": (lambda w, q: w.register_many(ONE, None), "parameters is a NoneType"),
    "an unnamed parameter": (lambda w, q: w.register("SELECT a FROM e WHERE a > ?"), "give it a name: :lo"),
    "SQL that is a number": (lambda w, q: w.register(5), "SQL text, got int"),
    "one row as a dict": (lambda w, q: w.push("e", ROW), r"write one row as \[\{…\}\]"),
    "rows that are a text": (lambda w, q: w.push("e", "abc"), "rows for stream 'e' is a str"),
    "a row that is a number": (lambda w, q: w.push("e", [1]), "is a int, expected a dict"),
    "a column that is a number": (lambda w, q: w.push("e", [{5: 1}]), "is 5, expected a text"),
    "a bigint too large": (lambda w, q: w.push("e", [{**ROW, "b": 2**70}]), "column 'b' of stream 'e' expects bigint"),
    "a stream that is a number": (lambda w, q: w.push(5, [ROW]), "the name of a stream is 5, expected a text"),
    "late rows of a number": (lambda w, q: w.late(5), "the name of a stream is 5, expected a text"),
    "an id that is a text": (lambda w, q: w.query("abc"), "there is no query named 'abc'"),
    "an id that is nothing": (lambda w, q: w.query(None), "None is not the id of a query"),
    "an id with a fraction": (lambda w, q: w.query(1.5), "1.5 is not the id of a query"),
    "an id too large": (lambda w, q: w.query(2**70), "there is no query"),
    "a clock that is a list": (lambda w, q: w.advance([]), "push: .* is not a time, but a list"),
    "a clock that is nothing": (lambda w, q: w.advance(None), "push: None is not a time, but a NoneType"),
    "dropping a text": (lambda w, q: w.drop("abc"), "'abc' is not the id of a query"),
    "dropping texts": (lambda w, q: w.drop(["x"]), "'x' is not the id of a query"),
    "dropping an id too large": (lambda w, q: w.drop([2**70]), "there is no query"),
    "dropping nothing": (lambda w, q: w.drop(None), "None is not the id of a query"),
    "a query's name that is a number": (
        lambda w, q: w.register(ONE, {"x": 1}, name=5),
        "query is 5, expected a text",
    ),
    "an empty name": (lambda w, q: w.register(ONE, {"x": 1}, name=" "), "the name of a query, ' ', is empty"),
    "a long name": (lambda w, q: w.register(ONE, {"x": 1}, name="a" * 129), "is longer than 128 characters"),
    "a name like an id": (lambda w, q: w.register(ONE, {"x": 1}, name="12"), "is a number, and could be taken for"),
    "a name of half a character": (lambda w, q: w.register(ONE, {"x": 1}, name="\ud800"), "cannot be read as texts"),
    "one tag as a text": (lambda w, q: w.register(ONE, {"x": 1}, tags="hot"), r"one tag is written tags=\['alerts'\]"),
    "a tag that is a number": (lambda w, q: w.register(ONE, {"x": 1}, tags=[5]), "a tag is 5, expected a text"),
    "an empty tag": (
        lambda w, q: w.register(ONE, {"x": 1}, tags=[""]),
        "a tag is '' of 0 characters, expected",
    ),
    "too many tags": (lambda w, q: w.register(ONE, {"x": 1}, tags=map(str, range(101))), "there are 101 tags, at most"),
    "an owner that is a number": (lambda w, q: w.register(ONE, {"x": 1}, owner=5), "the owner is 5, expected a text"),
    "names of no column": (lambda w, q: w.register_many(ONE, {"x": [1]}, names="user"), "no column of the parameters"),
    "names that are numbers": (lambda w, q: w.register_many(ONE, {"x": [1]}, names="x"), "query is 1, expected a text"),
    "too few names": (lambda w, q: w.register_many(ONE, {"x": [1, 2]}, names=["a"]), "1 names for 2 queries"),
    "a name twice": (lambda w, q: w.register_many(ONE, {"x": [1, 2]}, names=["a", "a"]), "'a' is given to 2 queries"),
    "a name that is missing": (
        lambda w, q: w.register_many(ONE, {"x": [1, 2]}, names=["a", None]),
        "is None, expected",
    ),
    "names that are one number": (lambda w, q: w.register_many(ONE, {"x": [1]}, names=7), "names are a int, expected"),
    "looking for a number": (lambda w, q: w.queries(name=5), "the name to look for is 5, expected a text"),
    "looking for an id that is a text": (lambda w, q: w.queries(id="5"), "'5' is not the id of a query"),
    "dropping a tag that nobody has": (lambda w, q: w.drop(tag="x"), "there is no query with the tag 'x'"),
    "replacing by nothing": (lambda w, q: w.replace(0), "neither a text nor parameters were given"),
    "replacing a list": (lambda w, q: w.replace([0], ONE, {"x": 1}), "is not the id of a query"),
    "changing what has no parameters": (lambda w, q: q.change({"x": 1}), "the text of query 0 has no parameters"),
    "changing to a list": (lambda w, q: q.change([1]), "parameters are a list, expected a dict"),
    "a trigger that is no time": (lambda w, q: w.run(trigger="often"), "trigger is 'often', expected a length of time"),
    "a trigger that is a number": (lambda w, q: w.run(trigger=5), "trigger is 5, expected a length of time"),
    "a sink that is a number": (lambda w, q: w.run(sink=5), "sink is a int, expected a function"),
    "a name that is a number": (lambda w, q: w.stream(5, "a int, ts timestamp", time="ts"), "is 5, expected a text"),
    "a time that is nothing": (lambda w, q: w.stream("x", "a int, ts timestamp", time=None), "expected a text"),
    "a folder that is a number": (lambda w, q: weir.open(5), "a int is not a folder"),
    "settings that are a list": (lambda w, q: weir.open("nowhere", settings=[1]), "settings are a list"),
    "a table that is a number": (lambda w, q: w.upsert(5, [ROW]), "the name of a table is 5, expected a text"),
    "dropping a table that is a number": (lambda w, q: w.drop_table(5), "the name of a table is 5, expected a text"),
    "columns that are a number": (lambda w, q: w.table("x", 5, key="a"), "the columns of table 'x' is 5, expected"),
    "a key column that is a number": (lambda w, q: w.table("x", "a int", key=[5]), "a key of table 'x' is 5, expected"),
    "one row as a dict to put in": (lambda w, q: w.upsert("t", {"k": 1, "v": 2}), r"write one row as \[\{…\}\]"),
    "rows to put in that are a text": (lambda w, q: w.upsert("t", "abc"), "rows for table 't' is a str"),
    "a key that is a dict": (lambda w, q: w.delete("t", {"k": 1}), r"write one row as \[\{…\}\]"),
    "keys that are a set": (lambda w, q: w.delete("t", {1, 2}), "rows for the keys of table 't' is a set"),
    "keys of several types": (lambda w, q: w.delete("t", [1, "x"]), "rows for the keys of table 't' cannot be read"),
    "a key that is a text": (lambda w, q: w.delete("t", "x"), "column 'k' of the keys of table 't' expects int"),
    "a key and a row": (
        lambda w, q: w.delete("t", [1, {"k": 2}]),
        "for the keys of table 't' is a int, expected a dict",
    ),
    "a token that is a number": (lambda w, q: q.changes(after=5), "5"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_type_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(tmp_path)
    w = weir.open(tmp_path / "weir")
    w.stream("e", "a int, b bigint, s string, d double, ts timestamp", time="ts")
    w.table("t", "k int, v int null", key="k")
    q = w.register("SELECT a FROM e WHERE a > 3")
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    call, says = CASES[case]
    with pytest.raises(WeirError, match=says):
        call(w, q)
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before
