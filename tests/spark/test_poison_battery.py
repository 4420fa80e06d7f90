"""Legal but nasty registrations and stream definitions, all in one weir, on Spark: every answer is the oracle's.

What is refused must be refused with a clear error and change nothing. What is accepted must be answered, and must not
stop or change anybody else.
"""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.poison import EXPLODING, START, World
from weir.errors import WeirError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LONG = "x" * 127
WIDE = ", ".join(f"c{k} int null" for k in range(200))
DEFINITIONS = {  # name → columns, keep
    f"{LONG}1": ("k bigint, a bigint, ts timestamp", "1 hour"),
    f"{LONG}2": ("k bigint, a bigint, ts timestamp", "1 hour"),
    "wide": (f"k bigint, {WIDE}, ts timestamp", "1 hour"),
    "brief": ("k bigint, a bigint, ts timestamp", "1 microsecond"),
    "eternal": ("k bigint, a bigint, ts timestamp", "forever"),
    "exact": ("k bigint, a decimal(18,18), ts timestamp", "1 hour"),
    "_": ("k bigint, a bigint, ts timestamp", "70000 weeks"),
    "Order_By": ("k bigint, `x` int, ts timestamp", "1 hour"),  # refused: a name is a name
    "texts": ("k bigint, a string, `select` string, ts timestamp", "1 hour"),  # refused likewise
}
EXACT = pa.array([decimal.Decimal("0.1"), None, decimal.Decimal("2e-18")], pa.decimal128(18, 18))
NASTY = [
    "SELECT a FROM R WHERE " + " AND ".join(f"a <> {k}" for k in range(500, 560)),
    "SELECT a FROM R WHERE " + " AND ".join("a > 3" for _ in range(1_500)),
    "SELECT a FROM R WHERE " + " OR ".join(f"a = {k}" for k in range(60)),
    "SELECT a FROM R WHERE " + "NOT " * 120 + "a > 50",
    "SELECT a FROM R WHERE " + "(" * 90 + "a > 50" + ")" * 90,
    f"SELECT a FROM R WHERE a IN ({', '.join(map(str, range(64)))})",
    f"SELECT a FROM R WHERE a NOT IN ({', '.join(map(str, range(60)))}, NULL)",
    "SELECT a FROM R WHERE a BETWEEN 90 AND 10",
    "SELECT a FROM R WHERE a > 5 AND a < 5",
    "SELECT a FROM R WHERE a IS NULL OR a IS NOT NULL",
    "SELECT a FROM R WHERE NULL",
    "SELECT a FROM R WHERE a = NULL OR b <> NULL",
    "SELECT a / 0 AS x, a % 0 AS y FROM R WHERE a % 0 IS NULL AND a / 0 IS NULL",
    "SELECT a * 9223372036854775807 AS x FROM R WHERE a * 9223372036854775807 > 0",
    "SELECT a FROM R WHERE a + 9223372036854775807 > 9223372036854775800",
    "SELECT -a - 9223372036854775807 AS x FROM R WHERE a > -9223372036854775807",
    "SELECT a FROM R WHERE CAST(a AS double) / 0.0 > 1e308 OR sqrt(a) > 5",
    "SELECT a FROM R WHERE concat('é', CAST(a AS string)) LIKE 'é%\\\\%_'",
    "SELECT a FROM R WHERE CAST(a AS string) LIKE '%'",
    "SELECT a FROM R WHERE CAST(a AS string) > '" + "z" * 20_000 + "' OR a = 7",
    "SELECT a FROM R WHERE 'it''s' = 'it''s' AND a > 90",
    "SELECT CASE WHEN a > 50 THEN CASE WHEN b > 50 THEN 'x' END ELSE NULL END AS x FROM R WHERE a > 80",
    "SELECT a FROM R [ROWS 1] WHERE a >= 0",
    "SELECT a FROM R BEGIN NOW - INTERVAL 1 MICROSECOND END NOW",
    "SELECT DISTINCT a % 2 AS x FROM R",
    " UNION ALL ".join(f"SELECT a FROM R WHERE a = {k}" for k in range(20)),
    "SELECT x.a FROM R x JOIN R y ON x.a = y.a AND x.b = y.b AND x.odd = y.odd AND x.k = y.k",
    "SELECT R.a FROM R JOIN S ON R.k % 0 = S.k % 0",
    "SELECT R.a FROM R JOIN S ON R.k * 9223372036854775807 = S.k * 9223372036854775807",
    "SELECT R.a FROM R JOIN S ON R.k = S.k AND R.a + S.b > 9223372036854775807 - 1",
    "SELECT R.a, S.a AS c FROM R JOIN S ON R.a - S.a BETWEEN 9223372036854775806 AND 9223372036854775807",
    "SELECT R.a, S.a AS c FROM R JOIN S ON R.a < S.a - 97 AND R.b > S.b + 50",
    "SELECT R.a FROM R, S WHERE R.a > 97 AND S.a > 97",
    "SELECT R.a FROM R JOIN S ON R.k = S.k AND abs(R.ts - S.ts) <= INTERVAL 0 SECONDS WHERE R.a > 95",
    "SELECT a1.a FROM R a1 JOIN S a2 ON a1.k = a2.k JOIN T a3 ON a2.k = a3.k JOIN R a4 ON a3.k = a4.k "
    "WHERE a1.a > 95 AND a2.a > 90 AND a3.a > 90 AND a4.a > 90",
    f"SELECT l.a FROM {LONG}1 l JOIN {LONG}2 r ON l.k = r.k",
    "SELECT k FROM wide WHERE " + " OR ".join(f"c{k} > 5" for k in range(50)),
    "SELECT a FROM brief",
    "SELECT a FROM eternal BEGIN TIMESTAMP '1970-01-01 00:00:00' END NOW",
    "SELECT a FROM exact WHERE a > 0.000000000000000001",
    "SELECT a FROM _ WHERE a > 1",
]
PARAMETERS: list[tuple[str, dict[str, list[object]]]] = [
    ("SELECT a FROM R WHERE CAST(a AS double) > :x", {"x": [float("nan"), float("inf"), float("-inf"), None, -0.0]}),
    ("SELECT a FROM R WHERE a BETWEEN :lo AND :hi", {"lo": [2**63 - 1, -(2**63), 0], "hi": [-(2**63), 2**63 - 1, 0]}),
    ("SELECT a FROM R WHERE a > :x", {"x": [99] * 300}),
    ("SELECT a FROM R WHERE CAST(a AS string) = :s", {"s": ["", "\x00", "a" * 5_000, "7", None]}),
]


def test_every_nasty_thing_at_once(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path / "weir", spark)
    w = world.weir
    taken = []
    for name, (columns, keep) in DEFINITIONS.items():
        try:
            w.stream(name, columns, time="ts", keep=keep)
            taken.append(name)
        except WeirError:
            continue
    assert len(taken) >= 7
    accepted = 0
    for text in NASTY:
        before = w.registry.count
        try:
            world.texts[w.register(text).id] = text
            accepted += 1
        except WeirError as refused:
            assert str(refused).startswith("register: "), refused
            w.registry.refresh()
            assert w.registry.count == before, "a refusal changes nothing"
    for text, params in PARAMETERS:
        ids = w.register_many(text, params).ids
        rows = [dict(zip(params, row, strict=True)) for row in zip(*params.values(), strict=True)]
        world.params |= dict(zip(ids, rows, strict=True))
        world.texts |= dict.fromkeys(list(ids)[:5], text)  # the rest is alike
    assert accepted >= 34, "of those that are refused none is of use here"
    for batch in range(2):
        for name, rows in world.new_rows(25).items():
            w.push(name, rows)
        for name in taken:
            table = pa.table({"k": [1, 2, None], "ts": pa.array([START] * 3, pa.timestamp("us", "UTC"))})
            if w.catalog.streams[name.lower()].column("a") is not None:
                table = table.append_column("a", EXACT if name == "exact" else pa.array([batch, 2, None]))
            world.keep_rows(name, table)
            w.push(name, table)
        assert w.run(available_now=True).progress().quarantined == 0
        world.check()


def test_what_explodes_says_so_and_harms_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """Answers that fit into nothing, with a table and views beside them that come and go while the job runs."""
    world = World(tmp_path / "weir", spark)
    w = world.weir
    w.table("place" + "x" * 122, "k bigint, owner string null", key="k")
    w.view("view" + "x" * 122, f"SELECT R.a, p.owner FROM R JOIN place{'x' * 122} p ON R.k = p.k")
    joined = w.register(f"SELECT a, owner FROM view{'x' * 122} WHERE a > 50")
    exploding = [w.register(text) for text in EXPLODING.values()]
    run = w.run(trigger="0 seconds")
    for batch in range(2):
        w.upsert("place" + "x" * 122, {"k": list(range(6)), "owner": [f"{batch} {k}" for k in range(6)]})
        for name, rows in world.new_rows(25).items():
            w.push(name, rows)
        w.table(f"passing{batch}", "k bigint, v string null", key="k")
        w.upsert(f"passing{batch}", {"k": [1], "v": ["x"]})
        w.view(f"glance{batch}", f"SELECT k FROM passing{batch}")
        w.drop_table(f"passing{batch}")
        w.drop_view(f"glance{batch}")
    run.stop()
    w.run(available_now=True)
    for query in exploding:
        with pytest.raises(WeirError, match="allowed|for one value|has more than"):
            query.fetch()
    world.check()
    assert joined.fetch().num_rows == sum(int((t["a"].to_numpy() > 50).sum()) for t in world.rows["R"])
    assert set(world.demoted()) <= {query.id for query in exploding}
