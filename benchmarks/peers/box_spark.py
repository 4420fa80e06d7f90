"""Spark, local[2], on W5, written two ways.

The join results with the queries by a broadcast nested loop; and in two steps, as PDFA does it: the tuples with the
queries by a broadcast nested loop over the tuples' own attributes, then what is left with the partners by a hash join
on the event. Queries come in two parts, one for each core.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.peers.box_tables import events_table, others, own, partners_table, queries_table, results_table
from benchmarks.peers.peer import Answer, BoxPeer
from benchmarks.peers.spark_joins import kept, session
from benchmarks.workloads import BoxWorkload

if TYPE_CHECKING:
    from pyspark.sql import Column


def _within(names: Sequence[str]) -> Column:
    from pyspark.sql import functions as f

    inside = [f.col(name).between(f.col(f"{name}_lo"), f.col(f"{name}_hi")) for name in names]
    return functools.reduce(lambda a, b: a & b, inside)


def prepare_nested(workload: BoxWorkload) -> Answer:
    from pyspark.sql import functions as f

    make = session().createDataFrame
    # The queries are streamed past the batch, which is broadcast: a million queries are many, a batch is small.
    queries = kept(make(queries_table(workload)).repartition(2))
    results = kept(make(results_table(workload)))

    def answer(n_events: int) -> int:
        batch = f.broadcast(results.where(f.col("event") < n_events))
        return int(queries.join(batch, _within([*own(workload), *others(workload)])).count())

    return answer


def prepare_steps(workload: BoxWorkload) -> Answer:
    from pyspark.sql import functions as f

    make = session().createDataFrame
    queries = kept(make(queries_table(workload)).repartition(2))
    events, partners = kept(make(events_table(workload))), kept(make(partners_table(workload)))

    def answer(n_events: int) -> int:
        first = f.broadcast(events.where(f.col("event") < n_events))
        second = f.broadcast(partners.where(f.col("event") < n_events).withColumnRenamed("event", "of_event"))
        found = queries.join(first, _within(own(workload)))
        return int(found.join(second, (f.col("event") == f.col("of_event")) & _within(others(workload))).count())

    return answer


NESTED = BoxPeer("spark-nested", 2, False, prepare_nested)
STEPS = BoxPeer("spark-steps", 2, False, prepare_steps)
