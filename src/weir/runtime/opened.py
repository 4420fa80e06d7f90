"""What a process has opened of caches, kept from batch to batch, so that a batch pays for what is new.

Opening a segment costs a millisecond or so, most of it in making Python objects; a batch of few rows met by hundreds of
families is hardly anything else. Only maps of immutable files and what is made of row files are kept. A file is known
by its inode, size and time, too: another weir may stand at the same place one day, with files of the same names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from weir.errors import StoreError
from weir.store.files import Files, open_files
from weir.store.mapped import Mapped

OPENED_MAX = 4_096  # segments of queries and of rows
FOLDERS_MAX = 64

_opened: Mapped[Any] = Mapped(OPENED_MAX)
_files_at = lru_cache(FOLDERS_MAX)(open_files)


def files_at(location: str) -> Files:
    """The files of a weir; the same object each time, where another process can have the same files at all."""
    return open_files(location) if location.startswith("memory:") else _files_at(location)


def opened(files: Files, path: str, open: Callable[[], Any]) -> Any:
    """What `open` gives for a cache file, from the first time."""
    local = files.local_path(path)
    try:
        about = os.stat(local) if local is not None else None
    except OSError:
        about = None
    if about is None:
        raise StoreError(f"file '{path}' is missing")
    return _opened.get(files, path, open, (about.st_ino, about.st_size, about.st_mtime_ns))


def made_of(files: Files, path: str, make: Callable[[], Any], how: object) -> Any:
    """What `make` gives of data files, whose names never come again, from the first time; `path` is one of them."""
    return _opened.get(files, path, make, how)
