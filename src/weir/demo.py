"""`weir demo`: a generated market feed and the weather, 100,000 standing queries of several shapes, one Spark job.

A feeder thread pushes trades as fast as the job takes them, and now and then the weather of each area; most queries
select trades, some thousands join trades with the weather where they are made. The view shows events and matches a
second, batch times, the busiest queries and answers of a few watched ones. Without a terminal it prints a line now and
then.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from weir.api import Query, Weir, open_weir
from weir.progress import Progress
from weir.runtime.run import Run
from weir.store.matches import read_joins, read_matches

SYMBOLS = 2_000
AREAS = ("Tokyo", "London", "New York", "Frankfurt", "Singapore", "Zurich", "Toronto", "Sydney")
CHUNK_ROWS = 20_000
BACKLOG_ROWS_MAX = 120_000
WEATHER_S = 3.0  # between two reports of the weather
COLUMNS = "symbol string, price double, size int, area string, ts timestamp"
WEATHER_COLUMNS = "area string, category int, ts timestamp"


@dataclass
class Market:
    """Random walks of prices, one a symbol, and of the weather, one an area; trades pick symbols by Zipf's law."""

    random: np.random.Generator
    price: np.ndarray = field(init=False)
    share: np.ndarray = field(init=False)
    symbol: np.ndarray = field(init=False)
    storm: np.ndarray = field(init=False)  # category of the weather, 0 to 9

    def __post_init__(self) -> None:
        self.price = self.random.uniform(5, 500, SYMBOLS)
        share = 1 / np.arange(1, SYMBOLS + 1)
        self.share = share / share.sum()
        self.symbol = np.array([f"{chr(65 + k % 26)}{chr(65 + k // 26 % 26)}{k:04d}" for k in range(SYMBOLS)])
        self.storm = self.random.integers(0, 10, len(AREAS))

    def trades(self, count: int) -> pa.Table:
        """The next trades, stamped now."""
        which = self.random.choice(SYMBOLS, count, p=self.share)
        self.price *= np.exp(self.random.normal(0, 0.0005, SYMBOLS))
        price = np.round(self.price[which] * np.exp(self.random.normal(0, 0.002, count)), 2)
        now_us = time.time_ns() // 1_000
        return pa.table(
            {
                "symbol": self.symbol[which],
                "price": price,
                "size": self.random.integers(1, 1_000, count, dtype=np.int32),
                "area": np.array(AREAS)[which % len(AREAS)],
                "ts": pa.array(now_us - np.arange(count - 1, -1, -1), pa.timestamp("us", "UTC")),
            }
        )

    def weather(self) -> pa.Table:
        """The next report of every area, stamped now."""
        self.storm = np.clip(self.storm + self.random.integers(-1, 2, len(AREAS)), 0, 9)
        now_us = np.full(len(AREAS), time.time_ns() // 1_000)
        return pa.table(
            {
                "area": np.array(AREAS),
                "category": self.storm.astype(np.int32),
                "ts": pa.array(now_us, pa.timestamp("us", "UTC")),
            }
        )

    def wishes(self, count: int) -> list[tuple[str, pa.Table]]:
        """Templates and parameters: what `count` users want to be told."""
        r = self.random
        part = [count * 4 // 10, count * 3 // 10, count * 2 // 10, count * 4 // 100]
        part.append(count - sum(part))
        s = [r.integers(0, SYMBOLS, n) for n in part]
        storm = r.integers(2, 8, part[3])
        s[3][:2], storm[:2] = (20, 21)[: part[3]], 0  # two that will have answers: often traded, in any wind, …
        near = [self.price[k] * np.exp(r.normal(0, 0.02, len(k))) for k in s]
        near[3][:2] *= 1.1  # … at nearly any price
        return [
            (
                "SELECT symbol, price, ts FROM trade WHERE symbol = :symbol AND price < :limit "
                "BEGIN NOW - INTERVAL 5 MINUTES END NOW",
                pa.table({"symbol": self.symbol[s[0]], "limit": np.round(near[0] * 0.97, 2)}),
            ),
            (
                "SELECT * FROM trade WHERE price BETWEEN :low AND :high BEGIN NOW - INTERVAL 1 MINUTE END NOW",
                pa.table({"low": np.round(near[1], 2), "high": np.round(near[1] + 0.02, 2)}),
            ),
            (
                "SELECT symbol, size, price * size AS value FROM trade WHERE symbol = :symbol AND size >= :size "
                "AND price > :floor",
                pa.table({"symbol": self.symbol[s[2]], "size": r.integers(900, 999, part[2]), "floor": near[2] * 0.5}),
            ),
            (
                "SELECT t.symbol, t.price, w.category FROM trade t JOIN weather w ON t.area = w.area "
                "WHERE t.symbol = :symbol AND t.price < :limit AND w.category > :category "
                "BEGIN NOW - INTERVAL 10 SECONDS END NOW",
                pa.table(
                    {
                        "symbol": self.symbol[s[3]],
                        "limit": np.round(near[3], 2),
                        "category": storm,
                    }
                ),
            ),
            (
                "SELECT symbol, price, size, area FROM trade WHERE area = :area AND price * size > :value "
                "BEGIN NOW - INTERVAL 10 MINUTES END NOW",
                pa.table({"area": np.array(AREAS)[s[4] % len(AREAS)], "value": r.uniform(420_000, 600_000, part[4])}),
            ),
        ]


def demo(*, queries: int = 100_000, seconds: float = 45.0, folder: str | None = None) -> None:
    """Run the demo; ends by itself with one line of figures."""
    progress = Progress(sys.stdout)
    root = folder or tempfile.mkdtemp(prefix="weir-demo-")
    try:
        _play(root, queries, seconds, progress)
    finally:
        if folder is None:
            shutil.rmtree(root, ignore_errors=True)


def _play(root: str, queries: int, seconds: float, progress: Progress) -> None:
    weir = open_weir(root, settings={"batch_rows_max": 100_000})
    weir.stream("trade", COLUMNS, time="ts", keep="10 minutes")
    weir.stream("weather", WEATHER_COLUMNS, time="ts", keep="10 minutes")
    market = Market(np.random.default_rng(7))
    watched: list[Query] = []
    told: list[Query] = []  # whose answers are shown at the end
    registered = 0
    for sql, params in market.wishes(queries):
        made = weir.register_many(sql, params)
        registered += len(made)
        progress.bar("registering queries", registered, queries)
        watched.extend(made[:1])
        told.extend(made[:2] if "JOIN" in sql else made[: 1 if not told else 0])
    progress.say("starting Spark")
    run = weir.run(trigger="0 seconds", say=progress.say)
    stop = threading.Event()
    pushed = [0]
    feeder = threading.Thread(target=_feed, args=(weir, market, run, stop, pushed), name="feeder")
    feeder.start()
    started = time.monotonic()
    try:
        _watch(weir, run, watched, started, seconds, progress)
    finally:
        stop.set()
        feeder.join()
        drained = time.monotonic() + 60
        while run.is_active and _taken(run) < pushed[0] and time.monotonic() < drained:
            run.wait(0.2)
        elapsed = time.monotonic() - started
        run.stop()
    figures = run.progress()
    for query in told:
        answer = query.fetch()
        progress.say(f"query {query.id}: {query.sql}")
        progress.say(f"  {answer.num_rows:,} rows in its window; the last: {_last(answer)}")
    rate = _taken(run) / elapsed
    print(
        f"demo: {registered:,} standing queries, {_taken(run):,} events, {figures.pairs:,} matches, "
        f"{rate:,.0f} events/s, P50/P99 batch ms {figures.batch_ms_p50:.0f}/{figures.batch_ms_p99:.0f}",
        flush=True,
    )


def _last(answer: pa.Table) -> object:
    """The newest row of an answer."""
    return answer.slice(answer.num_rows - 1).to_pylist()[0] if answer.num_rows else "none yet"


def _taken(run: Run) -> int:
    figures = run.progress()
    return figures.events + figures.late


def _feed(weir: Weir, market: Market, run: Run, stop: threading.Event, pushed: list[int]) -> None:
    """Push trades, never more than the job can take in a batch or two, and the weather now and then."""
    reported = 0.0
    while not stop.is_set():
        if time.monotonic() - reported > WEATHER_S:
            reported = time.monotonic()
            weir.push("weather", market.weather())
            pushed[0] += len(AREAS)
        if pushed[0] - _taken(run) > BACKLOG_ROWS_MAX:
            stop.wait(0.02)
            continue
        weir.push("trade", market.trades(CHUNK_ROWS))
        pushed[0] += CHUNK_ROWS


def _watch(weir: Weir, run: Run, watched: list[Query], started: float, seconds: float, progress: Progress) -> None:
    pause = 1.0 if progress.is_terminal else 5.0
    reader = open_weir(weir.files.location)  # a second client of the same folder
    while time.monotonic() - started < seconds:
        if run.wait(min(pause, max(0.1, seconds - (time.monotonic() - started)))):
            break
        figures = run.progress()
        if figures.last_batch is None:
            continue
        elapsed = time.monotonic() - started
        lines = [
            f"{elapsed:5.0f} s  {_taken(run) / elapsed:10,.0f} events/s  {figures.pairs / elapsed:12,.0f} matches/s  "
            f"batch {figures.batch_ms_p50:.0f} ms (p99 {figures.batch_ms_p99:.0f})  {figures.queries:,} queries",
        ]
        if progress.is_terminal:
            lines.append("  busiest queries of the last batch:")
            lines.extend(f"    {count:8,} × {text}" for text, count in _busiest(reader))
            for query in watched:
                answer = reader.query(query.id).fetch()
                lines.append(f"    query {query.id}: {answer.num_rows:,} rows, last {_last(answer)}"[:118])
            sys.stdout.write("\x1b[2J\x1b[H")
        print("\n".join(lines), flush=True)


def _busiest(reader: Weir, most: int = 5) -> list[tuple[str, int]]:
    """The queries with most matches in the newest batch."""
    reader.state.refresh(reader.ledger)
    files = reader.state.match_files(reader.state.last, reader.state.last)
    items = [p.items for _, f in files for p in read_matches(reader.files, f.path)]
    items += [p.items for _, f in files for p in read_joins(reader.files, f.path)]
    if not items:
        return []
    ids, counts = np.unique(np.concatenate(items), return_counts=True)
    top = np.argsort(-counts, kind="stable")[:most]
    return [(reader.query(int(ids[k])).sql[:100], int(counts[k])) for k in top]
