"""Polars: a hash join of events and rows, then an inequality join with the queries.

The inequality join works on its first two conditions and filters by the others, so the more selective interval,
that of c, comes first.
"""

from __future__ import annotations

import polars as pl

from benchmarks.peers.peer import Answer, JoinPeer
from benchmarks.peers.select_join_tables import events_table, queries_table, rows_table
from benchmarks.workloads import JoinWorkload


def prepare(workload: JoinWorkload) -> Answer:
    batch, rows, queries = (
        pl.DataFrame(pl.from_arrow(table(workload))) for table in (events_table, rows_table, queries_table)
    )

    def answer(n_events: int) -> int:
        pairs = batch.head(n_events).lazy().join(rows.lazy(), on="b")
        found = pairs.join_where(
            queries.lazy(),
            pl.col("c") >= pl.col("c_lo"),
            pl.col("c") <= pl.col("c_hi"),
            pl.col("a") >= pl.col("a_lo"),
            pl.col("a") <= pl.col("a_hi"),
        )
        return int(found.select(pl.len()).collect().item())

    return answer


PEER = JoinPeer("polars", 2, False, True, prepare)
