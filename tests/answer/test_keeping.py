"""What `explain` says of how an answer is kept: the way, why no better one, and how many results a batch looks at.

The numbers are those of a life that is counted by hand: three trades a batch, batches two seconds apart.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import weir
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
SINCE = "BEGIN NOW - INTERVAL 10 SECONDS END NOW"
BATCHES = 10  # the last one at second 20: trades of the seconds 12, …, 20 are shown, five batches
SHOWN = 15


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> weir.Weir:
    w = weir.open(tmp_path_factory.mktemp("keeping") / "weir")
    w.stream("trade", "symbol string, price bigint, rate double, ts timestamp", time="ts", keep="1 minute")
    w.table("stock", "symbol string, company string null", key="symbol", retroactive=True)
    return w


def explained(w: weir.Weir, sql: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in w.explain(sql).splitlines() if line.startswith("kept"))


WAYS = {
    f"SELECT symbol, price FROM trade {SINCE}": ("rows", SHOWN, None),
    f"SELECT symbol, sum(price) AS s FROM trade GROUP BY symbol {SINCE}": ("sums", SHOWN, 3),
    # Prices rise, so no trade outlives a later one: each symbol's last one is its maximum, all its trades are the steps
    # of its minimum.
    f"SELECT symbol, max(price) AS m FROM trade GROUP BY symbol {SINCE}": ("longest", 3, 3),
    f"SELECT symbol, min(price) AS m FROM trade GROUP BY symbol {SINCE}": ("longest", SHOWN, SHOWN),
    f"SELECT sum(rate) AS s FROM trade {SINCE}": ("results", SHOWN, SHOWN),
    f"SELECT symbol FROM trade UNION ALL SELECT symbol FROM trade WHERE price > 99 {SINCE}": ("results", SHOWN, SHOWN),
}


@pytest.fixture(scope="module")
def kept(market: weir.Weir) -> dict[str, weir.Query]:
    queries = {sql: market.register(sql, kept=True) for sql in WAYS}
    direct = DirectWeir(market, wall_us=10_000 * SECOND)
    for number in range(1, BATCHES + 1):
        times = pa.array([2 * number * SECOND] * 3, pa.timestamp("us", "UTC"))
        columns = {"symbol": ["a", "b", "c"], "price": [number] * 3, "rate": [0.5] * 3}
        direct.batch({"trade": pa.table(columns | {"ts": times})})
    return queries


@pytest.mark.parametrize("sql", WAYS)
def test_explain_says_how_and_at_what_cost(kept: dict[str, weir.Query], sql: str) -> None:
    way, shown, remembered = WAYS[sql]
    lines = dict(line.split(": ", 1) for line in kept[sql].explain().splitlines() if line.startswith("kept"))
    assert lines["kept as"].startswith(f"{way}: ")
    arriving = shown / 5  # results stay for five batches
    looked = 2 * arriving + (0 if way == "rows" else remembered or 0)
    assert lines["kept at"].startswith(f"{looked:,.1f} results a batch (2 λ")
    assert f"λ = {arriving:,.1f} come and go, N = {shown:,} are shown" in lines["kept at"]
    assert ("rejected: " in lines["kept at"]) == (way != "results")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (f"SELECT sum(rate) AS s FROM trade {SINCE}", "not all of what the finish counts can be added up exactly"),
        ("SELECT count(*) AS n FROM trade [ROWS 5]", "when results end is up to what comes (trade)"),
        (
            f"SELECT t.symbol, count(*) AS n FROM trade t JOIN stock s USING (symbol) GROUP BY t.symbol {SINCE}",
            "when results end is up to what comes (stock)",
        ),
        (
            f"SELECT symbol FROM trade WHERE price > 1 EXCEPT SELECT symbol FROM trade WHERE price > 2 {SINCE}",
            "depends on those of the other cores (it has 2)",
        ),
    ],
)
def test_explain_says_why_results_are_not_added_up(market: weir.Weir, sql: str, why: str) -> None:
    said = explained(market, sql)
    assert said["kept"] == "can be (kept=True)"
    assert said["kept as"].startswith("results: ")
    assert why in said["kept as"]
    assert "kept at" not in said


def test_explain_says_nothing_of_how_where_nothing_is_kept(market: weir.Weir) -> None:
    assert set(explained(market, "SELECT symbol FROM trade WHERE ts > now() - INTERVAL 1 SECOND")) == {"kept"}
    plain = market.register(f"SELECT symbol FROM trade {SINCE}")
    assert not [line for line in plain.explain().splitlines() if line.startswith(("kept as", "kept at"))]
