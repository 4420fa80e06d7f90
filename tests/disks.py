"""Disks that are full: a small one of its own, or, where none can be mounted, one whose writes fail."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

SIZE = 192 << 20  # bytes of the small disk: a batch of all that was pushed fits in it
PAGE = 4_096


class Disk(Protocol):
    folder: Path

    def fill(self, left: int) -> contextlib.AbstractContextManager[None]:
        """The disk with so many bytes left."""
        ...


class SmallDisk:
    """A file system of its own, and a file that fills it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def fill(self, left: int) -> Iterator[None]:
        ballast = self.folder / "ballast"
        try:
            with open(ballast, "xb") as file:
                while (size := self._room() - left) > 0:
                    with contextlib.suppress(OSError):  # somebody else was quicker
                        os.posix_fallocate(file.fileno(), 0, size)
                        break
            yield
        finally:
            ballast.unlink()

    def _room(self) -> int:
        about = os.statvfs(self.folder)
        return about.f_bavail * about.f_frsize


class FailingDisk:
    """Writes of this process below a folder fail when there were enough of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def fill(self, left: int) -> Iterator[None]:
        rooms = [left]
        write, link, fsync, mkdir = os.write, os.link, os.fsync, os.mkdir

        def take(size: int) -> None:
            if size > rooms[0]:
                rooms[0] = 0
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rooms[0] -= size

        def is_here(handle: int) -> bool:
            return os.readlink(f"/proc/self/fd/{handle}").startswith(str(self.folder))

        def full_write(handle: int, data: Any) -> int:
            if is_here(handle):
                take(len(data))
            return write(handle, data)

        def full_fsync(handle: int) -> None:
            if is_here(handle):
                take(1)
            fsync(handle)

        def full(do: Callable[..., None]) -> Callable[..., None]:
            def doing(*args: Any, **kwargs: Any) -> None:
                if str(args[-1] if isinstance(args[-1], str) else args[0]).startswith(str(self.folder)):
                    take(1)
                do(*args, **kwargs)

            return doing

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", full_write)
            patch.setattr(os, "fsync", full_fsync)
            patch.setattr(os, "link", full(link))
            patch.setattr(os, "mkdir", full(mkdir))
            yield


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[SmallDisk]:
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs `mount`, and the right to mount a small tmpfs")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
