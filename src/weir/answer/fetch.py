"""Answers: answer(q, τ, N) = the one-time SQL of q over the windows' contents at τ, from rows of batches <= N.

An answer always has these two coordinates, τ and N. A query is some cores and a finish over their results
(`weir.plan.cores`). A materialised core reads the rows, or combinations of rows, that the match job found since the
core's first batch, and recomputes the older ones once (they are cached). A demoted or quarantined core, and a join
whose sources nothing connects, recomputes everything. A result belongs to the batch of its last row, so the older
results of a join are those whose rows all came before its first batch. Windows are cut and projections done here, for
any number of sources by the same code (`weir.answer.views`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import NOW, ColumnRef, Expression, Query, Scan
from weir.algebra.schema import Stream, Table, called, is_changes
from weir.answer import table_versions
from weir.answer.finish import finished
from weir.answer.kept_rows import KeptRows
from weir.answer.recompute import EXAMINED_MAX, recompute
from weir.answer.row_codes import less
from weir.answer.table_versions import VersionRows
from weir.answer.views import Ids, View, met, missing, ordered, qualified, require_room, shown, table_of
from weir.answer.window import ANY, EVERYTHING, Cut, TimeDistance, apart, latest_begin, resolve
from weir.errors import FetchError, StoreError
from weir.families.contract import Seen
from weir.families.query_parts import columns_of, condition_of
from weir.plan.cores import Cores
from weir.plan.finishes import Versions
from weir.store.arrays import read_arrays, save_arrays
from weir.store.core_runs import matched
from weir.store.files import Files
from weir.store.maintained import ShapeRuns, answer_of, read_part
from weir.store.query_groups import KeptAs
from weir.store.row_files import arrow_schema, arrow_type
from weir.store.state import State
from weir.values.evaluate import evaluate

OLDER_RESULTS_MAX = 10_000_000  # of one join; if there are more they are recomputed at every fetch, within its windows


@dataclass(frozen=True)
class StandingCore:
    """One core of a registered query, ready to be evaluated."""

    id: int  # the id under which its matches are kept
    query_id: int  # the id of the query that it is a core of
    query: Query  # a shape's: its constants are parameters
    seen: Seen
    constants: Mapping[str, object]
    registry_number: int
    tables: Mapping[str, Table] = field(default_factory=dict)  # of the query, by lower-case name

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams of its sources, in their order."""
        return self.seen.by_source(self.seen.streams)

    @property
    def condition(self) -> Expression | None:
        """WHERE and ON together; None: every row, or every combination of rows."""
        return condition_of(self.query)

    @property
    def columns(self) -> tuple[tuple[str, Expression], ...]:
        """The projected columns."""
        return columns_of(self.query)

    @property
    def apart(self) -> TimeDistance:
        """How far apart the rows of a pair may be so that some moment shows both."""
        if len(self.query.sources) != 2:
            return ANY
        if any(is_changes(scan.relation) and not scan.is_retroactive for scan in self.query.sources):
            return ANY  # whether a row meets a version is not a matter of windows
        first, second = (scan.window for scan in self.query.sources)
        return apart(first, second, self.constants, (self.streams[0].keep_us, self.streams[1].keep_us))

    @property
    def begin_us(self) -> int | None:
        """The latest begin of its streams' windows, as a distance from τ; None if none of them moves with τ."""
        own = [
            (scan.window, s.keep_us)
            for scan, s in zip(self.query.sources, self.streams, strict=True)
            if not is_changes(s.name)
        ]
        return latest_begin([window for window, _ in own], self.constants, [keep_us for _, keep_us in own])


@dataclass(frozen=True)
class Standing:
    """One registered query, ready to be answered."""

    id: int
    query: Query  # a shape's: its constants are parameters
    constants: Mapping[str, object]
    registry_number: int
    cores: tuple[StandingCore, ...]
    parts: Cores
    tables: Mapping[str, Table]  # that it reads, by lower-case name
    kept_as: KeptAs | None = None  # with which others, if its answers are to be maintained


@dataclass(frozen=True)
class Token:
    """A moment to ask for changes of a query from: the last batch, and τ, of an answer."""

    batch: int
    tau_us: int
    query: int | None = None  # nobody's, if it is a moment and no more

    def __str__(self) -> str:
        return f"{self.batch}:{self.tau_us}" + ("" if self.query is None else f":{self.query}")

    @classmethod
    def parse(cls, text: str | Token) -> Token:
        if isinstance(text, Token):
            return text
        try:
            parts = [int(part) for part in text.split(":")]
            if len(parts) in (2, 3):
                return cls(*parts)
        except (ValueError, AttributeError):
            pass
        raise FetchError(
            f"'{text}' is not a token",
            hint="pass what an earlier `changes` or `token()` returned, such as '41:1700000000000000:7'",
        )


@dataclass(frozen=True)
class Changes:
    """What came and went between two answers, and the token of the later one."""

    came: pa.Table  # rows that the later answer has and the earlier has not
    went: pa.Table  # rows that the earlier answer had and the later has not
    token: str  # for the next `changes(after=…)`


@dataclass(frozen=True)
class Answer:
    """The results of a core at (τ, N): their row ids by source, and where the rows are."""

    views: tuple[View, ...]
    ids: Ids


def views_at(core: StandingCore, files: Files, state: State, batch: int, tau_us: int | None) -> tuple[View, ...]:
    """What each source shows at τ (None: at any time); an error when one reaches below the rows that its stream keeps.

    Changes of tables are all there: what is shown of them, their lifetimes say.
    """
    return tuple(
        _view(core, scan, stream, files, state, batch, tau_us)
        for scan, stream in zip(core.query.sources, core.streams, strict=True)
    )


def _view(
    core: StandingCore, scan: Scan, stream: Stream, files: Files, state: State, batch: int, tau_us: int | None
) -> View:
    if is_changes(stream.name):
        versions = VersionRows(files, core.tables[called(stream.name).lower()], state, batch)
        return View(versions, EVERYTHING, versions.lifetimes, tau_us)
    kept = KeptRows(files, stream, state, batch)
    if tau_us is None:
        return View(kept, EVERYTHING)
    cut = resolve(scan.window, core.constants, tau_us, stream.keep_us)
    return View(kept, _checked(core, stream, cut, state, tau_us))


def _checked(core: StandingCore, stream: Stream, cut: Cut, state: State, tau_us: int) -> Cut:
    floor = state.read_floors.get(stream.name)
    reaches = cut.begin_us is None or cut.begin_us < floor if floor is not None else False
    if reaches and cut.end_us > (cut.begin_us if cut.begin_us is not None else cut.end_us - 1):
        begin = "the beginning" if cut.begin_us is None else f"{cut.begin_us} µs"
        raise FetchError(
            f"query {core.query_id} at τ = {tau_us} µs needs rows of stream '{stream.name}' since {begin}, "
            f"but rows before {floor} µs have expired",
            hint="ask for a later time, or define the stream with a longer keep",
        )
    return cut


def answer_at(core: StandingCore, files: Files, state: State, *, tau_us: int, batch: int) -> Answer:
    """The results of a core at (τ, batch), before projection."""
    views = views_at(core, files, state, batch, tau_us)
    active_from = state.matched_since(core.id, core.registry_number) if core.seen.is_matched else None
    if active_from is None or active_from > batch:
        return Answer(views, ordered(_recomputed(core, views)))
    by_side = matched(files, state, core.seen.family.channel, core.id, active_from, batch)
    found = (older_results(core, files, state, views, active_from), core.seen.by_source(by_side))
    ids = tuple(np.concatenate(rows) for rows in zip(*found, strict=True))
    return Answer(views, ordered(shown(views, ids)))


def _recomputed(core: StandingCore, views: Sequence[View], batches_below: int | None = None) -> Ids:
    limit = None if core.seen.is_matched else EXAMINED_MAX
    ids = recompute(core.condition, core.constants, views, batches_below=batches_below, examined_max=limit)
    assert ids is not None, "there was no limit"
    return met(views, ids)


def older_results(core: StandingCore, files: Files, state: State, views: Sequence[View], active_from: int) -> Ids:
    """Results of batches before the query's first one: evaluated at the first fetch, then read from the cache.

    What is kept serves all batches, so versions of tables hold as long as they did in the query's first batch: later
    changes only make lifetimes shorter, and whoever shows results looks at these again.
    """
    if any(not len(v.kept.batches) or v.kept.batches[0] >= active_from for v in views):
        return (np.empty(0, np.int64),) * len(views)
    path = f"cache/older/{core.id}.rows"
    about = {"text": core.query.text, "registry": core.registry_number, "active_from": active_from}
    names = [str(source) for source in range(len(views))]
    with contextlib.suppress(StoreError, KeyError):
        arrays, meta = read_arrays(files, path, verify=True)
        if meta == about | {"too_many": True}:
            return _recomputed(core, views, active_from)
        if meta == about:
            return tuple(np.array(arrays[name]) for name in names)
    at_first = views_at(core, files, state, active_from, None)
    ids = recompute(
        core.condition,
        core.constants,
        at_first,
        batches_below=active_from,
        apart=core.apart,
        begin_us=core.begin_us,
        results_max=OLDER_RESULTS_MAX,
    )
    if ids is None:
        with contextlib.suppress(StoreError):  # so that the next fetch does not try again
            save_arrays(files, path, {}, about | {"too_many": True})
        return _recomputed(core, views, active_from)
    ids = met(at_first, ids)
    with contextlib.suppress(StoreError):  # a reader that cannot write caches can still read
        save_arrays(files, path, dict(zip(names, ids, strict=True)), about)
    return ids


def project(core: StandingCore, views: Sequence[View], ids: Ids, constants: Mapping[str, object]) -> pa.Table:
    """The core's projected columns over these results."""
    values = [e for _, e in core.columns]
    rows = table_of(views, ids, values)
    arrays, made = [], 0
    for e in values:
        arrays.append(evaluate(qualified(e), rows, constants))
        made += 0 if isinstance(e, ColumnRef) else arrays[-1].nbytes
        require_room(made, "what the expressions of the query make")
    fields = [pa.field(c.name, arrow_type(c.type)) for c in core.query.output]
    return pa.Table.from_arrays([a.cast(f.type) for a, f in zip(arrays, fields, strict=True)], schema=pa.schema(fields))


def moment(state: State, at_us: int | None) -> int:
    """τ: as asked, or the clock of the last batch."""
    if at_us is not None:
        return at_us
    return state.now_us if state.now_us is not None else 0


def fetch(standing: Standing, files: Files, state: State, *, at_us: int | None = None) -> pa.Table:
    """The answer at τ, as known now.

    Results of a core are in the order in which rows of its first source arrived, then those of its second, and so on.
    """
    return answer_as_of(standing, files, state, Token(state.last, moment(state, at_us)))


def answer_as_of(standing: Standing, files: Files, state: State, seen: Token) -> pa.Table:
    """The answer at a token, which may be older than the last batch."""
    tau_us = seen.tau_us
    kept = kept_answer(standing, files, state) if seen == Token(state.last, moment(state, None)) else None
    if kept is not None:
        for core in standing.cores:
            for scan, stream in zip(core.query.sources, core.streams, strict=True):
                if not is_changes(stream.name):
                    _checked(core, stream, resolve(scan.window, core.constants, tau_us, stream.keep_us), state, tau_us)
        return kept
    if seen.batch < state.last:
        answers = [_earlier(core, files, state, seen) for core in standing.cores]
    else:
        answers = _answers(standing, files, state, tau_us, seen.batch)
    return _finished(standing, files, state, answers, seen)


def kept_answer(standing: Standing, files: Files, state: State) -> pa.Table | None:
    """The answer as the last batch has kept it; None if it is not kept, or not yet."""
    shape = kept_shape(standing, files, state)
    schema = arrow_schema(standing.query.output)
    return None if shape is None else answer_of(files, shape, standing.id, schema)


def kept_shape(standing: Standing, files: Files, state: State) -> ShapeRuns | None:
    """What the query's part knows of its shape; None if the query is not kept, or nobody has begun."""
    part = next((p for p in state.kept.values() if standing.id % p.of == p.part), None)
    if standing.kept_as is None or part is None or not part.path or state.given_up.get(standing.id) is not None:
        return None
    return read_part(files, part.path).shapes.get(standing.kept_as.shape)


def _answers(standing: Standing, files: Files, state: State, tau_us: int, batch: int) -> list[Answer]:
    return [answer_at(core, files, state, tau_us=tau_us, batch=batch) for core in standing.cores]


def _finished(standing: Standing, files: Files, state: State, answers: Sequence[Answer], seen: Token) -> pa.Table:
    """The answer that the results of all cores make, as of a moment."""
    constants = {**standing.constants, NOW.name: seen.tau_us}
    tables = [project(core, a.views, a.ids, constants) for core, a in zip(standing.cores, answers, strict=True)]

    def versions(asked: Versions) -> pa.Table:
        table = standing.tables[asked.table.lower()]
        found = table_versions.versions(files, table, state, seen.batch)
        return table_versions.seen_versions(found, table, asked, seen.tau_us)

    return finished(standing.parts.finish, tables, standing.query.output, constants, versions)


def changes(standing: Standing, files: Files, state: State, after: Token | None) -> Changes:
    """The net difference between the answer at `after` and the answer now.

    If every result of a core is a row of the answer, the row ids say which results came and went; if not, the rows of
    the two answers are compared. An answer follows from its batch and its τ. So if both are those of the token, nothing
    is new, and no file is read.
    """
    now = Token(state.last, moment(state, None), standing.id)
    if after == now:
        nothing = arrow_schema(standing.query.output).empty_table()
        return Changes(nothing, nothing, str(now))
    if after is None:
        answer = fetch(standing, files, state)
        return Changes(answer, answer.slice(0, 0), str(now))
    if after.query not in (None, standing.id):
        raise FetchError(
            f"token '{after}' is of query {after.query}, not of query {standing.id}",
            hint="fetch the whole answer and go on from its token; a query that took another one's place has its own",
        )
    if after.batch > now.batch:
        raise FetchError(f"token '{after}' is of batch {after.batch}, the last one is {now.batch}")
    return changes_between(standing, files, state, after, now)


def changes_between(standing: Standing, files: Files, state: State, after: Token, now: Token) -> Changes:
    """The net difference between the answers at two tokens, of which the second may be older than the last batch."""
    try:
        old = [_earlier(core, files, state, after) for core in standing.cores]
    except FetchError as expired:
        raise FetchError(
            f"token '{after}' has expired: {expired}", hint="fetch the whole answer and go on from its token"
        ) from None
    new = [_earlier(core, files, state, now) for core in standing.cores]
    if standing.parts.is_additive:
        pairs = ((new, old), (old, new))
        came, went = (_finished(standing, files, state, _only(*pair), now) for pair in pairs)
    else:
        before, after_ = (_finished(standing, files, state, *part) for part in ((old, after), (new, now)))
        came, went = less(after_, before), less(before, after_)
    return Changes(came, went, str(now))


def _earlier(core: StandingCore, files: Files, state: State, token: Token) -> Answer:
    """The results at a token. If a stream had no rows at all then, there are none, whatever has expired since."""
    if any(state.rows_at(stream.name, token.batch) == 0 for stream in core.streams):
        views = views_at(core, files, state, token.batch, None)
        return Answer(views, (np.empty(0, np.int64),) * len(views))
    return answer_at(core, files, state, tau_us=token.tau_us, batch=token.batch)


def _only(answers: Sequence[Answer], others: Sequence[Answer]) -> list[Answer]:
    """The results that are not among the others."""
    found = []
    for one, other in zip(answers, others, strict=True):
        new = missing(one.ids, other.ids)
        found.append(Answer(one.views, tuple(rows[new] for rows in one.ids)))
    return found
