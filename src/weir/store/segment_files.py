"""Plain named arrays in one file, memory-mapped read-only: how indexes and other caches lie on disk.

    head:       magic 8 · version u32 · bytes of the directory u32 · its offset u64 · its crc32 u32 · 0 u32
    arrays, each at a multiple of 64 bytes, C order
    directory:  JSON {"arrays": [[name, dtype, shape, offset, crc32], …], "meta": {…}}
    trailer:    crc32 of the directory u32 · magic 8, the last 12 bytes of the file

Invariant: a file under its final name is whole, because it is written under a temporary name, synced and
renamed. Should a disk lose or cut it all the same, the length that follows from the head, the directory's
checksum and the trailer (written last) say so at opening, and the caller builds it again: it is a cache. The
arrays' own checksums are looked at only with `verify=True`, since that reads the whole file.

Cost: opening is one mmap and a JSON header, about 50 µs, whatever the size; all processes of a host share the
pages. A file is never changed under its name: cutting a mapped file would kill its readers.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import zlib
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.errors import DiskError, StoreError
from weir.store.files import reach, sync_folder, unique

Array = npt.NDArray[Any]

MAGIC = b"WEIRSEG\x01"
VERSION = 1
ALIGN = 64
_HEAD = struct.Struct("<8sIIQII")
_TRAILER = struct.Struct("<I8s")


class _FileLayout(NamedTuple):
    """Where everything goes in a file."""

    places: list[tuple[int, memoryview | bytes]]  # (offset, bytes), ascending; the last one ends the file
    checksum: int  # of the directory, hence of everything: it has the checksums of the arrays

    @property
    def size(self) -> int:
        offset, last = self.places[-1]
        return offset + len(last)


def _lay_out(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> _FileLayout:
    directory: list[list[Any]] = []
    places: list[tuple[int, memoryview | bytes]] = []
    offset = ALIGN
    for name, given in arrays.items():
        array = np.asarray(given, order="C")
        if array.dtype.hasobject:
            raise StoreError(f"array '{name}' holds Python objects; only plain numbers can be mapped")
        data = _bytes_of(array)
        directory.append([name, array.dtype.str, array.shape, offset, zlib.crc32(data)])
        places.append((offset, data))
        offset = _aligned(offset + array.nbytes)
    header = json.dumps({"arrays": directory, "meta": dict(meta)}, separators=(",", ":")).encode()
    checksum = zlib.crc32(header)
    head = _HEAD.pack(MAGIC, VERSION, len(header), offset, checksum, 0)
    return _FileLayout([(0, head), *places, (offset, header + _TRAILER.pack(checksum, MAGIC))], checksum)


def packed_arrays(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> tuple[bytearray, int]:
    """All arrays as the bytes of a file, and the checksum that stands for all of it."""
    laid = _lay_out(arrays, meta)
    data = bytearray(laid.size)
    for offset, part in laid.places:
        data[offset : offset + len(part)] = part
    return data, laid.checksum


def write_arrays(path: Path, arrays: Mapping[str, Array], meta: Mapping[str, Any], *, durable: bool = True) -> None:
    """Write all arrays to a file; durable when it returns, unless nobody reads it after a crash. An older file of that
    name is replaced whole.
    """
    laid = _lay_out(arrays, meta)
    temporary = path.with_name(f".{path.name}.{unique()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            for offset, part in laid.places:
                file.seek(offset)
                file.write(part)
                reach("half a segment file")
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        hint = f"free some space under {path.parent} and run again; nothing is lost"
        raise DiskError(f"cannot write segment {path}: {error.strerror or error}", hint=hint) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def map_arrays(
    path: Path, verify: bool = False, expected: int | None = None, checked: Container[str] = ()
) -> tuple[dict[str, Array], dict[str, Any]]:
    """A file's arrays, mapped read-only, and its meta. Missing, cut or damaged: StoreError.

    `verify` looks at the checksums of the arrays and at the zeros between them too, without it only at those of arrays
    whose names are `checked`; `expected` is the checksum that the directory must have.
    """
    try:
        with pa.memory_map(str(path)) as file:  # Python's own map would keep a file descriptor open
            view = memoryview(file.read_buffer()).cast("B")
    except (OSError, ValueError) as error:
        raise StoreError(f"segment {path} cannot be opened: {error}") from error
    if len(view) < _HEAD.size + _TRAILER.size:
        raise StoreError(f"segment {path} is cut: {len(view)} bytes")
    magic, version, header_bytes, offset, checksum, _ = _HEAD.unpack_from(view)
    if magic != MAGIC or version != VERSION:
        raise StoreError(f"segment {path} is not of version {VERSION} of this format")
    end = offset + header_bytes
    if end + _TRAILER.size != len(view):
        raise StoreError(f"segment {path} is cut: {len(view)} of {end + _TRAILER.size} bytes")
    header = view[offset:end]
    if zlib.crc32(header) != checksum or _TRAILER.unpack_from(view, end) != (checksum, MAGIC):
        raise StoreError(f"segment {path} is damaged: its directory or its end is not what was written")
    if expected is not None and checksum != expected:
        raise StoreError(f"segment {path} is damaged: it does not have its checksum")
    content = json.loads(bytes(header))
    if verify and _has_stray_bytes(view, content["arrays"], offset):
        raise StoreError(f"segment {path} is damaged: there is something between its arrays")
    arrays: dict[str, Array] = {}
    for name, dtype, shape, start, array_checksum in content["arrays"]:
        count = math.prod(shape)
        array = np.frombuffer(view, dtype, count, start) if count else np.empty(shape, dtype)
        if len(shape) != 1:
            array = array.reshape(shape)
        array.flags.writeable = False
        if (verify or name in checked) and zlib.crc32(_bytes_of(array)) != array_checksum:
            raise StoreError(f"segment {path} is damaged: array '{name}' does not have its checksum")
        arrays[name] = array
    return arrays, content["meta"]


def _has_stray_bytes(view: memoryview, directory: list[list[Any]], end: int) -> bool:
    """Whether a byte that belongs to nothing, from the head to the directory, is not 0."""
    at = _HEAD.size - 4  # the head ends with a 0
    for _, dtype, shape, start, _ in directory:
        if any(view[at:start]):
            return True
        at = start + math.prod(shape) * np.dtype(dtype).itemsize
    return any(view[at:end])


def _bytes_of(array: Array) -> memoryview | bytes:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN) * ALIGN
