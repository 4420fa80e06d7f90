"""Newest: the times of partners by place, with maxima of blocks, so that a stretch of places tells whether it has one
of some age.

What a two-dimensional range tree over (C, T) is to the selection-first strategy of SSI 3.3.1. Within a run places are
in the order of c, so the partners of a box are a stretch; the question is whether one of them is between `least` and
`most` older than the event. A block whose newest partner is too old is passed over; one whose newest partner is young
enough, and not too young, answers at once; only one with partners on both sides of the window is looked at place by
place. So for events in time order, which no partner is too young for, no more than 2 · 15 places and 2 · 15 blocks are
looked at beside one span for every 256 places.

Invariant: blocks[i] is the maximum of times[16 i .. 16 (i + 1)], spans[i] of times[256 i .. 256 (i + 1)].
Ages are differences of two times, which lie within 73,000 years of the epoch, so none overflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.index.box_tables import Int64s, frozen
from weir.index.jit import Scalar
from weir.index.meeting.lean import lean

_BLOCK, _SPAN = 16, 256  # places; powers of two, and a span is whole blocks


class Newest(NamedTuple):
    """Times by place, and the newest of each block."""

    times: Int64s  # int64[m]
    blocks: Int64s  # int64[m / 16]
    spans: Int64s  # int64[m / 256]


def build_newest(times: Int64s) -> Newest:
    times = np.ascontiguousarray(times, dtype=np.int64)
    if not len(times):
        return frozen(Newest(times, times, times))
    blocks = np.maximum.reduceat(times, np.arange(0, len(times), _BLOCK))
    return frozen(Newest(times, blocks, np.maximum.reduceat(blocks, np.arange(0, len(blocks), _SPAN // _BLOCK))))


@lean
def has_age(newest: Newest, low: Scalar, high: Scalar, time: Scalar, least: Scalar, most: Scalar) -> Scalar:
    """Whether a place of low .. high is least .. most older than `time`."""
    times, blocks, spans = newest.times, newest.blocks, newest.spans
    at = low
    while at < high:
        if at & (_SPAN - 1) == 0 and at + _SPAN <= high:
            age = time - spans[at >> 8]
            step = _SPAN
        elif at & (_BLOCK - 1) == 0 and at + _BLOCK <= high:
            age = time - blocks[at >> 4]
            step = _BLOCK
        else:
            age = time - times[at]
            step = 1
        if age <= most:
            if age >= least:
                return True
            for place in range(at, at + step if step > 1 else at):  # its newest is too young, another may not be
                if least <= time - times[place] <= most:
                    return True
        at += step
    return False
