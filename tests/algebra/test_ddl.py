"""Types as text: Spark's names, and back again."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from weir.algebra import schema
from weir.algebra.ddl import TypeFaultError, parse_type, spark_type
from weir.algebra.schema import DataType, array, char, decimal, map_of, struct, varchar
from weir.algebra.single import single

TYPES = (
    schema.TINYINT, schema.SMALLINT, schema.INT, schema.BIGINT, schema.FLOAT, schema.DOUBLE, decimal(18, 0),
    decimal(5, 5), schema.STRING, varchar(3), char(200), schema.BOOLEAN, schema.DATE, schema.TIMESTAMP,
    schema.TIMESTAMP_NTZ, schema.INTERVAL, schema.NULL, schema.BINARY, array(schema.INT), struct(),
    map_of(schema.STRING, array(struct(("a", schema.TINYINT), ("b `c", array(schema.BINARY))))),
    decimal(38, 10), decimal(38, 38), struct(("of", decimal(19, 0))),
)  # fmt: skip


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_types_come_back(type_: DataType) -> None:
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("BYTE", schema.TINYINT), ("short", schema.SMALLINT), ("integer", schema.INT), ("Long", schema.BIGINT),
        ("real", schema.FLOAT), ("dec(5,2)", decimal(5, 2)), ("numeric ( 5 , 2 )", decimal(5, 2)),
        ("dec", decimal(10, 0)), ("decimal(7)", decimal(7, 0)), ("character(4)", char(4)),
        ("timestamp_ltz", schema.TIMESTAMP), ("ARRAY < byte >", array(schema.TINYINT)),
        ("struct<a int, `b c`: map<string,varchar(3)>>",
         struct(("a", schema.INT), ("b c", map_of(schema.STRING, schema.STRING)))),
    ],
)  # fmt: skip
def test_every_name_that_spark_has(text: str, type_: DataType) -> None:
    assert parse_type(text) == type_


@pytest.mark.parametrize(
    "text",
    ["", "text", "int(4)", "varchar", "varchar(0)", "char(1,2)", "decimal(39,0)", "decimal(0,0)", "decimal(3,4)",
     "decimal(10,-2)", "int int", "3",
     "array", "array<", "array<int", "array<int>>", "map<int>", "struct<a>", "struct<a:int,>", "struct<a:int,A:int>",
     "array<void>", "array<decimal(39,0)>", "array<" * 200 + "int" + ">" * 200],
)  # fmt: skip
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(TypeFaultError):
        parse_type(text)


def test_texts_of_a_dataframe_have_no_length() -> None:
    assert [spark_type(t) for t in (varchar(3), char(3), schema.TINYINT)] == ["string", "string", "tinyint"]


def test_numbers_are_rounded_once_to_32_bits() -> None:
    assert single(0.1) == float(np.float32(0.1))
    assert single(1e39) == np.inf
    assert single(-1e39) == -np.inf
    assert np.isnan(single(float("nan")))
    for number in (2**24 + 1, 2**24 + 3, 2**63 - 1, -(2**53) - 1, (1 << 60) + (1 << 36) + 1, (1 << 60) + (1 << 36) - 1):
        assert single(number) == float(np.int64(number).astype(np.float32)), number
    # Halfway between two floats but for its last digit, which a double has no room for.
    assert single(Decimal("16777217.0000000001")) == 16777218.0
    assert single(Decimal("16777216.9999999999")) == 16777216.0
    assert single(Decimal("16777217")) == 16777216.0
