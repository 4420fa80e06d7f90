"""Evaluate what is constant.

    price < 10 + 5  →  price < 15        1 = 2  →  FALSE        abs(-3) > 2  →  TRUE

Lowering already folds what was written as constants; this rule does it again for a query whose parameters have been
replaced by values.
"""

from __future__ import annotations

from dataclasses import replace

from weir.algebra.fold import fold
from weir.algebra.nodes import Query
from weir.algebra.rebuild import map_expressions


def fold_constants(query: Query) -> Query:
    """Every expression over literals only becomes its value."""
    return replace(query, root=map_expressions(query.root, fold))
