"""Parsing: windows, parameters, positions and limits."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace

import pytest
from sqlglot import exp

from tests.marks import few_are_quick
from tests.sql.market import SETTINGS
from weir.errors import RegisterError
from weir.sql.parse import Parsed, parse
from weir.sql.windows import Edge, WindowClause

SECOND, HOUR = 1_000_000, 3_600_000_000


def parsed(text: str) -> Parsed:
    return parse(text, SETTINGS)


def edges(clause: WindowClause | None) -> tuple[object, object]:
    assert clause is not None

    def plain(edge: Edge | None) -> object:
        if edge is None:
            return "NOW"
        return (edge.relative, edge.offset_us) if edge.param is None else (edge.relative, edge.param, edge.unit_us)

    return plain(clause.begin), plain(clause.end)


@pytest.mark.parametrize(
    ("clause", "begin", "end"),
    [
        ("BEGIN NOW - INTERVAL 1 HOUR END NOW", (True, -HOUR), "NOW"),
        ("begin now - interval '1' hour end now()", (True, -HOUR), "NOW"),
        ("BEGIN NOW - INTERVAL '1 hour' END (NOW)", (True, -HOUR), "NOW"),
        ("BEGIN (NOW - 10) END (NOW)", (True, -10 * SECOND), "NOW"),
        ("BEGIN NOW() - (INTERVAL 90 MINUTES) END NOW - 5", (True, -5_400 * SECOND), (True, -5 * SECOND)),
        ("BEGIN NOW - 0.5 END NOW + INTERVAL 2 MILLISECONDS", (True, -500_000), (True, 2_000)),
        ("BEGIN NOW - INTERVAL -3 DAYS END NOW + 0", (True, 3 * 24 * HOUR), (True, 0)),
        ("BEGIN TIMESTAMP '1970-01-02' END NOW", (False, 24 * HOUR), "NOW"),
        ("BEGIN '1970-01-01 01:00:00+01:00' END '1970-01-01T00:00:01.5Z'", (False, 0), (False, 1_500_000)),
        ("BEGIN 10 END 20.25", (False, 10 * SECOND), (False, 20_250_000)),
        ("BEGIN -5 END 5", (False, -5 * SECOND), (False, 5 * SECOND)),
        ("BEGIN :a END :b", (False, "a", SECOND), (False, "b", SECOND)),
        ("BEGIN NOW - :w END NOW + :end", (True, "w", -SECOND), (True, "end", SECOND)),
        ("BEGIN NOW - INTERVAL :w HOURS END NOW;", (True, "w", -HOUR), "NOW"),
    ],
)
def test_begin_end(clause: str, begin: object, end: object) -> None:
    assert edges(parsed(f"SELECT * FROM trade WHERE price > 5 {clause}").window) == (begin, end)


@pytest.mark.parametrize(
    ("source", "begin"),
    [
        ("trade [RANGE 1 HOUR] t", (True, -HOUR)),
        ("trade t [RANGE INTERVAL '1' HOUR]", (True, -HOUR)),
        ("trade AS t [range '60 minutes']", (True, -HOUR)),
        ("trade [RANGE :w SECOND]", (True, "w", -SECOND)),
        ("trade [BEGIN NOW - 3600 END NOW] AS t", (True, -HOUR)),
    ],
)
def test_range_of_one_source(source: str, begin: object) -> None:
    found = parsed(f"SELECT * FROM weather w, {source}, stock")
    (window,) = found.source_windows
    assert edges(window.clause) == (begin, "NOW")
    tables = {t.name: found.window_of(t) for t in found.ast.find_all(exp.Table)}
    assert tables == {"weather": None, "trade": window.clause, "stock": None}


def test_rows_of_sources_are_aligned_with_their_tables() -> None:
    found = parsed(
        "SELECT * FROM trade a [ROWS 100] JOIN trade [ROWS :n] b ON a.name = b.name UNION SELECT * FROM trade"
    )
    by_start = sorted(found.ast.find_all(exp.Table), key=lambda t: t.this.meta["start"])
    windows = [found.window_of(t) for t in by_start]
    assert [w and (w.rows, w.rows_param) for w in windows] == [(100, None), (None, "n"), None]


def test_begin_and_end_may_be_names() -> None:
    found = parsed(
        "SELECT begin, t.end, begin * begin AS x FROM log t WHERE begin < 5 AND t.begin > end BEGIN NOW - 9 END NOW"
    )
    assert edges(found.window) == ((True, -9 * SECOND), "NOW")
    assert sorted({c.name for c in found.ast.find_all(exp.Column)}) == ["begin", "end"]


def test_case_has_an_end_of_its_own() -> None:
    found = parsed("SELECT CASE WHEN a > 1 THEN 2 END FROM trade BEGIN NOW - 9 END NOW")
    assert edges(found.window) == ((True, -9 * SECOND), "NOW")
    assert found.ast.find(exp.Case) is not None


def test_positions_stay_true_behind_window_clauses() -> None:
    text = "SELECT price\nFROM trade [RANGE 1\n HOUR] t\nWHERE prize > 5"
    column = next(c for c in parsed(text).ast.find_all(exp.Column) if c.name == "prize")
    start = column.this.meta["start"]
    assert text[start : start + 5] == "prize"


def test_parameters_in_order_of_first_use() -> None:
    found = parsed("SELECT :b FROM trade [RANGE :w HOUR] WHERE price > :a AND price < :b BEGIN NOW - :from_ END :z")
    assert found.params == ("b", "w", "a", "from_", "z")
    assert [found.text[s] for s in found.param_starts] == [":"] * 5


def test_set_operations_bind_as_in_the_standard() -> None:
    ast = parsed("SELECT a FROM t UNION SELECT a FROM u INTERSECT SELECT a FROM v").ast
    assert isinstance(ast, exp.Union)
    assert isinstance(ast.expression.unnest(), exp.Intersect)
    ast = parsed("SELECT a FROM t EXCEPT SELECT a FROM u UNION ALL SELECT a FROM v").ast
    assert isinstance(ast, exp.Union)
    assert isinstance(ast.this, exp.Except)


NESTED = {
    "parentheses": lambda n: "SELECT * FROM trade WHERE " + "(" * n + "a > 1" + ")" * n,
    "not": lambda n: "SELECT * FROM trade WHERE " + "NOT " * n + "a",
    "minus": lambda n: "SELECT * FROM trade WHERE a > " + "- " * n + "1",
    "functions": lambda n: "SELECT * FROM trade WHERE " + "abs(" * n + "a" + ")" * n + " > 1",
    "queries": lambda n: "(" * n + "SELECT * FROM trade" + ")" * n,
    "subqueries": lambda n: "SELECT * FROM (" * n + "trade" + ")" * n,
    "not and parentheses": lambda n: "SELECT * FROM trade WHERE " + "NOT (" * (n // 2) + "a" + ")" * (n // 2),
    "brackets": lambda n: "SELECT a" + "[" * n + "1" + "]" * n + " FROM trade",
    "unclosed": lambda n: "SELECT " + "(" * n,
    "types": lambda n: "SELECT CAST(a AS " + "ARRAY<" * n + "INT" + ">" * n + ") FROM trade",
    "intervals": lambda n: "SELECT * FROM trade WHERE a > " + "INTERVAL " * n,
    "case": lambda n: "SELECT " + "CASE WHEN a THEN " * n + "1" + " END" * n + " FROM trade",
}


@pytest.mark.parametrize("kind", few_are_quick(list(NESTED), quick=3))
def test_ten_thousand_levels_are_refused_quickly(kind: str) -> None:
    text = NESTED[kind](10_000)
    roomy = replace(SETTINGS, sql_chars_max=10_000_000)
    started = time.process_time()
    with pytest.raises(RegisterError) as refusal:
        parse(text, roomy)
    assert time.process_time() - started < 1
    assert refusal.value.line == 1


@pytest.mark.parametrize("kind", ["parentheses", "not", "minus", "functions", "queries", "not and parentheses"])
def test_two_hundred_levels_are_taken(kind: str) -> None:
    limit_before, stack_before = sys.getrecursionlimit(), threading.stack_size()
    parse(NESTED[kind](200), SETTINGS)
    assert (sys.getrecursionlimit(), threading.stack_size()) == (limit_before, stack_before)


def test_not_before_parentheses_does_not_add_up() -> None:
    parse("SELECT * FROM trade WHERE " + " AND ".join(["NOT (a)"] * 500), SETTINGS)


def test_a_ten_megabyte_text_is_refused_before_it_is_read() -> None:
    started = time.process_time()
    with pytest.raises(RegisterError, match="the SQL text has 10,000,000 characters, at most 100,000 are taken"):
        parse("x" * 10_000_000, SETTINGS)
    assert time.process_time() - started < 0.1
