"""Decimals as texts: in the order of the numbers, back again, and constants between them."""

from __future__ import annotations

import random
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from weir.algebra.schema import decimal
from weir.index.digits import decimals_of, texts_between, texts_of
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY, encode_column
from weir.index.strings import build, find

EXACT = Context(prec=100)
TOP = 10**38 - 1
UNITS = [0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, -(2**64), 2**64 - 1, TOP, -TOP, TOP - 1, 1 - TOP]


def numbers(count: int) -> list[int]:
    rng = random.Random(count)
    return UNITS + [rng.choice((1, -1)) * rng.randrange(10 ** rng.randint(1, 38)) for _ in range(count)]


def test_texts_are_in_the_order_of_the_numbers_and_come_back() -> None:
    for type_ in (decimal(38, 0), decimal(38, 10), decimal(38, 38)):
        units = numbers(300)
        values = [Decimal(u).scaleb(-type_.scale, EXACT) for u in units]
        array = pa.array([None, *values, None], pa.decimal128(38, type_.scale)).slice(1)
        texts = texts_of(array, type_)
        assert texts.null_count == 1
        assert decimals_of(texts, type_).to_pylist() == [*values, None]
        written = texts.to_pylist()[:-1]
        assert [written.index(t) for t in sorted(written)] == [units.index(u) for u in sorted(units)]


def test_constants_between_two_numbers_are_between_their_texts() -> None:
    units = sorted(set(numbers(100)))
    rows = pa.array([Decimal(u) for u in units], pa.decimal128(38, 0))
    for exact in (True, False):
        floors = np.array([*units, -(10**40), 10**40], object)
        constants = texts_between(floors, np.full(len(floors), exact))
        dictionary = build(constants)
        found = find(dictionary, texts_of(rows, decimal(38, 0)))
        places = find(dictionary, constants)
        for unit, code in zip(units, found.tolist(), strict=True):
            for floor, place in zip(floors.tolist(), places.tolist(), strict=True):
                inside = max(-(10**38), min(10**38, floor))
                assert (code < place) == (unit < inside or (unit == inside and not exact)), (unit, floor, exact)
                assert (code == place) == (unit == inside and exact), (unit, floor, exact)


def test_keys_without_a_dictionary_are_held_within_64_bits() -> None:
    values = pa.array([Decimal(u) for u in UNITS] + [None], pa.decimal128(38, 0))
    expected = [max(KEY_MIN, min(KEY_MAX, u)) for u in UNITS] + [NULL_KEY]
    assert encode_column(values, decimal(38, 0)).tolist() == expected
