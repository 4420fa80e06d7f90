"""Arrays of which only what is taken is checked: who asks for a few results does not read a gigabyte of runs.

A file has beside each such array its checksums by block, and of an array of keys the first key of each block. These are
small and checked whole when the file is mapped. A block is checked when something of it is taken for the first time.
All arrays are int64.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from weir.errors import StoreError
from weir.store.arrays import read_arrays
from weir.store.ascending import ranges
from weir.store.files import Files

BLOCK = 8_192  # numbers
Longs = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[np.generic]]


def with_sums(arrays: Mapping[str, Longs], keys: str) -> Arrays:
    """The arrays that a file has: these, and what they are checked by; `keys` names those that are looked for."""
    sums: Arrays = {
        _sums(name): np.array([_sum(array, k) for k in _blocks(array)], np.uint32) for name, array in arrays.items()
    }
    return dict(arrays) | sums | {_firsts(keys): arrays[keys][::BLOCK]}


class CheckedArrays:
    """The arrays of one file, mapped."""

    def __init__(self, files: Files, path: str, names: tuple[str, ...], keys: str) -> None:
        small = {_firsts(keys), *map(_sums, names)}
        arrays, _ = read_arrays(files, path, checked=small)
        if not small | set(names) <= arrays.keys():
            raise StoreError(f"file '{path}' is of another version")
        self._path = path
        self._arrays: dict[str, Longs] = {name: arrays[name] for name in names}
        self._sums = {name: arrays[_sums(name)] for name in names}
        self._checked = {name: np.zeros(len(sums), bool) for name, sums in self._sums.items()}
        self._keys = keys
        self._first_keys = arrays[_firsts(keys)]

    def whole(self, name: str) -> Longs:
        """All of an array."""
        self._check(name, range(len(self._sums[name])))
        return self._arrays[name]

    def part(self, name: str, begin: int, end: int) -> Longs:
        """Some neighbours."""
        self._check(name, range(begin // BLOCK, -(-end // BLOCK)))
        return self._arrays[name][begin:end]

    def parts(self, name: str, begin: Longs, end: Longs) -> Longs:
        """Several stretches of neighbours, one after the other."""
        blocks = ranges(begin // BLOCK, np.where(end > begin, -(-end // BLOCK), 0))
        self._check(name, np.unique(blocks[~self._checked[name][blocks]]).tolist())
        return self._arrays[name][ranges(begin, end)]

    def find(self, key: int) -> int | None:
        """The place of a key; None if there is none."""
        block = int(np.searchsorted(self._first_keys, key, side="right")) - 1
        if block < 0:
            return None
        some = self.part(self._keys, block * BLOCK, min((block + 1) * BLOCK, len(self._arrays[self._keys])))
        at = int(np.searchsorted(some, key))
        return block * BLOCK + at if at < len(some) and some[at] == key else None

    def _check(self, name: str, blocks: Iterable[int]) -> None:
        array, sums, checked = self._arrays[name], self._sums[name], self._checked[name]
        for block in blocks:
            if checked[block]:
                continue
            if _sum(array, block) != sums[block]:
                raise StoreError(f"file '{self._path}' is damaged: array '{name}' does not have its checksum")
            checked[block] = True


def _blocks(array: Longs) -> range:
    return range(-(-len(array) // BLOCK))


def _sum(array: Longs, block: int) -> int:
    return zlib.crc32(array[block * BLOCK : (block + 1) * BLOCK].view(np.uint8).data)


def _sums(name: str) -> str:
    return f"{name} sums"


def _firsts(keys: str) -> str:
    return f"{keys} firsts"
