"""Costs follow the paper's formulas, and every rewritten plan answers as the plan that was given."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from tests.generators.window_plans import random_changes, random_plan
from tests.oracle.naive_operators import Change, answer
from weir.operators.costs import Facts, cost_of, cost_of_node, flow_of, premature_share
from weir.operators.plans import (
    DuplicateElimination,
    Filtered,
    Grouping,
    LastRows,
    MergeUnion,
    Negation,
    PlanNode,
    Projected,
    StreamWindow,
    TableJoin,
    TableRows,
    WindowJoin,
    checked,
    has_negation,
    text_of,
)
from weir.operators.rewrites import choose

A, B, C = (StreamWindow(k, 100, 2) for k in range(3))
FACTS = Facts(rates={0: 2.0, 1: 3.0, 2: 1.0}, distinct={(k, a): 10.0 for k in range(3) for a in range(2)})


def test_rates_and_sizes_follow_from_the_streams() -> None:
    assert flow_of(A, FACTS) == (2.0, 200.0, (10.0, 10.0))
    some = flow_of(Filtered(A, 0, 1, 1), FACTS)
    assert (some.rate, some.size, some.distinct) == (pytest.approx(0.2), pytest.approx(20), (1.0, 10.0))
    joined = flow_of(WindowJoin(A, B, 0, 0), FACTS)
    assert joined.size == 200 * 300 / 10
    assert joined.rate == (2 * 300 + 3 * 200) / 10
    assert flow_of(DuplicateElimination(Projected(A, (0,))), FACTS) == (pytest.approx(0.1), 10.0, (10.0,))
    assert flow_of(Negation(B, A, 0, 0), FACTS).size == 100


@pytest.mark.parametrize(
    ("plan", "cost"),
    [
        (Filtered(A, 0, 1, 1), 2.0),
        (MergeUnion(A, B), 5.0),
        (WindowJoin(A, B, 0, 0), 2 * 200 + 3 * 300),
        (DuplicateElimination(Projected(A, (0,))), 2 * 10 / 2),
        (Grouping(A, 0, "sum", 1), 4.0),
        (Negation(A, B, 0, 0), 10 * math.log2(10)),
        (TableJoin(A, TableRows(5, 1), 0, 0, is_retroactive=False), 2 * 7),
    ],
)
def test_costs_are_the_papers_formulas(plan: PlanNode, cost: float) -> None:
    facts = FACTS._replace(table_rows={5: 7.0})
    assert cost_of_node(plan, facts, is_signed=False) == pytest.approx(cost)
    doubled = cost_of_node(plan, facts, is_signed=True)
    if isinstance(plan, (Grouping, Negation)):
        assert doubled == pytest.approx(cost)
    elif isinstance(plan, DuplicateElimination):
        assert doubled == pytest.approx(2 * 2 * 200), "δ* does not take negative tuples"
    else:
        assert doubled == pytest.approx(2 * cost)


def test_a_negation_below_makes_what_is_above_dearer() -> None:
    join = WindowJoin(Negation(B, A, 0, 0), C, 0, 0)
    alone = sum(cost_of(node, FACTS) for node in (Negation(B, A, 0, 0), C))
    assert cost_of(join, FACTS) == pytest.approx(alone + 2 * (1 * 100 + flow_of(join.left, FACTS).rate * 100))


def test_premature_ends_need_values_on_both_sides() -> None:
    assert premature_share({1: 5, 2: 5}, {3: 7}) == 0
    assert premature_share({1: 5, 2: 5}, {1: 2}) == pytest.approx(0.2)
    assert premature_share({1: 5}, {1: 9}) == 1
    assert premature_share({}, {1: 9}) == 0


def test_both_heuristics_are_candidates_and_the_cheapest_is_chosen() -> None:
    ftp = Filtered(WindowJoin(A, C, 0, 0), 1, 3, 3)
    choice = choose(ftp, FACTS)
    assert choice.chosen.plan == WindowJoin(Filtered(A, 1, 3, 3), C, 0, 0)
    assert choice.chosen.steps == ("push selection",)
    assert "rejected" in choice.explain()
    assert text_of(ftp) in choice.explain()
    distinct = DuplicateElimination(WindowJoin(Projected(A, (0,)), Projected(B, (0,)), 0, 0))
    pushed = choose(distinct, FACTS).chosen
    assert pushed.steps == ("push distinct",)
    assert pushed.plan == WindowJoin(
        DuplicateElimination(Projected(A, (0,))), DuplicateElimination(Projected(B, (0,))), 0, 0
    )


def test_a_negation_is_pulled_up_only_where_bags_stay() -> None:
    up = Negation(WindowJoin(B, C, 0, 0), A, 0, 0)
    join = WindowJoin(Negation(B, A, 0, 0), C, 0, 0)
    assert up not in [c.plan for c in (choose(join, FACTS).chosen, *choose(join, FACTS).rejected)]
    asked = choose(join, FACTS, may_change_bags=True)
    assert up in [c.plan for c in (asked.chosen, *asked.rejected)]
    single = WindowJoin(Negation(B, A, 0, 0), DuplicateElimination(Projected(C, (0,))), 0, 0)
    found = choose(single, FACTS)
    assert ("pull negation",) in [c.steps for c in (found.chosen, *found.rejected)]


def _asked(seed: int) -> PlanNode:
    """A random plan that some rewriting applies to."""
    random = np.random.default_rng(seed)
    below = random_plan(random, 2, 3)
    while isinstance(below, Grouping):
        below = random_plan(random, 2, 3)
    if seed % 3 == 0:
        left = Negation(Projected(below, (0,)), Projected(B, (1,)), 0, 0)
        return WindowJoin(left, DuplicateElimination(Projected(C, (0,))), 0, 0)
    if seed % 3 == 1:
        return DuplicateElimination(WindowJoin(below, C, 0, 1))
    return Filtered(WindowJoin(below, StreamWindow(1, 7, 2), 0, 1), seed % 2, 0, 1, bool(seed % 4))


def _seen(plan: PlanNode, given: PlanNode, history: list[Change], now: int) -> Counter[tuple[int, ...]]:
    """What a plan answers; where there is a negation the first attribute: others may depend on the operators' order."""
    bag = answer(plan, history, now)
    assert isinstance(bag, Counter)
    if not has_negation(given):
        return bag
    return Counter(row[:1] for row in bag.elements())


@pytest.mark.parametrize("seed", range(30))
def test_rewritten_plans_answer_alike(seed: int) -> None:
    plan = _asked(seed)
    choice = choose(plan, FACTS)
    candidates = [choice.chosen, *choice.rejected]
    assert len(candidates) > 1, text_of(plan)
    assert [c.cost for c in candidates] == sorted(c.cost for c in candidates)
    random = np.random.default_rng(seed)
    history = random_changes(random, 30, 3)
    for end in range(5, 31, 5):
        now = history[end - 1][0] + int(random.integers(0, 4))
        expected = _seen(plan, plan, history[:end], now)
        for candidate in candidates:
            said = f"seed {seed}: {text_of(plan)} and {text_of(candidate.plan)} at {now}"
            assert _seen(candidate.plan, plan, history[:end], now) == expected, said


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (TableRows(0, 2), "a table alone"),
        (MergeUnion(A, StreamWindow(1, 5, 3)), "needs 2 attributes on the right too; got 3"),
        (Projected(A, (0, 2)), "attribute 2 of 2"),
        (DuplicateElimination(Grouping(A, 0, "count", 0)), "group-by is the top"),
        (Grouping(A, 0, "median", 0), "aggregates are count"),
        (StreamWindow(0, 0, 1), "at least 1; got 0"),
        (LastRows(0, 0, 1), "at least 1 row; got 0"),
        (WindowJoin(A, TableRows(3, 2), 0, 0), "right input of a TableJoin"),
        (TableJoin(Negation(A, B, 0, 0), TableRows(3, 2), 0, 0, is_retroactive=False), "pull the negation above it"),
    ],
)
def test_what_is_no_plan_is_refused(plan: PlanNode, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked(plan)
