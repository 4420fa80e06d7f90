"""The constants of a shape's queries: from the registry when queries begin, from what is kept afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from weir.algebra.schema import Column
from weir.answer.slot_values import Asked
from weir.runtime.upkeep_tasks import ShapeTask
from weir.store.ascending import distinct
from weir.store.files import Files
from weir.store.maintained import SLOT
from weir.store.query_groups import GroupRef
from weir.store.registry import Registry
from weir.store.row_files import arrow_schema

EVERYBODY = np.array([-1], np.int64)  # whose results those of common cores are
Ids = np.ndarray


class KnownConstants:
    """The constants of a shape's queries."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        self.table = pa.concat_tables(tables).combine_chunks() if tables else pa.table({SLOT: np.empty(0, np.int64)})
        slots = self.table.column(SLOT).to_numpy()
        if bool((slots[1:] < slots[:-1]).any()):
            self.table = self.table.take(pa.array(np.argsort(slots, kind="stable")))
        self.slots: Ids = self.table.column(SLOT).to_numpy()

    def of(self, slots: Ids) -> Asked:
        """These queries, which ascend, with theirs."""
        if len(slots) == len(self.slots):
            return Asked(slots, self.table.drop_columns([SLOT]))
        rows = self.table.take(pa.array(np.searchsorted(self.slots, slots)))
        return Asked(slots, rows.drop_columns([SLOT]))

    def in_which_agree(self, slots: Ids) -> KnownConstants:
        """The constants in which some queries agree, as everybody's; nobody's if there are no queries."""
        one = self.table.slice(int(np.searchsorted(self.slots, slots[0])), 1) if len(slots) else self.table.slice(0, 0)
        return KnownConstants([one.set_column(0, SLOT, pa.array(EVERYBODY[: one.num_rows]))])

    def those_of(self, slots: Ids) -> Asked:
        """The distinct queries among these, which ascend, with theirs."""
        return self.of(distinct(slots))


def constants_of(files: Files, shape: ShapeTask, queries: Ids) -> pa.Table:
    """The constants of some queries, as they were registered."""
    names = [f"c{k}" for k in range(len(shape.types))]
    tables = []
    registry = Registry(files)
    groups = np.searchsorted(shape.groups.first, queries, side="right") - 1
    for group in np.unique(groups).tolist():
        first, count, number = (int(of[group]) for of in (shape.groups.first, shape.groups.count, shape.groups.number))
        ids = queries[groups == group]
        ref = GroupRef(number, first, count, "", shape.types, (), (), 0)
        rows = registry.constants(ref).select(names).take(pa.array(ids - first)) if names else None
        tables.append(pa.table({SLOT: ids} | ({} if rows is None else dict(zip(names, rows.columns, strict=True)))))
    schema = arrow_schema([Column(name, type) for name, type in zip(names, shape.types, strict=True)])
    empty = pa.schema([(SLOT, pa.int64()), *schema]).empty_table()
    return pa.concat_tables([empty, *(t.cast(empty.schema) for t in tables)]).combine_chunks()
