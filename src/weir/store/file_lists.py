"""Lists of files by columns: thousands of them are read from a cache and looked through without an object for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]


class FileList:
    """Files in the order in which they came: a path, and some whole numbers, the first of which ascends."""

    def __init__(self, width: int, paths: Sequence[str] = (), figures: Longs | None = None) -> None:
        self.paths = list(paths)
        self._figures = np.empty((0, width), np.int64) if figures is None else figures  # with room for more files
        assert len(self._figures) == len(self.paths), "each file has its figures"

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def figures(self) -> Longs:
        """int64[files, width]."""
        return self._figures[: len(self.paths)]

    def add(self, path: str, *figures: int) -> None:
        """One more file."""
        at = len(self.paths)
        if at == len(self._figures):
            larger = np.empty((max(16, 2 * at), self._figures.shape[1]), np.int64)
            larger[:at] = self._figures
            self._figures = larger
        self._figures[at] = figures
        self.paths.append(path)

    def drop(self, gone: npt.NDArray[np.bool_]) -> list[str]:
        """Forget some files; returns their paths."""
        if not gone.any():
            return []
        dropped = [self.paths[k] for k in np.flatnonzero(gone).tolist()]
        self.paths, self._figures = [self.paths[k] for k in np.flatnonzero(~gone).tolist()], self.figures[~gone]
        return dropped

    def between(self, first: int, last: int) -> range:
        """The places of the files whose first number is from `first` to `last`."""
        begin, end = np.searchsorted(self.figures[:, 0], (first, last + 1)).tolist()
        return range(begin, end)
