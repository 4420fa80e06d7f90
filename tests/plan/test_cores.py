"""A query taken apart: cores are queries of their own, and the finish says how their results become the answer."""

from __future__ import annotations

import pytest

from tests.sql.market import lowered
from weir.algebra.format import node_sql
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
        (
            "SELECT name FROM trade t WHERE EXISTS (SELECT 1 FROM weather v FULL JOIN weather w ON v.area = t.area)",
            "a FULL JOIN that looks",
        ),
        (
            "SELECT name FROM trade t WHERE EXISTS (SELECT 1 FROM weather v LEFT JOIN "
            "(weather w JOIN LATERAL (SELECT w.wind + t.price AS x) q ON TRUE) ON v.area = w.area)",
            "a join below an outer join that looks",
        ),
    ],
)
def test_what_no_finish_does(sql: str, reason: str) -> None:
    with pytest.raises(NoFinishError, match=reason):
        cores_of(lowered(sql))


@pytest.mark.parametrize(
    ("sql", "cores"),
    [
        # A core projects what the finish needs first: keys, and what aggregates are of.
        (
            "SELECT area, sum(price * 2) FROM trade WHERE qty > 5 GROUP BY area",
            ["SELECT s.area AS `k 0`, s.price * 2.0D AS `v 2` FROM trade s WHERE s.qty > 5"],
        ),
        # Queries in FROM that are blocks, names of WITH too, are part of the core; conditions go into it.
        (
            "WITH t AS (SELECT name, price + 1 AS p, area FROM trade WHERE urgent) "
            "SELECT t.name FROM t JOIN weather w ON t.area = w.area WHERE t.p < 5 AND w.wind > 3",
            [
                "SELECT s.name FROM trade s, weather r "
                "WHERE s.urgent AND s.area = r.area AND s.price + 1.0D < 5.0D AND r.wind > 3.0D"
            ],
        ),
        # An outer join has a core for each side; conditions go down to the side whose rows are kept.
        (
            "SELECT t.name, w.wind FROM trade t LEFT JOIN weather w ON t.area = w.area AND w.wind > 3 WHERE t.qty > 5",
            [
                "SELECT s.name AS `0.name`, s.area AS `0.area` FROM trade s WHERE s.qty > 5",
                "SELECT s.wind AS `1.wind`, s.area AS `1.area` FROM weather s WHERE s.wind > 3.0D",
            ],
        ),
        # A subquery that looks around is a core of its own; the condition of both is the finish's.
        (
            "SELECT name FROM trade t WHERE EXISTS (SELECT 1 FROM weather w WHERE w.area = t.area AND w.wind > 3)",
            [
                "SELECT s.name AS `0.name`, s.area AS `0.area` FROM trade s",
                "SELECT s.area AS `1.area` FROM weather s WHERE s.wind > 3.0D",
            ],
        ),
    ],
)
def test_cores_do_what_they_can(sql: str, cores: list[str]) -> None:
    found = cores_of(lowered(sql)).cores
    assert [node_sql(core.root, {0: "s", 1: "r"}) for core in found] == cores


def test_the_text_of_a_finish() -> None:
    finish = cores_of(lowered("SELECT area FROM trade UNION SELECT area FROM weather")).finish
    assert finish_text(finish) == "every different row once of all rows of core 0, core 1"
