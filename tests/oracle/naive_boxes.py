"""The plain twin of every box index: each box is compared with each event, and nothing is clever.

It shares no code with `weir.index` beyond the names of the tuples. A box is a list of (attribute, lo, hi); an event
matches a slot if some box of the slot contains it.
"""

from __future__ import annotations

import numpy as np

NULL_KEY = -(2**63)


def contains(table: tuple[np.ndarray, ...], n_slots: int, keys: np.ndarray) -> np.ndarray:
    """bool[events, slots]: whether a box of the slot contains the event."""
    slot_of_box, offsets, attribute, lo, hi = table
    found = np.zeros((keys.shape[1], n_slots), dtype=bool)
    for box, slot in enumerate(slot_of_box):
        inside = np.ones(keys.shape[1], dtype=bool)
        for c in range(offsets[box], offsets[box + 1]):
            key = keys[attribute[c]]
            inside &= (key != NULL_KEY) & (lo[c] <= key) & (key <= hi[c])
        found[:, slot] |= inside
    return found


def search(
    table: tuple[np.ndarray, ...], n_slots: int, keys: np.ndarray, muted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets by event, slots, and the number of events of each slot."""
    found = contains(table, n_slots, keys) & (muted == 0)[None, :]
    offsets = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    return offsets, np.nonzero(found)[1], found.sum(axis=0)
