"""Bad input gets a clear error: every message of the language, word by word, with its position.

`bad_input.txt` holds a query and, indented, the exact message (see tests/sql/golden.py).
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sql.golden import blocks
from tests.sql.golden import check as check_golden
from tests.sql.market import CATALOG, SETTINGS, lowered
from weir.algebra.format import tree_text
from weir.errors import RegisterError
from weir.sql.lower import lower
from weir.sql.parse import parse
from weir.sql.shapes import shape_of

CASES_FILE = Path(__file__).parent / "bad_input.txt"


def refusal(sql: str) -> RegisterError:
    with pytest.raises(RegisterError) as caught:
        lowered(sql)
    return caught.value


def test_messages() -> None:
    check_golden(CASES_FILE, lambda sql: str(refusal(sql)))


@pytest.mark.parametrize("sql", [sql for sql, _ in blocks(CASES_FILE)])
def test_every_error_says_where(sql: str) -> None:
    error = refusal(sql)
    assert error.line is not None
    assert error.column is not None


@pytest.mark.parametrize("sql", ["", "  \n ", ";", ";;", "-- a comment", "/* a comment */"])
def test_nothing_to_register(sql: str) -> None:
    assert str(refusal(sql)) == (
        "register: the SQL text is empty; "
        "a standing query is one SELECT, or several joined by UNION, EXCEPT or INTERSECT"
    )


@pytest.mark.parametrize("sql", [None, 5, b"SELECT * FROM trade"])
def test_a_query_is_a_text(sql: object) -> None:
    with pytest.raises(RegisterError, match="the SQL must be a text, got"):
        parse(sql, SETTINGS)  # type: ignore[arg-type]  # that is the point


def test_a_text_that_is_no_unicode() -> None:
    assert str(refusal("SELECT price FROM trade WHERE name = '\ud800'")) == (
        "register: the SQL text holds a character that is no Unicode, line 1, column 39"
    )


def test_lines_are_counted() -> None:
    error = refusal("SELECT price\nFROM trade [RANGE 1 HOUR] t\n\n   WHERE t.prize > 5")
    assert (error.line, error.column) == (4, 12)


@pytest.mark.parametrize("chain", [" + ".join(["price"] * 5_000) + " > 1", " = ".join(["urgent"] * 5_000)])
def test_deep_trees_are_refused_quickly(chain: str) -> None:
    started = time.process_time()
    assert "an expression nests more than 190 levels deep" in str(refusal("SELECT price FROM trade WHERE " + chain))
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "condition",
    [
        "NOT (urgent AND (urgent OR " * 60 + "urgent" + "))" * 60,
        "abs(price + " * 90 + "price" + ")" * 90 + " > 1",
        "price - (" * 180 + "price" + ")" * 180 + " > 1",
    ],
    ids=["logic", "functions", "differences"],
)
def test_as_deep_as_allowed_works_everywhere(condition: str) -> None:
    query = lowered("SELECT price FROM trade WHERE " + condition)
    shape = shape_of(query)
    again = lower(parse(shape.text, SETTINGS), CATALOG, shape.param_types)
    assert shape_of(again).text == shape.text
    assert tree_text(query)


@pytest.mark.slow
def test_long_flat_lists_are_taken() -> None:
    terms = [f"price = {i}" for i in range(5_000)]
    query = lowered("SELECT price FROM trade WHERE " + " OR ".join(terms))
    assert len(shape_of(query).slots) == 5_000
    in_list = "SELECT price FROM trade WHERE price IN (" + ", ".join(str(i) for i in range(5_000)) + ")"
    assert shape_of(lowered(in_list)).text == "SELECT s0.price FROM trade s0 WHERE s0.price IN (:c0)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT {} FROM trade",
        "SELECT price FROM {}",
        "SELECT {}(price) FROM trade",
        "SELECT {0}.price FROM trade {0}x",
        "SELECT :{} FROM trade",
        "SELECT price FROM trade WHERE day = '{}'",
        "SELECT price FROM trade [RANGE 1 {}]",
    ],
)
def test_long_names_are_cut_in_messages(text: str) -> None:
    started = time.process_time()
    assert len(str(refusal(text.format("x" * 40_000)))) < 2_500
    assert time.process_time() - started < 1


def test_chains_of_unions_have_a_limit() -> None:
    chain = " UNION ALL ".join(["SELECT price FROM trade"] * 500)
    assert "levels deep" in str(refusal(chain))


# Fuzzing: whatever the text is, it is a query or a RegisterError.

SOUP = (
    "SELECT FROM WHERE AND OR NOT IN LIKE BETWEEN IS NULL TRUE FALSE GROUP BY HAVING UNION ALL EXCEPT INTERSECT "
    "DISTINCT JOIN INNER LEFT CROSS ON USING AS CASE WHEN THEN ELSE END BEGIN NOW INTERVAL TIMESTAMP DATE CAST RANGE "
    "ROWS trade weather stock t w price qty volume fee urgent day area ts name category symbol count sum avg min max "
    "abs int bigint double decimal string HOUR SECONDS DAY MONTH ( ) [ ] , . ; : :p :lo ? * + - / % = <> < <= > >= "
    "== != <=> || 0 1 2.5 1e3 .5 1e400 99999999999999999999 'a' '2026-01-31' '%' \"b\" `c` 'open ORDER LIMIT OVER WITH "
    "PARTITION { } -- /* */ @ # $ ~ ^ & | \\ \n"
)
WORDS = SOUP.split(" ")

GOOD = (
    "SELECT name, price * 2 AS p FROM trade t [RANGE 1 HOUR] WHERE price > 5 AND NOT (qty IN (1, 2) OR name LIKE 'a%')",
    "SELECT t.area, count(*) FROM trade t JOIN weather w USING (area) WHERE abs(t.ts - w.ts) <= INTERVAL 5 SECONDS "
    "GROUP BY t.area HAVING count(*) > :n BEGIN NOW - INTERVAL 1 HOUR END NOW",
    "SELECT area FROM trade UNION ALL (SELECT area FROM weather EXCEPT SELECT symbol FROM stock) BEGIN 5 END :e",
)


def check(text: str) -> None:
    try:
        parsed = parse(text, SETTINGS)
        query = lower(parsed, CATALOG)
    except RegisterError:
        return
    assert shape_of(query).text


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
@example("SELECT ² FROM trade GROUP BY ²")
@example("SELECT * FROM trade [ROWS ²]")
@example("SELECT CAST(price AS decimal(²)) FROM trade")
def test_any_words(text: str) -> None:
    check(text)
    check("SELECT price FROM trade WHERE " + text)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check(text)
    check(f"SELECT price FROM trade WHERE {text}")


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(GOOD), st.data())
def test_damaged_queries(text: str, data: st.DataObject) -> None:
    words = text.split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) - 1))
        action = data.draw(st.sampled_from(["drop", "double", "replace", "swap"]))
        if action == "drop" and len(words) > 1:
            del words[at]
        elif action == "double":
            words.insert(at, words[at])
        elif action == "replace":
            words[at] = data.draw(st.sampled_from(WORDS))
        else:
            other = data.draw(st.integers(0, len(words) - 1))
            words[at], words[other] = words[other], words[at]
    check(" ".join(words))


def test_the_good_ones_are_good() -> None:
    for text in GOOD:
        parse(text, replace(SETTINGS, sql_chars_max=len(text)))
        lowered(text)
