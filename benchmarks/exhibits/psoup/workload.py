"""The data and constants of PSoup's experiments (section 5.2.1).

Attributes are uniform on 0..255. A constant is, with probability 0.2, one of the multiples of 32 in that range, and
else uniform too: some values are more interesting than others.
"""

from __future__ import annotations

import numpy as np

from weir.index.box_tables import Int64s

VALUE_MAX = 255
STEP = 32
STEP_PROBABILITY = 0.2


def draw_values(n: int, random: np.random.Generator) -> Int64s:
    """One attribute of n rows."""
    return random.integers(0, VALUE_MAX, n, endpoint=True)


def draw_constants(n: int, random: np.random.Generator) -> Int64s:
    """The constants of n boolean factors."""
    marked = STEP * random.integers(0, VALUE_MAX // STEP, n, endpoint=True)
    return np.where(random.random(n) < STEP_PROBABILITY, marked, draw_values(n, random))
