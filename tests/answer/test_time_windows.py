"""`window(time, length, slide, offset)` as a grouping key: DuckDB's answers, and those of a plain twin."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.testing import answer, differ
from weir.testing.direct import DirectWeir

START_US = 1_772_323_200_000_000
SECOND_US = 1_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def rows() -> dict[str, pa.Table]:
    rng = random.Random(5)
    count = 80
    times = [START_US + rng.randrange(0, 600 * SECOND_US) for _ in range(count)]
    seen = [None if rng.random() < 0.1 else t - rng.randrange(0, 10**15) for t in times]
    return {
        "t": pa.table(
            {
                "k": pa.array([rng.choice([None, 1, 2]) for _ in range(count)], pa.int32()),
                "x": pa.array([rng.randrange(-5, 6) for _ in range(count)], pa.int64()),
                "seen": pa.array(seen, pa.timestamp("us", "UTC")),  # before 1970, too
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
    }


@pytest.fixture
def w(tmp_path: Path, rows: dict[str, pa.Table]) -> weir.Weir:
    w = weir.open(tmp_path)
    w.stream("t", "k int null, x bigint, seen timestamp null, ts timestamp", time="ts", keep="1 day")
    DirectWeir(w, slices=1, wall_us=START_US + 3600 * SECOND_US).batch(rows)
    return w


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window.start AS s, window.end AS e, count(*) AS n FROM t GROUP BY window(ts, '1 minute')",
        "SELECT k, window(ts, '90 seconds').start AS s, sum(x) AS x FROM t WHERE x > 0 "
        "GROUP BY k, window(ts, '90 seconds')",
        "SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(ts, '2 minutes', '30 seconds')",
        "SELECT window.end AS e, max(x) AS x FROM t GROUP BY window(ts, '100 seconds', '70 seconds', '7 seconds')",
        "SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(seen, '1 day') HAVING count(*) > 1",
        "SELECT s, n FROM (SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(ts, '1 minute')) "
        "QUALIFY rank() OVER (ORDER BY n DESC) = 1",
        "SELECT window(ts, '5 minutes').start AS s, x FROM t WHERE k = 1",
        "SELECT k, count(*) AS n FROM t GROUP BY ALL BEGIN NOW - 300 END NOW",
    ],
)
def test_answers_are_duckdbs(w: weir.Weir, rows: dict[str, pa.Table], sql: str) -> None:
    got = w.register(sql).fetch()
    assert got.num_rows
    assert differ(answer(sql, {}, w.catalog, rows, w.state.now_us or 0), got) is None


@pytest.mark.parametrize(("length", "slide"), [(60, 60), (120, 30), (100, 70), (7, 2)])
def test_a_row_is_in_every_window_that_holds_its_time(
    w: weir.Weir, rows: dict[str, pa.Table], length: int, slide: int
) -> None:
    query = w.register(
        f"SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(ts, '{length} seconds', '{slide} seconds')"
    )
    expected: Counter[int] = Counter()
    for time in rows["t"].column("ts").cast(pa.int64()).to_pylist():
        begin = time // (slide * SECOND_US) * slide * SECOND_US
        while begin + length * SECOND_US > time:
            expected[begin] += 1
            begin -= slide * SECOND_US
    found = {(r["s"] - EPOCH) // dt.timedelta(microseconds=1): r["n"] for r in query.fetch().to_pylist()}
    assert found == dict(expected)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT window(ts, '1 minute') AS w FROM t", "write window.start and window.end"),
        ("SELECT count(*) FROM t GROUP BY window(x, '1 minute')", "takes a timestamp, got bigint"),
        ("SELECT count(*) FROM t GROUP BY window(ts)", "a time, a length"),
        ("SELECT count(*) FROM t GROUP BY window(ts, 'soon')", "is no length of time"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 minute', '2 minutes')", "at most its length"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 day', '1 second')", "86,400 windows, at most 1,000"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 day'), window(ts, '1 hour')", "has one window"),
    ],
)
def test_what_is_refused(w: weir.Weir, sql: str, message: str) -> None:
    with pytest.raises(weir.WeirError, match=message):
        w.register(sql)
