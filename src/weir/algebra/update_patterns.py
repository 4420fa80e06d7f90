"""The four update patterns: in what order the results on an edge come and go (UPA, section 3.1).

Which operator makes which pattern is said where operators are: `weir.plan.update_pattern` for queries, and
`weir.operators.patterns` for the paper's own operators.
"""

from __future__ import annotations

import enum


class UpdatePattern(enum.IntEnum):
    """Ordered from the simplest to the most complex."""

    MONOTONIC = 0  # nothing ever expires
    WKS = 1  # weakest: first in, first out
    WK = 2  # weak: not in order, but each result's end is known when it is made
    STR = 3  # strict: a result may end at any moment, which has to be told
