"""The plain twin of filtering in steps: which slots are still possible after each step, by definition.

Attributes are dealt out among steps (CSJQ section 4: first those of the arriving stream, then those of a joining row;
here any number of steps). After step k a slot is a *candidate* for an event if it has a box whose constraints on
attributes of steps 0 … k all hold. After the last step these are the matches, whichever the steps. Nothing is shared
with `weir.index`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NULL_KEY = -(2**63)


def candidates(
    table: tuple[np.ndarray, ...], n_slots: int, keys: np.ndarray, step_of_attribute: Sequence[int], step: int
) -> np.ndarray:
    """bool[events, slots]: whether the slot is a candidate for the event after this step."""
    slot_of_box, offsets, attribute, lo, hi = table
    found = np.zeros((keys.shape[1], n_slots), dtype=bool)
    for box, slot in enumerate(slot_of_box):
        holds = np.ones(keys.shape[1], dtype=bool)
        for c in range(offsets[box], offsets[box + 1]):
            if step_of_attribute[attribute[c]] <= step:
                key = keys[attribute[c]]
                holds &= (key != NULL_KEY) & (key >= lo[c]) & (key <= hi[c])
        found[:, slot] |= holds
    return found


def matches(table: tuple[np.ndarray, ...], n_slots: int, keys: np.ndarray) -> list[tuple[int, int]]:
    """The (event, slot) pairs, ascending: every constraint of a box of the slot holds, whatever the steps."""
    slot_of_box, offsets, attribute, lo, hi = table
    found = set()
    for event in range(keys.shape[1]):
        for box, slot in enumerate(slot_of_box.tolist()):
            constraints = range(offsets[box], offsets[box + 1])
            if all(
                keys[attribute[c], event] != NULL_KEY and lo[c] <= keys[attribute[c], event] <= hi[c]
                for c in constraints
            ):
                found.add((event, slot))
    return sorted(found)
