"""Update patterns on the edges of a plan: the five rules of UPA, section 5.2, and how long tuples last.

A merge-union of two windows expires in order only if tuples last equally long on both sides; the paper takes that for
granted, here a union of windows of different lengths is WK. A bound of how long a tuple lasts is what partitions of a
buffer have to cover. The last n rows of a stream end whenever others come: no moment can be named, so they are STR.
"""

from __future__ import annotations

from typing import NamedTuple

from weir.algebra.update_patterns import UpdatePattern
from weir.operators import plans
from weir.operators.layout import FOREVER
from weir.operators.plans import PlanNode


class Expiration(NamedTuple):
    """What is known of how tuples on an edge end."""

    pattern: UpdatePattern
    lasts: int  # no tuple that time ends lasts longer, under WKS each lasts exactly so long; FOREVER: it ends none


def expiration_of(node: PlanNode) -> Expiration:
    """What is known of the edge above a node."""
    if isinstance(node, plans.StreamWindow):
        return Expiration(UpdatePattern.WKS, node.length)
    if isinstance(node, plans.LastRows):
        return Expiration(UpdatePattern.STR, FOREVER)
    if isinstance(node, plans.LandmarkWindow):
        return Expiration(UpdatePattern.MONOTONIC, FOREVER)
    if isinstance(node, (plans.Filtered, plans.Projected)):  # rule 1
        return expiration_of(node.input)
    if isinstance(node, plans.TableJoin):  # rules 1 and 5
        left = expiration_of(node.left)
        return left._replace(pattern=UpdatePattern.STR) if node.is_retroactive else left
    if isinstance(node, plans.MergeUnion):  # rule 2
        left, right = expiration_of(node.left), expiration_of(node.right)
        pattern = max(left.pattern, right.pattern)
        if left.lasts != right.lasts:
            pattern = max(pattern, UpdatePattern.WK)
        lasts = [side.lasts for side in (left, right) if side.lasts < FOREVER]
        return Expiration(pattern, max(lasts, default=FOREVER))
    if isinstance(node, (plans.WindowJoin, plans.Intersection)):  # rule 3
        left, right = expiration_of(node.left), expiration_of(node.right)
        return Expiration(_at_least_weak(max(left.pattern, right.pattern)), min(left.lasts, right.lasts))
    if isinstance(node, plans.DuplicateElimination):  # rule 3
        below = expiration_of(node.input)
        return below._replace(pattern=_at_least_weak(below.pattern))
    if isinstance(node, plans.Grouping):  # rule 4
        return expiration_of(node.input)._replace(pattern=UpdatePattern.WK)
    assert isinstance(node, plans.Negation), "a table has no pattern: what joins with it decides"
    return expiration_of(node.left)._replace(pattern=UpdatePattern.STR)  # rule 5


def _at_least_weak(below: UpdatePattern) -> UpdatePattern:
    """What is made of tuples in another order than they came in; where none ends, none ends."""
    return below if below is UpdatePattern.MONOTONIC else max(below, UpdatePattern.WK)
