"""Folders that this user owns and nobody else may enter: for files that are run or unpickled later.

The first base that can be used wins: `XDG_CACHE_HOME` if it is given, else `.cache` of the home, else the folder for
temporary files, so that a home that is missing or cannot be written costs nothing but a warm cache.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def private_folders(*parts: str) -> Iterator[Path]:
    """Folders `…/weir/PARTS` that are this user's alone, best first; each is made when it is asked for."""
    for base in _bases():
        folder = base
        if _made_private(folder) and all(_made_private(folder := folder / part) for part in parts):
            yield folder


def _bases() -> list[Path]:
    found = []
    given = os.environ.get("XDG_CACHE_HOME")
    if given and os.path.isabs(given):
        found.append(Path(given) / "weir")
    else:
        with contextlib.suppress(RuntimeError):  # a user without a home
            found.append(Path.home() / ".cache" / "weir")
    found.append(Path(tempfile.gettempdir()) / f"weir-{os.getuid()}")
    return found


def _made_private(folder: Path) -> bool:
    """Make `folder` if need be; whether it is this user's alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
