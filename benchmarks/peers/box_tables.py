"""W5 as tables, for the engines that take SQL or frames.

All bounds and values are 16-bit integers, as narrow as an expert would declare them. The arriving stream's attributes
are a0, a1, …, those of all others b0, b1, …; queries have their bounds as a0_lo, a0_hi, …
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.workloads import BoxWorkload


def own(workload: BoxWorkload) -> list[str]:
    """Names of the arriving stream's attributes."""
    return [f"a{k}" for k in range(workload.streams[0])]


def others(workload: BoxWorkload) -> list[str]:
    """Names of the attributes that the partners bring."""
    return [f"b{k}" for k in range(workload.n_attributes - workload.streams[0])]


def events_table(workload: BoxWorkload) -> pa.Table:
    """One row an arriving tuple."""
    values = workload.keys[: workload.streams[0], :: workload.n_results]
    columns = {"event": np.arange(workload.n_events, dtype=np.int32)}
    return pa.table(columns | {name: values[k].astype(np.int16) for k, name in enumerate(own(workload))})


def partners_table(workload: BoxWorkload) -> pa.Table:
    """One row a join result: its event, and what the partners bring."""
    values = workload.keys[workload.streams[0] :]
    columns = {"event": np.repeat(np.arange(workload.n_events, dtype=np.int32), workload.n_results)}
    return pa.table(columns | {name: values[k].astype(np.int16) for k, name in enumerate(others(workload))})


def results_table(workload: BoxWorkload) -> pa.Table:
    """One row a join result, with all attributes."""
    table = partners_table(workload)
    for k, name in enumerate(own(workload)):
        table = table.append_column(name, pa.array(workload.keys[k].astype(np.int16)))
    return table


def queries_table(workload: BoxWorkload) -> pa.Table:
    n, names = workload.n_queries, [*own(workload), *others(workload)]
    lo = workload.table.constraint_lo.reshape(n, len(names)).astype(np.int16)
    hi = workload.table.constraint_hi.reshape(n, len(names)).astype(np.int16)
    columns = {"id": np.arange(n, dtype=np.int32)}
    columns |= {f"{name}_lo": np.ascontiguousarray(lo[:, k]) for k, name in enumerate(names)}
    columns |= {f"{name}_hi": np.ascontiguousarray(hi[:, k]) for k, name in enumerate(names)}
    return pa.table(columns)
