"""Cache documents: the folded form of a prefix of documents, so that opening does not read them all.

    cache/folded/<kind>-<n>[.suffix]   made of documents 0 … n − 1 (or batches 0 … n)

Invariant: a cache is believed only if its checksum is right and its owner finds that it is about the very
documents that are there (each owner compares a token of the newest one). So deleting, cutting or mixing up
cache files changes nothing but the time the next opening takes; failing to write one is no error, and a cache is not
synced.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator, Sequence

from weir.errors import StoreError
from weir.store.files import Files, short_name

FOLDER = "cache/folded"  # of nothing else, so that listing it is cheap


def segment_folder(form: str, family: str) -> str:
    """Where the query segments of a family lie."""
    return f"cache/segments/{form}/{short_name(family)}"


def save(files: Files, kind: str, number: int, parts: Sequence[bytes], suffix: str = "") -> None:
    """Keep a cache document, and delete all earlier ones except the last, which somebody may be reading."""
    with contextlib.suppress(StoreError):
        older = [path for path, found in _numbered(files, kind) if found < number]
        files.create(f"{FOLDER}/{kind}-{number}{suffix}", _pack(parts), durable=False)
        for path in older[1:]:
            files.delete(path)


def load(files: Files, kind: str) -> Iterator[tuple[int, list[bytes]]]:
    """The readable cache documents of a kind, newest first: (number, parts)."""
    with contextlib.suppress(StoreError):
        for path, number in _numbered(files, kind):
            parts = _unpack(files.read(path))
            if parts is not None:
                yield number, parts


def _numbered(files: Files, kind: str) -> list[tuple[str, int]]:
    """Paths and numbers of a kind, newest first. A listing may miss some, which does not matter for a cache."""
    found = []
    for entry in files.list(FOLDER):
        head, _, tail = entry.path.removeprefix(f"{FOLDER}/").partition("-")
        digits = tail.partition(".")[0]
        if head == kind and digits.isdigit():
            found.append((entry.path, int(digits)))
    return sorted(found, key=lambda f: -f[1])


def _pack(parts: Sequence[bytes]) -> bytes:
    lengths = json.dumps([len(p) for p in parts]).encode()
    body = b"".join([lengths, b"\n", *parts])
    return b"%08x\n" % zlib.crc32(body) + body


def _unpack(data: bytes | None) -> list[bytes] | None:
    if data is None or data[8:9] != b"\n" or data[:8] != b"%08x" % zlib.crc32(data[9:]):
        return None
    lengths, _, rest = data[9:].partition(b"\n")
    parts = []
    for length in json.loads(lengths):
        parts.append(rest[:length])
        rest = rest[length:]
    return parts
