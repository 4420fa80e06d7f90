"""Tables as single Arrow IPC files: uncompressed, so that a local copy is memory-mapped and not parsed.

A file is whole or it is refused: the format ends with a footer, and a cut file has none. Reading costs
10 µs and no copy; pages come in when a column is touched.
"""

from __future__ import annotations

import pyarrow as pa

from weir.errors import StoreError
from weir.store.documents import RESTORE

DAMAGED = (pa.ArrowException, OSError, EOFError)  # what pyarrow raises for a file that is not what it was


def to_ipc(table: pa.Table, metadata: dict[bytes, bytes] | None = None) -> memoryview:
    """A table as the bytes of an Arrow IPC file; `metadata` replaces that of its schema."""
    if metadata is not None:
        table = table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def from_ipc(data: bytes, what: str) -> pa.Table:
    """A table from bytes; `what` names it if it is damaged."""
    try:
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()
    except DAMAGED as error:
        raise StoreError(f"{what} is damaged: {error}", hint=RESTORE) from error
