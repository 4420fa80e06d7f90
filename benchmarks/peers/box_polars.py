"""Polars on W5: a filter of the queries by the tuple's own values, then one expression for each join result over what
is left; the filters of some events are one selection, which the engine's threads share.

Tried and slower: one inequality join of the join results with the queries (it works on two of the twenty conditions,
and a million queries took it twenty times as long), one lazy query an event, one attribute after the other with row
numbers of what is left.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import polars as pl

from benchmarks.peers.box_tables import others, own, queries_table
from benchmarks.peers.peer import Answer, BoxPeer
from benchmarks.workloads import BoxWorkload

_TOGETHER = 16  # events of one selection


def prepare(workload: BoxWorkload) -> Answer:
    queries = pl.DataFrame(pl.from_arrow(queries_table(workload)))
    names, other_names = own(workload), others(workload)
    first, second = (
        queries.select(f"{name}_{end}" for name in of for end in ("lo", "hi")) for of in (names, other_names)
    )
    n_own, n_results = workload.streams[0], workload.n_results
    tuples = workload.keys[:n_own, ::n_results].T.tolist()
    partners = workload.keys[n_own:].T.tolist()

    def answer(n_events: int) -> int:
        total = 0
        for begin in range(0, n_events, _TOGETHER):
            events = range(begin, min(begin + _TOGETHER, n_events))
            masks = first.select(_contains(names, tuples[event]).alias(str(event)) for event in events)
            for event in events:
                left = second.filter(masks.get_column(str(event)))
                results = partners[event * n_results : (event + 1) * n_results]
                counts = left.select(_contains(other_names, row).sum().alias(str(k)) for k, row in enumerate(results))
                total += sum(counts.row(0))
        return int(total)

    return answer


def _contains(names: Sequence[str], values: Sequence[int]) -> pl.Expr:
    """Whether a query's intervals contain these values."""
    sides = [
        side
        for name, value in zip(names, values, strict=True)
        for side in (
            pl.col(f"{name}_lo") <= pl.lit(value, dtype=pl.Int16),
            pl.col(f"{name}_hi") >= pl.lit(value, dtype=pl.Int16),
        )
    ]
    return functools.reduce(operator.and_, sides)


PEER = BoxPeer("polars", 2, False, prepare)
