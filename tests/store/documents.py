"""Batches without jobs: writes the documents and files of small batches, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.store.data_files import data_path
from weir.store.files import Files
from weir.store.ledger import Done, LateFile, Ledger, MatchFile, Plan, RowFile

SECOND = 1_000_000


class Batches:
    """Writes one batch after the other to a store; rows are given as times in seconds."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.ledger = Ledger(files)
        self.batch = -1
        self.row_counts: dict[str, int] = {}
        self.inbox_next = 0

    def add(
        self,
        rows: Mapping[str, Sequence[Sequence[int]]] | None = None,
        *,
        read_floors_s: Mapping[str, int] | None = None,
        late: Mapping[str, int] | None = None,
        demoted: Sequence[int] = (),
        registry: int = 0,
        inbox_next: int = 0,
    ) -> Done:
        """`rows`: for each stream the times of each file. Every file gets a match file beside it."""
        self.batch += 1
        floors = {name: floor * SECOND for name, floor in (read_floors_s or {}).items()}
        plan = Plan(
            self.batch, "engine", registry, 1, self.batch, None, dict(floors), dict(floors), {}, f"t{self.batch}"
        )
        assert self.ledger.create_plan(plan)
        row_files: list[RowFile] = []
        matches: list[MatchFile] = []
        for stream, parts in (rows or {}).items():
            for times in parts:
                first = self.row_counts.get(stream, 0)
                path = self.write("rows")
                row_files.append(RowFile(stream, path, first, len(times), min(times) * SECOND, max(times) * SECOND))
                self.row_counts[stream] = first + len(times)
                matches.append(MatchFile(self.write("matches"), len(matches), 1, len(times)))
        late_files = [LateFile(name, self.write("late"), n, {"late": n}) for name, n in (late or {}).items()]
        self.inbox_next = max(self.inbox_next, inbox_next)
        done = Done(
            batch=self.batch,
            plan_token=plan.token,
            now_us=max((f.t_max_us for f in row_files), default=0),
            rows=tuple(row_files),
            late=tuple(late_files),
            matches=tuple(matches),
            demoted=tuple(demoted),
            evictions=(),
            inbox_next=self.inbox_next,
            row_counts=dict(self.row_counts),
            wall_us=self.batch,
        )
        assert self.ledger.create_done(done)
        return done

    def write(self, folder: str) -> str:
        path = data_path(folder, self.batch, b"content")
        self.files.write(path, b"content")
        return path
