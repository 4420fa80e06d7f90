"""W3 as tables, for the engines that take SQL or frames; and the bins of those that are binned by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.workloads import JoinWorkload

_BIN_MIN = 8  # narrower bins would outnumber the intervals' ends


def events_table(workload: JoinWorkload) -> pa.Table:
    number = np.arange(workload.n_events, dtype=np.int32)
    return pa.table({"event": number, "b": workload.keys, "a": workload.values})


def rows_table(workload: JoinWorkload) -> pa.Table:
    return pa.table({"b": workload.row_keys, "c": workload.row_values})


def queries_table(workload: JoinWorkload) -> pa.Table:
    p, number = workload.plane, np.arange(workload.n_queries, dtype=np.int32)
    return pa.table({"id": number, "a_lo": p.a_lo, "a_hi": p.a_hi, "c_lo": p.c_lo, "c_hi": p.c_hi})


def bin_widths(workload: JoinWorkload) -> tuple[int, int]:
    """Bins of a and of c about as wide as an interval: a query is in about two of each."""
    p = workload.plane
    return max(_BIN_MIN, int((p.a_hi - p.a_lo).mean())), max(_BIN_MIN, int((p.c_hi - p.c_lo).mean()))
