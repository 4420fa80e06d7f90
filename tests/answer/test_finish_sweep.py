"""Queries with every kind of finish over one batch of rows, at random moments, against DuckDB and against Spark.

The rows come first, so answers are recomputed and nothing has to be matched: thousands of queries a minute. What
batches, expirations and changes do to finishes is the business of `test_finish_oracle`, which plays whole lives.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest

import weir
from tests.generators import SPAN_US, START_US, FinishQuery, random_catalog, random_finish, random_rows
from tests.marks import few_are_quick
from tests.scenario import define
from tests.spark_facts import fails_by_itself, may_differ
from tests.tally import tally
from weir.algebra.schema import Catalog
from weir.errors import RegisterError
from weir.testing import answer, differ, spark_oracle
from weir.testing.direct import DirectWeir
from weir.testing.spark_bags import differ_from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOAK = os.environ.get("WEIR_SOAK", "")  # "k/n": the k-th of n parts of the long run
WORLDS = range(9000, 11000)[int(SOAK.split("/")[0]) :: int(SOAK.split("/")[1])] if SOAK else range(9000, 9040)
COMPARISONS_MIN = 100_000 // int(SOAK.split("/")[1]) if SOAK else 2_000
SPARK_WORLDS = range(12_000, 12_210)
QUERIES, ROWS = 52, 60  # of a world
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ROOM = 1e-9  # how far apart two sums of doubles may be
compared: dict[int, int] = {}
refused: Counter[str] = Counter()


class Asked(NamedTuple):
    """A query, and what Weir answered at a moment."""

    made: FinishQuery
    catalog: Catalog
    rows: dict[str, pa.Table]
    tau_us: int
    got: pa.Table
    where: str


def asked(folder: Path, world: int, *, for_spark: bool = False) -> Iterator[Asked]:
    """The queries of one world; those that are refused are counted."""
    rng = random.Random(f"finish sweep {world}")
    catalog = random_catalog(world, tables=0, keep_us=(None, 2 * SPAN_US), variants=not for_spark)
    w = weir.open(folder)
    define(w, catalog)
    rows = {}
    for k, (name, stream) in enumerate(catalog.streams.items()):
        count = 0 if rng.random() < 0.1 else ROWS
        rows[name] = random_rows(stream, count, world * 7 + k, extremes=0.0, skew=0.1)
    DirectWeir(w, slices=1, wall_us=START_US + 2 * SPAN_US).batch({catalog.streams[n].name: r for n, r in rows.items()})
    for k in range(QUERIES):
        made = random_finish(catalog, world * 1000 + k)
        tau_us = START_US + rng.randrange(SPAN_US // 2, SPAN_US)
        try:
            query = w.register(made.text, made.params)
        except RegisterError as e:
            refused[str(e).partition(", line ")[0][:90]] += 1
            continue
        got = query.fetch(at=EPOCH + dt.timedelta(microseconds=tau_us))
        where = f"world {world}, query {k}, at {tau_us}: {made.text} {made.params}"
        yield Asked(made, catalog, rows, tau_us, got, where)


@pytest.mark.parametrize("world", few_are_quick(WORLDS, quick=0 if SOAK else 1))
def test_finishes_equal_the_oracle(tmp_path: Path, world: int) -> None:
    count = 0
    for made, catalog, rows, tau_us, got, where in asked(tmp_path, world):
        expected = answer(made.text, made.params, catalog, rows, tau_us)
        room = dict.fromkeys(made.approximate, ROOM)
        said = {"ordered": made.ordered, "lists_are_bags": True, "approximate": bool(room), "room": room}
        difference = differ(expected, got, **said)
        assert difference is None, f"{where}\n{difference}"
        count += 1
    compared[world] = count
    tally("finishes at random moments, DuckDB", count)


def test_enough_was_compared() -> None:
    if len(compared) < len(WORLDS):
        pytest.skip("only a part of the worlds was run")
    assert sum(compared.values()) >= COMPARISONS_MIN
    assert sum(refused.values()) <= sum(compared.values()) / 10, refused


@pytest.mark.spark
@pytest.mark.parametrize("world", few_are_quick(SPARK_WORLDS, quick=0, tested=1))
def test_finishes_equal_spark(spark: SparkSession, tmp_path: Path, world: int) -> None:
    """Spark runs the texts themselves; all worlds together are more than 10,000 comparisons."""
    ends: Counter[str] = Counter()
    for made, catalog, rows, tau_us, got, where in asked(tmp_path, world, for_spark=True):
        about = (spark, made.text, made.params, catalog, rows, tau_us)
        try:
            expected = spark_oracle.answer(*about)
        except spark_oracle.SparkRefusesError as why:
            assert fails_by_itself(why), f"{where}\n{why}"
            ends["fails"] += 1
            continue
        room = dict.fromkeys(made.approximate, ROOM)
        difference = differ_from_spark(expected, got, ordered=made.ordered, lists_are_bags=True, room=room)
        if difference is not None:
            assert may_differ(*about), f"{where}\n{difference}"
        ends["equal" if difference is None else "may differ"] += 1
    tally("finishes at random moments, Spark", ends["equal"])
    assert ends["equal"] >= 0.9 * QUERIES, ends
