"""DuckDB, 2 threads: W1 as one range join (it plans an IE join), W2 as one join for each set of attributes."""

from __future__ import annotations

import duckdb

from benchmarks.peers.peer import Answer, Peer
from benchmarks.peers.triples import Triple, events_table, split
from benchmarks.workloads import Workload


def _condition(part: Triple) -> str:
    equal = [f"e.{name} = q.eq_{i}" for i, name in enumerate(part.categories)]
    within = [f"e.{name} BETWEEN q.lo_{i} AND q.hi_{i}" for i, name in enumerate(part.numbers)]
    return " AND ".join(equal + within)


def prepare(workload: Workload) -> Answer:
    database = duckdb.connect(config={"threads": 2})
    database.register("given_events", events_table(workload))
    database.execute("CREATE TABLE events AS SELECT * FROM given_events")
    joins = []
    for number, part in enumerate(split(workload)):
        database.register("given_queries", part.queries)
        database.execute(f"CREATE TABLE queries_{number} AS SELECT * FROM given_queries")
        joins.append(f"SELECT count(*) AS n FROM batch e JOIN queries_{number} q ON {_condition(part)}")
    text = f"SELECT sum(n) FROM ({' UNION ALL '.join(joins)})"
    sizes: list[int] = []  # of the table `batch`; a table, because DuckDB plans a nested loop over a CTE's rows

    def answer(n_events: int) -> int:
        if sizes != [n_events]:
            database.execute("CREATE OR REPLACE TABLE batch AS SELECT * FROM events WHERE event < ?", [n_events])
            sizes[:] = [n_events]
        row = database.execute(text).fetchone()
        assert row is not None
        return int(row[0])

    return answer


PEER = Peer("duckdb", ("W1", "W2"), 2, False, prepare)
