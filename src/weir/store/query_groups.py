"""Groups of queries, as they come to the registry and as they stand in it.

A group are queries of one shape that were registered together. What all of them have in common is said once, in the
document's metadata; what each has for itself are columns: constants, and beside them a name, and which query goes when
this one comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from weir.algebra.schema import DataType
from weir.errors import StoreError

NAME, REPLACES = "name", "replaces"  # columns beside the constants


class KeptAs(NamedTuple):
    """With which queries the answers of a group are maintained."""

    shape: str  # what all of these are called together
    fixed: tuple[str, ...] = ()  # constants that are the same for all of them, and make cores of them the same


class Slot(NamedTuple):
    """A `:parameter` in a text as it was written, and the constant that stands for it."""

    start: int
    end: int
    constant: int  # of c0, c1, …
    unit_us: int  # what a number for it counts, if the constant is a length of time; negative behind `NOW -`
    has_unit: bool  # whether the text has that unit, so that a number is all that is missing


class Written(NamedTuple):
    """What a user wrote to get the queries of a group."""

    sql: str
    slots: tuple[Slot, ...] = ()  # in the order of the text
    text: str | None = None  # with values in the place of parameters, if it is one query that has some


class Label(NamedTuple):
    """What queries are sorted by, and nothing else depends on."""

    tags: tuple[str, ...] = ()  # sorted, distinct
    owner: str | None = None


NO_LABEL = Label()


@dataclass(frozen=True, slots=True)
class NewQueries:
    """Queries of one shape that are to be registered, one for each row of `constants`.

    Its columns are c0, c1, … as `types` says. A shape without constants has one column of any name and type, since a
    table without columns has no rows either.
    """

    shape_text: str
    types: Sequence[DataType]
    constants: pa.Table
    families: Sequence[str]
    channels: Sequence[str]
    catalog: int
    kept_as: KeptAs | None = None
    written: Written | None = None
    label: Label = NO_LABEL

    def about(self) -> dict[str, object]:
        """What their document says of all of them."""
        return {
            "kind": "register",
            "shape": self.shape_text,
            "types": [str(t) for t in self.types],
            "families": list(self.families),
            "channels": list(self.channels),
            "catalog": self.catalog,
            "count": self.constants.num_rows,
            "kept": self.kept_as,
            "written": self.written,
            "label": self.label,
        }


class Draft(NamedTuple):
    """A document that is to be created."""

    about: Mapping[str, object]
    body: pa.Table


@dataclass(frozen=True, slots=True)
class GroupRef:
    """One group of registrations of one shape: queries first_id … first_id + count − 1."""

    number: int  # of its document
    first_id: int
    count: int
    shape_text: str
    types: tuple[DataType, ...]  # of the constants c0, c1, …
    families: tuple[str, ...]  # by core, the form of query that it is
    channels: tuple[str, ...]  # by core, the streams of its sides: trade~weather
    catalog: int  # how many catalog documents there were when it was registered
    kept_as: KeptAs | None = None  # if the answers are maintained as rows come

    @property
    def is_kept(self) -> bool:
        """Whether the answers are maintained."""
        return self.kept_as is not None

    @property
    def cores(self) -> int:
        """A query of tables alone has none, and an id all the same."""
        return max(1, len(self.channels))

    @property
    def end_id(self) -> int:
        """The first id that is not its own."""
        return self.first_id + self.count * self.cores

    def core_of(self, id: int) -> int:
        """Which core of its query an id stands for."""
        return (id - self.first_id) // self.count


def draft_of(new: NewQueries, names: pa.Array | None = None, replaces: pa.Array | None = None) -> Draft:
    """A document that registers queries; `replaces` are those that go when they come, NULL where none does."""
    if new.constants.num_rows == 0:
        raise StoreError("a group of registrations has no rows")
    if new.constants.column_names != [f"c{i}" for i in range(len(new.types))] and new.types:
        raise StoreError(f"constants are {new.constants.column_names}, expected c0 … c{len(new.types) - 1}")
    body = new.constants
    for name, column in ((NAME, names), (REPLACES, replaces)):
        if column is not None and column.null_count < len(column):
            body = body.append_column(name, column)
    return Draft(new.about(), body)
