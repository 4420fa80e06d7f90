"""A query taken apart: cores are queries of their own, and the finish says how their results become the answer."""

from __future__ import annotations

import pytest

from tests.sql.market import lowered
from weir.algebra.nodes import ColumnRef, Project, walk
from weir.plan.cores import cores_of
from weir.plan.finishes import CoreRows, Once, Together, finish_text
from weir.plan.from_rows import NoFinishError


def test_a_plain_query_is_its_own_core() -> None:
    query = lowered("SELECT name FROM trade WHERE price < 5")
    found = cores_of(query)
    assert found.cores == (query,)
    assert found.finish == CoreRows(0)
    assert found.is_additive


@pytest.mark.parametrize(
    ("sql", "cores", "finish", "additive"),
    [
        ("SELECT DISTINCT name FROM trade", 1, Once(CoreRows(0)), False),
        (
            "SELECT area FROM trade UNION ALL SELECT area FROM weather",
            2,
            Together((CoreRows(0), CoreRows(1))),
            True,
        ),
        ("SELECT area FROM trade UNION SELECT area FROM weather", 2, Once(Together((CoreRows(0), CoreRows(1)))), False),
        (
            "SELECT area FROM trade UNION ALL SELECT DISTINCT area FROM weather UNION ALL SELECT name FROM trade",
            3,
            Together((CoreRows(0), Once(CoreRows(1)), CoreRows(2))),
            False,
        ),
        # What UNION eliminates need not be eliminated below it.
        (
            "SELECT DISTINCT area FROM trade UNION SELECT area FROM weather",
            2,
            Once(Together((CoreRows(0), CoreRows(1)))),
            False,
        ),
    ],
)
def test_the_finish(sql: str, cores: int, finish: object, additive: bool) -> None:
    found = cores_of(lowered(sql))
    assert (len(found.cores), found.finish, found.is_additive) == (cores, finish, additive)


def test_sources_of_every_core_are_counted_from_0() -> None:
    found = cores_of(
        lowered(
            "SELECT t.name FROM trade t WHERE t.price < 5 UNION ALL "
            "SELECT a.name FROM weather w JOIN trade a ON w.area = a.area WHERE w.wind > :wind"
        )
    )
    for core in found.cores:
        assert [scan.source for scan in core.sources] == list(range(len(core.sources)))
        assert isinstance(core.root, Project)
        used = {c.source for _, e in core.root.columns for c in walk(e) if isinstance(c, ColumnRef)}
        assert used <= set(range(len(core.sources)))
        assert [c.name for c in core.output] == [name for name, _ in core.root.columns]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT name, count(*) FROM trade GROUP BY name", "GROUP BY and aggregates combine rows"),
        ("SELECT area FROM trade EXCEPT SELECT area FROM weather", "EXCEPT compares"),
        ("SELECT area FROM trade UNION ALL (SELECT area FROM trade INTERSECT SELECT area FROM weather)", "INTERSECT"),
    ],
)
def test_what_no_finish_does(sql: str, reason: str) -> None:
    with pytest.raises(NoFinishError, match=reason):
        cores_of(lowered(sql))


def test_the_text_of_a_finish() -> None:
    finish = cores_of(lowered("SELECT area FROM trade UNION SELECT area FROM weather")).finish
    assert finish_text(finish) == "every different row once of all rows of core 0, core 1"
