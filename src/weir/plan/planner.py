"""The planner: a tuple of rules and one loop.

Every rule is one file in plan/rules, a verb, a function Query → Query that keeps the answer. They run once, in
this order: constants first, because they decide conditions; conditions into flat AND and OR, because only a flat
AND can be taken apart; then its parts to their sources; duplicate eliminations that do nothing go last.
"""

from __future__ import annotations

from collections.abc import Callable

from weir.algebra.nodes import Query
from weir.plan.rules.drop_distinct import drop_distinct
from weir.plan.rules.flatten_booleans import flatten_booleans
from weir.plan.rules.fold_constants import fold_constants
from weir.plan.rules.push_negations import push_negations
from weir.plan.rules.push_selections import push_selections

Rule = Callable[[Query], Query]

RULES: tuple[Rule, ...] = (
    fold_constants,
    push_negations,  # NOT meets comparisons …
    flatten_booleans,  # … so that AND and OR lie flat …
    push_selections,  # … and each part can go to its source
    drop_distinct,
)


def plan(query: Query, rules: tuple[Rule, ...] = RULES) -> Query:
    """The same query, ready to be run: its answer is unchanged."""
    for rule in rules:
        query = rule(query)
    return query
