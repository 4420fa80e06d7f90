"""Types and results of decimals: those that Spark 4.3 gave (ANSI off), and fractions for the rest."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from tests.oracle import plain_decimals
from weir.algebra.decimals import CALCULATIONS, average, number_of, result, total, units_of, wider
from weir.algebra.schema import BIGINT, INT, DataType, decimal

D = decimal


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("+", D(38, 10), D(38, 20), D(38, 9)), ("*", D(38, 10), D(38, 20), D(38, 6)),
        ("/", D(38, 10), D(38, 20), D(38, 6)), ("/", D(10, 2), D(10, 2), D(23, 13)),
        ("/", D(10, 2), D(1, 0), D(14, 6)), ("/", D(1, 0), D(10, 2), D(14, 11)),
        ("%", D(38, 10), D(30, 20), D(30, 20)), ("+", BIGINT, D(10, 2), D(23, 2)), ("*", INT, D(10, 2), D(21, 2)),
        ("+", D(1, 0), D(10, 2), D(11, 2)), ("/", D(20, 2), BIGINT, D(38, 20)), ("%", D(38, 2), D(1, 0), D(3, 2)),
        ("*", D(38, 18), D(19, 18), D(38, 16)), ("/", D(38, 18), D(19, 18), D(38, 6)),
        ("+", D(38, 0), D(1, 0), D(38, 0)), ("*", D(38, 0), D(2, 1), D(38, 1)),
    ],
)  # fmt: skip
def test_types_of_arithmetic_are_those_of_spark(op: str, a: DataType, b: DataType, expected: DataType) -> None:
    assert result(op, a, b) == expected


def test_types_of_what_stands_together_are_those_of_spark() -> None:
    assert wider(D(38, 10), D(38, 20)) == D(38, 10)
    assert wider(D(38, 20), D(38, 0)) == D(38, 0)
    assert wider(D(38, 10), BIGINT) == D(38, 10)
    assert wider(D(38, 20), BIGINT) == D(38, 18)
    assert [total(D(p, s)) for p, s in ((10, 2), (38, 0), (30, 5))] == [D(20, 2), D(38, 0), D(38, 5)]
    assert [average(D(p, s)) for p, s in ((10, 2), (38, 10), (38, 37))] == [D(14, 6), D(38, 14), D(38, 38)]


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("*", (38, 18, "12345678901234567890.123456789012345678"), (19, 18, "1.000000000000000001"),
         "12345678901234567902.4691356902469136"),
        ("/", (38, 18, "12345678901234567890.123456789012345678"), (19, 18, "7.000000000000000001"),
         "1763668414462081126.908541"),
        ("pmod", (1, 0, "-1"), (4, 0, "1000"), None), ("pmod", (10, 2, "-7"), (10, 2, "3"), "2.00"),
        ("pmod", (10, 2, "-7"), (1, 0, "-3"), "-1.00"), ("*", (38, 0, "9" * 38), (2, 1, "1.0"), None),
        ("+", (38, 0, "9" * 38), (1, 0, "1"), None), ("/", (2, 1, "2.5"), (1, 0, "0"), None),
    ],
)  # fmt: skip
def test_results_are_those_of_spark(op: str, a: tuple[int, int, str], b: tuple[int, int, str], expected: str) -> None:
    type_ = result("%" if op == "pmod" else op, D(*a[:2]), D(*b[:2]))
    units = CALCULATIONS[op](units_of(Decimal(a[2]), a[1]), a[1], units_of(Decimal(b[2]), b[1]), b[1], type_)
    found = None if units is None else str(number_of(units, type_.scale))
    assert found == expected


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%"])
def test_results_are_those_of_fractions(op: str) -> None:
    rng = random.Random(op)
    for _ in range(2_000):
        types = [(p, rng.randint(0, p)) for p in (rng.randint(1, 38), rng.randint(1, 38))]
        units = [rng.choice((0, 1, -1, 5, 10**p - 1, 1 - 10**p, rng.randrange(10**p))) for p, _ in types]
        (p1, s1), (p2, s2) = types
        digits = plain_decimals.type_of(op, *types)
        type_ = result(op, D(p1, s1), D(p2, s2))
        assert (type_.precision, type_.scale) == digits
        found = CALCULATIONS[op](units[0], s1, units[1], s2, type_)
        x, y = (number_of(u, s) for u, (_, s) in zip(units, types, strict=True))
        expected = plain_decimals.value_of(op, x, y, digits)
        assert (None if found is None else number_of(found, type_.scale)) == expected, (op, x, y, type_)
