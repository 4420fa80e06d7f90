"""Which structures an execution picks, as UPA's section 5.3.2 says, and what it says of them."""

from __future__ import annotations

import numpy as np
import pytest

from weir.algebra.update_patterns import UpdatePattern
from weir.operators import layout
from weir.operators.execution import Execution
from weir.operators.patterns import expiration_of
from weir.operators.physical import KINDS, Kind, Parameters, PhysicalPlan, build
from weir.operators.plans import (
    DuplicateElimination,
    Filtered,
    Grouping,
    Intersection,
    LandmarkWindow,
    LastRows,
    MergeUnion,
    Negation,
    PlanNode,
    Projected,
    StreamWindow,
    TableJoin,
    TableRows,
    WindowJoin,
)

A, B, LONG = StreamWindow(0, 20, 2), StreamWindow(1, 20, 2), StreamWindow(1, 50, 2)
LAST, ALL = LastRows(0, 7, 2), LandmarkWindow(1, 5, 2)
TABLE = TableRows(2, 2)
JOIN = WindowJoin(A, B, 0, 0)
WKS, WK, STR = UpdatePattern.WKS, UpdatePattern.WK, UpdatePattern.STR
MONOTONIC = UpdatePattern.MONOTONIC


@pytest.mark.parametrize(
    ("plan", "pattern", "lasts"),
    [
        (Filtered(A, 0, 1, 2), WKS, 20),
        (Projected(JOIN, (0,)), WK, 20),
        (MergeUnion(A, B), WKS, 20),
        (MergeUnion(A, LONG), WK, 50),
        (MergeUnion(A, JOIN.left), WKS, 20),
        (WindowJoin(A, LONG, 0, 0), WK, 20),
        (Intersection(Negation(A, B, 0, 0), B), STR, 20),
        (DuplicateElimination(A), WK, 20),
        (DuplicateElimination(Negation(A, B, 0, 0)), STR, 20),
        (Grouping(Negation(A, B, 0, 0), 0, "sum", 1), WK, 20),
        (Negation(LONG, A, 0, 0), STR, 50),
        (TableJoin(A, TABLE, 0, 0, is_retroactive=False), WKS, 20),
        (TableJoin(A, TABLE, 0, 0, is_retroactive=True), STR, 20),
        (LAST, STR, layout.FOREVER),
        (WindowJoin(LAST, B, 0, 0), STR, 20),
        (MergeUnion(LAST, B), STR, 20),
        (DuplicateElimination(ALL), MONOTONIC, layout.FOREVER),
        (WindowJoin(ALL, ALL, 0, 0), MONOTONIC, layout.FOREVER),
        (MergeUnion(ALL, A), WK, 20),
        (Negation(ALL, A, 0, 0), STR, layout.FOREVER),
    ],
)
def test_patterns_follow_the_five_rules(plan: PlanNode, pattern: UpdatePattern, lasts: int) -> None:
    assert expiration_of(plan) == (pattern, lasts)


def orders(plan: PlanNode, kind: Kind, parameters: Parameters | None = None) -> list[int]:
    """The orders of all buffers, from the leaves up."""
    return [row[layout.ORDER] for row in build(plan, kind, parameters or Parameters()).buffers]


def test_each_execution_picks_its_structures() -> None:
    assert orders(JOIN, "NT") == [layout.FIFO, layout.FIFO, layout.UNORDERED, layout.UNORDERED, layout.UNORDERED]
    assert orders(JOIN, "DIRECT") == [layout.ARRIVAL] * 3
    assert orders(JOIN, "UPA") == [layout.FIFO, layout.FIFO, layout.LOOSE]
    assert orders(JOIN, "UPA", Parameters(is_view_eager=True)) == [layout.FIFO, layout.FIFO, layout.SORTED]
    assert orders(Filtered(A, 0, 1, 2), "UPA") == [layout.FIFO]
    assert orders(Grouping(JOIN, 0, "sum", 1), "UPA")[2] == layout.SORTED, "a group-by expires eagerly"


def test_last_rows_end_by_negative_tuples_in_each_execution() -> None:
    assert orders(WindowJoin(LAST, A, 0, 0), "UPA")[:2] == [layout.FIFO, layout.FIFO], "both windows are stored"
    assert orders(WindowJoin(LAST, A, 0, 0), "UPA") == orders(WindowJoin(LAST, A, 0, 0), "NT")
    assert orders(WindowJoin(LAST, A, 0, 0), "DIRECT") == [layout.FIFO, *[layout.ARRIVAL] * 3]
    assert orders(WindowJoin(ALL, ALL, 0, 0), "UPA") == [layout.FIFO] * 3, "nothing ends: a list is enough"
    for kind in KINDS:
        execution = Execution(LastRows(0, 2, 1), kind)
        execution.push([1, 1, 9], [0, 0, 0], [[5], [6], [7]])
        execution.advance(1_000)
        assert sorted(execution.rows().tolist()) == [[6], [7]]
        assert execution.counters().negatives == 1


def test_results_with_a_table_as_it_was_stay_until_their_row_is_no_longer_of_the_last() -> None:
    plan = TableJoin(Projected(LastRows(0, 2, 1), (0,)), TableRows(2, 1), 0, 0, is_retroactive=False)
    for kind in KINDS:
        execution = Execution(plan, kind)
        # The same row comes without and with a partner; the older one goes first.
        execution.push([1, 2, 3, 4], [0, 2, 0, 0], [[5], [5], [5], [6]])
        assert execution.rows().tolist() == [[5, 5]]
        execution.push([5], [0], [[6]])
        assert execution.rows().tolist() == []


def kinds(plan: PhysicalPlan) -> list[int]:
    return [row[layout.KIND] for row in plan.nodes]


def test_delta_star_is_for_inputs_without_premature_ends() -> None:
    strict = DuplicateElimination(Negation(A, B, 0, 0))
    assert layout.DISTINCT_STAR in kinds(build(DuplicateElimination(A), "UPA", Parameters()))
    assert layout.DISTINCT_ROWS in kinds(build(strict, "UPA", Parameters()))
    assert layout.DISTINCT_ROWS in kinds(build(DuplicateElimination(A), "DIRECT", Parameters()))


def test_frequent_premature_ends_make_what_is_above_a_negation_signed() -> None:
    plan = Negation(JOIN, Projected(B, (0,)), 0, 0)
    seldom, often = (build(plan, "UPA", Parameters(premature_share=p)) for p in (0.05, 0.4))
    assert seldom.buffers[seldom.view][layout.ORDER] == layout.LOOSE
    assert often.buffers[often.view][layout.ORDER] == layout.UNORDERED
    for made in (seldom, often):  # below it nothing changes: no window is stored
        assert all(node[layout.LEFT] == layout.NONE for node in made.nodes if node[layout.KIND] == layout.WINDOW)
    down = build(WindowJoin(Negation(A, B, 0, 0), LONG, 0, 0), "UPA", Parameters(premature_share=0.4))
    stored = [n[layout.P1] for n in down.nodes if n[layout.KIND] == layout.WINDOW and n[layout.LEFT] != layout.NONE]
    assert stored == [50], "the join takes negative tuples from both sides"


def test_a_join_uses_the_output_of_delta_star() -> None:
    plan = WindowJoin(*(DuplicateElimination(Projected(s, (0,))) for s in (A, B)), 0, 0)
    made = build(plan, "UPA", Parameters())
    assert len(made.buffers) == 2 * 2 + 1
    assert "left is the output of δ*, right is the output of δ*" in made.explain()
    assert len(build(plan, "NT", Parameters()).buffers) == 2 * 3 + 2 + 1


def test_it_says_what_was_picked() -> None:
    assert build(JOIN, "UPA", Parameters()).explain().splitlines() == [
        "S0[20]: WKS, ends are known; not stored",
        "S1[20]: WKS, ends are known; not stored",
        "(S0[20] ⋈ S1[20]): WK, ends are known; left [first in, first out, lazy every 1, by key], "
        "right [first in, first out, lazy every 1, by key]",
        "view: [20 or more partitions in order of insertion, lazy every 1]",
    ]


def test_oldest_is_taken_away_and_youngest_comes_back() -> None:
    for kind in ("NT", "DIRECT", "UPA"):
        execution = Execution(Negation(StreamWindow(0, 100, 2), StreamWindow(1, 3, 2), 0, 0), kind)
        execution.push([1, 2, 3], [0, 0, 0], [[7, 1], [7, 2], [7, 3]])
        execution.push([4], [1], [[7, 0]])
        assert sorted(execution.rows()[:, 1].tolist()) == [2, 3], kind
        execution.push([5], [1], [[7, 0]])
        assert execution.rows()[:, 1].tolist() == [3], kind
        execution.advance(7)  # the first one of the right input is over
        assert sorted(execution.rows()[:, 1].tolist()) == [2, 3], kind


def test_time_never_goes_back_and_rows_are_wide_enough() -> None:
    execution = Execution(JOIN, "UPA")
    execution.push([5], [0], [[1, 2]])
    with pytest.raises(ValueError, match="it is 5 and tuples come from 4 on"):
        execution.push([4], [0], [[1, 2]])
    with pytest.raises(ValueError, match="time never goes back"):
        execution.advance(4)
    with pytest.raises(ValueError, match="rows need 2 attributes; got 1"):
        execution.push([6], [0], [[1]])
    with pytest.raises(ValueError, match="one time, source, sign and row"):
        execution.push([6, 7], [0], [[1, 2]])
    with pytest.raises(ValueError, match="at least 1 partition"):
        Execution(JOIN, "UPA", Parameters(partitions=0))
    execution.push(np.zeros(0), np.zeros(0), np.zeros((0, 2)))
    assert execution.now == 5
