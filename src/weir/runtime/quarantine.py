"""Which cores are to blame when a family cannot be matched: halves are tried apart until the guilty are alone.

A family that fails while it is built, while rows are prepared for it or while it is matched fails again with the cores
that make it fail, and works without them. A trial asks a part of them. Where no half fails alone, or after `TRIALS_MAX`
trials, the whole part is to blame: its answers are recomputed when they are asked for, so they stay right.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

TRIALS_MAX = 64  # a single core among a million is found with forty
WORKER_DIED = "Python worker exited unexpectedly"  # what Spark says of a task whose process ended


class NotMatchedError(Exception):
    """Why a family cannot be matched with rows of earlier batches."""


def culprits(ids: np.ndarray, works: Callable[[np.ndarray], bool]) -> np.ndarray:
    """The ids, of ascending ones that failed together, without which the rest works; `works` tries some of them.

    None, if all of them work when they are tried again: what made them fail has passed.
    """
    if works(ids):
        return ids[:0]
    trials = 1

    def search(part: np.ndarray) -> list[np.ndarray]:
        nonlocal trials
        if len(part) == 1 or trials >= TRIALS_MAX:
            return [part]
        found: list[np.ndarray] = []
        for half in np.array_split(part, 2):
            trials += 1
            if not works(half):
                found.extend(search(half))
        return found or [part]

    return np.concatenate(search(ids))
