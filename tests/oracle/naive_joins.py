"""The plain twin of every select-join strategy: each box is compared with each event and each of its partners.

It shares no code with `weir.index.joins`. NULL needs no rule of its own: its key is below the lower end of every
interval but the unconstrained one.
"""

from __future__ import annotations

import numpy as np


def affects(
    plane: tuple[np.ndarray, ...], a: np.ndarray, begin: np.ndarray, end: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """bool[events, boxes]: whether the box contains the event's a and one of its partners."""
    a_lo, a_hi, c_lo, c_hi = plane
    found = np.zeros((len(a), len(a_lo)), dtype=bool)
    for event in range(len(a)):
        reached = np.zeros(len(a_lo), dtype=bool)
        for c in set(values[begin[event] : end[event]].tolist()):
            reached |= (c_lo <= c) & (c <= c_hi)
        found[event] = reached & (a_lo <= a[event]) & (a[event] <= a_hi)
    return found


def search(
    plane: tuple[np.ndarray, ...],
    a: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    values: np.ndarray,
    muted: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets by event, boxes, and the number of events of each box."""
    found = affects(plane, a, begin, end, values) & (muted == 0)[None, :]
    offsets = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    return offsets, np.nonzero(found)[1], found.sum(axis=0)
