"""Many queries of one shape: constants for each of them, and rows that their cores might have found.

The shape comes from a text (`weir.plan`), the rest from a seed. Some queries have no rows at all, some have NULL among
their constants, and a few have a negative LIMIT, which is an error of that query alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tests.generators import domains
from tests.generators.streams import random_rows
from weir.algebra.schema import TIMESTAMP, Catalog, Column, DataType, Kind, Stream
from weir.plan.cores import Cores
from weir.plan.finishes import Finish, Versions, spelt
from weir.plan.from_rows import LIFETIME
from weir.plan.registration import Registration, constants_table, plan_registration
from weir.settings import Settings

_PATTERNS = ("a%", "%b%", "_b_", "ab", "")
_TIME = "time that nobody asks for"


@dataclass(frozen=True)
class ManyQueries:
    """Queries of one shape, and what their cores found."""

    parts: Cores
    output: tuple[Column, ...]
    types: tuple[DataType, ...]  # of the constants
    slots: np.ndarray
    constants: pa.Table  # row i: those of slots[i]
    tables: list[pa.Table]  # by core: its projected columns
    slot_of_row: list[np.ndarray]  # by core

    seed: int

    @property
    def finish(self) -> Finish:
        return self.parts.finish

    def versions(self, asked: Versions) -> pa.Table:
        """Rows of a table, always the same, and how long each holds."""
        found = rows_of([Column(spelt(asked.source, c.name), c.type) for c in asked.columns], 12, self.seed + 7)
        rng = np.random.default_rng(self.seed)
        begin = domains.START_US + rng.integers(0, domains.SPAN_US, 12)
        for name, edge in zip(LIFETIME, (begin, begin + rng.integers(0, domains.SPAN_US, 12)), strict=True):
            found = found.append_column(spelt(asked.source, name), pa.array(edge).cast(pa.timestamp("us", "UTC")))
        return found


def many_queries(
    catalog: Catalog, text: str, params: Mapping[str, object], seed: int, *, count: int, rows: int
) -> ManyQueries:
    """`count` queries of the shape of a text, and `rows` rows of each core."""
    table = pa.Table.from_pylist([dict(params)]) if params else None
    planned = plan_registration(text, table, catalog, Settings())
    parts = (planned.stored or planned).classified.parts
    assert parts is not None, "it was not refused"
    rng = random.Random(f"many queries {seed}")
    slots = np.array(sorted(rng.sample(range(3 * count), count)), np.int64)
    filled = rng.sample(slots.tolist(), max(1, round(count * rng.choice((0.3, 0.7, 1.0)))))
    tables, owners = [], []
    for k, core in enumerate(parts.cores):
        tables.append(rows_of(core.output, rows, seed * 13 + k))
        owner = np.array([rng.choice(filled) for _ in range(rows)], np.int64)
        owners.append(np.sort(owner) if rng.random() < 0.5 else owner)
    constants = _constants(planned, table, rng, count)
    return ManyQueries(parts, planned.query.output, planned.shape.types, slots, constants, tables, owners, seed)


def rows_of(columns: Sequence[Column], count: int, seed: int) -> pa.Table:
    """Rows of these columns, which a time has been taken from again."""
    stream = Stream("core", (*columns, Column(_TIME, TIMESTAMP)), _TIME, None)
    return random_rows(stream, count, seed, extremes=0.0, nulls=0.12, skew=0.3, duplicates=0.2).drop_columns([_TIME])


def _constants(planned: Registration, params: pa.Table | None, rng: random.Random, count: int) -> pa.Table:
    """A row of constants for each query; the first has those of the text."""
    one = constants_table(planned, params)
    columns = {}
    for name, type_ in zip(one.column_names, planned.shape.types or [None], strict=True):
        own = one.column(name).combine_chunks()
        others = pa.nulls(0, own.type) if type_ is None else _others(type_, own.type, rng)
        if type_ is not None and type_.kind is not Kind.LIST:
            others = pa.concat_arrays([others, pa.nulls(1, own.type)])
        pool = pa.concat_arrays([own, others])
        places = rng.choices(range(len(pool)), [max(2, len(others) // 2), *[1] * len(others)], k=count)
        columns[name] = pool.take(pa.array([0, *places[1:]]))
    return pa.table(columns)


def _others(type_: DataType, arrow: pa.DataType, rng: random.Random) -> pa.Array:
    """Other constants of a type."""
    if type_.kind in (Kind.INT, Kind.BIGINT):
        return pa.array([*range(6)] * 4 + [-1], arrow)
    if type_.kind is Kind.STRING and not type_.precision:
        return pa.array([*domains.ordinary(type_), *_PATTERNS], arrow)
    if type_.kind is Kind.LIST:
        items = list(domains.ordinary(type_.item)) if type_.item.kind not in (Kind.NULL, Kind.INTERVAL) else []
        if not items:
            return pa.nulls(0, arrow)
        return pa.array([rng.choices(items, k=rng.randint(1, 6)) for _ in range(5)], arrow)
    if type_.kind in (Kind.INTERVAL, Kind.NULL):
        return pa.nulls(0, arrow)
    return pa.array(domains.ordinary(type_), arrow)
