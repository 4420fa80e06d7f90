"""Local copies of files of an object store: a folder of this host, which all processes of this user share.

A file never changes under its name, so a copy is right for as long as it is there, and any copy may go at any time:
who has it mapped keeps it, who wants it again fetches it again. Whoever deletes a file deletes this host's copy. Other
hosts find theirs dead by themselves: a host that adds copies looks, every `SWEEP_S` seconds, which of its copies are of
files that the store does not have any more. So it has at most what the store has, and what died since it last looked.

Cost: one listing of the folders that copies are of, for each host and `SWEEP_S`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from weir.errors import StoreError

SWEEP_S = 600.0
SWEPT = ".swept"  # its time says when this host looked for dead copies; names of copies do not begin with a dot


class Copies:
    """The copies of one location's files on this host."""

    def __init__(self, location: str, folder: Path | None = None) -> None:
        self._folder = folder or _host_folder(location)

    def find(self, path: str) -> Path | None:
        """The copy of a file, if there is one."""
        copy = self._folder / path
        return copy if copy.exists() else None

    def add(self, path: str, data: bytes) -> Path:
        """Make a copy of a file; it is whole when it has its name."""
        copy = self._folder / path
        try:
            _make_private(self._folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            temporary = copy.with_name(f".{copy.name}.{uuid.uuid4().hex}")
            try:
                temporary.write_bytes(data)
                temporary.rename(copy)  # names are immutable, so a race replaces equal bytes
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            hint = f"the cache of this host is {self._folder}; free some space there, or delete it, and run again"
            raise StoreError(f"cannot copy '{path}': {error.strerror or error}", hint=hint) from error
        return copy

    def drop(self, path: str) -> None:
        """Remove the copy of a file that is gone: a process that has it mapped keeps it, nobody maps it anew."""
        with contextlib.suppress(OSError):
            os.unlink(self._folder / path)

    def drop_dead(self, living: Callable[[str], Iterable[str]]) -> int:
        """Remove copies of files that are gone, unless this host has looked for them of late; how many there were.

        `living`: the paths of all files of a top folder, as the store lists them.
        """
        if not self._is_due():
            return 0
        # Copies first, files after that: what has a copy and lives is listed.
        copies, half = self._all()
        alive = {path for top in sorted({path.partition("/")[0] for path in copies}) for path in living(top)}
        dead = [path for path in copies if path not in alive]
        for path in dead + half:
            self.drop(path)
        return len(dead)

    def _is_due(self) -> bool:
        """Whether this host should look; then nobody else does for a while."""
        mark = self._folder / SWEPT
        try:
            looked_s = mark.stat().st_mtime if mark.exists() else None
            if looked_s is not None and 0 <= time.time() - looked_s < SWEEP_S:
                return False
            mark.touch(mode=0o600)
        except OSError:  # no space, or somebody deletes the folder: another time
            return False
        return looked_s is not None

    def _all(self) -> tuple[list[str], list[str]]:
        """The paths of all copies, and of those that a process left half-written when it died."""
        whole, half = [], []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = Path(folder) / name
                relative = path.relative_to(self._folder).as_posix()
                if not name.startswith("."):
                    whole.append(relative)
                elif name != SWEPT:
                    with contextlib.suppress(OSError):
                        if path.stat().st_mtime < time.time() - SWEEP_S:
                            half.append(relative)
        return whole, half


def _host_folder(location: str) -> Path:
    """One private folder for each location, shared by all processes of this user on this host."""
    digest = hashlib.sha256(location.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"weir-{os.getuid()}-{digest}"


def _make_private(folder: Path) -> None:
    """A folder under the shared temporary one that nobody else can have prepared for us, or look into."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise OSError(errno.EACCES, f"{folder} belongs to somebody else")
