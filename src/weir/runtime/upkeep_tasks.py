"""What the upkeep job is told: the shapes of kept queries, which of their queries want what, where everything is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weir.algebra.schema import Column, DataType, Stream, Table
from weir.answer.keeping import Keeping
from weir.plan.cores import Cores
from weir.plan.finishes import Finish
from weir.runtime.arrived import Groups
from weir.store.row_places import RowPlaces

Ids = np.ndarray


@dataclass(frozen=True)
class ShapeTask:
    """One shape: what its cores and its finish are, and which of its queries want what."""

    name: str
    cores: Cores
    channels: tuple[str, ...]  # by core
    sides: tuple[tuple[int, ...], ...]  # by core, the side of each source
    streams: tuple[tuple[Stream, ...], ...]  # by core, of its sources
    output: tuple[Column, ...]
    types: tuple[DataType, ...]  # of the constants
    groups: Groups
    gone: Ids  # queries that were dropped or given up, ascending …
    dropped: Ids  # … those of them that were dropped: what was told of the others counts when they begin again
    new: Ids  # queries to begin with, ascending …
    again: Ids  # … those of them that were given up before
    is_moved: bool  # whether every answer is to be looked at
    keeping: Keeping  # what is remembered of their results
    finish: Finish  # with common cores

    @property
    def matched(self) -> list[int]:
        """The cores whose results are found by matching."""
        return [core for core in range(len(self.cores.cores)) if core not in self.keeping.common]

    @property
    def read_streams(self) -> set[str]:
        """The streams of common cores, whose results are read off the rows."""
        return {self.streams[core][0].name for core in self.keeping.common}


@dataclass(frozen=True)
class UpkeepTask:
    """Everything that the tasks need; travels to the workers."""

    location: str
    batch: int
    now_us: int
    parts: int  # into how many all queries are cut
    slices: tuple[tuple[int, ...], ...]  # parts, by task
    shapes: tuple[ShapeTask, ...]
    waiting: frozenset[str]  # other shapes, all of whose queries are given up
    before: Mapping[int, str]  # by part, the file that it wrote last
    matches: tuple[str, ...]  # match files of the batch
    older: tuple[str, ...]  # match files of new queries over rows that came before them
    places: Mapping[str, RowPlaces]  # by stream
    tables: Mapping[str, Table]  # that finishes read, by lower-case name
    results_max: int  # of one query
    is_trial: bool = False  # only whether it comes to an end is asked for: nothing is written
