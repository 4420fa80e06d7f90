"""Planes: select-join queries as rectangles, event attribute × partner attribute (SSI, 3.2).

Seen from an event that arrives on one side of a join, a box is the rectangle [a_lo, a_hi] × [c_lo, c_hi]: `a` is the
access attribute of the event's side, `c` that of its partners, the rows of the other side with an equal join key. The
event is a horizontal line at its own a, its partners are points on that line, and a box is *affected* when it contains
one of them. Bounds are closed and in keys (`weir.index.keys`). A side without a constraint reaches from NULL_KEY to
KEY_MAX and so contains NULL; every other interval begins above NULL_KEY and does not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int64s, frozen


class Plane(NamedTuple):
    """The rectangles of one set of boxes; the other direction of the join sees the same with a and c exchanged."""

    a_lo: Int64s  # int64[n]: least key of the event's access attribute
    a_hi: Int64s  # int64[n]: greatest
    c_lo: Int64s  # int64[n]: least key of the partners' access attribute
    c_hi: Int64s  # int64[n]: greatest


def check(plane: Plane) -> Plane:
    """`plane` with contiguous, read-only int64 arrays; a broken invariant is our own mistake."""
    made = Plane(*(np.ascontiguousarray(array, dtype=np.int64) for array in plane))
    assert len({len(array) for array in made}) == 1, "four bounds for every box"
    assert bool(np.all(made.a_lo <= made.a_hi)), "an interval of a is not empty"
    assert bool(np.all(made.c_lo <= made.c_hi)), "an interval of c is not empty"
    return frozen(made)
