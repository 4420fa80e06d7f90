"""Where Spark's answer is not Weir's, and nobody is wrong: what tests that compare the two must know.

- Sums and differences of whole numbers that overflow wrap around in Spark without ANSI; in Weir they are NULL.
- floor and ceil of NaN are 0 in Spark, of doubles beyond 64 bits the last bigint; in Weir they are NULL.
- percentile_approx counts with doubles in Spark, so that the bigint it gives may have lost digits; here it is exact.
- A bigint beside a double loses digits in a comparison in Spark; in Weir the comparison is exact.
- Two decimals that have more than 38 digits together are rounded in Spark before they are compared; here they are not.
  Columns of many digits are not drawn where Spark answers too; tests/spark/test_decimals.py has those that agree.
- approx_count_distinct is a sketch in Spark, already of few values. It is not drawn.
- `NULL NOT IN (SELECT …)` of the literal NULL is unknown in Spark even if the query gives no rows (SQL: TRUE), and so
  is that of a column that its optimizer finds to be NULL always: the oracle's session does not look.
- Spark 4 fails on an aggregate that is both DISTINCT and filtered beside a WITHIN GROUP (a ClassCastException), and on
  sets of keys beside the column of the other side of a USING (it loses the column on the way).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from weir.algebra.schema import Catalog
from weir.testing import spark_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAILS = ("expressions.SortOrder", "MISSING_ATTRIBUTES.RESOLVED_ATTRIBUTE_APPEAR_IN_OPERATION")
_ROUNDS = re.compile(r"\b(floor|ceil|ceiling|percentile_approx)\(", re.IGNORECASE)


def fails_by_itself(refused: spark_oracle.SparkRefusesError) -> bool:
    """Whether Spark has no answer for a reason of its own."""
    return any(known in str(refused) for known in _FAILS)


def may_differ(
    spark: SparkSession,
    text: str,
    params: Mapping[str, object],
    catalog: Catalog,
    rows: Mapping[str, pa.Table],
    tau_us: int,
) -> bool:
    """Whether a difference from Spark's answer means nothing."""
    if _ROUNDS.search(text):
        return True
    return spark_oracle.raises(spark, lambda: spark_oracle.answer(spark, text, params, catalog, rows, tau_us))
