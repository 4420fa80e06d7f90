"""Moments that random streams seldom have: many tuples of one group, and both sides of a join changing at once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from weir.operators.execution import Execution
from weir.operators.physical import KINDS, Kind, Parameters
from weir.operators.plans import DuplicateElimination, Grouping, MergeUnion, StreamWindow, WindowJoin

SCALE = float(os.environ.get("WEIR_OPERATORS_SCALE", "1"))
WAYS: list[tuple[Kind, float]] = [*((kind, 0.0) for kind in KINDS), ("UPA", 1.0)]


def _moments(n: int) -> Iterator[tuple[int, int, int]]:
    """Times, streams and values; two or three tuples come at one time now and then."""
    random = np.random.default_rng(n)
    time = 0
    for _ in range(n):
        time += int(random.integers(0, 3))
        yield time, int(random.integers(2)), int(random.integers(-50, 50))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("aggregate", ["min", "max"])
def test_the_least_and_the_greatest_of_many_follow_each_other(kind: Kind, aggregate: str) -> None:
    lengths = (15, 90)  # so tuples of one group do not leave in order
    union = MergeUnion(*(StreamWindow(k, lengths[k], 1) for k in range(2)))
    execution = Execution(Grouping(union, None, aggregate, 0), kind)
    came: list[tuple[int, int, int]] = []
    for time, stream, value in _moments(max(300, round(600 * SCALE))):
        came.append((time, stream, value))
        execution.push([time], [stream], [[value]])
        alive = [v for t, s, v in came if t > time - lengths[s]]
        expected = min(alive) if aggregate == "min" else max(alive)
        assert [v.tolist() for v in execution.groups()] == [[0], [expected]], f"{len(came)} tuples came"
    execution.advance(time + 100)
    assert len(execution.groups()[0]) == 0


@pytest.mark.parametrize(("kind", "premature"), WAYS)
def test_a_pair_is_there_once_when_both_sides_are_followed(kind: Kind, premature: float) -> None:
    sides = [DuplicateElimination(StreamWindow(k, 3, 1)) for k in range(2)]
    execution = Execution(WindowJoin(sides[0], sides[1], 0, 0), kind, Parameters(premature_share=premature))
    execution.push([1, 1, 2, 2], [0, 1, 0, 1], [[5], [5], [5], [5]])
    for time, pairs in ((2, 1), (4, 1), (5, 0)):  # at 4 either side shows its second tuple, at 5 none
        execution.advance(time)
        assert execution.rows().tolist() == [[5, 5]] * pairs, f"at {time}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_pause_empties_everything(kind: Kind) -> None:
    plan = WindowJoin(StreamWindow(0, 50, 1), StreamWindow(1, 70, 1), 0, 0)
    execution = Execution(plan, kind, Parameters(partitions=7))
    n = max(200, round(2_000 * SCALE))
    times = np.sort(np.random.default_rng(1).integers(0, 40, n))
    execution.push(times, np.arange(n) % 2, (np.arange(n) % 31)[:, None])
    assert len(execution.rows()) > n
    execution.advance(10_000)
    assert len(execution.rows()) == 0
    assert execution.stored == 0
    execution.push([10_000, 10_001], [0, 1], [[3], [3]])
    assert execution.rows().tolist() == [[3, 3]]
