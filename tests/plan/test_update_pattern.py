"""Update patterns: the five rules of UPA section 5.2, and Figure 6's effect of rewriting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sql.market import CATALOG, lowered
from weir.algebra.nodes import Join, Node
from weir.algebra.rebuild import inputs
from weir.algebra.update_patterns import UpdatePattern
from weir.plan.update_pattern import pattern_of

MONOTONIC, WKS, WK, STR = UpdatePattern


@pytest.mark.parametrize(
    ("sql", "pattern"),
    [
        # leaves
        ("SELECT name FROM trade", WKS),
        ("SELECT name FROM trade [RANGE 1 MINUTE]", WKS),
        ("SELECT name FROM trade BEGIN NOW - 5 END NOW - 1", WKS),
        ("SELECT area FROM weather", MONOTONIC),
        ("SELECT area FROM weather [RANGE 1 MINUTE]", WKS),
        ("SELECT area FROM weather BEGIN '2026-01-31' END NOW", MONOTONIC),
        ("SELECT area FROM weather BEGIN '2026-01-31' END '2026-02-01'", MONOTONIC),
        ("SELECT name FROM trade [ROWS 100]", STR),
        ("SELECT symbol FROM stock", STR),
        # 1: selection, projection, join with a non-retroactive table
        ("SELECT price * 2 AS x FROM trade WHERE price > 5", WKS),
        ("SELECT t.name FROM trade t, stock s WHERE t.name = s.symbol AND s.rating > 3", WKS),
        ("SELECT w.area FROM weather w, stock s WHERE w.area = s.symbol", MONOTONIC),
        ("SELECT t.name FROM trade [ROWS 5] t, stock s WHERE t.name = s.symbol", STR),
        # 2: merge-union
        ("SELECT area FROM trade UNION ALL SELECT area FROM trade", WKS),
        ("SELECT area FROM trade UNION ALL SELECT area FROM weather", WKS),
        ("SELECT area FROM weather UNION ALL SELECT area FROM weather", MONOTONIC),
        ("SELECT area FROM trade UNION ALL SELECT DISTINCT area FROM trade", WK),
        ("SELECT area FROM trade UNION ALL SELECT area FROM trade [ROWS 5]", STR),
        # 3: join, intersection, duplicate elimination
        ("SELECT t.name FROM trade t, trade u WHERE t.area = u.area", WK),
        ("SELECT t.name FROM trade t, weather w WHERE t.area = w.area", WK),
        ("SELECT v.area FROM weather v, weather w WHERE v.area = w.area", MONOTONIC),
        ("SELECT t.name FROM trade t, trade u [ROWS 5] WHERE t.area = u.area", STR),
        ("SELECT DISTINCT area FROM trade", WK),
        ("SELECT DISTINCT area FROM weather", MONOTONIC),
        ("SELECT DISTINCT area FROM trade [ROWS 5]", STR),
        ("SELECT area FROM trade UNION SELECT area FROM trade", WK),
        ("SELECT area FROM trade INTERSECT SELECT area FROM weather", WK),
        ("SELECT area FROM trade INTERSECT SELECT area FROM trade [ROWS 5]", STR),
        # 4: group-by
        ("SELECT area, count(*) AS n FROM trade GROUP BY area", WK),
        ("SELECT count(*) AS n FROM weather", WK),
        ("SELECT area FROM trade [ROWS 5] GROUP BY area HAVING count(*) > 3", WK),
        # 5: negation
        ("SELECT area FROM trade EXCEPT SELECT area FROM weather", STR),
        ("SELECT area FROM weather EXCEPT ALL SELECT area FROM weather", STR),
    ],
)
def test_pattern_of_a_query(sql: str, pattern: UpdatePattern) -> None:
    query = lowered(sql)
    assert pattern_of(query.root, CATALOG) is pattern


def test_a_join_with_a_retroactive_table_is_strict() -> None:
    root = lowered("SELECT t.name FROM trade t, stock s WHERE t.name = s.symbol AND s.rating > 3").root
    changing = replace(CATALOG, tables={"stock": replace(CATALOG.tables["stock"], retroactive=True)})
    assert pattern_of(root, changing) is STR
    assert pattern_of(root, CATALOG) is WKS


def test_every_edge_of_a_plan() -> None:
    planned = lowered("SELECT DISTINCT t.name FROM trade t, weather w WHERE t.area = w.area AND w.wind > 5")
    found: list[tuple[str, str]] = []

    def visit(node: Node) -> None:
        found.append((type(node).__name__, pattern_of(node, CATALOG).name))
        for child in inputs(node):
            visit(child)

    visit(planned.root)
    assert found == [
        ("Distinct", "WK"),
        ("Project", "WK"),
        ("Join", "WK"),
        ("Scan", "WKS"),
        ("Scan", "MONOTONIC"),
    ]
    assert isinstance(inputs(inputs(planned.root)[0])[0], Join)


def test_patterns_are_ordered_by_complexity() -> None:
    assert MONOTONIC < WKS < WK < STR
