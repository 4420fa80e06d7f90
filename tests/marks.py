"""Marks that several tests share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def few_are_quick(cases: Sequence[object], quick: int = 2) -> list[object]:
    """The cases as parameters: the first few for `make quick`, the others only for `make test`."""
    return [case if k < quick else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]
