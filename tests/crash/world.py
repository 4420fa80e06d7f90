"""What the crash tests share: a weir on disk, drivers as real processes, readers, and the oracle at the end."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

import weir
from weir.store.rows import read_table
from weir.testing import answer, differ

ROWS = 50  # a batch
COLUMNS = "n bigint, price double, name string, ts timestamp"
START = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
QUERIES = (
    "SELECT n, price FROM trade WHERE price < 20",
    "SELECT n FROM trade WHERE name = 'orange' OR price > 95",
    "SELECT n, price * 2 AS twice FROM trade WHERE price BETWEEN 40 AND 45 BEGIN NOW - INTERVAL 2 MINUTES END NOW",
    "SELECT n FROM trade [ROWS 70] WHERE price <> 50",
    "SELECT n, name FROM trade WHERE name LIKE '%em%' BEGIN NOW - INTERVAL 90 SECONDS END NOW - INTERVAL 5 SECONDS",
    "SELECT n FROM trade",
)


@dataclass
class World:
    """A weir that drivers run and die on, while this process registers, drops, pushes and reads."""

    folder: Path
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    pushed: int = 0
    late: int = 0
    texts: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weir = weir.open(self.folder)
        self.weir.stream("trade", COLUMNS, time="ts", keep="1 hour")
        for text in QUERIES:
            self.register(text)

    def register(self, text: str) -> int:
        id = self.weir.register(text).id
        self.texts[id] = text
        return id

    def drop(self, id: int) -> None:
        self.weir.drop(id)
        del self.texts[id]

    def push(self, batches: int = 1) -> None:
        """Rows with consecutive numbers; each batch takes exactly ROWS of them."""
        for _ in range(batches):
            n = np.arange(self.pushed, self.pushed + ROWS)
            times = [START + datetime.timedelta(seconds=int(k)) for k in n]
            rows = pa.table(
                {
                    "n": n,
                    "price": np.round(self.random.uniform(0, 100, ROWS), 1),
                    "name": self.random.choice(["orange", "lemon", "pear"], ROWS),
                    "ts": pa.array(times, pa.timestamp("us", "UTC")),
                }
            )
            self.weir.push("trade", rows)
            self.pushed += ROWS

    def driver(self, fault: str | None = None, mark: Path | None = None) -> subprocess.Popen[str]:
        """Start a driver; `fault` as in WEIR_FAULT, `mark` lets it fire once over all processes."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_FAULT")}
        if fault is not None:
            environment["WEIR_FAULT"] = fault
        if mark is not None:
            environment["WEIR_FAULT_MARK"] = str(mark)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.driver", str(self.folder)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
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
        taken = rows.column("n").to_pylist()
        assert taken == list(range(len(taken))), "a row is lost, doubled or out of order"
        for id, text in self.texts.items():
            got = w.query(id).fetch()
            expected = answer(text, {}, w.catalog, {"trade": rows}, w.state.now_us or 0)
            difference = differ(expected, got)
            assert difference is None, f"batch {w.state.last}, query {id}: {text}\n{difference}"

    def check_complete(self) -> None:
        self.check()
        w = weir.open(self.folder)
        w.state.refresh(w.ledger)
        assert w.state.row_counts == {"trade": self.pushed}, "an acknowledged push is missing"
        assert sum(w.state.late.get("trade", {}).values()) == self.late == w.late("trade").num_rows

    @staticmethod
    def rows(w: weir.Weir) -> pa.Table:
        paths = w.state.row_files("trade").paths
        return pa.concat_tables([read_table(w.files, p) for p in paths]) if paths else read_empty(w)


def read_empty(w: weir.Weir) -> pa.Table:
    from weir.store.rows import arrow_schema

    return arrow_schema(w.catalog.streams["trade"].columns).empty_table()


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


def is_stopped(process: subprocess.Popen[str]) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


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
                count = w.state.row_counts.get("trade", 0)
                assert count % ROWS == 0, f"half a batch: {count} rows"
                rows = self.world.rows(w)
                text = QUERIES[self.rounds % 2]
                got = w.query(self.rounds % 2).fetch()
                if w.state.last == now:  # fetch may have moved on to a newer batch
                    difference = differ(answer(text, {}, w.catalog, {"trade": rows}, w.state.now_us or 0), got)
                    assert difference is None, f"batch {now}: {text}\n{difference}"
                self.rounds += 1
                self.stopping.wait(0.3)
        except BaseException as error:  # handed to the test by `finish`
            self.error = error

    def finish(self) -> None:
        self.stopping.set()
        self.join()
        if self.error is not None:
            raise self.error
        assert self.rounds > 0
