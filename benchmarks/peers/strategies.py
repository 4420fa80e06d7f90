"""Weir's own other strategies as peers: the plain scan and PSoup's predicate index, 2 threads, pairs handed out."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from benchmarks.peers.peer import Answer, Peer
from benchmarks.workloads import Workload
from weir.index.box_tables import Matches
from weir.index.strategies import STRATEGIES, Strategy


def search_in_threads(index: Strategy, keys: np.ndarray, n_slots: int, threads: int) -> list[Matches]:
    """Search slices of the batch at the same time: kernels release the GIL."""
    muted = np.zeros(n_slots, dtype=np.uint8)
    cuts = np.linspace(0, keys.shape[1], threads + 1).astype(int)
    slices = [np.ascontiguousarray(keys[:, a:b]) for a, b in itertools.pairwise(cuts)]

    def search(part: np.ndarray) -> Matches:
        found = index.search(part, muted, 1 << 40)
        assert isinstance(found, Matches)
        return found

    if threads == 1:
        return [search(slices[0])]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(search, slices))


def prepare(strategy: str, workload: Workload) -> Answer:
    index = STRATEGIES[strategy].build(workload.table, workload.n_queries, workload.n_attributes)

    def answer(n_events: int) -> int:
        found = search_in_threads(index, workload.keys[:, :n_events], workload.n_queries, 2)
        return sum(len(part.slots) for part in found)

    return answer


SCAN = Peer("scan", ("W1", "W2"), 2, True, partial(prepare, "scan"))
PREDICATE = Peer("predicate", ("W1", "W2"), 2, True, partial(prepare, "predicate"))
