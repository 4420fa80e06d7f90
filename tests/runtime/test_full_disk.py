"""A disk that is full at random moments, without Spark: pushes, registrations, batches and vacuums get stuck in it.

What is refused has left nothing behind, what was acknowledged is there once, answers are the oracle's, and can be asked
for while the disk is full. The disk is a small one of its own, or, where none can be mounted, one whose writes fail.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import weir
import weir.store.check
from tests.disks import PAGE, Disk, FailingDisk, small_disk
from tests.marks import few_are_quick
from tests.poison import TEXTS, VICTIMS, World
from weir.errors import WeirError
from weir.store.inbox import Inbox
from weir.testing.direct import DirectWeir

STEPS = 60
SETTINGS = {"tail_queries_max": 6, "fold_every_batches": 3, "compact_every_batches": 2, "orphan_grace_s": 0}


class Trials:
    """A weir whose disk gets full, and what must be true of it."""

    def __init__(self, disk: Disk, seed: int) -> None:
        self.disk = disk
        self.dice = random.Random(f"full {seed}")
        self.world = World(disk.folder / "weir", **SETTINGS)
        self.direct = DirectWeir(self.world.weir, wall_us=10**16)
        self.waiting: dict[int, tuple[str, pa.Table]] = {}  # acknowledged pushes that no batch has taken, by ticket
        self.given: dict[str, list[pa.Table]] = {"R": [], "S": [], "T": []}  # rows that are not pushed yet
        self.tickets = 0
        for name in self.given:
            self.world.keep_rows(name, pa.table({}))
        self.outcomes: Counter[str] = Counter()

    def step(self) -> None:
        """One step on a disk that is more or less full; then the truth is what it must be."""
        name = self.dice.choice(["push", "push", "batch", "batch", "register", "drop", "vacuum", "fetch"])
        left = self.dice.randrange(self.dice.choice([1, 2, 5, 40, 200])) * PAGE
        done = False
        with self.disk.fill(left):
            try:
                done = bool(getattr(self, name)())
                self.outcomes[f"{name} done"] += done
            except WeirError as error:
                assert "No space left on device" in str(error), f"{name}: {error}"
                assert name != "fetch", f"an answer needs no space: {error}"
                self.outcomes[f"{name} refused"] += 1
        self.settle(name, done)

    def settle(self, name: str, done: bool) -> None:
        """With space again, as a process that knows nothing: what was refused is not there."""
        fresh = weir.open(self.world.weir.files.location)
        assert Inbox(fresh.files).next(0) == self.tickets, f"after {name}"
        standing = fresh.queries()["id"].to_pylist()
        assert sorted(standing) == sorted(self.world.texts), f"after {name}"

    # ── steps; each says whether there was something to do ──

    def push(self) -> bool:
        name = self.dice.choice(list(self.given))
        if not self.given[name]:
            # The oracle is told when a batch has taken them.
            made = self.world.new_rows(self.dice.choice([3, 30, 300]))
            for stream, rows in made.items():
                self.given[stream].append(rows)
                self.world.rows[stream].pop()
        rows = self.given[name][0]
        number = self.world.weir.push(name, rows)
        assert number == self.tickets
        self.given[name].pop(0)
        self.waiting[number] = (name, rows)
        self.tickets += 1
        return True

    def batch(self) -> bool:
        ledger = self.world.weir.ledger
        number = ledger.last_done() + 1
        taken = dict(self.waiting)
        inbox = Inbox(self.world.weir.files)
        rows: dict[str, list[pa.Table]] = {}
        for ticket in taken:
            found = inbox.ticket(ticket)
            assert found is not None
            rows.setdefault(found.stream, []).append(inbox.read(found))
        try:
            self.direct.batch({name: pa.concat_tables(tables) for name, tables in rows.items()})
        finally:
            if ledger.last_done() >= number:  # Spark would ask for it again, and be told so
                for name, pushed in taken.values():
                    self.world.keep_rows(name, pushed)
                self.waiting = {}
                self.outcomes["batches"] += 1
        return True

    def register(self) -> bool:
        text = self.dice.choice([*TEXTS.values(), *VICTIMS.values()])
        self.world.one(text, self.dice.randrange(100))
        return True

    def drop(self) -> bool:
        if len(self.world.texts) < 8:
            return False
        id = self.dice.choice(sorted(self.world.texts))
        self.world.weir.drop(id)
        del self.world.texts[id]
        return True

    def vacuum(self) -> bool:
        Inbox(self.world.weir.files).release(min(self.waiting, default=self.tickets))
        self.world.weir.vacuum()
        return True

    def fetch(self) -> bool:
        if not self.outcomes["batches"]:
            return False
        self.world.check()
        return True


def live(disk: Disk, seed: int) -> None:
    trials = Trials(disk, seed)
    for _ in range(STEPS):
        trials.step()
    trials.given = {name: [] for name in trials.given}
    trials.push()
    trials.batch()
    with disk.fill(0):
        trials.world.check()
    for name, tables in trials.world.rows.items():
        stored = trials.world.weir.state.row_counts.get(name, 0)
        assert stored == sum(table.num_rows for table in tables), f"rows of {name} are lost or doubled"
    said = trials.outcomes
    assert not weir.store.check.check(trials.world.weir.files).wrong
    assert min(said["push refused"], said["batch refused"], said["batches"]) > 0, said


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=0, tested=1))
def test_a_small_disk_is_full_at_random_moments(tmp_path: Path, seed: int) -> None:
    with small_disk(tmp_path / "small") as disk:
        live(disk, seed)


@pytest.mark.parametrize("seed", few_are_quick(range(12), quick=0, tested=1))
def test_writes_fail_at_random_moments(tmp_path: Path, seed: int) -> None:
    live(FailingDisk(tmp_path), seed)
