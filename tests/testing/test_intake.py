"""The model of ingest against cases worked out by hand."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.generators import (
    SPAN_US,
    START_US,
    Batch,
    Intake,
    accept,
    random_catalog,
    random_rows,
    rows_until,
    split_batches,
)
from weir.algebra.schema import BIGINT, TIMESTAMP, Catalog, Column, Stream
from weir.testing.arrow_types import arrow_schema

SECOND = 1_000_000
COLUMNS = (Column("v", BIGINT), Column("ts", TIMESTAMP))
SHORT = Stream("short", COLUMNS, "ts", keep_us=10 * SECOND, future_us=5 * SECOND)
LONG = Stream("Long", COLUMNS, "ts", keep_us=None, future_us=5 * SECOND)
CATALOG = Catalog({"short": SHORT, "long": LONG})


def rows(*pairs: tuple[int | None, float | None]) -> pa.Table:
    times = [None if s is None else dt.datetime.fromtimestamp(s, dt.UTC) for _, s in pairs]
    schema = arrow_schema(SHORT)
    return pa.table(
        [pa.array([v for v, _ in pairs], pa.int64()), pa.array(times, schema.field("ts").type)], schema=schema
    )


def values(intake: Intake, stream: str = "short") -> list[int]:
    found: list[int] = intake.accepted[stream].column("v").to_pylist()
    return found


def test_reasons() -> None:
    first = Batch({"short": rows((1, 100), (2, None), (3, 106), (4, 105))}, 100 * SECOND)
    second = Batch(
        {"short": rows((5, 94.999999), (6, 95), (-(2**63), 105), (-(2**63), None), (None, 104))}, 110 * SECOND
    )
    one, two = accept(CATALOG, [first, second])
    assert values(one) == [1, 4]
    assert one.rejected["short"] == ((1, "null time"), (2, "future"))
    assert one.now_us == 105 * SECOND
    assert values(two) == [6, None]  # a row exactly at now − keep is taken
    assert two.rejected["short"] == ((0, "late"), (2, "reserved value"), (3, "reserved value"))
    assert two.now_us == 105 * SECOND


def test_a_batch_is_judged_by_earlier_batches_only() -> None:
    together = accept(CATALOG, [Batch({"short": rows((1, 50), (2, 10))}, 100 * SECOND)])
    assert values(together[0]) == [1, 2]
    apart = accept(CATALOG, [Batch({"short": rows((n, t))}, 100 * SECOND) for n, t in ((1, 50), (2, 10))])
    assert values(apart[1]) == []
    assert apart[1].rejected["short"] == ((0, "late"),)


def test_now_is_over_all_streams_and_never_goes_back() -> None:
    batches = [
        Batch({"LONG": rows((1, 60))}, 100 * SECOND),
        Batch({"short": rows((2, 49), (3, 50)), "Long": rows((4, 1))}, 100 * SECOND),
        Batch({}, 0),
    ]
    found = accept(CATALOG, batches)
    assert values(found[0], "long") == [1]
    assert values(found[1]) == [3]
    assert values(found[1], "long") == [4]  # kept for ever: never late
    assert [i.now_us for i in found] == [60 * SECOND] * 3


def test_nothing_accepted_leaves_now_unknown() -> None:
    found = accept(CATALOG, [Batch({"short": rows((1, 1_000))}, 0), Batch({"short": rows((2, 3))}, 0)])
    assert [i.now_us for i in found] == [None, 3 * SECOND]
    assert found[0].rejected["short"] == ((0, "future"),)


def test_arrival_clock_stamps_rows() -> None:
    batches = [
        Batch({"short": rows((1, None), (2, 9_999), (-(2**63), 1))}, 100 * SECOND),
        Batch({"short": rows((3, 0))}, 20 * SECOND),  # the wall clock went back: now does not
        Batch({}, 130 * SECOND),
    ]
    found = accept(CATALOG, batches, clock="arrival")
    assert values(found[0]) == [1, 2]
    assert found[0].rejected["short"] == ((2, "reserved value"),)
    stamps = [i.accepted["short"].column("ts").cast(pa.int64()).to_pylist() for i in found[:2]]
    assert stamps == [[100 * SECOND] * 2, [100 * SECOND]]
    assert [i.now_us for i in found] == [100 * SECOND, 100 * SECOND, 130 * SECOND]


def test_rows_until_a_batch() -> None:
    batches = [Batch({"short": rows((n, 50 + n))}, 100 * SECOND) for n in range(4)]
    found = accept(CATALOG, batches)
    assert rows_until(CATALOG, found, 2)["short"].column("v").to_pylist() == [0, 1, 2]
    assert rows_until(CATALOG, found, 2)["long"].num_rows == 0
    assert rows_until(CATALOG, [], -1)["short"].schema.equals(arrow_schema(SHORT))


@pytest.mark.parametrize("seed", range(10))
def test_every_row_is_accepted_or_rejected_once(seed: int) -> None:
    catalog = random_catalog(seed, tables=0)
    parts = {
        s.name: split_batches(
            random_rows(s, 100, seed, order="shuffled", late=0.1, future=0.1, null_times=0.1), seed, batches=5
        )
        for s in catalog.streams.values()
    }
    batches = [Batch({name: p[n] for name, p in parts.items()}, START_US + SPAN_US) for n in range(5)]
    for batch, intake in zip(batches, accept(catalog, batches), strict=True):
        for name, table in batch.rows.items():
            taken, left = intake.accepted[name.lower()].num_rows, intake.rejected[name.lower()]
            assert taken + len(left) == table.num_rows
            assert [r.position for r in left] == sorted({r.position for r in left})
