"""Match files: which queries each event of a slice affected, as CSR by event.

A file holds pieces; a piece covers consecutive row ids of one stream and has `offsets` (one more than
events) and `items` (query ids, ascending within an event). Ids are stored as 32-bit differences from the
file's smallest id where they fit. Times are not stored: row ids lead to every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files
from weir.store.ledger import data_path


class Piece(NamedTuple):
    """The matches of consecutive rows of one stream."""

    stream: str
    first_row: int
    offsets: np.ndarray  # int64[events + 1]
    items: np.ndarray  # int64[pairs], query ids


def write_matches(files: Files, batch: int, pieces: Sequence[Piece]) -> str:
    """Write a match file under a new name and return its path."""
    arrays: dict[str, np.ndarray] = {}
    directory = []
    for k, piece in enumerate(pieces):
        base = int(piece.items.min()) if len(piece.items) else 0
        narrow = not len(piece.items) or int(piece.items.max()) - base < 2**32
        arrays[f"offsets{k}"] = piece.offsets
        arrays[f"items{k}"] = (piece.items - base).astype(np.uint32) if narrow else piece.items - base
        directory.append({"stream": piece.stream, "first_row": piece.first_row, "base": base})
    path = data_path("matches", batch, "csr")
    save_arrays(files, path, arrays, {"pieces": directory})
    return path


def read_matches(files: Files, path: str) -> list[Piece]:
    """The pieces of a match file, items as int64 query ids."""
    arrays, meta = read_arrays(files, path)
    return [
        Piece(
            p["stream"],
            p["first_row"],
            arrays[f"offsets{k}"],
            arrays[f"items{k}"].astype(np.int64) + p["base"],
        )
        for k, p in enumerate(meta["pieces"])
    ]


def rows_of_query(files: Files, path: str, stream: str, query: int) -> np.ndarray:
    """Row ids of one query in one match file, without widening all its items."""
    arrays, meta = read_arrays(files, path)
    found = []
    for k, p in enumerate(meta["pieces"]):
        wanted = query - p["base"]
        if p["stream"] != stream or wanted < 0:
            continue
        at = np.flatnonzero(arrays[f"items{k}"] == wanted)
        if len(at):
            found.append(np.searchsorted(arrays[f"offsets{k}"], at, side="right") - 1 + p["first_row"])
    return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)
