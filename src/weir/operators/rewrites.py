"""Two heuristics that rewrite plans (UPA, section 5.4.2), and the choice among what they make.

*Update-pattern simplification* pushes simple patterns down and pulls complicated ones up: a selection goes below a
join, a union, a duplicate elimination, an intersection or a negation, and a negation goes above a join, so that fewer
operators meet negative tuples. *Duplicate elimination below joins*: the distinct results of a join are the join of
the distinct tuples, and a join can use the outputs of δ* as its state.

A negation above a join counts v₁ · v₃ left tuples where one below counts v₁ − v₂ and joins them v₃ times: the bags
are the same only if a value has one tuple at most on the join's other side (which the paper does not say). So a
negation is pulled up where a duplicate elimination on just that attribute makes sure of it, and elsewhere only if
asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from weir.operators import plans
from weir.operators.costs import Facts, cost_of
from weir.operators.plans import PlanNode, arity_of, checked, text_of

CANDIDATES_MAX = 200  # plans of a query that are looked at


class Candidate(NamedTuple):
    """A plan, what it costs, and what made it."""

    plan: PlanNode
    cost: float
    steps: tuple[str, ...]  # rewritings, first to last; none: the plan as it was given


class Choice(NamedTuple):
    """The cheapest plan, and all others, the next cheapest first."""

    chosen: Candidate
    rejected: tuple[Candidate, ...]

    def explain(self) -> str:
        """A line for each candidate."""
        lines = [f"chosen, cost {self.chosen.cost:,.1f}: {_said(self.chosen)}"]
        return "\n".join(lines + [f"rejected, cost {c.cost:,.1f}: {_said(c)}" for c in self.rejected])


def _said(candidate: Candidate) -> str:
    return f"{text_of(candidate.plan)} ({', then '.join(candidate.steps) or 'as given'})"


def choose(plan: PlanNode, facts: Facts, *, is_signed: bool = False, may_change_bags: bool = False) -> Choice:
    """All plans that the rewritings make of one, by cost; `may_change_bags`: negations go above any join."""
    steps: dict[PlanNode, tuple[str, ...]] = {plan: ()}
    waiting = [plan]
    while waiting and len(steps) < CANDIDATES_MAX:
        current = waiting.pop(0)
        for name, made in rewritten(current, may_change_bags=may_change_bags):
            if made not in steps:
                steps[made] = (*steps[current], name)
                waiting.append(made)
    found = [Candidate(made, cost_of(made, facts, is_signed=is_signed), how) for made, how in steps.items()]
    found.sort(key=lambda candidate: (candidate.cost, len(candidate.steps)))
    return Choice(found[0], tuple(found[1:]))


def rewritten(plan: PlanNode, *, may_change_bags: bool = False) -> Iterator[tuple[str, PlanNode]]:
    """Every plan that one rewriting of one node makes, with the rewriting's name."""
    for rule in (push_selection, push_distinct):
        made = rule(plan)
        if made is not None:
            yield rule.__name__.replace("_", " "), checked(made)
    made = pull_negation(plan, may_change_bags=may_change_bags)
    if made is not None:
        yield "pull negation", checked(made)
    for below, put_back in _below(plan):
        for name, changed in rewritten(below, may_change_bags=may_change_bags):
            yield name, put_back(changed)


def _below(plan: PlanNode) -> list[tuple[PlanNode, Callable[[PlanNode], PlanNode]]]:
    """The inputs of a node, each with a function that puts another in its place."""
    if isinstance(plan, plans.LEAVES):
        return []
    if isinstance(plan, (plans.Filtered, plans.Projected, plans.DuplicateElimination, plans.Grouping)):
        return [(plan.input, lambda node: replace(plan, input=node))]
    if isinstance(plan, plans.TableJoin):
        return [(plan.left, lambda node: replace(plan, left=node))]
    return [
        (plan.left, lambda node: replace(plan, left=node)),
        (plan.right, lambda node: replace(plan, right=node)),
    ]


def push_selection(plan: PlanNode) -> PlanNode | None:
    """A selection below the operator that is under it; None where it cannot go further."""
    if not isinstance(plan, plans.Filtered):
        return None
    below, attribute = plan.input, plan.attribute
    if isinstance(below, plans.Projected):
        return replace(below, input=replace(plan, input=below.input, attribute=below.attributes[attribute]))
    if isinstance(below, plans.DuplicateElimination):
        return replace(below, input=replace(plan, input=below.input))
    if isinstance(below, (plans.MergeUnion, plans.Intersection)):
        return replace(below, left=replace(plan, input=below.left), right=replace(plan, input=below.right))
    if isinstance(below, plans.Negation):
        # Other attributes than the compared one would change which tuples of a value there are to take away.
        if attribute != below.left_on:
            return None
        right = replace(plan, input=below.right, attribute=below.right_on)
        return replace(below, left=replace(plan, input=below.left), right=right)
    if isinstance(below, (plans.WindowJoin, plans.TableJoin)):
        n_left = arity_of(below.left)
        if attribute < n_left:
            return replace(below, left=replace(plan, input=below.left))
        if isinstance(below, plans.WindowJoin):
            return replace(below, right=replace(plan, input=below.right, attribute=attribute - n_left))
    return None


def push_distinct(plan: PlanNode) -> PlanNode | None:
    """Duplicates eliminated before a join instead of after it; None where there is no such join."""
    if not isinstance(plan, plans.DuplicateElimination):
        return None
    join = plan.input
    if not isinstance(join, (plans.WindowJoin, plans.Intersection)):
        return None
    return replace(join, left=_distinct(join.left), right=_distinct(join.right))


def _distinct(side: PlanNode) -> PlanNode:
    return side if isinstance(side, plans.DuplicateElimination) else plans.DuplicateElimination(side)


def pull_negation(plan: PlanNode, *, may_change_bags: bool = False) -> PlanNode | None:
    """(A − B) ⋈ C as (A ⋈ C) − B, with the compared attribute joined; None where that is another query."""
    if not isinstance(plan, plans.WindowJoin) or not isinstance(plan.left, plans.Negation):
        return None
    negation = plan.left
    has_one = isinstance(plan.right, plans.DuplicateElimination) and arity_of(plan.right) == 1
    if not (has_one or may_change_bags) or negation.left_on != plan.left_on:
        return None
    return plans.Negation(replace(plan, left=negation.left), negation.right, negation.left_on, negation.right_on)
