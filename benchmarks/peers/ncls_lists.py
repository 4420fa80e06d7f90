"""ncls: nested containment lists, the fastest library for one range from PyPI; one thread, pairs handed out."""

from __future__ import annotations

import numpy as np
from ncls import NCLS

from benchmarks.peers.peer import Answer, Peer
from benchmarks.workloads import Workload


def prepare(workload: Workload) -> Answer:
    table = workload.table
    shift = -min(int(table.constraint_lo.min(initial=0)), 0)  # it takes negative numbers for another strand of DNA
    ids = np.arange(workload.n_queries, dtype=np.int64)
    lists = NCLS(table.constraint_lo + shift, table.constraint_hi + shift + 1, ids)
    begin = workload.keys[0] + shift
    end, number = begin + 1, np.arange(workload.n_events, dtype=np.int64)

    def answer(n_events: int) -> int:
        events, _ = lists.all_overlaps_both(begin[:n_events], end[:n_events], number[:n_events])
        return len(events)

    return answer


PEER = Peer("ncls", ("W1",), 1, True, prepare)
