"""Selections as a form: one stream, one side, no partners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query
from weir.algebra.schema import Catalog, Stream
from weir.families.contract import Checked, Encounter, Needs, NewRows, QueriesOf, Results, Seen, Stored
from weir.families.members import Group
from weir.families.query_parts import kernels_of, parts_of
from weir.families.recent import Recent
from weir.families.selections import selection_family
from weir.families.selections.selection_segments import Segment
from weir.index.box_tables import OverBudget
from weir.settings import Settings

name = selection_family.name
strategies: tuple[str, ...] = ()
refusal = selection_family.refusal


@dataclass(frozen=True)
class SelectionFamily:
    """All selections over one stream."""

    stream: str

    @property
    def name(self) -> str:
        return self.stream

    @property
    def channel(self) -> str:
        return self.stream

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.stream,)


class SeenSelection(Seen):
    """A selection over one stream."""

    sides = (0,)
    counts_as_family = False

    def __init__(self, core: Query, stream: Stream) -> None:
        self.core = core
        self.family = SelectionFamily(stream.name)
        self.streams = (stream,)

    def check(self, constants: pa.Table, settings: Settings) -> Checked:
        return selection_family.check(self.core, constants, self.streams[0], settings)

    def describe(self, constants: Mapping[str, object] | None) -> dict[str, object]:
        return selection_family.describe(self.core, constants, self.streams[0])

    def kernels(self, settings: Settings) -> frozenset[str]:
        return kernels_of(settings.strategy, parts_of(self.core)[1])


def see(core: Query, catalog: Catalog) -> SeenSelection:
    return SeenSelection(core, catalog.streams[core.sources[0].relation.lower()])


class SelectionQueries(QueriesOf[Segment]):
    """A segment of selections."""

    needs = (Needs(),)

    def match(self, asked: Encounter) -> Iterator[Results | OverBudget]:
        found = self.segment.match(asked.events.table, asked.muted, asked.left(), asked.tuning.costs)
        if isinstance(found, OverBudget):
            yield found
        else:
            yield Results(None, found.offsets, found.slots, np.empty((0, len(found.slots)), np.int64))


def build(
    family: SelectionFamily,
    groups: Sequence[Group],
    catalog: Catalog,
    settings: Settings,
    excluded: np.ndarray,
    recent: Recent | None = None,
) -> SelectionQueries:
    stream = catalog.streams[family.stream.lower()]
    return SelectionQueries(Segment.build(stream, groups, strategy=settings.strategy, excluded=excluded, recent=recent))


def open(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> SelectionQueries:
    return SelectionQueries(Segment.from_arrays(arrays, meta))


def columns_of_rows(family: SelectionFamily, side: int, needs: Needs) -> list[Expression]:
    return []


def build_rows(family: SelectionFamily, side: int, rows: NewRows, needs: Needs) -> Stored:
    raise AssertionError("a selection has no partners")


def open_rows(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Any:
    raise AssertionError("a selection has no partners")
