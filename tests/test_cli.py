"""The command line: the same verbs as the API, errors on one line, exit code 1."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import weir
from weir.cli import _line, main
from weir.runtime.run import BatchFigures
from weir.testing.direct import DirectWeir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_whole_session(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "w")

    def say(*words: str) -> str:
        assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    say("stream", folder, "trade", "name string, price double, ts timestamp", "--time", "ts", "--keep", "1 hour")
    assert say("register", folder, "SELECT name FROM trade WHERE price < 10").strip() == "0"
    params = tmp_path / "limits.csv"
    params.write_text("lo,hi\n0,5\n5,50\n")
    assert (
        say("register", folder, "SELECT name FROM trade WHERE price BETWEEN :lo AND :hi", "--params", str(params))
        == "1 2\n"
    )
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"name": "a", "price": 1.5, "ts": "2026-03-01 12:00:00"}\n'
        '{"name": "b", "price": 20.0, "ts": "2026-03-01 12:00:01"}\n'
    )
    assert say("push", folder, "trade", str(rows)) == "push 0: 2 rows\n"
    say("run", folder, "--available-now")
    assert json.loads(say("fetch", folder, "0")) == {"name": "a"}
    assert say("fetch", folder, "2", "--format", "csv").splitlines() == ['"name"', '"b"']
    assert say("fetch", folder, "0", "--at", "2026-03-01 11:59:59") == ""
    changes = say("changes", folder, "0").splitlines()
    assert changes[0] == '+ {"name": "a"}'
    assert changes[1].startswith("token 0:")
    assert "family: selection" in say("explain", folder, "0")
    assert "finish: " in say("explain", folder, "SELECT name, count(*) FROM trade GROUP BY name")
    say("drop", folder, "1", "2")
    assert [json.loads(line)["id"] for line in say("queries", folder).splitlines()] == [0]
    assert say("late", folder, "trade") == ""
    say("vacuum", folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fetch", "{folder}", "0"], "open: '{folder}' is not a weir"),
        (["stream", "{folder}", "s", "a int", "--time", "ts"], "stream: time column 'ts' is not in stream 's' (a)"),
        (["push", "{folder}", "s", "rows.xml"], "open: file 'rows.xml' ends in '.xml'"),
    ],
)
def test_errors_are_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "w")
    assert main([w.format(folder=folder) for w in words]) == 1
    said = capsys.readouterr().err
    assert said.startswith(message.format(folder=folder))
    assert said.count("\n") == 1


def test_registered_queries_are_kept_if_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "w")

    def say(*words: str) -> str:
        assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    say("stream", folder, "trade", "name string, price double, ts timestamp", "--time", "ts", "--keep", "1 hour")
    params = tmp_path / "limits.csv"
    params.write_text("lo,hi\n0,5\n5,50\n")
    between = "SELECT name FROM trade WHERE price BETWEEN :lo AND :hi"
    assert say("register", folder, "SELECT name FROM trade WHERE price < 10", "--kept") == "0\n"
    assert say("register", folder, between, "--params", str(params), "--kept") == "1 2\n"
    assert say("register", folder, between, "--params", str(params)) == "3 4\n"
    listed = [json.loads(line) for line in say("queries", folder).splitlines()]
    assert {row["id"]: row["kept"] for row in listed} == {0: True, 1: True, 2: True, 3: False, 4: False}
    assert "kept: from its first batch on" in say("explain", folder, "2")
    assert "kept: can be (kept=True)" in say("explain", folder, "SELECT name FROM trade")
    assert main(["register", folder, "SELECT name, now() AS seen FROM trade", "--kept"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("register: the query's answer cannot be kept: it compares with current_timestamp")
    assert said.count("\n") == 1


def test_a_line_of_a_batch_says_what_came_to_kept_answers_and_went() -> None:
    plain = BatchFigures(3, 1_200, 45, 6, 0, 0, 310.4, 100.0, 150.0, 40.0, 0, 0, 0)
    assert _line(plain) == "batch 3: 1,200 events, 45 matches, 6 late, 310 ms"
    told = dataclasses.replace(plain, came=1_001, went=2)
    assert _line(told) == f"{_line(plain)}, 1,001 rows came to kept answers and 2 went"
    lost = dataclasses.replace(plain, given_up=7)
    assert _line(lost) == f"{_line(plain)}, 7 answers could not be kept (see `weir queries`)"


def test_tables_are_defined_changed_and_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "w")

    def say(*words: str) -> str:
        assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    columns = "symbol string, place string, company string null, since timestamp"
    given = (folder, "stock", columns, "--key", "symbol, place", "--time", "since", "--retroactive")
    assert say("table", *given) == "table 'stock' is defined\n"
    rows = tmp_path / "rows.csv"
    rows.write_text("symbol,place,company,since\nA,x,Apple,2026-01-01T00:00:00Z\n")
    assert say("upsert", folder, "stock", str(rows)) == "push 0: 1 rows to put in\n"
    keys = tmp_path / "keys.csv"
    keys.write_text("symbol,place,since\nA,x,2026-01-02T00:00:00Z\n")
    assert say("delete", folder, "stock", str(keys)) == "push 1: 1 keys to take out\n"
    assert main(["delete", folder, "stock", str(rows)]) == 1
    assert capsys.readouterr().err.startswith("push: column 'company' is not in the keys of table 'stock'")
    assert say("drop-table", folder, "stock") == "table 'stock' is dropped\n"


def test_the_clock_is_advanced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "w")
    assert main(["stream", folder, "trade", "name string, ts timestamp", "--time", "ts"]) == 0
    capsys.readouterr()
    assert main(["advance", folder, "2025-06-01 12:00:00"]) == 0
    assert capsys.readouterr().out == "push 0: now is at least 2025-06-01 12:00:00\n"
    direct = DirectWeir(weir.open(folder), takes_pushes=True)
    assert direct.batch({}).now_us == 1_748_779_200_000_000
    for time, says in (("noon", "push: 'noon' is not a time"), ("9000-01-01", "push: the clock cannot be advanced to")):
        assert main(["advance", folder, time]) == 1
        said = capsys.readouterr().err
        assert said.startswith(says)
        assert said.count("\n") == 1
    assert main(["advance", str(tmp_path / "none"), "2025-06-01"]) == 1
    assert capsys.readouterr().err.startswith("open: ")


def test_queries_have_names_and_are_found_and_replaced_by_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "w")

    def say(*words: str) -> str:
        assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    def listed(*words: str) -> list[object]:
        return [json.loads(line)["id"] for line in say("queries", folder, *words).splitlines()]

    say("stream", folder, "trade", "name string, price double, ts timestamp", "--time", "ts", "--keep", "1 hour")
    below = "SELECT name FROM trade WHERE price < :top"
    params = tmp_path / "tops.csv"
    params.write_text("top,user\n1.5,ann\n2.5,bob\n3.5,cy\n")
    ours = ("register", folder, below, "--params", str(params), "--name", "user", "--owner", "us")
    assert say(*ours) == "0 2\n"
    params.write_text("top,user\n1.5,ann\n9.5,bob\n3.5,cy\n")
    assert (
        say("register", folder, below, "--params", str(params), "--name", "user", "--owner", "us") == "0 0\n3 3\n2 2\n"
    )
    plain = ("register", folder, "SELECT name FROM trade", "--name", "all", "--tag", "a", "--tag", "b")
    assert say(*plain) == say(*plain) == "4\n"
    assert listed() == [0, 2, 3, 4]
    assert listed("--owner", "us", "--text", "PRICE < 9.5") == [3]
    assert listed("--tag", "b") == listed("--name", "all") == [4]
    assert '"a b"' in say("queries", folder, "--format", "csv")
    one = tmp_path / "one.jsonl"
    one.write_text('{"top": 4.5}\n')
    assert say("replace", folder, "bob", "--params", str(one)) == "5\n"
    assert say("replace", folder, "4", "--sql", "SELECT price FROM trade") == "6\n"
    assert say("fetch", folder, "bob") == ""
    assert "family: selection" in say("explain", folder, "all")
    assert say("changes", folder, "all").startswith("token -1:0:6")
    assert main(["replace", folder, "all", "--params", str(params)]) == 1
    assert "has 3 rows of parameters, expected one" in capsys.readouterr().err
    assert main(["fetch", folder, "4"]) == 1
    assert capsys.readouterr().err == "query: query 4 was replaced by query 6; ask for it by its name, 'all'\n"
    assert say("drop", folder, "--owner", "us") == "dropped 3\n"
    assert say("drop", folder, "--name", "all") == "dropped 1\n"
    assert main(["drop", folder, "--tag", "a"]) == 1
    assert capsys.readouterr().err.startswith("query: there is no query with the tag 'a'")
