"""What a finish costs: fetching answers, beside DuckDB alone over the same rows; and standing queries that group.

    python -m benchmarks.micro.finishes [--rows 1000] [--queries 100000] [--table-rows 1000000] [--quick] …

Fetches: a query matched `--rows` of the rows in its window. GROUP BY, DISTINCT, a LEFT JOIN with as many rows of a
second stream, and a top 10 over them are fetched again and again, warm. DuckDB has just these rows in memory: what it
takes is the whole SELECT over them. Weir's time is everything that `fetch` does: the ledger, matches, rows, finish.

Standing queries: a batch with as many GROUP BY queries of one shape as selections. Nothing but the cores is looked at
while rows come, so they must cost the same. Runs alternate, medians of five.

Joins with a table of `--table-rows` versions and with a stream of as many rows, the same equality: fetched warm, and
matched, for `--join-queries` standing queries, in batches of rows with and without changes of the table.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import weir
from weir.testing.direct import DirectWeir

START_US = 1_767_225_600_000_000
ROUNDS = 15
BATCHES = 5
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
QUERIES = {
    "group by": (
        "SELECT area, count(*) AS n, sum(price) AS total FROM trade WHERE price < {cut} GROUP BY area",
        "SELECT area, count(*) AS n, sum(price) AS total FROM matched GROUP BY area",
    ),
    "distinct": (
        "SELECT DISTINCT area, name FROM trade WHERE price < {cut}",
        "SELECT DISTINCT area, name FROM matched",
    ),
    "left join": (
        "SELECT t.name, w.wind FROM trade t LEFT JOIN weather w ON t.area = w.area AND w.wind < {wind} "
        "WHERE t.price < {cut}",
        "SELECT t.name, w.wind FROM matched t LEFT JOIN beside w ON t.area = w.area",
    ),
    "top 10": (
        "SELECT name, price FROM trade WHERE price < {cut} ORDER BY price DESC, name LIMIT 10",
        "SELECT name, price FROM matched ORDER BY price DESC, name LIMIT 10",
    ),
}

say = functools.partial(print, flush=True)


def trades(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = pa.array(START_US + np.arange(count), pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "name": pa.array([f"n{k}" for k in rng.integers(0, 200, count)]),
            "area": pa.array(rng.integers(0, 1_000, count)),
            "price": pa.array(rng.uniform(0, 1, count)),
            "ts": times,
        }
    )


def weathers(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = pa.array(START_US + np.arange(count), pa.timestamp("us", "UTC"))
    return pa.table(
        {"area": pa.array(rng.integers(0, 1_000, count)), "wind": pa.array(rng.uniform(0, 1, count)), "ts": times}
    )


def opened(folder: Path) -> tuple[weir.Weir, DirectWeir]:
    w = weir.open(folder)
    w.stream("trade", "name string, area bigint, price double, ts timestamp", time="ts", keep="1 day")
    w.stream("weather", "area bigint, wind double, ts timestamp", time="ts", keep="1 day")
    w.table("place", "area bigint, city string", key="area")
    return w, DirectWeir(w, slices=2, wall_us=START_US + 3_600_000_000, takes_pushes=True)


def median_ms(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return 1_000 * statistics.median(times)


def fetches(folder: Path, n_rows: int) -> list[dict[str, Any]]:
    """Each kind of finish over `n_rows` matched rows."""
    kept = 20 * n_rows
    w, direct = opened(folder / "fetches")
    trade, weather = trades(kept, 1), weathers(kept, 2)
    cut, wind = n_rows / kept, n_rows / kept
    queries = {kind: w.register(text.format(cut=cut, wind=wind)) for kind, (text, _) in QUERIES.items()}
    direct.batch({"trade": trade, "weather": weather})
    connection = duckdb.connect(config={"threads": 1})
    connection.register("trade_rows", trade)
    connection.register("weather_rows", weather)
    connection.execute(f"CREATE TABLE matched AS SELECT * FROM trade_rows WHERE price < {cut}")
    connection.execute(f"CREATE TABLE beside AS SELECT * FROM weather_rows WHERE wind < {wind}")
    lines = []
    for kind, (_, alone) in QUERIES.items():
        query = queries[kind]
        rows, expected = query.fetch().num_rows, connection.sql(alone).to_arrow_table().num_rows
        assert rows == expected, f"{kind}: {rows} rows, DuckDB has {expected}"
        ours = median_ms(query.fetch)
        theirs = median_ms(functools.partial(_asked, connection, alone))
        lines.append({"kind": kind, "rows": rows, "weir_ms": ours, "duckdb_ms": theirs, "ratio": ours / theirs})
        beside = f"DuckDB alone {theirs:6.2f} ms ({ours / theirs:.1f}×)"
        say(f"{kind:10} over {n_rows:,} matched rows: {ours:6.2f} ms, {beside}")
    return lines


def _asked(connection: Any, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def standing(folder: Path, n_queries: int, n_rows: int) -> dict[str, Any]:
    """A batch with standing queries that group, and with selections of the same conditions."""
    rng = np.random.default_rng(3)
    low = rng.uniform(0, 1, n_queries)
    params = {"lo": low, "hi": low + 10 / n_queries}
    texts = {
        "selections": "SELECT name, price FROM trade WHERE price BETWEEN :lo AND :hi",
        "group by": "SELECT name, count(*) AS n, max(price) AS top FROM trade WHERE price BETWEEN :lo AND :hi "
        "GROUP BY name",
    }
    driven = {}
    for kind, text in texts.items():
        w, direct = opened(folder / kind.replace(" ", "_"))
        w.register_many(text, params)
        direct.batch({"trade": trades(n_rows, 4)})  # builds the segment, and compiles
        driven[kind] = direct
    seconds: dict[str, list[float]] = {kind: [] for kind in texts}
    for turn in range(BATCHES):
        rows = trades(n_rows, 5 + turn)
        for kind, direct in driven.items():
            begun = time.perf_counter()
            direct.batch({"trade": rows})
            seconds[kind].append(time.perf_counter() - begun)
    plain, grouped = (1_000 * statistics.median(seconds[kind]) for kind in texts)
    say(
        f"a batch of {n_rows:,} rows with {n_queries:,} standing queries: selections {plain:.0f} ms, "
        f"GROUP BY {grouped:.0f} ms ({grouped / plain:.2f}×)"
    )
    return {"selections_ms": plain, "group_by_ms": grouped, "ratio": grouped / plain}


def tables(folder: Path, n_versions: int, n_rows: int) -> dict[str, Any]:
    """One join with a table and with a stream of as many rows; the first fetch reads versions, later ones have them."""
    w, direct = opened(folder / "tables")
    w.stream("places", "area bigint, city string, ts timestamp", time="ts", keep="1 day")
    cities = pa.array([f"c{k}" for k in range(n_versions)])
    keys = pa.array(np.arange(n_versions))
    cut = n_rows / (20 * n_rows)
    with_table = w.register(f"SELECT t.name, p.city FROM trade t JOIN place p ON t.area = p.area WHERE t.price < {cut}")
    with_stream = w.register(
        f"SELECT t.name, p.city FROM trade t JOIN places p ON t.area = p.area WHERE t.price < {cut}"
    )
    w.upsert("place", pa.table({"area": keys, "city": cities}))
    times = pa.array(np.full(n_versions, START_US - 1), pa.timestamp("us", "UTC"))
    direct.batch({"places": pa.table({"area": keys, "city": cities, "ts": times})})
    direct.batch({"trade": trades(20 * n_rows, 1)})
    begun = time.perf_counter()
    rows = with_table.fetch().num_rows
    first = 1_000 * (time.perf_counter() - begun)
    assert rows == with_stream.fetch().num_rows > 0
    of_table, of_stream = median_ms(with_table.fetch, 5), median_ms(with_stream.fetch, 5)
    say(
        f"{rows:,} joined rows: with a table of {n_versions:,} rows {of_table:.1f} ms (the first time {first:.0f} ms), "
        f"with a stream of as many {of_stream:.1f} ms ({of_table / of_stream:.1f}×)"
    )
    return {"table_ms": of_table, "first_ms": first, "stream_ms": of_stream, "ratio": of_table / of_stream}


def table_batches(folder: Path, n_versions: int, n_queries: int, n_rows: int) -> dict[str, Any]:
    """Batches for standing joins with a table, and for the same joins with a stream of as many rows."""
    low = np.random.default_rng(6).uniform(0, 1, n_queries)
    params = {"lo": low, "hi": low + 10 / n_queries}
    change = pa.table({"area": pa.array(np.arange(100)), "city": pa.array(["new"] * 100)})
    driven = {}
    for kind in ("table", "stream"):
        w, direct = opened(folder / f"joins with a {kind}")
        w.stream("places", "area bigint, city string, ts timestamp", time="ts", keep="1 day")
        places = pa.table({"area": pa.array(np.arange(n_versions)), "city": pa.array(["c"] * n_versions)})
        _put(w, kind, places)
        name = "place" if kind == "table" else "places"
        text = "SELECT t.name, p.city FROM trade t JOIN {} p ON t.area = p.area WHERE t.price BETWEEN :lo AND :hi"
        w.register_many(text.format(name), params)
        direct.batch({"trade": trades(n_rows, 4)})  # builds the segments, and compiles
        driven[kind] = w, direct
    figures = {}
    for what, changes in (("rows", False), ("rows and 100 changes", True)):
        seconds: dict[str, list[float]] = {kind: [] for kind in driven}
        for turn in range(BATCHES):
            for kind, (w, direct) in driven.items():
                if changes:
                    _put(w, kind, change)
                begun = time.perf_counter()
                direct.batch({"trade": trades(n_rows, 5 + turn)})
                seconds[kind].append(time.perf_counter() - begun)
        of_table, of_stream = (1_000 * statistics.median(seconds[kind]) for kind in driven)
        say(
            f"a batch of {n_rows:,} {what} with {n_queries:,} standing joins: with a table of {n_versions:,} rows "
            f"{of_table:.0f} ms, with a stream of as many {of_stream:.0f} ms ({of_table / of_stream:.2f}×)"
        )
        figures[what] = {"table_ms": of_table, "stream_ms": of_stream, "ratio": of_table / of_stream}
    return figures


def _put(w: weir.Weir, kind: str, places: pa.Table) -> None:
    if kind == "table":
        w.upsert("place", places)
    else:
        times = pa.array(np.full(len(places), START_US), pa.timestamp("us", "UTC"))
        w.push("places", places.append_column("ts", times))


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run and print; returns the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.micro.finishes", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--batch-rows", type=int, default=100_000)
    parser.add_argument("--table-rows", type=int, default=1_000_000)
    parser.add_argument("--join-queries", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="smoke size: the figures mean nothing")
    args = parser.parse_args(argv)
    if args.quick:
        args.rows, args.queries, args.batch_rows, args.table_rows, args.join_queries = 100, 200, 1_000, 1_000, 50
    with tempfile.TemporaryDirectory() as folder:
        return {
            "fetches": fetches(Path(folder), args.rows),
            "standing": standing(Path(folder), args.queries, args.batch_rows),
            "tables": tables(Path(folder), args.table_rows, args.rows),
            "table batches": table_batches(Path(folder), args.table_rows, args.join_queries, args.batch_rows),
        }


if __name__ == "__main__":
    main()
    sys.exit(0)
