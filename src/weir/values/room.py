"""Room for texts: a few characters of SQL must not fill the memory.

`repeat`, `replace` and `concat` make long texts of short ones, and those that go into one another make texts of any
length. So the texts of one column that an expression makes may take `TEXTS_BYTES_MAX` together, and all that calls in
one expression add to what they were given may not be more. What would not fit is a `TooLargeError` before it is made:
in a batch it puts that query in quarantine, and its `fetch` says why.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from weir.errors import TooLargeError

TEXTS_BYTES_MAX = 1 << 29
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
