"""Many standing queries of one shape, with a row of constants for each: what is to be answered at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.schema import Table
from weir.answer.slot_values import Asked
from weir.plan.cores import Cores
from weir.plan.registration import Planned
from weir.store.query_groups import GroupRef
from weir.store.registry import Registry
from weir.store.row_files import arrow_schema, arrow_type

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Together:
    """Some standing queries of one shape."""

    planned: Planned
    tables: Mapping[str, Table]  # that they read, by lower-case name
    groups: tuple[GroupRef, ...]  # their registrations
    ids: Ids  # of the queries, ascending
    group: Ids  # by query, the place of its registration
    constants: pa.Table  # by query

    @property
    def parts(self) -> Cores:
        """Their cores and finish."""
        parts = self.planned.classified.parts
        assert parts is not None, "a query that stands has a finish"
        return parts

    @property
    def schema(self) -> pa.Schema:
        """The columns of an answer."""
        return arrow_schema(self.planned.query.output)

    @property
    def asked(self) -> Asked:
        """What the evaluation of a finish takes."""
        return Asked(self.ids, self.constants)

    def cores(self, number: int) -> Ids:
        """By query, the id of one of its cores; these ascend, too."""
        counts = np.array([group.count for group in self.groups], np.int64)
        return self.ids + number * counts[self.group]

    def at(self, places: npt.NDArray[np.int64]) -> Together:
        """Those at some places, which ascend."""
        if len(places) == len(self.ids):
            return self
        rows = self.constants.take(pa.array(places))
        return replace(self, ids=self.ids[places], group=self.group[places], constants=rows)


def constants_of(registry: Registry, groups: tuple[GroupRef, ...], ids: Ids, group: Ids) -> pa.Table:
    """The constants of queries, as they were registered; their groups ascend and have one shape."""
    bounds = np.searchsorted(group, np.arange(len(groups) + 1)).tolist()
    types = groups[0].types
    schema = pa.schema([(f"c{k}", arrow_type(type)) for k, type in enumerate(types)])
    found = []
    for ref, begin, end in zip(groups, bounds, bounds[1:], strict=False):
        rows = registry.constants(ref)
        if end - begin < ref.count:
            rows = rows.take(pa.array(ids[begin:end] - ref.first_id))
        found.append(rows.select(schema.names).cast(schema) if types else rows)
    return pa.concat_tables(found).combine_chunks()
