"""Compile every kernel once, before the first batch needs it, and say how long it took.

A small table with every kind of constraint is built and searched by every strategy, within budget and over it, so that
each kernel is compiled (or loaded from its cache) for exactly the argument types that real tables give it; a test holds
that nothing is compiled later. Compile time is thereby reported apart from run time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from weir.index import strings
from weir.index.boxes import BoxTable
from weir.index.jit import KERNELS
from weir.index.strategies import STRATEGIES

_BOXES = 2_000
_WIDTH = 20  # of an interval, in a thousand
_KEYS = 1_000


def warm(progress: Callable[[str], None] | None) -> float:
    """Seconds it took to compile all kernels, or to load them from their cache."""
    started = time.perf_counter()
    table, keys = _sample()
    muted = np.zeros(_BOXES, dtype=np.uint8)
    for number, (name, strategy) in enumerate(STRATEGIES.items()):
        if progress is not None:
            progress(f"kernels of strategy {number + 1} of {len(STRATEGIES)}: {name}")
        index = strategy.build(table, _BOXES, len(keys))
        index.search(keys, muted, _BOXES * keys.shape[1])
        index.search(keys, muted, 0)
    dictionary = strings.build(pa.array(["a", "b"]))
    strings.find(dictionary, pa.array(["a", None]))
    elapsed = time.perf_counter() - started
    if progress is not None:
        progress(f"{len(KERNELS)} kernels ready in {elapsed:.1f} s")
    return elapsed


def _sample() -> tuple[BoxTable, np.ndarray]:
    """Boxes over two categories and two numbers, one to four constraints each, and a few events."""
    box = np.arange(_BOXES)
    constants = np.stack([box % 7, box // 7 % 5, box * 37 % _KEYS, box * 91 % _KEYS], axis=1)
    widths = np.array([0, 0, _WIDTH, _WIDTH])
    both_numbers = 0b1100  # most boxes, so that a grid of two dimensions pays
    which = np.where(box % 4 == 0, 1 + box // 4 % 15, both_numbers)
    asked = (which[:, None] >> np.arange(4)) & 1 == 1
    at = np.nonzero(asked)
    lo = constants[at].astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(asked, axis=1))])
    table = BoxTable(box.astype(np.int32), offsets, at[1].astype(np.int32), lo, lo + widths[at[1]])
    return table, np.ascontiguousarray(constants[:300].T, dtype=np.int64)
