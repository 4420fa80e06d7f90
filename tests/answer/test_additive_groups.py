"""Sums of groups to which rows are added and from which they are taken away, against the groups of the rows left."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra.nodes import Aggregate, ColumnRef
from weir.algebra.schema import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Column, DataType, decimal
from weir.answer.additive_groups import Additive, added, additive, group_rows, sums_of
from weir.answer.many_finish import finished_many
from weir.answer.slot_values import SLOT, Asked
from weir.plan.finishes import OWN, CoreRows, Finish, Grouped, Sorted
from weir.store.row_files import arrow_type
from weir.testing import differ

LONG = decimal(38, 4)
COLUMNS = (
    Column("k", STRING),
    Column("x", DOUBLE),
    Column("i", INT),
    Column("b", BIGINT),
    Column("d", LONG),
    Column("f", BOOLEAN),
)
VALUES = {
    "k": ["a", "b", None],
    "x": [0.0, -0.0, float("nan"), 1.5, None],
    "i": [0, 1, -7, 2**31 - 1, -(2**31), None],
    "b": [0, 5, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1, None],
    "d": [
        Decimal("0"),
        Decimal("1.5000"),
        Decimal(10**33),
        -Decimal(10**33),
        Decimal("99999999999999999999.9999"),
        None,
    ],
    "f": [True, False, None],
}


def ref(name: str) -> ColumnRef:
    return ColumnRef(OWN, name, next(c.type for c in COLUMNS if c.name == name))


def of(function: str, type_: DataType, *args: str, filter_: bool = False) -> Aggregate:
    return Aggregate(function, tuple(map(ref, args)), False, type_, ref("f") if filter_ else None)


AGGREGATES = (
    ("n", of("count", BIGINT)),
    ("ni", of("count", BIGINT, "i")),
    ("nf", of("count", BIGINT, filter_=True)),
    ("si", of("sum", BIGINT, "i")),
    ("sb", of("sum", BIGINT, "b")),
    ("sd", of("sum", LONG, "d")),
    ("sf", of("sum", BIGINT, "i", filter_=True)),
    ("ai", of("avg", DOUBLE, "i")),
    ("cf", of("count_if", BIGINT, "f")),
    ("every", of("bool_and", BOOLEAN, "f")),
    ("some", of("bool_or", BOOLEAN, "f")),
)


def drawn(dice: random.Random, count: int, slots: int) -> pa.Table:
    columns: dict[str, pa.Array] = {
        c.name: pa.array([dice.choice(VALUES[c.name]) for _ in range(count)], arrow_type(c.type)) for c in COLUMNS
    }
    return pa.table(columns | {SLOT: pa.array(sorted(dice.randrange(slots) for _ in range(count)), pa.int64())})


def asked_of(slots: np.ndarray) -> Asked:
    return Asked(slots, pa.table({"none": pa.nulls(len(slots))}))


def sums(groups: Additive, rows: pa.Table) -> pa.Table:
    found = sums_of(groups, rows, asked_of(np.unique(rows.column(SLOT).to_numpy())), 0)
    assert not found.failed
    return found.table


@pytest.mark.parametrize("keys", [(), ("k",), ("x", "k")])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_is_what_the_groups_of_the_rest_are(seed: int, keys: tuple[str, ...]) -> None:
    dice, slots = random.Random(f"{seed} {keys}"), 6
    finish = Grouped(CoreRows(0), keys, AGGREGATES)
    groups = additive(finish, COLUMNS)
    assert groups is not None
    output = [*(c for key in keys for c in COLUMNS if c.name == key), *(Column(n, a.type) for n, a in AGGREGATES)]
    rows = drawn(dice, 0, slots)
    kept = sums(groups, rows)
    for _ in range(12):
        new = drawn(dice, dice.choice([0, 1, 30]), slots)
        over = np.array([dice.random() < 0.3 for _ in range(rows.num_rows)], bool)
        gone, left = rows.filter(pa.array(over)), rows.filter(pa.array(~over))
        change = added(groups, [(sums(groups, new), 1), (sums(groups, gone), -1)], is_whole=False)
        kept = added(groups, [(kept, 1), (change, 1)], is_whole=True)
        rows = pa.concat_tables([left, new])
        asked = asked_of(np.arange(slots))
        expected = finished_many(finish, [rows], output, asked, 0).table
        got = finished_many(groups.above, [group_rows(groups, kept, asked.slots)], output, asked, 0).table
        assert differ(expected, got) is None


@pytest.mark.parametrize(
    "finish",
    [
        Grouped(CoreRows(0), ("k",), (("m", of("min", INT, "i")),)),
        Grouped(CoreRows(0), ("k",), (("s", of("sum", DOUBLE, "x")),)),
        Grouped(CoreRows(0), ("k",), (("s", Aggregate("count", (ref("i"),), True, BIGINT)),)),
        Grouped(CoreRows(0), ("k",), (("a", of("avg", DOUBLE, "b")),)),
        Sorted(Grouped(CoreRows(0), ("k",), (("n", of("count", BIGINT)),)), (), None, None, ("k",)),
        CoreRows(0),
    ],
)
def test_what_cannot_be_taken_away_again_is_not_added_up(finish: Finish) -> None:
    found = additive(finish, COLUMNS)
    assert (found is not None) == isinstance(finish, Sorted), "an order without a limit leaves the groups as they are"
