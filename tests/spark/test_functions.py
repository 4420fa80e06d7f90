"""Every function, operator and cast against Spark itself, over rows of nasty values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.values.function_cases import CASES, lowered, nasty_rows, texts_of
from weir.algebra.single import single
from weir.values.evaluate import evaluate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JAVA_DOUBLE = re.compile(r"-?[0-9]\.[0-9]+E-?[0-9]+")


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return nasty_rows(250)


@pytest.fixture(scope="module")
def frame(spark: SparkSession, rows: pa.Table) -> Iterator[DataFrame]:
    settings = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    frame = spark.createDataFrame(rows).coalesce(1).cache()
    yield frame
    frame.unpersist()
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.mark.spark
@pytest.mark.parametrize("block", CASES)
def test_each_is_what_spark_says(block: str, frame: DataFrame, rows: pa.Table) -> None:
    asked = texts_of(block)
    answered = frame.selectExpr(*(f"{text.rpartition(' => ')[2]} AS x{k}" for k, text in enumerate(asked))).toArrow()
    wrong = []
    for k, text in enumerate(asked):
        expected, found = values_of(answered.column(k)), values_of(evaluate(lowered(text), rows))
        differing = [r for r in range(rows.num_rows) if not same(expected[r], found[r])]
        if differing:
            r = differing[0]
            used = {name: rows.column(name)[r].as_py() for name in rows.column_names if re.search(rf"\b{name}\b", text)}
            wrong.append(f"{text} of {used}: {found[r]!r}, in Spark {expected[r]!r} ({len(differing)} rows)")
    assert not wrong, "\n".join(wrong)


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return column.to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped


def same(expected: Any, found: Any) -> bool:
    """Equal and of one sort; a double may be two units in the last place away, as Java's own functions may be."""
    if expected is None or found is None:
        return expected is found
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected) or math.isnan(found) or math.isinf(expected) or math.isinf(found):
            return expected == found or (math.isnan(expected) and math.isnan(found))
        return abs(expected - found) <= 2 * math.ulp(expected)
    if (
        isinstance(expected, str)
        and isinstance(found, str)
        and JAVA_DOUBLE.fullmatch(expected)
        and len(found) < len(expected)
    ):
        # Java before 19 writes more digits.
        return JAVA_DOUBLE.fullmatch(found) is not None and same_number(float(expected), float(found))
    return (
        isinstance(expected, float | Decimal) == isinstance(found, float | Decimal)
        and type(expected) is type(found)
        and bool(expected == found)
    )


def same_number(expected: float, found: float) -> bool:
    """Texts of doubles, or of floats."""
    return expected == found or single(expected) == single(found)
