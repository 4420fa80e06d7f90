"""What the crash tests share: a weir on disk, drivers as real processes, readers, and the oracle at the end."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

import weir
from tests.oracle.plain_tables import Change, table_at, versions_of
from weir.algebra.schema import ENDLESS_US, TIMESTAMP, Catalog, Column, Table
from weir.answer import fetch
from weir.answer.table_versions import shown_at, versions
from weir.store.row_files import arrow_schema, read_table
from weir.testing import answer, differ

COUNTS = {"trade": 40, "weather": 10, "quote": 5}  # rows of each stream in a batch
TRADES, REPORTS, QUOTES = COUNTS.values()
CHANGES = 4  # of the table in a batch: three rows put in, one key taken out
ROWS = sum(COUNTS.values())
COLUMNS = {
    "trade": "n bigint, price double, name string, area string, ts timestamp",
    "weather": "n bigint, category int, area string, ts timestamp",
    "quote": "n bigint, name string, category int, ts timestamp",
}
START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
QUERIES = (
    "SELECT n, price FROM trade WHERE price < 20",
    "SELECT n FROM trade WHERE name = 'orange' OR price > 95",
    "SELECT n, price * 2 AS twice FROM trade WHERE price BETWEEN 40 AND 45 BEGIN NOW - INTERVAL 2 MINUTES END NOW",
    "SELECT n FROM trade [ROWS 70] WHERE price <> 50",
    "SELECT n, name FROM trade WHERE name LIKE '%em%' BEGIN NOW - INTERVAL 90 SECONDS END NOW - INTERVAL 5 SECONDS",
    "SELECT n FROM trade",
    "SELECT t.n, w.n AS report FROM trade t JOIN weather w ON t.area = w.area WHERE t.price < 30 AND w.category > 5 "
    "BEGIN NOW - INTERVAL 2 MINUTES END NOW",
    "SELECT w.category, t.n FROM weather w, trade t WHERE w.area = t.area AND t.name = 'orange' AND w.category < 2",
    "SELECT a.n, b.n AS other FROM trade a JOIN trade b ON a.name = b.name AND a.area = b.area "
    "WHERE a.price < 10 AND b.price > 90 BEGIN NOW - INTERVAL 10 MINUTES END NOW",
    "SELECT t.n, w.n AS report FROM trade [ROWS 70] t JOIN weather [RANGE 90 SECONDS] w USING (area) "
    "WHERE t.price > 80 OR w.category = 9",
    "SELECT t.n, w.n AS report FROM trade t, weather w WHERE t.price - w.category BETWEEN 3 AND 3.5 AND name = 'pear'",
    "SELECT t.n, w.n AS report FROM trade t JOIN weather w ON t.area = w.area "
    "WHERE abs(t.ts - w.ts) <= INTERVAL 4 SECONDS AND t.price > 10 * w.category",
    "SELECT t.n, w.n AS report, q.n AS quote FROM trade t JOIN weather w ON t.area = w.area JOIN quote q "
    "ON q.name = t.name AND q.category = w.category + 1 WHERE t.price < 60 AND t.price > 5 * q.category "
    "BEGIN NOW - INTERVAL 3 MINUTES END NOW",
)
WAIT_S = 180  # for a driver
DATED = "s.valid_from <= t.ts AND t.ts < s.valid_to"
OVER_TABLES = {
    "SELECT t.n, s.rating FROM trade t JOIN stock s ON t.name = s.name WHERE t.price < 70 AND s.rating > 4": (
        "SELECT t.n, s.rating FROM trade t JOIN stock_all s ON t.name = s.name WHERE t.price < 70 AND s.rating > 4 "
        f"AND {DATED}"
    ),
    "SELECT g.rating, count(*) AS trades, sum(t.n) AS total FROM trade t JOIN grade g ON g.name = t.name "
    "GROUP BY g.rating BEGIN NOW - INTERVAL 5 MINUTES END NOW": None,
    "SELECT t.n, w.n AS report, s.rating FROM trade t JOIN weather w ON t.area = w.area JOIN stock s "
    "ON s.name = t.name AND s.rating >= w.category WHERE abs(t.ts - w.ts) <= INTERVAL 9 SECONDS": (
        "SELECT t.n, w.n AS report, s.rating FROM trade t JOIN weather w ON t.area = w.area JOIN stock_all s "
        "ON s.name = t.name AND s.rating >= w.category WHERE abs(t.ts - w.ts) <= INTERVAL 9 SECONDS "
        "AND s.valid_from <= greatest(t.ts, w.ts) AND greatest(t.ts, w.ts) < s.valid_to"
    ),
    "SELECT t.n, g.rating FROM trade t LEFT JOIN grade g ON g.name = t.name AND g.rating > 3 WHERE t.price > 60 "
    "BEGIN NOW - INTERVAL 2 MINUTES END NOW": None,
    "SELECT area, count(*) AS trades, max(price) AS most FROM trade GROUP BY area HAVING count(*) > 3": None,
    "SELECT DISTINCT t.name, w.category FROM trade t JOIN weather w ON t.area = w.area WHERE w.category > 6": None,
    "SELECT n, rank() OVER (PARTITION BY area ORDER BY price DESC, n) AS place FROM trade WHERE name = 'pear' "
    "ORDER BY price DESC, n LIMIT 10": None,
}  # with what DuckDB is asked, if that is another text: it knows all versions of a table that is not retroactive
JOIN_OF_THREE = len(QUERIES) - 1
QUERIES = (*QUERIES, *OVER_TABLES)
KEPT = QUERIES[::2]  # these stand twice: computed when they are asked for, and kept
WATCHED = (0, 6, 1, 7, JOIN_OF_THREE, JOIN_OF_THREE + 1, JOIN_OF_THREE + 2)  # that the reader asks for, in turn
EDGES = (Column("valid_from", TIMESTAMP), Column("valid_to", TIMESTAMP))
FAR = datetime.timedelta(days=400)  # from the first row; an edge of a lifetime that is no edge


@dataclass
class World:
    """A weir that drivers run and die on, while this process registers, drops, pushes and reads."""

    folder: Path
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    batches: int = 0  # pushed so far, ROWS rows each
    late: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    changes: dict[str, list[Change]] = field(default_factory=dict)  # by table
    environment: dict[str, str] = field(default_factory=dict)  # of drivers

    def __post_init__(self) -> None:
        self.weir = weir.open(self.folder)
        for name, columns in COLUMNS.items():
            self.weir.stream(name, columns, time="ts", keep="1 hour")
        for name, is_retroactive in (("stock", False), ("grade", True)):
            self.weir.table(name, "name string, rating bigint", key="name", retroactive=is_retroactive)
            self.changes[name] = []
        for text in QUERIES:
            self.register(text)
        for text in KEPT:
            self.register(text, kept=True)

    def register(self, text: str, *, kept: bool = False) -> int:
        id = self.weir.register(text, kept=kept).id
        self.texts[id] = text
        if kept:
            self.kept.add(id)
        return id

    def drop(self, id: int) -> None:
        self.weir.drop(id)
        del self.texts[id]
        self.kept.discard(id)

    def push(self, batches: int = 1) -> None:
        """Rows with consecutive numbers in each stream; a batch takes exactly one push of each."""
        for _ in range(batches):
            begun = START + datetime.timedelta(seconds=ROWS * self.batches)
            areas = ["north", "south", "west"]
            times = [begun + datetime.timedelta(seconds=k) for k in range(ROWS)]
            reports = {
                "n": np.arange(REPORTS) + REPORTS * self.batches,
                "category": self.random.integers(0, 10, REPORTS).astype(np.int32),
                "area": self.random.choice(areas, REPORTS),
                "ts": pa.array(times[:: ROWS // REPORTS][:REPORTS], pa.timestamp("us", "UTC")),
            }
            trades = {
                "n": np.arange(TRADES) + TRADES * self.batches,
                "price": np.round(self.random.uniform(0, 100, TRADES), 1),
                "name": self.random.choice(["orange", "lemon", "pear"], TRADES),
                "area": self.random.choice(areas, TRADES),
                "ts": pa.array(times[ROWS - TRADES :], pa.timestamp("us", "UTC")),
            }
            quotes = {
                "n": np.arange(QUOTES) + QUOTES * self.batches,
                "name": self.random.choice(["orange", "lemon", "pear"], QUOTES),
                "category": self.random.integers(0, 10, QUOTES).astype(np.int32),
                "ts": pa.array(times[:: ROWS // QUOTES][:QUOTES], pa.timestamp("us", "UTC")),
            }
            for table in self.changes:
                self.change(table, begun)
            self.weir.push("quote", pa.table(quotes))
            self.weir.push("weather", pa.table(reports))
            self.weir.push("trade", pa.table(trades))
            self.batches += 1

    def change(self, table: str, begun: datetime.datetime) -> None:
        """Change a table, as of the newest row of the batch before or from just after it on."""
        is_after = not self.weir.catalog.tables[table].retroactive
        since_us = _us(begun) - 1_000_000 + is_after if self.batches else -ENDLESS_US
        names = [str(name) for name in self.random.permutation(["orange", "lemon", "pear", "fig"])]
        ratings = [int(rating) for rating in self.random.integers(0, 10, CHANGES - 1)]
        self.weir.upsert(table, {"name": names[1:], "rating": ratings})
        self.weir.delete(table, names[0])
        rows = [*zip(names[1:], ratings, strict=True)]
        self.changes[table] += [Change(self.batches, (row[0],), row, since_us) for row in rows]
        self.changes[table].append(Change(self.batches, (names[0],), None, since_us))

    def driver(
        self, fault: str | None = None, mark: Path | None = None, log: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start a driver; `fault` as in WEIR_FAULT, `mark` lets it fire once over all processes.

        `log`: what it says goes there, so that nobody has to read it while it runs.
        """
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_FAULT")} | self.environment
        if fault is not None:
            environment["WEIR_FAULT"] = fault
        if mark is not None:
            environment["WEIR_FAULT_MARK"] = str(mark)
        with contextlib.ExitStack() as opened:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.crash.driver", str(self.folder)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if log is None else opened.enter_context(open(log, "w")),
                stderr=subprocess.STDOUT,
                text=True,
                cwd=Path(__file__).parent.parent.parent,
            )

    def last_done(self) -> int:
        return self.weir.ledger.last_done()

    def check(self) -> None:
        """Every answer equals the oracle's over the rows that the ledger names; those are the rows that were pushed."""
        w = weir.open(self.folder)
        w.state.refresh(w.ledger)
        rows = self.rows(w)
        for name, table in rows.items():
            taken = table.column("n").to_pylist()
            assert taken == list(range(len(taken))), f"a row of {name} is lost, doubled or out of order"
        for name, changes in self.changes.items():
            table = w.catalog.tables[name]
            found = versions(w.files, table, w.state, w.state.last)
            for moment in sorted({c.since_us for c in changes}):
                at = moment if table.retroactive else moment - 1
                shown = shown_at(found, table, at).select(["name", "rating"]).to_pylist()
                expected = table_at(changes, moment, w.state.last).values()
                assert sorted(tuple(row.values()) for row in shown) == sorted(expected), f"table {name} at {moment}"
        for id, text in self.texts.items():
            got = w.query(id).fetch()
            difference = differ(self.expected(w, text, rows), got)
            assert difference is None, f"batch {w.state.last}, query {id}: {text}\n{difference}"
        for id in self.kept:
            standing = w._library.standing(id)
            if w.state.active_from(standing.registry_number) is not None:  # a batch was planned since it stands
                assert fetch.kept_answer(standing, w.files, w.state) is not None, f"not kept: {self.texts[id]}"

    def check_complete(self) -> None:
        self.check()
        w = weir.open(self.folder)
        w.state.refresh(w.ledger)
        counts = {name: count * self.batches for name, count in COUNTS.items()}
        counts |= {f"{table} changes": CHANGES * self.batches for table in self.changes}
        assert w.state.row_counts == counts, "an acknowledged push is missing"
        for id in self.texts.keys() & range(JOIN_OF_THREE, len(QUERIES)):
            assert w.query(id).fetch().num_rows > 0, f"nothing to lose: {self.texts[id]}"
        for name in COLUMNS:
            assert sum(w.state.late.get(name, {}).values()) == self.late == w.late(name).num_rows

    def expected(self, w: weir.Weir, text: str, rows: Mapping[str, pa.Table]) -> pa.Table:
        """The oracle's answer as of the last batch that `w` has seen."""
        now_us, batch = w.state.now_us or 0, w.state.last
        tables, contents = {}, dict(rows)
        for name, changes in self.changes.items():
            table = w.catalog.tables[name]
            found: Sequence[tuple[object, ...]] = [*table_at(changes, now_us, batch).values()]
            if not table.retroactive:
                table = Table(f"{name}_all", (*table.columns, *EDGES), table.key)
                dated = versions_of(changes, batch)
                found = [(*row, _edge(since), _edge(until)) for row, since, until in dated]
            schema = arrow_schema(table.columns)
            tables[table.name] = table
            contents[table.name] = pa.Table.from_pylist(
                [dict(zip(schema.names, row, strict=True)) for row in found], schema=schema
            )
        catalog = Catalog(dict(w.catalog.streams), tables)
        return answer(OVER_TABLES.get(text) or text, {}, catalog, contents, now_us)

    @staticmethod
    def rows(w: weir.Weir) -> dict[str, pa.Table]:
        """The accepted rows of each stream."""
        found = {}
        for name in COLUMNS:
            paths = w.state.row_files(name).paths
            tables = [read_table(w.files, p) for p in paths]
            found[name] = pa.concat_tables([arrow_schema(w.catalog.streams[name].columns).empty_table(), *tables])
        return found


def _us(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1e6)


def _edge(us: int) -> datetime.datetime:
    return START + min(max(datetime.timedelta(microseconds=us - _us(START)), -FAR), FAR)


def jvm_of(process: subprocess.Popen[str]) -> int:
    """The JVM that a driver started."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent == process.pid and b"java" in (folder / "cmdline").read_bytes():
                    return int(folder.name)
            except (FileNotFoundError, ProcessLookupError):
                continue
    raise AssertionError(f"driver {process.pid} has no JVM")


def wait_until_stopped(process: subprocess.Popen[str], mark: Path | None = None) -> int:
    """Wait until a driver stands still at its point, or, if it has a mark, whichever process has made that.

    Returns the id of the process.
    """
    for _ in range(WAIT_S * 20):
        assert process.poll() is None, "the driver ended before it reached its point"
        found = str(process.pid) if mark is None else mark.read_text() if mark.exists() else ""
        if found and Path(f"/proc/{found}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
            return int(found)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise AssertionError("the driver never reached its point")


def kill_all(process: subprocess.Popen[str]) -> None:
    """End a driver with its JVM and workers, whatever state they are in."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


class Reader(threading.Thread):
    """Reads all the time: never half a batch, never backwards, always what the oracle says."""

    def __init__(self, world: World) -> None:
        super().__init__(name="reader", daemon=True)
        self.world = world
        self.stopping = threading.Event()
        self.rounds = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            w = weir.open(self.world.folder)
            last = -1
            while not self.stopping.is_set():
                now = w.state.refresh(w.ledger)
                assert now >= last, f"went back from batch {last} to {now}"
                last = now
                counts = {name: w.state.row_counts.get(name, 0) for name in COLUMNS}
                assert counts == {name: count * (now + 1) for name, count in COUNTS.items()}, f"half a batch: {counts}"
                rows = self.world.rows(w)
                id = WATCHED[self.rounds % len(WATCHED)]
                text = QUERIES[id]
                got = w.query(id).fetch()
                if w.state.last == now:  # fetch may have moved on to a newer batch
                    difference = differ(self.world.expected(w, text, rows), got)
                    assert difference is None, f"batch {now}: {text}\n{difference}"
                self.rounds += 1
                self.stopping.wait(1.0)
        except BaseException as error:  # handed to the test by `finish`
            self.error = error

    def finish(self) -> None:
        self.stopping.set()
        self.join()
        if self.error is not None:
            raise self.error
        assert self.rounds > 0
