"""The batch protocol, step by step: replays, races, floors, row ids and the budget, with jobs that are dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from weir.algebra.schema import BIGINT, TIMESTAMP, Catalog, Column, Stream
from weir.errors import FencedError, RunError, StoreError
from weir.runtime import faults
from weir.runtime.loop import Context, IngestReport, Matched, MatchReport, SliceRows, UpkeepReport, run_batch
from weir.settings import Settings
from weir.store.catalog import CatalogLog, identity
from weir.store.data_files import data_path
from weir.store.files import Files, ObjectFiles
from weir.store.ledger import Ledger, MatchFile, Plan, RowFile, done_path
from weir.store.query_groups import NewQueries
from weir.store.registry import Ids, Registry
from weir.store.state import State

SECOND = 1_000_000
COLUMNS = (Column("a", BIGINT), Column("ts", TIMESTAMP))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = ObjectFiles(MemoryStore(), cache=tmp_path)
    log = CatalogLog(files)
    log.define_stream(Stream("trade", COLUMNS, "ts", 100 * SECOND))
    log.define_stream(Stream("tick", COLUMNS, "ts", 2 * SECOND))
    log.define_stream(Stream("ever", COLUMNS, "ts", None))
    return files


def driver(files: Files, *, wall_s: int = 1000, clock: str = "event", settings: Settings | None = None) -> Context:
    return Context(
        files=files,
        ledger=Ledger(files),
        registry=Registry(files),
        catalog_log=CatalogLog(files),
        state=State(),
        settings=settings or Settings(),
        identity=identity(files, clock),
        wall_us=lambda: wall_s * SECOND,
    )


class Jobs:
    """Slices of {stream: times in seconds}; query q matches `weights[q]` rows."""

    def __init__(self, *slices: Mapping[str, list[int]], inbox_next: int = 0) -> None:
        self.slices = slices
        self.inbox_next = inbox_next
        self.weights: dict[int, int] = {}
        self.budget = 10**9
        self.plans: list[Plan] = []
        self.excluded: list[list[int]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def ingest(self, plan: Plan, catalog: Catalog) -> IngestReport:
        self.plans.append(plan)
        slices = tuple(
            tuple(
                SliceRows(s, data_path("rows", plan.batch, b"rows"), len(t), min(t) * SECOND, max(t) * SECOND)
                for s, t in part.items()
            )
            for part in self.slices
        )
        return IngestReport(slices, self.inbox_next)

    def maintain(self, matched: Matched) -> UpkeepReport:
        return UpkeepReport()

    def match(self, plan: Plan, rows: tuple[RowFile, ...], catalog: Catalog, demoted: Ids) -> MatchReport:
        self.excluded.append(demoted.tolist())
        self.meanwhile()
        counts = {q: n for q, n in self.weights.items() if q not in demoted}
        pairs = sum(counts.values())
        if pairs > self.budget:
            return MatchReport((), pairs, counts, over_budget=True)
        return MatchReport((MatchFile("matches/x", 0, pairs, len(rows)),), pairs, counts)


# ── plans ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_from_first_to_last(files: Files) -> None:
    context = driver(files)
    registry = Registry(files)
    registry.register(NewQueries("shape", (), pa.table({"none": [0]}), ["selection"], ["trade"], 3))
    jobs = Jobs({"trade": [5, 900], "tick": [7]}, {"trade": [6]}, inbox_next=4)
    done = run_batch(context, 0, jobs)
    plan = context.ledger.plan(0)
    assert plan is not None
    assert jobs.plans == [plan]
    assert (plan.registry, plan.catalog, plan.wall_us, plan.now_us) == (1, 3, 1000 * SECOND, None)
    assert plan.floors == plan.read_floors == {"trade": None, "tick": None, "ever": None}
    assert plan.engine == context.identity.engine
    assert context.ledger.done(0) == done
    assert [(f.stream, f.first_row, f.count) for f in done.rows] == [("trade", 0, 2), ("tick", 0, 1), ("trade", 2, 1)]
    assert done.row_counts == {"trade": 3, "tick": 1}
    assert done.now_us == 900 * SECOND
    assert done.inbox_next == 4
    assert done.plan_token == plan.token
    assert context.state.last == 0


def test_floors_follow_the_clock_and_keep_their_slack(files: Files) -> None:
    context = driver(files)
    run_batch(context, 0, Jobs({"trade": [900]}))
    run_batch(context, 1, Jobs({"trade": [400]}))  # older rows do not turn the clock back
    done = run_batch(context, 2, Jobs())
    plan = context.ledger.plan(2)
    assert plan is not None
    assert plan.now_us == done.now_us == 900 * SECOND
    assert plan.floors == {"trade": 800 * SECOND, "tick": 898 * SECOND, "ever": None}
    assert plan.read_floors == {"trade": 775 * SECOND, "tick": 897 * SECOND, "ever": None}  # a quarter; a second


def test_the_arrival_clock_follows_the_wall_but_never_back(files: Files) -> None:
    first = run_batch(driver(files, wall_s=500, clock="arrival"), 0, Jobs())
    assert first.now_us == 500 * SECOND
    second = run_batch(driver(files, wall_s=400, clock="arrival"), 1, Jobs())
    assert second.now_us == 500 * SECOND
    third = run_batch(driver(files, wall_s=600, clock="arrival"), 2, Jobs())
    assert third.now_us == 600 * SECOND


def test_row_ids_and_tickets_go_on(files: Files) -> None:
    context = driver(files)
    run_batch(context, 0, Jobs({"trade": [1, 2]}, inbox_next=7))
    done = run_batch(context, 1, Jobs({"tick": [3]}, {"trade": [4]}))
    assert [(f.stream, f.first_row) for f in done.rows] == [("tick", 0), ("trade", 2)]
    assert done.row_counts == {"trade": 3, "tick": 1}
    assert done.inbox_next == 7


def test_late_rows_are_counted(files: Files) -> None:
    class Late(Jobs):
        def ingest(self, plan: Plan, catalog: Catalog) -> IngestReport:
            part = SliceRows("trade", None, 0, 0, 0, "late/x", {"late": 2, "future": 1})
            return IngestReport(((part,), (part,)))

    done = run_batch(driver(files), 0, Late())
    assert [(f.stream, f.count, f.reasons) for f in done.late] == [("trade", 3, {"late": 2, "future": 1})] * 2
    assert done.now_us is None


# ── replays and rivals ─────────────────────────────────────────────────────────────────────────────


def crash_at(point: str) -> Callable[[str], None]:
    def hook(reached: str) -> None:
        if reached == point:
            raise faults.Crash(point)

    return hook


@pytest.mark.parametrize("point", ["plan created", "between ingest and match", "all files written, not done"])
def test_a_replay_sees_the_same_plan(files: Files, point: str) -> None:
    with faults.arm(crash_at(point)), pytest.raises(faults.Crash):
        run_batch(driver(files), 0, Jobs({"trade": [1]}))
    pinned = Ledger(files).plan(0)
    assert pinned is not None
    Registry(files).register(NewQueries("shape", (), pa.table({"none": [0]}), ["selection"], ["trade"], 3))
    CatalogLog(files).define_stream(Stream("new", COLUMNS, "ts", None))
    seen: list[Catalog] = []

    class Watching(Jobs):
        def ingest(self, plan: Plan, catalog: Catalog) -> IngestReport:
            seen.append(catalog)
            return super().ingest(plan, catalog)

    jobs = Watching({"trade": [1]})
    done = run_batch(driver(files, wall_s=5000), 0, jobs)
    assert jobs.plans == [pinned]
    assert set(seen[0].streams) == {"trade", "tick", "ever"}
    assert done.plan_token == pinned.token


def test_a_done_batch_is_returned_without_work(files: Files) -> None:
    done = run_batch(driver(files), 0, Jobs({"trade": [1]}))
    replay = Jobs({"trade": [2]})
    assert run_batch(driver(files), 0, replay) == done
    assert replay.plans == []


def test_the_loser_of_a_plan_uses_the_winners(files: Files) -> None:
    class Rival:
        """Lets another driver plan first."""

        fired = False

        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
            if path.endswith(".plan") and not self.fired:
                self.fired = True
                with faults.arm(crash_at("plan created")), pytest.raises(faults.Crash):
                    run_batch(driver(files, wall_s=2000), 0, Jobs())
            return files.create(path, data, durable=durable)

    jobs = Jobs()
    run_batch(driver(Rival()), 0, jobs)  # type: ignore[arg-type]  # the rest is forwarded
    assert jobs.plans[0].wall_us == 2000 * SECOND


def test_a_plan_has_the_streams_of_all_its_queries(files: Files) -> None:
    """A stream is defined and a query registered on it while the plan is being made."""

    class Busy:
        fired = False

        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

        def read(self, path: str) -> bytes | None:
            if path.startswith("registry/") and not self.fired:
                self.fired = True
                CatalogLog(files).define_stream(Stream("new", COLUMNS, "ts", None))
                Registry(files).register(NewQueries("shape", (), pa.table({"none": [0]}), ["selection"], ["new"], 4))
            return files.read(path)

    jobs = Jobs()
    run_batch(driver(Busy()), 0, jobs)  # type: ignore[arg-type]  # the rest is forwarded
    assert (jobs.plans[0].registry, jobs.plans[0].catalog) == (1, 4)


def test_the_loser_of_a_commit_is_fenced(files: Files) -> None:
    zombie = Jobs({"trade": [1]})
    zombie.meanwhile = lambda: committed.append(run_batch(driver(files), 0, Jobs({"trade": [1]})))
    committed: list[object] = []
    with pytest.raises(FencedError, match="batch 0 was committed by another driver .* nothing was harmed"):
        run_batch(driver(files), 0, zombie)
    assert [Ledger(files).done(0)] == committed


def test_a_zombie_whose_rows_are_gone_is_fenced_too(files: Files) -> None:
    def meanwhile() -> None:
        run_batch(driver(files), 0, Jobs())
        raise StoreError("rows/… is missing")

    zombie = Jobs({"trade": [1]})
    zombie.meanwhile = meanwhile
    with pytest.raises(FencedError) as raised:
        run_batch(driver(files), 0, zombie)
    assert isinstance(raised.value.__cause__, StoreError)


def test_an_error_of_a_job_is_its_own(files: Files) -> None:
    def fail() -> None:
        raise StoreError("disk full")

    jobs = Jobs({"trade": [1]})
    jobs.meanwhile = fail
    with pytest.raises(StoreError, match="disk full"):
        run_batch(driver(files), 0, jobs)
    assert Ledger(files).done(0) is None


def test_a_checkpoint_that_is_behind_or_ahead_is_refused(files: Files) -> None:
    context = driver(files)
    for n in range(3):
        run_batch(context, n, Jobs())
    with pytest.raises(FencedError, match="Spark asks for batch 1, but the ledger is at batch 2 already"):
        run_batch(context, 1, Jobs())
    with pytest.raises(RunError, match="Spark asks for batch 4, but the ledger ends with batch 2"):
        run_batch(context, 4, Jobs())
    files.delete(done_path(2))
    with pytest.raises(StoreError, match="ledger/000000000002.done is missing, though it was written"):
        run_batch(context, 2, Jobs())


def test_a_plan_of_another_weir_is_refused(files: Files) -> None:
    context = driver(files)
    Ledger(files).create_plan(Plan(0, "stranger", 0, 0, 0, None, {}, {}, {}, "t"))
    with pytest.raises(StoreError, match="batch 0 was planned by weir stranger"):
        run_batch(context, 0, Jobs())


# ── the budget ─────────────────────────────────────────────────────────────────────────────────────


def with_queries(files: Files, trade: int, tick: int = 0) -> None:
    for stream, count in (("trade", trade), ("tick", tick)):
        if count:
            table = pa.table({"c0": np.arange(count)})
            Registry(files).register(NewQueries("shape", (BIGINT,), table, ["selection"], [stream], 3))


def test_over_budget_the_heaviest_go_first(files: Files) -> None:
    with_queries(files, 6)
    context = driver(files, settings=replace(Settings(), pairs_per_batch_max=20, demote_pairs_min=10**9))
    jobs = Jobs({"trade": [1] * 10})
    jobs.weights, jobs.budget = {0: 3, 1: 9, 2: 9, 3: 1, 4: 8, 5: 5}, 20
    done = run_batch(context, 0, jobs)
    assert done.demoted == (1, 2)  # 35 − 9 − 9 fit; of equal ones the smaller id goes first
    assert jobs.excluded == [[], [1, 2]]
    assert done.matches[0].pairs == 17
    again = Jobs({"trade": [1] * 10})
    again.weights = jobs.weights
    assert run_batch(context, 1, again).demoted == ()
    assert again.excluded == [[1, 2]]


def test_slices_that_are_over_their_share_ask_for_more_room(files: Files) -> None:
    """The sum fits, one slice does not: demote on, more each time, until all fit."""
    with_queries(files, 8)
    context = driver(files, settings=replace(Settings(), pairs_per_batch_max=100, demote_pairs_min=10**9))
    jobs = Jobs({"trade": [1] * 10})
    jobs.weights, jobs.budget = {q: 10 + q for q in range(8)}, 25
    done = run_batch(context, 0, jobs)
    assert done.matches[0].pairs <= 25
    assert len(jobs.excluded) <= 4
    assert done.demoted == tuple(range(8 - len(done.demoted), 8))


def test_a_job_that_names_nobody_is_an_error(files: Files) -> None:
    class Silent(Jobs):
        def match(self, plan: Plan, rows: tuple[RowFile, ...], catalog: Catalog, demoted: Ids) -> MatchReport:
            return MatchReport((), 5_000, {}, over_budget=True)

    with pytest.raises(RunError, match="batch 0 has 5,000 matches, more than pairs_per_batch_max allows"):
        run_batch(driver(files), 0, Silent({"trade": [1]}))
    assert Ledger(files).done(0) is None


def test_heavy_queries_are_demoted_from_the_next_batch_on(files: Files) -> None:
    with_queries(files, 3, tick=1)
    context = driver(files, settings=replace(Settings(), demote_share=0.5, demote_pairs_min=4))
    jobs = Jobs({"trade": [1] * 10, "tick": [1] * 4})
    jobs.weights = {0: 5, 1: 6, 2: 3, 3: 4}  # not above half of trade's rows; above; too few; all of tick's
    done = run_batch(context, 0, jobs)
    assert done.demoted == (1, 3)
    assert jobs.excluded == [[]]
    assert done.matches[0].pairs == 18
    assert context.state.demoted == {1: 0, 3: 0}
