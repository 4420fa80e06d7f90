"""The contract of a form of queries: all that the runtime and the answers know of a form.

A *form* is how a core looks: a selection over one stream, a join of two, a join of many. A *family* is all cores of one
form that share their streams and keys: they are matched together, by one pair of query segments (main and tail). A
selection is a join of one side, without partners.

    see            how the form sees one core: its family, the side of each source, what it needs; once a shape
    build, open    a query segment of a family: all its cores behind one index; from arrays, as a worker maps them.
                   Recent rows, if any are given, decide how cores are reached, never what they match
    build_rows,    a row segment of one side: kept rows, in the orders and with the attributes that query segments
      open_rows    ask for
    match          new rows of one side × row segments of the other sides × a query segment → results. A table is a side
                   whose rows are its changes; those that rows of streams cannot meet, by their lifetimes, may be left
                   out, because whoever shows results looks at lifetimes again

Checked by the battery in tests/families/test_contract.py for every form, and by the oracles: `match` gives each
result once, whichever side came last; slots ascend within an event; over budget it gives counts instead of results.
A new form is one file and one entry in `weir.families.forms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query
from weir.algebra.schema import Catalog, Stream
from weir.families.members import Group
from weir.families.recent import Recent
from weir.index.box_tables import OverBudget
from weir.index.digests import Foreseen
from weir.index.meeting.index_contract import AUTO
from weir.index.meeting.index_contract import Tuning as Tuning  # part of this contract too
from weir.settings import Settings
from weir.store.lifetimes import Lifetimes
from weir.values.codec import canonical


@dataclass(frozen=True)
class Checked:
    """What cores of one shape need.

    A residual is a derived attribute, named by its canonical text. Each stream has a quota of *distinct* residuals, so
    whoever checks a quota uses `residuals_of`: it has an entry for every stream that the cores read, and equal texts
    of one stream are one residual, whichever form or side they come from.
    """

    boxes_per_query: int
    attributes: tuple[str, ...]  # the columns that are compared; for a join, as stream.column
    residuals: tuple[str, ...]  # those of all streams
    residuals_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by the stream's name

    @classmethod
    def union(cls, parts: Sequence[Checked]) -> Checked:
        """What a query of several cores needs."""
        if len(parts) == 1:
            return parts[0]
        residuals: dict[str, dict[str, None]] = {}
        for part in parts:
            for stream, texts in part.residuals_of.items():
                residuals.setdefault(stream, {}).update(dict.fromkeys(texts))
        return cls(
            sum(part.boxes_per_query for part in parts),
            tuple(dict.fromkeys(name for part in parts for name in part.attributes)),
            tuple(dict.fromkeys(text for part in parts for text in part.residuals)),
            {stream: tuple(texts) for stream, texts in residuals.items()},
        )


class Family(Protocol):
    """All cores of one form that share streams and keys. Plain data: equal families have equal names."""

    @property
    def name(self) -> str:
        """Tells families apart. It may contain `:`, but no other character that a file name cannot have."""

    @property
    def channel(self) -> str:
        """The name under which results are kept: the streams of the sides."""

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams as in the catalog, by side."""


class Seen(ABC):
    """One core as its form sees it."""

    family: Family
    streams: tuple[Stream, ...]  # by side
    sides: tuple[int, ...]  # of the core's sources, in their order
    is_matched: bool = True  # if not, its results are evaluated when they are asked for
    counts_as_family: bool = True  # whether its family counts against `join_families_max`

    @abstractmethod
    def check(self, constants: pa.Table, settings: Settings) -> Checked:
        """What a registration needs; RegisterError when it is over a limit of `settings`."""

    @abstractmethod
    def describe(self, constants: Mapping[str, object] | None) -> dict[str, object]:
        """For `explain`: what the index does with it, in the words of its SQL; constants if they are known."""

    def kernels(self, settings: Settings) -> frozenset[str]:
        """The kinds of compiled kernels (`weir.index.warm`) that matching it needs."""
        return frozenset()

    def by_source(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        """What is given in the order of sides, put into the order of the core's own sources."""
        return tuple(rows[side] for side in self.sides)


@dataclass(frozen=True)
class Needs:
    """What a query segment asks of the rows on one side: orders, and attributes to check."""

    accesses: tuple[Expression | None, ...] = ()
    columns: tuple[Expression, ...] = ()

    @classmethod
    def union(cls, parts: Iterable[Needs]) -> Needs:
        """What all of them ask for, each once."""
        accesses: dict[str, Expression | None] = {}
        columns: dict[str, Expression] = {}
        for part in parts:
            accesses |= {"" if e is None else canonical(e): e for e in part.accesses}
            columns |= {canonical(e): e for e in part.columns}
        return cls(tuple(accesses.values()), tuple(columns.values()))


class NewRows(NamedTuple):
    """Rows of one side: those that just came, or kept ones that a row segment is built of."""

    table: pa.Table
    row_ids: np.ndarray  # int64, ascending
    times: np.ndarray  # int64, µs


class Results(NamedTuple):
    """Combinations of events and partners, and the slots that they match: CSR by event."""

    events: np.ndarray | None  # int64[e]: positions of events; in any order, repetitions allowed. None: 0, 1, 2, …
    offsets: np.ndarray  # int64[e+1]
    slots: np.ndarray  # int32[p]: ascending within an entry of `events`
    partners: np.ndarray  # int64[others, p]: row ids on the other sides, sides ascending; unique within (entry, slot)
    choices: np.ndarray | None = None  # int64: how many events each of the segment's strategies processed


class Stored(Protocol):
    """Something immutable that is kept as flat arrays and a small JSON description."""

    def arrays(self) -> dict[str, np.ndarray]: ...

    def meta(self) -> dict[str, Any]: ...


class Encounter(NamedTuple):
    """New rows of one side, what they meet, and what may become of it."""

    side: int  # of the new rows
    events: NewRows
    partners: Sequence[Sequence[Any]]  # for each side the row segments that the events meet
    muted: np.ndarray  # uint8[n_slots]: 1 for cores whose results are not wanted
    left: Callable[[], int]  # how many results may still be written
    tuning: Tuning = AUTO
    lifetimes: Sequence[Lifetimes | None] = ()  # for each side that is a table's: how long its changes hold


class SlottedQueries(Stored, Protocol):
    """Cores of one family, by slot."""

    @property
    def ids(self) -> np.ndarray:
        """int64[n_slots], ascending: the core of each slot."""

    @property
    def reached(self) -> str:
        """For `explain`: through which attributes its cores are reached, and whether that was measured."""

    def foreseen(self, recent: Recent) -> Foreseen | None:
        """What rows like these cost, as it is built and if it were built for them; None if that cannot be told."""


class QuerySegment(SlottedQueries, Protocol):
    """Cores of one family, ready to be matched with new rows of any of its sides."""

    @property
    def needs(self) -> tuple[Needs, ...]:
        """What it asks of the rows of each side; nothing where no row of the side is ever a partner."""

    def match(self, asked: Encounter) -> Iterator[Results | OverBudget]:
        """The results of an encounter. OverBudget holds, by slot, the counts of those that were not yielded before."""


S = TypeVar("S", bound=SlottedQueries)


class QueriesOf(Generic[S]):
    """A base of query segments that pass on to a form's own segment all but what they need and how they match."""

    def __init__(self, segment: S) -> None:
        self.segment = segment
        self.ids = segment.ids
        self.arrays, self.meta = segment.arrays, segment.meta

    @property
    def reached(self) -> str:
        return self.segment.reached

    def foreseen(self, recent: Recent) -> Foreseen | None:
        return self.segment.foreseen(recent)


class Form(Protocol):
    """All families of one form."""

    @property
    def name(self) -> str: ...

    @property
    def strategies(self) -> tuple[str, ...]:
        """What `Results.choices` counts."""

    def refusal(self, core: Query, catalog: Catalog) -> str | None:
        """Why a core is not of this form, naming the part; None if it is."""

    def see(self, core: Query, catalog: Catalog) -> Seen:
        """A core of this form."""

    def build(
        self,
        family: Any,
        groups: Sequence[Group],
        catalog: Catalog,
        settings: Settings,
        excluded: np.ndarray,
        recent: Recent | None = None,
    ) -> QuerySegment:
        """The segment of all cores of `groups` except the `excluded` ids (ascending), for rows like the recent ones."""

    def open(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> QuerySegment:
        """The segment that `arrays` and `meta` describe; nothing is copied."""

    def columns_of_rows(self, family: Any, side: int, needs: Needs) -> list[Expression]:
        """What a row segment is made of, besides the times."""

    def build_rows(self, family: Any, side: int, rows: NewRows, needs: Needs) -> Stored:
        """Kept rows of one side, ready to be met by events of the others."""

    def open_rows(self, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Any:
        """The row segment that `arrays` and `meta` describe; nothing is copied."""
