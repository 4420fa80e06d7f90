"""docs/language.md: every example is a query of the language, and its catalog is the one the tests use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sql.market import CATALOG, SETTINGS, lowered
from weir.answer.keeping import cannot_be_kept
from weir.errors import RegisterError
from weir.plan.classify import classify
from weir.plan.registration import plan_registration
from weir.sql.shapes import shape_of

TEXT = (Path(__file__).parents[2] / "docs" / "language.md").read_text()


def fenced(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def examples() -> list[str]:
    return [sql.strip() for block in fenced("sql") for sql in re.split(r";[^\n]*\n", block) if sql.strip()]


def test_there_are_examples_of_every_part() -> None:
    assert len(examples()) > 20
    together = " ".join(examples())
    for word in (
        "JOIN",
        "USING",
        "GROUP BY",
        "HAVING",
        "UNION ALL",
        "EXCEPT",
        "DISTINCT",
        "ROWS",
        "RANGE",
        "LIKE",
        ":lo",
    ):
        assert word in together


@pytest.mark.parametrize("sql", examples())
def test_example(sql: str) -> None:
    query = lowered(sql)
    assert query.output
    assert shape_of(query).text


def test_the_shape_that_is_shown() -> None:
    (shown,) = fenced("sql-shape")
    before = TEXT[: TEXT.index("```sql-shape")]
    sql = re.findall(r"```sql\n(.*?)```", before, re.DOTALL)[-1]
    assert shape_of(lowered(sql)).text == shown.strip()


def test_the_catalog_that_is_shown() -> None:
    (block,) = fenced("python")
    shown = dict(re.findall(r'w\.(?:stream|table)\("(\w+)",\s*"([^"]*)"', block))
    relations = (*CATALOG.streams.values(), *CATALOG.tables.values())
    assert shown == {r.name: ", ".join(f"{c.name} {c.type}" for c in r.columns) for r in relations}


def test_the_refusal_that_is_shown() -> None:
    with pytest.raises(RegisterError) as caught:
        classify(
            lowered("SELECT name FROM trade t WHERE EXISTS (SELECT 1 FROM trade v FULL JOIN trade w ON v.qty = t.qty)"),
            CATALOG,
            SETTINGS,
        )
    assert str(caught.value) in TEXT


KEPT = TEXT[TEXT.index("## What can be kept") :]


def refusal(sql: str) -> str | None:
    """Why the answer of a query of this page cannot be kept."""
    return cannot_be_kept(plan_registration(sql, None, CATALOG, SETTINGS, refuse=False))


@pytest.mark.parametrize("sql", [sql for sql in examples() if sql in KEPT])
def test_what_is_said_to_be_kept_can_be(sql: str) -> None:
    assert refusal(sql) is None


def test_what_is_said_not_to_be_kept_is_refused_in_these_words() -> None:
    assert sum(sql in KEPT for sql in examples()) >= 5
    rows = re.findall(r"^\| `(SELECT .*)` \| (.*) \|$", KEPT, re.MULTILINE)
    assert len(rows) >= 4
    for sql, words in rows:
        assert refusal(sql) == words


@pytest.mark.parametrize("setting", ["sql_chars_max", "sql_depth_max"])
def test_limits_are_settings(setting: str) -> None:
    assert f"`{setting}`" in TEXT
    assert hasattr(SETTINGS, setting)
