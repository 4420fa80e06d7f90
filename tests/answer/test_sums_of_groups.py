"""Sums of the groups of many queries are what counting row by row says, whatever way they are added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.nodes import Aggregate, ColumnRef
from weir.algebra.schema import BIGINT, BOOLEAN, INT, Column
from weir.answer.additive_groups import ROWS, Additive, added, sums_of
from weir.answer.slot_values import Asked
from weir.plan.finishes import OWN, CoreRows, Grouped
from weir.store.maintained import SLOT

X, Y, LET = (ColumnRef(OWN, name, type) for name, type in (("x", INT), ("y", BOOLEAN), ("let", BOOLEAN)))
AGGREGATES = (
    ("a", Aggregate("count", (), False, BIGINT)),
    ("b", Aggregate("count", (X,), False, BIGINT, LET)),
    ("c", Aggregate("sum", (X,), False, BIGINT, LET)),
    ("d", Aggregate("sum", (X,), False, BIGINT)),
    ("e", Aggregate("bool_or", (Y,), False, BOOLEAN)),
    ("f", Aggregate("count_if", (Y,), False, BIGINT, LET)),
)
COLUMNS = (Column("x", INT), Column("y", BOOLEAN), Column("let", BOOLEAN))
BY_QUERY = Additive(Grouped(CoreRows(0), (), AGGREGATES), CoreRows(0), COLUMNS)
BY_KEY = Additive(Grouped(CoreRows(0), ("y",), AGGREGATES), CoreRows(0), COLUMNS)
NOBODY = Asked(np.empty(0, np.int64), pa.table({}))
Sums = dict[tuple[object, ...], dict[str, int]]


def drawn(seed: int, count: int, n_slots: int, largest: int) -> pa.Table:
    random = np.random.default_rng(seed)
    slots = 7 + random.integers(0, n_slots, count) * int(random.choice([1, 2, 10**9]))
    numbers = random.integers(-largest, largest + 1, count)
    return pa.table(
        {
            SLOT: np.sort(slots) if random.random() < 0.5 else slots,
            "x": pa.array(numbers.astype(np.int32), mask=random.random(count) < 0.2),
            "y": pa.array(random.random(count) < 0.5, mask=random.random(count) < 0.2),
            "let": pa.array(random.random(count) < 0.5, mask=random.random(count) < 0.2),
        }
    )


def counted(of: Additive, parts: Sequence[tuple[pa.Table, int]]) -> Sums:
    """Row by row, in Python: what is added up, by query and keys."""
    found: Sums = {}
    for rows, sign in parts:
        for row in rows.to_pylist():
            key = (row[SLOT], *(row[k] for k in of.groups.keys))
            sums = found.setdefault(
                key, dict.fromkeys((ROWS, "c0", "c1", "s2", "c2", "s3", "c3", "c4", "t4", "c5", "t5"), 0)
            )
            x, y, let = row["x"], row["y"], row["let"] is True
            adds: Mapping[str, bool | int] = {
                ROWS: 1, "c0": 1, "c1": let and x is not None, "c2": let and x is not None, "s2": (x or 0) * let,
                "c3": x is not None, "s3": x or 0, "c4": y is not None, "t4": y is True,
                "c5": let and y is not None, "t5": let and y is True,
            }  # fmt: skip
            for name, value in adds.items():
                sums[name] += sign * int(value)
    return found


def said(of: Additive, table: pa.Table) -> Sums:
    keys = [f"k{k}" for k in range(len(of.groups.keys))]
    return {
        (row[SLOT], *(row[k] for k in keys)): {n: v or 0 for n, v in row.items() if n != SLOT and n not in keys}
        for row in table.to_pylist()
    }


@pytest.mark.parametrize("of", [BY_QUERY, BY_KEY], ids=["by query", "by key"])
@pytest.mark.parametrize("largest", [5, 2**31 - 1])
@pytest.mark.parametrize("seed", range(8))
def test_sums_are_those_of_the_rows(of: Additive, largest: int, seed: int) -> None:
    rows, over = drawn(seed, 300, 20, largest), drawn(seed + 100, 200, 20, largest)
    one, other = (sums_of(of, table, NOBODY, 0) for table in (rows, over))
    assert not one.failed
    assert said(of, one.table) == counted(of, [(rows, 1)])
    change = added(of, [(one.table, 1), (other.table, -1)], is_whole=False)
    assert said(of, change) == counted(of, [(rows, 1), (over, -1)])
    both = added(of, [(change, 1), (other.table, 1)], is_whole=True)
    assert said(of, both) == counted(of, [(rows, 1)])


@pytest.mark.parametrize("of", [BY_QUERY, BY_KEY], ids=["by query", "by key"])
def test_of_no_rows_there_are_no_sums(of: Additive) -> None:
    rows = drawn(1, 10, 3, 5)
    nothing = sums_of(of, rows.slice(0, 0), NOBODY, 0).table
    assert nothing.num_rows == 0
    some = sums_of(of, rows, NOBODY, 0).table
    assert said(of, added(of, [(nothing, 1), (some, 1)], is_whole=True)) == said(of, some)
    assert added(of, [(some, 1), (some, -1)], is_whole=True).num_rows == 0


def test_sums_that_doubles_cannot_hold_are_exact() -> None:
    count = 5_000_000
    x = pa.array(np.full(count, 2**31 - 1, np.int32))
    slots = np.arange(count)[::-1] % 2
    table = pa.table({SLOT: slots, "x": x, "y": pa.nulls(count, pa.bool_()), "let": pa.nulls(count, pa.bool_())})
    assert sums_of(BY_QUERY, table, NOBODY, 0).table.column("s3").to_pylist() == [(2**31 - 1) * count // 2] * 2
