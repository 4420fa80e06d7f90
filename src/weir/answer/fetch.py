"""Answers: answer(q, τ, N) = the one-time SQL of q over the windows' contents at τ, from rows of batches <= N.

Always two coordinates. A materialised query reads the rows that the match job found since its first batch,
and recomputes the older ones once (they are cached); a demoted one recomputes everything. Windows are cut and
projections finished here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weir.algebra.nodes import Expression, Query
from weir.algebra.schema import Stream
from weir.answer.recompute import recompute
from weir.answer.rows import KeptRows
from weir.answer.window import Cut, resolve
from weir.errors import FetchError, StoreError
from weir.families.evaluate import evaluate
from weir.families.parts import parts_of
from weir.store.arrays import read_arrays, save_arrays
from weir.store.files import Files
from weir.store.rows import arrow_type
from weir.store.runs import matched_rows
from weir.store.state import State


@dataclass(frozen=True)
class Standing:
    """One registered query, ready to be answered."""

    id: int
    query: Query  # a shape's: its constants are parameters
    constants: Mapping[str, object]
    stream: Stream
    registry_number: int


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

    came: pa.Table
    went: pa.Table
    token: str


def cut_at(standing: Standing, state: State, tau_us: int) -> Cut:
    """The query's cut at τ; an error when it reaches below the rows that are kept."""
    scan, _, _ = parts_of(standing.query)
    cut = resolve(scan.window, standing.constants, tau_us, standing.stream.keep_us)
    floor = state.read_floors.get(standing.stream.name)
    reaches = cut.begin_us is None or cut.begin_us < floor if floor is not None else False
    if reaches and cut.end_us > (cut.begin_us if cut.begin_us is not None else cut.end_us - 1):
        begin = "the beginning" if cut.begin_us is None else f"{cut.begin_us} µs"
        raise FetchError(
            f"query {standing.id} at τ = {tau_us} µs needs rows of stream '{standing.stream.name}' since {begin}, "
            f"but rows before {floor} µs have expired",
            hint="ask for a later time, or define the stream with a longer keep",
        )
    return cut


def row_ids(
    standing: Standing, files: Files, state: State, *, tau_us: int, batch: int
) -> tuple[KeptRows, Cut, np.ndarray]:
    """Ids of the rows in the answer, before projection (they may still need the cut, which `take` applies)."""
    _, predicate, _ = parts_of(standing.query)
    cut = cut_at(standing, state, tau_us)
    kept = KeptRows(files, standing.stream, state, batch)
    active_from = state.active_from(standing.registry_number)
    if active_from is None or active_from > batch or standing.id in state.demoted:
        rows = recompute(predicate, standing.constants, kept, cut)
    else:
        old = _older_rows(standing, predicate, files, kept, active_from)
        rows = np.concatenate([old, matched_rows(files, state, standing.stream.name, standing.id, active_from, batch)])
    if cut.rows_max is not None:
        rows = np.intersect1d(rows, kept.last_rows_of(cut), assume_unique=True)
    return kept, cut, rows


def _older_rows(
    standing: Standing, predicate: Expression | None, files: Files, kept: KeptRows, active_from: int
) -> np.ndarray:
    """Rows of batches before the query's first one: evaluated at the first fetch, then read from the cache."""
    if not len(kept.batches) or kept.batches[0] >= active_from:
        return np.empty(0, np.int64)
    path = f"cache/older/{standing.id}.rows"
    about = {"text": standing.query.text, "registry": standing.registry_number, "active_from": active_from}
    with contextlib.suppress(StoreError):
        arrays, meta = read_arrays(files, path, verify=True)
        if meta == about:
            return np.array(arrays["rows"])
    everything = Cut(None, 2**62, None)
    rows = recompute(predicate, standing.constants, kept, everything, batches_below=active_from)
    with contextlib.suppress(StoreError):  # a reader that cannot write caches can still read
        save_arrays(files, path, {"rows": rows}, about)
    return rows


def project(standing: Standing, rows: pa.Table) -> pa.Table:
    """The query's output columns over its rows."""
    _, _, columns = parts_of(standing.query)
    arrays = [evaluate(e, rows, standing.constants) for _, e in columns]
    fields = [pa.field(c.name, arrow_type(c.type)) for c in standing.query.output]
    return pa.Table.from_arrays([a.cast(f.type) for a, f in zip(arrays, fields, strict=True)], schema=pa.schema(fields))


def moment(state: State, at_us: int | None) -> int:
    """τ: as asked, or the clock of the last batch."""
    if at_us is not None:
        return at_us
    return state.now_us if state.now_us is not None else 0


def fetch(standing: Standing, files: Files, state: State, *, at_us: int | None = None) -> pa.Table:
    """The answer at τ, as known now, in arrival order."""
    kept, cut, rows = row_ids(standing, files, state, tau_us=moment(state, at_us), batch=state.last)
    return project(standing, kept.take(rows, cut)[1])


def changes(standing: Standing, files: Files, state: State, after: Token | None) -> Changes:
    """The net difference between the answer at `after` and the answer now."""
    now = Token(state.last, moment(state, None))
    if after is None or state.rows_at(standing.stream.name, after.batch) == 0:  # nothing was there yet
        answer = fetch(standing, files, state)
        return Changes(answer, answer.slice(0, 0), str(now))
    if after.batch > now.batch:
        raise FetchError(f"token '{after}' is of batch {after.batch}, the last one is {now.batch}")
    try:
        kept_old, cut_old, rows_old = row_ids(standing, files, state, tau_us=after.tau_us, batch=after.batch)
    except FetchError as expired:
        raise FetchError(
            f"token '{after}' has expired: {expired}", hint="fetch the whole answer and go on from its token"
        ) from None
    old_ids, old_rows = kept_old.take(rows_old, cut_old)
    kept, cut, rows = row_ids(standing, files, state, tau_us=now.tau_us, batch=now.batch)
    new_ids, new_rows = kept.take(rows, cut)
    came = ~np.isin(new_ids, old_ids, assume_unique=True)
    went = ~np.isin(old_ids, new_ids, assume_unique=True)
    return Changes(
        project(standing, new_rows.filter(pa.array(came))),
        project(standing, old_rows.filter(pa.array(went))),
        str(now),
    )
