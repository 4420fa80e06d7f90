"""The catalog: documents that each define one stream or table, and the one that says which weir this is.

    weir.json               created once: engine id, clock, format
    catalog/000000000003    {"kind": "stream", …}; the number orders definitions, so a plan can pin a count

A definition never changes: saying the same thing again does nothing, saying something else is an error that
shows both. Names are case-insensitive. A catalog has tens of documents, so it is read whole and kept.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from typing import Any

from weir.algebra.schema import Catalog, Column, DataType, Kind, Stream, Table
from weir.errors import OpenError, StoreError, StreamError
from weir.store.documents import RESTORE, ROOT, create_document, read_document
from weir.store.files import Files, unique

FORMAT = 2  # of a definition
FOLDER_FORMAT = 3  # of everything in the folder together: a reader refuses any other
WEIR = "weir.json"
CLOCKS = ("event", "arrival")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which weir this is. The engine id ties the ledger, Spark's checkpoint and published tables together."""

    engine: str
    clock: str  # "event": now is the largest accepted time; "arrival": rows are stamped when they arrive
    format: int = FOLDER_FORMAT


def refuse_other_formats(files: Files) -> None:
    """A folder of before documents were sealed is of another version, not damaged."""
    data = files.read(WEIR)
    if data is not None and data.startswith(b"{"):
        hint = "it was written by another version of Weir; use that one"
        raise OpenError(f"{files.location} has an older format, this version reads {FOLDER_FORMAT}", hint=hint)


def identity(files: Files, clock: str | None = None) -> Identity:
    """Open the weir's identity, or make one. `clock` None takes what is stored ("event" for a new weir)."""
    if clock is not None and clock not in CLOCKS:
        raise OpenError(f"clock '{clock}' is not one of {', '.join(CLOCKS)}")
    refuse_other_formats(files)
    document = read_document(files, WEIR)
    if document is None:
        # Looked at again: another process may have made the weir, and a batch, since we looked.
        if files.exists(f"ledger/{0:012d}.plan") and read_document(files, WEIR) is None:
            raise StoreError(f"{WEIR} is missing from {files.location}, though there are batches", hint=RESTORE)
        content = {"format": FOLDER_FORMAT, "engine": unique(), "clock": clock or "event"}
        create_document(files, WEIR, ROOT, json.dumps(content).encode())
        document = read_document(files, WEIR)  # ours, or that of a process that was quicker
    try:
        stored = json.loads(bytes(document.body) if document is not None else b"")
        found = Identity(stored["engine"], stored["clock"], stored["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise OpenError(f"weir.json in {files.location} is not readable: {error!r}", hint=RESTORE) from error
    if found.format != FOLDER_FORMAT:
        hint = "it was written by another version of Weir; use that one"
        raise OpenError(f"{files.location} has format {found.format}, this version reads {FOLDER_FORMAT}", hint=hint)
    if clock is not None and clock != found.clock:
        hint = f"open it with clock='{found.clock}', or use another folder"
        raise OpenError(f"{files.location} runs on the {found.clock} clock, not on '{clock}'", hint=hint)
    return found


class CatalogLog:
    """The definitions of one weir, in the order in which they were made."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._relations: list[Stream | Table] = []
        self._seals = [ROOT]  # of documents 0, 1, …, behind what stands before them
        self._lock = threading.Lock()  # threads share one: a document is added once

    def define_stream(self, stream: Stream) -> int:
        """Add a stream; returns the number of its document."""
        return self._define(stream)

    def define_table(self, table: Table) -> int:
        """Add a table; returns the number of its document."""
        return self._define(table)

    def read(self, upto: int | None = None) -> Catalog:
        """The catalog made of documents 0 … upto − 1, or of all there are."""
        if upto is None or upto > len(self._relations):
            self._refresh()
        if upto is not None and upto > len(self._relations):
            raise StoreError(f"{path_of(len(self._relations))} is missing, though it was written", hint=RESTORE)
        known = self._relations[:upto]
        return Catalog(
            {r.name.lower(): r for r in known if isinstance(r, Stream)},
            {r.name.lower(): r for r in known if isinstance(r, Table)},
        )

    def count(self) -> int:
        """How many documents there are."""
        self._refresh()
        return len(self._relations)

    def head(self, count: int) -> str:
        """The seal of document count − 1, the last of those that a plan includes."""
        self.read(count)
        return self._seals[count]

    def _define(self, new: Stream | Table) -> int:
        while True:
            self._refresh()
            for number, old in enumerate(self._relations):
                if old.name.lower() != new.name.lower():
                    continue
                if old == new:
                    return number
                hint = "a definition never changes; choose another name, or give the same definition"
                raise StreamError(
                    f"'{new.name}' is already defined as {describe(old)}, and cannot become {describe(new)}",
                    hint=hint,
                )
            number = len(self._relations)
            if create_document(self.files, path_of(number), self._seals[number], _to_json(new)) is not None:
                self._refresh()
                return number

    def _refresh(self) -> None:
        with self._lock:
            while True:
                path = path_of(len(self._relations))
                found = read_document(self.files, path, self._seals[-1])
                if found is None:
                    return
                self._relations.append(_from_json(path, bytes(found.body)))
                self._seals.append(found.seal)


def path_of(number: int) -> str:
    return f"catalog/{number:012d}"


def describe(relation: Stream | Table) -> str:
    """A definition in one line, for messages."""
    columns = ", ".join(f"{c.name} {c.type}" for c in relation.columns)
    if isinstance(relation, Table):
        return f"table ({columns}) key {relation.key}"
    keep = "forever" if relation.keep_us is None else f"{relation.keep_us / 1e6:g} s"
    ahead = f"{relation.future_us / 1e6:g} s"
    return f"stream ({columns}) time {relation.time} keep {keep} future {ahead} source {relation.source}"


def parse_type(text: str) -> DataType:
    """The inverse of `str(DataType)`."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", text)
    if found:
        return DataType(Kind.DECIMAL, int(found[1]), int(found[2]))
    return DataType(Kind(text))


def _to_json(relation: Stream | Table) -> bytes:
    content: dict[str, Any] = {
        "format": FORMAT,
        "kind": "stream" if isinstance(relation, Stream) else "table",
        "name": relation.name,
        "columns": [[c.name, str(c.type)] for c in relation.columns],
        "token": unique(),
    }
    if isinstance(relation, Stream):
        content |= {
            "time": relation.time,
            "keep_us": relation.keep_us,
            "future_us": relation.future_us,
            "source": relation.source,
        }
    else:
        content["key"] = relation.key
    return json.dumps(content, separators=(",", ":")).encode()


def _from_json(path: str, data: bytes) -> Stream | Table:
    try:
        d = json.loads(data)
        if d["format"] != FORMAT:
            raise StoreError(f"{path} has format {d['format']}, this version reads {FORMAT}")
        columns = tuple(Column(name, parse_type(text)) for name, text in d["columns"])
        if d["kind"] == "stream":
            return Stream(d["name"], columns, d["time"], d["keep_us"], d["future_us"], d["source"])
        return Table(d["name"], columns, d["key"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not readable: {error!r}", hint=RESTORE) from error
