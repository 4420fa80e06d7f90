"""`window(time, length, slide, offset)` and `session_window(time, gap)` as grouping keys: DuckDB and a twin agree."""

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
        "SELECT window, count(*) AS n FROM t GROUP BY window(ts, '1 minute')",
        "SELECT window(ts, '1 minute', '20 seconds') AS w, k, count(*) AS n FROM t GROUP BY w, k",
        "SELECT session_window.start AS s, session_window.end AS e, count(*) AS n FROM t "
        "GROUP BY session_window(ts, '10 seconds')",
        "SELECT k, session_window(ts, '20 seconds').start AS s, sum(x) AS x FROM t WHERE x <> 0 "
        "GROUP BY k, session_window(ts, '20 seconds') HAVING count(*) > 1 AND session_window.start > '2020-01-01'",
        "SELECT abs(k) AS a, max(x) AS x FROM t GROUP BY session_window(seen, '1 day 12 hours'), 1",
        "SELECT k, (SELECT count(*) FROM (SELECT session_window.end FROM t WHERE x > 0 "
        "GROUP BY session_window(ts, '1 minute'))) AS n FROM t",
        "SELECT s, n FROM (SELECT session_window.start AS s, count(*) AS n FROM t t1 WHERE x IN (SELECT k FROM t) "
        "GROUP BY session_window(ts, '30 seconds')) ORDER BY n DESC, s LIMIT 3",
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


@pytest.mark.parametrize("gap", [1, 4, 9])
def test_rows_a_gap_apart_are_of_one_session(w: weir.Weir, rows: dict[str, pa.Table], gap: int) -> None:
    """The edge itself counts, as in Spark: [begin, end) and [end, …) are one session."""
    query = w.register(
        "SELECT k, session_window.start AS s, session_window.end AS e, count(*) AS n, first(x) AS x FROM "
        "(SELECT k, x, date_trunc('second', ts) AS ts FROM t) "
        f"GROUP BY k, session_window(ts, '{gap} seconds')"
    )
    expected: set[tuple[int | None, int, int, int]] = set()
    table = rows["t"]
    times = [t // SECOND_US for t in table.column("ts").cast(pa.int64()).to_pylist()]
    for k in (None, 1, 2):
        mine = sorted(t for t, of in zip(times, table.column("k").to_pylist(), strict=True) if of == k)
        begin, last, count = mine[0], mine[0], 0
        for t in [*mine, 2**40]:
            if t > last + gap:
                expected.add((k, begin, last + gap, count))
                begin, count = t, 0
            last, count = t, count + 1
    found = query.fetch().to_pylist()
    assert {
        (r["k"], (r["s"] - EPOCH).total_seconds(), (r["e"] - EPOCH).total_seconds(), r["n"]) for r in found
    } == expected
    assert len(found) == len(expected)


def test_first_and_last_are_by_time_in_a_session(w: weir.Weir, rows: dict[str, pa.Table]) -> None:
    query = w.register(
        "SELECT session_window.start AS s, first(x) AS f, last(x) AS l FROM t GROUP BY session_window(ts, '10 seconds')"
    )
    by_time = sorted(zip(rows["t"].column("ts").to_pylist(), rows["t"].column("x").to_pylist(), strict=True))
    first = dict(reversed(by_time))
    for row in query.fetch().to_pylist():
        assert row["f"] == first[row["s"]]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT window.middle FROM t GROUP BY window(ts, '1 minute')", "write window.start and window.end"),
        ("SELECT count(*) FROM t GROUP BY window(x, '1 minute')", "takes a timestamp, got bigint"),
        ("SELECT count(*) FROM t GROUP BY window(ts)", "a time, a length"),
        ("SELECT count(*) FROM t GROUP BY window(ts, 'soon')", "is no length of time"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 minute', '2 minutes')", "at most its length"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 day', '1 second')", "86,400 windows, at most 1,000"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 day'), window(ts, '1 hour')", "has one window"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 day'), session_window(ts, '1 hour')", "has one window"),
        ("SELECT count(*) FROM t GROUP BY session_window(x, '1 minute')", "takes a timestamp, got bigint"),
        ("SELECT count(*) FROM t GROUP BY session_window(ts)", "a time and a gap"),
        ("SELECT count(*) FROM t GROUP BY session_window(ts, INTERVAL 1 MINUTE)", "written as a text"),
        ("SELECT count(*) FROM t GROUP BY session_window(ts, '0 seconds')", "is above 0"),
        ("SELECT count(*) FROM t GROUP BY ROLLUP(session_window(ts, '1 minute'), k)", "beside ROLLUP"),
        ("SELECT session_window(ts, '1 minute').start FROM t", "is a key of GROUP BY"),
        ("SELECT session_window(ts, '1 minute').start FROM t GROUP BY k", "is a key of GROUP BY"),
        ("SELECT max(session_window.end) FROM t GROUP BY session_window(ts, '1 minute')", "cannot hold"),
    ],
)
def test_what_is_refused(w: weir.Weir, sql: str, message: str) -> None:
    with pytest.raises(weir.WeirError, match=message):
        w.register(sql)
