"""The answers of many queries at once: runs, match files and rows are gone through once for all queries of a shape.

The queries of a shape have cores of one family each. What their materialised cores matched is taken out of runs and
match files together, cut by the windows of all of them, projected and finished as the rows of one query are, with one
more column that says whose row it is (`weir.answer.many_finish`). Answers that are kept are read together.

Each of these is asked for by itself, as `weir.answer.fetch` does it: a core that is demoted or that nothing matches,
the rows that came before a query (read from their cache, after the first time), and a query that fails. So a query has
an error exactly if it has one alone, and the others have answers.

Cost: that of one query with all results, a pass over what the queries matched, and each row file of which they show
rows once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weir.algebra.nodes import Query
from weir.algebra.schema import Stream, called, is_changes
from weir.answer import table_versions
from weir.answer.fetch import answer_at, fetch, moment, older_results, views_at
from weir.answer.kept_rows import KeptRows
from weir.answer.many_finish import ManyAnswers, finished_many, projected_many
from weir.answer.many_windows import Cuts, resolved, rows_of_many, shown_of_many
from weir.answer.slot_values import SLOT
from weir.answer.standing import Library
from weir.answer.table_versions import VersionRows
from weir.answer.together import Together
from weir.answer.views import Ids, View
from weir.answer.window import EVERYTHING
from weir.errors import FetchError, StoreError, WeirError
from weir.families.contract import Seen
from weir.families.query_parts import columns_of
from weir.plan.finishes import Versions
from weir.plan.maintenance import taken_name
from weir.store.ascending import NONE, by_bytes, inside, together, without
from weir.store.core_runs import matched_many
from weir.store.files import Files
from weir.store.maintained import answers_of, read_part
from weir.store.row_files import arrow_schema
from weir.store.state import State

Longs = npt.NDArray[np.int64]


class Found(NamedTuple):
    """The answers of queries of one shape."""

    ids: Longs  # of the queries, ascending
    table: pa.Table  # SLOT, ascending, and the columns of an answer; those of one query are in its order
    failed: dict[int, WeirError]  # why a query has no answer


def fetch_many(library: Library, ids: Longs, files: Files, state: State, *, at_us: int | None = None) -> list[Found]:
    """The answers at τ of queries that stand, given ascending, by shapes; unknown and dropped ones are errors."""
    now_us = moment(state, None)
    tau_us = now_us if at_us is None else at_us
    return [_Fetching(library, files, state, tau_us, asked).found(tau_us == now_us) for asked in library.together(ids)]


class _Fetching:
    """The queries of one shape."""

    def __init__(self, library: Library, files: Files, state: State, tau_us: int, asked: Together) -> None:
        self.library = library
        self.files = files
        self.state = state
        self.tau_us = tau_us
        self.asked = asked
        self.schema = asked.schema.insert(0, pa.field(SLOT, pa.int64()))

    def found(self, may_be_kept: bool) -> Found:
        """All answers."""
        ids = self.asked.ids
        alone = ids if taken_name(self.asked.planned) else ids[self._reaching(self.asked)]
        left = without(ids, alone)
        tables = [self.schema.empty_table()]
        if may_be_kept:
            kept, told = self._kept(left)
            tables += kept
            left = without(left, told)
        if len(left):
            made = self._made(self.asked.at(np.searchsorted(ids, left)))
            tables.append(made.table)
            alone = together(alone, np.array(sorted(made.failed), np.int64))
        failed: dict[int, WeirError] = {}
        for id in alone.tolist():
            try:
                answer = fetch(self.library.standing(id), self.files, self.state, at_us=self.tau_us)
            except (StoreError, AssertionError):
                raise
            except Exception as error:  # whatever a user's query and rows make an engine say
                failed[id] = error if isinstance(error, WeirError) else FetchError(str(error))
            else:
                slots = pa.array(np.full(answer.num_rows, id, np.int64))
                tables.append(pa.Table.from_arrays([slots, *answer.columns], schema=self.schema))
        return Found(ids, by_query(pa.concat_tables(tables)), failed)

    def _reaching(self, asked: Together) -> npt.NDArray[np.bool_]:
        """The queries whose windows reach below the rows that are kept."""
        found = np.zeros(len(asked.ids), bool)
        for query, seen in self._cores(asked):
            for stream, cuts in zip(_streams(seen), self._cuts(asked, query, seen), strict=True):
                if cuts is not None:
                    found |= cuts.below(self.state.read_floors.get(stream.name))
        return found

    @staticmethod
    def _cores(asked: Together) -> list[tuple[Query, Seen]]:
        return list(zip(asked.parts.cores, asked.planned.classified.seen, strict=True))

    def _cuts(self, asked: Together, query: Query, seen: Seen) -> list[Cuts | None]:
        """By source what its window shows at τ; None for a table."""
        return [
            None if is_changes(stream.name) else resolved(scan.window, stream, asked.constants, self.tau_us)
            for scan, stream in zip(query.sources, _streams(seen), strict=True)
        ]

    # Answers that are kept.

    def _kept(self, ids: Longs) -> tuple[list[pa.Table], Longs]:
        """The answers that the last batch has kept, and whose these are."""
        shapes = {group.kept_as.shape for group in self.asked.groups if group.kept_as is not None}
        tables: list[pa.Table] = []
        told = [NONE]
        for shape in shapes:
            of_shape = [group.kept_as is not None and group.kept_as.shape == shape for group in self.asked.groups]
            mine = ids[np.array(of_shape)[self.asked.group[np.searchsorted(self.asked.ids, ids)]]]
            mine = without(mine, self.state.given_up.ids())
            for part in self.state.kept.values():
                runs = read_part(self.files, part.path).shapes.get(shape) if part.path else None
                if runs is not None:
                    table, known = answers_of(self.files, runs, mine[mine % part.of == part.part], self.asked.schema)
                    tables.append(table)
                    told.append(known)
        return tables, together(*told)

    # Answers that are made.

    def _made(self, asked: Together) -> ManyAnswers:
        """The answers of all queries at once, or of halves of them where that fails."""
        try:
            return self._at_once(asked)
        except (StoreError, AssertionError):
            raise
        except Exception as error:  # also what is too large for all of them together
            count = len(asked.ids)
            if count == 1:
                return ManyAnswers(self.schema.empty_table(), {int(asked.ids[0]): str(error)})
            halves = [self._made(asked.at(places)) for places in np.array_split(np.arange(count), 2)]
            return ManyAnswers(pa.concat_tables([h.table for h in halves]), halves[0].failed | halves[1].failed)

    def _at_once(self, asked: Together) -> ManyAnswers:
        failed: dict[int, str] = {}
        tables = []
        for number, (query, seen) in enumerate(self._cores(asked)):
            made = self._projected(asked, number, query, seen)
            failed |= made.failed
            tables.append(made.table)
        if failed:
            good = without(asked.ids, np.array(sorted(failed), np.int64))
            asked = asked.at(np.searchsorted(asked.ids, good))
            tables = [table.filter(pa.array(inside(table.column(0).to_numpy(), good))) for table in tables]
        parts, output = asked.parts, asked.planned.query.output
        made = finished_many(parts.finish, tables, output, asked.asked, self.tau_us, self._versions)
        return ManyAnswers(made.table, failed | made.failed)

    def _versions(self, asked: Versions) -> pa.Table:
        table = self.asked.tables[asked.table.lower()]
        found = table_versions.versions(self.files, table, self.state, self.state.last)
        return table_versions.seen_versions(found, table, asked, self.tau_us)

    def _projected(self, asked: Together, number: int, query: Query, seen: Seen) -> ManyAnswers:
        """What a core of the queries shows: SLOT and the columns that the finish reads."""
        views = [self._view(stream) for stream in _streams(seen)]
        of, ids = self._results(asked, number, views, self._cuts(asked, query, seen))
        columns = columns_of(query)
        rows = rows_of_many(views, ids, [e for _, e in columns])
        made = projected_many(columns, rows, asked.ids[of], asked.asked, self.tau_us)
        schema = arrow_schema(query.output).insert(0, pa.field(SLOT, pa.int64()))
        arrays = [array.cast(field.type) for array, field in zip(made.table.columns, schema, strict=True)]
        return ManyAnswers(pa.Table.from_arrays(arrays, schema=schema), made.failed)

    def _view(self, stream: Stream) -> View:
        if not is_changes(stream.name):
            return View(KeptRows(self.files, stream, self.state, self.state.last), EVERYTHING)
        versions = VersionRows(self.files, self.asked.tables[called(stream.name).lower()], self.state, self.state.last)
        return View(versions, EVERYTHING, versions.lifetimes, self.tau_us)

    def _results(self, asked: Together, number: int, views: list[View], cuts: list[Cuts | None]) -> tuple[Longs, Ids]:
        """The results of a core that are shown: the place of each one's query, and its row ids by source."""
        seen = asked.planned.classified.seen[number]
        since = self._matched_since(asked, number, seen)
        found = [(NONE, (NONE,) * len(views)), *self._older(asked, number, views, since)]
        matched = np.flatnonzero(since >= 0)
        if len(matched):
            cores = asked.cores(number)[matched]
            channel = seen.family.channel
            of, by_side = matched_many(self.files, self.state, channel, cores, since[matched], self.state.last)
            found.append((matched[of], seen.by_source(by_side)))
        of, ids = shown_of_many(views, cuts, *_together(found))
        of, ids = _together([(of, ids), *self._recomputed(asked, number, np.flatnonzero(since < 0))])
        # The rows of a selection ascend.
        order = by_bytes(of) if len(ids) == 1 else np.lexsort((*ids[::-1], of))
        return of[order], tuple(rows[order] for rows in ids)

    def _matched_since(self, asked: Together, number: int, seen: Seen) -> Longs:
        """By query, the batch since which its core's matches are kept without a gap; −1 where they are not."""
        state = self.state
        if not seen.is_matched:
            return np.full(len(asked.ids), -1)
        by_group = [state.active_from(group.number) for group in asked.groups]
        since = np.array([-1 if batch is None else batch for batch in by_group], np.int64)[asked.group]
        cores = asked.cores(number)
        for first, count, batch in state.restored:
            begin, end = np.searchsorted(cores, (first, first + count))
            since[begin:end] = batch
        since[inside(cores, state.not_matched())] = -1
        return np.where(since > state.last, -1, since)

    def _older(self, asked: Together, number: int, views: list[View], since: Longs) -> list[tuple[Longs, Ids]]:
        """Results of batches before the first one of each query, where there were rows."""
        if any(not len(view.kept.batches) for view in views):
            return []
        oldest = max(int(view.kept.batches[0]) for view in views)
        found = []
        for place in np.flatnonzero(since > oldest).tolist():
            core = self.library.standing(int(asked.ids[place])).cores[number]
            its_views = views_at(core, self.files, self.state, self.state.last, self.tau_us)
            ids = older_results(core, self.files, self.state, its_views, int(since[place]))
            found.append((np.full(len(ids[0]), place), ids))
        return found

    def _recomputed(self, asked: Together, number: int, places: Longs) -> list[tuple[Longs, Ids]]:
        """The results that are shown of cores whose matches are not kept."""
        found = []
        for place in places.tolist():
            core = self.library.standing(int(asked.ids[place])).cores[number]
            ids = answer_at(core, self.files, self.state, tau_us=self.tau_us, batch=self.state.last).ids
            found.append((np.full(len(ids[0]), place), ids))
        return found


def by_query(answers: pa.Table) -> pa.Table:
    """The rows by query, those of one in their order."""
    slots = answers.column(0).to_numpy()
    if bool((slots[1:] >= slots[:-1]).all()):
        return answers
    return answers.take(pa.array(np.argsort(slots, kind="stable")))


def _streams(seen: Seen) -> tuple[Stream, ...]:
    """The streams of a core's sources, in their order."""
    return seen.by_source(seen.streams)


def _together(found: list[tuple[Longs, Ids]]) -> tuple[Longs, Ids]:
    by_source = zip(*(ids for _, ids in found), strict=True)
    return np.concatenate([of for of, _ in found]), tuple(np.concatenate(rows) for rows in by_source)
