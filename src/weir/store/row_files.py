"""Row files: the rows of one stream that one ingest task accepted, as one uncompressed Arrow IPC file.

A file holds one record batch in arrival order, so that mapping it costs microseconds and a column is one
contiguous array. Row ids are not in the file: the done document gives its first id, and ids are positions.
`late/` files are the same with one more column, the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from weir.algebra.schema import Column, DataType, Kind, Stream
from weir.errors import StoreError
from weir.store.arrow import DAMAGED
from weir.store.data_files import GONE, check_data, data_path
from weir.store.documents import RESTORE
from weir.store.files import Files

REASON = "weir_reason"

_ARROW = {
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.INTERVAL: pa.int64(),
    Kind.NULL: pa.null(),
}


_ARROW_VARIANTS = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "float": pa.float32(),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}


def arrow_type(type: DataType) -> pa.DataType:
    """How a value of this type is kept in files and answers; an interval is its microseconds."""
    if type.kind is Kind.LIST:
        return pa.list_(arrow_type(type.item))
    if type.kind is Kind.DECIMAL:
        return pa.decimal128(type.precision, type.scale)
    if type.parts or type.variant == "struct":
        parts = [(name, arrow_type(part)) for name, part in type.parts]
        if type.variant == "struct":
            return pa.struct(parts)
        return pa.list_(parts[0][1]) if type.variant == "array" else pa.map_(parts[0][1], parts[1][1])
    return _ARROW_VARIANTS.get(type.variant) or _ARROW[type.kind]


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(c.name, arrow_type(c.type)) for c in columns])


def times_us(rows: pa.Table, stream: Stream) -> pa.Array:
    """The time column as int64 µs (NULL stays NULL)."""
    column = rows.column(stream.time)
    return pc.cast(column.cast(pa.timestamp("us", "UTC")), pa.int64()).combine_chunks()


def encode_table(table: pa.Table) -> pa.Buffer:
    """The bytes of an Arrow IPC file with one record batch."""
    sink = pa.BufferOutputStream()
    table = table.combine_chunks()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(1, table.num_rows))
    return sink.getvalue()


def write_table(files: Files, folder: str, batch: int, table: pa.Table) -> str:
    """Write a file under a new name and return its path; it exists for readers once a document names it."""
    data = encode_table(table)
    path = data_path(folder, batch, data)
    files.write(path, data)
    return path


def read_table(files: Files, path: str) -> pa.Table:
    """The table of a data file, memory-mapped; its checksum is looked at when a process first reads it."""
    local = files.local_path(path)
    try:
        if local is None:
            raise FileNotFoundError
        data = pa.memory_map(str(local)).read_buffer()
        check_data(files, path, data)
        return pa.ipc.open_file(pa.BufferReader(data)).read_all()
    except FileNotFoundError as missing:
        raise StoreError(f"file '{path}' is missing", hint=GONE) from missing
    except DAMAGED as damaged:
        raise StoreError(f"file '{path}' is damaged: {damaged}", hint=RESTORE) from damaged
