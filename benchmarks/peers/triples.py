"""W2 as a SQL user has to write it: one join for each set of three attributes, since a column that a query does not
constrain has no bound to compare with. Each part holds the queries of one set, their bounds as columns lo_0, hi_0, …
Categories come first within a set, so that the join can hash on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.workloads import ATTRIBUTES, N_NUMBERS, Workload


class Triple(NamedTuple):
    """The queries that constrain the same attributes."""

    categories: tuple[str, ...]  # attributes compared by equality with columns eq_0, …
    numbers: tuple[str, ...]  # attributes compared by BETWEEN with columns lo_0 and hi_0, …
    queries: pa.Table


def split(workload: Workload) -> list[Triple]:
    """The queries of a workload by the attributes that they constrain."""
    table, n = workload.table, workload.n_queries
    per_query = len(table.constraint_attribute) // max(n, 1)
    attribute = table.constraint_attribute.reshape(n, per_query)
    lo, hi = table.constraint_lo.reshape(n, per_query), table.constraint_hi.reshape(n, per_query)
    parts = []
    for chosen in np.unique(attribute, axis=0):
        mine = np.flatnonzero((attribute == chosen).all(axis=1))
        columns = {"id": mine.astype(np.int32)}
        numbers = [j for j, a in enumerate(chosen) if a < N_NUMBERS]
        categories = [j for j, a in enumerate(chosen) if a >= N_NUMBERS]
        columns |= {f"eq_{i}": lo[mine, j] for i, j in enumerate(categories)}
        columns |= {f"lo_{i}": lo[mine, j] for i, j in enumerate(numbers)}
        columns |= {f"hi_{i}": hi[mine, j] for i, j in enumerate(numbers)}
        names = [ATTRIBUTES[a] for a in chosen]
        parts.append(Triple(tuple(names[j] for j in categories), tuple(names[j] for j in numbers), pa.table(columns)))
    return parts


def events_table(workload: Workload) -> pa.Table:
    """The batch as a table: its row number and one column an attribute."""
    columns = {"event": np.arange(workload.n_events, dtype=np.int32)}
    columns |= {ATTRIBUTES[a]: workload.keys[a] for a in range(workload.n_attributes)}
    return pa.table(columns)
