"""`weir demo`: a generated market feed and the weather, 100,000 standing queries of several shapes, one Spark job.

A feeder thread pushes trades as fast as the job takes them, and now and then the weather of each area; most queries
select trades, some thousands join trades with the weather where they are made, and some are alerts: their answers are
kept, and every batch tells which of them fired and which cleared. On a terminal a live view shows events and matches a
second, batch times, the busiest queries, the newest alerts and the answers of a few watched queries; it stays when the
demo ends. Elsewhere the demo prints a line now and then, and alerts and answers at the end. Queries are shown in the
words of those who registered them: the registry keeps only their canonical form, so the demo remembers what it
registered.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from weir.api import Weir, open_weir
from weir.handles import Query
from weir.progress import Progress
from weir.runtime.run import Run, RunProgress
from weir.store.matches import read_matches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEED = 7  # every demo has the same queries
SYMBOLS = 2_000
AREAS = ("Tokyo", "London", "New York", "Frankfurt", "Singapore", "Zurich", "Toronto", "Sydney")
CHUNK_ROWS = 20_000
BACKLOG_ROWS_MAX = 120_000
WEATHER_S = 3.0  # between two reports of the weather
ALERT = (
    "SELECT symbol, count(*) AS trades, sum(size) AS shares FROM trade WHERE symbol = :symbol AND size >= :size "
    "GROUP BY symbol HAVING count(*) > :trades BEGIN NOW - INTERVAL 5 SECONDS END NOW"
)
ALERT_S = 5  # its window
ALERT_SYMBOLS = 100  # the most traded ones, of which alerts are
USUAL_RATE = 20_000  # trades a second, at which about as many alerts have fired as have not
NEWEST = 2  # alerts that are shown
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
        told = part[4] // 6  # of the last part are alerts
        plain = part[4] - told
        s = [r.integers(0, SYMBOLS, n) for n in part]
        storm = r.integers(2, 8, part[3])
        # The queries that are watched will have answers: their symbols are often traded, in any wind, …
        s[0][:1], s[3][:2], storm[:2] = 20, (20, 21)[: part[3]], 0
        near = [self.price[k] * np.exp(r.normal(0, 0.02, len(k))) for k in s]
        near[0][:1] *= 1.1  # … and they take nearly any price.
        near[3][:2] *= 1.1
        values = np.round(r.uniform(420_000, 600_000, part[4]), 2)
        found = [
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
                pa.table(
                    {
                        "symbol": self.symbol[s[2]],
                        "size": r.integers(900, 999, part[2]),
                        "floor": np.round(near[2] * 0.5, 2),
                    }
                ),
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
                pa.table(
                    {
                        "area": np.array(AREAS)[s[4][:plain] % len(AREAS)],
                        "value": values[:plain],
                    }
                ),
            ),
            (ALERT, self._alerts(told)),
        ]
        return [(sql, params) for sql, params in found if params.num_rows]

    def _alerts(self, count: int) -> pa.Table:
        """Parameters of alerts: many have fired, many have not, and some are near the point where they do."""
        which = self.random.integers(0, ALERT_SYMBOLS, count)
        size = self.random.integers(900, 990, count)
        usual = USUAL_RATE * ALERT_S * self.share[which] * (1_000 - size) / 999
        trades = np.round(usual * np.exp(self.random.uniform(-1.5, 1, count)))
        return pa.table({"symbol": self.symbol[which], "size": size, "trades": trades.astype(np.int64)})


class Wordings:
    """The text of each query as its user would write it: the template that was registered, with its values put in."""

    def __init__(self) -> None:
        self._groups: list[tuple[range, str, pa.Table]] = []

    def add(self, ids: range, sql: str, params: pa.Table) -> None:
        """Remember what was registered, and which ids it got."""
        self._groups.append((ids, sql, params))

    def of(self, id: int) -> str:
        """The text of one query."""
        ids, sql, params = next(group for group in self._groups if id in group[0])
        values = params.slice(ids.index(id), 1).to_pylist()[0]
        return re.sub(r":(\w+)", lambda slot: _written(values[slot[1]]), sql)


def _written(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class Told:
    """What became of an alert."""

    id: int
    has_fired: bool  # or cleared
    row: str  # of its answer, as JSON


@dataclass
class Alerts:
    """How many alerts fired and cleared, and the newest of them."""

    count: int = 0  # that stand
    fired: int = 0
    cleared: int = 0
    newest: tuple[Told, ...] = ()
    batch: int = -1  # the last one that was told

    def tell(self, changes: DataFrame, batch: int) -> None:
        """Take what came and went in a batch."""
        self.take([(row["query"], row["came"], row["row"]) for row in changes.collect()], batch)

    def take(self, changes: Iterable[tuple[int, bool, str]], batch: int) -> None:
        """The same as lines: query, whether the row came, the row. A batch may be told again, and counts once."""
        if batch <= self.batch:
            return
        self.batch = batch
        came: dict[int, str] = {}
        went: dict[int, str] = {}
        for id, has_come, row in changes:
            (came if has_come else went)[id] = row
        # Where one row came and another went the alert still holds; it has other figures.
        fired = [Told(id, True, came[id]) for id in sorted(came.keys() - went.keys())]
        cleared = [Told(id, False, went[id]) for id in sorted(went.keys() - came.keys())]
        self.fired += len(fired)
        self.cleared += len(cleared)
        both = [one for pair in zip(fired, cleared, strict=False) for one in pair]
        self.newest = tuple([*both, *fired, *cleared, *self.newest][:NEWEST])

    def __str__(self) -> str:
        return f"{self.count:,} alerts: {self.fired:,} fired, {self.cleared:,} cleared"


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
    market = Market(np.random.default_rng(SEED))
    wordings = Wordings()
    watched: list[Query] = []  # whose answers are shown: a selection, two joins
    alerts = Alerts()
    registered = 0
    progress.bar("registering queries", registered, queries)
    for sql, params in market.wishes(queries):
        made = weir.register_many(sql, params, kept=sql == ALERT)
        assert isinstance(made.ids, range), "they have no names"
        wordings.add(made.ids, sql, params)
        registered += len(made)
        progress.bar("registering queries", registered, queries)
        alerts.count += len(made) if sql == ALERT else 0
        watched.extend(made[:2] if "JOIN" in sql else made[: 1 if not watched else 0])
    progress.say("starting Spark")
    run = weir.run(trigger="0 seconds", alerts=alerts.tell, say=progress.say)
    stop = threading.Event()
    pushed = [0]
    feeder = threading.Thread(target=_feed, args=(weir, market, run, stop, pushed), name="feeder")
    feeder.start()
    started = time.monotonic()
    with Screen(progress, open_weir(weir.files.location), watched, wordings, alerts) as screen:
        try:
            _watch(run, screen, started, seconds)
        finally:
            stop.set()
            feeder.join()
            drained = time.monotonic() + 60
            while run.is_active and _taken(run) < pushed[0] and time.monotonic() < drained:
                run.wait(0.2)
            elapsed = time.monotonic() - started
            run.stop()
        figures = run.progress()
        screen.close(figures, elapsed)
    rate = _taken(run) / elapsed
    progress.say(
        f"demo: {registered:,} standing queries, {_taken(run):,} events, {figures.pairs:,} matches, "
        f"{rate:,.0f} events/s, P50/P99 batch ms {figures.batch_ms_p50:.0f}/{figures.batch_ms_p99:.0f}"
    )


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


def _watch(run: Run, screen: Screen, started: float, seconds: float) -> None:
    """Show how it goes until the time is over, or the job ends."""
    while (left := seconds - (time.monotonic() - started)) > 0:
        if run.wait(min(screen.pause_s, max(0.1, left))):
            break
        figures = run.progress()
        if figures.last_batch is not None:
            screen.show(figures, time.monotonic() - started)


@dataclass
class Screen:
    """What the demo shows while it runs: a view that is redrawn on a terminal, lines elsewhere."""

    progress: Progress
    reader: Weir  # a second client of the same folder
    watched: Sequence[Query]
    wordings: Wordings
    alerts: Alerts
    live: Live | None = None

    def __enter__(self) -> Screen:
        if self.progress.is_terminal:
            self.live = Live(console=self.progress.console, auto_refresh=False)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    @property
    def pause_s(self) -> float:
        """The time between two looks."""
        return 5.0 if self.live is None else 1.0

    def show(self, figures: RunProgress, elapsed: float) -> None:
        """Show how it goes."""
        if self.live is None:
            self.progress.say(f"{_headline(figures, elapsed)}  {self.alerts}")
        else:
            self.live.update(self.view(figures, elapsed), refresh=True)

    def close(self, figures: RunProgress, elapsed: float) -> None:
        """Show the last answers, to stay."""
        if self.live is not None:
            self.live.update(self.view(figures, elapsed), refresh=True)
            return
        self.progress.say(str(self.alerts))
        for told in self.alerts.newest:
            self.progress.say(f"alert {told.id}: {self.wordings.of(told.id)}")
            self.progress.say(f"  {_became(told)}")
        for id, answer in self.answers():
            self.progress.say(f"query {id}: {self.wordings.of(id)}")
            self.progress.say(f"  {_summary(answer)}")

    def answers(self) -> list[tuple[int, pa.Table]]:
        """The watched queries' answers, by id."""
        return [(query.id, self.reader.query(query.id).fetch()) for query in self.watched]

    def view(self, figures: RunProgress, elapsed: float) -> Group:
        """The figures, the busiest queries, the newest alerts, and the watched queries with their answers."""
        matches = _table("matches", "busiest queries of the last batch")
        for id, count in busiest(self.reader):
            matches.add_row(f"{count:,}", Text(self.wordings.of(id)))
        watched = _table("query", "and its answer now")
        for id, answer in self.answers():
            watched.add_row(f"{id:,}", Text(self.wordings.of(id)))
            watched.add_row("", Text(f"→ {_summary(answer)}", style="green"))
        newest = _table("alert", f"and what became of it ({self.alerts})")
        for told in self.alerts.newest:
            newest.add_row(f"{told.id:,}", Text(self.wordings.of(told.id)))
            newest.add_row("", Text(f"→ {_became(told)}", style="red" if told.has_fired else "green"))
        headline = Text(_headline(figures, elapsed).strip(), style="bold")
        return Group(headline, "", matches, "", newest, "", watched)


def _table(number: str, text: str) -> Table:
    """A table of a number and a text that may take several lines."""
    made = Table(box=None, pad_edge=False, header_style="dim")
    made.add_column(number, justify="right", width=8)
    made.add_column(text, overflow="fold")
    return made


def _headline(figures: RunProgress, elapsed: float) -> str:
    return (
        f"{elapsed:5.0f} s  {(figures.events + figures.late) / elapsed:10,.0f} events/s  "
        f"{figures.pairs / elapsed:12,.0f} matches/s  "
        f"batch {figures.batch_ms_p50:.0f} ms (p99 {figures.batch_ms_p99:.0f})  {figures.queries:,} queries"
    )


def _summary(answer: pa.Table) -> str:
    """How many rows an answer has, and its newest."""
    if not answer.num_rows:
        return "no rows in its window yet"
    (last,) = answer.slice(answer.num_rows - 1).to_pylist()
    values = ", ".join(
        f"{name} {value:%H:%M:%S}" if isinstance(value, datetime.datetime) else f"{name} {value}"
        for name, value in last.items()
    )
    return f"{answer.num_rows:,} rows in its window; the last: {values}"


def _became(told: Told) -> str:
    """Whether an alert fired or cleared, and the row that came or went."""
    values = ", ".join(f"{name} {value}" for name, value in json.loads(told.row).items())
    return f"{'fired' if told.has_fired else 'cleared'}: {values}"


def busiest(reader: Weir, most: int = 3) -> list[tuple[int, int]]:
    """The queries with most matches in the newest batch: id and matches."""
    reader.state.refresh(reader.ledger)
    files = reader.state.match_files(reader.state.last, reader.state.last)
    items = [p.items for _, f in files for p in read_matches(reader.files, f.path)]
    if not items:
        return []
    ids, counts = np.unique(np.concatenate(items), return_counts=True)
    top = np.argsort(-counts, kind="stable")[:most]
    return [(int(ids[k]), int(counts[k])) for k in top]
