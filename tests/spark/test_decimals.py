"""Decimals of up to 38 digits on Spark: stored, found, joined, grouped and calculated with as Spark's own SQL does."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import weir
from weir.testing import differ
from weir.testing.direct import DirectWeir
from weir.testing.spark_bags import differ_from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TIME = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
DIGITS = {"a": (38, 0), "b": (38, 10), "c": (20, 18), "e": (38, 38), "w": (24, 4), "fee": (9, 2)}
DDL = ", ".join(f"{name} decimal({p},{s})" for name, (p, s) in DIGITS.items())
DDL = f"k int, {DDL}, n bigint, d double, t string, ts timestamp"
EXACT = Context(prec=100)
TOP = 10**38 - 1

EXPRESSIONS = (
    "a + b", "a - c", "b * c", "b / c", "a / b", "fee / 3", "3 / fee", "fee * fee", "fee + n", "n * fee", "a % c",
    "b % fee", "n % fee", "fee % 0.7", "a + 1", "a * 1.0", "e + e", "e * e", "e / 3", "c + 0.5", "-w", "-fee",
    "w / n", "b * b", "a * a", "a + d", "b = d", "a = n", "b > fee", "w < c", "c <> b", "b BETWEEN -1.5 AND 1000",
    "a IN (1, 2, 5.0)", "a > 99999999999999999999.5", "coalesce(n, 0) < 99999999999999999999", "w <=> b", "abs(w)",
    "sign(a)", "floor(b)", "ceil(c)", "round(b, 2)", "round(b)", "round(w, -3)", "bround(w, 1)", "pmod(b, 7)",
    "pmod(fee, c)", "greatest(b, c)", "least(a, fee)", "coalesce(w, c)", "coalesce(b, n)", "nullif(a, 1)",
    "if(k > 3, w, fee)", "CASE WHEN k > 3 THEN e ELSE c END", "CAST(a AS decimal(20,2))", "CAST(b AS decimal(38,2))",
    "CAST(c AS decimal(38,30))", "TRY_CAST(b AS bigint)", "TRY_CAST(b AS int)", "CAST(w AS double)",
    "CAST(e AS float)", "CAST(n AS decimal(38,10))", "CAST(d AS decimal(38,5))", "CAST(t AS decimal(38,12))",
    "CAST(b AS boolean)", "CAST(fee AS timestamp)", "CAST(ts AS decimal(38,9))", "hash(a)", "xxhash64(b)",
    "hash(w, e)", "fee DIV 7", "c DIV fee", "sqrt(w)", "12345678901234567890.5 + a", "fee + 12345678901234567890",
)  # fmt: skip
CONDITIONS = (
    "a > 5", "a >= 5.5", "a < -99999999999999999999999999999999999998", "a = 99999999999999999999999999999999999999",
    "a <> 1", "b = 1.5", "b > 0.0000000001", "b <= 1e0", "b IN (1, 1.5, 9223372036854775808, NULL)",
    "b NOT IN (1, 1.5, -3)", "c > w", "e < 0.1", "e > 0.00000000000000000000000000000000000001", "w IS NULL",
    "w IS NOT NULL", "a BETWEEN -3 AND 9223372036854775807", "n > 0.5 AND b < 1000", "fee + 1.25 > 3", "fee * 2 = 3",
    "fee / 3 < 0.5", "b + 1 > 2", "a * 2 = 10", "NOT (a > 3 OR b < 1)", "a = n", "b < d", "abs(w) > 1.5",
    "round(b, 1) = 1.5", "CAST(b AS decimal(38,2)) = 1.50", "b > 1.5 OR w = 2", "a > -1 AND a < 1", "b = '1.5'",
    "coalesce(w, 0) >= 1.0001",
)  # fmt: skip
JOINS = (
    "l.b = r.w", "l.w = r.c", "l.n = r.a", "l.fee = r.w", "l.b = r.d", "l.a = r.a AND l.w = r.w", "l.e = r.e",
    "l.w = r.w AND l.b > r.b", "l.k = r.k AND l.a - r.b <= 0", "l.fee - r.fee BETWEEN 0 AND 0.5", "l.b + 1 = r.w",
    "l.k = r.k AND l.b * r.c > 1", "l.fee < r.fee + 0.25 AND l.fee > r.fee - 0.25", "l.a = r.k AND r.w > 1.5",
)  # fmt: skip
WHOLE = (
    "SELECT w, count(*) AS n, sum(b) AS s, avg(b) AS v, min(a) AS lo, max(a) AS hi FROM s GROUP BY w",
    "SELECT sum(e) AS t, sum(fee) AS f, avg(fee) AS g, avg(c) AS h, avg(w) AS i, count(DISTINCT b) AS j FROM s",
    "SELECT sum(a) AS s, avg(a) AS v FROM s WHERE a > 0", "SELECT sum(DISTINCT w) AS s, avg(DISTINCT w) AS v FROM s",
    "SELECT k % 2 AS g, sum(w * 2) AS s, sum(w) / count(*) AS v FROM s GROUP BY k % 2 HAVING max(w) > 0.5",
    "SELECT a FROM s UNION SELECT b FROM s", "SELECT w FROM s UNION ALL SELECT n FROM s",
    "SELECT b FROM s EXCEPT SELECT w FROM s", "SELECT a FROM s INTERSECT SELECT b FROM s",
    "SELECT DISTINCT b, w FROM s",
    "SELECT k, b, sum(w) OVER (PARTITION BY k % 3 ORDER BY k, w) AS x, avg(w) OVER (PARTITION BY k % 3) AS y "
    "FROM s WHERE w > 0", "SELECT k FROM s WHERE b > (SELECT avg(w) FROM s)",
    "SELECT k FROM s WHERE a IN (SELECT b FROM s WHERE b < 10)",
)  # fmt: skip


def rows() -> pa.Table:
    rng = random.Random("decimals")
    made: list[dict[str, Any]] = []
    for k in range(60):
        row: dict[str, Any] = {"k": k % 12, "n": rng.choice((k - 30, 2**63 - 1, -(2**62), 1, 5, None))}
        for name, (p, s) in DIGITS.items():
            small = Decimal(rng.randint(-8, 8)) / 4
            ends = [10**p - 1, 1 - 10**p, 1, 0, 2**63, 2**64 + 1, -(2**63), 15 * 10**s // 10, rng.randrange(10**p)]
            units = [int(small.scaleb(s, EXACT))] * 12 + [x for x in ends if abs(x) < 10**p] + [None]
            unit = rng.choice([x for x in units if x is None or abs(x) < 10**p])
            row[name] = None if unit is None else Decimal(unit).scaleb(-s, EXACT)
        row |= {"d": rng.choice((0.5, -1.25, 1e30, 1.5, 5.0, None, 2.0**63)), "ts": TIME}
        row["t"] = rng.choice(("1.5", "-99999999999999999999999999.123456789012", "1e20", "x", None, "5"))
        made.append(row)
    types = {name: pa.decimal128(p, s) for name, (p, s) in DIGITS.items()}
    types |= {"k": pa.int32(), "n": pa.int64(), "d": pa.float64(), "t": pa.string(), "ts": pa.timestamp("us", "UTC")}
    names = [part.split()[0] for part in DDL.replace(", ", ",").split(",") if " " in part]
    return pa.table({name: pa.array([row[name] for row in made], types[name]) for name in names})


@pytest.fixture
def quiet(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark as the language has it: NULL where it would raise an error."""
    known = {name: spark.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    for name, value in known.items():
        assert value is not None
        spark.conf.set(name, value)


def test_answers_are_those_of_spark(quiet: SparkSession, tmp_path: Path) -> None:
    """Conditions that indexes decide, joins on equal numbers of other scales, expressions and finishes.

    Where Spark is not exact (decision 0017) nothing is asked: numbers of which it would round one to compare them, sums
    whose outcome depends on the order of rows, and −x of more than 34 digits, which is an error there.
    """
    given = rows()
    w = weir.open(tmp_path / "weir")
    w.stream("s", DDL, time="ts", keep="forever")
    texts = [f"SELECT k, {e} AS x FROM s" for e in EXPRESSIONS]
    texts += [f"SELECT k, a, b, w FROM s WHERE {c}" for c in CONDITIONS]
    texts += [f"SELECT l.k, r.k, l.b, r.w FROM s l JOIN s r ON {c}" for c in JOINS]
    texts += WHOLE
    queries = [w.register(text) for text in texts]
    direct = DirectWeir(w, wall_us=int(TIME.timestamp() * 1e6), takes_pushes=True)
    for batch in (given.slice(0, 25), given.slice(25)):
        w.push("s", batch)
        direct.batch({})
    quiet.createDataFrame(given).createOrReplaceTempView("s")
    wrong = []
    for text, query in zip(texts, queries, strict=True):
        try:
            expected = quiet.sql(text).toArrow()
            found = query.fetch()
        except Exception as e:
            wrong.append(f"{text}\n{str(e)[:300]}")
            continue
        difference = differ_from_spark(expected, found)
        types = [(a.type, b.type) for a, b in zip(expected.schema, found.schema, strict=True) if a.type != b.type]
        if difference is None and any(pa.types.is_decimal(a) or pa.types.is_decimal(b) for a, b in types):
            difference = f"types {types}"
        if difference is not None:
            wrong.append(f"{text}\n{difference}")
    assert not wrong, f"{len(wrong)} of {len(texts)}:\n" + "\n\n".join(wrong)


def of_those(given: pa.Table, name: str, holds: Callable[[Decimal], bool]) -> pa.Table:
    """The rows whose number is there and is like this."""
    return given.select(["k", name]).filter(pa.array([x is not None and holds(x) for x in given[name].to_pylist()]))


def test_streams_parameters_and_sinks(quiet: SparkSession, tmp_path: Path) -> None:
    given = rows()
    frame = quiet.createDataFrame(given)
    frame.coalesce(1).write.parquet(str(tmp_path / "files"))
    w = weir.open(tmp_path / "weir", spark=quiet)
    w.stream("s", quiet.readStream.schema(frame.schema).parquet(str(tmp_path / "files")), time="ts", keep="forever")
    types = {c.name: str(c.type) for c in w.catalog.streams["s"].columns}
    assert {name: types[name] for name in DIGITS} == {name: f"decimal({p},{s})" for name, (p, s) in DIGITS.items()}
    everything = w.register("SELECT * FROM s")
    marks = [
        Decimal("1.5"),
        Decimal(TOP),
        Decimal(-TOP),
        Decimal("0.00000000000000000000000000000000000001"),
        Decimal(5),
    ]
    many = w.register_many("SELECT k, b FROM s WHERE b = :x", {"x": [marks[0], marks[4]]})
    above = [w.register("SELECT k, a FROM s WHERE a >= :x", {"x": x}) for x in marks]
    listed = w.register("SELECT k, w FROM s WHERE w IN (:xs)", {"xs": marks})
    sunk: list[pa.Table] = []
    w.run(available_now=True, sink=lambda df, n: sunk.append(df.toArrow()))
    assert differ(given, everything.fetch()) is None
    frame.createOrReplaceTempView("s")

    def spark_says(condition: str) -> pa.Table:
        return quiet.sql(f"SELECT k, {condition.split()[0]} FROM s WHERE {condition}").toArrow()

    for mark, query in zip([marks[0], marks[4]], many, strict=True):
        assert differ(spark_says(f"b = {mark:f}"), query.fetch()) is None, mark
    # Exactly, where Spark would round 10^-38 to 0, and w to a whole number beside constants of 38 digits.
    for mark, query in zip(marks, above, strict=True):
        assert differ(of_those(given, "a", lambda a, mark=mark: a >= mark), query.fetch()) is None, mark
    assert differ(of_those(given, "w", lambda x: x in marks), listed.fetch()) is None
    assert sum(t.num_rows for t in sunk) > given.num_rows
