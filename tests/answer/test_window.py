"""Windows at a moment, by hand."""

from __future__ import annotations

import pytest

from weir.algebra.nodes import Bound, Literal, Param, Window
from weir.algebra.schema import BIGINT, INTERVAL, TIMESTAMP
from weir.answer.window import Cut, resolve

SLIDING = Window(Bound(True, Literal(-10, INTERVAL)), Bound(True, Literal(0, INTERVAL)))
LANDMARK = Window(Bound(False, Literal(5, TIMESTAMP)), None)
SNAPSHOT = Window(Bound(False, Literal(5, TIMESTAMP)), Bound(False, Param("c0", TIMESTAMP)))


@pytest.mark.parametrize(
    ("window", "keep", "cut"),
    [
        (SLIDING, 50, Cut(90, 100, None)),
        (LANDMARK, None, Cut(5, 100, None)),
        (SNAPSHOT, None, Cut(5, 42, None)),
        (Window(), 30, Cut(70, 100, None)),
        (Window(), None, Cut(None, 100, None)),
        (Window(rows=Literal(3, BIGINT)), 30, Cut(70, 100, 3)),
        (Window(None, Bound(True, Literal(-10, INTERVAL))), 30, Cut(70, 90, None)),
        (Window(Bound(True, Literal(None, INTERVAL))), 30, Cut(100, 100, None)),
    ],
)
def test_cuts(window: Window, keep: int | None, cut: Cut) -> None:
    assert resolve(window, {"c0": 42}, 100, keep) == cut
