"""Searches in ascending numbers, as parts of other kernels.

`halved` takes a number of steps that depends on the length of the run alone, and no branch on what is found. `galloped`
goes in growing steps first, for what is near. Both are made part of whoever calls them, so `with_equal` should be a
constant there: then nothing is left of it.
"""

from __future__ import annotations

from weir.index.box_tables import Int64s
from weir.index.jit import Scalar
from weir.index.meeting.lean import thin


@thin
def halved(values: Int64s, low: Scalar, n: Scalar, key: Scalar, with_equal: Scalar) -> Scalar:
    """The end of those of the `n` values from `low` on that are below `key`, or `with_equal` not above it."""
    while n > 0:
        half = (n + 1) >> 1
        value = values[low + half - 1]
        low = low + half if (value <= key if with_equal else value < key) else low
        n -= half
    return low


@thin
def galloped(values: Int64s, low: Scalar, end: Scalar, key: Scalar, with_equal: Scalar) -> Scalar:
    """The same for the values of low … end."""
    if low >= end or (values[low] > key if with_equal else values[low] >= key):
        return low
    step = 1
    while low + step < end and (values[low + step] <= key if with_equal else values[low + step] < key):
        low += step
        step *= 2
    # values[low] is one of them, and low + step is the end or none of them.
    return halved(values, low + 1, min(step, end - low) - 1, key, with_equal)
