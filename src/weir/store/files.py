"""The files that hold the truth: immutable, named once, on a local disk or in an object store.

A document (`create`) is put-if-absent: of any number of creators of one name exactly one is told True, and
the content it gave is whole and durable when it returns. A data file (`write`) has a name nobody else has.
Nothing is ever overwritten and nothing relies on the order of a listing, so these few verbs are all the
synchronisation that the ledger needs (the same ones Delta and Iceberg ask of a store).

Local disks: the bytes go to a name under `tmp/`, are synced, and are then linked to the final name; `link`
fails if that name exists, which makes it the atomic step. The folder is synced before `create` returns. So
a final name never shows half a file, whatever dies, and a crash leaves at most a file under `tmp/`, which
vacuum removes. Two syncs and a link: 0.2 ms on a fast disk, up to 10 ms on a slow one.

Object stores: a conditional put. A put that is retried after its answer was lost meets its own object, so on
a conflict the bytes are compared: equal bytes mean that *we* created it. Documents whose creators must be
told apart therefore carry a unique token (`unique()`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import MemoryStore, ObjectStore, from_url

from weir.errors import DiskError, OpenError, StoreError
from weir.store.copies import Copies

Data: TypeAlias = bytes | bytearray | memoryview

TEMPORARY = "tmp"  # the folder of half-written local files; nothing else is kept there


class Entry(NamedTuple):
    """One line of a listing."""

    path: str
    size: int  # bytes
    mtime_s: float  # seconds since the epoch, by the clock of the store


class Files(Protocol):
    """The contract. Paths are relative, with `/`. Errors of the disk or the network are StoreErrors."""

    def __hash__(self) -> int: ...

    @property
    def location(self) -> str:
        """What `open_files` takes to open the same files in another process."""
        ...

    def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
        """Put if absent. True: it is durable, unless that was not asked for; False: the name exists already."""
        ...

    def write(self, path: str, data: Data) -> None:
        """A new file under a name that is unique; durable when it returns."""
        ...

    def read(self, path: str) -> bytes | None:
        """The whole file, or None when there is none."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, prefix: str) -> Iterator[Entry]:
        """All files under the folder `prefix`, at any depth, in no particular order."""
        ...

    def delete(self, path: str) -> None:
        """Remove; that it is gone already is no error."""
        ...

    def local_path(self, path: str) -> Path | None:
        """A whole local copy to memory-map, or None when there is no such file."""
        ...

    def has_copy(self, path: str) -> bool:
        """Whether there is a local copy at this moment; none is fetched."""
        ...

    def require_conditional_writes(self) -> None:
        """OpenError if the place overwrites what it was asked to create: then no commit would be the only one."""
        ...


def short_name(text: str) -> str:
    """A name for a folder or file that stands for a text of any length and any characters."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def unique() -> str:
    """A name part or token that nobody else has."""
    return uuid.uuid4().hex


# ── crash points ──────────────────────────────────────────────────────────────────────────────────

_hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Announce a crash point; does nothing unless a test armed one (see `weir.runtime.faults`)."""
    if _hook is not None:
        _hook(point)


def on_reach(hook: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Install what `reach` calls, or None for nothing; returns what was installed before."""
    global _hook
    before, _hook = _hook, hook
    return before


# ── the local disk ────────────────────────────────────────────────────────────────────────────────


class LocalFiles:
    """A folder on a POSIX disk that has hard links."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        self._prefix = f"{self.root}{os.sep}"

    @property
    def location(self) -> str:
        return str(self.root)

    def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
        final = self._absolute(path)
        try:
            created = False
            if not os.path.exists(final):  # else spare the disk a file that cannot be linked
                temporary = self._write_temporary(data, durable)
                try:
                    created = _link(temporary, final)
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(temporary)
            if durable:  # on a conflict too: what the other creator linked must survive before anybody builds on it
                sync_folder(os.path.dirname(final))
            return created
        except OSError as error:
            raise self._failed("write", path, error) from error

    def write(self, path: str, data: Data) -> None:
        if not self.create(path, data):
            raise StoreError(f"file '{path}' exists already, and data files are never overwritten")

    def read(self, path: str) -> bytes | None:
        try:
            with open(self._absolute(path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", path, error) from error

    def exists(self, path: str) -> bool:
        return os.path.exists(self._absolute(path))

    def list(self, prefix: str) -> Iterator[Entry]:
        start = self._absolute(prefix.rstrip("/")) if prefix else str(self.root)
        folders = [start]
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        # A file may vanish between the listing and the look at it: vacuum runs beside us.
                        with contextlib.suppress(FileNotFoundError):
                            if entry.is_dir(follow_symlinks=False):
                                folders.append(entry.path)
                            else:
                                about = entry.stat()
                                name = entry.path[len(self._prefix) :].replace(os.sep, "/")
                                yield Entry(name, about.st_size, about.st_mtime)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._failed("list", prefix, error) from error

    def delete(self, path: str) -> None:
        try:
            os.unlink(self._absolute(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed("delete", path, error) from error

    def local_path(self, path: str) -> Path | None:
        absolute = self._absolute(path)
        return Path(absolute) if os.path.exists(absolute) else None

    def has_copy(self, path: str) -> bool:
        return self.exists(path)

    def require_conditional_writes(self) -> None:
        """A hard link is one."""

    def _write_temporary(self, data: Data, durable: bool) -> str:
        temporary = f"{self._prefix}{TEMPORARY}{os.sep}{unique()}"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            _make_folder(os.path.dirname(temporary))
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            try:
                rest = memoryview(data).cast("B")
                while rest:
                    rest = rest[os.write(handle, rest) :]
                if durable:
                    os.fsync(handle)
            finally:
                os.close(handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary

    def _absolute(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):  # a name may begin so: Spark's half-written files do
            raise StoreError(f"path '{path}' leads out of {self.root}")
        return self._prefix + path

    def _failed(self, verb: str, path: str, error: OSError) -> StoreError:
        reason = error.strerror or str(error)
        kind = DiskError if verb == "write" else StoreError
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = f"free some space under {self.root} and run again; nothing half-written was left behind"
        elif error.errno in (errno.EACCES, errno.EROFS):
            hint = f"make {self.root} writable for this user, or use another folder"
        elif error.errno in (errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EMLINK):
            hint = f"{self.root} needs a single file system with hard links; use another disk or an object store"
        else:
            hint = f"check the disk of {self.root} and run again"
        return kind(f"cannot {verb} '{path}' in {self.root}: {reason}", hint=hint)


def _link(temporary: str, final: str) -> bool:
    try:
        try:
            os.link(temporary, final)
        except FileNotFoundError:
            _make_folder(os.path.dirname(final))
            os.link(temporary, final)  # not found again: we slept so long that vacuum took the temporary file
    except FileExistsError:
        return False
    return True


def _make_folder(folder: str) -> None:
    """Make a folder and its parents, each durable in its own parent."""
    parent = os.path.dirname(folder)
    if not os.path.isdir(parent):
        _make_folder(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    sync_folder(parent)


def sync_folder(folder: str | Path) -> None:
    """Make the names in a folder survive a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ── object stores ─────────────────────────────────────────────────────────────────────────────────


class ObjectFiles:
    """A bucket, or memory, through obstore; local copies are kept in `cache`, a folder of this host."""

    def __init__(self, store: ObjectStore, location: str = "memory:///", cache: Path | None = None) -> None:
        self._store = store
        self._location = location
        self._copies = Copies(location, cache)

    @property
    def location(self) -> str:
        return self._location

    def create(self, path: str, data: Data, *, durable: bool = True) -> bool:
        try:
            obstore.put(self._store, path, bytes(data), mode="create")
        except AlreadyExistsError:
            # Not a conflict if it is our own put, retried by the client after its answer was lost.
            return self._remote and self.read(path) == bytes(data)
        except (OSError, BaseError) as error:
            raise self._failed("write", path, error) from error
        return True

    def require_conditional_writes(self) -> None:
        path = f"{TEMPORARY}/conditional-{unique()}"
        try:
            is_kept = self.create(path, b"first") and not self.create(path, b"second")
            obstore.delete(self._store, path)
        except (StoreError, OSError, BaseError) as error:
            raise OpenError(f"'{self._location}' cannot be written to: {error}") from error
        if not is_kept:
            raise OpenError(
                f"the store of '{self._location}' has no conditional writes: it overwrites what it should only create",
                hint="use a store with put-if-absent (If-None-Match), or a folder",
            )

    def write(self, path: str, data: Data) -> None:
        if not self.create(path, data):
            raise StoreError(f"file '{path}' exists already, and data files are never overwritten")

    def read(self, path: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError), self._saying("read", path):
            return bytes(obstore.get(self._store, path).bytes())
        return None

    def exists(self, path: str) -> bool:
        with contextlib.suppress(FileNotFoundError), self._saying("read", path):
            obstore.head(self._store, path)
            return True
        return False

    def list(self, prefix: str) -> Iterator[Entry]:
        try:
            for chunk in obstore.list(self._store, prefix=prefix.rstrip("/") or None):
                for item in chunk:
                    yield Entry(item["path"], item["size"], item["last_modified"].timestamp())
        except (OSError, BaseError) as error:
            raise self._failed("list", prefix, error) from error

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._saying("delete", path):
            obstore.delete(self._store, path)
        self._copies.drop(path)

    def local_path(self, path: str) -> Path | None:
        copy = self._copies.find(path)
        if copy is not None:
            return copy
        data = self.read(path)
        if data is None:
            return None
        copy = self._copies.add(path, data)
        with contextlib.suppress(StoreError):  # dead copies that are not found now are found another time
            self._copies.drop_dead(lambda folder: (entry.path for entry in self.list(folder)))
        return copy

    def has_copy(self, path: str) -> bool:
        return self._copies.find(path) is not None

    @property
    def _remote(self) -> bool:
        return not isinstance(self._store, MemoryStore)

    @contextlib.contextmanager
    def _saying(self, verb: str, path: str) -> Iterator[None]:
        """Failures of the store say what was tried; that a file is not there is left to the caller."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, BaseError) as error:
            raise self._failed(verb, path, error) from error

    def _failed(self, verb: str, path: str, error: Exception) -> StoreError:
        reason = str(error).strip().split("\n")[0]
        hint = "check the address, the credentials and the network, and run again"
        return StoreError(f"cannot {verb} '{path}' in {self._location}: {reason}", hint=hint)


def open_files(location: str) -> Files:
    """The files at a folder or an object-store address (`s3://`, `gs://`, `az://`, `memory://`)."""
    scheme, separator, rest = location.partition("://")
    if not separator:
        return LocalFiles(Path(location).expanduser())
    if scheme == "file":
        return LocalFiles(Path("/" + rest.lstrip("/")))
    if scheme == "memory":
        return ObjectFiles(MemoryStore(), f"{location.rstrip('/')}/{unique()}")
    try:
        return ObjectFiles(from_url(location), location)
    except (ValueError, OSError, BaseError) as error:
        reason = str(error).strip().split("\n")[0]
        hint = "give a folder, or s3://bucket/path, gs://bucket/path, az://container/path"
        raise OpenError(f"'{location}' cannot be opened: {reason}", hint=hint) from error
