"""DuckDB, 2 threads: the select join as one statement (a hash join, then a range join), and binned by hand.

Binned: each query is exploded into the bins of c that it touches, and the pairs of event and row join on the bin
before the bounds are checked.
"""

from __future__ import annotations

import functools

import duckdb

from benchmarks.peers.peer import Answer, JoinPeer
from benchmarks.peers.select_join_tables import bin_widths, events_table, queries_table, rows_table
from benchmarks.workloads import JoinWorkload

_WITHIN = "s.c BETWEEN q.c_lo AND q.c_hi AND e.a BETWEEN q.a_lo AND q.a_hi"


def prepare(binned: bool, workload: JoinWorkload) -> Answer:
    database = duckdb.connect(config={"threads": 2})
    given = {"events": events_table(workload), "kept": rows_table(workload), "queries": queries_table(workload)}
    for name, table in given.items():
        database.register(f"given_{name}", table)
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM given_{name}")
    condition = _WITHIN
    if binned:
        width = bin_widths(workload)[1]
        database.execute(
            "CREATE TABLE binned AS SELECT *, "
            f"unnest(range((c_lo // {width})::BIGINT, (c_hi // {width})::BIGINT + 1)) AS bin FROM queries"
        )
        condition = f"q.bin = s.c // {width} AND {_WITHIN}"
    queries = "binned" if binned else "queries"
    text = f"SELECT count(*) FROM batch e JOIN kept s ON e.b = s.b JOIN {queries} q ON {condition}"
    sizes: list[int] = []

    def answer(n_events: int) -> int:
        if sizes != [n_events]:
            database.execute("CREATE OR REPLACE TABLE batch AS SELECT * FROM events WHERE event < ?", [n_events])
            sizes[:] = [n_events]
        row = database.execute(text).fetchone()
        assert row is not None
        return int(row[0])

    return answer


PEER = JoinPeer("duckdb", 2, False, True, functools.partial(prepare, False))
BINNED = JoinPeer("duckdb-binned", 2, False, True, functools.partial(prepare, True))
