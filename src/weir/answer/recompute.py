"""Recompute: a query evaluated over kept rows from scratch, row file by row file.

This is the second implementation of every selection: it evaluates the predicate itself and never sees boxes,
keys or indexes. It answers demoted queries, rows older than a query's registration, and it checks the matches.
Cost: the rows of the files that the window meets, at a few nanoseconds a row and predicate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weir.algebra.nodes import Expression
from weir.answer.rows import KeptRows
from weir.answer.window import Cut
from weir.families.evaluate import truth


def recompute(
    predicate: Expression | None,
    constants: Mapping[str, object],
    kept: KeptRows,
    cut: Cut,
    *,
    batches_below: int | None = None,
) -> np.ndarray:
    """Ascending ids of the rows inside the cut (its row count left aside) for which the predicate is true."""
    found = [np.empty(0, np.int64)]
    for first_row, table, times in kept.scan(cut, batches_below=batches_below):
        mask = kept.inside(cut, times)
        if predicate is not None and mask.any():
            mask &= truth(predicate, table, constants)
        found.append(np.flatnonzero(mask) + first_row)
    return np.concatenate(found)
