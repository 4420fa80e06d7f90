"""Types, streams, tables and the catalog that holds them.

A stream is an append-only sequence of rows with a time column; `keep` says how far back its windows may
reach. Times and lengths of time are whole microseconds (`_us`) since the Unix epoch, UTC, everywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Kind(enum.Enum):
    """The scalar types of the language; INTERVAL occurs in expressions, never in a schema."""

    INT = "int"
    BIGINT = "bigint"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"
    NULL = "null"  # the type of a bare NULL
    LIST = "list"  # the type of a constant behind IN, never of a column

    __hash__ = (
        object.__hash__
    )  # there is one object of each; Enum's own looks its name up, for every type that is hashed


@dataclass(frozen=True, slots=True)
class DataType:
    """A type; precision and scale are meaningful for DECIMAL only (precision at most 18), and for lists of them."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    items: Kind | None = None  # of a LIST: the kind of its items

    def __str__(self) -> str:
        if self.kind is Kind.LIST:
            return f"list<{self.item}>"
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return str(self.kind.value)

    @property
    def item(self) -> DataType:
        """The type of a list's items."""
        assert self.items is not None, f"{self.kind} is no list"
        return DataType(self.items, self.precision, self.scale)

    @property
    def is_numeric(self) -> bool:
        return self.kind in (Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL)


INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
BOOLEAN = DataType(Kind.BOOLEAN)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
INTERVAL = DataType(Kind.INTERVAL)
NULL = DataType(Kind.NULL)


def decimal(precision: int, scale: int) -> DataType:
    return DataType(Kind.DECIMAL, precision, scale)


def list_of(item: DataType) -> DataType:
    return DataType(Kind.LIST, item.precision, item.scale, item.kind)


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


ENDLESS_US = 2**62  # later than all times; what has no end ends then

# Blanks keep these apart from all names that users give.
CHANGES = " changes"  # behind the name of a table: that of the stream of its changes
CHANGE_DELETES = "weir deletes"  # a column of changes: whether the key is deleted
CHANGE_TIME = "weir from"  # a column of changes, if the table has no time of its own: since when a change holds


def is_changes(stream: str) -> bool:
    """Whether a stream's name is that of a table's changes."""
    return stream.endswith(CHANGES)


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

    def fed(self) -> dict[str, Stream]:
        """Everything that rows come in for: the streams, and the changes of the tables."""
        return dict(self.streams) | {t.changes.name.lower(): t.changes for t in self.tables.values()}
