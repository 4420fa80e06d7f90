"""Functions from a registered text to its answer: in conditions, projections, groups and orders, and the time now."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa

import weir
from weir.testing.direct import DirectWeir

TAU_US = 1_770_000_000_000_000
TAU = dt.datetime.fromtimestamp(TAU_US / 1e6, dt.UTC)
ANSWERS: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("SELECT name, current_date AS day FROM trade WHERE ts > now() - INTERVAL 2 SECONDS", [("orange-2", TAU.date())]),
    ("SELECT datediff(SECOND, ts, now()) AS age FROM trade WHERE qty > 1", [(1,), (3,)]),
    (
        "SELECT upper(name) AS u, sum(round(price, 1)) AS s FROM trade WHERE name RLIKE '^o' GROUP BY 1",
        [("ORANGE-1", 1.3), ("ORANGE-2", 3.1)],
    ),
    ("SELECT name FROM trade ORDER BY reverse(name) LIMIT 1", [("orange-1",)]),
    (
        "SELECT CASE WHEN qty < 2 THEN 111 ELSE 222 END AS c, abs(qty) AS n FROM trade "
        "WHERE (qty > 1 OR qty < 1) AND qty NOT BETWEEN 3 AND 6 OR coalesce(qty, 1) <> 2",
        [(111, 1), (222, 2), (222, 3)],
    ),
    (
        "SELECT a.name FROM trade a, trade b WHERE left(a.name, 1) = left(b.name, 1) "
        "AND CASE WHEN a.qty > 1 THEN a.qty ELSE 0 END > b.qty",
        [("orange-2",)],
    ),
    (
        "SELECT date_format(ts, 'HH:mm:ss') AS t FROM trade WHERE split_part(name, '-', 1) = 'orange'",
        [("02:39:40",), ("02:39:59",)],
    ),
]


def test_answers(tmp_path: Path) -> None:
    w = weir.open(tmp_path)
    w.stream("trade", "name string, qty int, price double, ts timestamp", time="ts", keep="1 hour")
    handles = [w.register(text) for text, _ in ANSWERS]
    times = pa.array([TAU_US - 20_000_000, TAU_US - 3_000_000, TAU_US - 1_000_000], pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "name": ["orange-1", "apple", "orange-2"],
            "qty": pa.array([1, 2, 3], pa.int32()),
            "price": [1.25, 2.5, 3.14],
            "ts": times,
        }
    )
    DirectWeir(w, wall_us=TAU_US + 10**8).batch({"trade": rows})
    for handle, (text, expected) in zip(handles, ANSWERS, strict=True):
        found = sorted(tuple(row.values()) for row in handle.fetch(at=TAU).to_pylist())
        assert found == expected, text
