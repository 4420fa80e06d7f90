"""Cores that are the same for all queries of a shape: one copy of their results, read off the rows, serves all of them.

Orders that have no shipment yet, counted in plain Python: the shipments are what all queries read, whoever asks.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.keeping import changes_in, rows_of
from weir.answer.common_cores import common_cores
from weir.answer.fetch import kept_answer
from weir.store.maintained import read_part
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
SINCE = "BEGIN NOW - INTERVAL 10 SECONDS END NOW"
OPEN = (
    "SELECT o.id, o.amount FROM orders o WHERE o.area = :area AND NOT EXISTS "
    f"(SELECT 1 FROM shipment s WHERE s.id = o.id AND s.weight > 1) {SINCE}"
)
AREAS = 4


class Yard:
    """A weir with orders and shipments, and what came so far."""

    def __init__(self, folder: Path, seed: int, **settings: object) -> None:
        self.dice = random.Random(seed)
        self.weir = weir.open(folder, settings=settings)
        self.weir.stream("orders", "id bigint, area bigint, amount bigint, ts timestamp", time="ts", keep="1 minute")
        self.weir.stream("shipment", "id bigint, weight bigint, ts timestamp", time="ts", keep="1 minute")
        self.slices = 2
        self.orders: list[tuple[int, int, int, int]] = []
        self.shipments: list[tuple[int, int, int]] = []
        self.standing: dict[int, int] = {}  # query → area
        self.told: dict[int, Counter[str]] = {}
        self.now_s = 0
        self.direct = DirectWeir(self.weir, slices=2, wall_us=10_000 * SECOND)

    def register(self, count: int) -> None:
        areas = [self.dice.randrange(AREAS) for _ in range(count)]
        queries = self.weir.register_many(OPEN, {"area": areas}, kept=True)
        self.standing |= dict(zip(queries.ids, areas, strict=True))

    def drop(self, ids: list[int]) -> None:
        self.weir.drop(ids)
        for id in ids:
            del self.standing[id]

    def batch(self, orders: int, shipments: int) -> None:
        self.now_s += 2
        draw = self.dice.randrange
        new = [(len(self.orders) + k, draw(AREAS), draw(3), self.now_s - draw(3)) for k in range(orders)]
        self.orders += new
        sent = [(draw(len(self.orders) + 1), draw(4), self.now_s - draw(3)) for _ in range(shipments)]
        self.shipments += sent
        # The clock follows the rows, so one of each batch is as late as it says.
        rows = {}
        if new:
            new[0] = (*new[0][:3], self.now_s)
            self.orders[-len(new)] = new[0]
            rows["orders"] = table("id area amount ts", new)
        if sent:
            sent[0] = (*sent[0][:2], self.now_s)
            self.shipments[-len(sent)] = sent[0]
            rows["shipment"] = table("id weight ts", sent)
        if not rows:
            self.now_s -= 2
        done = self.direct.batch(rows)
        for id, came, row in changes_in(self.weir, done):
            self.told.setdefault(id, Counter())[row] += 1 if came else -1
        self.check()

    def expected(self, area: int) -> Counter[tuple[int, int]]:
        edge = self.now_s - 10
        shipped = {id for id, weight, t in self.shipments if edge < t <= self.now_s and weight > 1}
        seen = ((id, of, amount) for id, of, amount, t in self.orders if edge < t <= self.now_s)
        return Counter((id, amount) for id, of, amount in seen if of == area and id not in shipped)

    def check(self) -> None:
        w = self.weir
        w.registry.refresh()
        w.state.refresh(w.ledger)
        for id, area in self.standing.items():
            answer = kept_answer(w._library.standing(id), w.files, w.state)
            assert answer is not None, f"{id} is kept"
            assert Counter(tuple(row.values()) for row in answer.to_pylist()) == self.expected(area), id
            left = Counter({row: count for row, count in self.told.get(id, Counter()).items() if count})
            assert left == Counter(rows_of(answer)), f"what came and went of {id} adds up to its answer"

    def restart(self) -> None:
        self.direct = DirectWeir(self.weir, slices=self.dice.randint(1, 3), wall_us=self.direct.wall_us)


def table(names: str, rows: list[tuple[int, ...]]) -> pa.Table:
    columns = dict(zip(names.split(), zip(*rows, strict=True), strict=True))
    times = pa.array([t * SECOND for t in columns.pop("ts")], pa.timestamp("us", "UTC"))
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()} | {"ts": times})


@pytest.mark.parametrize("settings", [{}, {"demote_pairs_min": 3, "demote_share": 0.0001}], ids=["matched", "demoted"])
@pytest.mark.parametrize("seed", range(3))
def test_orders_without_shipment_are_right_whoever_comes_and_goes(
    tmp_path: Path, seed: int, settings: dict[str, object]
) -> None:
    """Where the shipments match too much to be matched, they are read all the same: orders are few an area."""
    yard = Yard(tmp_path / "weir", seed, **settings)
    yard.batch(9, 9)
    for step in range(25):
        if step in (0, 24) or yard.dice.random() < 0.5:
            yard.register(yard.dice.choice([2, 5]))
        if yard.standing and step < 24 and yard.dice.random() < 0.2:
            some = yard.dice.randint(1, len(yard.standing))
            yard.drop(yard.dice.sample(sorted(yard.standing), some))
        if step % 9 == 8 and yard.standing:  # nobody is left, and others come later
            yard.drop(sorted(yard.standing))
        if yard.dice.random() < 0.1:
            yard.restart()
        orders = 2 if settings else yard.dice.choice([0, 3, 12])
        yard.batch(orders, yard.dice.choice([0, 4, 30]))
    reasons = set(yard.weir.queries().column("reason").to_pylist())
    assert yard.standing
    assert (reasons != {None}) == bool(settings), reasons


def test_one_copy_serves_all(tmp_path: Path) -> None:
    """What is kept of shipments does not depend on how many queries read them."""
    kept = {}
    for count in (2, 60):
        yard = Yard(tmp_path / str(count), 5)
        yard.register(count)
        for _ in range(4):
            yard.batch(6, 20)
        heavy = sum(weight > 1 for _, weight, _ in yard.shipments)
        runs = [
            run.count
            for part in yard.weir.state.kept.values()
            for shape in read_part(yard.weir.files, part.path).shapes.values()
            for run in shape.results[1]
        ]
        assert sum(runs) == 2 * heavy, "a copy in each of two parts"
        kept[count] = len(yard.standing)
    assert kept == {2: 2, 60: 60}
    said = yard.weir.query(next(iter(yard.standing))).explain()
    assert "of core 1 one copy serves all queries of this shape" in said


FEW = "(SELECT id FROM orders WHERE area = :a) o"
COMMON = {
    OPEN: {1},
    f"SELECT count(*) AS n FROM orders WHERE amount > :a AND id IN (SELECT id FROM shipment) {SINCE}": {1},
    f"SELECT o.id FROM {FEW} LEFT JOIN (SELECT id, weight FROM shipment) s ON s.id = o.id {SINCE}": {1},
    f"SELECT o.id FROM {FEW} LEFT JOIN shipment s ON s.id = o.id AND s.weight + o.id > :a {SINCE}": {1},
    f"SELECT o.id FROM {FEW} WHERE o.id > (SELECT max(weight) FROM shipment) {SINCE}": {1},
    # A constant of its own; or shipments without an order, or beside orders, are each query's own rows.
    f"SELECT o.id FROM {FEW} WHERE o.id IN (SELECT id FROM shipment WHERE weight > :a) {SINCE}": set(),
    f"SELECT id FROM orders WHERE area = :a UNION ALL SELECT id FROM shipment {SINCE}": set(),
    f"SELECT id FROM orders WHERE area = :a EXCEPT SELECT id FROM shipment {SINCE}": set(),
    f"SELECT s.id FROM {FEW} RIGHT JOIN shipment s ON s.id = o.id {SINCE}": set(),
    f"SELECT s.id FROM {FEW} FULL JOIN shipment s ON s.id = o.id {SINCE}": set(),
}


@pytest.mark.parametrize("sql", COMMON)
def test_which_cores_are_common(tmp_path: Path, sql: str) -> None:
    w = Yard(tmp_path / "weir", 0).weir
    params = {"area" if ":area" in sql else "a": [1, 2]}
    kept_as = w._library.standing(w.register_many(sql, params, kept=True).ids[0])
    parts = kept_as.parts
    assert kept_as.kept_as is not None
    assert common_cores(parts, kept_as.kept_as.fixed) == COMMON[sql]


def shapes_of(w: weir.Weir) -> set[str]:
    w.registry.refresh()
    return {group.kept_as.shape for group in w.registry.groups(w.registry.count) if group.kept_as is not None}


def test_queries_that_agree_are_one_shape(tmp_path: Path) -> None:
    """Registered together they may agree in anything; alone only lengths of windows count."""
    w = Yard(tmp_path / "weir", 0).weir
    two = {"area": [1, 2]}
    w.register_many(OPEN, two, kept=True)
    w.register_many(OPEN, two, kept=True)
    assert len(shapes_of(w)) == 1
    w.register_many(OPEN.replace("weight > 1", "weight > 2"), two, kept=True)
    assert len(shapes_of(w)) == 2
    w.register_many(OPEN.replace("weight > 1", "weight > :area"), two, kept=True)
    w.register(OPEN, {"area": 3}, kept=True)
    assert len(shapes_of(w)) == 3, "those whose constants differ, and those that are alone"
    plain = OPEN.replace(" AND s.weight > 1", "")
    for sql in (plain, plain, plain.replace("10 SECONDS", "9 SECONDS")):
        w.register(sql, {"area": 3}, kept=True)
    assert len(shapes_of(w)) == 5, "two lengths of windows"
