"""Sort the batch and search it for each query, with NumPy: the data becomes the index. One thread, pairs handed out
(by query, not by event)."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.peer import Answer, Peer
from benchmarks.workloads import Workload


def prepare(workload: Workload) -> Answer:
    lo, hi = workload.table.constraint_lo, workload.table.constraint_hi
    order_of_queries = np.argsort(lo)  # queries are known long before the batch: searching in order is kinder to caches
    lo, hi = lo[order_of_queries], hi[order_of_queries]
    ids = order_of_queries.astype(np.int32)

    def answer(n_events: int) -> int:
        keys = workload.keys[0, :n_events]
        order = np.argsort(keys).astype(np.int32)
        keys = keys[order]
        first, last = np.searchsorted(keys, lo, side="left"), np.searchsorted(keys, hi, side="right")
        count = last - first
        queries = np.repeat(ids, count)
        starts = np.repeat(first - (np.cumsum(count) - count), count)
        events = order[starts + np.arange(len(starts))]
        assert len(events) == len(queries)
        return len(queries)

    return answer


PEER = Peer("numpy-sort", ("W1",), 1, True, prepare)
