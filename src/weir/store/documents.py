"""Documents: truth that cannot rot silently. Each carries a seal over itself and over the document before it.

    weir document 1 <seal> <seal of the document before> <bytes of the body>      one line, padded to HEAD bytes
    the body: JSON, or an Arrow IPC file, which begins at a multiple of 64 bytes so that it can be memory-mapped

The seal is the SHA-256 of the path, the seal before and the body. So a document that is changed, cut or swapped with
another does not have its seal, and one that was lost and written again with another content breaks the chain at the
next. What a chain alone cannot show is that its *last* document is gone. Hence the witness: after a document is
created, its seal is written once more to `seals/<path>`. A reader that finds no document looks there; a witness without
its document is an error, never the end of the chain. (Should a process die between the two, or the disk be full, the
next document of the chain is the witness.)

Invariants: a document is created once and never changes; its witness is created after it and removed before it. Cost:
192 bytes, a hash (1 GB/s) and an unsynced file of 64 bytes a document; a probe for each look that finds nothing new.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import NamedTuple

from weir.errors import StoreError
from weir.store.files import Data, Files

HEAD = 192  # bytes
ROOT = "0" * 64  # what stands for the seal before the first document of a weir
RESTORE = "it is part of the truth and cannot be rebuilt: restore it from a backup (docs/operations.md says how)"
_MAGIC = b"weir document 1 "


class Document(NamedTuple):
    """A document that has its seal."""

    body: memoryview
    seal: str  # 64 hexadecimal digits
    before: str


def sealed(path: str, before: str, body: Data) -> bytes:
    """A document's bytes."""
    view = memoryview(body).cast("B")
    return b"".join((_head(seal_of(path, before, view), before, len(view)), view))


def _head(seal: str, before: str, size: int) -> bytes:
    head = b"%s%s %s %d" % (_MAGIC, seal.encode(), before.encode(), size)
    return head.ljust(HEAD - 1) + b"\n"


def seal_of(path: str, before: str, body: Data) -> str:
    """The seal of a document: of where it stands, what it follows and what it says."""
    digest = hashlib.sha256(f"{path}\n{before}\n".encode())
    digest.update(body)
    return digest.hexdigest()


def unsealed(path: str, data: Data) -> Document:
    """The document in these bytes; StoreError if they are not what was written."""
    view = memoryview(data).cast("B")
    head = bytes(view[:HEAD])
    parts = head[len(_MAGIC) :].split()
    if not head.startswith(_MAGIC) or len(head) < HEAD or len(parts) != 3 or not parts[2].isdigit():
        raise StoreError(f"{path} is damaged: it does not begin as a document does", hint=RESTORE)
    seal, before, size = parts[0].decode("ascii", "replace"), parts[1].decode("ascii", "replace"), int(parts[2])
    body = view[HEAD:]
    if len(body) != size:
        raise StoreError(f"{path} is damaged: it has {len(body)} of {size} bytes", hint=RESTORE)
    if seal_of(path, before, body) != seal or _head(seal, before, size) != head:
        raise StoreError(f"{path} is damaged: it does not have its seal", hint=RESTORE)
    return Document(body, seal, before)


def create_document(files: Files, path: str, before: str, body: Data, *, is_witnessed: bool = True) -> str | None:
    """Create a document, put-if-absent; its seal, or None if the name is taken.

    `is_witnessed`: its witness is written, too; else the caller does that.
    """
    data = sealed(path, before, body)
    if not files.create(path, data):
        return None
    seal = seal_of_bytes(data)
    if is_witnessed:
        create_witness(files, path, seal)
    return seal


def create_witness(files: Files, path: str, seal: str) -> None:
    """Write down that a document exists. It does, whether that can be written or not, so a full disk is no error."""
    with contextlib.suppress(StoreError):
        files.create(witness_path(path), seal.encode(), durable=False)


def seal_of_bytes(data: Data) -> str:
    """The seal that stands in a document's head, unchecked."""
    return bytes(memoryview(data)[len(_MAGIC) : len(_MAGIC) + 64]).decode("ascii", "replace")


def before_of_bytes(data: Data) -> str:
    """The seal that a document follows, as it stands in its head, unchecked."""
    start = len(_MAGIC) + 65
    return bytes(memoryview(data)[start : start + 64]).decode("ascii", "replace")


def read_document(files: Files, path: str, before: str | None = None) -> Document | None:
    """A document, checked; None if there never was one. `before`: the seal that it must follow."""
    data = files.read(path)
    if data is None:
        if files.exists(witness_path(path)) and (data := files.read(path)) is None:
            raise StoreError(f"{path} is missing, though it was written", hint=RESTORE)
        if data is None:
            return None
    found = unsealed(path, data)
    if before is not None and found.before != before:
        raise StoreError(
            f"{path} does not follow the document before it: one of the two is from another weir or another time",
            hint=RESTORE,
        )
    return found


def exists_document(files: Files, path: str) -> bool:
    """Whether there is a document; StoreError if there was one and it is gone."""
    if files.exists(path):
        return True
    if files.exists(witness_path(path)) and not files.exists(path):
        raise StoreError(f"{path} is missing, though it was written", hint=RESTORE)
    return False


def delete_document(files: Files, path: str) -> None:
    """Remove a document that nobody needs any more: its witness first, so that a half removal is none."""
    files.delete(witness_path(path))
    files.delete(path)


def witness_path(path: str) -> str:
    return f"seals/{path}"


def numbers_in(files: Files, folder: str) -> list[int]:
    """The numbers of documents in a folder, ascending; also of those of which only the witness is left."""
    names = {e.path.rpartition("/")[2] for place in (folder, witness_path(folder)) for e in files.list(place)}
    return sorted(int(name) for name in names if name.isdigit())
