"""Pieces of match files, for tests that write them."""

from __future__ import annotations

import numpy as np

from weir.store.matches import Piece


def selected(stream: str, first_row: int, offsets: np.ndarray, items: np.ndarray) -> Piece:
    """The matches of consecutive rows of one stream."""
    events = np.arange(first_row, first_row + len(offsets) - 1, dtype=np.int64)
    return Piece(stream, 0, events, offsets, items, np.empty((0, len(items)), np.int64))
