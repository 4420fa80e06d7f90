"""Results that others outlive: without them every answer of every later moment is the same, and few are left."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weir
from weir.algebra.schema import BIGINT, DOUBLE, STRING, Column
from weir.answer.outlived import Outliving, outliving, without_outlived
from weir.store.maintained import FROM, SLOT, TO
from weir.testing.direct import DirectWeir

COLUMNS = (Column("k", STRING), Column("x", DOUBLE), Column("n", BIGINT))
NAMES = [c.name for c in COLUMNS]
NOW = 10


def drawn(dice: random.Random) -> pa.Table:
    """Results of three queries: shown ones, and some that will be."""
    rows = [
        {
            SLOT: dice.randint(0, 2),
            FROM: dice.choice((0, 0, 0, 30)),
            TO: dice.randint(NOW + 1, NOW + 60),
            "k": dice.choice(("a", "b", None)),
            "x": dice.choice((0.0, -0.0, 1.5, -2.0, math.nan, math.inf, None)),
            "n": dice.choice((None, 1, 2, -(2**62), 2**62)),
        }
        for _ in range(dice.randint(0, 60))
    ]
    schema = pa.schema([(SLOT, pa.int64()), (FROM, pa.int64()), (TO, pa.int64()), ("k", pa.string())])
    schema = schema.append(pa.field("x", pa.float64())).append(pa.field("n", pa.int64()))
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row[SLOT]), schema=schema)


def key(value: Any) -> Any:
    """Values by which equal ones are equal, in the order of SQL: NaN is the largest."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else None if value is None else (0, value)


def said(results: pa.Table, of: Outliving, moment: int) -> object:
    """What a finish reads at a moment: by query and group the extremes and the sets of values."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in results.to_pylist():
        if row[FROM] <= moment < row[TO]:
            found.setdefault((row[SLOT], *(key(row[name]) for name in of.keys)), []).append(row)
    answer = {}
    for group, rows in found.items():
        values = {name: [key(row[name]) for row in rows if row[name] is not None] for name in NAMES}
        extremes = [(max if largest else min)(values[name], default=None) for name, largest in of.extremes]
        answer[group] = extremes, [set(values[name]) for name in of.sets]
    return answer


@pytest.mark.parametrize(
    "of",
    [
        Outliving(("k", "x", "n")),
        Outliving((), (("x", False),)),
        Outliving(("k",), (("x", True), ("n", False))),
        Outliving(("k",), (("n", True),), ("x", "n")),
    ],
    ids=["different", "least", "by-group", "with-sets"],
)
def test_every_later_answer_is_the_same(of: Outliving) -> None:
    dice, left = random.Random(str(of)), 0.0
    for _ in range(200):
        results = drawn(dice)
        needed = without_outlived(of, results, NOW)
        left += needed.num_rows / max(1, results.num_rows)
        for moment in range(NOW, NOW + 61):
            assert said(needed, of, moment) == said(results, of, moment)
        waiting, still = (str([r for r in t.to_pylist() if r[FROM] > NOW]) for t in (results, needed))
        assert waiting == still
    assert left < 190


@pytest.fixture
def w(tmp_path: Path) -> weir.api.Weir:
    w = weir.open(tmp_path)
    w.stream("R", "k int, v bigint, ts timestamp", time="ts", keep="1 hour")
    return w


def results_kept(w: weir.api.Weir, direct: DirectWeir) -> int:
    """How many results the newest files have."""
    from weir.store.maintained import read_part

    parts = direct.context.state.kept.values()
    shapes = [shape for part in parts if part.path for shape in read_part(w.files, part.path).shapes.values()]
    return sum(run.count for shape in shapes for of in shape.results for run in of)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT k FROM R",
        "SELECT k, max(v) AS m FROM R GROUP BY k",
        "SELECT count(DISTINCT k) AS n, min(k) AS low FROM R",
    ],
)
def test_few_results_are_kept(w: weir.api.Weir, text: str) -> None:
    w.register(text, kept=True)
    direct = DirectWeir(w, wall_us=10**15)
    second = pa.timestamp("us", "UTC")
    for number in range(4):
        count = 1500
        values = [(7919 * i + number) % 10_007 for i in range(count)]
        times = pa.array([(number * count + i) * 1000 for i in range(count)], second)
        rows = {"k": pa.array([v % 10 for v in values], pa.int32()), "v": pa.array(values, pa.int64()), "ts": times}
        direct.batch({"R": pa.table(rows)})
    assert results_kept(w, direct) < 400, "6,000 results are in the window"
    assert w.query(0).fetch().num_rows in (1, 10)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(v) AS s FROM R",
        "SELECT k, min(v) AS m, count(*) AS n FROM R GROUP BY k",
        "SELECT min(v) FILTER (WHERE k > 1) AS m FROM R",
        "SELECT DISTINCT k FROM R ORDER BY k LIMIT 3",
        "SELECT v FROM R",
        "SELECT array_agg(v) AS vs FROM R",
    ],
)
def test_where_each_result_counts_all_are_kept(w: weir.api.Weir, text: str) -> None:
    standing = w._library.standing(w.register(text).id)
    assert outliving(standing.parts.finish, standing.parts.cores[0].output) is None
