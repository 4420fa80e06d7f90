"""Join factors: what connects the sources of a join."""

from __future__ import annotations

import pytest

from tests.sql.market import CATALOG, lowered
from weir.algebra.format import expression_text
from weir.plan.join_factors import join_factors, joins_of
from weir.plan.planner import plan


def factors(condition: str) -> list[tuple[str, str]]:
    planned = plan(lowered(f"SELECT r.name FROM trade r, trade s, weather w WHERE {condition}"))
    (join,) = joins_of(planned)
    names = {0: "r", 1: "s", 2: "w"}
    return [
        (f.kind, " AND ".join(expression_text(c, names) for c in f.conditions)) for f in join_factors(join, CATALOG)
    ]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("r.area = s.area", "equality"),
        ("r.price * 2 = s.price + 1", "equality"),
        ("r.price - s.price = 3", "equality"),
        ("s.price - r.price BETWEEN 1 AND 2", "band"),
        ("abs(r.qty - s.qty) <= 5", "band"),
        ("5 > abs(r.qty - s.qty)", "band"),
        ("r.price >= s.price AND r.price <= s.price + 10", "band"),
        ("r.price < s.price + 3", "inequality"),
        ("r.price + 1 > s.price", "inequality"),
        ("-r.price > 3 - s.price", "inequality"),
        ("abs(r.ts - w.ts) <= INTERVAL 5 SECONDS", "window"),
        ("r.ts < w.ts + INTERVAL 5 SECONDS", "window"),
        ("r.ts BETWEEN s.ts - INTERVAL 1 MINUTE AND s.ts", "window"),
        ("r.area <> s.area", "residual"),
        ("r.area = s.area OR r.qty = s.qty", "residual"),
        ("r.qty + s.qty < w.category", "residual"),
        ("r.qty + s.qty < 5", "residual"),
        ("r.price * s.price < 5", "residual"),
        ("abs(r.qty - s.qty) > 5", "residual"),
        ("r.price - s.price < r.qty", "residual"),
    ],
)
def test_kind(condition: str, kind: str) -> None:
    assert [k for k, _ in factors(condition)] == [kind]


def test_conditions_of_one_band_belong_together() -> None:
    found = factors("r.area = s.area AND r.price >= s.price AND s.ts > r.ts AND r.price <= s.price + 10 AND r.qty > 1")
    assert found == [
        ("equality", "r.area = s.area"),
        ("band", "r.price >= s.price AND r.price <= s.price + 10.0D"),
        ("window", "s.ts > r.ts"),
    ]


def test_no_condition() -> None:
    assert factors("r.qty > 1") == []
