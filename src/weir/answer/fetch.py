"""Answers: answer(q, τ, N) = the one-time SQL of q over the windows' contents at τ, from rows of batches <= N.

Always two coordinates. A materialised query reads the rows, or pairs of rows, that the match job found since its
first batch, and recomputes the older ones once (they are cached); a demoted one, and a join whose sources nothing
connects, recomputes everything. A result belongs to the batch of its last row, so the older results of a join are those
all of whose rows came before its first batch. Windows are cut and projections finished here, for any number of sources
by the same code (`weir.answer.views`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query
from weir.algebra.schema import Stream
from weir.answer.recompute import EXAMINED_MAX, recompute
from weir.answer.rows import KeptRows
from weir.answer.views import Ids, View, missing, ordered, qualified, shown, table_of
from weir.answer.window import ANY, EVERYTHING, Apart, Cut, apart, resolve
from weir.errors import FetchError, StoreError
from weir.families.evaluate import evaluate
from weir.families.joins import Joined
from weir.families.many_joins import Many
from weir.families.parts import columns_of, condition_of
from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files
from weir.store.rows import arrow_type
from weir.store.runs import matched_joins, matched_rows
from weir.store.state import State

OLDER_RESULTS_MAX = 10_000_000  # of one join; if there are more they are recomputed at every fetch, within its windows


@dataclass(frozen=True)
class Standing:
    """One registered query, ready to be answered."""

    id: int
    family: str
    query: Query  # a shape's: its constants are parameters
    constants: Mapping[str, object]
    streams: tuple[Stream, ...]  # of the query's sources, in their order
    registry_number: int
    joined: Joined | None = None  # how its family sees it, if it is a join of two
    many: Many | None = None  # the same, if it is a join of many

    @property
    def condition(self) -> Expression | None:
        """WHERE and ON together; None: every row, or every pair."""
        return condition_of(self.query)

    @property
    def columns(self) -> tuple[tuple[str, Expression], ...]:
        """The output columns."""
        return columns_of(self.query)

    @property
    def is_matched(self) -> bool:
        """Whether batches look for its results; else they are recomputed when they are asked for."""
        return self.many is None or self.many.is_connected

    @property
    def apart(self) -> Apart:
        """How far apart the rows of a pair may be so that some moment shows both."""
        if self.joined is None:
            return ANY
        first, second = (scan.window for scan in self.query.sources)
        return apart(first, second, self.constants, (self.streams[0].keep_us, self.streams[1].keep_us))


@dataclass(frozen=True)
class Token:
    """A moment to ask for changes from: the last batch, and τ, of an answer."""

    batch: int
    tau_us: int

    def __str__(self) -> str:
        return f"{self.batch}:{self.tau_us}"

    @classmethod
    def parse(cls, text: str | Token) -> Token:
        if isinstance(text, Token):
            return text
        try:
            batch, tau = text.split(":")
            return cls(int(batch), int(tau))
        except (ValueError, AttributeError):
            raise FetchError(
                f"'{text}' is not a token",
                hint="pass what an earlier `changes` or `token()` returned, such as '41:1700000000000000'",
            ) from None


@dataclass(frozen=True)
class Changes:
    """What came and went between two answers, and the token of the later one."""

    came: pa.Table  # rows that the later answer has and the earlier has not
    went: pa.Table  # rows that the earlier answer had and the later has not
    token: str  # for the next `changes(after=…)`


@dataclass(frozen=True)
class Answer:
    """The results at (τ, N): their row ids by source, and where the rows are."""

    views: tuple[View, ...]
    ids: Ids


def cuts_at(standing: Standing, state: State, tau_us: int) -> tuple[Cut, ...]:
    """The cut of each source at τ; an error when one reaches below the rows that its stream keeps."""
    return tuple(
        _checked(standing, stream, resolve(scan.window, standing.constants, tau_us, stream.keep_us), state, tau_us)
        for scan, stream in zip(standing.query.sources, standing.streams, strict=True)
    )


def _checked(standing: Standing, stream: Stream, cut: Cut, state: State, tau_us: int) -> Cut:
    floor = state.read_floors.get(stream.name)
    reaches = cut.begin_us is None or cut.begin_us < floor if floor is not None else False
    if reaches and cut.end_us > (cut.begin_us if cut.begin_us is not None else cut.end_us - 1):
        begin = "the beginning" if cut.begin_us is None else f"{cut.begin_us} µs"
        raise FetchError(
            f"query {standing.id} at τ = {tau_us} µs needs rows of stream '{stream.name}' since {begin}, "
            f"but rows before {floor} µs have expired",
            hint="ask for a later time, or define the stream with a longer keep",
        )
    return cut


def answer_at(standing: Standing, files: Files, state: State, *, tau_us: int, batch: int) -> Answer:
    """The results at (τ, batch), before projection."""
    cuts = cuts_at(standing, state, tau_us)
    views = tuple(
        View(KeptRows(files, stream, state, batch), cut) for stream, cut in zip(standing.streams, cuts, strict=True)
    )
    active_from = state.active_from(standing.registry_number)
    is_kept = standing.is_matched and standing.id not in state.demoted
    if active_from is None or active_from > batch or not is_kept:
        return Answer(views, ordered(_recomputed(standing, views)))
    found = (_older(standing, files, views, active_from), _matched(standing, files, state, active_from, batch))
    ids = tuple(np.concatenate(rows) for rows in zip(*found, strict=True))
    return Answer(views, ordered(shown(views, ids)))


def _recomputed(standing: Standing, views: Sequence[View], batches_below: int | None = None) -> Ids:
    limit = None if standing.is_matched else EXAMINED_MAX
    ids = recompute(standing.condition, standing.constants, views, batches_below=batches_below, examined_max=limit)
    assert ids is not None, "there was no limit"
    return ids


def _matched(standing: Standing, files: Files, state: State, first: int, last: int) -> Ids:
    """What the match job found in batches first … last, by the query's own sources."""
    if standing.many is not None:
        channel = standing.many.family.channel
        return standing.many.by_source(matched_joins(files, state, channel, standing.id, first, last))
    if standing.joined is not None:
        pairs = matched_joins(files, state, standing.joined.family.channel, standing.id, first, last)
        return pairs[::-1] if standing.joined.swapped else pairs
    return (matched_rows(files, state, standing.streams[0].name, standing.id, first, last),)


def _older(standing: Standing, files: Files, views: Sequence[View], active_from: int) -> Ids:
    """Results of batches before the query's first one: evaluated at the first fetch, then read from the cache."""
    if any(not len(v.kept.batches) or v.kept.batches[0] >= active_from for v in views):
        return (np.empty(0, np.int64),) * len(views)
    path = f"cache/older/{standing.id}.rows"
    about = {"text": standing.query.text, "registry": standing.registry_number, "active_from": active_from}
    names = [str(source) for source in range(len(views))]
    with contextlib.suppress(StoreError, KeyError):
        arrays, meta = read_arrays(files, path, verify=True)
        if meta == about | {"too_many": True}:
            return _recomputed(standing, views, active_from)
        if meta == about:
            return tuple(np.array(arrays[name]) for name in names)
    ids = recompute(
        standing.condition,
        standing.constants,
        [replace(view, cut=EVERYTHING) for view in views],
        batches_below=active_from,
        apart=standing.apart,
        results_max=OLDER_RESULTS_MAX,
    )
    if ids is None:
        with contextlib.suppress(StoreError):  # so that the next fetch does not try again
            save_arrays(files, path, {}, about | {"too_many": True})
        return _recomputed(standing, views, active_from)
    with contextlib.suppress(StoreError):  # a reader that cannot write caches can still read
        save_arrays(files, path, dict(zip(names, ids, strict=True)), about)
    return ids


def project(standing: Standing, views: Sequence[View], ids: Ids) -> pa.Table:
    """The query's output columns over these results."""
    values = [e for _, e in standing.columns]
    rows = table_of(views, ids, values)
    arrays = [evaluate(qualified(e), rows, standing.constants) for e in values]
    fields = [pa.field(c.name, arrow_type(c.type)) for c in standing.query.output]
    return pa.Table.from_arrays([a.cast(f.type) for a, f in zip(arrays, fields, strict=True)], schema=pa.schema(fields))


def moment(state: State, at_us: int | None) -> int:
    """τ: as asked, or the clock of the last batch."""
    if at_us is not None:
        return at_us
    return state.now_us if state.now_us is not None else 0


def fetch(standing: Standing, files: Files, state: State, *, at_us: int | None = None) -> pa.Table:
    """The answer at τ, as known now: in arrival order, a join's by its first source and then by its second."""
    found = answer_at(standing, files, state, tau_us=moment(state, at_us), batch=state.last)
    return project(standing, found.views, found.ids)


def changes(standing: Standing, files: Files, state: State, after: Token | None) -> Changes:
    """The net difference between the answer at `after` and the answer now."""
    now = Token(state.last, moment(state, None))
    if after is None or any(state.rows_at(s.name, after.batch) == 0 for s in standing.streams):  # nothing was there yet
        answer = fetch(standing, files, state)
        return Changes(answer, answer.slice(0, 0), str(now))
    if after.batch > now.batch:
        raise FetchError(f"token '{after}' is of batch {after.batch}, the last one is {now.batch}")
    try:
        old = answer_at(standing, files, state, tau_us=after.tau_us, batch=after.batch)
    except FetchError as expired:
        raise FetchError(
            f"token '{after}' has expired: {expired}", hint="fetch the whole answer and go on from its token"
        ) from None
    new = answer_at(standing, files, state, tau_us=now.tau_us, batch=now.batch)
    came, went = missing(new.ids, old.ids), missing(old.ids, new.ids)
    return Changes(
        project(standing, new.views, tuple(rows[came] for rows in new.ids)),
        project(standing, old.views, tuple(rows[went] for rows in old.ids)),
        str(now),
    )
