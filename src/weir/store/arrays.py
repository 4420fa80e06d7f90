"""Named arrays under the root: `segments` files reached through `Files`, local or not."""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from weir.errors import StoreError
from weir.store.data_files import checked_path, data_path, is_checked, remember, said_of
from weir.store.documents import RESTORE
from weir.store.files import Files, LocalFiles
from weir.store.segment_files import Array, map_arrays, packed_arrays, write_arrays

_STANDS = "stands at"  # the key of a file's own path in its description


def save_arrays(
    files: Files, path: str, arrays: Mapping[str, Array], meta: Mapping[str, Any], *, durable: bool = True
) -> None:
    """Write named arrays; durable when it returns, unless that is not asked for. An older file is replaced whole.

    The file says where it stands, so that one that changed places with another is not believed.
    """
    meta = {**meta, _STANDS: path}
    if isinstance(files, LocalFiles):
        write_arrays(files.root / path, arrays, meta, durable=durable)
        return
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "arrays"
        write_arrays(whole, arrays, meta)
        files.delete(path)
        files.write(path, whole.read_bytes())


def read_arrays(
    files: Files, path: str, *, verify: bool = False, checked: Container[str] = ()
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Map named arrays read-only; a missing or cut file is a StoreError, and with `verify` one with flipped bits.

    Without it, flipped bits of the arrays whose names are `checked` are.
    """
    local = files.local_path(path)
    if local is None:
        raise StoreError(f"file '{path}' is missing")
    arrays, meta = map_arrays(local, verify=verify, checked=checked)
    if meta.pop(_STANDS, None) != path:
        raise StoreError(f"file '{path}' is another one's")
    return arrays, meta


def write_data_arrays(
    files: Files, folder: str, batch: int, arrays: Mapping[str, Array], meta: Mapping[str, Any]
) -> str:
    """Write named arrays as a data file, whose name says what is in it; returns the name."""
    data, checksum = packed_arrays(arrays, meta)
    path = data_path(folder, batch, data, "csr", checksum)
    files.write(path, data)
    return path


def read_data_arrays(files: Files, path: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """The named arrays of a data file; a process looks at its checksum when it first reads it."""
    local = checked_path(files, path, whole=False)
    if is_checked(files, path):
        return map_arrays(local)
    try:
        found = map_arrays(local, verify=True, expected=said_of(path)[1])
    except StoreError as error:
        raise StoreError(f"file '{path}' is damaged: {error}", hint=RESTORE) from error
    remember(files, path)
    return found


def is_whole(files: Files, path: str, *, verify: bool = False) -> bool:
    """Whether a file that we wrote is still there: a cache may be deleted or cut at any moment."""
    try:
        read_arrays(files, path, verify=verify)
    except StoreError:
        return False
    return True


def delete_damaged(files: Files, paths: Iterable[str]) -> bool:
    """Delete the files of a cache that do not have their checksums, so that they are built again; whether any was."""
    damaged = [path for path in paths if not is_whole(files, path, verify=True)]
    for path in damaged:
        files.delete(path)
    return bool(damaged)
