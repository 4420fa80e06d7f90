"""Polars: W1 and sets of numbers as inequality joins, sets with a category as a hash join and a filter."""

from __future__ import annotations

import polars as pl

from benchmarks.peers.peer import Answer, Peer
from benchmarks.peers.triples import Triple, events_table, split
from benchmarks.workloads import Workload


def _join(events: pl.LazyFrame, part: Triple, queries: pl.LazyFrame) -> pl.LazyFrame:
    within = [
        side
        for i, name in enumerate(part.numbers)
        for side in (pl.col(name) >= pl.col(f"lo_{i}"), pl.col(name) <= pl.col(f"hi_{i}"))
    ]
    if part.categories:
        keys = [f"eq_{i}" for i in range(len(part.categories))]
        return events.join(queries, left_on=list(part.categories), right_on=keys).filter(*within)
    return events.join_where(queries, *within)


def prepare(workload: Workload) -> Answer:
    batch = pl.DataFrame(pl.from_arrow(events_table(workload)))
    parts = [(part, pl.DataFrame(pl.from_arrow(part.queries)).lazy()) for part in split(workload)]

    def answer(n_events: int) -> int:
        events = batch.head(n_events).lazy()
        counts = pl.collect_all([_join(events, part, queries).select(pl.len()) for part, queries in parts])
        return int(sum(count.item() for count in counts))

    return answer


PEER = Peer("polars", ("W1", "W2"), 2, False, prepare)
