"""DuckDB, 2 threads, on W5, written two ways; queries are sorted by their first bound, so that blocks are passed over.

A statement for each event: the tuple's values are constants of a filter over the queries, and what passes it is joined
with the tuple's partners. And two steps over the batch, as PDFA does it: the tuples with the queries by the tuples' own
attributes, then what is left with the partners.

Tried and slower: one join of the join results with the queries (a range join on two of the twenty conditions), an
aggregate with a filter for each join result, a union of selections over what the first step left, and the conditions
hidden so that it plans a nested loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from benchmarks.peers.box_tables import events_table, others, own, partners_table, queries_table
from benchmarks.peers.peer import Answer, BoxPeer
from benchmarks.workloads import BoxWorkload


def _within(names: Sequence[str], row: str, query: str = "q") -> str:
    return " AND ".join(f"{row}.{name} BETWEEN {query}.{name}_lo AND {query}.{name}_hi" for name in names)


def _database(workload: BoxWorkload) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect(config={"threads": 2})
    given = {
        "events": events_table(workload),
        "partners": partners_table(workload),
        "loaded": queries_table(workload),
    }
    for name, table in given.items():
        database.register("given", table)
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        database.unregister("given")
    database.execute(f"CREATE TABLE queries AS SELECT * FROM loaded ORDER BY {own(workload)[0]}_lo")
    return database


def _batched(database: duckdb.DuckDBPyConnection, tables: Sequence[str], text: str) -> Answer:
    """The number that `text` selects, over tables `batch_…` that hold the first events only."""
    sizes: list[int] = []

    def answer(n_events: int) -> int:
        if sizes != [n_events]:
            for name in tables:
                database.execute(
                    f"CREATE OR REPLACE TABLE batch_{name} AS SELECT * FROM {name} WHERE event < ?", [n_events]
                )
            sizes[:] = [n_events]
        row = database.execute(text).fetchone()
        assert row is not None
        return int(row[0])

    return answer


def prepare_steps(workload: BoxWorkload) -> Answer:
    bounds = ", ".join(f"q.{name}_lo, q.{name}_hi" for name in others(workload))
    found = f"SELECT e.event, {bounds} FROM batch_events e JOIN queries q ON {_within(own(workload), 'e')}"
    text = (
        f"WITH found AS MATERIALIZED ({found}) SELECT count(*) FROM found q "
        f"JOIN batch_partners p ON p.event = q.event AND {_within(others(workload), 'p')}"
    )
    return _batched(_database(workload), ["events", "partners"], text)


def prepare_filter(workload: BoxWorkload) -> Answer:
    database = _database(workload)
    constants = " AND ".join(f"? BETWEEN q.{name}_lo AND q.{name}_hi" for name in own(workload))
    text = (
        f"SELECT count(*) FROM (SELECT * FROM queries q WHERE {constants}) q "
        f"JOIN (SELECT * FROM partners WHERE event = ?) p ON {_within(others(workload), 'p')}"
    )
    rows = workload.keys[: workload.streams[0], :: workload.n_results].T.tolist()

    def answer(n_events: int) -> int:
        total = 0
        for event in range(n_events):
            row = database.execute(text, [*rows[event], event]).fetchone()
            assert row is not None
            total += int(row[0])
        return total

    return answer


STEPS = BoxPeer("duckdb-steps", 2, False, prepare_steps)
FILTER = BoxPeer("duckdb", 2, False, prepare_filter)
