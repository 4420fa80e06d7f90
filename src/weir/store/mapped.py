"""What was read of immutable files, kept by path; of files that are gone nothing is kept.

A mapped file that was deleted takes its space on the disk until nobody maps it any more. So entries whose files are
gone are dropped: every `SWEEP_S` seconds while there is reading, and when vacuum has removed files (`sweep`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from weir.store.files import Files

SWEEP_S = 10.0
T = TypeVar("T")
_caches: WeakSet[Mapped[Any]] = WeakSet()


class Mapped(Generic[T]):
    """The last so many results of reading files, and of each how it was read."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._entries: OrderedDict[tuple[Files, str, object], T] = OrderedDict()
        self._lock = threading.Lock()
        self._swept_s = time.monotonic()
        _caches.add(self)

    def get(self, files: Files, path: str, read: Callable[[], T], how: object = None) -> T:
        """What `read` gives for a file, from the first time; `how` tells different ways of reading one file apart."""
        if time.monotonic() - self._swept_s > SWEEP_S:
            self.sweep()
        key = (files, path, how)  # not its location: another weir may stand there, with files of the same names
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found
        value = read()
        with self._lock:
            self._entries[key] = value
            while len(self._entries) > self._entries_max:
                self._entries.popitem(last=False)
        return value

    def sweep(self) -> None:
        """Forget the files that are gone."""
        self._swept_s = time.monotonic()
        with self._lock:
            keys = list(self._entries)
        gone = [key for key in keys if not key[0].has_copy(key[1])]
        with self._lock:
            for key in gone:
                self._entries.pop(key, None)


def sweep() -> None:
    """Forget, in this whole process, the files that are gone."""
    for cache in list(_caches):
        cache.sweep()
