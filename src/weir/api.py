"""What a user touches: a weir, its streams, its standing queries and their answers.

Any number of processes may open the same folder: each may define streams, register, drop, push and fetch while
another one runs the job. Nothing is kept in a `Weir` that the folder does not have, except the Spark session and
the streaming DataFrames that were given to it.
"""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from weir.algebra.schema import CHANGES, Catalog, Stream, Table, View, is_changes
from weir.answer.answers import Answers
from weir.answer.describe import describe
from weir.answer.listing import listing
from weir.answer.standing import Library
from weir.definitions import Definitions, defined_stream
from weir.errors import (
    OpenError,
    PushError,
    QueryError,
    RegisterError,
    RunError,
    StoreError,
    StreamError,
)
from weir.families.forms import with_known_strategies
from weir.handles import Queries, Query, fetch_many, to_us
from weir.plan.registration import plan_registration
from weir.plan.views import defined_view, droppable_view
from weir.registering import Registering, filters, label_of, name_array, names_array, one_row
from weir.runtime import session as sessions
from weir.runtime.intake import (
    as_ids,
    as_table,
    check_advance,
    check_trigger,
    rows_for,
)
from weir.runtime.run import Run
from weir.runtime.table_changes import changes_frame, defined_table, deletions, upserts
from weir.settings import Settings
from weir.store.catalog import CatalogLog, identity
from weir.store.files import open_files
from weir.store.inbox import Inbox
from weir.store.ledger import Ledger
from weir.store.registry import Registry
from weir.store.row_files import read_table
from weir.store.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from weir.store.vacuum import Removed

T = TypeVar("T")
R = TypeVar("R", Stream, Table)


def open_weir(
    location: str | Path,
    *,
    spark: SparkSession | None = None,
    clock: str | None = None,
    settings: Mapping[str, object] | None = None,
    create: bool = True,
) -> Weir:
    """Open the weir at a folder (or object-store address), making it if it is not there.

    With `create=False` a folder that is no weir is an `OpenError`, and nothing is made.

    `clock` is "event" (now is the largest accepted time, or what it was advanced to; the default) or "arrival" (rows
    are stamped when they arrive); it is chosen when the weir is made and kept. `spark` is used by `run`; without one a
    local session is started when it is first needed. `settings` override defaults, by name; an unknown name is an
    `OpenError`.
    """
    if not isinstance(location, str | os.PathLike):
        raise OpenError(f"a {type(location).__name__} is not a folder", hint="give a path, or an object-store address")
    return Weir(os.fspath(location), spark=spark, clock=clock, settings=settings, create=create)


class Weir:
    """One folder of streams, standing queries and answers.

    Any number of processes may open the same folder and define, register, drop, push and fetch; one of them runs the
    job. What a method has stored is durable when it returns.
    """

    def __init__(
        self,
        location: str,
        *,
        spark: SparkSession | None = None,
        clock: str | None = None,
        settings: Mapping[str, object] | None = None,
        create: bool = True,
    ) -> None:
        self.settings = with_known_strategies(Settings.of(settings))
        self.files = open_files(location)
        self.files.require_conditional_writes()
        self.identity = identity(self.files, clock, create=create)
        self.catalog_log = CatalogLog(self.files)
        self.registry = Registry(self.files)
        self.ledger = Ledger(self.files)
        self.inbox = Inbox(self.files)
        self.state = State()
        self._library = Library(self.registry, self.catalog_log, self.settings)
        self._definitions = Definitions(self._library)
        self._registering = Registering(self._library)
        self._spark = spark
        self._owns_spark = False
        self._frames: dict[str, DataFrame] = {}
        self._run: Run | None = None
        self._reading = threading.RLock()  # the state is folded by one thread at a time

    def close(self) -> None:
        """Stop the job if this process runs it. A Spark session that was given stays; one of our own is stopped."""
        run, self._run = self._run, None
        if run is not None and run.is_active:
            run.stop()
        if self._owns_spark and self._spark is not None:
            self._spark.stop()
            self._spark = None

    def __enter__(self) -> Weir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        self.registry.refresh()
        standing = self.registry.queries - len(self.registry.dropped())
        streams = ", ".join(s.name for s in self.catalog.streams.values()) or "no streams"
        return f"<weir.Weir {self.files.location}: {streams}; {standing:,} standing queries>"

    # ── definitions ──────────────────────────────────────────────────────────────────────────────────────────

    def stream(
        self,
        name: str,
        source: str | DataFrame,
        *,
        time: str,
        keep: str | int = "1 hour",
        future: str | int = "1 minute",
    ) -> Stream:
        """Define a stream: columns as text for the embedded source (`push`), or a streaming DataFrame.

        Columns are written as in SQL, `"name string, price double, ts timestamp"`; pushed rows may do without those
        that end in `null` or `default 0`. `time` names the timestamp that windows are about. `keep` is how far back
        windows may reach ("forever" for landmark windows); rows stamped more than `future` ahead of the wall clock go
        to `late`. Lengths are texts such as "90 seconds" and "1 day", or numbers of seconds. Saying the same again does
        nothing, another definition of the same name is a `StreamError`. A DataFrame must be given again by every
        process that runs the job.
        """
        defined = defined_stream(name, source, time, keep, future)
        self.catalog_log.define_stream(defined)
        if not isinstance(source, str):
            self._add_frame(name, source)
        return defined

    def _add_frame(self, name: str, frame: DataFrame) -> None:
        self._frames[name] = frame
        if self._run is not None and self._run.is_active:
            self._run.add_frame(name, frame)

    def _remove_frame(self, name: str) -> None:
        if self._frames.pop(name, None) is not None and self._run is not None and self._run.is_active:
            self._run.remove_frame(name)

    def change_keep(self, name: str, keep: str | int) -> Stream:
        """Have a stream keep its rows for another length of time, from the next planned batch on.

        Queries that stand must not notice: if the window of one is all that is kept, or would not fit any more, it is a
        `StreamError` that names them. A longer keep brings no expired rows back: a window that reaches further than
        they do can be fetched when it is filled.
        """
        return self._definitions.change_keep(name, keep)

    def drop_stream(self, name: str) -> None:
        """Drop a stream: its rows go, what was pushed and not yet taken goes with them, and its name is not used again.

        While queries that read it stand it is a `StreamError` that names them.
        """
        self._remove_frame(self._definitions.drop_stream(name).name)

    def table(
        self,
        name: str,
        source: str | DataFrame,
        *,
        key: str | Sequence[str],
        time: str | None = None,
        retroactive: bool = False,
        operation: str | None = None,
    ) -> Table:
        """Define a table beside the streams: at each moment it has at most one row for each value of its key.

        Columns are written as those of a stream; `key` names one of them, or several. `upsert` and `delete` change
        the table, and every version of a row is kept, with the time since when it holds: the timestamp column that
        `time` names, or else the start of the batch that takes the change. A row of a stream meets the version of its
        own time; with `retroactive=True` the answer at τ sees the table as of τ, also for rows that came before.
        Saying the same again does nothing, another definition of the same name is a `StreamError`.

        A streaming DataFrame changes the table with its rows, instead: the column that `operation` names says insert,
        update, upsert or delete, without one each row is put in. Rows of which one cannot tell go to `late`.

        Queries join it or read it alone; its part of an answer is looked up when the answer is asked for.
        """
        defined = defined_table(name, source, key, time, retroactive, operation)
        self.catalog_log.define_table(defined)
        if not isinstance(source, str):
            self._add_frame(defined.changes.name, changes_frame(defined, source, operation))
        return defined

    def drop_table(self, name: str) -> None:
        """Drop a table with all its versions; changes that no batch has taken go with it, its name is not used again.

        While queries that read it stand it is a `StreamError` that names them.
        """
        self._remove_frame(self._definitions.drop_table(name).changes.name)

    def view(self, name: str, sql: str) -> View:
        """Give a query a name that other queries may use in FROM.

        A query that uses it has the view's text in its place, so it keeps its meaning whatever becomes of the view.
        Saying the same again does nothing, another text under the name is a `StreamError`.
        """
        defined = defined_view(name, sql, self.catalog, self.settings)
        self.catalog_log.define_view(defined)
        return defined

    def drop_view(self, name: str) -> None:
        """Drop a view; while other views use it, it is a `StreamError` that names them."""
        self.catalog_log.drop_view(droppable_view(name, self.catalog, self.settings).name)

    @property
    def catalog(self) -> Catalog:
        """All streams, tables and views that are defined, by name in lower case."""
        return self.catalog_log.read()

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────────────

    def register(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        tags: Iterable[str] = (),
        owner: str | None = None,
        kept: bool = False,
    ) -> Query:
        """Register one query; it stands, and is answered over old rows too, when this returns.

        `params` holds a value for each `:parameter` of the text. What cannot be parsed, typed or executed is a
        `RegisterError` that names the place; nothing is registered then.

        A `name` is that of one standing query. If a query has it already and is the same (text, constants, `kept`), it
        comes back, with the tags and the owner that are given now; if not, it is dropped, and the new one registered,
        in one step: a batch sees the one or the other. The new one has an id of its own. `tags` and `owner` are what
        `queries` and `drop` find it by.

        With `kept=True` every batch brings the answer up to date, also when only time has passed: `fetch` reads it, and
        `run(alerts=…)` is told what came and went.
        """
        names = name_array(name)
        ids = self._registering.register(sql, one_row(params), names, label_of(tags, owner), kept)
        return Query(self, int(ids[0]))

    def register_many(
        self,
        sql: str,
        params: Any,
        *,
        names: str | Sequence[str] | None = None,
        tags: Iterable[str] = (),
        owner: str | None = None,
        kept: bool = False,
    ) -> Queries:
        """Register one query for each row of `params`, whose columns are the `:parameters` of the text.

        `params` is an Arrow table, a pandas or Spark DataFrame, a dict of lists or a list of dicts. The text is parsed
        once, and a million rows are one document: all of them stand when this returns, or none. `names` is a column of
        `params`, or a sequence with a name for each row; each row is taken as `register` takes one, so queries that are
        the same keep their ids, and others are replaced, all in one step. `tags`, `owner` and `kept` are those of all.
        """
        table = as_table(params, "parameters", RegisterError)
        given = names_array(names, table)
        return Queries(self, self._registering.register(sql, table, given, label_of(tags, owner), kept))

    def replace(self, query: int | str, sql: str | None = None, params: Mapping[str, Any] | None = None) -> Query:
        """Register a query in the place of one that stands, known by its id or its name, in one step.

        A batch sees the one or the other. The new one has an id of its own, and the name, the tags, the owner and the
        `kept` of the old one. Without `sql` it has the old one's text, with these values for its parameters. If nothing
        changes, the query that stands comes back.
        """
        return Query(self, self._registering.replace(query, sql, params))

    def query(self, query: int | str) -> Query:
        """The query with this id or name, for a client that comes back later; if there is none it is a `QueryError`."""
        known = self._registering.find(query)
        self._library.standing(known)
        return Query(self, known)

    def fetch(self, ids: Any, at: datetime.datetime | str | int | None = None) -> Answers:
        """The answers of many queries at once, now or as of an earlier time: what `query(id).fetch(at)` gives of each.

        `ids` are numbers or handles of queries: a list, a range, an array, what `register_many` returned or a slice of
        it. An unknown or dropped id among them is a `QueryError`. Runs, match files and rows are gone through once for
        all queries of a shape, so ten thousand cost far less than as many single fetches.
        """
        return fetch_many(self, ids, at)

    def queries(
        self,
        *,
        id: int | Sequence[int] | np.ndarray | None = None,
        name: str | None = None,
        tag: str | None = None,
        owner: str | None = None,
        text: str | None = None,
    ) -> pa.Table:
        """The standing queries, a row each: all, or those that fit everything that is asked for.

        `text` is a part of the query's text as the column `sql` has it, in upper or lower case.

        The columns are `id, name, sql, tags, owner, shape, stream, family, first_batch, demoted, kept, reason`. `sql`
        is the text as it was written, with values in the place of parameters; the shape is the canonical text with
        `:c0, :c1, …` for constants. first_batch is NULL before a batch has seen the query; a demoted query is
        recomputed when it is asked for, and does not reach a sink. The reason says why: it matches too much to be kept,
        or the error with which it could not be matched. `retry` puts it back. `kept` says whether every batch brings
        its answer up to date; where that was given up, the reason says why.
        """
        wanted = filters(None if id is None else as_ids(id), name=name, tag=tag, owner=owner, text=text)
        self.registry.refresh()
        with self._reading:
            self.state.refresh(self.ledger)
            return listing(self._library.labels, self.state, wanted)

    def drop(
        self,
        ids: int | Sequence[int] | np.ndarray | None = None,
        *,
        name: str | None = None,
        tag: str | None = None,
        owner: str | None = None,
    ) -> int:
        """Drop queries by id, name, tag or owner, and say how many that were.

        They match nothing from the next planned batch on, and their answers are gone. If an id is unknown or dropped,
        or no query fits what is asked for, it is a `QueryError`, and none is dropped then. Ids are never used again.
        """
        is_by_id = ids is not None or (name, tag, owner) == (None, None, None)
        return self._registering.drop(filters(as_ids(ids) if is_by_id else None, name=name, tag=tag, owner=owner))

    def retry(self, ids: int | Sequence[int] | np.ndarray) -> None:
        """Have demoted queries matched again, and kept ones that were given up kept again, from the next batch on.

        For queries that could not be matched, or that matched too much, once the cause is gone. What still fails is
        given up again, with a reason. An id among them that is unknown, dropped or neither is a `QueryError`, and none
        is tried again then.
        """
        wanted = as_ids(ids)
        self.registry.refresh()
        self.registry.expect_standing(wanted)
        with self._reading:
            self.state.refresh(self.ledger)
            demoted = np.union1d(self.registry.queries_of(self.state.not_matched()), self.state.given_up.ids())
        for id in np.setdiff1d(wanted, demoted):
            raise QueryError(
                f"query {id} is neither demoted nor given up", hint="queries() tells which ones are, and why"
            )
        self.registry.retry(wanted)

    def explain(self, sql: str) -> str:
        """How a query would be executed, or why it cannot be; nothing is registered. Parameters need no value."""
        planned = plan_registration(sql, None, self.catalog, self.settings, refuse=False)
        return describe(planned, None, self.files, self.state)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────

    def push(self, stream: str, rows: Any) -> int:
        """Hand rows to the embedded source; they are durable when this returns. Returns the push's number.

        `rows` is an Arrow table, a pandas or Spark DataFrame, a dict of lists or a list of dicts. Columns may come in
        any order; only those that are defined as `null` or with a `default` may be missing. NaN is NULL, except in
        Arrow and Spark, which tell them apart. Rows that do not fit are a `PushError`, and none of them is taken. If
        there are no rows, nothing is pushed and the number is −1.
        """
        defined = self._definitions.stream(stream, PushError)
        if defined.source != "push":
            raise PushError(
                f"stream '{defined.name}' is fed by a streaming DataFrame", hint="define another stream for pushed rows"
            )
        table = rows_for(rows, defined, is_stamped=self.identity.clock == "arrival")
        if not table.num_rows:
            return -1
        return self.inbox.push(defined.name, table)

    def advance(self, time: datetime.datetime | str | int) -> int:
        """Say that rows up to this time have come: `now` is at least this once a batch has taken it.

        So windows move on though no row comes. `time` is a datetime, an ISO text, or µs since the epoch, UTC. As with
        `push`, it is durable when this returns, and a batch takes it exactly once, in the order of pushes, whose
        numbers it shares. Rows of the same batch are judged by the clock before it; those of later batches may be late.

        `now` never goes back: an earlier time changes nothing. It is a `PushError` if the time is further ahead of the
        wall clock than rows may be (the least `future` of the streams), if there is no stream yet, and on the arrival
        clock, where time moves by itself.
        """
        if self.identity.clock == "arrival":
            raise PushError(
                "this weir has the arrival clock, on which time moves by itself: it cannot be advanced",
                hint="the setting idle_tick_s has a running job move it though no rows come",
            )
        time_us = to_us(time, PushError)
        check_advance(time_us, self.catalog, time_ns() // 1_000)
        return self.inbox.advance(time_us)

    def upsert(self, table: str, rows: Any) -> int:
        """Put rows into a table: each takes the place of the row with its key, if there is one.

        As with `push`, they are durable when this returns, and a batch takes them exactly once, all together. Returns
        the push's number, −1 if there are no rows. Of rows with one key the last counts. A key (and the table's time)
        is never NULL; what does not fit is a `PushError`, and nothing is taken.
        """
        defined = self._pushed_table(table)
        return self._push_changes(defined, upserts(defined, rows))

    def delete(self, table: str, keys: Any) -> int:
        """Take rows out of a table, by their keys; a key that is not there does nothing.

        `keys` is what `push` takes, with the columns of the key, and that of the time if the table has one. If there
        is one column only, plain values will do: `"ORCL"`, or a list of them. Durable and taken once, like `upsert`.
        """
        defined = self._pushed_table(table)
        return self._push_changes(defined, deletions(defined, keys))

    def _pushed_table(self, name: str) -> Table:
        table = self._definitions.table(name, PushError)
        if table.source != "push":
            raise PushError(f"table '{table.name}' is changed by a streaming DataFrame", hint="add rows there")
        return table

    def _push_changes(self, table: Table, changes: pa.Table) -> int:
        return self.inbox.push(table.changes.name, changes) if changes.num_rows else -1

    def late(self, stream: str) -> pa.Table:
        """Rows of a stream that were not taken, with the column `weir_reason`.

        It says late, future, null time, reserved value or not UTF-8. A row is late if it is older than the stream's
        `keep`, counted back from the clock. Such rows are kept for `late_keep_s` seconds; `progress` goes on counting
        them. Of a table that a streaming DataFrame changes, the reason may be null key or unknown operation, too.
        """
        is_table = isinstance(stream, str) and stream.lower() in self.catalog.tables
        defined = (
            self._definitions.table(stream, StreamError).changes
            if is_table
            else self._definitions.stream(stream, StreamError)
        )

        def read(state: State) -> list[pa.Table]:
            return [read_table(self.files, f.path) for _, _, f in state.late_files if f.stream == defined.name]

        tables = self._read(read)
        if tables:
            return pa.concat_tables(tables)
        from weir.store.row_files import REASON, arrow_schema

        return arrow_schema(defined.columns).append(pa.field(REASON, pa.string())).empty_table()

    def _read(self, read: Callable[[State], T]) -> T:
        """Read at the newest batch; once more if files expired and were removed while we read them."""
        with self._reading:
            before = self.state.refresh(self.ledger)
            try:
                return read(self.state)
            except StoreError:
                if self.state.refresh(self.ledger) == before:
                    raise
                return read(self.state)

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def spark(self) -> SparkSession:
        """The Spark session; a local one is started when none was given."""
        if self._spark is None:
            self._owns_spark = sessions.existing_session() is None
            self._spark = sessions.local_session()
        return self._spark

    def run(
        self,
        *,
        trigger: str = "0 seconds",
        available_now: bool = False,
        sink: Callable[[DataFrame, int], None] | None = None,
        alerts: Callable[[DataFrame, int], None] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Run:
        """Run the job: a batch every `trigger`, or with `available_now` over what is there until it is done.

        With a trigger this returns at once and the job runs until `Run.stop()`; with `available_now` it returns when
        everything that was pushed before is matched. `sink(batch_df, n)` is called after each batch with its matches
        and their rows, like foreachBatch: at least once for each batch, with n to recognise a repetition.
        `alerts(df, n)` is called in the same way after each batch in which answers of kept queries changed; `df` has a
        row for each row that came or went (`query`, `came`, and the `row` as JSON). `say`
        receives a line about long work. What keeps the job from starting or going on is a `RunError`.
        """
        check_trigger(trigger)
        for what, given in (("sink", sink), ("alerts", alerts), ("say", say)):
            if given is not None and not callable(given):
                raise RunError(f"{what} is a {type(given).__name__}, expected a function")
        if self._run is not None and self._run.is_active:
            raise RunError("this weir is running already", hint="stop the other run first: run.stop()")
        fed = self.catalog.fed().values()
        missing = next((s.name for s in fed if s.source == "spark" and s.name not in self._frames), None)
        if missing is not None:
            what, name = ("table", missing.removesuffix(CHANGES)) if is_changes(missing) else ("stream", missing)
            raise RunError(
                f"{what} '{name}' is fed by a streaming DataFrame, which this process was not given",
                hint=f"call weir.{what}('{name}', df, …) with the same definition before run",
            )
        if not self.catalog.streams:
            raise RunError("there is no stream yet", hint="define one with weir.stream(…)")
        sessions.check(self.spark)
        self._run = Run(
            self, self._frames, trigger=trigger, available_now=available_now, sink=sink, alerts=alerts, say=say
        )
        self._run.start()
        if available_now:
            self._run.wait()
        return self._run

    def vacuum(self) -> Removed:
        """Remove expired and orphaned files now; the running job does it every so often by itself.

        Returns how many files of each kind it removed.
        """
        from weir.runtime.housekeeping import vacuum_now

        return vacuum_now(self.files, self.settings)
