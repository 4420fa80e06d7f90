"""Joins of many streams as a form: what `many_family`, `many_segments` and `many_rows` do, behind the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query
from weir.algebra.schema import Catalog, Stream
from weir.families.contract import Checked, Encounter, Needs, NewRows, QueriesOf, Results, Seen
from weir.families.many import many_family
from weir.families.many.many_family import Many, ManyFamily
from weir.families.many.many_rows import EventRows, ManyRows, Pool
from weir.families.many.many_segments import ManySegment
from weir.families.members import Group
from weir.families.query_parts import kernels_of
from weir.families.recent import Recent
from weir.index.box_tables import OverBudget
from weir.settings import Settings

name = many_family.name
strategies: tuple[str, ...] = ()
refusal = many_family.refusal
open_rows = ManyRows.from_arrays


class SeenMany(Seen):
    """A join of many streams, by side."""

    def __init__(self, many: Many, streams: tuple[Stream, ...]) -> None:
        self.many = many
        self.family = many.family
        self.streams = streams
        self.sides = many.sides
        self.is_matched = self.counts_as_family = many.is_connected

    def check(self, constants: pa.Table, settings: Settings) -> Checked:
        return many_family.check(self.many, constants, self.streams, settings)

    def describe(self, constants: Mapping[str, object] | None) -> dict[str, object]:
        return many_family.describe(self.many, constants, self.streams)

    def kernels(self, settings: Settings) -> frozenset[str]:
        return kernels_of(settings.strategy, self.many.predicate) | {"many"}


def see(core: Query, catalog: Catalog) -> SeenMany:
    many = many_family.joined(core, catalog)
    return SeenMany(many, tuple(catalog.side(name) for name in many.family.streams))


class ManyQueries(QueriesOf[ManySegment]):
    """A segment of joins of many."""

    def __init__(self, segment: ManySegment) -> None:
        super().__init__(segment)
        # By id() of their parts, those of the last rows that were met; a pool keeps its parts alive.
        self._pools: dict[tuple[int, ...], Pool] = {}

    @property
    def needs(self) -> tuple[Needs, ...]:
        """It asks for columns only: the family alone says in which orders rows are kept."""
        return tuple(Needs((), tuple(self.segment.asked(s))) for s in range(len(self.segment.family.streams)))

    def match(self, asked: Encounter) -> Iterator[Results | OverBudget]:
        pools = {s: self._pool(rows) for s, rows in enumerate(asked.partners) if s != asked.side}
        events = EventRows(*asked.events)
        muted, costs = asked.muted, asked.tuning.costs
        found = self.segment.match(asked.side, events, pools, muted, asked.left(), asked.lifetimes, costs)
        yield found if isinstance(found, OverBudget) else Results(*found)

    def _pool(self, rows: Sequence[ManyRows]) -> Pool:
        """All rows of a side. Slices and ranges of events that meet the same rows share one pool, and its caches."""
        key = tuple(id(part) for part in rows)
        if key not in self._pools:
            while len(self._pools) >= 2 * len(self.segment.family.streams):  # a segment lives for many batches
                del self._pools[next(iter(self._pools))]
            self._pools[key] = Pool(rows)
        return self._pools[key]


def build(
    family: ManyFamily,
    groups: Sequence[Group],
    catalog: Catalog,
    settings: Settings,
    excluded: np.ndarray,
    recent: Recent | None = None,
) -> ManyQueries:
    return ManyQueries(
        ManySegment.build(family, groups, catalog, strategy=settings.strategy, excluded=excluded, recent=recent)
    )


def open(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> ManyQueries:
    return ManyQueries(ManySegment.from_arrays(arrays, meta))


def columns_of_rows(family: ManyFamily, side: int, needs: Needs) -> list[Expression]:
    return list(needs.columns)  # these include what the rows are joined by


def build_rows(family: ManyFamily, side: int, rows: NewRows, needs: Needs) -> ManyRows:
    return ManyRows.build(family, side, *rows, columns=needs.columns)
