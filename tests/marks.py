"""Marks that several tests share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest


def few_are_quick(cases: Sequence[object], quick: int = 2, tested: int | None = None) -> list[object]:
    """The cases as parameters: few for `make quick`, `tested` of them for `make test`, the rest for `make soak`."""
    last = len(cases) if tested is None else tested
    marks = (() if k < quick else pytest.mark.slow if k < last else pytest.mark.soak for k in range(len(cases)))
    return [pytest.param(case, marks=mark) for case, mark in zip(cases, marks, strict=True)]
