"""Random rows of a stream or table, and random splits of them into batches, reproducible from a seed.

Times are laid over (start, start + span], ordered, shuffled or clustered; shares of the rows can be made late,
future-stamped, without a time, or exact duplicates of an earlier row. Values come from the pools of
`domains`. Arrival order is row order; a row's position is its row id in the oracle.
"""

from __future__ import annotations

import zlib
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tests.generators import domains
from weir.algebra.schema import Column, Kind, Stream, Table
from weir.testing.arrow_types import arrow_schema, arrow_type

RESERVED = -(2**63)  # the bigint that ingest refuses


def random_rows(
    relation: Stream | Table,
    n: int,
    seed: int,
    *,
    order: str = "ordered",
    start_us: int = domains.START_US,
    span_us: int = domains.SPAN_US,
    nulls: float = 0.08,
    specials: float = 0.05,
    extremes: float = 0.03,
    duplicates: float = 0.05,
    late: float = 0.0,
    future: float = 0.0,
    null_times: float = 0.0,
    reserved: float = 0.0,
    skew: float = 0.0,
) -> pa.Table:
    """`n` rows in arrival order.

    `order` is "ordered", "shuffled" (anywhere in the span) or "clustered" (few distinct times, locally out of
    order). `late` rows are moved before the stream's keep, `future` rows beyond start + span + future_us;
    for a stream kept for ever no row can be late. `skew` is the share of a column's values that are its pool's middle
    one, which columns of one type have in common: a join key that meets much of the other side. A table's key is unique
    and never NULL, so it may get fewer than `n` rows when its key's pool is small.
    """
    rng = np.random.default_rng([seed, zlib.crc32(relation.name.lower().encode())])
    if isinstance(relation, Table):
        keys = _unique_keys(relation, n, rng)
        n = len(keys)
    columns: list[pa.Array] = []
    for column in relation.columns:
        if isinstance(relation, Table) and column.name in relation.key:
            columns.append(keys)
        elif isinstance(relation, Stream) and column.name == relation.time:
            times = random_times(rng, n, order, start_us, span_us)
            if relation.keep_us is not None:
                gone = rng.random(n) < late
                times[gone] -= relation.keep_us + span_us + rng.integers(1, span_us, gone.sum())
            ahead = rng.random(n) < future
            times[ahead] += span_us + relation.future_us + rng.integers(1, span_us, ahead.sum())
            columns.append(pa.array(times, mask=rng.random(n) < null_times).cast(pa.timestamp("us", "UTC")))
        else:
            columns.append(_values(column, n, rng, nulls, specials, extremes, reserved, skew))
    rows = pa.table(columns, schema=arrow_schema(relation))
    if isinstance(relation, Stream) and n:
        source = np.arange(n)
        twins = np.flatnonzero(rng.random(n) < duplicates)
        twins = twins[twins > 0]
        source[twins] = twins - rng.integers(1, np.minimum(twins, 5) + 1)
        rows = rows.take(source)
    return rows


def split_batches(rows: pa.Table, seed: int, *, batches: int | None = None) -> list[pa.Table]:
    """The rows cut into batches in arrival order; any of them may be empty, also the first and the last."""
    rng = np.random.default_rng([seed, 77])
    count = int(rng.integers(1, 9)) if batches is None else batches
    cuts = np.sort(rng.integers(0, rows.num_rows + 1, count - 1))
    if count > 2 and rng.random() < 0.5:
        cuts[0] = cuts[1]  # two equal cuts make an empty batch for certain
    edges = [0, *cuts.tolist(), rows.num_rows]
    return [rows.slice(a, b - a) for a, b in pairwise(edges)]


def random_times(rng: np.random.Generator, n: int, order: str, start_us: int, span_us: int) -> np.ndarray:
    """`n` times in (start, start + span], in arrival order."""
    if order == "clustered":
        centres = start_us + rng.integers(1, span_us + 1, max(1, n // 10))
        times = np.sort(rng.choice(centres, n))
        return np.clip(times + rng.integers(-2, 3, n) * 1_000_000, start_us + 1, start_us + span_us)
    times = start_us + rng.integers(1, span_us + 1, n)
    if order == "ordered":
        return np.sort(times)
    assert order == "shuffled", f"order is ordered, shuffled or clustered, got {order!r}"
    return times


def _values(
    column: Column,
    n: int,
    rng: np.random.Generator,
    nulls: float,
    specials: float,
    extremes: float,
    reserved: float,
    skew: float,
) -> pa.Array:
    parts = [domains.ordinary(column.type), domains.extreme(column.type), domains.special(column.type)]
    # The last two entries of the pool are NULL and, for a bigint, the reserved value.
    pool = pa.array(
        [*parts[0], *parts[1], *parts[2], None, RESERVED if column.type.kind is Kind.BIGINT else None],
        arrow_type(column.type),
    )
    picks = rng.integers(0, len(parts[0]), n)
    if skew:  # without it nothing is drawn, so that rows without skew stay the rows they were
        picks[rng.random(n) < skew] = len(parts[0]) // 2
    first = len(parts[0])
    for part, share in zip(parts[1:], (extremes, specials), strict=True):
        if part:
            hit = rng.random(n) < share
            picks[hit] = first + rng.integers(0, len(part), hit.sum())
        first += len(part)
    picks[rng.random(n) < nulls] = first
    if column.type.kind is Kind.BIGINT:
        picks[rng.random(n) < reserved] = first + 1
    if column.type.variant == "char":
        pool = pa.array([s if s is None else s.ljust(column.type.precision) for s in pool.to_pylist()], pool.type)
    return pool.take(pa.array(picks))


def _unique_keys(table: Table, n: int, rng: np.random.Generator) -> pa.Array:
    (key,) = table.key
    column = table.column(key)
    assert column is not None, f"table {table.name} has no column {key}"
    pool = pa.array([*domains.ordinary(column.type), *domains.extreme(column.type)], arrow_type(column.type)).unique()
    return pool.take(pa.array(rng.permutation(len(pool))[:n]))
