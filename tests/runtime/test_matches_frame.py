"""What a sink gets, without Spark: the function that `mapInArrow` would run, and the schema it promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weir
from tests.store.pieces import selected
from weir.runtime import matches_frame as frames
from weir.runtime.loop import Context
from weir.runtime.matches_frame import matches_frame
from weir.store.ledger import Done, MatchFile, Plan, RowFile
from weir.store.matches import Piece, write_matches
from weir.store.row_files import arrow_schema, write_table
from weir.testing.direct import DirectWeir

SECOND = 1_000_000


class Session:
    """Takes the place of Spark: `range` is its numbers, `mapInArrow` runs at once."""

    def __init__(self) -> None:
        self.ddl = ""
        self.numbers: range = range(0)

    def range(self, start: int, stop: int, step: int, partitions: int) -> Session:
        self.numbers = range(start, stop, step)
        return self

    def mapInArrow(  # noqa: N802  # Spark's name
        self, read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], ddl: str
    ) -> pa.Table:
        self.ddl = ddl
        batches = list(read(iter([pa.record_batch({"id": pa.array(self.numbers, pa.int64())})])))
        return pa.Table.from_batches(batches)


class World:
    """Two streams, batches written by hand."""

    def __init__(self, folder: Path) -> None:
        self.weir = weir.open(folder)
        self.weir.stream("R", "a int, ts timestamp", time="ts")
        self.weir.stream("S", "b string, ts timestamp", time="ts")
        self.context: Context = DirectWeir(self.weir).context
        self.counts = {"R": 0, "S": 0}
        self.batch = -1

    def commit(
        self,
        rows: dict[str, list[tuple[Any, int]]],
        pieces: list[Piece],
        floors_s: dict[str, int] | None = None,
    ) -> Done:
        self.batch += 1
        floors: dict[str, int | None] = {name: s * SECOND for name, s in (floors_s or {}).items()}
        defined = self.weir.catalog_log.count()
        plan = Plan(self.batch, self.weir.identity.engine, 0, defined, 0, None, floors, floors, {}, f"t{self.batch}")
        assert self.context.ledger.create_plan(plan)
        files = []
        for name, some in rows.items():
            schema = arrow_schema(self.weir.catalog.streams[name.lower()].columns)
            times = [s * SECOND for _, s in some]
            arrays = [pa.array([v for v, _ in some], schema.field(0).type), pa.array(times).cast(schema.field(1).type)]
            path = write_table(self.weir.files, "rows", self.batch, pa.table(arrays, schema=schema))
            files.append(RowFile(name, path, self.counts[name], len(some), min(times), max(times)))
            self.counts[name] += len(some)
        path = write_matches(self.weir.files, self.batch, pieces)
        match = MatchFile(path, 0, 0, 0)
        done = Done(self.batch, plan.token, 0, tuple(files), (), (match,), (), (), 0, dict(self.counts), 0)
        assert self.context.ledger.create_done(done)
        self.context.state.refresh(self.context.ledger)
        return done

    def frame(self, done: Done) -> tuple[str, list[dict[str, Any]]]:
        session = Session()
        found: Any = matches_frame(session, self.context, done, 2)  # type: ignore[arg-type]  # it only has to look so
        rows = found.to_pylist()
        listed = [row.pop("partners") for row in rows]
        self.partners = [None if of is None else [(p["stream"], p["row"]) for p in of] for of in listed]
        for row in rows:
            for name, value in row.items():
                if isinstance(value, dict):
                    row[name] = (*list(value.values())[:-1], int(value["ts"].timestamp()))
            row["time"] = int(row["time"].timestamp())
        return session.ddl, rows


def longs(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


HEAD = ("query", "core", "stream", "row", "time", "partner_stream", "partner_row")


def test_selections_have_no_partners(tmp_path: Path) -> None:
    world = World(tmp_path)
    done = world.commit({"R": [(5, 1), (6, 2)]}, [selected("R", 0, longs(0, 1, 3), longs(7, 7, 8))])
    ddl, rows = world.frame(done)
    assert ddl == (
        "query bigint, core int, stream string, row bigint, time timestamp, partner_stream string, partner_row bigint, "
        "partners array<struct<stream:string,row:bigint>>, `R` struct<`a`:int,`ts`:timestamp>"
    )
    assert [tuple(row.values()) for row in rows] == [
        (7, 0, "R", 0, 1, None, None, (5, 1)),
        (7, 0, "R", 1, 2, None, None, (6, 2)),
        (8, 0, "R", 1, 2, None, None, (6, 2)),
    ]


@pytest.mark.parametrize("block", [100_000, 1])
def test_partners_come_from_any_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(frames, "BLOCK_ROWS", block)
    world = World(tmp_path)
    world.commit({"S": [("x", 1), ("y", 2)]}, [])
    world.commit({"S": [("z", 3)]}, [])
    first = Piece("R~S", 0, longs(1, 0), longs(0, 3, 4), longs(4, 4, 5, 4), longs(2, 0, 0, 1)[None])
    done = world.commit({"R": [(5, 8), (6, 9)]}, [selected("R", 0, longs(0, 0, 1), longs(3)), first])
    ddl, rows = world.frame(done)
    assert ddl.endswith(", `R` struct<`a`:int,`ts`:timestamp>, `S` struct<`b`:string,`ts`:timestamp>")
    assert [tuple(row.values()) for row in rows] == [
        (3, 0, "R", 1, 9, None, None, (6, 9), None),
        (4, 0, "R", 1, 9, "S", 2, (6, 9), ("z", 3)),
        (4, 0, "R", 1, 9, "S", 0, (6, 9), ("x", 1)),
        (5, 0, "R", 1, 9, "S", 0, (6, 9), ("x", 1)),
        (4, 0, "R", 0, 8, "S", 1, (5, 8), ("y", 2)),
    ]
    assert world.partners == [None, [("S", 2)], [("S", 0)], [("S", 0)], [("S", 1)]]
    second = Piece("R~S", 1, longs(3), longs(0, 2), longs(4, 4), longs(0, 1)[None])
    done = world.commit({"S": [("w", 10)]}, [second])
    _, rows = world.frame(done)
    assert [tuple(row.values()) for row in rows] == [
        (4, 0, "S", 3, 10, "R", 0, (5, 8), ("w", 10)),
        (4, 0, "S", 3, 10, "R", 1, (6, 9), ("w", 10)),
    ]


def test_partners_of_the_same_stream_have_a_column_of_their_own(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit({"R": [(1, 1)]}, [])
    join = Piece("R~R", 1, longs(1), longs(0, 2), longs(4, 4), longs(0, 1)[None])
    done = world.commit({"R": [(2, 2)], "S": [("x", 2)]}, [join])
    ddl, rows = world.frame(done)
    assert ddl.endswith(", `R_partner` struct<`a`:int,`ts`:timestamp>")
    assert [(r["row"], r["partner_stream"], r["partner_row"], r["R"], r["S"], r["R_partner"]) for r in rows] == [
        (1, "R", 0, (2, 2), None, (1, 1)),
        (1, "R", 1, (2, 2), None, (2, 2)),
    ]
    other = world.commit({"R": [(3, 3)]}, [selected("R", 2, longs(0, 1), longs(9))])
    assert "partner>" not in world.frame(other)[0]
    assert "R_partner" not in world.frame(other)[0]


@pytest.mark.parametrize("block", [100_000, 1])
def test_joins_of_many_list_all_partners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(frames, "BLOCK_ROWS", block)
    world = World(tmp_path)
    world.commit({"R": [(1, 1), (2, 2)], "S": [("x", 2)]}, [])
    partners = np.array([[1, 0], [0, 0], [0, 1]], np.int64)
    join = Piece("R~R~R~S", 1, longs(2), longs(0, 2), longs(4, 5), partners[[0, 2, 1]])
    done = world.commit({"R": [(3, 3)]}, [join])
    ddl, rows = world.frame(done)
    assert ddl.endswith("`R_partner` struct<`a`:int,`ts`:timestamp>, `R_partner2` struct<`a`:int,`ts`:timestamp>")
    assert [tuple(row.values()) for row in rows] == [
        (4, 0, "R", 2, 3, "R", 1, (3, 3), ("x", 2), (2, 2), (1, 1)),
        (5, 0, "R", 2, 3, "R", 0, (3, 3), ("x", 2), (1, 1), (2, 2)),
    ]
    assert world.partners == [[("R", 1), ("R", 0), ("S", 0)], [("R", 0), ("R", 1), ("S", 0)]]


def test_a_stream_may_be_called_like_the_partners(tmp_path: Path) -> None:
    world = World(tmp_path)
    for name in ("r_PARTNER", "Row"):
        world.weir.stream(name, "c int, ts timestamp", time="ts")
        world.counts[name] = 0
    join = Piece("R~R", 1, longs(0), longs(0, 1), longs(4), longs(0)[None])
    done = world.commit({"R": [(2, 2)], "r_PARTNER": [(9, 9)], "Row": [(8, 8)]}, [join])
    ddl, rows = world.frame(done)
    columns = re.findall(r"`(\w+)` struct|(\w+) (?:bigint|string|timestamp),", ddl)
    names = [(quoted or plain).lower() for quoted, plain in columns]
    assert len(set(names)) == len(names), "Spark does not tell columns apart by case"
    assert (rows[0]["R"], rows[0]["r_PARTNER"], rows[0]["R_partner_"]) == ((2, 2), None, (2, 2))
    assert (rows[0]["row"], rows[0]["Row_"]) == (0, None)


def test_an_expired_partner_is_null(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit({"S": [("x", 1)]}, [])
    world.commit({"S": [("y", 50)]}, [])
    join = Piece("R~S", 0, longs(0), longs(0, 2), longs(4, 4), longs(0, 1)[None])
    done = world.commit({"R": [(5, 60)]}, [join], {"S": 40})
    _, rows = world.frame(done)
    assert [(r["partner_row"], r["R"], r["S"]) for r in rows] == [(0, (5, 60), None), (1, (5, 60), ("y", 50))]
