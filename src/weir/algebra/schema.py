"""Types, streams, tables and the catalog that holds them.

A stream is an append-only sequence of rows with a time column; `keep` says how far back its windows may
reach. Times and lengths of time are whole microseconds (`_us`) since the Unix epoch, UTC, everywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Kind(enum.Enum):
    """What a type is in expressions; INTERVAL occurs there only, never in a schema."""

    INT = "int"
    BIGINT = "bigint"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    PAYLOAD = "payload"  # arrays, structs, maps and bytes: they pass through, and scalars are taken out of them
    INTERVAL = "interval"
    NULL = "null"  # the type of a bare NULL
    LIST = "list"  # the type of a constant behind IN, never of a column

    __hash__ = (
        object.__hash__
    )  # there is one object of each; Enum's own looks its name up, for every type that is hashed


@dataclass(frozen=True, slots=True)
class DataType:
    """A type: its kind and, where it has fewer values than others of the kind, which variant of it.

    A variant differs in what is stored, and where a value is made (CAST, a constant, a pushed row); in between it
    counts as its kind. `precision` is the digits of a DECIMAL (at most 38), or the characters of a char or varchar.
    A payload is an array (its part is called `element`), a map (`key` and `value`), a struct (its fields), or binary.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    items: Kind | None = None  # of a LIST: the kind of its items
    variant: str = ""  # tinyint or smallint (INT), float (DOUBLE), char or varchar (STRING), timestamp_ntz (TIMESTAMP)
    parts: tuple[tuple[str, DataType], ...] = ()  # of a payload

    def __str__(self) -> str:
        if self.kind is Kind.LIST:
            return f"list<{self.item}>"
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind is Kind.STRING and self.variant:
            return f"{self.variant}({self.precision})"
        if self.kind is Kind.PAYLOAD:
            return self._payload_text()
        return self.variant or str(self.kind.value)

    def _payload_text(self) -> str:
        if self.variant == "struct":
            return f"struct<{','.join(f'{_field_text(name)}:{type_}' for name, type_ in self.parts)}>"
        return self.variant + (f"<{','.join(str(type_) for _, type_ in self.parts)}>" if self.parts else "")

    @property
    def item(self) -> DataType:
        """The type of a list's items."""
        assert self.items is not None, f"{self.kind} is no list"
        return DataType(self.items, self.precision, self.scale, None, self.variant)

    @property
    def is_numeric(self) -> bool:
        return self.kind in (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)

    @property
    def usual(self) -> DataType:
        """The type of this kind that has all values of its variants."""
        return _USUAL.get(self.kind, self) if self.variant else self

    @property
    def bits(self) -> int:
        """How many bits hold its values, of a type whose values are whole numbers."""
        return _BITS.get(self.variant) or (32 if self.kind in (Kind.INT, Kind.DATE) else 64)


def _field_text(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


_BITS = {"tinyint": 8, "smallint": 16}
TINYINT = DataType(Kind.INT, variant="tinyint")
SMALLINT = DataType(Kind.INT, variant="smallint")

INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
FLOAT = DataType(Kind.DOUBLE, variant="float")
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
BOOLEAN = DataType(Kind.BOOLEAN)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
TIMESTAMP_NTZ = DataType(Kind.TIMESTAMP, variant="timestamp_ntz")
INTERVAL = DataType(Kind.INTERVAL)
NULL = DataType(Kind.NULL)
_USUAL = {t.kind: t for t in (INT, DOUBLE, STRING, TIMESTAMP)}


def decimal(precision: int, scale: int) -> DataType:
    return DataType(Kind.DECIMAL, precision, scale)


def list_of(item: DataType) -> DataType:
    return DataType(Kind.LIST, item.precision, item.scale, item.kind, item.variant)


BINARY = DataType(Kind.PAYLOAD, variant="binary")


def array(element: DataType) -> DataType:
    return DataType(Kind.PAYLOAD, variant="array", parts=(("element", element),))


def struct(*fields: tuple[str, DataType]) -> DataType:
    return DataType(Kind.PAYLOAD, variant="struct", parts=fields)


def map_of(key: DataType, value: DataType) -> DataType:
    return DataType(Kind.PAYLOAD, variant="map", parts=(("key", key), ("value", value)))


def char(length: int) -> DataType:
    """Texts of so many characters: shorter ones are filled up with blanks."""
    return DataType(Kind.STRING, length, variant="char")


def varchar(length: int) -> DataType:
    """Texts of at most so many characters."""
    return DataType(Kind.STRING, length, variant="varchar")


@dataclass(frozen=True, slots=True)
class Column:
    """A column's definition."""

    name: str
    type: DataType
    is_optional: bool = False  # whether pushed rows may do without it …
    default: str | int | float | bool | None = None  # … and the value that they have then


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream's definition, as it is stored in the catalog."""

    name: str
    columns: tuple[Column, ...]
    time: str  # name of the time column, a timestamp
    keep_us: int | None  # how far back windows may reach; None keeps rows for ever
    future_us: int = 60_000_000  # rows stamped further ahead of the wall clock than this go to `late`
    source: str = "push"  # "push" (the embedded source) or "spark" (a streaming DataFrame given at run time)

    def column(self, name: str) -> Column | None:
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)


@dataclass(frozen=True, slots=True)
class Table:
    """A table beside the streams. A row of it holds from one change of its key to the next: it has versions.

    What is stored are the changes: rows of a stream that users do not see (`changes`).
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]  # names of the columns that identify a row
    time: str | None = None  # a timestamp from which a change holds; None: from the batch that takes it
    retroactive: bool = False  # whether a change also counts for rows of streams that came before it
    source: str = "push"  # "push" (upsert and delete) or "spark" (a streaming DataFrame of changes given at run time)

    def column(self, name: str) -> Column | None:
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)

    @property
    def changes(self) -> Stream:
        """The stream of its changes; they never expire, and their times say nothing about the clock."""
        columns = (*self.columns, Column(CHANGE_DELETES, BOOLEAN))
        if self.time is None:
            columns += (Column(CHANGE_TIME, TIMESTAMP),)
        return Stream(self.name + CHANGES, columns, self.time or CHANGE_TIME, None, ENDLESS_US, self.source)


@dataclass(frozen=True, slots=True)
class View:
    """A query with a name, which stands wherever the name is used in FROM."""

    name: str
    sql: str


ENDLESS_US = 2**61  # later than all times, also by the distance of two; what has no end ends then

# Blanks keep these apart from all names that users give.
CHANGES = " changes"  # behind the name of a table: that of the stream of its changes
CHANGE_DELETES = "weir deletes"  # a column of changes: whether the key is deleted
CHANGE_TIME = "weir from"  # a column of changes, if the table has no time of its own: since when a change holds


def is_changes(stream: str) -> bool:
    """Whether a stream's name is that of a table's changes."""
    return stream.endswith(CHANGES)


def called(stream: str) -> str:
    """What users call a stream; the changes of a table are the table to them."""
    return stream.removesuffix(CHANGES)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All streams and tables, by lower-case name (names are case-insensitive, as in Spark)."""

    streams: Mapping[str, Stream] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()  # names, as they were defined, of streams (and of changes) that are gone
    changes: int = 0  # how often a definition was changed or dropped: what was planned before is planned again

    def relation(self, name: str) -> Stream | Table | None:
        folded = name.lower()
        return self.streams.get(folded) or self.tables.get(folded)

    def side(self, name: str) -> Stream:
        """What a core reads under a name: a stream, or the changes of a table."""
        folded = name.lower()
        return self.streams.get(folded) or self.tables[called(folded)].changes

    def has_side(self, name: str) -> bool:
        folded = name.lower()
        return folded in self.streams or (is_changes(folded) and called(folded) in self.tables)

    def fed(self) -> dict[str, Stream]:
        """Everything that rows come in for: the streams, and the changes of the tables."""
        return dict(self.streams) | {t.changes.name.lower(): t.changes for t in self.tables.values()}
