"""Nothing grows but what is kept: files by kind, files that are mapped, what dead drivers and old fetches left.

`benchmarks/growth.py` measures the same over thousands of batches.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import weir
from weir.runtime.housekeeping import Housekeeping
from weir.testing.direct import DirectWeir

MINUTE = 60_000_000
SETTINGS = {
    "vacuum_every_batches": 5, "compact_every_batches": 2, "fold_every_batches": 5, "orphan_grace_s": 0,
    "late_keep_s": 600,
}  # fmt: skip


class Job:
    """A weir whose streams keep ten minutes, a batch a minute, and drivers that come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.weir = weir.open(folder, settings=SETTINGS)
        for name in ("R", "S"):
            self.weir.stream(name, "k bigint, a bigint, ts timestamp", time="ts", keep="10 minutes")
        self.query = self.weir.register("SELECT a FROM R WHERE a > 1")
        self.weir.register("SELECT R.a, S.a AS b FROM R JOIN S ON R.k = S.k WHERE R.a > 1")
        self.batches = 0
        self.start_driver()

    def start_driver(self) -> None:
        """The one before died: nothing of it is left but its files."""
        self.direct = DirectWeir(self.weir)
        self.keeper = Housekeeping(
            self.weir.files, self.weir.settings, self.direct.context.registry, self.direct.segments.in_use
        )

    def run(self, batches: int) -> None:
        for _ in range(batches):
            self.direct.wall_us = (self.batches + 1) * MINUTE
            at = [self.batches * MINUTE] * 4 + [(self.batches - 100) * MINUTE]  # the last one is too late
            rows = pa.table({"k": [1] * 5, "a": [1, 2, 3, 4, 5], "ts": pa.array(at, pa.timestamp("us", "UTC"))})
            self.direct.batch({"R": rows, "S": rows})
            self.query.fetch()
            self.keeper.after(self.batches)
            self.keeper.close()
            assert self.keeper.error is None
            self.batches += 1

    def files(self) -> Counter[str]:
        """How many files there are of each kind."""
        paths = (p.relative_to(self.folder) for p in self.folder.rglob("*") if p.is_file())
        return Counter("/".join(p.parts[:2]) if p.parts[0] in ("cache", "seals") else p.parts[0] for p in paths)

    def mapped_and_deleted(self) -> list[str]:
        maps = Path("/proc/self/maps")
        lines = maps.read_text().splitlines() if maps.exists() else []
        return [line for line in lines if "(deleted)" in line and str(self.folder) in line]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "weir")


@pytest.mark.slow
def test_files_of_every_kind_stay_few(job: Job) -> None:
    job.run(25)
    before = job.files()
    assert min(before[kind] for kind in ("ledger", "rows", "matches", "late", "cache/segments", "cache/runs")) > 0
    job.run(25)
    grown = {kind: (before[kind], count) for kind, count in job.files().items() if count > before[kind] + 2}
    assert not grown, f"files after 25 and after 50 batches: {grown}"
    assert job.weir.late("R").num_rows <= 20, "late rows can be looked at for ten minutes"
    assert job.weir.state.late == {name: {"late": 49} for name in ("R", "S")}, "they are counted for ever"


def test_a_deleted_file_is_not_kept_open(job: Job) -> None:
    """Its space would not be free."""
    for _ in range(4):
        job.run(5)
        assert job.mapped_and_deleted() == []


def test_what_falls_due_while_something_is_under_way_is_done_next(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction that takes long must not keep every vacuum away."""
    begun, may_end = threading.Event(), threading.Event()
    vacuumed: list[int] = []

    def long_compaction(keeper: Housekeeping, batch: int) -> None:
        begun.set()
        assert may_end.wait(60)

    monkeypatch.setattr(Housekeeping, "_compact", long_compaction)
    monkeypatch.setattr(Housekeeping, "_vacuum", lambda keeper, batch: vacuumed.append(batch))
    job.keeper.after(1)
    assert begun.wait(60)
    job.keeper.after(4)  # a vacuum is due, and has to wait
    assert vacuumed == []
    may_end.set()
    job.keeper.close()
    job.keeper.after(6)  # nothing is due by its number
    job.keeper.close()
    assert vacuumed == [6]


def test_segments_of_drivers_that_died_go(job: Job) -> None:
    left = set()
    for _ in range(3):
        job.run(5)
        left = {p.relative_to(job.folder).as_posix() for p in (job.folder / "cache/segments").rglob("*") if p.is_file()}
        assert left
        assert left <= job.direct.segments.in_use()
        job.start_driver()
    job.run(1)
    assert any(p.is_file() for p in (job.folder / "cache/segments").rglob("*")), "the new driver has its own"


def test_older_results_that_nobody_asked_for_of_late_go(job: Job) -> None:
    job.run(4)
    later = job.weir.register("SELECT a FROM R WHERE a > 2")
    job.run(1)
    answer = later.fetch()
    older = [p for p in (job.folder / "cache/older").rglob("*") if p.is_file()]
    assert older
    two_days_ago = time.time() - 2 * 86_400
    for path in older:
        os.utime(path, (two_days_ago, two_days_ago))
    job.weir.vacuum()
    assert not [p for p in older if p.exists()]
    assert later.fetch().equals(answer)


def test_a_new_folder_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        job = Job(tmp_path / "weir")
        job.run(2)
    finally:
        os.umask(before)
    assert job.folder.stat().st_mode & 0o077 == 0
