"""Long chains of AND and OR cost in proportion to their length, and have a limit."""

from __future__ import annotations

import cProfile

import pytest

from weir.algebra.schema import INT, TIMESTAMP, Catalog, Column, Stream
from weir.errors import RegisterError
from weir.plan.registration import constants_table, plan_registration
from weir.settings import Settings

CATALOG = Catalog({"e": Stream("e", (Column("a", INT), Column("ts", TIMESTAMP)), "ts", None)})
SETTINGS = Settings(boxes_per_query_max=100_000)


def text(word: str, op: str, terms: int) -> str:
    return "SELECT a FROM e WHERE " + f" {word} ".join(f"a {op} {k}" for k in range(terms))


def calls(sql: str) -> int:
    """How many functions a registration calls, whatever the machine does beside it."""

    def register() -> None:
        planned = plan_registration(sql, None, CATALOG, SETTINGS)
        planned.check(constants_table(planned, None))

    profile = cProfile.Profile()
    profile.runcall(register)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(("word", "op"), [("AND", "<>"), ("OR", "=")])
def test_twice_the_terms_are_twice_the_work(word: str, op: str) -> None:
    calls(text(word, op, 10))  # caches are filled
    assert calls(text(word, op, 400)) < 2.5 * calls(text(word, op, 200))


def test_there_is_a_limit_that_names_the_place() -> None:
    with pytest.raises(RegisterError, match=r"has 2,099 ANDs and ORs, at most 2,000 are taken, line 1, column \d+"):
        plan_registration(text("OR", "=", 2100), None, CATALOG, Settings(sql_terms_max=2_000))
