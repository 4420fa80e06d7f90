"""What an independent reader found in kept queries, each in the life that shows it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import weir
from tests.keeping import changes_in
from weir.answer.fetch import kept_answer
from weir.errors import FetchError, RegisterError
from weir.store.maintained import read_part
from weir.testing.direct import DirectWeir

SECOND = 1_000_000


class Life:
    """A weir with a stream of keys and numbers."""

    def __init__(self, folder: Path, keep: str | int = "1 hour", *, slices: int = 2, **settings: object) -> None:
        self.weir = weir.open(folder, settings=settings)
        self.weir.stream("r", "k string, v int, ts timestamp", time="ts", keep=keep)
        self.direct = DirectWeir(self.weir, wall_us=10**10 * SECOND, slices=slices)

    def batch(self, *rows: tuple[int, str, int]) -> list[tuple[int, bool, str]]:
        """A batch of rows (second, k, v); what came and went."""
        times = pa.array([t * SECOND for t, _, _ in rows], pa.timestamp("us", "UTC"))
        columns = {"k": [k for _, k, _ in rows], "v": pa.array([v for *_, v in rows], pa.int32()), "ts": times}
        return changes_in(self.weir, self.direct.batch({"r": pa.table(columns)} if rows else {}))

    def runs(self, kind: str) -> int:
        """How many rows are kept of a kind."""
        self.weir.state.refresh(self.weir.ledger)
        shapes = [
            shape
            for part in self.weir.state.kept.values()
            for shape in read_part(self.weir.files, part.path).shapes.values()
        ]
        of = (getattr(shape, kind) for shape in shapes)
        return sum(run.count for runs in of for run in (sum(runs, ()) if kind == "results" else runs))


def rows_of(query: weir.Query) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in query.fetch().to_pylist())


def test_a_late_row_may_meet_partners_that_have_expired(tmp_path: Path) -> None:
    life = Life(tmp_path)
    kept = life.weir.register("SELECT a.v, b.v AS w FROM r a, r b WHERE a.k = b.k", kept=True)
    plain = life.weir.register("SELECT a.v, b.v AS w FROM r a, r b WHERE a.k = b.k")
    life.batch((11_800, "x", 1), (8_600, "x", 2))  # two slices, two row files
    life.batch((13_200, "x", 3))
    life.batch()  # the file of 8,600 has expired …
    life.batch((11_400, "x", 4))  # … and its row is still among the partners of this one, which is late
    assert life.weir.queries()["reason"].to_pylist() == [None, None]
    assert rows_of(kept) == rows_of(plain) != []


@pytest.mark.parametrize("name", ["came", "went", "query", "v0", "row"])
def test_columns_may_be_called_as_those_of_alerts(tmp_path: Path, name: str) -> None:
    life = Life(tmp_path)
    kept = life.weir.register(f"SELECT k AS {name} FROM r WHERE v > 1", kept=True)
    assert life.batch((10, "x", 2)) == [(kept.id, True, "'x'")]


@pytest.mark.parametrize("name", ["came of row", "slot of row", "Row of 0", "to us", "rows of group", "constant 12"])
def test_columns_that_weir_has_itself_are_refused_by_name(tmp_path: Path, name: str) -> None:
    life = Life(tmp_path)
    with pytest.raises(RegisterError, match=f"Weir calls a column of its own `{name}`"):
        life.weir.register(f"SELECT k AS `{name}` FROM r WHERE v > 1", kept=True)
    life.weir.register(f"SELECT k AS `{name}` FROM r WHERE v > 1")


@pytest.mark.parametrize("select", ["k, count(*) AS n", "k, v"])
def test_of_dropped_queries_nothing_is_left_though_their_windows_never_end(tmp_path: Path, select: str) -> None:
    life = Life(tmp_path, keep="forever", slices=1)
    sql = f"SELECT {select} FROM r WHERE v > :lo {'GROUP BY k' if 'count' in select else ''} BEGIN 1 END NOW"
    life.weir.register(sql, {"lo": 10**6}, kept=True)  # it stays, and matches nothing
    left = []
    for t in range(60):
        if t % 3 == 0:
            query = life.weir.register(sql, {"lo": 0}, kept=True)
        life.batch(*[(100 + t, "x", 5)] * 10)
        if t % 3 == 2:
            query.drop()
            life.batch((100 + t, "y", 0))
            left.append(life.runs("results"))
    of_one = [] if "count" in select else [10 * (t + 1) for t in range(2, 60, 3)]  # the newest query sees all rows
    assert left == (of_one or [0] * 20)


def test_what_was_told_of_a_query_that_was_given_up_goes_with_it(tmp_path: Path) -> None:
    life = Life(tmp_path, slices=1, kept_results_max=10)
    sql = "SELECT k, v FROM r WHERE v > :lo BEGIN NOW - INTERVAL 5 SECONDS END NOW"
    life.weir.register(sql, {"lo": 1000}, kept=True)
    for number in range(4):
        query = life.weir.register(sql, {"lo": -1}, kept=True)
        life.batch(*((100 * number + 100, "x", v) for v in range(8)))
        life.batch(*((100 * number + 101, "x", v) for v in range(8)))
        assert life.runs("answers") == 8, "what was told before it was given up"
        query.drop()
        life.batch((100 * number + 150, "x", 1))
        assert life.runs("answers") == 0


def test_a_kept_answer_is_an_error_where_a_computed_one_is(tmp_path: Path) -> None:
    """The window reaches back to rows that expired while less was kept."""
    life = Life(tmp_path, keep=100)
    for t in (1000, 1060, 1120, 1180, 1240):
        life.batch((t, "x", 1))
    life.weir.vacuum()
    life.weir.change_keep("r", 1000)
    sql = "SELECT count(*) AS n FROM r BEGIN NOW - INTERVAL 900 SECONDS END NOW"
    kept, plain = life.weir.register(sql, kept=True), life.weir.register(sql)
    life.batch((1300, "x", 1))
    for query in (kept, plain):
        with pytest.raises(FetchError, match="have expired"):
            query.fetch()
    life.batch((2200, "x", 1))
    assert rows_of(kept) == rows_of(plain) == [(1,)]


def test_files_do_not_stay_for_the_little_that_a_quiet_shape_knows(tmp_path: Path) -> None:
    life = Life(tmp_path, keep="1 minute", slices=1, orphan_grace_s=0)
    life.weir.register("SELECT k, v FROM r WHERE v >= 0 ORDER BY v BEGIN NOW - INTERVAL 1 SECOND END NOW", kept=True)
    quiet = []
    for number in range(20):  # beside many results of one second a shape begins for which nothing comes
        sql = f"SELECT v AS v{number} FROM r WHERE v < :v"
        quiet.append(life.weir.register(sql, {"v": 0}, kept=True))
        life.batch(*((1000 + 2 * number, f"key{v}", v) for v in range(300)))
    life.weir.state.refresh(life.weir.ledger)
    (part,) = life.weir.state.kept.values()
    assert len(part.files) <= 6, part.files
    life.weir.vacuum()
    life.batch((1041, "last", -1))
    for query in quiet:
        standing = life.weir._library.standing(query.id)
        life.weir.state.refresh(life.weir.ledger)
        assert kept_answer(standing, life.weir.files, life.weir.state) is not None
        assert rows_of(query) == [(-1,)]


def test_windows_longer_than_time_itself(tmp_path: Path) -> None:
    life = Life(tmp_path, keep="forever")
    sql = "SELECT count(*) AS n FROM r BEGIN NOW - 9223372036854 END NOW"
    kept, plain = life.weir.register(sql, kept=True), life.weir.register(sql)
    life.batch((10**9, "x", 1))
    assert rows_of(kept) == rows_of(plain) == [(1,)]
