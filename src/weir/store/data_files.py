"""Data files: rows, late rows, matches and pushed rows. A name says the batch, the size and the checksum of its file.

    rows/000000000007-<token>-<bytes, hexadecimal>-<crc32>.arrow

A file counts only if a document names it, and documents are sealed, so a file that is cut, changed or swapped with
another does not fit its name. Readers look once for each process and file; workers and the driver live long, so what is
read often is checked once. Cost: a pass over the file at 3 GB/s when it is first read, nothing after that.
"""

from __future__ import annotations

import mmap
import re
import zlib
from pathlib import Path

from weir.errors import StoreError
from weir.store.documents import RESTORE
from weir.store.files import Data, Files, unique

CHECKED_MAX = 200_000  # files that a process remembers to have checked
_NAME = re.compile(r"(?P<batch>[0-9]{12})-[0-9a-z]+(?:-(?P<size>[0-9a-f]+)-(?P<checksum>[0-9a-f]{8}))?\.\w+")
_checked: dict[tuple[str, str], None] = {}  # (location, path) of files that fit their names; the oldest first


def data_path(folder: str, batch: int, data: Data, suffix: str = "arrow", checksum: int | None = None) -> str:
    """A new unique name in `rows`, `late`, `matches` or `inbox/data` for a file with these bytes."""
    size = memoryview(data).nbytes
    return named(folder, batch, size, zlib.crc32(data) if checksum is None else checksum, suffix)


def named(folder: str, batch: int, size: int, checksum: int, suffix: str) -> str:
    """A new unique name for a file of that size and checksum."""
    return f"{folder}/{batch:012d}-{unique()}-{size:x}-{checksum:08x}.{suffix}"


def batch_of_path(path: str) -> int | None:
    """The batch (or ticket) that a name made by `data_path` belongs to."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return int(found["batch"]) if found else None


def said_of(path: str) -> tuple[int, int]:
    """The size and the checksum that a name promises."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    if found is None or found["size"] is None:
        raise StoreError(f"'{path}' is not the name of a data file", hint=RESTORE)
    return int(found["size"], 16), int(found["checksum"], 16)


def checked_path(files: Files, path: str, whole: bool = True) -> Path:
    """A local copy of a data file that fits its name; StoreError if it is missing or does not.

    `whole`: its checksum is that of all its bytes; else only the size is compared here.
    """
    local = files.local_path(path)
    if local is None:
        raise StoreError(f"file '{path}' is missing", hint=GONE)
    if is_checked(files, path):
        return local
    size, checksum = said_of(path)
    try:
        found = local.stat().st_size
        if found != size:
            raise StoreError(f"file '{path}' is damaged: it has {found:,} of {size:,} bytes", hint=RESTORE)
        if whole and checksum_of(local) != checksum:
            raise StoreError(f"file '{path}' is damaged: it does not have its checksum", hint=RESTORE)
    except FileNotFoundError as error:
        raise StoreError(f"file '{path}' is missing", hint=GONE) from error
    if whole:
        remember(files, path)
    return local


def check_data(files: Files, path: str, data: Data) -> None:
    """StoreError if the bytes of a data file do not fit its name; a process looks once."""
    if is_checked(files, path):
        return
    size, checksum = said_of(path)
    found = memoryview(data).nbytes
    if found != size:
        raise StoreError(f"file '{path}' is damaged: it has {found:,} of {size:,} bytes", hint=RESTORE)
    if zlib.crc32(data) != checksum:
        raise StoreError(f"file '{path}' is damaged: it does not have its checksum", hint=RESTORE)
    remember(files, path)


GONE = f"a file that has just expired is gone, then ask again; else {RESTORE}"


def checksum_of(path: Path) -> int:
    """The crc32 of a file's bytes."""
    with open(path, "rb") as file:
        if path.stat().st_size == 0:
            return 0
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return zlib.crc32(mapped)


def is_checked(files: Files, path: str) -> bool:
    """Whether this process has found the file to fit its name."""
    return (files.location, path) in _checked


def remember(files: Files, path: str) -> None:
    """The file fits its name: do not look again."""
    _checked[files.location, path] = None
    while len(_checked) > CHECKED_MAX:
        _checked.pop(next(iter(_checked)), None)


def forget_checks() -> None:
    """Look at every file again: for tests, and for `weir check`."""
    _checked.clear()
