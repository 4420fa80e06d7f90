"""Kept rows of one side of a join of many streams: by every key of the side, and by every difference it has a part in.

The same rows may be looked up from several other sides, by different keys, so a segment has an *edge* for each key and
each band of the family that touches the side. An edge is a `PartnerRows` with one order. Row ids, times and the
attributes that standing queries mention are stored once, with the first edge.

`Pool` is all segments of a side that a batch's events meet, as one sequence of positions; `EventRows` are the events.
Both are read in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import ColumnRef, Expression
from weir.boxes.attributes import sources_of
from weir.boxes.bounds import Ints
from weir.boxes.differences import difference_of, partner_order
from weir.boxes.value_keys import keys_of_values
from weir.families.joins.join_family import JoinFamily, on_side
from weir.families.joins.partner_rows import PartnerRows
from weir.families.many.many_family import ManyFamily
from weir.index.keys import NULL_KEY
from weir.index.strings import StringDictionary
from weir.store.row_files import arrow_type
from weir.values.codec import canonical
from weir.values.evaluate import evaluate

_SHARED = ("row_ids", "times")  # arrays that all edges have


class SideLink(NamedTuple):
    """One way to look rows of a side up: by a key, or by a difference that is bounded."""

    key: int  # number among the family's keys, −1 for none
    band: int  # number among its bands, −1 for none


def side_links(family: ManyFamily, side: int) -> list[SideLink]:
    """The edges of a side, in the order in which its segments have them."""
    keys = [SideLink(k, -1) for k, key in enumerate(family.keys) if side in key.sides]
    return keys + [SideLink(-1, b) for b, e in enumerate(family.bands) if side in sources_of(e)]


def order_of(family: ManyFamily, band: int, side: int) -> Expression:
    """The expression over rows of a side by which they are ordered for a band."""
    of = difference_of(family.bands[band])
    assert of is not None, "a band is a difference"
    return on_side(partner_order(of, side), {side: 0})


def _pair(family: ManyFamily, side: int, edge: SideLink) -> JoinFamily:
    """An edge as a family of two: its rows are those of side 0."""
    if edge.key < 0:
        return JoinFamily((family.streams[side], family.streams[side]), ())
    key = family.keys[edge.key]
    other = key.sides[1 - key.sides.index(side)]
    return JoinFamily((family.streams[side], family.streams[other]), ((key.of(side), key.of(other)),))


class ManyRows:
    """Rows of one side, ready to be looked up from the others."""

    def __init__(self, family: ManyFamily, side: int, edges: Sequence[PartnerRows]) -> None:
        self.family = family
        self.side = side
        self.edges = edges  # as `side_links` has them

    @classmethod
    def build(
        cls,
        family: ManyFamily,
        side: int,
        rows: pa.Table,
        row_ids: Ints,
        times: Ints,
        *,
        columns: Sequence[Expression],
    ) -> ManyRows:
        """The segment of these rows with all of `columns`."""
        edges: list[PartnerRows] = []
        for edge in side_links(family, side):
            order = None if edge.band < 0 else order_of(family, edge.band, side)
            mine = columns if not edges else ()
            pair = _pair(family, side, edge)
            edges.append(PartnerRows.build(pair, 0, rows, row_ids, times, accesses=[order], columns=mine))
        return cls(family, side, edges)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but `meta`, as flat arrays."""
        found: dict[str, np.ndarray] = {}
        for k, edge in enumerate(self.edges):
            found |= {f"{k}.{name}": a for name, a in edge.arrays().items() if k == 0 or name not in _SHARED}
        return found

    def meta(self) -> dict[str, Any]:
        """The rest, as JSON."""
        return {"family": self.family.to_json(), "side": self.side, "edges": [edge.meta() for edge in self.edges]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> ManyRows:
        """The segment that `arrays` and `meta` describe; nothing is copied."""
        edges = []
        for k, about in enumerate(meta["edges"]):
            mine = {name: arrays[f"0.{name}"] for name in _SHARED}
            mine |= {name.removeprefix(f"{k}."): a for name, a in arrays.items() if name.startswith(f"{k}.")}
            edges.append(PartnerRows.from_arrays(mine, about))
        return cls(ManyFamily.from_json(meta["family"]), meta["side"], edges)

    @property
    def row_ids(self) -> Ints:
        return self.edges[0].row_ids

    @property
    def times(self) -> Ints:
        return self.edges[0].times

    @cached_property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest time; a segment is never empty."""
        return int(self.times.min()), int(self.times.max())

    def codes_of_rows(self, edge: int) -> Ints:
        """The code of every row by a key edge; NULL_KEY where a key is NULL."""
        if edge not in self._codes:
            ordered = self.edges[edge].ordered(None)
            codes = np.full(len(self.row_ids), NULL_KEY, np.int64)
            codes[ordered.rows] = np.repeat(ordered.keys, np.diff(ordered.offsets))
            self._codes[edge] = codes
        return self._codes[edge]

    @cached_property
    def _codes(self) -> dict[int, Ints]:
        return {}


class SideRows(Protocol):
    """Rows of one side by position."""

    @property
    def row_ids(self) -> Ints: ...

    @property
    def times(self) -> Ints: ...

    def keys(self, e: Expression, dictionary: StringDictionary | None) -> Ints:
        """The keys of an attribute, in the codes of the dictionary if it is a string."""
        ...

    def table(self, columns: Sequence[ColumnRef], at: Ints) -> pa.Table:
        """Columns of some rows."""
        ...


class EventRows:
    """The new rows of a slice."""

    def __init__(self, events: pa.Table, row_ids: Ints, times: Ints) -> None:
        self.row_ids = row_ids
        self.times = times
        self._events = events
        self._keys: dict[tuple[str, int], tuple[StringDictionary | None, Ints]] = {}

    def keys(self, e: Expression, dictionary: StringDictionary | None) -> Ints:
        place = canonical(e), id(dictionary)
        if place not in self._keys:
            values = self._events.column(e.name) if isinstance(e, ColumnRef) else evaluate(e, self._events)
            self._keys[place] = dictionary, keys_of_values(values, e.type, dictionary)
        return self._keys[place][1]

    def table(self, columns: Sequence[ColumnRef], at: Ints) -> pa.Table:
        return self._events.select([c.name for c in columns]).take(pa.array(at))


class Pool:
    """All kept rows of a side that events meet; positions number them segment after segment."""

    def __init__(self, parts: Sequence[ManyRows]) -> None:
        self.parts = [part for part in parts if len(part.row_ids)]
        self.offsets = np.cumsum([0, *(len(part.row_ids) for part in self.parts)])
        self._keys: dict[tuple[str, int], tuple[StringDictionary | None, Ints]] = {}

    @cached_property
    def row_ids(self) -> Ints:
        return _together([part.row_ids for part in self.parts])

    @cached_property
    def times(self) -> Ints:
        return _together([part.times for part in self.parts])

    def keys(self, e: Expression, dictionary: StringDictionary | None) -> Ints:
        place = canonical(e), id(dictionary)
        if place not in self._keys:
            self._keys[place] = dictionary, _together([part.edges[0].column(e, dictionary) for part in self.parts])
        return self._keys[place][1]

    def table(self, columns: Sequence[ColumnRef], at: Ints) -> pa.Table:
        if len(self.parts) == 1:
            return self.parts[0].edges[0].table(columns, at)
        which = np.searchsorted(self.offsets, at, side="right") - 1
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(self.parts) + 1))
        tables = [pa.schema([(c.name, arrow_type(c.type)) for c in columns]).empty_table()]
        for k, part in enumerate(self.parts):
            mine = at[order[ends[k] : ends[k + 1]]] - self.offsets[k]
            if len(mine):
                tables.append(_plain(part.edges[0].table(columns, mine)))
        back = np.empty(len(at), np.int64)
        back[order] = np.arange(len(at))
        return pa.concat_tables([_plain(t) for t in tables]).take(pa.array(back))


def _together(arrays: Sequence[Ints]) -> Ints:
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, np.int64), *arrays])


def _plain(table: pa.Table) -> pa.Table:
    """The table with every text as a large string, so that tables of several segments have one schema."""
    fields = [pa.field(f.name, pa.large_string() if pa.types.is_string(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))
