"""The driver's side of the upkeep job: which shapes, which parts, which rows; and what becomes of the reports.

A batch without kept queries costs nothing here. One that matched nothing, and by whose clock nothing is due, costs a
look at the registry. New queries are matched with the rows that came before them (`weir.runtime.older_matches`).

A shape that ends the process of a task would end it again at every attempt, since the plan is pinned. Shapes are tried
apart then, and those that do it are given up.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weir.algebra.schema import Stream, called, is_changes
from weir.answer.common_cores import with_common
from weir.plan.finishes import Versions, inputs_of
from weir.runtime.loop import Matched, UpkeepReport
from weir.runtime.match import NOT_OF_QUERIES, reason_of
from weir.runtime.older_matches import ATTEMPTS, older_matches
from weir.runtime.quarantine import WORKER_DIED, culprits
from weir.runtime.upkeep_tasks import ShapeTask, UpkeepTask
from weir.store.ascending import NONE, common, together, without
from weir.store.ledger import KeptPart, Quarantine
from weir.store.range_map import ranges_of
from weir.store.row_places import RowPlaces
from weir.store.state import State
from weir.store.table_history import lifetimes_file

if TYPE_CHECKING:
    from weir.runtime.jobs import TaskJobs
    from weir.runtime.kept_queries import KeptShape

ENDS_PROCESS = "it ends the process that keeps its answer"
NOT_MATCHED = "it is not matched as rows come any more: it matches too much, or it could not be matched"
Ids = np.ndarray


@dataclass(frozen=True)
class _Wanted:
    """What is to be done in a batch."""

    shapes: tuple[ShapeTask, ...]
    waiting: frozenset[str]  # shapes all of whose queries are given up
    given_up: dict[int, str]
    resumed: Ids


@dataclass(frozen=True)
class _OfShape:
    """Queries of a shape that are not what they were; all ascend."""

    gone: Ids  # dropped or given up …
    dropped: Ids  # … those that were dropped
    again: Ids  # given up before, and wanted again


def maintain(jobs: TaskJobs, matched: Matched) -> UpkeepReport:
    """Bring the answers of kept queries up to date."""
    state = jobs.context.state
    shapes = jobs.segments.kept.shapes(matched.plan.registry)
    if not shapes:
        return UpkeepReport()
    wanted = _wanted(jobs, matched, shapes)
    if not _is_due(matched, state, wanted):
        return UpkeepReport((), _quarantines(wanted.given_up), tuple(ranges_of(wanted.resumed)))
    older = older_matches(jobs, matched, _new_cores(wanted.shapes))
    wanted = _without(wanted, older.given_up)
    task = _task(jobs, matched, wanted, older.paths)
    reports, crashing = _run(jobs, task)
    wanted = _without(wanted, crashing)
    jobs.came, jobs.went = (sum(report[what] for report in reports) for what in ("came", "went"))
    given_up = dict(wanted.given_up)
    for report in reports:
        given_up |= dict(zip(report["given_up"], report["reasons"], strict=True))
    parts = tuple(_part(report, task) for report in reports if _is_new(report, state))
    resumed = np.setdiff1d(wanted.resumed, np.array(sorted(given_up), np.int64))
    return UpkeepReport(parts, _quarantines(given_up), tuple(ranges_of(resumed)))


def _new_cores(shapes: Sequence[ShapeTask]) -> Ids:
    """The cores of queries that begin, ascending, but for those that are read off the rows."""
    cores = [s.groups.cores_of(s.new, s.matched) for s in shapes if len(s.new)]
    return np.sort(np.concatenate([np.empty(0, np.int64), *cores]))


def _without(wanted: _Wanted, lost: dict[int, str]) -> _Wanted:
    """What is left to be done when some more queries are given up."""
    if not lost:
        return wanted
    ids = np.array(sorted(lost), np.int64)
    shapes = tuple(
        replace(
            shape,
            gone=np.union1d(shape.gone, np.intersect1d(shape.groups.ids(), ids)),
            new=np.setdiff1d(shape.new, ids),
            again=np.setdiff1d(shape.again, ids),
        )
        for shape in wanted.shapes
    )
    return replace(wanted, shapes=shapes, given_up=wanted.given_up | lost)


# ── what ends the process that works on it ──


def _run(jobs: TaskJobs, task: UpkeepTask) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The reports of all parts; and the queries of shapes that end the process, without which the rest is done."""
    crashing: dict[int, str] = {}
    for _ in range(ATTEMPTS):
        try:
            return jobs.run_upkeep(task), crashing
        except Exception as error:
            if WORKER_DIED not in str(error) or not _survives(jobs, task, np.empty(0, np.int64)):
                raise
            last = error
        lost = set(culprits(np.arange(len(task.shapes)), functools.partial(_survives, jobs, task)).tolist())
        for number in lost:
            shape = task.shapes[number]
            crashing |= dict.fromkeys(np.setdiff1d(shape.groups.ids(), shape.gone).tolist(), ENDS_PROCESS)
        left = tuple(shape for number, shape in enumerate(task.shapes) if number not in lost)
        names = {task.shapes[number].name for number in lost}
        task = replace(task, shapes=left, waiting=task.waiting | names)
    raise last


def _survives(jobs: TaskJobs, task: UpkeepTask, numbers: Ids) -> bool:
    """Whether tasks come to an end with some of the shapes; nothing is written."""
    try:
        jobs.run_upkeep(replace(task, shapes=tuple(task.shapes[k] for k in numbers.tolist()), is_trial=True))
    except Exception as error:
        if WORKER_DIED not in str(error):
            raise
        return False
    return True


def _quarantines(given_up: dict[int, str]) -> tuple[Quarantine, ...]:
    by_reason: dict[str, list[int]] = {}
    for id, reason in given_up.items():
        by_reason.setdefault(reason, []).append(id)
    found = [Quarantine(first, count, why) for why, ids in by_reason.items() for first, count in _ranges(ids)]
    return tuple(sorted(found, key=lambda q: q.first))


def _ranges(ids: list[int]) -> list[tuple[int, int]]:
    return ranges_of(np.array(sorted(ids), np.int64))


def _part(report: dict[str, Any], task: UpkeepTask) -> KeptPart:
    return KeptPart(report["part"], task.parts, report["path"] or "", tuple(report["files"]), report["due"])


def _is_new(report: dict[str, Any], state: State) -> bool:
    """Whether a part says anything new. Only its due time may be."""
    before = state.kept.get(report["part"])
    if before is None:
        return report["path"] is not None
    return (before.path, before.due_us) != (report["path"] or "", report["due"])


def _is_due(matched: Matched, state: State, wanted: _Wanted) -> bool:
    if matched.files or wanted.given_up or any(len(s.new) or s.is_moved for s in wanted.shapes):
        return True
    arrived = {file.stream for file in matched.rows}
    if any(not arrived.isdisjoint(shape.read_streams) for shape in wanted.shapes):
        return True
    return any(part.due_us <= matched.now_us for part in state.kept.values())


def _wanted(jobs: TaskJobs, matched: Matched, shapes: Sequence[KeptShape]) -> _Wanted:
    """The shapes with their queries, as registrations, drops and what was given up leave them."""
    registry, state, plan = jobs.context.registry, jobs.context.state, matched.plan
    asked_again = registry.retried(state.registry, plan.registry)
    resumed = np.intersect1d(asked_again, state.given_up.ids())
    left = np.setdiff1d(state.given_up.ids(), resumed)
    dropped = registry.dropped(plan.registry)
    over = np.union1d(left, dropped)
    not_matched = np.unique(registry.queries_of(matched.not_matched))
    given_up: dict[int, str] = {}
    found, waiting = [], set()
    for shape in shapes:
        ids = shape.groups.ids()
        alive = without(ids, over)
        try:
            lost = common(_lost(jobs, matched, shape, not_matched), alive)
            given_up |= dict.fromkeys(lost.tolist(), NOT_MATCHED)
            alive = without(alive, lost)
            gone = without(ids, alive)
            of_shape = _OfShape(gone, common(ids, dropped), common(resumed, alive))
            if len(alive):
                new = common(together(shape.since(state.registry), of_shape.again), alive)
                found.append(_shape_task(jobs, matched, shape, of_shape, new))
            elif len(of_shape.dropped) < len(ids):
                waiting.add(shape.name)
        except NOT_OF_QUERIES:
            raise
        except Exception as error:  # its text cannot be read, say
            given_up |= dict.fromkeys(alive.tolist(), reason_of(error))
            waiting.add(shape.name)
    lost = together(over, np.array(sorted(given_up), np.int64))
    return _Wanted(tuple(found), frozenset(waiting), given_up, without(resumed, lost))


def _lost(jobs: TaskJobs, matched: Matched, shape: KeptShape, not_matched: Ids) -> Ids:
    """Of queries with cores that are not matched, those of a shape whose cores cannot be read off the rows either."""
    lost = common(shape.groups.ids(), not_matched)
    if not len(lost):
        return lost
    how = jobs.segments.kept.planned(shape, matched.catalog)
    found = (shape.groups.queries_of(matched.not_matched, core) for core in how.matched)
    needed = np.unique(np.concatenate([NONE, *found]))
    return needed[needed >= 0]


def _shape_task(jobs: TaskJobs, matched: Matched, shape: KeptShape, of: _OfShape, new: Ids) -> ShapeTask:
    how = jobs.segments.kept.planned(shape, matched.catalog)
    planned, upkeep = how.planned, how.upkeep
    if upkeep.refusal is not None:
        raise ValueError(upkeep.refusal)
    parts, seen = planned.classified.parts, planned.classified.seen
    assert parts is not None, "it was registered"
    arrived = {file.stream.lower() for file in matched.rows}
    timed = {t.changes.name.lower() for t in matched.catalog.tables.values() if t.time is not None}
    return ShapeTask(
        shape.name,
        parts,
        tuple(one.family.channel for one in seen),
        tuple(one.sides for one in seen),
        tuple(one.by_source(one.streams) for one in seen),
        planned.query.output,
        shape.types,
        shape.groups,
        of.gone,
        of.dropped,
        new,
        of.again,
        bool(upkeep.moved_by & (arrived | timed)),
        how.keeping,
        with_common(parts.finish, how.keeping.common),
    )


def _task(jobs: TaskJobs, matched: Matched, wanted: _Wanted, older: Sequence[str]) -> UpkeepTask:
    state, settings = jobs.context.state, jobs.context.settings
    count = next((part.of for part in state.kept.values()), max(1, jobs.slices))
    workers = min(count, max(1, jobs.slices))
    names = {stream.name for shape in wanted.shapes for of in shape.streams for stream in of}
    tables = {scan.lower() for scan in _tables_read(wanted.shapes)}
    streams = [matched.catalog.side(name) for name in sorted(names)]
    streams += [t.changes for n, t in matched.catalog.tables.items() if n in tables and t.changes.name not in names]
    return UpkeepTask(
        location=jobs.context.files.location,
        batch=matched.plan.batch,
        now_us=matched.now_us,
        parts=count,
        slices=tuple(tuple(range(k, count, workers)) for k in range(workers)),
        shapes=wanted.shapes,
        waiting=wanted.waiting,
        before={number: part.path for number, part in state.kept.items() if part.path},
        matches=tuple(file.path for file in matched.files),
        older=tuple(older),
        places={stream.name: _places(jobs, matched, stream) for stream in streams},
        tables={n: t for n, t in matched.catalog.tables.items() if n in tables},
        results_max=settings.kept_results_max,
    )


def _tables_read(shapes: Sequence[ShapeTask]) -> Iterator[str]:
    """The tables that finishes read."""
    waiting = [shape.cores.finish for shape in shapes]
    while waiting:
        finish = waiting.pop()
        if isinstance(finish, Versions):
            yield finish.table
        waiting.extend(inputs_of(finish))


def _places(jobs: TaskJobs, matched: Matched, stream: Stream) -> RowPlaces:
    """Where the rows of a stream are, those of the batch among them."""
    kept = jobs.context.state.row_files(stream.name)
    new = [file for file in matched.rows if file.stream == stream.name]
    paths = (*kept.paths, *(file.path for file in new))
    first = np.concatenate([kept.first_row, np.array([f.first_row for f in new], np.int64)])
    end = first + np.concatenate([kept.count, np.array([f.count for f in new], np.int64)])
    new_from = min((f.first_row for f in new), default=int(end[-1]) if len(end) else 0)
    places = RowPlaces(stream, paths, first, end, new_from)
    if not is_changes(stream.name) or not paths:
        return places
    table = matched.catalog.tables[called(stream.name).lower()]
    return replace(places, lifetimes=lifetimes_file(jobs.context.files, table, paths))
