"""The upkeep job: one stage; each task brings the maintained answers of its parts of the kept queries up to date.

A part has every query whose id has the same remainder. For each shape a task takes what the batch's match files found
for its queries, with the columns that the finish reads, beside what it knows (`weir.store.maintained`). A query is
*affected* if something came for it, if something of it was due by now, if it is new, or if its shape was moved
(`weir.plan.maintenance`). The answers of all affected queries of a shape are made at once (`weir.answer.many_finish`)
of the results that are shown now, and compared with those before: that is what came and went. No query is looked at by
itself.

An answer that cannot be made, or whose results are too many, is given up with its reason; it is computed when it is
asked for, as if its query had never been kept, and the others go on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weir.answer.additive_groups import ROWS, Additive, added, group_rows, sums_of
from weir.answer.many_finish import ManyAnswers, finished_many
from weir.answer.outlived import without_outlived
from weir.answer.row_codes import differences, reordered
from weir.answer.shown_results import ROW_COLUMN, Constants, Moment, Sources, due_times, shown_now
from weir.answer.slot_values import Asked
from weir.answer.table_versions import seen_versions, versions_in
from weir.plan.finishes import Finish, Versions, is_ordered
from weir.runtime import faults
from weir.runtime.found_results import FoundResults
from weir.runtime.known_constants import EVERYBODY, KnownConstants, constants_of
from weir.runtime.match import NOT_OF_QUERIES, reason_of
from weir.runtime.reports import schema_of
from weir.runtime.upkeep_tasks import ShapeTask, UpkeepTask
from weir.store.ascending import NONE, common, distinct, inside, together, without
from weir.store.files import Files, open_files
from weir.store.maintained import FROM, NEVER, SLOT, TO, Part, PartWriter, Run, ShapeRuns, read_part, still_shown
from weir.store.row_files import arrow_schema

REPORT_DDL = (
    "part int, path string, files array<string>, due bigint, came bigint, went bigint, "
    "given_up array<bigint>, reasons array<string>"
)
REPORT = schema_of(REPORT_DDL)
CAME = "came of row"  # of a change: whether the row came or went
DUE = "due us"
LEFT_OVER_SHARE = 4  # when more than one in so many of the queries that are known is gone, they are forgotten
TOO_MANY = "more than {:,} results are in its windows (kept_results_max)"
Ids = np.ndarray


def maintain_part(task: UpkeepTask, number: int) -> dict[str, object]:
    """Bring one part up to date, and report the file that says so; None: nothing has changed."""
    files = open_files(task.location)
    path = task.before.get(number)
    before = None if path is None else read_part(files, path)
    work = _Upkeep(task, number, files, before)
    for shape in task.shapes:
        work.shape(shape)
    for name in work.writer.shapes.keys() - {shape.name for shape in task.shapes}:
        work.forget(name, is_over=name not in task.waiting)
    part = before
    if work.is_changed and not task.is_trial:
        part = work.writer.write()
        faults.reach("kept state written, task result lost")
    return {
        "part": number,
        "path": None if part is None else part.path,
        "files": [] if part is None else list(part.files),
        "due": work.due,
        "came": work.came,
        "went": work.went,
        "given_up": list(work.given_up),
        "reasons": list(work.given_up.values()),
    }


class _Upkeep:
    """One part at work."""

    def __init__(self, task: UpkeepTask, number: int, files: Files, before: Part | None) -> None:
        self.task = task
        self.number = number
        self.files = files
        self.writer = PartWriter(files, task.batch, before)
        self.given_up: dict[int, str] = {}  # by query, why
        self.due = NEVER
        self.came = self.went = 0
        self.is_changed = False
        self.found = FoundResults(task, number, files)

    def shape(self, shape: ShapeTask) -> None:
        """Bring the queries of one shape up to date. Whatever fails, fails for this shape alone."""
        before = self.writer.shapes.get(shape.name)
        if before is not None and self._is_idle(shape, before):
            self.due = min(self.due, before.due_us)
            return
        try:
            after = self._shape(shape, before or ShapeRuns())
        except NOT_OF_QUERIES:
            raise
        except Exception as error:
            mine = without(self._mine(shape.groups.ids()), shape.gone)
            self.given_up |= dict.fromkeys(mine.tolist(), reason_of(error))
            self.forget(shape.name, is_over=False)
            return
        if after != before:
            self.writer.shapes[shape.name] = after
            self.is_changed = True

    def _is_idle(self, shape: ShapeTask, before: ShapeRuns) -> bool:
        """Whether nothing came for a shape, nothing of it is due, and none of its queries begins."""
        if shape.is_moved or before.due_us <= self.task.now_us or len(self._mine(shape.new)):
            return False
        return not self.found.is_any(shape)

    def forget(self, name: str, *, is_over: bool) -> None:
        """Forget a shape; unless it is over, what was told of its queries counts when they begin again."""
        before = self.writer.shapes.pop(name, None)
        self.writer.forget_changes(name)
        answers = () if before is None or is_over else self._told_of_lost(before, before.answers, None)
        if answers:
            self.writer.shapes[name] = ShapeRuns(answers=answers)
        self.is_changed |= before != self.writer.shapes.get(name)

    def _mine(self, ids: Ids) -> Ids:
        mine: Ids = ids[ids % self.task.parts == self.number]
        return mine

    def _shape(self, shape: ShapeTask, before: ShapeRuns) -> ShapeRuns:
        task = self.task
        new, gone = self._mine(shape.new), self._mine(shape.gone)
        if not before.results:
            before = replace(before, results=((),) * (2 if shape.keeping.counts else len(shape.cores.cores)))
        told_before = before
        before = self._begun_anew(before, together(self._mine(shape.again), self._left_over(before, gone)))
        constants = self.writer.rows_of(before.constants, constants_of(self.files, shape, new), gone)
        looked = KnownConstants([self.writer.table(run) for run in constants])
        alive = without(looked.slots, gone)
        is_anew = not len(without(alive, new))  # nobody was there to keep what is common
        if is_anew:
            left = (() if core in shape.keeping.common else of for core, of in enumerate(before.results))
            before = replace(before, results=tuple(left))
        came = [
            self.found.read(shape, core, looked.in_which_agree(alive), is_anew=is_anew)
            if core in shape.keeping.common
            else self.found.came(shape, core, gone, looked)
            for core in range(len(shape.cores.cores))
        ]
        self.given_up |= self.found.failed
        counts = shape.keeping.counts
        if counts is None:
            step = self._by_results(shape, before, came, looked, (new, gone))
        else:
            step = self._by_sums(counts, before, came[0], looked, (new, gone), are_rows=shape.keeping.are_rows)
        self.due = min(self.due, step.due_us)
        after = replace(step.runs, constants=constants, due_us=step.due_us)
        affected = step.asked.slots
        for slot in affected[step.counts > task.results_max].tolist():
            self.given_up[slot] = TOO_MANY.format(task.results_max)
        if shape.keeping.are_rows:
            return self._rows_told(shape, told_before, after, step)
        if not len(affected):
            return after
        asked, tables = self._left(step, looked)
        made = finished_many(step.finish, tables, shape.output, asked, task.now_us, self._versions)
        self.given_up |= made.failed
        good = without(affected, np.array(sorted(self.given_up), np.int64))
        answers = _only(made.table, good)
        told = self._changed(shape, before.answers, answers, good, new)
        changed = _only(answers, told)
        return replace(after, answers=self.writer.newest(before.answers, changed, told, self._mine(shape.dropped)))

    def _rows_told(self, shape: ShapeTask, told: ShapeRuns, after: ShapeRuns, step: _Step) -> ShapeRuns:
        """What came and went where the results are the answers; `told` is what was known before the batch."""
        good = without(step.asked.slots, np.array(sorted(self.given_up), np.int64))
        columns = [SLOT, *(c.name for c in shape.output)]
        assert step.begun is not None, "results that are answers are looked at when they begin"
        came = step.begun.select(columns)
        again = common(good, self._mine(shape.again))
        old = _newest_answers(self.writer, told.answers, again, came.schema)
        went = pa.concat_tables([old, *([] if step.over is None else [step.over.select(columns).cast(came.schema)])])
        self._tell(shape, *differences(_only(came, good), _only(went, good)))
        given_up = np.array(sorted(self.given_up), np.int64)
        lost = without(self._mine(shape.gone), self._mine(shape.dropped))
        lost = together(lost, given_up[shape.groups.queries_of(given_up, 0) >= 0])
        over = together(again, self._mine(shape.dropped))
        left = self.writer.without(told.answers, over, are_told=True)
        return replace(after, answers=self._told_of_lost(told, left, lost, [came.slice(0, 0)]), are_rows=True)

    def _told_of_lost(
        self, told: ShapeRuns, answers: tuple[Run, ...], lost: Ids | None, none: Sequence[pa.Table] = ()
    ) -> tuple[Run, ...]:
        """Answers, with what was told of queries that are not kept any more; None: of all of a shape.

        `none` are empty answers: that nothing was told is written down too.
        """
        if lost is None:
            lost = together(*(self.writer.table(run).column(SLOT).to_numpy() for run in told.constants))
        lost = without(lost, together(*(self.writer.told(run) for run in answers)))
        if not len(lost):
            return answers
        partitions = told.results[0] if told.are_rows else ()  # it is new here, or all of it was given up
        rows = [*none, *(still_shown(run, self.writer.table(run), lost) for run in partitions)]
        return self.writer.newest(answers, pa.concat_tables(rows), lost, NONE) if rows else answers

    def _left(self, step: _Step, looked: KnownConstants) -> tuple[Asked, Sequence[pa.Table]]:
        """The queries whose answers are to be made, and of what, without those that are given up by now."""
        lost = np.isin(step.asked.slots, list(self.given_up))
        if not lost.any():
            return step.asked, step.tables
        asked = looked.of(step.asked.slots[~lost])
        return asked, [_only(t, asked.slots) if SLOT in t.column_names else t for t in step.tables]

    def _left_over(self, before: ShapeRuns, gone: Ids) -> Ids:
        """Queries that are gone, once they are so many that it pays to look through everything for what is left."""
        known = together(*(np.sort(self.writer.table(run).column(SLOT).to_numpy()) for run in before.constants))
        left = common(known, gone)
        return left if LEFT_OVER_SHARE * len(left) > len(known) else NONE

    def _begun_anew(self, before: ShapeRuns, again: Ids) -> ShapeRuns:
        """Without what is left of queries that are gone, or begin again, but for what was told of them."""
        if not len(again):
            return before
        without = self.writer.without
        return replace(
            before,
            constants=without(before.constants, again),
            dues=without(before.dues, again, are_told=True),
            sums=without(before.sums, again),
            results=tuple(without(runs, again) for runs in before.results),
        )

    def _by_results(
        self,
        shape: ShapeTask,
        before: ShapeRuns,
        came: Sequence[pa.Table],
        looked: KnownConstants,
        of: tuple[Ids, Ids],
    ) -> _Step:
        """Answers are made of all results that are shown now."""
        task, (new, gone) = self.task, of
        results = tuple(
            self.writer.results(runs, found, task.now_us, gone, functools.partial(_needed, shape, task.now_us))
            for runs, found in zip(before.results, came, strict=True)
        )
        dues = _due_now(self.writer, before.dues, gone, task.now_us)
        parts = [new, dues.over, *(distinct(found.column(SLOT).to_numpy()) for found in came)]
        affected = together(*parts)
        if shape.is_moved or len(common(affected, EVERYBODY)):
            affected = looked.slots
        asked = looked.of(without(affected, gone))
        runs = replace(before, results=results)
        if not len(asked.slots):
            return _Step(runs, asked, (), shape.finish, np.empty(0, np.int64), dues.next_us)
        tables, next_us, counts = self._shown(shape, results, asked, looked.in_which_agree(asked.slots))
        about = together(EVERYBODY, asked.slots) if shape.keeping.common else asked.slots
        due = pa.table({SLOT: about, DUE: next_us})
        runs = replace(runs, dues=self.writer.newest(before.dues, due, about, gone))
        due_us = min(dues.next_us, int(next_us.min()))
        return _Step(runs, asked, tables, shape.finish, counts, due_us)

    def _by_sums(
        self,
        of: Additive,
        before: ShapeRuns,
        came: pa.Table,
        looked: KnownConstants,
        new_gone: tuple[Ids, Ids],
        *,
        are_rows: bool,
    ) -> _Step:
        """Answers are made of the sums of groups, to which what came is added, and what is over is taken away."""
        now_us, (new, gone) = self.task.now_us, new_gone
        counted, waiting = before.results  # those that are in sums, and those that are not shown yet
        names = [name for name in came.column_names if name != FROM and not name.startswith(ROW_COLUMN)]
        begun, waiting, waits_us = self._begun(waiting, came, gone)
        over, counted, over_us = self._over(counted, gone)
        plus = self._sums(of, begun.select(names), looked)
        self.given_up |= plus.failed
        minus = [] if over is None else [self._sums(of, over, looked)]
        for found in minus:
            self.given_up |= found.failed
        change = added(of, [(plus.table, 1), *((found.table, -1) for found in minus)], is_whole=False)
        affected = together(distinct(change.column(SLOT).to_numpy()), new)
        ending = begun.select(names)
        if not are_rows:  # what is never over is never taken away from sums
            ends = ending.column(TO).to_numpy() < NEVER
            ending = ending if ends.all() else ending.filter(pa.array(ends))
        counted = self.writer.partitions(counted, ending, now_us, gone, by_query=are_rows)
        due_us = min(waits_us, over_us, int(begun.column(TO).to_numpy().min(initial=NEVER)))
        asked = looked.of(without(affected, gone))
        if not len(asked.slots):
            runs = replace(before, results=(counted, waiting))
            return _Step(runs, asked, (), of.above, asked.slots, due_us, begun, over)
        known = _of_slots([self.writer.table(run) for run in before.sums], asked.slots)
        current = added(of, [(table, 1) for table in (known, change) if table is not None], is_whole=True)
        current = _only(current, asked.slots)
        place = np.searchsorted(asked.slots, current.column(SLOT).to_numpy())
        counts = np.bincount(place, current.column(ROWS).to_numpy(), len(asked.slots)).astype(np.int64)
        sums = self.writer.sums(before.sums, change, functools.partial(_together, of), gone)
        runs = replace(before, results=(counted, waiting), sums=sums)
        tables = () if are_rows else (group_rows(of, current, asked.slots),)
        return _Step(runs, asked, tables, of.above, counts, due_us, begun, over)

    def _sums(self, of: Additive, rows: pa.Table, looked: KnownConstants) -> ManyAnswers:
        slots = NONE if of.is_plain else np.sort(rows.column(SLOT).to_numpy())
        return sums_of(of, rows, looked.those_of(slots), self.task.now_us)

    def _begun(self, waiting: Sequence[Run], came: pa.Table, gone: Ids) -> tuple[pa.Table, tuple[Run, ...], int]:
        """The results that are shown from now on; those that wait for it; when the next of these is."""
        tables = [came, *(self.writer.table(run) for run in waiting)]
        both = pa.concat_tables(tables)
        slots, begin, end = (both.column(name).to_numpy() for name in (SLOT, FROM, TO))
        here = (end > self.task.now_us) & ~inside(slots, gone)
        is_begun = begin <= self.task.now_us
        if bool((here & is_begun).all()):
            return both.combine_chunks(), (), NEVER
        left = both.filter(pa.array(here & ~is_begun)).combine_chunks()
        runs: tuple[Run, ...] = (self.writer.add(left),) if left.num_rows else ()
        if waiting and left.num_rows == sum(run.count for run in waiting) and not came.num_rows:
            runs = tuple(waiting)
        next_us = int(left.column(FROM).to_numpy().min(initial=NEVER))
        return both.filter(pa.array(here & is_begun)).combine_chunks(), runs, next_us

    def _over(self, counted: Sequence[Run], gone: Ids) -> tuple[pa.Table | None, tuple[Run, ...], int]:
        """The results that are over since the last batch; the partitions that are left; when the next one is over."""
        now_us, found, kept, next_us = self.task.now_us, [], [], NEVER
        for run in counted:
            if run.first_us <= now_us:
                table = self.writer.table(run)
                end = table.column(TO).to_numpy()
                over = (end >= run.first_us) & (end <= now_us)
                found.append(table.filter(pa.array(over & ~inside(table.column(SLOT).to_numpy(), gone))))
                if run.last_us <= now_us:
                    continue
                run = replace(run, first_us=int(end[end > now_us].min()))
            kept.append(run)
            next_us = min(next_us, run.first_us)
        return pa.concat_tables(found) if found else None, tuple(kept), next_us

    def _versions(self, asked: Versions) -> pa.Table:
        """The rows of a table that a finish reads."""
        table = self.task.tables[asked.table.lower()]
        found = versions_in(self.files, table, self.task.places[table.changes.name].paths)
        return seen_versions(found, table, asked, self.task.now_us)

    def _shown(
        self, shape: ShapeTask, results: Sequence[Sequence[Run]], asked: Asked, everybody: KnownConstants
    ) -> tuple[list[pa.Table], np.ndarray, np.ndarray]:
        """By core the results of some queries that are shown now; when their answers are due again, how many there are.

        The latter two are by query; if there are common cores, when all of them are due again comes first.
        """
        tables = []
        next_us = np.full(len(asked.slots), NEVER, np.int64)
        next_of_all_us = NEVER
        counts = np.zeros(len(asked.slots), np.int64)
        for core, runs in enumerate(results):
            is_common = core in shape.keeping.common
            whose = everybody.of(everybody.slots) if is_common else asked
            names = [c.name for c in shape.cores.cores[core].output]
            found = _of_slots([self.writer.table(run) for run in runs], whose.slots)
            if found is None:
                schema = arrow_schema(shape.cores.cores[core].output).append(pa.field(SLOT, pa.int64()))
                tables.append(schema.empty_table().select(names) if is_common else schema.empty_table())
                continue
            rows, due = self._shown_of(shape, core, found, whose)
            if is_common:
                next_of_all_us = min(next_of_all_us, int(due.min()))
                counts += rows.num_rows
                tables.append(rows.select(names))
                continue
            np.minimum.at(next_us, np.searchsorted(asked.slots, found.column(SLOT).to_numpy()), due)
            counts += np.bincount(np.searchsorted(asked.slots, rows.column(SLOT).to_numpy()), minlength=len(counts))
            tables.append(rows.select([*names, SLOT]))
        if shape.keeping.common:
            next_us = np.concatenate([[next_of_all_us], next_us])
        return tables, next_us, counts

    def _shown_of(self, shape: ShapeTask, core: int, found: pa.Table, whose: Asked) -> tuple[pa.Table, np.ndarray]:
        """Of some results of a core those that are shown now, in order; and when each of all changes that."""
        about = Sources(shape.cores.cores[core].sources, shape.streams[core], ())
        moment = Moment(self.files, self.task.now_us, self.task.places)
        shown = shown_now(found, about, Constants(whose.slots, whose.constants), moment)
        rows = found.filter(pa.array(shown))
        order = pa.array(np.lexsort([rows.column(n).to_numpy() for n in _row_columns(rows)][::-1]))
        return rows.take(order), due_times(found, about, moment)

    def _changed(self, shape: ShapeTask, runs: Sequence[Run], answers: pa.Table, good: Ids, new: Ids) -> Ids:
        """Note what came and went of these queries; the ids of those whose answers are others than before."""
        old = _newest_answers(self.writer, runs, good, answers.schema)
        came, went = differences(answers, old)
        ids = [table.column(SLOT).to_numpy() for table in (came, went)]
        self._tell(shape, came, went)
        told = together(*(distinct(np.sort(one)) for one in ids), common(good, new))
        if shape.keeping.additive is not None and not is_ordered(shape.cores.finish):
            return told  # sums say nothing of the order in which groups began
        return together(told, _reordered(answers, old, told))

    def _tell(self, shape: ShapeTask, came: pa.Table, went: pa.Table) -> None:
        """Write down what came and went."""
        self.came, self.went = self.came + came.num_rows, self.went + went.num_rows
        if came.num_rows or went.num_rows:
            flags = [pa.array(np.full(table.num_rows, flag)) for table, flag in ((came, True), (went, False))]
            both = pa.concat_tables([t.append_column(CAME, f) for t, f in zip((came, went), flags, strict=True)])
            self.writer.set_changes(shape.name, both)


@dataclass(frozen=True)
class _Step:
    """What a batch does to the queries of a shape, but for their answers."""

    runs: ShapeRuns
    asked: Asked  # the queries whose answers are to be made
    tables: Sequence[pa.Table]  # of which they are made …
    finish: Finish  # … and how
    counts: Ids  # by query, how many results it has
    due_us: int  # when the next answer of the shape is due
    begun: pa.Table | None = None  # results that are shown from now on …
    over: pa.Table | None = None  # … and those that were and are no more


@dataclass(frozen=True)
class _DueNow:
    over: Ids  # queries that are due by now
    next_us: int  # when the next of the others is due


def _reordered(answers: pa.Table, old: pa.Table, told: Ids) -> Ids:
    """The queries of which nothing came or went, and whose rows yet stand in another order than before."""
    slots = answers.column(SLOT).to_numpy()
    wanted = np.setdiff1d(slots[1:][slots[1:] == slots[:-1]], told)  # one row has no order
    if not len(wanted):
        return wanted
    mine, others = (t.filter(pa.array(np.isin(t.column(SLOT).to_numpy(), wanted))) for t in (answers, old))
    return reordered(mine, others, SLOT)


def _needed(shape: ShapeTask, now_us: int, results: pa.Table) -> pa.Table:
    return results if shape.keeping.outliving is None else without_outlived(shape.keeping.outliving, results, now_us)


def _together(of: Additive, tables: Sequence[pa.Table], is_whole: bool) -> pa.Table:
    return added(of, [(table, 1) for table in tables], is_whole=is_whole)


def _due_now(writer: PartWriter, runs: Sequence[Run], gone: Ids, now_us: int) -> _DueNow:
    """Which queries are due, and when the next one is; of several runs about one the newest counts."""
    over, next_us = [np.empty(0, np.int64)], NEVER
    known = gone
    for run in reversed(runs):
        table = writer.table(run)
        slots, due = table.column(SLOT).to_numpy(), table.column(DUE).to_numpy()
        fresh = ~inside(slots, known)
        over.append(slots[fresh & (due <= now_us)])
        next_us = min(next_us, int(due[fresh & (due > now_us)].min(initial=NEVER)))
        known = together(known, slots)
    return _DueNow(np.sort(np.concatenate(over)), next_us)


def _newest_answers(writer: PartWriter, runs: Sequence[Run], slots: Ids, schema: pa.Schema) -> pa.Table:
    """The answers before this batch."""
    left, found = slots, [schema.empty_table()]
    for run in reversed(runs):
        told = common(left, writer.told(run))
        if len(told):
            table = _of_slots([writer.table(run)], told)
            if table is not None:
                found.append(table.select(schema.names).cast(schema))
            left = without(left, told)
    return pa.concat_tables(found)


def _of_slots(tables: Sequence[pa.Table], slots: Ids) -> pa.Table | None:
    """The rows of some queries; None if there are none."""
    found = []
    for table in tables:
        of = table.column(SLOT).to_numpy()
        if len(slots) and len(of):
            place = np.minimum(np.searchsorted(slots, of), len(slots) - 1)
            mine = np.flatnonzero(slots[place] == of)
            if len(mine):
                found.append(table if len(mine) == len(of) else table.take(pa.array(mine)))
    return pa.concat_tables(found).combine_chunks() if found else None


def _only(table: pa.Table, slots: Ids) -> pa.Table:
    """The rows of some queries, in their order."""
    here = inside(table.column(SLOT).to_numpy(), slots)
    return table if here.all() else table.filter(pa.array(here))


def _row_columns(table: pa.Table) -> list[str]:
    """The columns in whose order a core's results are: whose they are, and the rows by source."""
    return [SLOT, *(name for name in table.column_names if name.startswith(ROW_COLUMN))]


def upkeep_task(task: UpkeepTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` runs over slice numbers."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parts = [part for n in batch.column(0).to_pylist() for part in task.slices[n]]
            yield pa.RecordBatch.from_pylist([maintain_part(task, part) for part in parts], schema=REPORT)

    return run
