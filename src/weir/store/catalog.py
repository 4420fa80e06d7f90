"""The catalog: documents that each define, change or drop a stream or table, and the one that says which weir this is.

    weir.json               created once: engine id, clock, format
    catalog/000000000003    {"kind": "stream", …}; the number orders documents, so a plan can pin a count

A definition stays: saying the same thing again does nothing, saying something else is an error that shows both. Only
how long a stream keeps its rows can be changed, and streams and tables can be dropped; a name is not used again,
because rows of other types may still be under way. Names are case-insensitive. A catalog has tens of documents, so it
is read whole and kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from weir.algebra.ddl import parse_type
from weir.algebra.schema import CHANGES, Catalog, Column, Stream, Table, View
from weir.errors import OpenError, StoreError, StreamError
from weir.store.documents import RESTORE, ROOT, create_document, read_document
from weir.store.files import Files, unique
from weir.store.folds import folds

Relation = TypeVar("Relation", bound=Stream | Table | View)

FORMAT = 3  # of a definition
FOLDER_FORMAT = 9  # of everything in the folder together: a reader refuses any other
WEIR = "weir.json"
CLOCKS = ("event", "arrival")
NO_WEIR = "weir.open(…) makes one, and so does `weir stream FOLDER NAME COLUMNS --time …`"


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


def identity(files: Files, clock: str | None = None, *, create: bool = True) -> Identity:
    """Open the weir's identity, or make one. `clock` None takes what is stored ("event" for a new weir)."""
    if clock is not None and clock not in CLOCKS:
        raise OpenError(f"clock '{clock}' is not one of {', '.join(CLOCKS)}")
    refuse_other_formats(files)
    document = read_document(files, WEIR)
    if document is None:
        # Looked at again: another process may have made the weir, and a batch, since we looked.
        if (files.exists(f"ledger/{0:012d}.plan") or folds(files)) and read_document(files, WEIR) is None:
            raise StoreError(f"{WEIR} is missing from {files.location}, though there are batches", hint=RESTORE)
        if not create:
            raise OpenError(f"'{files.location}' is not a weir", hint=NO_WEIR)
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


@dataclass(frozen=True, slots=True)
class _Dropped:
    """A stream, a table or a view is gone."""

    name: str
    was: str  # "stream", "table" or "view"

    @property
    def fed(self) -> str:
        """The name that its rows have in the ledger."""
        return self.name if self.was == "stream" else self.name + CHANGES


class CatalogLog:
    """The definitions of one weir, in the order in which they were made."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._documents: list[Stream | Table | View | _Dropped] = []  # a later one of a name replaces the one before
        self._seals = [ROOT]  # of documents 0, 1, …, behind what stands before them
        self._known = Catalog()  # what the documents add up to
        self._lock = threading.Lock()  # threads share one: a document is added once

    def define_stream(self, stream: Stream) -> int:
        """Add a stream; returns the number of its document."""
        return self._define(stream)

    def define_table(self, table: Table) -> int:
        """Add a table; returns the number of its document."""
        return self._define(table)

    def read(self, upto: int | None = None) -> Catalog:
        """The catalog made of documents 0 … upto − 1, or of all there are."""
        if upto is None:
            self.refresh()
            return self._known
        known = self.known(upto)
        return known if upto == len(self._documents) else _folded(self._documents[:upto])

    def known(self, least: int) -> Catalog:
        """The catalog as of the last refresh, if that has seen the first `least` documents, or as of now."""
        if least > len(self._documents):
            self.refresh()
        if least > len(self._documents):
            raise StoreError(f"{path_of(len(self._documents))} is missing, though it was written", hint=RESTORE)
        return self._known

    def count(self) -> int:
        """How many documents there are."""
        self.refresh()
        return len(self._documents)

    def head(self, count: int) -> str:
        """The seal of document count − 1, the last of those that a plan includes."""
        self.read(count)
        return self._seals[count]

    def change_keep(self, name: str, keep_us: int | None) -> None:
        """Have a stream keep its rows for another length of time; its callers have looked at the queries."""
        while True:
            old = _existing(self.read().streams, name, "stream")
            new = replace(old, keep_us=keep_us)
            if old == new or self._append(new) is not None:
                return

    def drop_stream(self, name: str) -> None:
        """Drop a stream; its callers have looked at the queries."""
        self._drop(name, "stream", lambda known: known.streams)

    def drop_table(self, name: str) -> None:
        """Drop a table; its callers have looked at the queries."""
        self._drop(name, "table", lambda known: known.tables)

    def define_view(self, view: View) -> int:
        """Add a view; returns the number of its document."""
        return self._define(view)

    def drop_view(self, name: str) -> None:
        """Drop a view; its callers have looked at the other views."""
        self._drop(name, "view", lambda known: known.views)

    def _drop(self, name: str, kind: str, among: Callable[[Catalog], Mapping[str, Stream | Table | View]]) -> None:
        while self._append(_Dropped(_existing(among(self.read()), name, kind).name, kind)) is None:
            pass

    def _define(self, new: Stream | Table | View) -> int:
        while True:
            self.refresh()
            newest = {d.name.lower(): (number, d) for number, d in enumerate(self._documents)}
            number, old = newest.get(new.name.lower(), (-1, None))
            if old == new:
                return number
            if isinstance(old, _Dropped):
                raise StreamError(
                    f"{old.was} '{old.name}' was dropped, and its name is not used again", hint="choose another name"
                )
            if old is not None:
                hint = "a definition stays; choose another name, give the same definition, or see `change_keep`"
                raise StreamError(
                    f"'{new.name}' is already defined as {describe(old)}, and cannot become {describe(new)}",
                    hint=hint,
                )
            created = self._append(new)
            if created is not None:
                return created

    def _append(self, document: Stream | Table | View | _Dropped) -> int | None:
        """Create the next document; None: another process was quicker, and what it wrote is not known yet."""
        number = len(self._documents)
        if create_document(self.files, path_of(number), self._seals[number], _to_json(document)) is None:
            return None
        self.refresh()
        return number

    def refresh(self) -> None:
        """Take in the documents that are new."""
        with self._lock:
            while (found := read_document(self.files, path_of(len(self._documents)), self._seals[-1])) is not None:
                self._documents.append(_from_json(path_of(len(self._documents)), bytes(found.body)))
                self._seals.append(found.seal)
                self._known = _folded(self._documents)


def _existing(relations: Mapping[str, Relation], name: str, kind: str) -> Relation:
    found = relations.get(name.lower())
    if found is None:
        raise StreamError(f"there is no {kind} '{name}'")
    return found


def _folded(documents: Sequence[Stream | Table | View | _Dropped]) -> Catalog:
    newest = {d.name.lower(): d for d in documents}
    return Catalog(
        {name: d for name, d in newest.items() if isinstance(d, Stream)},
        {name: d for name, d in newest.items() if isinstance(d, Table)},
        {name: d for name, d in newest.items() if isinstance(d, View)},
        frozenset(d.fed for d in newest.values() if isinstance(d, _Dropped)),
        len(documents) - len(newest),
    )


def path_of(number: int) -> str:
    return f"catalog/{number:012d}"


def describe(relation: Stream | Table | View) -> str:
    """A definition in one line, for messages."""
    if isinstance(relation, View):
        return f"view {' '.join(relation.sql.split())}"
    columns = ", ".join(_column_text(c) for c in relation.columns)
    if isinstance(relation, Table):
        time = "" if relation.time is None else f" time {relation.time}"
        retroactive = " retroactive" if relation.retroactive else ""
        return f"table ({columns}) key ({', '.join(relation.key)}){time}{retroactive} source {relation.source}"
    keep = "forever" if relation.keep_us is None else f"{relation.keep_us / 1e6:g} s"
    ahead = f"{relation.future_us / 1e6:g} s"
    return f"stream ({columns}) time {relation.time} keep {keep} future {ahead} source {relation.source}"


def _column_text(column: Column) -> str:
    default = f" default {column.default!r}" if column.default is not None else " null" if column.is_optional else ""
    return f"{column.name} {column.type}{default}"


def _to_json(relation: Stream | Table | View | _Dropped) -> bytes:
    content: dict[str, Any] = {"format": FORMAT, "name": relation.name, "token": unique()}
    if isinstance(relation, _Dropped):
        return json.dumps(content | {"kind": "dropped", "was": relation.was}, separators=(",", ":")).encode()
    if isinstance(relation, View):
        return json.dumps(content | {"kind": "view", "sql": relation.sql}, separators=(",", ":")).encode()
    content["kind"] = "stream" if isinstance(relation, Stream) else "table"
    content["columns"] = [[c.name, str(c.type), c.is_optional, c.default] for c in relation.columns]
    if isinstance(relation, Stream):
        content |= {
            "time": relation.time,
            "keep_us": relation.keep_us,
            "future_us": relation.future_us,
        }
    else:
        content |= {"key": relation.key, "time": relation.time, "retroactive": relation.retroactive}
    content["source"] = relation.source
    return json.dumps(content, separators=(",", ":")).encode()


def _from_json(path: str, data: bytes) -> Stream | Table | View | _Dropped:
    try:
        d = json.loads(data)
        if d["format"] != FORMAT:
            raise StoreError(f"{path} has format {d['format']}, this version reads {FORMAT}")
        if d["kind"] == "dropped":
            return _Dropped(d["name"], d["was"])
        if d["kind"] == "view":
            return View(d["name"], d["sql"])
        columns = tuple(Column(name, parse_type(text), *rest) for name, text, *rest in d["columns"])
        if d["kind"] == "stream":
            return Stream(d["name"], columns, d["time"], d["keep_us"], d["future_us"], d["source"])
        return Table(d["name"], columns, tuple(d["key"]), d["time"], d["retroactive"], d["source"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not readable: {error!r}", hint=RESTORE) from error
