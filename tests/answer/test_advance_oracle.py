"""Time that passes by itself: at every batch boundary answers and changes equal a plain account of the windows.

Pushes and advances come in random order from two processes; batches take them, may die in the middle, and are run
again when more has come. The account knows rows, lateness and the clock, and shares no code with what it checks.
Each query stands twice: one is computed when it is asked for, one is kept; what every batch says of the changes of kept
ones adds up to their answers.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import weir
from tests.keeping import Keeping
from tests.marks import few_are_quick
from tests.tally import tally
from weir.runtime import faults
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
START = dt.datetime(2025, 6, 1, 12, tzinfo=dt.UTC)
START_US = int(START.timestamp()) * SECOND
KEEP_S = 120
STREAMS = "trade", "quote"
SELECTED, TRADES, QUOTES = 40 * SECOND, 30 * SECOND, 10 * SECOND  # lengths of windows
SELECTION = "SELECT n, name FROM trade WHERE n % 3 <> 0 BEGIN NOW - INTERVAL 40 SECONDS END NOW"
JOIN = "SELECT t.n AS a, q.n AS b FROM trade t [RANGE 30 SECONDS], quote q [RANGE 10 SECONDS] WHERE t.name = q.name"
ALL_KEPT = "SELECT n FROM quote"
SINCE = "BEGIN NOW - INTERVAL 40 SECONDS END NOW"
COUNTED = f"SELECT name, count(*) AS c, sum(n) AS s FROM trade GROUP BY name HAVING count(*) > 2 {SINCE}"
TOTAL = f"SELECT count(*) AS c, max(n) AS m FROM trade {SINCE}"
ONCE = f"SELECT DISTINCT name FROM trade WHERE n % 3 = 1 {SINCE}"
ALONE = f"SELECT n FROM trade t WHERE NOT EXISTS (SELECT 1 FROM quote q WHERE q.name = t.name AND q.n % 5 = 0) {SINCE}"
TEXTS = SELECTION, JOIN, ALL_KEPT, COUNTED, TOTAL, ONCE, ALONE
POINTS = "plan created", "between ingest and match", "all files written, not done"
TESTED = 4  # lives in `make test`
compared: list[int] = []  # kept answers, by life
Answers = tuple[Counter[tuple[object, ...]], ...]


@dataclass
class Account:
    """What has come, and what a plain reading of the documentation makes of it."""

    rows: dict[str, list[tuple[int, str, int]]] = field(default_factory=lambda: {name: [] for name in STREAMS})
    late: int = 0
    by_advance: int = 0  # batches that ended later than all their rows
    now_us: int | None = None

    def take(self, told: list[tuple[str, object]]) -> None:
        """One batch: rows are judged by the clock before it."""
        floor = None if self.now_us is None else self.now_us - KEEP_S * SECOND
        times = [] if self.now_us is None else [self.now_us]
        said = []
        for what, given in told:
            if what == "advance":
                assert isinstance(given, int)
                said.append(given)
                continue
            assert isinstance(given, list)
            kept = [row for row in given if floor is None or row[2] >= floor]
            self.late += len(given) - len(kept)
            self.rows[what] += kept
            times += [t for _, _, t in kept]
        self.by_advance += bool(said) and max(said) > max(times, default=0)
        self.now_us = max([*times, *said], default=None)

    def answers(self) -> Answers:
        now = self.now_us or 0
        trade, quote = self.rows["trade"], self.rows["quote"]
        selected = Counter((n, name) for n, name, t in trade if now - SELECTED < t <= now and n % 3 != 0)
        joined = Counter(
            (a, b)
            for a, one, t in trade
            for b, other, u in quote
            if one == other and now - TRADES < t <= now and now - QUOTES < u <= now
        )
        seen = [(n, name) for n, name, t in trade if now - SELECTED < t <= now]
        other = {name for n, name, t in quote if now - SELECTED < t <= now and n % 5 == 0}
        groups = {name: [n for n, one in seen if one == name] for name in "AB"}
        return (
            selected,
            joined,
            Counter((n,) for n, _, t in quote if now - KEEP_S * SECOND < t <= now),
            Counter((name, len(of), sum(of)) for name, of in groups.items() if len(of) > 2),
            Counter([(len(seen), max((n for n, _ in seen), default=None))]),
            Counter({(name,) for n, name in seen if n % 3 == 1}),
            Counter((n,) for n, name in seen if name not in other),
        )


def counted(table: object) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())  # type: ignore[attr-defined]  # an Arrow table


class Life:
    """One random history."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        w = weir.open(folder)
        for name in STREAMS:
            w.stream(name, "n bigint, name string, ts timestamp", time="ts", keep=f"{KEEP_S} seconds")
        self.weirs = w, weir.open(folder)
        self.direct = DirectWeir(w, slices=1 + seed % 3, wall_us=START_US + 3_600 * SECOND, takes_pushes=True)
        self.account = Account()
        self.told: list[tuple[str, object]] = []  # pushed and not yet in a batch
        self.begun: list[tuple[str, object]] | None = None  # what the batch that died had begun to take
        self.clock_us = START_US
        self.pushed = self.went = 0
        self.keeping = Keeping(w)
        self.queries: list[list[int]] = []  # ids of the queries, of each time they were registered, kept ones first
        self.tokens: list[tuple[int, Answers, list[list[str]]]] = []  # with the clock of each boundary
        self.register()

    def register(self) -> None:
        for w in self.weirs:  # the first one keeps its queries
            self.queries.append([w.register(sql).id for sql in TEXTS])

    def push(self) -> None:
        name, rows = self.dice.choice(STREAMS), []
        for _ in range(self.dice.randint(1, 12)):
            self.pushed += 1
            late = self.dice.random() < 0.1
            t = self.clock_us + (self.dice.randint(-200, -100) if late else self.dice.randint(-45, 8)) * SECOND
            rows.append((self.pushed, self.dice.choice("AB"), t))
        given = [{"n": n, "name": name, "ts": START + dt.timedelta(microseconds=t - START_US)} for n, name, t in rows]
        self.dice.choice(self.weirs).push(name, given)
        self.told.append((name, rows))

    def advance(self) -> None:
        self.clock_us += self.dice.choice([0, 1, 5, 9, 25]) * SECOND
        time_us = self.clock_us - self.dice.choice([0, 0, 0, 30]) * SECOND
        self.dice.choice(self.weirs).advance(time_us)
        self.told.append(("advance", time_us))

    def batch(self) -> None:
        is_first = self.begun is None
        if self.begun is None:
            self.begun, self.told = self.told, []
        if self.dice.random() < 0.25:
            wanted = self.dice.choice(POINTS if is_first else POINTS[1:])  # a plan is created once

            def hook(point: str) -> None:
                if point == wanted:
                    raise faults.Crash

            with faults.arm(hook), pytest.raises(faults.Crash):
                self.direct.batch({})
            self.direct = DirectWeir(
                self.weirs[0], slices=self.dice.randint(1, 3), wall_us=self.direct.wall_us, takes_pushes=True
            )
            return
        done = self.direct.batch({})
        self.account.take(self.begun)
        self.begun = None
        assert done.now_us == self.account.now_us
        self.keeping.after(done)
        self.compare()

    def compare(self) -> None:
        expected = self.account.answers()
        reader = self.dice.choice(self.weirs)
        now_us = self.account.now_us or 0
        # Rows stay for as long as they are kept, so these tokens have not expired.
        earlier = [known for known in self.tokens[-3:] if known[0] - SELECTED >= now_us - KEEP_S * SECOND]
        tokens = []
        for at, ids in enumerate(self.queries):
            queries = [reader.query(id) for id in ids]
            assert tuple(counted(query.fetch()) for query in queries) == expected
            tokens.append([query.token() for query in queries])
            for _, before, known in earlier:
                if at >= len(known):
                    continue
                for k, query in enumerate(queries):
                    if k == TEXTS.index(ALL_KEPT) or (k > 1 and self.dice.random() < 0.9):
                        continue  # the former may need rows from before its token that expired
                    changes = query.changes(after=known[at][k])
                    assert counted(changes.came) == expected[k] - before[k]
                    assert counted(changes.went) == before[k] - expected[k]
                    self.went += changes.went.num_rows
        self.tokens.append((now_us, expected, tokens))


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=1, tested=TESTED))
def test_answers_follow_the_clock(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path / "weir", seed)
    for step in range(100):
        if step == 40:
            life.register()  # the same queries, over rows that have come
        life.dice.choices([life.push, life.advance, life.batch], [3, 3, 4])[0]()
    assert sum(life.weirs[0].late(name).num_rows for name in STREAMS) == life.account.late > 0
    assert life.account.by_advance > 0
    assert life.went > 0
    compared.append(life.keeping.read)
    tally("kept answers, a plain account", life.keeping.read)
    assert sum(sum(answer.values()) for _, answers, _ in life.tokens for answer in answers) > 100


def test_enough_was_compared() -> None:
    if len(compared) < TESTED:
        pytest.skip("only a part of the seeds was run")
    assert sum(compared) >= 250 * len(compared)
