"""The number of partitions follows what is walked over, unless it was given; what is shown does not change."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

from weir.operators import layout
from weir.operators.execution import Execution
from weir.operators.physical import Parameters
from weir.operators.plans import Negation, PlanNode, StreamWindow, WindowJoin

SCALE = float(os.environ.get("WEIR_OPERATORS_SCALE", "1"))
WINDOW = 2_000
STREAMS = StreamWindow(0, WINDOW, 2), StreamWindow(1, WINDOW, 2)
JOIN = WindowJoin(*STREAMS, 0, 0)
EAGER = {"is_view_eager": True}  # so that the view is sorted


def run(plan: PlanNode, parameters: Parameters, kind: str = "UPA", *, checked_by: Execution | None = None) -> Execution:
    """Some thousand tuples with few keys, which have many results; compared with another execution as they come."""
    execution = Execution(plan, kind, parameters)  # type: ignore[arg-type]  # one of the three kinds
    random = np.random.default_rng(3)
    n = max(400, round(8_000 * SCALE))
    times = np.sort(random.integers(0, 2 * WINDOW, n))
    sources, rows = random.integers(0, 2, n), np.column_stack([random.integers(0, 40, n), np.arange(n)])
    for first in range(0, n, n // 20):
        part = slice(first, first + n // 20)
        for one in (execution, checked_by):
            if one is not None:
                one.push(times[part], sources[part], rows[part])
        if checked_by is not None:
            assert shown(execution) == shown(checked_by)
    return execution


def shown(execution: Execution) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, execution.rows().tolist()))


def partitions(execution: Execution) -> int:
    buffers = execution._memory.buffers
    view = buffers[execution.physical.view]
    assert view[layout.SPAN] * (view[layout.LISTS] - 1) >= WINDOW, "what is shown fits into them"
    return int(view[layout.LISTS] - 1)


def test_partitions_grow_until_insertions_walk_little() -> None:
    fixed = run(JOIN, Parameters(partitions=10, **EAGER))
    grown = run(JOIN, Parameters(**EAGER), checked_by=Execution(JOIN, "NT"))
    assert partitions(fixed) == 10
    assert partitions(grown) > 100 * min(1, SCALE)
    assert grown.counters().walked < fixed.counters().walked / 3
    assert shown(grown) == shown(fixed)


def test_a_search_for_a_tuple_that_ends_early_walks_little_in_the_end() -> None:
    """Above a negation tuples are taken out of partitions that are not sorted."""
    plan = WindowJoin(Negation(*STREAMS, 0, 0), StreamWindow(0, WINDOW, 2), 0, 0)
    fixed = run(plan, Parameters(partitions=2))
    grown = run(plan, Parameters(), checked_by=Execution(plan, "NT"))
    assert grown.counters().premature == fixed.counters().premature > 0
    assert partitions(grown) >= partitions(fixed)
    assert grown.counters().walked < fixed.counters().walked


@pytest.mark.parametrize(("lazy_share", "begun"), [(0.05, 20), (0.2, 5), (1.0, 1), (3.0, 1), (0.0, 100), (1e-9, 100)])
def test_a_buffer_begins_with_a_partition_for_each_lazy_interval(lazy_share: float, begun: int) -> None:
    assert partitions(Execution(JOIN, "UPA", Parameters(lazy_share=lazy_share))) == begun


def test_a_partition_is_no_shorter_than_a_time_unit() -> None:
    plan = WindowJoin(StreamWindow(0, 3, 1), StreamWindow(1, 3, 1), 0, 0)
    execution = Execution(plan, "UPA", Parameters(**EAGER))
    n = 300
    execution.push(np.arange(n) // 150, np.arange(n) % 2, np.zeros((n, 1)))
    assert execution._memory.buffers[execution.physical.view, layout.SPAN] == 1
    assert len(execution.rows()) == (n // 2) ** 2
    execution.advance(10)
    assert len(execution.rows()) == 0
