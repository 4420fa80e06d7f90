"""Every column type on Spark: through a real batch from a streaming DataFrame and from `push`, into answers and sinks.

What queries take out of payloads, and make of narrow numbers, is what Spark's own SQL makes of the same rows.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import weir
from weir.testing import differ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
TIME = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
DDL = (
    "id int, t tinyint, s smallint, f float, v varchar(5), c char(4), n timestamp_ntz, big bigint, d double, "
    "fee decimal(9,2), day date, raw binary, xs array<int>, m map<string,double>, by_number map<int,string>, "
    "p struct<a:int,b:string,in:struct<w:decimal(38,10),at:timestamp>>, ps array<struct<k:string,n:tinyint>>, "
    "xss array<array<float>>, j string, ts timestamp"
)
TEXTS = (
    """{"a":{"b":[1,{"c":"x"}],"d":1.50}, "e":"é\\n\\u00e9", "f":null, "g h":true}""",
    """{'a':{'b':[1.0e10,2,"say \\"so\\""]}}""",
    """[{"a":1},{"a":2.5e-7}]""",
    """{"a":{"a":{},"b":[[],null,-0.0]},"e":{"x":"\\u0007\\"/"},"a":3} and more""",
    """{"a":{"b":[0.1,12345678.9,123456789012345678901234567890""",
    "no json",
    "",
)
PATHS = (
    "$",
    "$.a",
    "$.a.b",
    "$.a.b[0]",
    "$.a.b[1]",
    "$.a.b[2]",
    "$.a.b[1].c",
    "$.a.d",
    "$.e",
    "$.f",
    "$['g h']",
    "$[1].a",
)
SAME = (  # what is written in the same way here and there
    "p.a", "p.b", "p.in.at", "m.x", "m['y']", "by_number[2]", "ps.k", "size(xs)", "cardinality(m)", "size(xss)",
    "array_contains(xs, 2)", "array_contains(xs, id)", "get(xs, 1)", "get(xss, 0)", "try_element_at(xs, -1)",
    "try_element_at(ps, 1).n", "get(ps, 0).k", "try_element_at(m, 'x')", "e.p.a", "e.p.in.at", "xs IS NULL",
    "raw IS NOT NULL",
    "f", "f + f", "f * f", "f - 1", "f / 3", "f % CAST(0.75 AS float)", "-f", "abs(f)", "round(f)", "f = 0.1",
    "f = CAST(0.1 AS float)", "f < d", "f > id", "t = s", "t / 3", "coalesce(f, d)", "greatest(t, s)", "least(s, id)",
    "t + fee", "s * fee",
    "CAST(d AS float)", "CAST(big AS float)", "TRY_CAST(f AS decimal(9,3))", "TRY_CAST(f AS int)",
    "CAST(p.in.w AS double)",
    "TRY_CAST(p.in.w AS decimal(12,4))", "TRY_CAST(p.in.w AS smallint)", "n + INTERVAL 1 HOUR", "n = ts", "n < day",
    "hour(n)", "date_trunc('hour', n)",
    "length(c)", "c || '|'", "c = 'ab'", "c <> 'ab  '", "c < 'abc'", "c IN ('q', 'ab')", "c LIKE 'ab'", "c = v",
    "upper(v)",
    *(f"get_json_object(j, {path!r})" for path in PATHS if "'" not in path), "get_json_object(j, \"$['g h']\")",
)  # fmt: skip


def row(k: int) -> dict[str, Any]:
    naive = TIME.replace(tzinfo=None) + dt.timedelta(hours=k - 4)
    long = Decimal("12345678901234567890.0123456789") if k == 1 else Decimal(k)
    return {
        "id": k, "t": k - 4, "s": 1000 * k, "f": (0.1, 0.2, 1e30, -7.25, float("inf"), 16777216.0, 0.0, 3e38)[k],
        "v": "abcde"[:k], "c": "ab" if k % 2 else "abcd"[: k % 5], "n": naive, "big": (1 << 60) + (1 << 36) + k - 1,
        "d": (k - 3) / 3, "fee": Decimal(k) / 4, "day": dt.date(2026, 3, k + 1), "raw": bytes(range(k)),
        "xs": [None if x == 3 else x for x in range(k)],
        "m": {"x": k / 2, "y": None}, "by_number": {2: "two"} if k % 2 else {k: "k"},
        "p": {"a": k, "b": None, "in": {"w": long, "at": TIME}}, "ps": [{"k": "q" * k, "n": k}, None],
        "xss": [[0.5, None], None], "j": TEXTS[k % len(TEXTS)], "ts": TIME,
    }  # fmt: skip


def rows() -> list[dict[str, Any]]:
    made = [row(k) for k in range(8)]
    for name in ("xs", "m", "p", "ps", "f", "t", "n", "j", "raw", "xss", "c"):
        made.append({**made[5], name: None, "id": len(made)})
    made[3]["p"]["in"] = None
    return made


@pytest.fixture
def typed(spark: SparkSession, tmp_path: Path) -> tuple[weir.Weir, DataFrame]:
    """A weir with a stream `e` of every type, fed by files of Parquet, and the rows as Spark has them."""
    spark.sql(f"CREATE TABLE every_type ({DDL}) USING parquet LOCATION '{tmp_path / 'table'}'")
    try:
        known = spark.table("every_type").schema
        spark.createDataFrame(rows(), known).write.insertInto("every_type")
        given = spark.table("every_type").localCheckpoint()
    finally:
        spark.sql("DROP TABLE every_type")
    given.coalesce(2).write.parquet(str(tmp_path / "files"))
    w = weir.open(tmp_path / "weir", spark=spark)
    w.stream("e", spark.readStream.schema(given.schema).parquet(str(tmp_path / "files")), time="ts", keep="forever")
    w.stream("pushed", DDL, time="ts", keep="forever")
    return w, given


def test_every_type_comes_back_as_it_was(typed: tuple[weir.Weir, DataFrame]) -> None:
    w, given = typed
    expected = given.toArrow()
    everything = {name: w.register(f"SELECT * FROM {name}") for name in ("e", "pushed")}
    part = w.register("SELECT p.a, xs[1] AS x FROM e WHERE m['x'] >= 2 AND f > 0")
    w.push("pushed", rows())
    w.push("pushed", given)
    sunk: list[tuple[str, pa.Table]] = []
    w.run(available_now=True, sink=lambda df, n: sunk.append((df.schema["e"].dataType.simpleString(), df.toArrow())))
    found = everything["e"].fetch()
    assert differ(expected, found) is None
    assert [c.type for c in w.catalog.streams["e"].columns] == [c.type for c in w.catalog.streams["pushed"].columns]
    difference = differ(pa.concat_tables([expected, expected]), everything["pushed"].fetch())
    assert difference is None, difference
    wanted = given.where("m['x'] >= 2 AND f > 0").selectExpr("p.a", "get(xs, 1) AS x").toArrow()
    assert differ(wanted, part.fetch()) is None
    assert {schema for schema, table in sunk if table.num_rows} == {given.schema.simpleString()}
    tables = [t.filter(pa.compute.equal(t["query"], everything["e"].id))["e"].combine_chunks() for _, t in sunk]
    structs = pa.concat_arrays([pa.concat_arrays(t.chunks) if isinstance(t, pa.ChunkedArray) else t for t in tables])
    assert differ(expected, pa.table(structs.flatten(), names=expected.column_names)) is None


def test_expressions_are_what_spark_makes_of_them(typed: tuple[weir.Weir, DataFrame], spark: SparkSession) -> None:
    w, given = typed
    texts = [f"SELECT id, {e} AS x FROM e" for e in SAME]
    queries = [w.register(text) for text in texts]
    where = [w.register(f"SELECT id FROM e WHERE ({e}) IS NOT NULL") for e in SAME]
    w.run(available_now=True)
    given.createOrReplaceTempView("e")
    for text, query, known in zip(texts, queries, where, strict=True):
        expected = spark.sql(text).toArrow()
        difference = differ(expected, query.fetch())
        assert difference is None, f"{text}\n{difference}"
        of_spark, ours = (t.schema.field("x").type for t in (expected, query.fetch()))
        assert of_spark == ours or of_spark not in (pa.int8(), pa.int16(), pa.float32(), pa.timestamp("us")), text
        ids = [row["id"] for row in expected.to_pylist() if row["x"] is not None]
        assert sorted(known.fetch()["id"].to_pylist()) == sorted(ids), text
