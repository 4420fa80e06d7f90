"""Room for rows and texts: a few characters of SQL must not fill the memory.

`repeat`, `replace` and `concat` make long texts of short ones, and those that go into one another make texts of any
length. So the texts of one column that an expression makes may take `TEXTS_BYTES_MAX` together, and all that calls in
one expression add to what they were given may not be more. What would not fit is a `TooLargeError` before it is made:
in a batch it puts that query in quarantine, and its `fetch` says why.

Rows of several sources are put side by side to decide a condition over them; where they have long texts, a million
combinations would take gigabytes. `stretches` cuts combinations so that each part takes `STRETCH_BYTES`.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from weir.errors import TooLargeError

TEXTS_BYTES_MAX = 1 << 29
STRETCH_BYTES = 1 << 28
_local = threading.local()


@contextlib.contextmanager
def room() -> Iterator[None]:
    """One evaluation: what is made in it is counted from nothing."""
    before = getattr(_local, "added", 0)
    _local.added = 0
    try:
        yield
    finally:
        _local.added = before


def take(function: str, size: int, given: int = 0) -> None:
    """Count texts of `size` bytes that a function makes of texts of `given` bytes; TooLargeError if they do not fit."""
    require(function, size)
    _local.added = getattr(_local, "added", 0) + max(0, size - given)
    require(function, _local.added)


def require(function: str, size: int) -> None:
    """TooLargeError if a function would make texts of more than so many bytes."""
    if size > TEXTS_BYTES_MAX:
        raise TooLargeError(
            f"{function}() makes texts of {size:,} bytes, at most {TEXTS_BYTES_MAX:,} are allowed in one expression",
            hint="make shorter texts, or of fewer rows",
        )


def stretches(sides: Sequence[pa.Table], places: Sequence[np.ndarray]) -> list[slice]:
    """Parts of some combinations of rows, each small enough for its rows to stand side by side; usually all in one."""
    count = len(places[0])
    sizes = np.broadcast_to(sum(map(_sizes, sides, places)), count)
    if sizes.sum() <= STRETCH_BYTES:
        return [slice(0, count)]
    ends = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < count:
        done = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(max(int(np.searchsorted(ends, done + STRETCH_BYTES, side="right")), cuts[-1] + 1))
    return [slice(*ends) for ends in itertools.pairwise(cuts)]


def bytes_taken(rows: pa.Table, places: np.ndarray) -> int:
    """The bytes of these rows, some of them many times over; a place of −1 stands for no row."""
    there = places[places >= 0]
    return int(np.broadcast_to(_sizes(rows, there), len(there)).sum())


def _sizes(rows: pa.Table, places: np.ndarray) -> np.ndarray:
    """The bytes of each of these rows, or one number that is true for all of them. No text is looked at."""
    total = np.ones(1, np.int64)
    for column in rows.columns:
        if not pa.types.is_string(column.type) and not pa.types.is_binary(column.type):
            total = total + -(-column.nbytes // max(len(column), 1))
        elif len(places):
            total = total + _lengths(column, places)
    return total


def _lengths(texts: pa.ChunkedArray, places: np.ndarray) -> np.ndarray:
    """The bytes of some of these texts, by where they begin and end."""
    of_chunks = []
    for chunk in texts.chunks:
        ends = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        if texts.num_chunks == 1:
            return np.asarray(ends[places + 1].astype(np.int64) - ends[places])
        of_chunks.append(np.diff(ends))
    return np.asarray(np.concatenate(of_chunks)[places], np.int64)
