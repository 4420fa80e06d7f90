"""Classification: the family, why others refused, and windows against `keep`."""

from __future__ import annotations

import pytest

from tests.sql.golden import FIXTURES, check
from tests.sql.market import CATALOG, SETTINGS, TRADE, WEATHER, lowered
from weir.algebra.nodes import Query
from weir.algebra.schema import Catalog
from weir.errors import RegisterError
from weir.families import forms
from weir.plan.classify import classify
from weir.plan.explain import explain
from weir.plan.window_limits import check_window, length_text

HOUR_US = 3_600_000_000


def refusal(sql: str) -> str:
    with pytest.raises(RegisterError) as caught:
        classify(lowered(sql), CATALOG, SETTINGS)
    return str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM trade",
        "SELECT name, price * 2 FROM trade WHERE price > 5 OR name LIKE 'a%'",
        "SELECT name FROM trade [RANGE 1 HOUR]",
        "SELECT name FROM trade [ROWS 5] WHERE urgent",
        "SELECT area FROM weather BEGIN '2026-01-31' END NOW",
        "SELECT area FROM weather BEGIN '2026-01-31' END '2026-02-01'",
        "SELECT name FROM trade BEGIN NOW - :w END NOW",
        "SELECT name FROM trade BEGIN NOW - INTERVAL 1 HOUR END NOW - INTERVAL 59 MINUTES",
    ],
)
def test_selections_are_taken(sql: str) -> None:
    found = classify(lowered(sql), CATALOG, SETTINGS)
    assert (found.forms, found.refusals) == (("selection",), ())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.name FROM trade t JOIN weather w ON t.area = w.area",
        "SELECT t.name FROM weather w, trade t WHERE t.area = w.area AND t.price < 5 AND (w.wind > 3 OR t.urgent)",
        "SELECT t.name FROM trade t [ROWS 5] JOIN weather w USING (area) BEGIN NOW - 60 END NOW",
        "SELECT a.name FROM trade a JOIN trade b ON a.name = b.area AND a.qty = b.qty",
    ],
)
def test_equi_joins_of_two_streams_are_taken(sql: str) -> None:
    query = lowered(sql)
    names = ", ".join(s.alias for s in query.sources)
    found = classify(query, CATALOG, SETTINGS)
    assert (found.forms, found.refusals) == (("join",), (("selection", f"it joins 2 sources ({names})"),))


def test_joins_of_many_streams_are_taken() -> None:
    query = lowered("SELECT t.name FROM trade t JOIN weather w USING (area) JOIN weather v ON v.area = w.area")
    assert classify(query, CATALOG, SETTINGS).family == "many-join"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.name FROM trade t JOIN weather w ON t.price * 2 < w.wind",
        "SELECT t.name FROM trade t, weather w WHERE t.area = w.area OR t.price < 5",
        "SELECT t.name FROM trade t, weather w WHERE t.price < 5",
    ],
)
def test_joins_of_two_that_nothing_connects_are_taken_too(sql: str) -> None:
    found = classify(lowered(sql), CATALOG, SETTINGS)
    assert found.family == "many-join"
    assert "neither an equality without parameters nor a bounded difference connects t with w" in found.refusals[1][1]


def test_a_window_of_a_join_is_refused_where_it_stands() -> None:
    said = refusal("SELECT t.name FROM weather w [RANGE 3 DAYS], trade t [RANGE 2 HOURS] WHERE t.area = w.area")
    assert "a window of 'trade' begins 2 hours before now, and the stream keeps 1 hour" in said
    assert "line 1, column 54" in said


def test_refusals() -> None:
    check(FIXTURES / "refused.txt", refusal)


def test_a_refused_query_can_still_be_explained() -> None:
    query = lowered("SELECT name FROM trade t WHERE EXISTS (SELECT 1 FROM weather v FULL JOIN weather w ON t.urgent)")
    found = classify(query, CATALOG, SETTINGS, refuse=False)
    assert found.family == ""
    assert [stage for stage, _ in found.refusals] == ["finish"]


def test_the_first_form_that_takes_a_query_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Form:
        def __init__(self, name: str, reason: str | None) -> None:
            self.name, self.reason = name, reason

        def refusal(self, core: Query, catalog: Catalog) -> str | None:
            return self.reason

        def see(self, core: Query, catalog: Catalog) -> str:
            return f"seen by {self.name}"

    monkeypatch.setattr(forms, "FORMS", [Form("one", "too wide"), Form("two", None), Form("three", None)])
    found = classify(lowered("SELECT DISTINCT name FROM trade"), CATALOG, SETTINGS)
    assert (found.forms, found.seen, found.refusals) == (("two",), ("seen by two",), (("one", "too wide"),))


WINDOWED = "SELECT name FROM trade BEGIN NOW - :a END NOW - :b"


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"a": -10, "b": 0}, None),
        ({"a": -HOUR_US, "b": -1}, None),
        ({"a": -10}, None),
        ({}, None),
        ({"a": -HOUR_US - 1, "b": 0}, "begins 1 hour 1 µs before now, and the stream keeps 1 hour"),
        ({"a": -5, "b": -5}, "ends where it begins"),
        ({"a": -5, "b": -65_000_005}, "ends 1 minute 5 seconds before it begins"),
    ],
)
def test_edges_that_are_parameters(constants: dict[str, int], message: str | None) -> None:
    window = lowered(WINDOWED).sources[0].window
    if message is None:
        check_window(window, TRADE, constants)
    else:
        with pytest.raises(RegisterError, match=message):
            check_window(window, TRADE, constants)


def test_row_counts_that_are_parameters() -> None:
    window = lowered("SELECT name FROM trade [ROWS :n]").sources[0].window
    check_window(window, TRADE, {"n": 1})
    check_window(window, TRADE)
    with pytest.raises(RegisterError, match="a window of 0 rows of 'trade' is empty"):
        check_window(window, TRADE, {"n": 0})


def test_snapshots_that_are_parameters() -> None:
    window = lowered("SELECT area FROM weather BEGIN :a END :b").sources[0].window
    check_window(window, WEATHER, {"a": 1, "b": 2})
    with pytest.raises(RegisterError, match="ends 1 µs before it begins"):
        check_window(window, WEATHER, {"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("length_us", "text"),
    [
        (0, "0 seconds"),
        (1, "1 µs"),
        (5_400_000_000, "1 hour 30 minutes"),
        (172_800_000_000, "2 days"),
        (-1_000_000, "-1 second"),
    ],
)
def test_lengths_in_words(length_us: int, text: str) -> None:
    assert length_text(length_us) == text


def test_explain() -> None:
    def produce(sql: str) -> str:
        query = lowered(sql)
        found = classify(query, CATALOG, SETTINGS, refuse=False)
        return explain(query, CATALOG, found, {"boxes": 1, "state": "materialised since batch 3"})

    check(FIXTURES / "explain.txt", produce)
