"""Cost of a plan for one time unit, as formulas over rates and sizes (UPA, section 5.4.1).

λ is a rate of tuples, N how many tuples are alive, and they follow from the streams' rates and the windows' lengths
by the usual assumptions: the d values of an attribute follow each other, and are spread evenly and independently. For
one operator with inputs 1 and 2:

    selection, projection, union        λ₁ + λ₂
    join, intersection                  λ₁ N₁ + λ₂ N₂     as the paper has it
    join with a table                   λ₁ N₂             the table's rows are looked through
    duplicate elimination, classic      λ₁ N₁             an output tuple that ends has its input looked through
    duplicate elimination, δ*           λ₁ N_o / 2
    group-by                            2 λ₁ C
    negation                            2 λ₁ log d₁ + 2 λ₂ log d₂, and N_o for each premature end

Where every end is told by a negative tuple, all but the last two cost twice as much. The paper's joins scan; ours find
partners by a hash unless told otherwise, so these costs compare plans with each other, and are no times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from weir.algebra.update_patterns import UpdatePattern
from weir.operators import plans
from weir.operators.patterns import expiration_of
from weir.operators.plans import PlanNode, ends_early, inputs_of


class Facts(NamedTuple):
    """What is known of the sources, or assumed."""

    rates: Mapping[int, float]  # tuples of a stream in a time unit; changes of a table
    distinct: Mapping[tuple[int, int], float]  # values of an attribute of a source
    table_rows: Mapping[int, float] = {}  # of tables
    recompute: float = 1.0  # C: work to bring an aggregate up to date
    elapsed: float = 1.0  # time units since landmarks
    premature: float = 0.0  # share of the results of negations that end before their time


class Flow(NamedTuple):
    """What is expected on an edge."""

    rate: float  # tuples in a time unit
    size: float  # tuples that are alive
    distinct: tuple[float, ...]  # values of each attribute among them


def flow_of(node: PlanNode, facts: Facts) -> Flow:
    """Rate, size and distinct values above a node."""
    if isinstance(node, plans.WINDOWS):
        rate = facts.rates[node.source]
        size = rate * facts.elapsed
        if isinstance(node, plans.StreamWindow):
            size = rate * node.length
        elif isinstance(node, plans.LastRows):
            size = float(node.count)
        known = (facts.distinct.get((node.source, a), size) for a in range(node.arity))
        return Flow(rate, size, tuple(min(d, size) for d in known))
    if isinstance(node, plans.TableRows):
        size = facts.table_rows.get(node.source, 1.0)
        return Flow(facts.rates.get(node.source, 0.0), size, (size,) * node.arity)
    if isinstance(node, plans.Filtered):
        below = flow_of(node.input, facts)
        share = min(1.0, (node.hi - node.lo + 1) / max(below.distinct[node.attribute], 1.0))
        share = share if node.is_inside else 1 - share
        size = below.size * share
        shares = (share if a == node.attribute else 1.0 for a in range(len(below.distinct)))
        distinct = tuple(min(d * part, size) for d, part in zip(below.distinct, shares, strict=True))
        return Flow(below.rate * share, size, distinct)
    if isinstance(node, plans.Projected):
        below = flow_of(node.input, facts)
        return below._replace(distinct=tuple(below.distinct[a] for a in node.attributes))
    if isinstance(node, plans.DuplicateElimination):
        below = flow_of(node.input, facts)
        size = min(below.size, math.prod(below.distinct))
        # Each value has a tuple that follows another once in a lifetime, or comes as often as it arrives.
        return Flow(min(below.rate, size / _lifetime(below)), size, below.distinct)
    if isinstance(node, plans.Grouping):
        below = flow_of(node.input, facts)
        size = 1.0 if node.by is None else below.distinct[node.by]
        return Flow(2 * below.rate, size, (size, size))
    left, right = flow_of(node.left, facts), flow_of(node.right, facts)
    if isinstance(node, plans.MergeUnion):
        pairs = zip(left.distinct, right.distinct, strict=True)
        return Flow(left.rate + right.rate, left.size + right.size, tuple(max(d, e) for d, e in pairs))
    if isinstance(node, plans.Negation):
        share = _left_over(_of_each(left, node.left_on), _of_each(right, node.right_on))
        size = left.size * share
        return Flow(left.rate * share, size, tuple(min(d, size) for d in left.distinct))
    values = _values_met(node, left, right)
    size = left.size * right.size / values
    rate = (left.rate * right.size + (0.0 if isinstance(node, plans.TableJoin) else right.rate * left.size)) / values
    distinct = left.distinct if isinstance(node, plans.Intersection) else left.distinct + right.distinct
    return Flow(rate, size, tuple(min(d, size) for d in distinct))


def _lifetime(flow: Flow) -> float:
    return max(flow.size / flow.rate if flow.rate else 1.0, 1.0)


def _of_each(flow: Flow, attribute: int) -> float:
    """How many tuples a value has, of those that there are."""
    return flow.size / flow.distinct[attribute] if flow.distinct[attribute] else 0.0


def _left_over(left_each: float, right_each: float) -> float:
    """The share of equation 1 where each value has as many tuples as all others."""
    return max(left_each - right_each, 0.0) / left_each if left_each else 0.0


def _values_met(node: plans.WindowJoin | plans.Intersection | plans.TableJoin, left: Flow, right: Flow) -> float:
    if isinstance(node, plans.Intersection):
        return max(1.0, math.prod(left.distinct), math.prod(right.distinct))
    return max(1.0, left.distinct[node.left_on], right.distinct[node.right_on])


def cost_of_node(node: PlanNode, facts: Facts, *, is_signed: bool) -> float:
    """What one operator costs in a time unit; `is_signed`: the ends of its inputs are told by negative tuples."""
    if isinstance(node, plans.LEAVES):  # a window whose ends are told is stored, and they are found
        return flow_of(node, facts).rate if is_signed or isinstance(node, plans.LastRows) else 0.0
    below = [flow_of(child, facts) for child in inputs_of(node)]
    first = below[0]
    above = flow_of(node, facts)
    if isinstance(node, plans.Grouping):
        return 2 * first.rate * facts.recompute
    if isinstance(node, plans.Negation):
        values = first.distinct[node.left_on], below[1].distinct[node.right_on]
        counting = 2 * first.rate * _log(values[0]) + 2 * below[1].rate * _log(values[1])
        return counting + facts.premature * above.rate * (1.0 if is_signed else above.size)
    if isinstance(node, (plans.WindowJoin, plans.Intersection)):
        cost = sum(flow.rate * flow.size for flow in below)
    elif isinstance(node, plans.TableJoin):
        cost = first.rate * below[1].size
    elif isinstance(node, plans.DuplicateElimination):
        is_star = not is_signed and expiration_of(node.input).pattern is not UpdatePattern.STR
        cost = first.rate * (above.size / 2 if is_star else first.size)
    else:
        cost = sum(flow.rate for flow in below)
    return 2 * cost if is_signed else cost


def _log(values: float) -> float:
    return math.log2(max(values, 2.0))


def cost_of(plan: PlanNode, facts: Facts, *, is_signed: bool = False) -> float:
    """What a plan costs in a time unit; signed throughout, or where a negation below makes negative tuples."""
    below = inputs_of(plan)
    cost = sum(cost_of(child, facts, is_signed=is_signed) for child in below)
    takes_negative = is_signed or any(ends_early(child) for child in below)
    return cost + cost_of_node(plan, facts, is_signed=takes_negative)


def premature_share(left: Mapping[int, float], right: Mapping[int, float]) -> float:
    """The share of a negation's left tuples that end before their time, from how many there are of each value.

    Of a value that only one side has, none is. If both have it, each right tuple that finds a left one takes one away
    when it comes; the paper's choice between partitions and negative tuples asks for this number (section 5.3.2).
    """
    total = sum(left.values())
    taken = sum(min(count, right.get(value, 0.0)) for value, count in left.items())
    return taken / total if total else 0.0
