"""The state as a cache keeps it: what there is thousands of is in columns, the rest is JSON.

A fold, which is truth, is JSON as a whole (`State.to_json`). A cache is read whenever a weir is opened, and reading
JSON and making an object for each file took longer than all else of a first fetch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.store.arrow import from_ipc, to_ipc
from weir.store.file_lists import FileList

CACHE_FORMAT = 1
WHAT = "a cache of the state"


def packed(head: dict[str, Any], lists: Sequence[FileList], numbers: Sequence[Sequence[int]]) -> list[bytes]:
    """The parts of a cache document: what JSON says, lists of files, and lists of numbers."""
    said = json.dumps({"cache": CACHE_FORMAT, "widths": [files.figures.shape[1] for files in lists], "head": head})
    parts = [said.encode()]
    for files in lists:
        columns = {"path": pa.array(files.paths, pa.string())}
        columns |= {str(k): pa.array(column) for k, column in enumerate(np.ascontiguousarray(files.figures.T))}
        parts.append(bytes(to_ipc(pa.table(columns))))
    return [*parts, *(np.array(some, np.int64).tobytes() for some in numbers)]


def unpacked(parts: Sequence[bytes]) -> tuple[dict[str, Any], list[FileList], list[list[int]]] | None:
    """The inverse; None if it is of another version."""
    said = json.loads(parts[0])
    if said.get("cache") != CACHE_FORMAT:
        return None
    widths = said["widths"]
    lists = []
    for width, data in zip(widths, parts[1:], strict=False):
        table = from_ipc(data, WHAT)
        figures = np.stack([table.column(str(k)).to_numpy() for k in range(width)], axis=1)
        lists.append(FileList(width, table.column("path").to_pylist(), figures))
    return said["head"], lists, [np.frombuffer(data, np.int64).tolist() for data in parts[1 + len(widths) :]]
