"""Random lives of kept queries, held against a few lines of plain Python after every batch.

A history is a list of moves: rows that come, late ones and several of one moment among them, or none; registrations of
one query or of several of a shape; drops; queries that have too many results, are given up and are tried again; batches
that are planned and die, and are run again by another driver; vacuums and folds; a table whose versions begin in the
future. After each batch every query's answer is that of the plain evaluation, a kept one is really kept, and what came
less what went, over all batches, is its answer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import weir
from tests.marks import few_are_quick
from tests.tally import tally
from weir.answer import fetch
from weir.runtime import faults
from weir.runtime.maintain import CAME
from weir.store.data_files import batch_of_path
from weir.store.maintained import SLOT, read_changes, shapes_with_changes
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
KEEP_S = 40
RESULTS_MAX = 25  # of a kept query; the busiest ones have more now and then
SEEDS = range(400)
TESTED = 12  # in `make test`
SETTINGS = {
    "kept_results_max": RESULTS_MAX, "orphan_grace_s": 0, "fold_every_batches": 5, "tail_queries_max": 4,
    "demote_pairs_min": 10**9,
}  # fmt: skip
compared: list[int] = []  # answers, by history


class Row(NamedTuple):
    """A row of a stream, in the order of arrival."""

    stream: str
    t: int  # seconds
    k: int
    v: int


Params = Mapping[str, int]


class Kind(NamedTuple):
    """A kind of queries: their text, how parameters are drawn, and their answer, said plainly."""

    text: str
    draw: Callable[[random.Random], dict[str, int]]
    answer: Callable[[World, Params], list[tuple[Any, ...]]]
    is_ordered: bool = False


class World:
    """What is known of the rows and the table, for the plain answers."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.versions: list[tuple[int, int, int]] = []  # key, rate, since when; in the order of arrival
        self.now: int | None = None

    def within(self, stream: str, begin_s: int, end_s: int = 0) -> list[Row]:
        """The rows of a stream in the window (now − begin, now − end]."""
        assert self.now is not None
        return [r for r in self.rows if r.stream == stream and self.now - begin_s < r.t <= self.now - end_s]

    def rate(self, key: int) -> int | None:
        """What the table says of a key now."""
        assert self.now is not None
        found = None
        for k, rate, since in self.versions:
            if k == key and since <= self.now and (found is None or found[1] <= since):
                found = rate, since
        return None if found is None else found[0]


def _alerts(w: World, p: Params) -> list[tuple[Any, ...]]:
    n = sum(r.k == p["k"] and r.v > p["lo"] for r in w.within("R", 9))
    return [(n,)] if n > p["n"] else []


def _groups(w: World, p: Params) -> list[tuple[Any, ...]]:
    found: dict[int, list[int]] = {}
    for r in w.within("R", 14, 4):
        if r.v > p["lo"]:
            found.setdefault(r.k, []).append(r.v)
    return [(k, len(vs), sum(vs)) for k, vs in found.items() if len(vs) > p["n"]]


def _distinct(w: World, p: Params) -> list[tuple[Any, ...]]:
    return [(k,) for k in {r.k for r in w.within("R", 11) if r.v > p["lo"]}]


def _unmet(w: World, p: Params) -> list[tuple[Any, ...]]:
    met = {s.k for s in w.within("S", 12)}
    return [(r.v,) for r in w.within("R", 12) if r.v > p["lo"] and r.k not in met]


def _joined(w: World, p: Params) -> list[tuple[Any, ...]]:
    return [
        (r.v, s.v)
        for r in w.within("R", 10)
        for s in w.within("S", 10)
        if r.k == s.k and r.v > p["lo"] and s.v < p["hi"]
    ]


def _newest(w: World, p: Params) -> list[tuple[Any, ...]]:
    mine = [r for r in w.within("R", 10) if r.k == p["k"]]
    return [(r.v % 3,) for r in sorted(mine, key=lambda r: (-r.t, r.v))[:4]]


def _landmark(w: World, p: Params) -> list[tuple[Any, ...]]:
    found = Counter(r.k for r in w.rows if r.stream == "G" and r.t > 10 and r.v > p["lo"])
    return [(k, n) for k, n in found.items()]


def _snapshot(w: World, p: Params) -> list[tuple[Any, ...]]:
    return [(r.k, r.v) for r in w.rows if r.stream == "G" and 10 < r.t <= 30 and r.v > p["lo"]]


def _last_rows(w: World, p: Params) -> list[tuple[Any, ...]]:
    order = sorted(enumerate(w.within("R", KEEP_S)), key=lambda one: (one[1].t, one[0]))
    return [(r.v,) for _, r in order[-5:] if r.v > p["lo"]]


def _rated(w: World, p: Params) -> list[tuple[Any, ...]]:
    found = [(r.v, w.rate(r.k)) for r in w.within("R", 10) if r.v > p["lo"]]
    return [row for row in found if row[1] is not None]


def _extremes(w: World, p: Params) -> list[tuple[Any, ...]]:
    found: dict[int, list[int]] = {}
    for r in w.within("R", 15):
        if r.v > p["lo"]:
            found.setdefault(r.k, []).append(r.v)
    return [(k, min(vs), max(vs), len(set(vs))) for k, vs in found.items()]


def _lowest(w: World, p: Params) -> list[tuple[Any, ...]]:
    return [(min((r.v for r in w.within("R", 18, 3) if r.k == p["k"]), default=None),)]


def _some(**most: int) -> Callable[[random.Random], dict[str, int]]:
    return lambda dice: {name: dice.randint(0, limit) for name, limit in most.items()}


KINDS = (
    Kind(
        "SELECT count(*) AS n FROM R WHERE k = :k AND v > :lo HAVING count(*) > :n "
        "BEGIN NOW - INTERVAL 9 SECONDS END NOW",
        _some(k=4, lo=60, n=3),
        _alerts,
    ),
    Kind(
        "SELECT k, count(*) AS n, sum(v) AS s FROM R WHERE v > :lo GROUP BY k HAVING count(*) > :n "
        "BEGIN NOW - INTERVAL 14 SECONDS END NOW - INTERVAL 4 SECONDS",
        _some(lo=80, n=2),
        _groups,
    ),
    Kind("SELECT DISTINCT k FROM R WHERE v > :lo BEGIN NOW - INTERVAL 11 SECONDS END NOW", _some(lo=95), _distinct),
    Kind(
        "SELECT k, min(v) AS a, max(v) AS b, count(DISTINCT v) AS n FROM R WHERE v > :lo GROUP BY k "
        "BEGIN NOW - INTERVAL 15 SECONDS END NOW",
        _some(lo=90),
        _extremes,
    ),
    Kind(
        "SELECT min(v) AS a FROM R WHERE k = :k BEGIN NOW - INTERVAL 18 SECONDS END NOW - INTERVAL 3 SECONDS",
        _some(k=4),
        _lowest,
    ),
    Kind(
        "SELECT r.v FROM R r WHERE r.v > :lo AND NOT EXISTS (SELECT 1 FROM S s WHERE s.k = r.k) "
        "BEGIN NOW - INTERVAL 12 SECONDS END NOW",
        _some(lo=90),
        _unmet,
    ),
    Kind(
        "SELECT r.v, s.v AS w FROM R r JOIN S s ON r.k = s.k WHERE r.v > :lo AND s.v < :hi "
        "BEGIN NOW - INTERVAL 10 SECONDS END NOW",
        _some(lo=90, hi=99),
        _joined,
    ),
    Kind(
        "SELECT v % 3 AS x FROM R WHERE k = :k ORDER BY ts DESC, v LIMIT 4 BEGIN NOW - INTERVAL 10 SECONDS END NOW",
        _some(k=4),
        _newest,
        is_ordered=True,
    ),
    Kind(
        "SELECT k, count(*) AS n FROM G WHERE v > :lo GROUP BY k BEGIN TIMESTAMP '1970-01-01 00:00:10' END NOW",
        _some(lo=99),
        _landmark,
    ),
    Kind(
        "SELECT k, v FROM G WHERE v > :lo BEGIN TIMESTAMP '1970-01-01 00:00:10' END TIMESTAMP '1970-01-01 00:00:30'",
        _some(lo=99),
        _snapshot,
    ),
    Kind("SELECT v FROM R [ROWS 5] WHERE v > :lo", _some(lo=50), _last_rows),
    Kind(
        "SELECT r.v, p.rate FROM R r JOIN P p ON r.k = p.k WHERE r.v > :lo BEGIN NOW - INTERVAL 10 SECONDS END NOW",
        _some(lo=90),
        _rated,
    ),
)


class History:
    """One life of a weir, move by move."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(f"history {seed}")
        self.world = World()
        self.weir = weir.open(folder, settings=SETTINGS)
        for name in ("R", "S", "G"):
            keep = "forever" if name == "G" else KEEP_S
            self.weir.stream(name, "k int, v int, ts timestamp", time="ts", keep=keep, future="forever")
        self.weir.table("P", "k int, rate int, since timestamp", key="k", time="since", retroactive=True)
        self.queries: dict[int, tuple[Kind, Params]] = {}
        self.told: dict[int, Counter[tuple[Any, ...]]] = {}
        self.pending: dict[str, list[Row]] = {}  # rows that no batch has taken …
        self.changed: list[tuple[int, int, int]] = []  # … and changes of the table
        self.clock = 0  # of the rows that are made; they differ from it
        self.log: list[str] = []  # what a failure shows
        self.read = self.resumed = self.given_up = 0
        self.restart()

    def restart(self) -> None:
        """Another driver, which knows nothing but the folder."""
        self.direct = DirectWeir(self.weir, slices=self.dice.randint(1, 3), wall_us=10**6 * SECOND, takes_pushes=True)

    # ── moves ──

    def register(self) -> None:
        kind = self.dice.choice(KINDS)
        drawn = [kind.draw(self.dice) for _ in range(self.dice.choice((1, 1, 3, 6)))]
        if len(drawn) == 1:
            ids = [self.weir.register(kind.text, drawn[0], kept=True).id]
        else:
            ids = list(self.weir.register_many(kind.text, drawn, kept=True).ids)
        self.queries |= {id: (kind, params) for id, params in zip(ids, drawn, strict=True)}
        self.log.append(f"register {ids}: {kind.text} {drawn}")

    def drop(self) -> None:
        if self.queries:
            ids = self.dice.sample(sorted(self.queries), min(len(self.queries), self.dice.choice((1, 2, 7))))
            self.weir.drop(ids)
            for id in ids:
                del self.queries[id]
            self.log.append(f"drop {ids}")

    def retry(self) -> None:
        state = self.direct.context.state
        state.refresh(self.weir.ledger)
        lost = [id for id in state.given_up.ids().tolist() if id in self.queries]
        if lost:
            wanted = self.dice.sample(lost, self.dice.randint(1, len(lost)))
            self.weir.retry(wanted)
            self.resumed += len(wanted)
            self.log.append(f"retry {wanted}")

    def come(self) -> None:
        """Rows of some streams, near the clock, a few of them of long ago; now and then a crowd of one key."""
        self.clock += self.dice.choice((0, 1, 1, 2, 3, 12, 45))
        self.log.append("come")
        for stream in self.dice.sample("RSG", self.dice.randint(1, 3)):
            crowd = self.dice.random() < 0.15
            made = [
                Row(
                    stream,
                    max(0, self.clock - self.dice.choice((0, 0, 0, 1, 2, 5, 8, KEEP_S + 30))),
                    1 if crowd else self.dice.randint(0, 4),
                    self.dice.randint(0, 99),
                )
                for _ in range(20 if crowd else self.dice.randint(1, 6))
            ]
            self.pending.setdefault(stream, []).extend(made)
            self.log.append(f"  {stream}: {[tuple(r)[1:] for r in made]}")

    def change(self) -> None:
        """Versions of the table, of before and after now."""
        changed = [
            (self.dice.randint(0, 4), self.dice.randint(0, 9), self.clock + self.dice.randint(-6, 9)) for _ in range(2)
        ]
        changed = [*{one[0]: one for one in changed}.values()]
        self.weir.upsert(
            "P",
            {
                "k": pa.array([k for k, _, _ in changed], pa.int32()),
                "rate": pa.array([rate for _, rate, _ in changed], pa.int32()),
                "since": _times([since for _, _, since in changed]),
            },
        )
        self.changed += changed
        self.log.append(f"change {changed}")

    def vacuum(self) -> None:
        self.weir.vacuum()
        self.log.append("vacuum")

    def batch(self) -> None:
        """Run the next batch, maybe only after attempts that die on the way, each followed by other moves."""
        rows = {s: _table(made) for s, made in self.pending.items() if made}
        for _ in range(self.dice.choice((0, 0, 0, 1, 2))):
            point = self.dice.choice(("plan created", "kept state, mid-file", "all files written, not done"))
            try:
                with faults.arm(lambda at, point=point: _die(at, point)):
                    self.direct.batch(rows)
            except faults.Crash:
                self.log.append(f"died: {point}")
                self.restart()
                self.dice.choice((self.register, self.drop, self.vacuum))()
            else:
                break
        else:
            self.direct.batch(rows)
        self._take()
        self.check()

    def _take(self) -> None:
        """What the batch took, as the plain evaluation sees it. Rows are late by the clock before the batch."""
        world = self.world
        floor = -KEEP_S if world.now is None else world.now - KEEP_S
        for stream, made in self.pending.items():
            world.rows += [r for r in made if stream == "G" or r.t >= floor]
        self.pending = {}
        world.versions += self.changed
        self.changed = []
        newest = max((r.t for r in world.rows), default=None)
        world.now = newest if world.now is None or newest is None else max(world.now, newest)
        self.log.append(f"batch {self.direct.context.state.last}, now {world.now}")

    # ── what must hold ──

    def check(self) -> None:
        w, state = self.weir, self.direct.context.state
        done = w.ledger.done(state.last)
        assert done is not None
        assert (done.now_us is None) == (self.world.now is None)
        for part in done.kept:
            if part.path and batch_of_path(part.path) == done.batch:
                self._add_up(part.path)
        w.registry.refresh()
        w.state.refresh(w.ledger)
        lost = set(w.state.given_up.ids().tolist())
        self.given_up = max(self.given_up, len(lost))
        known = max((group.end_id for group in w.registry.groups(state.registry)), default=0)
        for id, (kind, params) in self.queries.items():
            about = f"query {id}: {kind.text} {params}\n" + "\n".join(self.log)
            expected = [] if self.world.now is None else kind.answer(self.world, params)
            kept = fetch.kept_answer(w._library.standing(id), w.files, w.state)
            if id < known and id not in lost:
                assert kept is not None, f"not kept: {about}"
                self.read += 1
                sums = Counter({row: n for row, n in self.told.get(id, Counter()).items() if n})
                assert sums == Counter(_rows(kept)), f"changes do not add up: {about}"
            else:
                assert kept is None, about
            if self.world.now is not None:
                got = _rows(w.query(id).fetch())
                assert Counter(got) == Counter(expected), f"{got}, expected {expected}: {about}"
                assert not kind.is_ordered or got == expected, f"{got}, expected {expected}: {about}"

    def _add_up(self, path: str) -> None:
        for shape in shapes_with_changes(self.weir.files, path):
            table = read_changes(self.weir.files, path, shape)
            assert table is not None
            rows = table.drop_columns([SLOT, CAME])
            for id, came, row in zip(
                table.column(SLOT).to_pylist(), table.column(CAME).to_pylist(), _rows(rows), strict=True
            ):
                self.told.setdefault(id, Counter())[row] += 1 if came else -1


def _die(at: str, point: str) -> None:
    if at == point:
        raise faults.Crash(point)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _times(seconds: list[int]) -> pa.Array:
    return pa.array([s * SECOND for s in seconds], pa.timestamp("us", "UTC"))


def _table(rows: list[Row]) -> pa.Table:
    columns = {"k": [r.k for r in rows], "v": [r.v for r in rows]}
    return pa.table({n: pa.array(c, pa.int32()) for n, c in columns.items()} | {"ts": _times([r.t for r in rows])})


def _moves(history: History) -> Iterator[Callable[[], None]]:
    """Mostly rows and batches; a first batch may well be empty."""
    weighted = [
        (history.register, 5), (history.come, 9), (history.batch, 12), (history.drop, 2), (history.retry, 4),
        (history.change, 2), (history.vacuum, 2), (history.restart, 1),
    ]  # fmt: skip
    moves, weights = zip(*weighted, strict=True)
    yield history.register
    yield from history.dice.choices(moves, weights, k=60)
    yield history.batch


@pytest.mark.parametrize("seed", few_are_quick(SEEDS, quick=0, tested=TESTED))
def test_kept_answers_of_a_random_history_are_right(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "weir", seed)
    for move in _moves(history):
        move()
    compared.append(history.read)
    tally("kept answers, a plain account", history.read)


def test_enough_was_compared() -> None:
    if len(compared) < TESTED:
        pytest.skip("only a part of the seeds was run")
    print(f"{sum(compared):,} kept answers compared with a plain evaluation")
    assert sum(compared) >= 100 * len(compared)
