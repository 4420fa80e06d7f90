"""The comparison of answers: what counts as the same, what does not, and how it is told."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from weir.testing import differ


def table(*columns: pa.Array) -> pa.Table:
    return pa.table(list(columns), names=[f"x{i}" for i in range(len(columns))])


MOMENT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (pa.array([1, 2, 2]), pa.array([2, 1, 2])),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64())),
        (pa.array([Decimal("1.50")]), pa.array([1.5])),
        (pa.array([math.nan, None]), pa.array([None, -math.nan])),
        (pa.array([-0.0]), pa.array([0.0])),
        (pa.array(["é"]), pa.array(["é"], pa.large_string())),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "a"])),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), pa.array([MOMENT], pa.timestamp("ns"))),
        (pa.array([None], pa.null()), pa.array([None], pa.string())),
        (pa.array([], pa.int64()), pa.array([], pa.int32())),
    ],
)
def test_the_same(a: pa.Array, b: pa.Array) -> None:
    assert differ(table(a), table(b)) is None
    assert differ(table(b), table(a)) is None


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (pa.array([1, 2]), pa.array([1]), "missing: (2,)"),
        (pa.array([1]), pa.array([1, 1]), "extra: (1,)"),
        (pa.array([1, 1, 2]), pa.array([1, 2, 2]), "missing: (1,)"),
        (pa.array([0.1 + 0.2]), pa.array([0.3]), "extra: (0.3,)"),
        (pa.array([math.nan]), pa.array([None], pa.float64()), "missing: ('NaN',)"),
        (pa.array([True]), pa.array([1]), "expected bool, got int64"),
        (pa.array(["1"]), pa.array([1]), "expected string"),
        (pa.array([2**53 + 1]), pa.array([2.0**53]), "missing"),
    ],
)
def test_not_the_same(a: pa.Array, b: pa.Array, told: str) -> None:
    difference = differ(table(a), table(b))
    assert difference is not None
    assert told in difference


def test_columns_are_counted() -> None:
    difference = differ(table(pa.array([1])), table(pa.array([1]), pa.array([2])))
    assert difference == "expected columns ['x0'], got ['x0', 'x1']"


def test_approximate_is_for_doubles_only() -> None:
    close = table(pa.array([1, 1, 2]), pa.array([1.0, 3.0, math.nan]))
    near = table(pa.array([2, 1, 1]), pa.array([math.nan, 3.0 * (1 + 1e-11), 1.0 - 1e-12]))
    assert differ(close, near) is not None
    assert differ(close, near, approximate=True) is None
    far = table(pa.array([2, 1, 1]), pa.array([math.nan, 3.0 * (1 + 1e-8), 1.0]))
    assert differ(close, far, approximate=True) is not None
    assert differ(close, table(pa.array([2, 1, 1]), pa.array([0.0, 3.0, 1.0])), approximate=True) is not None
    assert differ(table(pa.array([10**12])), table(pa.array([10**12 + 1])), approximate=True) is not None
    assert differ(table(pa.array([math.inf])), table(pa.array([1e308])), approximate=True) is not None
    assert differ(table(pa.array([None], pa.float64())), table(pa.array([0.0])), approximate=True) is not None


def test_one_close_row_cancels_one() -> None:
    difference = differ(table(pa.array([1.0, 1.0])), table(pa.array([1.0 + 1e-12])), approximate=True)
    assert difference is not None
    assert "1 missing, 0 extra" in difference


def test_long_differences_are_cut() -> None:
    difference = differ(table(pa.array(range(50))), table(pa.array([], pa.int64())))
    assert difference is not None
    assert "50 missing" in difference
    assert "… and 45 more" in difference
    assert len(difference.splitlines()) == 7


def test_order_counts_if_asked_for() -> None:
    one, other = table(pa.array([1, 2, 2])), table(pa.array([2, 1, 2]))
    assert differ(one, other) is None
    assert differ(one, one, ordered=True) is None
    assert "row 0 is (2,), expected (1,)" in str(differ(one, other, ordered=True))
    near = table(pa.array([1.0, 2.0 + 1e-12]))
    assert differ(table(pa.array([1.0, 2.0])), near, ordered=True, approximate=True) is None
    assert differ(table(pa.array([2.0, 1.0])), near, ordered=True, approximate=True) is not None


def test_values_within_values() -> None:
    lists = table(pa.array([[1.0, math.nan, None], [], None]))
    turned = table(pa.array([[math.nan, None, 1.0], None, []]))
    assert differ(lists, lists) is None
    assert differ(lists, turned) is not None
    assert differ(lists, turned, lists_are_bags=True) is None
    assert differ(table(pa.array([[0.0, -1.0]])), table(pa.array([[-1.0, -0.0]])), lists_are_bags=True) is None
    assert differ(table(pa.array([{"a": 1, "b": "x"}])), table(pa.array([{"c": 1, "d": "x"}]))) is None
    assert "expected list<" in str(differ(lists, table(pa.array([["a"]]))))


def test_a_column_may_have_room() -> None:
    one, other = table(pa.array([0.0, 5.0])), table(pa.array([0.0001, 5.0]))
    assert differ(one, other, approximate=True) is not None
    assert differ(one, other, approximate=True, room={0: 0.001}) is None
