"""Marks that several tests share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def few_are_quick(seeds: Sequence[int], quick: int = 2) -> list[object]:
    """The seeds as parameters: the first few for `make quick`, the others only for `make test`."""
    return [seed if k < quick else pytest.param(seed, marks=pytest.mark.slow) for k, seed in enumerate(seeds)]
