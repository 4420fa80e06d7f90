"""Faults that kept queries once had, each in the smallest life that shows it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weir
from weir.answer import fetch
from weir.plan.finishes import Once
from weir.runtime import maintain
from weir.runtime.maintain import CAME
from weir.store.data_files import batch_of_path
from weir.store.ledger import Done
from weir.store.maintained import SLOT, read_changes, shapes_with_changes
from weir.testing.direct import DirectWeir

SECOND = 1_000_000
WINDOW = "BEGIN NOW - INTERVAL 10 SECONDS END NOW"
Answer = list[tuple[Any, ...]]


class Life:
    """A weir with a stream R and a retroactive table P, and what each batch said of its changes."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.weir = weir.open(folder, settings=settings)
        self.weir.stream("R", "k int, v int, ts timestamp", time="ts", keep=40, future="forever")
        self.weir.table("P", "k int, rate int, since timestamp", key="k", time="since", retroactive=True)
        self.direct = DirectWeir(self.weir, wall_us=10**6 * SECOND, takes_pushes=True)
        self.told: dict[int, Counter[tuple[Any, ...]]] = {}

    def batch(self, *rows: tuple[int, int, int]) -> Done:
        """A batch of rows (k, v, second)."""
        columns = [*zip(*rows, strict=True)]
        done = self.direct.batch({"R": table("k v ts", columns)} if rows else {})
        for part in done.kept:
            if part.path and batch_of_path(part.path) == done.batch:
                for shape in shapes_with_changes(self.weir.files, part.path):
                    changes = read_changes(self.weir.files, part.path, shape)
                    assert changes is not None
                    self._add_up(changes)
        return done

    def _add_up(self, changes: pa.Table) -> None:
        slots, flags = changes.column(SLOT).to_pylist(), changes.column(CAME).to_pylist()
        for id, came, row in zip(slots, flags, rows_of(changes.drop_columns([SLOT, CAME])), strict=True):
            self.told.setdefault(id, Counter())[row] += 1 if came else -1

    def kept(self, id: int) -> Answer | None:
        """What is kept of a query; the sum of its changes is the same."""
        w = self.weir
        w.registry.refresh()
        w.state.refresh(w.ledger)
        found = fetch.kept_answer(w._library.standing(id), w.files, w.state)
        if found is None:
            return None
        assert Counter(rows_of(found)) == +self.told.get(id, Counter()), "changes do not add up"
        return rows_of(found)

    def fetch(self, id: int) -> Answer:
        return rows_of(self.weir.query(id).fetch())


def table(names: str, columns: list[tuple[int, ...]]) -> pa.Table:
    """Columns of ints, the last one seconds."""
    *plain, times = (pa.array(column, pa.int64()) for column in columns)
    arrays = [column.cast(pa.int32()) for column in plain]
    at = pa.compute.multiply(times, SECOND).cast(pa.timestamp("us", "UTC"))
    return pa.table([*arrays, at], names=names.split())


def rows_of(found: pa.Table) -> Answer:
    return [*zip(*(column.to_pylist() for column in found.columns), strict=True)]


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path / "weir", kept_results_max=4)


def test_changes_of_a_table_from_before_a_kept_query_are_read_once(life: Life) -> None:
    """They were events and known ones at once; how long they hold was then wrong for every query over the table."""
    sql = f"SELECT r.v, p.rate FROM R r JOIN P p ON r.k = p.k WHERE r.v > 0 {WINDOW}"
    life.weir.upsert("P", table("k rate since", [(4,), (7,), (1,)]))
    life.batch((1, 5, 2))
    kept = life.weir.register(sql, kept=True).id
    life.batch()
    plain = life.weir.register(sql).id
    life.batch((4, 9, 3))
    assert life.kept(kept) == life.fetch(plain) == [(9, 7)]


def test_rows_in_another_order_are_another_answer(life: Life) -> None:
    id = life.weir.register(f"SELECT v % 2 AS x FROM R ORDER BY ts, v LIMIT 3 {WINDOW}", kept=True).id
    life.batch((1, 0, 5), (1, 1, 6))
    assert life.kept(id) == [(0,), (1,)]
    life.batch((1, 2, 15))
    assert life.kept(id) == life.fetch(id) == [(1,), (0,)]


def test_queries_from_before_there_is_a_clock_are_kept(life: Life) -> None:
    id = life.weir.register(f"SELECT v FROM R WHERE v > 1 {WINDOW}", kept=True).id
    life.batch()
    life.batch()
    assert life.kept(id) == []
    life.batch((1, 2, 5))
    assert life.kept(id) == [(2,)]


COUNTED = f"SELECT k, count(*) AS n FROM R WHERE v > :lo GROUP BY k {WINDOW}"
DISTINCT = f"SELECT DISTINCT k FROM R WHERE v > :lo {WINDOW}"


ROWS = f"SELECT k, v FROM R WHERE v > :lo {WINDOW}"
SORTED = f"SELECT k, v FROM R WHERE v > :lo ORDER BY v {WINDOW}"


@pytest.mark.parametrize("sql", [COUNTED, ROWS, SORTED])
def test_what_was_told_before_a_query_was_given_up_counts_when_it_begins_again(life: Life, sql: str) -> None:
    first, second = life.weir.register_many(sql, {"lo": [0, 50]}, kept=True).ids
    life.batch((1, 5, 1), (2, 60, 1))
    before = life.kept(first)
    assert before is not None
    assert len(before) == 2
    life.batch(*((3, v, 2) for v in range(1, 5)))
    assert life.kept(first) is None, "it has six results, four are allowed"
    life.batch((1, 61, 4))
    life.weir.drop(second)  # now nobody keeps the shape
    life.batch((1, 62, 4))
    life.batch((1, 63, 15))
    life.weir.retry(first)
    life.batch()
    assert life.kept(first) == life.fetch(first)
    assert [row[0] for row in life.fetch(first)] == [1]


def test_nothing_is_left_of_a_query_that_begins_again(life: Life) -> None:
    """Its constants may be forgotten before its sums are."""
    first = life.weir.register(COUNTED, {"lo": 0}, kept=True).id
    life.batch((1, 5, 1))
    life.batch(*((1, v, 2) for v in range(1, 5)))
    assert life.kept(first) is None
    life.weir.register(COUNTED, {"lo": 99}, kept=True)  # in the other part
    life.weir.register(COUNTED, {"lo": 99}, kept=True)
    life.batch()
    life.batch((1, 5, 11))
    life.weir.retry(first)
    life.batch((1, 6, 13))
    assert life.kept(first) == life.fetch(first) == [(1, 2)]


def test_a_shape_that_fails_for_once_goes_on_when_it_is_tried_again(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = life.weir.register_many(DISTINCT, {"lo": [0, 1, 2]}, kept=True).ids
    other = life.weir.register(COUNTED, {"lo": 0}, kept=True).id
    life.batch((1, 5, 1), (2, 6, 1))
    finished = maintain.finished_many

    def failing(finish: Any, *rest: Any) -> Any:
        if isinstance(finish, Once):
            raise ArithmeticError("not now")
        return finished(finish, *rest)

    monkeypatch.setattr(maintain, "finished_many", failing)
    done = life.batch((3, 7, 3))
    monkeypatch.undo()
    assert [(q.first, q.count, q.reason) for q in done.given_up] == [(ids[0], 3, "ArithmeticError: not now")]
    assert life.kept(ids[0]) is None
    assert life.kept(other) == life.fetch(other)
    life.batch((3, 8, 11))
    life.weir.retry(list(ids))
    life.batch((4, 8, 11))
    for id in ids:
        assert life.kept(id) == life.fetch(id)
        assert sorted(life.fetch(id)) == [(3,), (4,)]
