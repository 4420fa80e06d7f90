"""A peer: another way to answer a workload, measured as its expert would write it.

`prepare` loads queries and events (not timed) and returns a function that answers the first n events of the batch and
returns the number of (event, query) pairs; every peer's number is compared with Weir's. Peers that hand out the pairs
say so (`returns_ids`), the others only count them, which is to their advantage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.workloads import BoxWorkload, JoinWorkload, Workload

Answer = Callable[[int], int]  # number of events of the batch to answer → pairs


class Peer(NamedTuple):
    name: str
    workloads: tuple[str, ...]
    threads: int  # cores it uses; a peer with one is compared with one thread of Weir
    returns_ids: bool
    prepare: Callable[[Workload], Answer]


class JoinPeer(NamedTuple):
    """A peer on select joins.

    The result of a select join has a row for each (event, partner, query); Weir's search finds the queries that have
    any, each once. A peer that `counts_rows` counts the former, which spares it the duplicates' removal; its number is
    compared with a plain count of those rows.
    """

    name: str
    threads: int
    returns_ids: bool
    counts_rows: bool
    prepare: Callable[[JoinWorkload], Answer]
    first: int = 100  # events that it is tried with; more for one that takes long to begin, fewer for a slow one


class BoxPeer(NamedTuple):
    """A peer on join results of many attributes: it counts the pairs of join result and query of the first tuples."""

    name: str
    threads: int
    returns_ids: bool
    prepare: Callable[[BoxWorkload], Answer]
