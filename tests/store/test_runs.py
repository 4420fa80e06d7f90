"""Match files and runs by query, against the pairs they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.marks import few_are_quick
from tests.store.pieces import selected
from weir.store.arrays import save_arrays
from weir.store.core_runs import _folder, compact, invert, matched, runs_of
from weir.store.files import LocalFiles
from weir.store.ledger import Done, Ledger, MatchFile, Plan, RowFile
from weir.store.matches import Piece, read_matches, results_of, write_matches
from weir.store.state import State

EVENTS = 20  # a batch
QUERIES = 9


def commit(files: LocalFiles, batch: int, random: np.random.Generator) -> set[tuple[int, int]]:
    """One batch with two match files; returns its (query, row) pairs."""
    ledger = Ledger(files)
    plan = Plan(batch, "e", 0, 0, 0, None, {}, {}, {}, f"p{batch}")
    assert ledger.create_plan(plan)
    pairs: set[tuple[int, int]] = set()
    matches = []
    for k in range(2):
        first = batch * EVENTS + k * EVENTS // 2
        hits = random.random((EVENTS // 2, QUERIES)) < 0.3
        offsets = np.concatenate([[0], np.cumsum(hits.sum(1))]).astype(np.int64)
        items = np.nonzero(hits)[1].astype(np.int64)
        rows = np.nonzero(hits)[0] + first
        pairs |= set(zip(items.tolist(), rows.tolist(), strict=True))
        path = write_matches(files, batch, [selected("s", first, offsets, items)])
        matches.append(MatchFile(path, k, len(items), EVENTS // 2))
    row = RowFile("s", f"rows/{batch}", batch * EVENTS, EVENTS, 0, 0)
    done = Done(batch, plan.token, 0, (row,), (), tuple(matches), (), (), 0, {"s": (batch + 1) * EVENTS}, 0)
    assert ledger.create_done(done)
    return pairs


def check(files: LocalFiles, state: State, pairs: set[tuple[int, int]], first: int, last: int) -> None:
    for query in range(QUERIES + 1):
        expected = sorted(r for q, r in pairs if q == query and first * EVENTS <= r < (last + 1) * EVENTS)
        assert [rows.tolist() for rows in matched(files, state, "s", query, first, last)] == [expected]


@pytest.mark.parametrize("seed", range(5))
def test_runs_and_match_files_say_the_same(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    files = LocalFiles(tmp_path)
    state = State()
    pairs: set[tuple[int, int]] = set()
    for batch in range(12):
        pairs |= commit(files, batch, random)
        state.refresh(Ledger(files))
        if random.random() < 0.4:
            compact(files, state, "s")
        first = int(random.integers(0, batch + 1))
        check(files, state, pairs, first, int(random.integers(first, batch + 1)))
    compact(files, state, "s")
    assert len(runs_of(files, "s")) < 12
    check(files, state, pairs, 0, 11)


def test_a_damaged_run_is_only_slower(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    files = LocalFiles(tmp_path)
    state = State()
    pairs: set[tuple[int, int]] = set()
    for batch in range(3):
        pairs |= commit(files, batch, random)
    state.refresh(Ledger(files))
    compact(files, state, "s")
    (run,) = runs_of(files, "s")
    path = tmp_path / run.path
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    check(files, state, pairs, 0, 2)


def test_large_ids_do_not_fit_into_32_bits_and_still_come_back(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    items = np.array([3, 2**40, 3], np.int64)
    path = write_matches(
        files, 0, [selected("s", 5, np.array([0, 2, 3]), items), selected("t", 0, np.array([0, 0]), items[:0])]
    )
    first, second = read_matches(files, path)
    assert first.items.tolist() == items.tolist()
    assert (first.channel, first.events.tolist(), second.channel) == ("s", [5, 6], "t")
    assert second.items.tolist() == []
    for stream, query, rows in (("s", 3, [5, 6]), ("s", 2**40, [5]), ("t", 3, [])):
        assert results_of(files, path, stream, query)[0].tolist() == rows


def test_a_deleted_run_in_the_middle_is_filled_again(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    files = LocalFiles(tmp_path)
    state = State()
    pairs: set[tuple[int, int]] = set()
    for batch in range(6):
        pairs |= commit(files, batch, random)
        state.refresh(Ledger(files))
        arrays = invert(files, "s", [m.path for _, m in state.match_files(batch, batch)])
        save_arrays(files, f"{_folder('s')}{batch:012d}-{batch:012d}.run", arrays, {})
    files.delete(runs_of(files, "s")[2].path)
    check(files, state, pairs, 0, 5)
    pairs |= commit(files, 6, random)
    state.refresh(Ledger(files))
    compact(files, state, "s")
    assert len(runs_of(files, "s")) == 1
    check(files, state, pairs, 0, 6)


def test_a_flipped_bit_in_a_run_is_noticed(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    files = LocalFiles(tmp_path)
    state = State()
    pairs = commit(files, 0, random)
    state.refresh(Ledger(files))
    compact(files, state, "s")
    (run,) = runs_of(files, "s")
    data = bytearray((tmp_path / run.path).read_bytes())
    data[-100] ^= 1
    (tmp_path / run.path).write_bytes(data)
    check(files, state, pairs, 0, 0)


# ── channels ──


Pair = tuple[int, int, int, int]  # batch of its later row, query, row of side 0, row of side 1


class Channel:
    """Writes batches of a channel whose pairs are random, and remembers them."""

    def __init__(self, folder: Path, channel: str, seed: int) -> None:
        self.files = LocalFiles(folder)
        self.ledger = Ledger(self.files)
        self.channel = channel
        self.sides = channel.split("~")
        self.random = np.random.default_rng(seed)
        self.state = State()
        self.rows: dict[str, list[int]] = {name: [] for name in self.sides}  # by stream: the batch of each row
        self.pairs: list[Pair] = []

    def commit(self, *, floor: int | None = None) -> None:
        """One batch; a stream may be left out. Times are batch numbers, so that floors expire whole batches."""
        batch = self.state.last + 1
        floors = {} if floor is None else dict.fromkeys(self.rows, floor)
        plan = Plan(batch, "e", 0, 0, 0, None, dict(floors), dict(floors), {}, f"p{batch}")
        assert self.ledger.create_plan(plan)
        files = []
        for name, batches in self.rows.items():
            count = int(self.random.integers(0, 6))
            if count:
                files.append(RowFile(name, f"rows/{name}{batch}", len(batches), count, batch, batch))
                batches.extend([batch] * count)
        new = [
            (batch, int(self.random.integers(0, QUERIES)), row0, row1)
            for row0, batch0 in enumerate(self.rows[self.sides[0]])
            for row1, batch1 in enumerate(self.rows[self.sides[1]])
            if max(batch0, batch1) == batch and self.random.random() < 0.3
        ]
        self.pairs += new
        half = [new[: len(new) // 2], new[len(new) // 2 :]]
        matches = [MatchFile(self.write(batch, some), k, len(some), 0) for k, some in enumerate(half)]
        counts = {name: len(batches) for name, batches in self.rows.items()}
        done = Done(batch, plan.token, 0, tuple(files), (), tuple(matches), (), (), 0, counts, 0)
        assert self.ledger.create_done(done)
        self.state.refresh(self.ledger)

    def write(self, batch: int, pairs: list[Pair]) -> str:
        """A match file with one piece a side; which side a pair is found from is left to chance."""
        joins = []
        by_side: tuple[list[Pair], list[Pair]] = ([], [])
        for pair in pairs:
            by_side[int(self.random.integers(0, 2))].append(pair)
        for side, some in enumerate(by_side):
            array = np.array(some, np.int64).reshape(-1, 4)
            offsets = np.arange(len(some) + 1)
            joins.append(Piece(self.channel, side, array[:, 2 + side], offsets, array[:, 1], array[:, 3 - side][None]))
        other = Piece("other~s", 0, np.array([0]), np.array([0, 1]), np.array([0]), np.array([[0]]))
        return write_matches(self.files, batch, [*joins, other])

    def check(self, first: int, last: int) -> None:
        for query in range(QUERIES + 1):
            rows0, rows1 = matched(self.files, self.state, self.channel, query, first, last)
            found = sorted(zip(rows0.tolist(), rows1.tolist(), strict=True))
            expected = sorted(p[2:] for p in self.pairs if p[1] == query and first <= p[0] <= last)
            assert found == expected, f"query {query}, batches {first} to {last}"

    def check_some(self) -> None:
        last = self.state.last
        first = int(self.random.integers(0, last + 1))
        self.check(first, int(self.random.integers(first, last + 1)))


@pytest.mark.parametrize("channel", ["s~t", "s~s"])
@pytest.mark.parametrize("seed", few_are_quick(range(6)))
def test_runs_and_match_files_of_a_channel_say_the_same(tmp_path: Path, channel: str, seed: int) -> None:
    print(f"seed {seed}")
    made = Channel(tmp_path, channel, seed)
    for _ in range(14):
        made.commit()
        if made.random.random() < 0.4:
            compact(made.files, made.state, channel)
        made.check_some()
        made.check_some()
    compact(made.files, made.state, channel)
    assert len(runs_of(made.files, channel)) < 14
    assert runs_of(made.files, "s") == []
    for _ in range(10):
        made.check_some()
    made.check(0, 13)


def test_pairs_within_a_run_stay_in_batch_order(tmp_path: Path) -> None:
    made = Channel(tmp_path, "s~t", 3)
    for _ in range(8):
        made.commit()
        compact(made.files, made.state, "s~t")
    assert len(runs_of(made.files, "s~t")) == 1
    batch_of = {p[2:]: p[0] for p in made.pairs}
    for query in range(QUERIES):
        pairs = zip(*(r.tolist() for r in matched(made.files, made.state, "s~t", query, 0, 7)), strict=True)
        batches = [batch_of[pair] for pair in pairs]
        assert batches == sorted(batches)


@pytest.mark.parametrize("damage", ["cut", "flipped", "deleted"])
def test_a_damaged_run_of_a_channel_is_only_slower(tmp_path: Path, damage: str) -> None:
    made = Channel(tmp_path, "s~s", 4)
    for batch in range(6):
        made.commit()
        if batch % 2:
            paths = [m.path for _, m in made.state.match_files(batch - 1, batch)]
            arrays = invert(made.files, "s~s", paths)
            save_arrays(made.files, f"{_folder('s~s')}{batch - 1:012d}-{batch:012d}.run", arrays, {})
    runs = runs_of(made.files, "s~s")
    assert len(runs) == 3
    path = tmp_path / runs[1].path
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage != "deleted":
        data[-200] ^= 1
        path.write_bytes(data if damage == "flipped" else data[: len(data) // 2])
    made.check(0, 5)
    for _ in range(3):
        made.commit()
        compact(made.files, made.state, "s~s")
        made.check(0, made.state.last)
        made.check_some()


def test_runs_of_a_channel_go_when_all_their_rows_have_expired(tmp_path: Path) -> None:
    made = Channel(tmp_path, "s~t", 5)
    for _ in range(4):
        made.commit()
    arrays = invert(made.files, "s~t", [m.path for _, m in made.state.match_files(0, 1)])
    save_arrays(made.files, f"{_folder('s~t')}000000000000-000000000001.run", arrays, {})
    made.commit(floor=3)
    compact(made.files, made.state, "s~t")
    (run,) = runs_of(made.files, "s~t")
    assert run.first >= 3
    made.check(3, 4)
