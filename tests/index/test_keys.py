"""Keys against Python's own order of the values, for every type that has keys."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from weir.algebra import schema
from weir.algebra.schema import DataType
from weir.index.keys import KEY_MAX, KEY_MIN, NULL_KEY, encode_column, encode_doubles

UTC = dt.UTC
TINY, HUGE = 5e-324, 1.7976931348623157e308
VALUES: dict[str, tuple[DataType, pa.DataType, list[Any]]] = {
    "int": (schema.INT, pa.int32(), [-(2**31), -1, 0, 1, 7, 2**31 - 1]),
    "bigint": (schema.BIGINT, pa.int64(), [-(2**63) + 1, -(2**53) - 1, -(2**53), 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "decimal": (
        schema.decimal(18, 4),
        pa.decimal128(18, 4),
        [Decimal(s) for s in ("-99999999999999.9999", "-1.0001", "-1", "0", "0.0001", "2.5", "99999999999999.9999")],
    ),
    "boolean": (schema.BOOLEAN, pa.bool_(), [False, True]),
    "date": (
        schema.DATE,
        pa.date32(),
        [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    ),
    "timestamp": (
        schema.TIMESTAMP,
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1, 1, 1, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            dt.datetime(1970, 1, 1, tzinfo=UTC),
            dt.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        ],
    ),
    "double": (
        schema.DOUBLE,
        pa.float64(),
        [-math.inf, -HUGE, -1.5, -1.0, -TINY, 0.0, TINY, 1.0, math.nextafter(1, 2), HUGE, math.inf, math.nan],
    ),
}
every_type = pytest.mark.parametrize("name", list(VALUES))


@every_type
def test_keys_are_in_the_order_of_values(name: str) -> None:
    data_type, arrow_type, values = VALUES[name]  # ascending, each once
    keys = encode_column(pa.array(values, arrow_type), data_type)
    assert keys.dtype == np.int64
    assert np.all(np.diff(keys.astype(object)) > 0)
    assert keys.min() >= KEY_MIN
    assert keys.max() <= KEY_MAX


@every_type
def test_nulls_slices_and_chunks(name: str) -> None:
    data_type, arrow_type, values = VALUES[name]
    mixed = [None, *values, None, *reversed(values)]
    whole = encode_column(pa.array(mixed, arrow_type), data_type)
    plain = dict(zip([str(v) for v in values], encode_column(pa.array(values, arrow_type), data_type), strict=True))
    assert whole.tolist() == [NULL_KEY if v is None else plain[str(v)] for v in mixed]
    sliced = pa.array(mixed, arrow_type).slice(1, len(mixed) - 2)
    assert encode_column(sliced, data_type).tolist() == whole[1:-1].tolist()
    chunks = pa.chunked_array(
        [pa.array(mixed[:3], arrow_type), pa.array([], arrow_type), pa.array(mixed, arrow_type).slice(3)]
    )
    assert encode_column(chunks, data_type).tolist() == whole.tolist()
    assert encode_column(pa.chunked_array([], arrow_type), data_type).tolist() == []
    assert encode_column(pa.array([], arrow_type), data_type).tolist() == []
    assert encode_column(pa.nulls(3, arrow_type), data_type).tolist() == [NULL_KEY] * 3
    assert encode_column(pa.nulls(2), data_type).tolist() == [NULL_KEY] * 2


def test_the_numbers_themselves() -> None:
    assert encode_column(pa.array([Decimal("-1.5")], pa.decimal128(5, 1)), schema.decimal(9, 3)).tolist() == [-1500]
    assert encode_column(pa.array([3], pa.int8()), schema.BIGINT).tolist() == [3]
    assert encode_column(pa.array([dt.date(1970, 1, 11)]), schema.DATE).tolist() == [10]
    assert encode_column(pa.array([1_000_001], pa.timestamp("us")), schema.TIMESTAMP).tolist() == [1_000_001]
    assert encode_column(pa.array([1_000], pa.timestamp("ms", "UTC")), schema.TIMESTAMP).tolist() == [1_000_000]
    repeated = pa.array([5, None, 5, 6], pa.int64()).dictionary_encode()
    assert encode_column(repeated, schema.BIGINT).tolist() == [5, NULL_KEY, 5, 6]


def test_zeros_are_equal_and_so_are_all_nans() -> None:
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    keys = encode_doubles(np.array([0.0, -0.0, math.nan, -math.nan, odd_nan, math.inf]))
    assert keys[0] == keys[1]
    assert keys[2] == keys[3] == keys[4] > keys[5]


def test_random_doubles_keep_their_order() -> None:
    rng = np.random.default_rng(7)
    bits = rng.integers(-(2**63), 2**63 - 1, 20_000)
    values = bits.view(np.float64)
    values = values[~np.isnan(values)]
    given = values.copy()
    keys = encode_doubles(values)
    assert np.array_equal(values, given), "the input is left alone"
    order = np.argsort(keys, kind="stable")
    assert np.all(np.diff(values[order]) >= 0)
    assert len(np.unique(keys)) == len(np.unique(values))


def test_a_value_that_does_not_fit_is_an_error_and_not_another_key() -> None:
    with pytest.raises(pa.ArrowInvalid):
        encode_column(pa.array([Decimal("1.23")], pa.decimal128(5, 2)), schema.decimal(9, 1))
    with pytest.raises(pa.ArrowInvalid):
        encode_column(pa.array([1], pa.timestamp("ns")), schema.TIMESTAMP)
    with pytest.raises(AssertionError, match="strings"):
        encode_column(pa.array(["a"]), schema.STRING)
