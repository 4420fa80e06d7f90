"""Random plans over random streams: three executions show what the plain recomputation shows, at every moment."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from tests.generators.window_plans import random_changes, random_plan
from tests.oracle.naive_operators import Change, answer
from tests.tally import tally
from weir.operators.execution import Execution
from weir.operators.physical import Kind, Parameters
from weir.operators.plans import Grouping, PlanNode, text_of

SCALE = float(os.environ.get("WEIR_OPERATORS_SCALE", "1"))
PLANS = max(4, round(120 * SCALE))
CHANGES = 30
WAYS: tuple[tuple[Kind, float], ...] = (("NT", 0.0), ("DIRECT", 0.0), ("UPA", 0.0), ("UPA", 1.0))


def shown(execution: Execution) -> Counter[tuple[int, ...]] | dict[int, float]:
    """What an execution shows, as the oracle says it."""
    if isinstance(execution.plan, Grouping):
        keys, values = execution.groups()
        found = dict(zip(keys.tolist(), values.tolist(), strict=True))
        assert len(found) == len(keys), "a group is shown twice"
        return found
    return Counter(map(tuple, execution.rows().tolist()))


def executions(plan: PlanNode, random: np.random.Generator) -> list[Execution]:
    """One of each way, with parameters drawn."""
    return [
        Execution(
            plan,
            kind,
            Parameters(
                partitions=int(random.integers(1, 6)) if random.random() < 0.7 else None,
                lazy_share=float(random.choice([0.0, 0.05, 0.3, 1.0])),
                premature_share=premature,
                is_view_eager=bool(random.integers(2)),
                probes="scan" if random.integers(3) == 0 else "hash",
            ),
        )
        for kind, premature in WAYS
    ]


def compare(seed: int) -> int:
    """Run one plan in all ways; how many comparisons it took."""
    random = np.random.default_rng(seed)
    n_streams = int(random.integers(2, 4))
    plan = random_plan(random, int(random.integers(1, 5)), n_streams)
    running = executions(plan, random)
    changes = random_changes(random, CHANGES, n_streams)
    compared = done = 0
    while done < len(changes):
        # Mostly one by one; a few come in one call.
        pushed = changes[done : done + (1 if random.random() < 0.8 else int(random.integers(2, 6)))]
        done += len(pushed)
        now = pushed[-1][0]
        following = changes[done][0] if done < len(changes) else now + 20
        times, sources, signs, rows = zip(*pushed, strict=True)
        for execution in running:
            execution.push(times, sources, rows, signs)
        compared += agree(seed, plan, running, changes[:done], now)
        if random.random() < 0.4 and following > now:  # only time passes
            now = int(random.integers(now + 1, following + 1))
            for execution in running:
                execution.advance(now)
            compared += agree(seed, plan, running, changes[:done], now)
    return compared


def agree(seed: int, plan: PlanNode, running: list[Execution], history: list[Change], now: int) -> int:
    """Compare all executions with the oracle; how many there were."""
    expected = answer(plan, history, now)
    for execution, way in zip(running, WAYS, strict=True):
        said = f"seed {seed}, {way} at {now}\n{text_of(plan)}\n{execution.explain()}\nafter {history}"
        assert shown(execution) == expected, said
        assert execution.counters().lost == 0, said
    return len(running)


def test_three_executions_show_what_is_recomputed() -> None:
    compared = sum(compare(seed) for seed in range(PLANS))
    tally("three executions of operators, a plain account", compared)
    assert compared >= 8_000 * min(SCALE, 1), f"{compared} comparisons say little"


@pytest.mark.soak
def test_many_more_plans() -> None:
    first, count = int(os.environ.get("WEIR_SEED", "1000")), round(5_000 * SCALE)
    assert sum(compare(seed) for seed in range(first, first + count)) >= 20 * count
