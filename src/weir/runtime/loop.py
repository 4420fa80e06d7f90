"""The batch protocol: one micro-batch from first line to last.

    1  Spark logs the offsets of batch N and calls us.
    2  Read the ledger. N is done: return its document. N has a plan: use it; else make one.
    3  Ingest: each task checks its rows and writes one file a stream; row ids are given out by prefix sum. Advances of
       the clock are read, too.
    4  Match: reads only immutable files, writes one match file a task. Over budget: demote and match again.
       What cannot be matched is quarantined: it goes, with its reason, and the others are matched again.
    4b Upkeep: answers that are maintained are brought up to date; each task writes one file a part of the queries.
    5  Create N.done. If it exists already, another driver lives: stop.
    6  Return; Spark logs its commit.

Why results are exactly once: files count only if a done document names them, `done` has one creator, and it
is created when all its files are durable. Whatever dies before step 5 leaves files that nobody names;
whatever dies after it is replayed into step 2 and returns what is there. Why a replay sees the same: queries,
clock and floors are read from the plan, which has one creator too, and from earlier done documents,
which never change. Row ids and demotions of an attempt that did not finish are forgotten with it.

Cost around the two jobs: five reads and two durable documents, 1 to 5 ms on a local disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from weir.algebra.schema import Catalog, is_changes
from weir.errors import FencedError, RunError, StoreError
from weir.runtime.faults import reach
from weir.settings import Settings
from weir.store.catalog import CatalogLog, Identity
from weir.store.documents import RESTORE
from weir.store.files import Files, unique
from weir.store.ledger import Done, KeptPart, LateFile, Ledger, MatchFile, Plan, Quarantine, RowFile
from weir.store.matches import CHANNEL
from weir.store.range_map import RangeMap, ranges_of
from weir.store.registry import Ids, Registry
from weir.store.state import State

SLACK_SHARE = 4  # rows are kept for a quarter of `keep` longer than windows reach, for readers that lag …
DROPPED_US = 2**62  # the floor of a stream that was dropped: no row lies above it
SLACK_US_MIN = 1_000_000  # … and for at least a second


@dataclass(frozen=True, slots=True)
class SliceRows:
    """What one ingest task did with the rows of one stream."""

    stream: str
    path: str | None  # of the accepted rows; None: there were none
    count: int
    t_min_us: int
    t_max_us: int
    late_path: str | None = None  # of the rejected rows; None: there were none
    reasons: Mapping[str, int] = field(default_factory=dict)  # rejected rows by reason


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What the ingest job wrote, by slice in slice order."""

    slices: tuple[tuple[SliceRows, ...], ...]
    inbox_next: int = 0  # tickets below this are wholly consumed by this batch and those before
    now_us: int | None = None  # the clock is at least here, because the batch holds an advance; None: it holds none


@dataclass(frozen=True, slots=True)
class MatchReport:
    """What the match job wrote; over budget it only counts."""

    files: tuple[MatchFile, ...]
    pairs: int  # (event, query) pairs of the batch
    heavy: Mapping[int, int]  # query → pairs, of the heavy queries; over budget of the heaviest ones, at least one
    over_budget: bool = False
    quarantined: tuple[Quarantine, ...] = ()  # cores that could not be matched; if there are any, nothing was


@dataclass(frozen=True, slots=True)
class Matched:
    """A batch as its upkeep finds it."""

    plan: Plan
    catalog: Catalog
    rows: tuple[RowFile, ...]
    files: tuple[MatchFile, ...]
    not_matched: Ids  # cores whose matches are not among them, or will not be from the next batch on
    now_us: int  # the clock after the batch; 0 while no row was ever accepted, as for answers


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What the upkeep job did."""

    parts: tuple[KeptPart, ...] = ()
    given_up: tuple[Quarantine, ...] = ()
    resumed: tuple[tuple[int, int], ...] = ()


class Jobs(Protocol):
    """The Spark jobs of one batch. They may run any number of times, in any number of drivers."""

    def ingest(self, plan: Plan, catalog: Catalog) -> IngestReport:
        """Check and write the batch's rows. Files have unique names and are durable when it returns."""
        ...

    def match(self, plan: Plan, rows: tuple[RowFile, ...], catalog: Catalog, demoted: Ids) -> MatchReport:
        """Match new rows with the queries of registry documents below `plan.registry`, except the dropped ones
        and `demoted` (ascending ids)."""
        ...

    def maintain(self, matched: Matched) -> UpkeepReport:
        """Bring the answers of kept queries up to date."""
        ...


@dataclass(slots=True)
class Context:
    """What one driver knows: the folder's documents and how far it has read them."""

    files: Files
    ledger: Ledger
    registry: Registry
    catalog_log: CatalogLog
    state: State
    settings: Settings
    identity: Identity
    wall_us: Callable[[], int]


def run_batch(context: Context, number: int, jobs: Jobs) -> Done:
    """Run batch `number` to its done document, or return the one it has."""
    ledger = context.ledger

    # 1  Spark has logged the offsets; `jobs` holds its DataFrame.

    # 2  What is known about this batch?
    last = context.state.refresh(ledger)
    if last >= number:
        return _replayed(context, number, last)
    if last < number - 1:
        raise RunError(
            f"Spark asks for batch {number}, but the ledger ends with batch {last}",
            hint="the checkpoint is another weir's, or ledger documents were lost; restore both together",
        )
    plan = ledger.plan(number) or _create_plan(context, number)
    if plan.engine != context.identity.engine:
        raise StoreError(f"batch {number} was planned by weir {plan.engine}, this is {context.identity.engine}")
    context.registry.require(plan.registry, plan.registry_head)
    catalog = context.catalog_log.read(plan.catalog)
    if context.catalog_log.head(plan.catalog) != plan.catalog_head:
        raise StoreError(f"the catalog is not the one that the plan of batch {number} includes", hint=RESTORE)

    try:
        # 3  Ingest. From here on everything depends on the plan, never on what exists by now.
        ingested = jobs.ingest(plan, catalog)
        rows, late, row_counts = _number_rows(ingested, context.state.row_counts)
        reach("between ingest and match")

        # 4  Match, without the queries that are demoted already.
        restored = _restored(context, plan)
        matched, demoted, quarantined = _match_within_budget(context, plan, rows, catalog, jobs, restored)

        # 4b  Upkeep, at the clock after the batch.
        now_us = _now_after(plan, rows, ingested)
        gone = _not_matched(context, restored, demoted, quarantined)
        kept = jobs.maintain(Matched(plan, catalog, rows, matched.files, gone, now_us or 0))
        reach("all files written, not done")
    except Exception as error:
        # What we work on may be consumed, expired and gone by now.
        if ledger.done(number) is not None or ledger.is_folded(number):
            raise _fenced(number) from error
        raise

    # 5  Commit.
    done = Done(
        batch=number,
        plan_token=plan.token,
        now_us=now_us,
        rows=rows,
        late=late,
        matches=matched.files,
        demoted=demoted,
        evictions=(),
        inbox_next=max(context.state.inbox_next, ingested.inbox_next),
        row_counts=row_counts,
        wall_us=context.wall_us(),
        attempt=unique(),
        quarantined=quarantined,
        restored=tuple(ranges_of(restored)),
        kept=kept.parts,
        given_up=kept.given_up,
        resumed=kept.resumed,
    )
    if not ledger.create_done(done) or ledger.is_folded(number + 1):  # others have gone on: ours is not the one
        raise _fenced(number)

    # 6  Spark logs its commit when we return.
    context.state.refresh(ledger)
    return done


def _fenced(number: int) -> FencedError:
    return FencedError(
        f"batch {number} was committed by another driver while this one worked on it; this one stops",
        hint="nothing was harmed; make sure that only one job runs on this folder",
    )


# ── step 2: plans ──────────────────────────────────────────────────────────────────────────────────


def _replayed(context: Context, number: int, last: int) -> Done:
    """The document of a batch that is done. Spark replays the newest one only, if its commit is missing."""
    if last > number:
        raise FencedError(
            f"Spark asks for batch {number}, but the ledger is at batch {last} already: another driver has "
            "gone on, or the checkpoint was deleted and counts from the start again",
            hint="nothing was harmed; run one job at a time, with the checkpoint that belongs to this folder",
        )
    done = context.ledger.done(number)
    if done is None:
        raise StoreError(f"batch {last} is done, but the done document of batch {number} is missing", hint=RESTORE)
    return done


def _create_plan(context: Context, number: int) -> Plan:
    """Pin what batch `number` sees; if another driver was quicker, its plan is the plan."""
    state = context.state
    wall_us = context.wall_us()
    now_us = state.now_us if context.identity.clock == "event" else later(state.now_us, wall_us)
    # The registry first: a query is registered after its stream is defined, so every stream that a query of
    # this plan names is among the catalog documents that are counted next.
    context.registry.refresh()
    registry, registry_head = context.registry.count, context.registry.head
    catalog = context.catalog_log.count()
    floors: dict[str, int | None] = {}
    read_floors: dict[str, int | None] = {}
    known = context.catalog_log.read(catalog)
    for name in known.dropped:  # all its rows may go
        floors[name] = read_floors[name] = DROPPED_US
    for stream in known.streams.values():
        floor = read_floor = None
        if stream.keep_us is not None and now_us is not None:
            floor = now_us - stream.keep_us
            read_floor = floor - max(stream.keep_us // SLACK_SHARE, SLACK_US_MIN)
        floors[stream.name] = later(floor, state.floors.get(stream.name))
        read_floors[stream.name] = later(read_floor, state.read_floors.get(stream.name))
    plan = Plan(
        batch=number,
        engine=context.identity.engine,
        registry=registry,
        catalog=catalog,
        wall_us=wall_us,
        now_us=now_us,
        floors=floors,
        read_floors=read_floors,
        frontiers={},
        token=unique(),
        registry_head=registry_head,
        catalog_head=context.catalog_log.head(catalog),
        late_floor_us=wall_us - context.settings.late_keep_s * 1_000_000,
    )
    if context.ledger.create_plan(plan):
        reach("plan created")
        return plan
    winner = context.ledger.plan(number)
    if winner is None:
        raise StoreError(f"the plan of batch {number} exists, yet cannot be read", hint=RESTORE)
    return winner


def later(a: int | None, b: int | None) -> int | None:
    """The larger of two times, of which None is the smallest: clocks and floors never go back."""
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)


# ── step 3: row ids ────────────────────────────────────────────────────────────────────────────────


def _number_rows(
    report: IngestReport, row_counts: Mapping[str, int]
) -> tuple[tuple[RowFile, ...], tuple[LateFile, ...], dict[str, int]]:
    """Give out row ids by prefix sum over the slices; also the late files, and the next row id per stream."""
    rows: list[RowFile] = []
    late: list[LateFile] = []
    counts = dict(row_counts)
    for parts in report.slices:
        for part in parts:
            if part.path is not None:
                assert part.count > 0, "a row file has rows"
                assert part.t_min_us <= part.t_max_us, "a row file has a time range"
                first = counts.get(part.stream, 0)
                rows.append(RowFile(part.stream, part.path, first, part.count, part.t_min_us, part.t_max_us))
                counts[part.stream] = first + part.count
            if part.late_path is not None:
                total = sum(part.reasons.values())
                late.append(LateFile(part.stream, part.late_path, total, dict(part.reasons)))
    return tuple(rows), tuple(late), counts


# ── step 4: the budget ─────────────────────────────────────────────────────────────────────────────


def _restored(context: Context, plan: Plan) -> Ids:
    """The cores that are matched again from this batch on, because somebody asked for it since the last one."""
    registry = context.registry
    wanted = registry.cores_of(registry.retried(context.state.registry, plan.registry))
    return np.intersect1d(wanted, context.state.not_matched())


def _not_matched(context: Context, restored: Ids, demoted: tuple[int, ...], quarantined: tuple[Quarantine, ...]) -> Ids:
    """The cores that are demoted or quarantined after the batch; they may have been restored by it before."""
    new = [np.arange(q.first, q.first + q.count, dtype=np.int64) for q in quarantined]
    left = np.setdiff1d(context.state.not_matched(), restored)
    return np.unique(np.concatenate([left, np.array(demoted, np.int64), *new]))


def _match_within_budget(
    context: Context, plan: Plan, rows: tuple[RowFile, ...], catalog: Catalog, jobs: Jobs, restored: Ids
) -> tuple[MatchReport, tuple[int, ...], tuple[Quarantine, ...]]:
    """Match, demoting the heaviest queries until the pairs fit, and leaving out those that cannot be matched.

    Returns also all queries that this batch demotes, and those that it quarantines.
    """
    before = np.setdiff1d(context.state.not_matched(), restored)
    over: set[int] = set()  # demoted in this batch because it would not fit
    quarantined: RangeMap[str] = RangeMap()
    budget = context.settings.pairs_per_batch_max
    while True:
        gone = (before, np.array(sorted(over), np.int64), quarantined.ids())
        excluded = np.unique(np.concatenate(gone))
        report = jobs.match(plan, rows, catalog, excluded)
        if report.quarantined:
            for q in report.quarantined:
                quarantined.put(q.first, q.count, q.reason)
            assert len(quarantined) > len(gone[2]), "what is quarantined is not matched again"
            continue
        if not report.over_budget:
            heavy = _heavy(context, rows, report) - set(before.tolist())
            return report, tuple(sorted(over | heavy)), tuple(Quarantine(*item) for item in quarantined)
        chosen = _heaviest(report, budget)
        if not chosen - over:
            raise RunError(
                f"batch {plan.batch} has {report.pairs:,} matches, more than pairs_per_batch_max allows, and "
                "the match job names no query to demote",
                hint="raise pairs_per_batch_max, or lower batch_rows_max",
            )
        over |= chosen
        budget //= 2  # a slice may exceed its share though the sum fits: ask for more room each time


def _heaviest(report: MatchReport, budget: int) -> set[int]:
    """As many of the heaviest queries as must go for the rest to fit; at least one. Equal weights go by id."""
    chosen: set[int] = set()
    rest = report.pairs
    for query, pairs in sorted(report.heavy.items(), key=lambda item: (-item[1], item[0])):
        if chosen and rest <= budget:
            break
        chosen.add(query)
        rest -= pairs
    return chosen


def _heavy(context: Context, rows: tuple[RowFile, ...], report: MatchReport) -> set[int]:
    """Queries that are cheaper to recompute than to materialise.

    A selection is, if it matched a large share of its stream's new rows. A join's pairs are new rows × kept ones, so a
    single row may make many; a join is, if a batch brought more pairs than its streams have rows to join again.
    """
    settings = context.settings
    new_rows: dict[str, int] = {}
    for file in rows:
        new_rows[file.stream] = new_rows.get(file.stream, 0) + file.count
    found = set()
    for query, pairs in report.heavy.items():
        group = context.registry.group_of_core(query)
        streams = group.channels[group.core_of(query)].split(CHANNEL)
        if len(streams) == 1:
            limit = settings.demote_share * new_rows.get(streams[0], 0)
        else:
            kept = sum(int(context.state.row_files(stream).count.sum()) for stream in set(streams))
            limit = kept + sum(new_rows.get(stream, 0) for stream in set(streams))
        if pairs >= settings.demote_pairs_min and pairs > limit:
            found.add(query)
    return found


# ── step 5: the clock ──────────────────────────────────────────────────────────────────────────────


def _now_after(plan: Plan, rows: tuple[RowFile, ...], ingested: IngestReport) -> int | None:
    """The clock after the batch: changes of tables do not move it, advances do, and neither moves it back."""
    newest = max((f.t_max_us for f in rows if not is_changes(f.stream)), default=None)
    return later(later(plan.now_us, newest), ingested.now_us)
